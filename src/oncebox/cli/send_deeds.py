"""``oncebox send resolve``, ``cancel``, ``resend``: what a person does, with who and why."""

from collections.abc import Callable
from functools import partial

import click

from oncebox.assembly import Rooms
from oncebox.cli.call import Call, examples, with_call
from oncebox.cli.deeds import require_why, signed
from oncebox.cli.office import deed_of, owned
from oncebox.ledger.events.outbox import EVENTS
from oncebox.ledger.office.audit import Deed
from oncebox.ledger.sends import interventions, sends
from oncebox.ledger.sends.sends import SENDS
from oncebox.model.send import Send
from oncebox.model.send_prospects import next_action
from oncebox.store.database import Transaction
from oncebox.wire.sends import answer_of

#: a change of one send, without its transaction: ``(tx, id, deed)``
Change = Callable[[Transaction, str, Deed], Send]


@click.command(
    "resolve",
    epilog=examples(
        "oncebox send resolve snd_… --sent --why 'the relay has logged it'",
        "oncebox send resolve snd_… --not-sent --why 'the relay has never seen it'",
    ),
)
@click.argument("wanted", metavar="ID")
@click.option("--sent/--not-sent", "sent", default=None, help="What you found when you looked.")
@click.option("--provider-id", default="", metavar="TEXT", help="What the provider calls it.")
@owned
@signed
@with_call
def resolve(  # noqa: PLR0913 - a deed simply has this many sides
    call: Call,
    *,
    wanted: str,
    sent: bool | None,
    provider_id: str,
    tenant: str | None,
    who: str,
    why: str | None,
) -> None:
    """Say what became of a send that is in doubt.

    Look at the other side first. What was sent is a duplicate ever after; what was not is armed
    again by whoever asks for it next, or by: oncebox send resend.
    """
    if sent is None:
        message = "say what you found: --sent or --not-sent"
        raise click.UsageError(message)
    if provider_id and not sent:
        message = "what was not sent has no name there; leave --provider-id away"
        raise click.UsageError(message)
    change = partial(interventions.resolve, sent=sent, provider_id=provider_id)
    _perform(call, wanted, change, tenant, who=who, why=why)


@click.command("cancel", epilog=examples("oncebox send cancel snd_… --why 'the wrong list'"))
@click.argument("wanted", metavar="ID")
@owned
@signed
@with_call
def cancel(call: Call, *, wanted: str, tenant: str | None, who: str, why: str | None) -> None:
    """Call a send off, as long as nothing of it was on the wire."""
    _perform(call, wanted, interventions.cancel, tenant, who=who, why=why)


@click.command("resend", epilog=examples("oncebox send resend snd_… --why 'the relay is mended'"))
@click.argument("wanted", metavar="ID")
@owned
@signed
@with_call
def resend(call: Call, *, wanted: str, tenant: str | None, who: str, why: str | None) -> None:
    """Send what is proven not sent, or repeat one in doubt once, at the risk of a second mail.

    Message-ID, Date and bytes stay the same.
    """
    _perform(call, wanted, interventions.resend, tenant, who=who, why=why)


def _perform(
    call: Call, wanted: str, change: Change, tenant: str | None, *, who: str, why: str | None
) -> None:
    """Change one send in a commit with its audit, and print how it stands.

    Raises: NotFound, StateConflict.
    """
    reason = require_why(why)

    async def work(rooms: Rooms) -> tuple[Send, int]:
        deed = deed_of(rooms, tenant, who=who, why=reason)
        id_ = await rooms.database.read(_only, deed.tenant, wanted)
        send = await rooms.database.write(change, id_, deed)
        rooms.database.ring(SENDS)
        rooms.database.ring(EVENTS)
        return send, deed.at

    send, now = call.run(work)
    if call.out.as_json:
        call.out.record(answer_of(send, now))
    elif not call.out.quiet:
        call.out.line(send.id, send.state, next_action(send, now))


def _only(tx: Transaction, tenant: str, wanted: str) -> str:
    """Return the one send that is meant by a name.

    Raises: NotFound.
    """
    found = sends.find(tx, tenant, wanted)
    if not found:
        raise sends.missing()
    if len(found) > 1:
        message = f"that name means {len(found)} sends; give the id: {', '.join(found)}"
        raise click.UsageError(message)
    return found[0]
