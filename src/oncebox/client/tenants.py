"""Tenants: who shares the installation; only for those who run it."""

from oncebox.client.call import Call, creating, paged, path
from oncebox.client.room import Listing, Room, Verb, When
from oncebox.wire import tenants as wire
from oncebox.wire.fields import ListQuery

_ALL = path("tenants")


def list_() -> Call[wire.TenantPage]:
    """Go through all tenants, by name."""
    return page()


def page(*, limit: int | None = None, cursor: str | None = None) -> Call[wire.TenantPage]:
    """Return some of the tenants, by name."""
    return paged(wire.TenantPage, _ALL, ListQuery, limit=limit, cursor=cursor)


def make(name: str, *, idempotency_key: str | None = None) -> Call[wire.MadeTenant]:
    """Make a tenant; its first key is in the answer, this once."""
    return creating(wire.MadeTenant, _ALL, wire.NewTenant(name=name), idempotency_key)


class Tenants(Room[When]):
    """``client.tenants``."""

    list = Listing(list_)
    page = Verb(page)
    make = Verb(make)
