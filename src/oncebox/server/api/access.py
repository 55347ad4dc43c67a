"""``/v1/keys``, ``/v1/self`` and ``/v1/tenants``: API keys and tenants."""

from typing import Any

import msgspec

from oncebox.ledger.admin import api_keys, tenants
from oncebox.model.admin.access import ApiKey, Tenant
from oncebox.schemas import access as wire
from oncebox.schemas.fields import ListQuery
from oncebox.server.http.cursors import make_page, page_start
from oncebox.server.http.routing import ADMIN, ANYONE, ApiCall, CreateFunction, Route

_KEYS_PATH = "/v1/keys"
_KEY_SCOPES = frozenset({ADMIN})


async def whoami(call: ApiCall) -> wire.CurrentKey:
    """Return who is asking."""
    return wire.CurrentKey(tenant=call.tenant, key=key_schema(call.key, call.now))


async def list_keys(call: ApiCall) -> wire.KeyPage:
    """Return keys, oldest first; never their texts."""
    after, now = page_start(call, _KEYS_PATH, ""), call.now
    found = [
        each
        for each in await call.components.ledger.read(api_keys.list_all, call.tenant)
        if each.id > after
    ]
    return make_page(
        call,
        _KEYS_PATH,
        wire.KeyPage,
        found,
        lambda each: key_schema(each, now),
        lambda each: each.id,
    )


def create_key(call: ApiCall) -> CreateFunction:
    """Make a key; its text is in the answer, this once."""
    asked: wire.NewKey = call.body
    deed = call.audit_entry()
    expires_at = None if asked.expires_in is None else deed.at + round(asked.expires_in * 1000)
    key, text = api_keys.generate(deed, asked.scopes, expires_at=expires_at, name=asked.name)

    def verb(tx: Any) -> wire.CreatedApiKey:
        api_keys.add(tx, key, text, deed)
        return created_key_schema(key, text, deed.at)

    return verb


async def revoke_key(call: ApiCall) -> wire.ApiKey:
    """End a key for good."""
    deed = call.audit_entry()
    key = await call.components.ledger.write(api_keys.revoke, call.path["id"], deed)
    call.components.api_keys.clear()
    return key_schema(key, deed.at)


def key_schema(key: ApiKey, now: int) -> wire.ApiKey:
    """Return a key as the outside sees it."""
    return wire.ApiKey(
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


def created_key_schema(key: ApiKey, text: str, now: int) -> wire.CreatedApiKey:
    """Return a new key with its text."""
    return wire.CreatedApiKey(
        id=key.id,
        name=key.name,
        hint=key.hint,
        scopes=list(key.scopes),
        state=key.state(now),
        created_at=key.created_at,
        expires_at=key.expires_at,
        key=text,
    )


KEY_ROUTES = (
    Route(
        method="GET",
        path="/v1/self",
        name="getSelf",
        summary="Show whose key this is and what it may do.",
        scopes=ANYONE,
        answer=wire.CurrentKey,
        handler=whoami,
    ),
    Route(
        method="GET",
        path=_KEYS_PATH,
        name="listKeys",
        summary="Show API keys, oldest first; never their texts.",
        scopes=_KEY_SCOPES,
        query=ListQuery,
        answer=wire.KeyPage,
        handler=list_keys,
    ),
    Route(
        method="POST",
        path=_KEYS_PATH,
        name="makeKey",
        summary="Make an API key; its text is in the answer, this once.",
        scopes=_KEY_SCOPES,
        body=wire.NewKey,
        answer=wire.CreatedApiKey,
        status=201,
        creator=create_key,
    ),
    Route(
        method="DELETE",
        path=f"{_KEYS_PATH}/{{id}}",
        name="revokeKey",
        summary="End an API key for good; it is refused within seconds.",
        scopes=_KEY_SCOPES,
        answer=wire.ApiKey,
        handler=revoke_key,
    ),
)


_TENANTS_PATH = "/v1/tenants"
_TENANT_SCOPES = frozenset({ADMIN})


async def list_tenants(call: ApiCall) -> wire.TenantPage:
    """Return tenants by name."""
    after = page_start(call, _TENANTS_PATH, "")
    found = sorted(
        (each for each in await call.components.ledger.read(tenants.list_all) if each.name > after),
        key=lambda each: each.name,
    )
    return make_page(
        call, _TENANTS_PATH, wire.TenantPage, found, _tenant_schema, lambda each: each.name
    )


def create_tenant(call: ApiCall) -> CreateFunction:
    """Make a tenant and its first key."""
    name: str = call.body.name
    deed = call.audit_entry()
    its_own = msgspec.structs.replace(call.audit_entry(), tenant=name)
    key, text = api_keys.generate(its_own, [ADMIN], name="first key")

    def verb(tx: Any) -> wire.CreatedTenant:
        tenant = tenants.create(tx, name, deed)
        api_keys.add(tx, key, text, its_own)
        return wire.CreatedTenant(
            name=tenant.name,
            created_at=tenant.created_at,
            key=created_key_schema(key, text, deed.at),
        )

    return verb


def _tenant_schema(tenant: Tenant) -> wire.Tenant:
    return wire.Tenant(name=tenant.name, created_at=tenant.created_at)


TENANT_ROUTES = (
    Route(
        method="GET",
        path=_TENANTS_PATH,
        name="listTenants",
        summary="Show all tenants, by name.",
        scopes=_TENANT_SCOPES,
        home=True,
        query=ListQuery,
        answer=wire.TenantPage,
        handler=list_tenants,
    ),
    Route(
        method="POST",
        path=_TENANTS_PATH,
        name="makeTenant",
        summary="Make a tenant; its first key is in the answer, this once.",
        scopes=_TENANT_SCOPES,
        home=True,
        body=wire.NewTenant,
        answer=wire.CreatedTenant,
        status=201,
        creator=create_tenant,
    ),
)
