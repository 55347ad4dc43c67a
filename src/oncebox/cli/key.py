"""``oncebox key``: who may call the service, what for and until when."""

import click

from oncebox.assembly import Rooms
from oncebox.cli.call import Call, examples, with_call
from oncebox.cli.durations import seconds
from oncebox.cli.office import deed_of, owned, signed, whose
from oncebox.cli.words import moment
from oncebox.ledger.office import keys
from oncebox.model.key import ApiKey

_COLUMNS = ("key", "state", "name", "scopes", "begins with", "made", "expires", "last used")


@click.command(
    "new",
    epilog=examples(
        "oncebox key new --scope operator --name 'ada, laptop' --expires 90d",
        "oncebox key new --scope worker:stripe --tenant acme",
    ),
)
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    required=True,
    metavar="SCOPE",
    help="admin, operator, agent or worker:SOURCE. Repeatable.",
)
@click.option("--name", default="", metavar="TEXT", help="What you call it.")
@click.option("--expires", type=seconds, metavar="TIME", help="From now, such as 90d.  [never]")
@owned
@signed
@with_call
def new(  # noqa: PLR0913 - a key simply has this many sides
    call: Call,
    *,
    scopes: tuple[str, ...],
    name: str,
    expires: float | None,
    tenant: str | None,
    who: str,
    why: str,
) -> None:
    """Make a key and print it, this once.

    Only its hash is kept, so nobody can show it again; a lost one is revoked and replaced.
    """

    async def work(rooms: Rooms) -> tuple[ApiKey, str]:
        deed = deed_of(rooms, tenant, who=who, why=why)
        expires_at = None if expires is None else deed.at + round(expires * 1000)
        key, text = keys.make(deed, scopes, expires_at=expires_at, name=name)
        await rooms.database.write(keys.add, key, text, deed)
        return key, text

    key, text = call.run(work, create=True)
    if call.out.as_json:
        call.out.record({**_record(key, key.created_at), "key": text})
    elif call.out.quiet:
        call.out.line(text)
    else:
        call.out.line(key.id, text)
        if call.out.on_terminal:
            click.echo("it is not shown again", err=True)


@click.command("list")
@owned
@with_call
def list_(call: Call, *, tenant: str | None) -> None:
    """Show keys, oldest first; never their texts, which nobody has."""

    async def work(rooms: Rooms) -> tuple[list[ApiKey], int]:
        return await rooms.database.read(keys.all_, whose(rooms, tenant)), rooms.database.clock()

    found, now = call.run(work)
    if call.out.as_json:
        for key in found:
            call.out.record(_record(key, now))
    elif call.out.quiet:
        for key in found:
            call.out.line(key.id)
    else:
        call.out.table(_COLUMNS, [_told(key, now) for key in found])


@click.command("revoke")
@click.argument("wanted", metavar="ID")
@owned
@signed
@with_call
def revoke(call: Call, *, wanted: str, tenant: str | None, who: str, why: str) -> None:
    """End a key for good; services refuse it within seconds."""

    async def work(rooms: Rooms) -> tuple[ApiKey, int]:
        deed = deed_of(rooms, tenant, who=who, why=why)
        return await rooms.database.write(keys.revoke, wanted, deed), deed.at

    key, now = call.run(work)
    if call.out.as_json:
        call.out.record(_record(key, now))
    elif not call.out.quiet:
        call.out.line(key.id, "revoked")


def _record(key: ApiKey, now: int) -> dict[str, object]:
    return {
        "id": key.id,
        "tenant": key.tenant,
        "name": key.name,
        "hint": key.hint,
        "scopes": list(key.scopes),
        "state": key.state(now),
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
        "last_used_at": key.last_used_at,
    }


def _told(key: ApiKey, now: int) -> tuple[object, ...]:
    times = (key.created_at, key.expires_at, key.last_used_at)
    return (
        key.id,
        key.state(now),
        key.name,
        " ".join(key.scopes),
        key.hint,
        *("" if each is None else moment(each) for each in times),
    )
