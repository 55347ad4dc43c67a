"""``/v1/sources``: webhook sources, their secrets and settings."""

from functools import partial
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import UNSET

from oncebox.errors import NotFound
from oncebox.ledger.admin.sources import StoredSecret, StoredSource
from oncebox.model.webhooks.source import SourceEntry
from oncebox.schemas import sources as wire
from oncebox.schemas.fields import ListQuery, ReasonBody
from oncebox.server.http.cursors import make_page, page_start
from oncebox.server.http.routing import ADMIN, OPERATOR, ApiCall, CreateFunction, Route

_LIST = "/v1/sources"
_ONE = "/v1/sources/{name}"
_READ_SCOPES = frozenset({OPERATOR})
_WRITE_SCOPES = frozenset({ADMIN})

#: fields of the model that are in milliseconds there and in seconds here
_TIME_FIELDS = ("gap_wait", "after_wait", "budget", "first_wait", "longest_wait")
#: fields that have the same name and meaning here and there
_SAME_FIELDS = tuple(
    name
    for name in wire.Source.__struct_fields__
    if name not in {"path", "origin", "state", "troubles", "secrets", *_TIME_FIELDS}
)


async def list_sources(call: ApiCall) -> wire.SourcePage:
    """Return sources by name."""
    after = page_start(call, _LIST, "")
    found = [each for each in call.components.sources.all(call.tenant) if each.source.name > after]
    found = found[: call.query.limit + 1]
    return make_page(
        call,
        _LIST,
        wire.SourcePage,
        found,
        partial(_source_schema, call),
        lambda each: each.source.name,
    )


async def get_source(call: ApiCall) -> wire.Source:
    """Return one source."""
    return _source_schema(call, _find_source(call))


def create_source(call: ApiCall) -> CreateFunction:
    """Add a source."""
    asked: wire.NewSource = call.body
    table = _source_fields(asked, apart={"name", "public_id", "secrets"})

    def verb(tx: Any) -> wire.CreatedSource:
        keeper, deed = call.components.source_service, call.audit_entry()
        return _created_source_schema(
            keeper.add(tx, asked.name, table, deed, public_id=asked.public_id, texts=asked.secrets)
        )

    return verb


async def change_source(call: ApiCall) -> wire.Source:
    """Change a source; null is the default again."""
    asked: wire.SourceChange = call.body
    named = {
        name: value for name, value in msgspec.structs.asdict(asked).items() if value is not UNSET
    }
    changes = {name: value for name, value in named.items() if value is not None}
    unset = [name for name, value in named.items() if value is None]
    await call.components.ledger.write(
        call.components.source_service.change,
        call.path["name"],
        changes,
        call.audit_entry(),
        unset=unset,
    )
    return await _refreshed_source(call)


async def remove_source(call: ApiCall) -> None:
    """Forget a source and its secrets; its deliveries stay."""
    await call.components.ledger.write(
        call.components.source_service.remove, call.path["name"], call.audit_entry()
    )
    await refresh(call)


async def pause_source(call: ApiCall) -> wire.Source:
    """Stop taking in and working on a source."""
    deed = call.audit_entry(call.body.why)
    await call.components.ledger.write(
        call.components.source_service.pause, call.path["name"], deed
    )
    return await _refreshed_source(call)


async def resume_source(call: ApiCall) -> wire.Source:
    """Go on with a source."""
    deed = call.audit_entry(call.body.why)
    await call.components.ledger.write(
        call.components.source_service.resume, call.path["name"], deed
    )
    return await _refreshed_source(call)


def add_secret(call: ApiCall) -> CreateFunction:
    """Add a secret beside the others."""

    def verb(tx: Any) -> wire.SourceSecret:
        keeper = call.components.source_service
        return _secret_schema(
            keeper.add_secret(tx, call.path["name"], call.body.secret, call.audit_entry())
        )

    return verb


async def retire_secret(call: ApiCall) -> wire.Source:
    """Let a secret count no longer."""
    await call.components.ledger.write(
        call.components.source_service.retire_secret,
        call.path["name"],
        call.path["id"],
        call.audit_entry(),
    )
    return await _refreshed_source(call)


