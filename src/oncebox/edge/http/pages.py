"""Pages: lists of things in parts, each part saying where the next begins."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from msgspec import UNSET

from oncebox.edge.http.call import Call
from oncebox.edge.http.cursors import Cursors
from oncebox.wire.fields import ListQuery, Page

T = TypeVar("T")
P = TypeVar("P", bound=Page)

#: what comes after every id
END = "~"


def place(call: Call, route: str, otherwise: str) -> str:
    """Return where the wanted page begins.

    Raises: CursorInvalid.
    """
    query: ListQuery = call.query
    if query.cursor is UNSET:
        return otherwise
    return Cursors(call.rooms.master_key).read(query.cursor, call.tenant, route, query)


def page(
    call: Call,
    route: str,
    kind: type[P],
    found: Sequence[T],
    show: Callable[[T], Any],
    name: Callable[[T], str],
) -> P:
    """Return a page of what was found; one more than wanted tells that there are more."""
    query: ListQuery = call.query
    shown = found[: query.limit]
    has_more = len(found) > query.limit
    cursors = Cursors(call.rooms.master_key)
    cursor = cursors.make(name(shown[-1]), call.tenant, route, query) if has_more else None
    return kind(data=[show(each) for each in shown], next_cursor=cursor, has_more=has_more)  # type: ignore[call-arg]
