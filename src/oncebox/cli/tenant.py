"""``oncebox tenant``: who shares this installation."""

import click

from oncebox.assembly import Rooms
from oncebox.cli.call import Call, with_call
from oncebox.cli.office import deed_of, signed
from oncebox.cli.words import moment
from oncebox.ledger.office import tenants
from oncebox.model.tenant import Tenant


@click.command("new")
@click.argument("name")
@signed
@with_call
def new(call: Call, *, name: str, who: str, why: str) -> None:
    """Make a tenant: a party that sees nothing of the others."""

    async def work(rooms: Rooms) -> Tenant:
        return await rooms.database.write(tenants.new, name, deed_of(rooms, None, who=who, why=why))

    made = call.run(work, create=True)
    if call.out.as_json:
        call.out.record(made)
    else:
        call.out.line(made.name)


@click.command("list")
@with_call
def list_(call: Call) -> None:
    """Show all tenants; `default` is always there."""

    async def work(rooms: Rooms) -> list[Tenant]:
        return await rooms.database.read(tenants.all_)

    found = call.run(work)
    if call.out.as_json:
        for each in found:
            call.out.record(each)
    elif call.out.quiet:
        for each in found:
            call.out.line(each.name)
    else:
        rows = ((each.name, moment(each.created_at) if each.created_at else "") for each in found)
        call.out.table(("tenant", "made"), rows)
