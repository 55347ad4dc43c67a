"""``/v1/keys``, ``/v1/self`` and ``/v1/tenants``: API keys and tenants."""

from operator import attrgetter

import msgspec

from oncebox.ledger.admin import api_keys, tenants
from oncebox.ledger.transactions import Transaction
from oncebox.model.admin.access import ApiKey, Tenant
from oncebox.schemas import access as wire
from oncebox.schemas.fields import ListQuery
from oncebox.server.http.cursors import make_page, page_start
from oncebox.server.http.routing import ADMIN, ADMINS, ANY_KEY, ApiCall, Routes

routes = Routes()


@routes("GET", "/v1/self", "getSelf", scopes=ANY_KEY)
async def whoami(call: ApiCall) -> wire.CurrentKey:
    """Get the API key of this request and its scopes."""
    return wire.CurrentKey(tenant=call.tenant, key=key_schema(call.key, call.ledger.clock()))


@routes("GET", "/v1/keys", "listKeys", scopes=ADMINS, query=ListQuery)
async def list_keys(call: ApiCall) -> wire.KeyPage:
    """List API keys, oldest first, without their texts."""
    after, now = page_start(call, ""), call.ledger.clock()
    keys = await call.ledger.read(api_keys.list_all, call.tenant)
    found = [each for each in keys if each.id > after]
    return make_page(call, wire.KeyPage, found, lambda each: key_schema(each, now))


@routes.create("/v1/keys", "makeKey", scopes=ADMINS, body=wire.NewKey)
def create_key(call: ApiCall, tx: Transaction) -> wire.CreatedApiKey:
    """Create an API key; its text is shown only in this answer."""
    asked: wire.NewKey = call.body
    entry = call.audit_entry()
    expires_at = None if asked.expires_in is None else entry.at + round(asked.expires_in * 1000)
    key, text = api_keys.generate(entry, asked.scopes, expires_at=expires_at, name=asked.name)
    api_keys.add(tx, key, text, entry)
    return _created_key_schema(key, text)


@routes("DELETE", "/v1/keys/{id}", "revokeKey", scopes=ADMINS)
async def revoke_key(call: ApiCall) -> wire.ApiKey:
    """Revoke an API key; every process refuses it within seconds."""
    entry = call.audit_entry()
    key = await call.ledger.write(api_keys.revoke, call.path["id"], entry)
    call.components.api_keys.clear()
    return key_schema(key, entry.at)


@routes("GET", "/v1/tenants", "listTenants", scopes=ADMINS, query=ListQuery, home=True)
async def list_tenants(call: ApiCall) -> wire.TenantPage:
    """List tenants by name."""
    after = page_start(call, "")
    tenants_ = await call.ledger.read(tenants.list_all)
    found = sorted((each for each in tenants_ if each.name > after), key=attrgetter("name"))
    return make_page(call, wire.TenantPage, found, _tenant_schema, attrgetter("name"))


@routes.create("/v1/tenants", "makeTenant", scopes=ADMINS, body=wire.NewTenant, home=True)
def create_tenant(call: ApiCall, tx: Transaction) -> wire.CreatedTenant:
    """Create a tenant; its first key is shown only in this answer."""
    tenant = tenants.create(tx, call.body.name, call.audit_entry())
    entry = msgspec.structs.replace(call.audit_entry(), tenant=tenant.name)
    key, text = api_keys.generate(entry, [ADMIN], name="first key")
    api_keys.add(tx, key, text, entry)
    return wire.CreatedTenant(
        name=tenant.name, created_at=tenant.created_at, key=_created_key_schema(key, text)
    )


def key_schema(key: ApiKey, now: int) -> wire.ApiKey:
    """Return a key without its text."""
    values = msgspec.structs.asdict(key) | {"state": key.state(now)}
    return msgspec.convert(values, wire.ApiKey)


def _created_key_schema(key: ApiKey, text: str) -> wire.CreatedApiKey:
    values = msgspec.structs.asdict(key) | {"state": key.state(key.created_at), "key": text}
    return msgspec.convert(values, wire.CreatedApiKey)


def _tenant_schema(tenant: Tenant) -> wire.Tenant:
    return wire.Tenant(name=tenant.name, created_at=tenant.created_at)
