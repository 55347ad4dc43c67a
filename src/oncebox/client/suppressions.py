"""Suppressions: addresses that get no mail."""

from oncebox.client.call import Call, paged, path
from oncebox.client.room import Listing, Room, Verb, When
from oncebox.wire import transports as wire
from oncebox.wire.fields import ListQuery

_ALL = path("suppressions")


def list_() -> Call[wire.SuppressionPage]:
    """Go through all addresses that get no mail."""
    return page()


def page(*, limit: int | None = None, cursor: str | None = None) -> Call[wire.SuppressionPage]:
    """Return some addresses that get no mail."""
    return paged(wire.SuppressionPage, _ALL, ListQuery, limit=limit, cursor=cursor)


def add(address: str, *, why: str = "") -> Call[wire.Suppression]:
    """Let an address get no mail; a second time changes nothing."""
    body = wire.NewSuppression(address=address, why=why)
    return Call(method="PUT", path=_ALL, answer=wire.Suppression, body=body, repeatable=True)


def find(address: str) -> Call[wire.Suppression]:
    """Return the entry of an address that gets no mail.

    Raises: NotFound.
    """
    return Call(
        method="POST",
        path=path("suppressions", "find"),
        answer=wire.Suppression,
        body=wire.FindSuppression(address=address),
        repeatable=True,
    )


def remove(id: str) -> Call[wire.Suppression]:  # noqa: A002 - the word users know
    """Let an address get mail again, by the id of its entry."""
    return Call(method="DELETE", path=path("suppressions", id), answer=wire.Suppression)


class Suppressions(Room[When]):
    """``client.suppressions``."""

    list = Listing(list_)
    page = Verb(page)
    add = Verb(add)
    find = Verb(find)
    remove = Verb(remove)
