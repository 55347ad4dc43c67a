"""``oncebox source``: where deliveries come from, and how each is checked and worked."""

from collections.abc import Callable
from typing import Any

import click

from oncebox.assembly import Rooms
from oncebox.cli import source_options
from oncebox.cli.call import Call, examples, with_call
from oncebox.cli.office import deed_of, entry_of, owned, signed, tell_removed, whose
from oncebox.cli.source_shown import COLUMNS, lines, record, told
from oncebox.ledger.office.audit import Deed
from oncebox.ledger.office.keeper import Keeper
from oncebox.model.source import Entry
from oncebox.store.database import Transaction

#: a change of one source: ``(keeper, tx, deed)``
Change = Callable[[Keeper, Transaction, Deed], object]


@click.command(
    "add",
    epilog=examples(
        "oncebox source add stripe --scheme stripe --secret env:STRIPE_SECRET",
        "oncebox source add github --scheme github --secret - < secret.txt",
        "oncebox source add shop --scheme generic-hmac --option header=X-Sig --secret -",
    ),
)
@click.argument("name")
@click.option("--scheme", required=True, metavar="NAME", help="How requests are signed.")
@click.option(
    "--secret",
    "secrets",
    multiple=True,
    metavar="env:NAME|file:PATH|-",
    help="Where the secret is; - asks for it, or reads standard input. Repeatable.",
)
@click.option("--public-id", metavar="TEXT", help="Listen at /in/TEXT.  [the name]")
@source_options.fields
@owned
@signed
@with_call
def add(  # noqa: PLR0913 - a source simply has this many sides
    call: Call,
    /,
    *,
    name: str,
    secrets: tuple[str, ...],
    public_id: str | None,
    tenant: str | None,
    who: str,
    why: str,
    **typed: Any,
) -> None:
    """Add a source; it listens at /in/NAME within seconds.

    For tenants other than `default` it listens at an address nobody guesses, which is printed.
    Without a secret it stays unready, and its address answers 503.
    """
    if secrets.count("-") > 1:
        message = "standard input holds one secret; add others with: oncebox source secret add"
        raise click.UsageError(message)
    texts = [source_options.secret(each) for each in secrets]
    table = source_options.given(typed)

    def change(keeper: Keeper, tx: Transaction, deed: Deed) -> object:
        return keeper.add(tx, name, table, deed, public_id=public_id, texts=texts, references=True)

    entry = _changed(call, change, name, tenant, who=who, why=why, create=True)
    _print(call, entry, "added")


@click.command(
    "set",
    epilog=examples(
        "oncebox source set stripe --rate 20 --order-by '$.data.object.id'",
        "oncebox source set stripe --unset rate",
    ),
)
@click.argument("name")
@click.option("--scheme", metavar="NAME", help="How requests are signed.")
@source_options.fields
@click.option("--unset", multiple=True, metavar="FIELD", help="As by default again. Repeatable.")
@owned
@signed
@with_call
def set_(
    call: Call,
    /,
    *,
    name: str,
    unset: tuple[str, ...],
    tenant: str | None,
    who: str,
    why: str,
    **typed: Any,
) -> None:
    """Change fields of a source; the others stay as they are.

    An option that may be repeated replaces all that was set before.
    """
    changes = source_options.given(typed)
    fields = tuple(each.replace("-", "_") for each in unset)
    if not (changes or fields):
        message = "say what to change, such as --rate 20"
        raise click.UsageError(message)

    def change(keeper: Keeper, tx: Transaction, deed: Deed) -> None:
        keeper.change(tx, name, changes, deed, unset=fields)

    _print(call, _changed(call, change, name, tenant, who=who, why=why), "changed")


@click.command("pause")
@click.argument("name")
@owned
@signed
@with_call
def pause(call: Call, *, name: str, tenant: str | None, who: str, why: str) -> None:
    """Stop taking in and working on a source; senders are told to come back."""

    def change(keeper: Keeper, tx: Transaction, deed: Deed) -> None:
        keeper.pause(tx, name, deed)

    _print(call, _changed(call, change, name, tenant, who=who, why=why), "paused")


@click.command("resume")
@click.argument("name")
@owned
@signed
@with_call
def resume(call: Call, *, name: str, tenant: str | None, who: str, why: str) -> None:
    """Go on with a source that was paused."""

    def change(keeper: Keeper, tx: Transaction, deed: Deed) -> None:
        keeper.resume(tx, name, deed)

    _print(call, _changed(call, change, name, tenant, who=who, why=why), "resumed")


@click.command("remove")
@click.argument("name")
@owned
@signed
@with_call
def remove(call: Call, *, name: str, tenant: str | None, who: str, why: str) -> None:
    """Forget a source and its secrets; what it delivered stays."""

    async def work(rooms: Rooms) -> None:
        deed = deed_of(rooms, tenant, who=who, why=why)
        await rooms.database.write(rooms.keeper.remove, name, deed)

    call.run(work)
    tell_removed(call, name)


@click.command("list")
@owned
@with_call
def list_(call: Call, *, tenant: str | None) -> None:
    """Show sources, whether they take requests, and if not, why.

    A reference to a variable is judged by the environment of this command.
    """

    async def work(rooms: Rooms) -> list[Entry]:
        await rooms.book.refresh()
        return rooms.book.all(whose(rooms, tenant))

    found = call.run(work)
    if call.out.as_json:
        for entry in found:
            call.out.record(record(entry))
    elif call.out.quiet:
        for entry in found:
            call.out.line(entry.source.name)
    else:
        call.out.table(COLUMNS, [told(entry) for entry in found])


@click.command("show")
@click.argument("name")
@owned
@with_call
def show(call: Call, *, name: str, tenant: str | None) -> None:
    """Show all about a source except its secrets."""

    async def work(rooms: Rooms) -> tuple[Entry, Any]:
        entry = await entry_of(rooms, tenant, name)
        return entry, rooms.book.secrets(entry.source.tenant, name)

    entry, secrets = call.run(work)
    if call.out.as_json:
        call.out.record(record(entry, secrets))
    else:
        call.out.outline(lines(entry, secrets))


def _changed(  # noqa: PLR0913 - who, what, whose and why
    call: Call,
    change: Change,
    name: str,
    tenant: str | None,
    *,
    who: str,
    why: str,
    create: bool = False,
) -> Entry:
    """Change a source in one commit, and return it as it is then."""

    async def work(rooms: Rooms) -> Entry:
        deed = deed_of(rooms, tenant, who=who, why=why)
        await rooms.database.write(lambda tx: change(rooms.keeper, tx, deed))
        return await entry_of(rooms, tenant, name)

    return call.run(work, create=create)


def _print(call: Call, entry: Entry, done: str) -> None:
    if call.out.as_json:
        call.out.record({**record(entry), "action": done})
    elif call.out.quiet:
        call.out.line(entry.source.name)
    else:
        address = f"/in/{entry.source.public_id}"
        call.out.line(entry.source.name, done, entry.state, address, entry.note)
