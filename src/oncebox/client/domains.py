"""Domains: which ones mail is taken for."""

from oncebox.client.call import Call, creating, paged, path
from oncebox.client.room import Listing, Room, Verb, When
from oncebox.wire import domains as wire
from oncebox.wire.fields import ListQuery

_ALL = path("domains")


def list_() -> Call[wire.DomainPage]:
    """Go through all domains, by name."""
    return page()


def page(*, limit: int | None = None, cursor: str | None = None) -> Call[wire.DomainPage]:
    """Return some of the domains, by name."""
    return paged(wire.DomainPage, _ALL, ListQuery, limit=limit, cursor=cursor)


def add(
    name: str, *, catch_all: bool = False, idempotency_key: str | None = None
) -> Call[wire.Domain]:
    """Take mail for a domain; with ``catch_all``, one inbox gets what no other has."""
    body = wire.NewDomain(name=name, catch_all=catch_all)
    return creating(wire.Domain, _ALL, body, idempotency_key)


def remove(name: str) -> Call[None]:
    """Take no more mail for a domain; its inboxes and messages stay."""
    return Call(method="DELETE", path=path("domains", name), answer=type(None))


class Domains(Room[When]):
    """``client.domains``."""

    list = Listing(list_)
    page = Verb(page)
    add = Verb(add)
    remove = Verb(remove)