async def refresh(call: ApiCall) -> None:
    """See the change in this process at once."""
    await call.components.sources.refresh()


def _find_source(call: ApiCall) -> SourceEntry:
    entry = call.components.sources.find(call.tenant, call.path["name"])
    if entry is None:
        raise NotFound
    return entry


async def _refreshed_source(call: ApiCall) -> wire.Source:
    await refresh(call)
    return _source_schema(call, _find_source(call))


def _source_fields(asked: wire.SourceFields, *, apart: set[str]) -> dict[str, Any]:
    """Return the fields of a source as the office keeps them; null is the default."""
    return {
        name: value
        for name, value in msgspec.structs.asdict(asked).items()
        if name not in apart and value is not UNSET and value is not None
    }


def _source_schema(call: ApiCall, entry: SourceEntry) -> wire.Source:
    source = entry.source
    kept = call.components.sources.secrets(source.tenant, source.name)
    same = {name: getattr(source, name) for name in _SAME_FIELDS}
    times = {name: _seconds(getattr(source, name)) for name in _TIME_FIELDS}
    apart = {
        "path": _webhook_path(source.public_id),
        "origin": entry.origin,
        "state": entry.state,
        "troubles": [
            wire.SourceTrouble(code=each.code, message=each.message, secret=each.secret)
            for each in entry.troubles
        ],
        "secrets": [_secret_schema(each) for each in kept],
    }
    return msgspec.convert(same | times | apart, wire.Source, from_attributes=True)


def _created_source_schema(kept: StoredSource) -> wire.CreatedSource:
    return wire.CreatedSource(
        name=kept.name,
        public_id=kept.public_id,
        path=_webhook_path(kept.public_id),
        secrets=[_secret_schema(each) for each in kept.secrets],
    )


def _secret_schema(kept: StoredSecret) -> wire.SourceSecret:
    return wire.SourceSecret(
        id=kept.id,
        reference=kept.reference,
        created_at=kept.created_at,
        retired_at=kept.retired_at,
    )


def _webhook_path(public_id: str) -> str:
    return f"/in/{quote(public_id)}"


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


ROUTES = (
    Route(
        method="GET",
        path=_LIST,
        name="listSources",
        summary="Show sources by name.",
        scopes=_READ_SCOPES,
        query=ListQuery,
        answer=wire.SourcePage,
        handler=list_sources,
    ),
    Route(
        method="POST",
        path=_LIST,
        name="addSource",
        summary="Add a source.",
        scopes=_WRITE_SCOPES,
        body=wire.NewSource,
        answer=wire.CreatedSource,
        status=201,
        creator=create_source,
        after=refresh,
    ),
    Route(
        method="GET",
        path=_ONE,
        name="getSource",
        summary="Show one source and whether it takes requests.",
        scopes=_READ_SCOPES,
        answer=wire.Source,
        handler=get_source,
    ),
    Route(
        method="PATCH",
        path=_ONE,
        name="changeSource",
        summary="Change a source; what is not named stays, null is the default again.",
        scopes=_WRITE_SCOPES,
        body=wire.SourceChange,
        answer=wire.Source,
        handler=change_source,
    ),
    Route(
        method="DELETE",
        path=_ONE,
        name="removeSource",
        summary="Forget a source and its secrets; its deliveries stay.",
        scopes=_WRITE_SCOPES,
        status=204,
        handler=remove_source,
    ),
    Route(
        method="POST",
        path=f"{_ONE}/pause",
        name="pauseSource",
        summary="Stop taking in and working on a source.",
        scopes=_READ_SCOPES,
        body=ReasonBody,
        answer=wire.Source,
        handler=pause_source,
    ),
    Route(
        method="POST",
        path=f"{_ONE}/resume",
        name="resumeSource",
        summary="Go on with a source.",
        scopes=_READ_SCOPES,
        body=ReasonBody,
        answer=wire.Source,
        handler=resume_source,
    ),
    Route(
        method="POST",
        path=f"{_ONE}/secrets",
        name="addSecret",
        summary="Add a secret, which is tried before the older ones.",
        scopes=_WRITE_SCOPES,
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
        scopes=_WRITE_SCOPES,
        answer=wire.Source,
        handler=retire_secret,
    ),
)
