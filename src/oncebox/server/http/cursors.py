"""Encrypted list cursors and resume tokens, and pages of lists."""

import base64
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET

from oncebox.core.encryption import MasterKey
from oncebox.errors import CursorMismatch, MasterKeyWrong, NotFound
from oncebox.errors.http import CursorInvalid
from oncebox.schemas.fields import ListPage, ListQuery
from oncebox.server.http.routing import ApiCall

#: says how the rest is to be read; another number means another way
_CURSOR_VERSION = "c1_"
#: what is said about one page, not about the list
_UNBOUND_FIELDS = frozenset({"cursor", "limit", "wait"})
#: as the description of the API has it
_CURSOR = re.compile(_CURSOR_VERSION + r"([A-Za-z0-9_-]{38,1000})")


class Cursors:
    """Makes and reads the cursors of one installation."""

    def __init__(self, master_key: MasterKey) -> None:
        """Seal with this key."""
        self._master_key = master_key

    def make(self, place: str, tenant: str, route: str, query: msgspec.Struct) -> str:
        """Return a cursor for the things after ``place``."""
        sealed = self._master_key.encrypt(
            place.encode(), bound_to=_cursor_binding(tenant, route, query)
        )
        return _CURSOR_VERSION + base64.urlsafe_b64encode(sealed).decode().rstrip("=")

    def read(self, cursor: str, tenant: str, route: str, query: msgspec.Struct) -> str:
        """Return the place a cursor stands for; only for the list it was made for.

        Raises: CursorInvalid, when it is none; NotFound, when it is not one of this list.
        """
        text = _CURSOR.fullmatch(cursor)
        if text is None:
            raise CursorInvalid
        try:
            sealed = base64.urlsafe_b64decode(text[1] + "=" * (-len(text[1]) % 4))
            return self._master_key.decrypt(
                sealed, bound_to=_cursor_binding(tenant, route, query)
            ).decode()
        except (ValueError, MasterKeyWrong) as error:
            raise NotFound from error


def _cursor_binding(tenant: str, route: str, query: msgspec.Struct) -> bytes:
    """Bind a cursor to its list: tenant, route and filters, but not the page's size or its wait."""
    filters: dict[str, Any] = msgspec.to_builtins(query)
    kept = {name: filters[name] for name in sorted(filters) if name not in _UNBOUND_FIELDS}
    return b"cursor\0" + msgspec.json.encode([tenant, route, kept])


#: says how the rest is to be read; another number means another way
_RESUME_VERSION = "w1_"
_TOKEN = re.compile(_RESUME_VERSION + r"([A-Za-z0-9_-]{38,8000})")
#: what may be another with every request
_UNBOUND_WAIT_FIELDS = frozenset({"wait", "resume"})


class WaitProgress(msgspec.Struct, frozen=True, array_like=True):
    """How long somebody waits already."""

    #: when the first request came, in milliseconds since 1970
    began_at: int


class ResumeTokens:
    """Makes and reads the tokens of one request."""

    def __init__(
        self,
        master_key: MasterKey,
        *,
        tenant: str,
        key: str,
        inboxes: tuple[str, ...],
        asked: msgspec.Struct,
    ) -> None:
        """Bind them to the tenant, the API key, the inboxes and all that is asked for."""
        said = msgspec.to_builtins(asked)
        kept = {name: said[name] for name in sorted(said) if name not in _UNBOUND_WAIT_FIELDS}
        words = msgspec.json.encode([tenant, key, sorted(set(inboxes)), kept | {"inboxes": None}])
        self._bound_to = b"resume\0" + words
        self._master_key = master_key

    def make(self, progress: WaitProgress) -> str:
        """Return a token."""
        sealed = self._master_key.encrypt(msgspec.json.encode(progress), bound_to=self._bound_to)
        return _RESUME_VERSION + base64.urlsafe_b64encode(sealed).decode().rstrip("=")

    def read(self, token: str) -> WaitProgress:
        """Return what a token holds.

        Raises: CursorInvalid, when it is none; CursorMismatch, when it is for another request.
        """
        text = _TOKEN.fullmatch(token)
        if text is None:
            raise CursorInvalid("resume is not a token that was given out; begin without one")
        try:
            sealed = base64.urlsafe_b64decode(text[1] + "=" * (-len(text[1]) % 4))
            opened = self._master_key.decrypt(sealed, bound_to=self._bound_to)
        except (ValueError, MasterKeyWrong) as error:
            raise CursorMismatch(
                "this resume token was given out for another request; send it with the same "
                "key, inboxes and wishes, or begin without one"
            ) from error
        return msgspec.json.decode(opened, type=WaitProgress)


T = TypeVar("T")
P = TypeVar("P", bound=ListPage)

#: what comes after every id
AFTER_ALL_IDS = "~"


def page_start(call: ApiCall, route: str, otherwise: str) -> str:
    """Return where the wanted page begins.

    Raises: CursorInvalid.
    """
    query: ListQuery = call.query
    if query.cursor is UNSET:
        return otherwise
    return Cursors(call.components.master_key).read(query.cursor, call.tenant, route, query)


def make_page(
    call: ApiCall,
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
    cursors = Cursors(call.components.master_key)
    cursor = cursors.make(name(shown[-1]), call.tenant, route, query) if has_more else None
    return kind(data=[show(each) for each in shown], next_cursor=cursor, has_more=has_more)  # type: ignore[call-arg]
