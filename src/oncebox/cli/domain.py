"""``oncebox domain``: which domains mail is taken for."""

from collections.abc import Iterator

import click

from oncebox.assembly import Rooms
from oncebox.cli.call import Call, examples, with_call
from oncebox.cli.office import deed_of, owned, signed, tell_removed, whose
from oncebox.cli.words import moment
from oncebox.ledger.events.outbox import EVENTS
from oncebox.ledger.inboxes.inboxes import Asker
from oncebox.model.domain import Domain, Record, records

_COLUMNS = ("domain", "other addresses", "added")


@click.command(
    "add",
    epilog=examples(
        "oncebox domain add inbox.example.com",
        "oncebox domain add inbox.example.com --catch-all",
    ),
)
@click.argument("name")
@click.option("--catch-all", is_flag=True, help="One inbox for every address that none has.")
@owned
@signed
@with_call
def add(call: Call, *, name: str, catch_all: bool, tenant: str | None, who: str, why: str) -> None:
    """Take mail for a domain, and print the DNS records to set.

    Without --catch-all, only mail for inboxes that were made is taken.
    """

    async def work(rooms: Rooms) -> tuple[Domain, tuple[Record, ...]]:
        deed = deed_of(rooms, tenant, who=who, why=why)
        asker = Asker(tenant=deed.tenant)
        domain = await rooms.database.write(
            rooms.postmaster.add_domain, name, asker, deed, catch_all=catch_all
        )
        rooms.database.ring(EVENTS)
        return domain, _records(rooms, domain)

    domain, found = call.run(work, create=True)
    if call.out.as_json:
        call.out.record({**_record(domain, found), "action": "added"})
    elif call.out.quiet:
        call.out.line(domain.name)
    else:
        call.out.line(domain.name, "added", *_rest(domain))
        for each in found:
            call.out.line(each.name, each.type, each.value)


@click.command("list")
@owned
@with_call
def list_(call: Call, *, tenant: str | None) -> None:
    """Show domains, and what becomes of addresses that no inbox has."""

    async def work(rooms: Rooms) -> list[tuple[Domain, tuple[Record, ...]]]:
        domains = await rooms.database.read(rooms.postmaster.domains, whose(rooms, tenant))
        return [(each, _records(rooms, each)) for each in domains]

    found = call.run(work)
    if call.out.as_json:
        for domain, its in found:
            call.out.record(_record(domain, its))
    elif call.out.quiet:
        for domain, _ in found:
            call.out.line(domain.name)
    else:
        call.out.table(_COLUMNS, [tuple(_told(domain)) for domain, _ in found])


@click.command("remove")
@click.argument("name")
@owned
@signed
@with_call
def remove(call: Call, *, name: str, tenant: str | None, who: str, why: str) -> None:
    """Take no more mail for a domain; its inboxes and messages stay."""

    async def work(rooms: Rooms) -> None:
        deed = deed_of(rooms, tenant, who=who, why=why)
        await rooms.database.write(rooms.postmaster.remove_domain, name, deed)

    call.run(work)
    tell_removed(call, name)


def _records(rooms: Rooms, domain: Domain) -> tuple[Record, ...]:
    return records(domain.name, rooms.settings.inboxes.host or f"mail.{domain.name}")


def _record(domain: Domain, found: tuple[Record, ...]) -> dict[str, object]:
    return {
        "name": domain.name,
        "tenant": domain.tenant,
        "catch_all": domain.catch_all,
        "created_at": domain.created_at,
        "records": found,
    }


def _rest(domain: Domain) -> tuple[str, ...]:
    return () if domain.catch_all is None else (f"catch-all {domain.catch_all}",)


def _told(domain: Domain) -> Iterator[str]:
    yield domain.name
    yield "refused" if domain.catch_all is None else domain.catch_all
    yield moment(domain.created_at) if domain.created_at else ""
