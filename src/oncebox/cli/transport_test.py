"""``oncebox transport test``: whether mail would leave this way, and by one mail that it does."""

from typing import NamedTuple

import click

from oncebox import clock, ids
from oncebox.assembly import Rooms
from oncebox.cli import failures
from oncebox.cli.call import Call, examples, with_call
from oncebox.cli.durations import seconds
from oncebox.cli.office import owned, whose
from oncebox.cli.send_words import plainly
from oncebox.cli.transport_shown import config_of
from oncebox.ledger.sends import transports
from oncebox.model.email import Email
from oncebox.model.intent import Intent, Origin
from oncebox.model.outcome import NotSent
from oncebox.model.send import Send, SendState
from oncebox.model.transport import LOG, Transport
from oncebox.transport.email.config import opened
from oncebox.transport.email.probe import probe

#: seconds for a connection and a login
_CONNECT_WITHIN = 30.0
_EVENT = "oncebox.transport_test"
_LOGS = "it stores mail and sends none"
_WENT = {SendState.SENT, SendState.LOGGED}
_TEXT = "This is a test mail: it was sent to see whether mail leaves this way.\n"


class _Tested(NamedTuple):
    way: Transport
    trouble: NotSent | None
    send: Send | None


@click.command(
    "test",
    epilog=examples(
        "oncebox transport test relay",
        "oncebox transport test relay --to ann@example.com --from hello@example.com",
    ),
)
@click.argument("name")
@click.option("--to", metavar="ADDRESS", help="Send one test mail there.")
@click.option(
    "--from", "sender", default="", metavar="ADDRESS", help="Who it is from.  [the default sender]"
)
@click.option("--within", type=seconds, default="60s", show_default=True, metavar="TIME",
              help="How long to wait for what becomes of the mail.")  # fmt: skip
@owned
@with_call
def test(
    call: Call, *, name: str, to: str | None, sender: str, within: float, tenant: str | None
) -> int:
    """Connect and log in as for a mail, and send none: SMTP up to NOOP, Resend a harmless request.

    With --to one mail is sent, through the ledger like any other, so a service or worker must run.
    The exit code is 1 if it does not work, and 1 if nobody knows.
    """

    async def work(rooms: Rooms) -> _Tested:
        owner = whose(rooms, tenant)
        found = await rooms.database.read(transports.get, owner, name)
        way = opened(config_of(rooms, found))
        try:
            trouble = await probe(way, clock.steady() + _CONNECT_WITHIN)
        finally:
            await way.close()
        if trouble is not None or to is None:
            return _Tested(found, trouble, None)
        intent = Intent(
            email=Email(sender=sender, to=to, subject=f"Test of {name}", text=_TEXT),
            event_type=_EVENT,
            entity_id=ids.new("tst"),
            transport=name,
        )
        intended = await rooms.outbox.send(Origin(tenant=owner), intent)
        return _Tested(found, None, await rooms.outbox.outcome(intended.send, within))

    return _tell(call, call.run(work))


def _tell(call: Call, tested: _Tested) -> int:
    way, trouble, send = tested
    works = trouble is None and (send is None or send.state in _WENT)
    if call.out.as_json:
        call.out.record({
            "name": way.name,
            "works": works,
            "code": trouble.code if trouble else send.code if send else None,
            "phase": trouble.phase if trouble else send.phase if send else None,
            "reply": trouble.reply if trouble else send.reply if send else 0,
            "send": send.id if send else None,
            "state": send.state if send else None,
        })  # fmt: skip
    elif not call.out.quiet:
        call.out.line(way.name, *_words(tested))
    return failures.OK if works else failures.ERROR


def _words(tested: _Tested) -> tuple[object, ...]:
    way, trouble, send = tested
    if trouble is not None:
        return ("does not work", plainly(trouble.code, trouble.phase, trouble.reply))
    if send is None:
        log = way.kind == LOG
        return ("works", _LOGS if log else "connected and logged in; nothing was sent")
    if send.state in _WENT:
        taken = send.provider_id or "the mail was taken"
        return ("works", send.id, _LOGS if send.state is SendState.LOGGED else taken)
    if send.state is SendState.PENDING and not send.tries:
        return ("nobody took it", send.id, "run: oncebox serve; see: oncebox send explain")
    return (send.state, send.id, plainly(send.code, send.phase, send.reply))
