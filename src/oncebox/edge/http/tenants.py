"""``/v1/tenants``: who shares the installation; only for those who run it."""

from typing import Any

import msgspec

from oncebox.edge.http.call import Call
from oncebox.edge.http.keys import made
from oncebox.edge.http.pages import page, place
from oncebox.edge.http.route import ADMIN, Creation, Route
from oncebox.ledger.office import keys, tenants
from oncebox.model.tenant import Tenant
from oncebox.wire import tenants as wire
from oncebox.wire.fields import ListQuery

_LIST = "/v1/tenants"
_SCOPES = frozenset({ADMIN})


async def list_(call: Call) -> wire.TenantPage:
    """Return tenants by name."""
    after = place(call, _LIST, "")
    found = sorted(
        (each for each in await call.rooms.counter.read(tenants.all_) if each.name > after),
        key=lambda each: each.name,
    )
    return page(call, _LIST, wire.TenantPage, found, _shown, lambda each: each.name)


def create(call: Call) -> Creation:
    """Make a tenant and its first key."""
    name: str = call.body.name
    deed = call.deed()
    its_own = msgspec.structs.replace(call.deed(), tenant=name)
    key, text = keys.make(its_own, [ADMIN], name="first key")

    def verb(tx: Any) -> wire.MadeTenant:
        tenant = tenants.new(tx, name, deed)
        keys.add(tx, key, text, its_own)
        return wire.MadeTenant(
            name=tenant.name, created_at=tenant.created_at, key=made(key, text, deed.at)
        )

    return verb


def _shown(tenant: Tenant) -> wire.Tenant:
    return wire.Tenant(name=tenant.name, created_at=tenant.created_at)


ROUTES = (
    Route(
        method="GET",
        path=_LIST,
        name="listTenants",
        summary="Show all tenants, by name.",
        scopes=_SCOPES,
        home=True,
        query=ListQuery,
        answer=wire.TenantPage,
        handler=list_,
    ),
    Route(
        method="POST",
        path=_LIST,
        name="makeTenant",
        summary="Make a tenant; its first key is in the answer, this once.",
        scopes=_SCOPES,
        home=True,
        body=wire.NewTenant,
        answer=wire.MadeTenant,
        status=201,
        creator=create,
    ),
)
