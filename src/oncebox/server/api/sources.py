"""``/v1/sources``: webhook sources, their secrets and settings."""

from collections.abc import Sequence
from functools import partial
from operator import attrgetter
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import UNSET

from oncebox.errors import NotFound
from oncebox.errors.http import Forbidden
from oncebox.ledger.admin.sources import StoredSecret
from oncebox.ledger.transactions import Transaction
from oncebox.model.webhooks.source import SourceEntry
from oncebox.schemas import sources as wire
from oncebox.schemas.fields import ListQuery, ReasonBody
from oncebox.server.http.cursors import make_page, page_start
from oncebox.server.http.routing import ADMINS, OPERATORS, ApiCall, Routes

routes = Routes()
#: fields in milliseconds in the model and in seconds in the API
_TIME_FIELDS = ("gap_wait", "after_wait", "budget", "first_wait", "longest_wait")
#: fields that are the same in the model and in the API
_SAME_FIELDS = tuple(
    name
    for name in wire.Source.__struct_fields__
    if name not in {"path", "origin", "state", "troubles", "secrets", *_TIME_FIELDS}
)


@routes("GET", "/v1/sources", "listSources", scopes=OPERATORS, query=ListQuery)
async def list_sources(call: ApiCall) -> wire.SourcePage:
    """List sources by name."""
    after = page_start(call, "")
    found = [each for each in call.components.sources.all(call.tenant) if each.source.name > after]
    return make_page(
        call,
        wire.SourcePage,
        found,
        partial(_source_schema, call),
        attrgetter("source.name"),
    )


async def _refresh(call: ApiCall) -> None:
    """Make a change visible in this process at once."""
    await call.components.sources.refresh()


@routes.create("/v1/sources", "addSource", scopes=ADMINS, body=wire.NewSource, after=_refresh)
def create_source(call: ApiCall, tx: Transaction) -> wire.CreatedSource:
    """Add a source."""
    asked: wire.NewSource = call.body
    if asked.public_id is not None and call.tenant != call.components.settings.tenant:
        # Whether it is free would tell what other tenants have.
        raise Forbidden("the public id is generated; omit public_id, or ask the operator")
    fields = {
        name: value
        for name, value in msgspec.structs.asdict(asked).items()
        if name not in {"name", "public_id", "secrets"} and value is not UNSET and value is not None
    }
    created = call.components.source_service.add(
        tx,
        asked.name,
        fields,
        call.audit_entry(),
        public_id=asked.public_id,
        texts=asked.secrets,
    )
    return wire.CreatedSource(
        name=created.name,
        public_id=created.public_id,
        path=_webhook_path(created.public_id),
        secrets=_secret_schemas(created.secrets),
    )


@routes("GET", "/v1/sources/{name}", "getSource", scopes=OPERATORS)
async def get_source(call: ApiCall) -> wire.Source:
    """Get a source and whether it accepts requests."""
    entry = call.components.sources.find(call.tenant, call.path["name"])
    if entry is None:
        raise NotFound
    return _source_schema(call, entry)


@routes("PATCH", "/v1/sources/{name}", "changeSource", scopes=ADMINS, body=wire.SourceChange)
async def change_source(call: ApiCall) -> wire.Source:
    """Change a source: omitted fields stay, null restores the default."""
    asked: wire.SourceChange = call.body
    named = {
        name: value for name, value in msgspec.structs.asdict(asked).items() if value is not UNSET
    }
    changes = {name: value for name, value in named.items() if value is not None}
    unset = [name for name, value in named.items() if value is None]
    await call.ledger.write(
        call.components.source_service.change,
        call.path["name"],
        changes,
        call.audit_entry(),
        unset=unset,
    )
    return await _refreshed(call)


@routes("DELETE", "/v1/sources/{name}", "removeSource", scopes=ADMINS)
async def remove_source(call: ApiCall) -> None:
    """Delete a source and its secrets; its deliveries stay."""
    await call.ledger.write(
        call.components.source_service.remove, call.path["name"], call.audit_entry()
    )
    await _refresh(call)


@routes("POST", "/v1/sources/{name}/pause", "pauseSource", scopes=OPERATORS, body=ReasonBody)
async def pause_source(call: ApiCall) -> wire.Source:
    """Pause a source: neither accept nor process its webhooks."""
    entry = call.audit_entry(call.body.why)
    await call.ledger.write(call.components.source_service.pause, call.path["name"], entry)
    return await _refreshed(call)


@routes("POST", "/v1/sources/{name}/resume", "resumeSource", scopes=OPERATORS, body=ReasonBody)
async def resume_source(call: ApiCall) -> wire.Source:
    """Resume a paused source."""
    entry = call.audit_entry(call.body.why)
    await call.ledger.write(call.components.source_service.resume, call.path["name"], entry)
    return await _refreshed(call)


@routes.create(
    "/v1/sources/{name}/secrets",
    "addSecret",
    scopes=ADMINS,
    body=wire.NewSecret,
    after=_refresh,
)
def add_secret(call: ApiCall, tx: Transaction) -> wire.SourceSecret:
    """Add a secret; it is tried before the older ones."""
    added = call.components.source_service.add_secret(
        tx, call.path["name"], call.body.secret, call.audit_entry()
    )
    return msgspec.convert(added, wire.SourceSecret, from_attributes=True)


@routes("DELETE", "/v1/sources/{name}/secrets/{id}", "retireSecret", scopes=ADMINS)
async def retire_secret(call: ApiCall) -> wire.Source:
    """Retire a secret and erase its value."""
    await call.ledger.write(
        call.components.source_service.retire_secret,
        call.path["name"],
        call.path["id"],
        call.audit_entry(),
    )
    return await _refreshed(call)


async def _refreshed(call: ApiCall) -> wire.Source:
    await _refresh(call)
    return await get_source(call)


def _source_schema(call: ApiCall, entry: SourceEntry) -> wire.Source:
    source = entry.source
    secrets = call.components.sources.secrets(source.tenant, source.name)
    values: dict[str, Any] = {name: getattr(source, name) for name in _SAME_FIELDS}
    for name in _TIME_FIELDS:
        milliseconds = getattr(source, name)
        values[name] = None if milliseconds is None else milliseconds / 1000
    values |= {
        "path": _webhook_path(source.public_id),
        "origin": entry.origin,
        "state": entry.state,
        "troubles": entry.troubles,
        "secrets": _secret_schemas(secrets),
    }
    return msgspec.convert(values, wire.Source, from_attributes=True)


def _secret_schemas(secrets: Sequence[StoredSecret]) -> list[wire.SourceSecret]:
    return msgspec.convert(secrets, list[wire.SourceSecret], from_attributes=True)


def _webhook_path(public_id: str) -> str:
    return f"/in/{quote(public_id)}"
