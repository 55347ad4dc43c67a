"""``/v1/sources``: where deliveries come from."""

from functools import partial
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import UNSET

from oncebox.edge.http.call import Call
from oncebox.edge.http.pages import page, place
from oncebox.edge.http.route import ADMIN, OPERATOR, Creation, Route
from oncebox.errors import NotFound
from oncebox.ledger.office.sources import KeptSecret, KeptSource
from oncebox.model.source import Entry
from oncebox.wire import sources as wire
from oncebox.wire.fields import Because, ListQuery

_LIST = "/v1/sources"
_ONE = "/v1/sources/{name}"
_SEE = frozenset({OPERATOR})
_CHANGE = frozenset({ADMIN})

#: fields of the model that are in milliseconds there and in seconds here
_TIMES = ("gap_wait", "after_wait", "budget", "first_wait", "longest_wait")
#: fields that have the same name and meaning here and there
_SAME = tuple(
    name
    for name in wire.Source.__struct_fields__
    if name not in {"path", "origin", "state", "troubles", "secrets", *_TIMES}
)


async def list_(call: Call) -> wire.SourcePage:
    """Return sources by name."""
    after = place(call, _LIST, "")
    found = [each for each in call.rooms.book.all(call.tenant) if each.source.name > after]
    found = found[: call.query.limit + 1]
    return page(
        call, _LIST, wire.SourcePage, found, partial(_shown, call), lambda each: each.source.name
    )


async def get(call: Call) -> wire.Source:
    """Return one source."""
    return _shown(call, _found(call))


def create(call: Call) -> Creation:
    """Add a source."""
    asked: wire.NewSource = call.body
    table = _table(asked, apart={"name", "public_id", "secrets"})

    def verb(tx: Any) -> wire.MadeSource:
        keeper, deed = call.rooms.keeper, call.deed()
        return _made(
            keeper.add(tx, asked.name, table, deed, public_id=asked.public_id, texts=asked.secrets)
        )

    return verb


async def change(call: Call) -> wire.Source:
    """Change a source; null is the default again."""
    asked: wire.SourceChange = call.body
    named = {
        name: value for name, value in msgspec.structs.asdict(asked).items() if value is not UNSET
    }
    changes = {name: value for name, value in named.items() if value is not None}
    unset = [name for name, value in named.items() if value is None]
    await call.rooms.counter.write(
        call.rooms.keeper.change, call.path["name"], changes, call.deed(), unset=unset
    )
    return await _fresh(call)


async def remove(call: Call) -> None:
    """Forget a source and its secrets; its deliveries stay."""
    await call.rooms.counter.write(call.rooms.keeper.remove, call.path["name"], call.deed())
    await refresh(call)


async def pause(call: Call) -> wire.Source:
    """Stop taking in and working on a source."""
    deed = call.deed(call.body.why)
    await call.rooms.counter.write(call.rooms.keeper.pause, call.path["name"], deed)
    return await _fresh(call)


async def resume(call: Call) -> wire.Source:
    """Go on with a source."""
    deed = call.deed(call.body.why)
    await call.rooms.counter.write(call.rooms.keeper.resume, call.path["name"], deed)
    return await _fresh(call)


def add_secret(call: Call) -> Creation:
    """Add a secret beside the others."""

    def verb(tx: Any) -> wire.SourceSecret:
        keeper = call.rooms.keeper
        return _secret(keeper.add_secret(tx, call.path["name"], call.body.secret, call.deed()))

    return verb


async def retire_secret(call: Call) -> wire.Source:
    """Let a secret count no longer."""
    await call.rooms.counter.write(
        call.rooms.keeper.retire_secret, call.path["name"], call.path["id"], call.deed()
    )
    return await _fresh(call)


async def refresh(call: Call) -> None:
    """See the change in this process at once."""
    await call.rooms.book.refresh()


def _found(call: Call) -> Entry:
    entry = call.rooms.book.find(call.tenant, call.path["name"])
    if entry is None:
        raise NotFound
    return entry


