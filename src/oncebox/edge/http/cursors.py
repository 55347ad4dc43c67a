"""Cursors: where a list goes on, sealed, so that nobody reads, makes or carries one elsewhere."""

import base64
import re
from typing import Any

import msgspec

from oncebox.errors import MasterKeyWrong, NotFound
from oncebox.refusals import CursorInvalid
from oncebox.seal import MasterKey

#: says how the rest is to be read; another number means another way
_VERSION = "c1_"
#: what is said about one page, not about the list
_PASSING = frozenset({"cursor", "limit", "wait"})
#: as the description of the API has it
_CURSOR = re.compile(_VERSION + r"([A-Za-z0-9_-]{38,1000})")


class Cursors:
    """Makes and reads the cursors of one installation."""

    def __init__(self, master_key: MasterKey) -> None:
        """Seal with this key."""
        self._master_key = master_key

    def make(self, place: str, tenant: str, route: str, query: msgspec.Struct) -> str:
        """Return a cursor for the things after ``place``."""
        sealed = self._master_key.seal(place.encode(), bound_to=_bound(tenant, route, query))
        return _VERSION + base64.urlsafe_b64encode(sealed).decode().rstrip("=")

    def read(self, cursor: str, tenant: str, route: str, query: msgspec.Struct) -> str:
        """Return the place a cursor stands for; only for the list it was made for.

        Raises: CursorInvalid, when it is none; NotFound, when it is not one of this list.
        """
        text = _CURSOR.fullmatch(cursor)
        if text is None:
            raise CursorInvalid
        try:
            sealed = base64.urlsafe_b64decode(text[1] + "=" * (-len(text[1]) % 4))
            return self._master_key.open(sealed, bound_to=_bound(tenant, route, query)).decode()
        except (ValueError, MasterKeyWrong) as error:
            raise NotFound from error


def _bound(tenant: str, route: str, query: msgspec.Struct) -> bytes:
    """Bind a cursor to its list: tenant, route and filters, but not the page's size or its wait."""
    filters: dict[str, Any] = msgspec.to_builtins(query)
    kept = {name: filters[name] for name in sorted(filters) if name not in _PASSING}
    return b"cursor\0" + msgspec.json.encode([tenant, route, kept])
