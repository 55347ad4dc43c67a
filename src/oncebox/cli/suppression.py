"""``oncebox suppression``: addresses that get no mail."""

import click

from oncebox.assembly import Rooms
from oncebox.cli.call import Call, examples, with_call
from oncebox.cli.office import deed_of, owned, signed, tell_removed, whose
from oncebox.cli.words import moment
from oncebox.ledger.sends import suppressions
from oncebox.ledger.sends.suppressions import Reason, Suppression
from oncebox.model.mailbox import read_mailbox

_COLUMNS = ("suppressed", "address", "reason", "send", "since")


@click.command("add", epilog=examples("oncebox suppression add ann@example.com --why 'she asked'"))
@click.argument("address")
@owned
@signed
@with_call
def add(call: Call, *, address: str, tenant: str | None, who: str, why: str) -> None:
    """Let an address get no more mail, from the next marker on, in whatever spelling.

    What is on the wire already is not stopped.
    """
    key = read_mailbox(address).key

    async def work(rooms: Rooms) -> tuple[Suppression, bool]:
        deed = deed_of(rooms, tenant, who=who, why=why)
        new = Suppression(
            mark=rooms.sendbox.mark(deed.tenant, key),
            address=rooms.sendbox.seal_address(deed.tenant, key),
            reason=Reason.MANUAL,
            send_id=None,
            created_at=deed.at,
        )
        return new, await rooms.database.write(suppressions.add, new, deed)

    new, is_new = call.run(work, create=True)
    if call.out.as_json:
        call.out.record({**_record(new, key), "created": is_new})
    elif call.out.quiet:
        call.out.line(_id(new))
    else:
        call.out.line(_id(new), "added" if is_new else "was there already")


@click.command("list", epilog=examples("oncebox suppression list --json | jq -r .address"))
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many at most."
)
@click.option("--after", default="", metavar="ID", help="Go on behind this one.")
@owned
@with_call
def list_(call: Call, *, limit: int, after: str, tenant: str | None) -> None:
    """Show addresses that get no mail, and why."""
    try:
        mark = bytes.fromhex(after)
    except ValueError as error:
        message = "write an id as the list shows it"
        raise click.BadParameter(message, param_hint="--after") from error

    async def work(rooms: Rooms) -> list[tuple[Suppression, str]]:
        owner = whose(rooms, tenant)
        found = await rooms.database.read(suppressions.page, owner, after=mark, most=limit)
        return [
            (each, rooms.sendbox.open_address(owner, each.mark, each.address)) for each in found
        ]

    found = call.run(work)
    if call.out.as_json:
        for each, address in found:
            call.out.record(_record(each, address))
    elif call.out.quiet:
        for each, _ in found:
            call.out.line(_id(each))
    else:
        rows = [
            (_id(each), address, each.reason, each.send_id, moment(each.created_at))
            for each, address in found
        ]
        call.out.table(_COLUMNS, rows)


@click.command("remove", epilog=examples("oncebox suppression remove ann@example.com --why fixed"))
@click.argument("address")
@owned
@signed
@with_call
def remove(call: Call, *, address: str, tenant: str | None, who: str, why: str) -> None:
    """Let an address get mail again; what was not sent stays so until: oncebox send resend."""
    key = read_mailbox(address).key

    async def work(rooms: Rooms) -> None:
        deed = deed_of(rooms, tenant, who=who, why=why)
        await rooms.database.write(suppressions.remove, rooms.sendbox.mark(deed.tenant, key), deed)

    call.run(work)
    tell_removed(call, key)


def _id(found: Suppression) -> str:
    return found.mark.hex()


def _record(found: Suppression, address: str) -> dict[str, object]:
    return {
        "id": _id(found),
        "address": address,
        "reason": found.reason,
        "send_id": found.send_id,
        "created_at": found.created_at,
    }
