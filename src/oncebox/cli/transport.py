"""``oncebox transport``: the ways by which mail leaves."""

from collections.abc import Callable
from typing import Any

import click

from oncebox.assembly import Rooms
from oncebox.cli import transport_options
from oncebox.cli.call import Call, examples, with_call
from oncebox.cli.office import deed_of, owned, signed, whose
from oncebox.cli.transport_shown import COLUMNS, config_of, lines, record, told
from oncebox.errors import ConfigInvalid
from oncebox.ledger.office.audit import Deed
from oncebox.ledger.sends import transports
from oncebox.ledger.sends.sends import SENDS
from oncebox.model.transport import NewTransport, Transport
from oncebox.store.database import Transaction
from oncebox.transport.email import config as configs
from oncebox.transport.email.config import LogConfig, TransportConfig

_LONGEST_NAME = 100


@click.command(
    "add",
    epilog=examples(
        "oncebox transport add relay --kind smtp --host smtp.example.com --username app \\",
        "    --password env:SMTP_PASSWORD",
        "oncebox transport add resend --kind resend --api-key - < key.txt",
        "oncebox transport add here --kind smtp --host 127.0.0.1 --port 2525 --security none",
    ),
)
@click.argument("name")
@click.option("--kind", required=True, type=click.Choice(transport_options.KINDS), help="By what.")
@transport_options.fields
@transport_options.ranked
@owned
@signed
@with_call
def add(  # noqa: PLR0913 - a transport simply has this many sides
    call: Call,
    /,
    *,
    name: str,
    kind: str,
    position: int | None,
    rate: str | None,
    tenant: str | None,
    who: str,
    why: str,
    **typed: Any,
) -> None:
    """Add a way by which mail leaves; mail that names none takes the first.

    Passwords and keys are read now and kept sealed; a file or variable that changes later is not
    seen, give it anew with: oncebox transport change.
    """
    config = transport_options.first(kind, transport_options.fetched(typed))
    _check(name, config)
    limit = transport_options.rate(rate)

    def write(rooms: Rooms, tx: Transaction, deed: Deed) -> Transport:
        new = NewTransport(
            name=name,
            kind=kind,
            config=_sealed(rooms, deed.tenant, name, config),
            position=position or 0,
            rate=limit if limit and limit.sends else None,
        )
        return transports.add(tx, new, deed)

    _changed(call, write, "added", tenant, who=who, why=why, create=True)


@click.command(
    "change",
    epilog=examples(
        "oncebox transport change relay --password file:/run/secrets/smtp",
        "oncebox transport change relay --rate 100/1min --position 1",
    ),
)
@click.argument("name")
@transport_options.fields
@transport_options.ranked
@owned
@signed
@with_call
def change(  # noqa: PLR0913 - as above
    call: Call,
    /,
    *,
    name: str,
    position: int | None,
    rate: str | None,
    tenant: str | None,
    who: str,
    why: str,
    **typed: Any,
) -> None:
    """Change what is typed and keep the rest; one that rested is tried again at once."""
    if position is None and rate is None and not any(typed.values()):
        message = "say what to change, such as --rate 100/1min"
        raise click.UsageError(message)
    given, limit = transport_options.fetched(typed), transport_options.rate(rate)

    def write(rooms: Rooms, tx: Transaction, deed: Deed) -> Transport:
        known = transports.get(tx, deed.tenant, name)
        config = transport_options.changed(config_of(rooms, known), given)
        _check(name, config)
        new = NewTransport(
            name=name,
            kind=known.kind,
            config=_sealed(rooms, deed.tenant, name, config),
            position=known.position if position is None else position,
            rate=known.rate if limit is None else limit if limit.sends else None,
        )
        return transports.change(tx, new, deed, seen=known.changed_at)

    _changed(call, write, "changed", tenant, who=who, why=why)


@click.command("list")
@owned
@with_call
def list_(call: Call, *, tenant: str | None) -> None:
    """Show transports, those that are taken first first, and whether they work.

    Until one is added, mail goes to `log`, which stores it and sends nothing.
    """

    async def work(rooms: Rooms) -> tuple[list[Transport], int]:
        found = await rooms.database.read(transports.all_, whose(rooms, tenant))
        return found, rooms.database.clock()

    found, now = call.run(work)
    if call.out.as_json:
        for each in found:
            call.out.record(record(each, now))
    elif call.out.quiet:
        for each in found:
            call.out.line(each.name)
    else:
        call.out.table(COLUMNS, [told(each, now) for each in found])


@click.command("show")
@click.argument("name")
@owned
@with_call
def show(call: Call, *, name: str, tenant: str | None) -> None:
    """Show all about a transport except its secrets."""

    async def work(rooms: Rooms) -> tuple[Transport, TransportConfig, int]:
        found = await rooms.database.read(transports.get, whose(rooms, tenant), name)
        return found, config_of(rooms, found), rooms.database.clock()

    found, config, now = call.run(work)
    if call.out.as_json:
        settings = [
            {"name": label, "value": value} for label, value in transport_options.lines(config)
        ]
        call.out.record({**record(found, now), "settings": settings})
    else:
        call.out.outline([*lines(found, now), *transport_options.lines(config)])


@click.command("pause")
@click.argument("name")
@owned
@signed
@with_call
def pause(call: Call, *, name: str, tenant: str | None, who: str, why: str) -> None:
    """Let nothing more leave by a transport; mail for it waits, what is on its way goes on."""

    def write(_rooms: Rooms, tx: Transaction, deed: Deed) -> Transport:
        return transports.pause(tx, name, deed)

    _changed(call, write, "paused", tenant, who=who, why=why)


@click.command("resume")
@click.argument("name")
@owned
@signed
@with_call
def resume(call: Call, *, name: str, tenant: str | None, who: str, why: str) -> None:
    """Let mail leave again by a transport that was paused."""

    def write(_rooms: Rooms, tx: Transaction, deed: Deed) -> Transport:
        return transports.pause(tx, name, deed, paused=False)

    _changed(call, write, "resumed", tenant, who=who, why=why)


#: what is written about one transport, in one commit
Write = Callable[[Rooms, Transaction, Deed], Transport]


def _changed(  # noqa: PLR0913 - what, whose, who and why
    call: Call,
    write: Write,
    done: str,
    tenant: str | None,
    *,
    who: str,
    why: str,
    create: bool = False,
) -> None:
    async def work(rooms: Rooms) -> tuple[Transport, int]:
        deed = deed_of(rooms, tenant, who=who, why=why)
        found = await rooms.database.write(lambda tx: write(rooms, tx, deed))
        rooms.database.ring(SENDS)
        return found, deed.at

    found, now = call.run(work, create=create)
    if call.out.as_json:
        call.out.record({**record(found, now), "action": done})
    elif call.out.quiet:
        call.out.line(found.name)
    else:
        call.out.line(found.name, done, found.kind)


def _check(name: str, config: TransportConfig) -> None:
    """Refuse what can never send, before it is kept.

    Raises: ConfigInvalid, SigningInvalid.
    """
    if not 1 <= len(name) <= _LONGEST_NAME or not name.isprintable() or name != name.strip():
        message = f"a transport is called by 1 to {_LONGEST_NAME} printable characters"
        raise ConfigInvalid(message)
    configs.opened(config)


def _sealed(rooms: Rooms, tenant: str, name: str, config: TransportConfig) -> bytes | None:
    if isinstance(config, LogConfig):
        return None
    return rooms.sendbox.seal_config(tenant, name, configs.written(config))