async def _fresh(call: Call) -> wire.Source:
    await refresh(call)
    return _shown(call, _found(call))


def _table(asked: wire.SourceFields, *, apart: set[str]) -> dict[str, Any]:
    """Return the fields of a source as the office keeps them; null is the default."""
    return {
        name: value
        for name, value in msgspec.structs.asdict(asked).items()
        if name not in apart and value is not UNSET and value is not None
    }


def _shown(call: Call, entry: Entry) -> wire.Source:
    source = entry.source
    kept = call.rooms.book.secrets(source.tenant, source.name)
    same = {name: getattr(source, name) for name in _SAME}
    times = {name: _seconds(getattr(source, name)) for name in _TIMES}
    apart = {
        "path": _path(source.public_id),
        "origin": entry.origin,
        "state": entry.state,
        "troubles": [
            wire.SourceTrouble(code=each.code, message=each.message, secret=each.secret)
            for each in entry.troubles
        ],
        "secrets": [_secret(each) for each in kept],
    }
    return msgspec.convert(same | times | apart, wire.Source, from_attributes=True)


def _made(kept: KeptSource) -> wire.MadeSource:
    return wire.MadeSource(
        name=kept.name,
        public_id=kept.public_id,
        path=_path(kept.public_id),
        secrets=[_secret(each) for each in kept.secrets],
    )


def _secret(kept: KeptSecret) -> wire.SourceSecret:
    return wire.SourceSecret(
        id=kept.id,
        reference=kept.reference,
        created_at=kept.created_at,
        retired_at=kept.retired_at,
    )


def _path(public_id: str) -> str:
    return f"/in/{quote(public_id)}"


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


ROUTES = (
    Route(
        method="GET",
        path=_LIST,
        name="listSources",
        summary="Show sources by name.",
        scopes=_SEE,
        query=ListQuery,
        answer=wire.SourcePage,
        handler=list_,
    ),
    Route(
        method="POST",
        path=_LIST,
        name="addSource",
        summary="Add a source.",
        scopes=_CHANGE,
        body=wire.NewSource,
        answer=wire.MadeSource,
        status=201,
        creator=create,
        after=refresh,
    ),
    Route(
        method="GET",
        path=_ONE,
        name="getSource",
        summary="Show one source and whether it takes requests.",
        scopes=_SEE,
        answer=wire.Source,
        handler=get,
    ),
    Route(
        method="PATCH",
        path=_ONE,
        name="changeSource",
        summary="Change a source; what is not named stays, null is the default again.",
        scopes=_CHANGE,
        body=wire.SourceChange,
        answer=wire.Source,
        handler=change,
    ),
    Route(
        method="DELETE",
        path=_ONE,
        name="removeSource",
        summary="Forget a source and its secrets; its deliveries stay.",
        scopes=_CHANGE,
        status=204,
        handler=remove,
    ),
    Route(
        method="POST",
        path=f"{_ONE}/pause",
        name="pauseSource",
        summary="Stop taking in and working on a source.",
        scopes=_SEE,
        body=Because,
        answer=wire.Source,
        handler=pause,
    ),
    Route(
        method="POST",
        path=f"{_ONE}/resume",
        name="resumeSource",
        summary="Go on with a source.",
        scopes=_SEE,
        body=Because,
        answer=wire.Source,
        handler=resume,
    ),
    Route(
        method="POST",
        path=f"{_ONE}/secrets",
        name="addSecret",
        summary="Add a secret, which is tried before the older ones.",
        scopes=_CHANGE,
        body=wire.NewSecret,
        answer=wire.SourceSecret,
        status=201,
        creator=add_secret,
        after=refresh,
    ),
    Route(
        method="DELETE",
        path=f"{_ONE}/secrets/{{id}}",
        name="retireSecret",
        summary="Let a secret count no longer; its value is erased.",
        scopes=_CHANGE,
        answer=wire.Source,
        handler=retire_secret,
    ),
)
