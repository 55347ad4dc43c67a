"""``/v1/keys`` and ``/v1/self``: who may call, and who is calling."""

from typing import Any

from oncebox.edge.http.call import Call
from oncebox.edge.http.pages import page, place
from oncebox.edge.http.route import ADMIN, ANYONE, Creation, Route
from oncebox.ledger.office import keys
from oncebox.model.key import ApiKey
from oncebox.wire import keys as wire
from oncebox.wire.fields import ListQuery

_LIST = "/v1/keys"
_SCOPES = frozenset({ADMIN})


async def whoami(call: Call) -> wire.Self:
    """Return who is asking."""
    return wire.Self(tenant=call.tenant, key=shown(call.key, call.now))


async def list_(call: Call) -> wire.KeyPage:
    """Return keys, oldest first; never their texts."""
    after, now = place(call, _LIST, ""), call.now
    found = [
        each for each in await call.rooms.counter.read(keys.all_, call.tenant) if each.id > after
    ]
    return page(
        call, _LIST, wire.KeyPage, found, lambda each: shown(each, now), lambda each: each.id
    )


def create(call: Call) -> Creation:
    """Make a key; its text is in the answer, this once."""
    asked: wire.NewKey = call.body
    deed = call.deed()
    expires_at = None if asked.expires_in is None else deed.at + round(asked.expires_in * 1000)
    key, text = keys.make(deed, asked.scopes, expires_at=expires_at, name=asked.name)

    def verb(tx: Any) -> wire.MadeKey:
        keys.add(tx, key, text, deed)
        return made(key, text, deed.at)

    return verb


async def revoke(call: Call) -> wire.Key:
    """End a key for good."""
    deed = call.deed()
    key = await call.rooms.counter.write(keys.revoke, call.path["id"], deed)
    call.rooms.keys.forget()
    return shown(key, deed.at)


def shown(key: ApiKey, now: int) -> wire.Key:
    """Return a key as the outside sees it."""
    return wire.Key(
        id=key.id,
        name=key.name,
        hint=key.hint,
        scopes=list(key.scopes),
        state=key.state(now),
        created_at=key.created_at,
        expires_at=key.expires_at,
        revoked_at=key.revoked_at,
        last_used_at=key.last_used_at,
    )


def made(key: ApiKey, text: str, now: int) -> wire.MadeKey:
    """Return a new key with its text."""
    return wire.MadeKey(
        id=key.id,
        name=key.name,
        hint=key.hint,
        scopes=list(key.scopes),
        state=key.state(now),
        created_at=key.created_at,
        expires_at=key.expires_at,
        key=text,
    )


ROUTES = (
    Route(
        method="GET",
        path="/v1/self",
        name="getSelf",
        summary="Show whose key this is and what it may do.",
        scopes=ANYONE,
        answer=wire.Self,
        handler=whoami,
    ),
    Route(
        method="GET",
        path=_LIST,
        name="listKeys",
        summary="Show API keys, oldest first; never their texts.",
        scopes=_SCOPES,
        query=ListQuery,
        answer=wire.KeyPage,
        handler=list_,
    ),
    Route(
        method="POST",
        path=_LIST,
        name="makeKey",
        summary="Make an API key; its text is in the answer, this once.",
        scopes=_SCOPES,
        body=wire.NewKey,
        answer=wire.MadeKey,
        status=201,
        creator=create,
    ),
    Route(
        method="DELETE",
        path=f"{_LIST}/{{id}}",
        name="revokeKey",
        summary="End an API key for good; it is refused within seconds.",
        scopes=_SCOPES,
        answer=wire.Key,
        handler=revoke,
    ),
)
