"""``oncebox source secret``: several secrets of one source, so that one can follow another."""

import click

from oncebox.assembly import Rooms
from oncebox.cli import source_options
from oncebox.cli.call import Call, examples, with_call
from oncebox.cli.durations import seconds
from oncebox.cli.office import deed_of, entry_of, owned, signed
from oncebox.cli.source_shown import secret_record, secret_told
from oncebox.ledger.office.sources import KeptSecret
from oncebox.model.source import Entry


@click.command(
    "add",
    epilog=examples(
        "oncebox source secret add stripe --secret env:STRIPE_SECRET_2",
        "oncebox source secret add stripe --secret - < secret.txt",
    ),
)
@click.argument("name", metavar="SOURCE")
@click.option("--secret", "typed", required=True, metavar="env:NAME|file:PATH|-",
              help="Where the secret is; - asks for it, or reads standard input.")  # fmt: skip
@owned
@signed
@with_call
def add(call: Call, *, name: str, typed: str, tenant: str | None, who: str, why: str) -> None:
    """Add a secret; it is tried first, and the older ones still count."""
    text = source_options.secret(typed)

    async def work(rooms: Rooms) -> tuple[KeptSecret, Entry]:
        deed = deed_of(rooms, tenant, who=who, why=why)
        secret = await rooms.database.write(
            rooms.keeper.add_secret, name, text, deed, references=True
        )
        return secret, await entry_of(rooms, tenant, name)

    secret, entry = call.run(work)
    if call.out.as_json:
        call.out.record({**secret_record(secret), "source": name, "state": entry.state})
    elif call.out.quiet:
        call.out.line(secret.id)
    else:
        call.out.line(secret.id, "added", entry.state, entry.note)


@click.command("list")
@click.argument("name", metavar="SOURCE")
@owned
@with_call
def list_(call: Call, *, name: str, tenant: str | None) -> None:
    """Show which secrets there are and where they are kept, never what they are."""

    async def work(rooms: Rooms) -> tuple[KeptSecret, ...]:
        entry = await entry_of(rooms, tenant, name)
        return rooms.book.secrets(entry.source.tenant, name)

    found = call.run(work)
    if call.out.as_json:
        for each in found:
            call.out.record(secret_record(each))
    elif call.out.quiet:
        for each in found:
            call.out.line(each.id)
    else:
        columns = ("secret", "kept", "added", "retired")
        call.out.table(columns, [secret_told(each) for each in found])


@click.command(
    "retire", epilog=examples("oncebox source secret retire stripe sec_… --in 24h --why rotated")
)
@click.argument("name", metavar="SOURCE")
@click.argument("wanted", metavar="ID")
@click.option("--in", "later", type=seconds, metavar="TIME", help="Not yet, but after that time.")
@owned
@signed
@with_call
def retire(  # noqa: PLR0913 - who, what, whose, when and why
    call: Call,
    *,
    name: str,
    wanted: str,
    later: float | None,
    tenant: str | None,
    who: str,
    why: str,
) -> None:
    """Let a secret count no longer, and erase its value."""

    async def work(rooms: Rooms) -> Entry:
        deed = deed_of(rooms, tenant, who=who, why=why)
        at = deed.at + round((later or 0) * 1000)
        await rooms.database.write(rooms.keeper.retire_secret, name, wanted, deed, at=at)
        return await entry_of(rooms, tenant, name)

    entry = call.run(work)
    if call.out.as_json:
        call.out.record({"id": wanted, "source": name, "state": entry.state, "action": "retired"})
    elif not call.out.quiet:
        call.out.line(wanted, "retired", entry.state, entry.note)
