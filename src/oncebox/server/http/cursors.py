"""Encrypted list cursors and resume tokens, and pages of lists."""

import base64
import re
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET

from oncebox.core.encryption import MasterKey
from oncebox.errors import CursorMismatch, MasterKeyWrong, NotFound
from oncebox.errors.http import CursorInvalid
from oncebox.schemas.fields import ListPage, ListQuery
from oncebox.server.http.routing import ApiCall

#: formats of cursors and resume tokens; the prefix is their version
_CURSOR = re.compile(r"c1_[A-Za-z0-9_-]{38,1000}")
_RESUME = re.compile(r"w1_[A-Za-z0-9_-]{38,8000}")
_PREFIX_LENGTH = 3
#: the purpose of the key that encrypts them
_CURSOR_KEY = "cursor"


def _seal(master_key: MasterKey, prefix: str, text: bytes, bound_to: bytes) -> str:
    sealed = master_key.encrypt(text, bound_to=bound_to, purpose=_CURSOR_KEY)
    return prefix + base64.urlsafe_b64encode(sealed).decode().rstrip("=")


def _open(master_key: MasterKey, token: str, bound_to: bytes) -> bytes:
    """Raises: ValueError, MasterKeyWrong."""
    text = token[_PREFIX_LENGTH:]
    sealed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    return master_key.decrypt(sealed, bound_to=bound_to, purpose=_CURSOR_KEY)


def _bound_fields(asked: msgspec.Struct, *unbound: str) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(asked)
    return {name: fields[name] for name in sorted(fields) if name not in unbound}


class Cursors:
    """Makes and reads the list cursors of one installation."""

    def __init__(self, master_key: MasterKey) -> None:
        """Encrypt with this key."""
        self._master_key = master_key

    def make(self, position: str, tenant: str, route: str, query: msgspec.Struct) -> str:
        """Return a cursor for what comes after ``position``."""
        bound_to = _cursor_binding(tenant, route, query)
        return _seal(self._master_key, "c1_", position.encode(), bound_to)

    def read(self, cursor: str, tenant: str, route: str, query: msgspec.Struct) -> str:
        """Return the position of a cursor; only for the list it was made for.

        Raises: CursorInvalid, if it is none; NotFound, if it is one of another list.
        """
        if not _CURSOR.fullmatch(cursor):
            raise CursorInvalid
        try:
            bound_to = _cursor_binding(tenant, route, query)
            return _open(self._master_key, cursor, bound_to).decode()
        except (ValueError, MasterKeyWrong) as error:
            raise NotFound from error


def _cursor_binding(tenant: str, route: str, query: msgspec.Struct) -> bytes:
    """Bind a cursor to its list: tenant, route and filters, but neither page size nor wait."""
    filters = _bound_fields(query, "cursor", "limit", "wait")
    return b"cursor\0" + msgspec.json.encode([tenant, route, filters])


class ResumeTokens:
    """Makes and reads the tokens by which a wait goes on in the next request.

    They are bound to the tenant, the API key, the inboxes and everything that is waited for.
    """

    def __init__(self, call: ApiCall, inboxes: tuple[str, ...]) -> None:
        """Use the master key of the installation."""
        each_poll = ("wait", "resume", "request_key", "last")
        asked = _bound_fields(call.body, *each_poll) | {"inboxes": None}
        words = msgspec.json.encode([call.tenant, call.key.id, sorted(set(inboxes)), asked])
        self._bound_to = b"resume\0" + words
        self._master_key = call.components.master_key

    def make(self, began_at: int, *, contended: bool) -> str:
        """Return the token of a wait that began then, and whether it met a lease of another."""
        state = msgspec.json.encode([began_at, int(contended)])
        return _seal(self._master_key, "w1_", state, self._bound_to)

    def read(self, token: str) -> tuple[int, bool]:
        """Return when a wait began, and whether it has met a lease of another worker.

        Raises: CursorInvalid, if it is no token; CursorMismatch, if it is of another request.
        """
        if not _RESUME.fullmatch(token):
            raise CursorInvalid("resume is not a token of this service; begin without one")
        try:
            opened = _open(self._master_key, token, self._bound_to)
        except (ValueError, MasterKeyWrong) as error:
            raise CursorMismatch(
                "this resume token belongs to another request; send it with the same key, inboxes "
                "and filters, or begin without one"
            ) from error
        began_at, *contended = msgspec.json.decode(opened, type=list[int])
        return began_at, any(contended)


T = TypeVar("T")
P = TypeVar("P", bound=ListPage)

#: sorts after every id
AFTER_ALL_IDS = "~"


def list_name(call: ApiCall) -> str:
    """Return the path of the list a call reads, to which its cursors are bound."""
    return call.route.path.format(**call.path)


def page_start(call: ApiCall, first: str = AFTER_ALL_IDS) -> str:
    """Return where the requested page begins; ``first`` is the beginning of the list.

    Raises: CursorInvalid, NotFound.
    """
    query: ListQuery = call.query
    if query.cursor is UNSET:
        return first
    cursors = Cursors(call.components.master_key)
    return cursors.read(query.cursor, call.tenant, list_name(call), query)


def make_page(
    call: ApiCall,
    kind: type[P],
    found: Sequence[T],
    show: Callable[[T], Any],
    position: Callable[[T], str] = attrgetter("id"),
) -> P:
    """Return a page of the rows found; a row more than the limit means that there are more."""
    query: ListQuery = call.query
    shown = found[: query.limit]
    has_more = len(found) > query.limit
    cursor = None
    if has_more:
        cursors = Cursors(call.components.master_key)
        cursor = cursors.make(position(shown[-1]), call.tenant, list_name(call), query)
    return kind(data=[show(each) for each in shown], next_cursor=cursor, has_more=has_more)  # type: ignore[call-arg]
