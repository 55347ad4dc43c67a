"""``oncebox send``: mail that goes out, each intent once."""

from pathlib import Path

import click

from oncebox.assembly import Rooms
from oncebox.cli.call import Call, examples, with_call
from oncebox.cli.office import owned, whose
from oncebox.cli.send_shown import COLUMNS, lines, record, told
from oncebox.cli.send_story import story
from oncebox.errors import NotFound
from oncebox.ledger.office import audit
from oncebox.ledger.sends import sends, transports
from oncebox.ledger.sends.sends import Wanted
from oncebox.model.inspection import Audited
from oncebox.model.send import Send, SendState, SendTry
from oncebox.model.transport import Transport
from oncebox.store.database import Transaction
from oncebox.wire.sends import answer_of

#: what comes after every id
_END = "~"
_FILE = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)


@click.command(
    "list",
    epilog=examples(
        "oncebox send list --state unknown",
        "oncebox send list --transport relay --json | jq -r .message_id",
    ),
)
@click.option("--state", type=click.Choice([str(each) for each in SendState]), help="Only these.")
@click.option("--transport", metavar="NAME", help="Only by this one.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many at most."
)
@click.option("--before", metavar="ID", default=_END, help="Go on below this one.")
@owned
@with_call
def list_(
    call: Call,
    *,
    state: str | None,
    transport: str | None,
    limit: int,
    before: str,
    tenant: str | None,
) -> None:
    """Show sends, newest first; never whom they are for, nor what they say."""

    async def work(rooms: Rooms) -> tuple[list[Send], int]:
        wanted = Wanted(
            whose(rooms, tenant), state=SendState(state) if state else None, transport=transport
        )
        found = await rooms.database.read(sends.newest, wanted, before=before, most=limit)
        return found, rooms.database.clock()

    found, now = call.run(work)
    if call.out.as_json:
        for each in found:
            call.out.record(answer_of(each, now))
    elif call.out.quiet:
        for each in found:
            call.out.line(each.id)
    else:
        call.out.table(COLUMNS, [told(each, now, call.out) for each in found])


@click.command(
    "inspect",
    epilog=examples(
        "oncebox send inspect snd_…",
        "oncebox send inspect '<4e1c…@example.com>' --json | jq -r .next_action",
    ),
)
@click.argument("wanted", metavar="ID")
@owned
@with_call
def inspect(call: Call, *, wanted: str, tenant: str | None) -> None:
    """Show all that is known of a send: by our id, its Message-ID, or the provider's id.

    Every try with how far it came, the lease, the doubt, what people did, and what happens next.
    """

    async def work(rooms: Rooms) -> tuple[list["_Seen"], int]:
        found = await rooms.database.read(_look, whose(rooms, tenant), wanted)
        return found, rooms.database.clock()

    found, now = call.run(work)
    for number, (send, tries, deeds, _) in enumerate(found):
        if call.out.as_json:
            call.out.record(record(send, tries, now))
            continue
        if number:
            call.out.line()
        call.out.outline(lines(send, tries, deeds, now))


@click.command("explain", epilog=examples("oncebox send explain snd_…"))
@click.argument("wanted", metavar="ID")
@owned
@with_call
def explain(call: Call, *, wanted: str, tenant: str | None) -> None:
    """Say in plain English why a send stands where it stands, and what may happen next."""

    async def work(rooms: Rooms) -> tuple[list["_Seen"], int]:
        found = await rooms.database.read(_look, whose(rooms, tenant), wanted)
        return found, rooms.database.clock()

    found, now = call.run(work)
    for send, tries, _, transport in found:
        sentences = list(story(send, tries, transport, now))
        if call.out.as_json:
            call.out.record({"id": send.id, "state": send.state, "sentences": sentences})
            continue
        call.out.line(f"{send.id}:")
        for each in sentences:
            call.out.line(each)


#: a send, its tries, what people did, and its transport
_Seen = tuple[Send, list[SendTry], list[Audited], Transport | None]


def _look(tx: Transaction, tenant: str, wanted: str) -> list[_Seen]:
    """Return what is meant by a name, with all that belongs to it.

    Raises: NotFound.
    """
    found = [sends.get(tx, tenant, each) for each in sends.find(tx, tenant, wanted)]
    if not found:
        raise sends.missing()
    return [
        (
            each,
            sends.tries(tx, tenant, each.id),
            audit.of(tx, tenant, f"send:{each.id}"),
            _transport(tx, each),
        )
        for each in found
    ]


def _transport(tx: Transaction, send: Send) -> Transport | None:
    try:
        return transports.get(tx, send.tenant, send.transport)
    except NotFound:
        return None
