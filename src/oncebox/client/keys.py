"""API keys: who may call, and who is calling."""

from collections.abc import Sequence

from oncebox.client.call import Call, creating, paged, path
from oncebox.client.room import Listing, Room, Verb, When
from oncebox.wire import keys as wire
from oncebox.wire.fields import ListQuery

_ALL = path("keys")


def mine() -> Call[wire.Self]:
    """Return whose key this client uses, and what it may do."""
    return Call(method="GET", path=path("self"), answer=wire.Self, repeatable=True)


def list_() -> Call[wire.KeyPage]:
    """Go through all keys, oldest first; never their texts."""
    return page()


def page(*, limit: int | None = None, cursor: str | None = None) -> Call[wire.KeyPage]:
    """Return some of the keys, oldest first."""
    return paged(wire.KeyPage, _ALL, ListQuery, limit=limit, cursor=cursor)


def make(
    scopes: Sequence[str],
    *,
    name: str = "",
    expires_in: float | None = None,
    idempotency_key: str | None = None,
) -> Call[wire.MadeKey]:
    """Make a key; its text is in the answer, this once. ``expires_in`` is in seconds."""
    body = wire.NewKey(scopes=list(scopes), name=name, expires_in=expires_in)
    return creating(wire.MadeKey, _ALL, body, idempotency_key)


def revoke(id: str) -> Call[wire.Key]:  # noqa: A002 - the word users know
    """End a key for good; ending it twice changes nothing."""
    return Call(method="DELETE", path=path("keys", id), answer=wire.Key, repeatable=True)


class Keys(Room[When]):
    """``client.keys``."""

    mine = Verb(mine)
    list = Listing(list_)
    page = Verb(page)
    make = Verb(make)
    revoke = Verb(revoke)
