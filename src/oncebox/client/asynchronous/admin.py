"""`client.keys`, `client.tenants`, `client.domains`: administration."""

from collections.abc import AsyncIterator, Sequence

from oncebox.client.asynchronous.runner import AsyncResource
from oncebox.client.core.calls import create_call, delete_call, get_call, page_call
from oncebox.schemas.access import (
    ApiKey,
    CreatedApiKey,
    CreatedTenant,
    CurrentKey,
    KeyPage,
    NewKey,
    NewTenant,
    Tenant,
    TenantPage,
)
from oncebox.schemas.fields import ListQuery
from oncebox.schemas.inboxes import Domain, DomainPage, NewDomain


class AsyncKeys(AsyncResource):
    """``client.keys``."""

    async def mine(self) -> CurrentKey:
        """Return the tenant and the scopes of the key of this client."""
        return await self._run(get_call(CurrentKey, "self"))

    def list(self) -> AsyncIterator[ApiKey]:
        """Iterate over all keys, oldest first; never their texts."""
        return self._runner.iterate(page_call(KeyPage, ListQuery, "keys"))

    async def page(self, *, limit: int | None = None, cursor: str | None = None) -> KeyPage:
        """Return one page of keys, oldest first."""
        return await self._run(page_call(KeyPage, ListQuery, "keys", limit=limit, cursor=cursor))

    async def make(
        self,
        scopes: Sequence[str],
        *,
        name: str = "",
        expires_in: float | None = None,
        idempotency_key: str | None = None,
    ) -> CreatedApiKey:
        """Create a key; only this answer has its text. ``expires_in`` is in seconds."""
        body = NewKey(scopes=[*scopes], name=name, expires_in=expires_in)
        return await self._run(create_call(CreatedApiKey, body, idempotency_key, "keys"))

    async def revoke(self, id: str) -> ApiKey:
        """Revoke a key for good; a second time changes nothing."""
        return await self._run(delete_call(ApiKey, "keys", id, repeatable=True))


class AsyncTenants(AsyncResource):
    """``client.tenants``."""

    def list(self) -> AsyncIterator[Tenant]:
        """Iterate over all tenants, by name."""
        return self._runner.iterate(page_call(TenantPage, ListQuery, "tenants"))

    async def page(self, *, limit: int | None = None, cursor: str | None = None) -> TenantPage:
        """Return one page of tenants, by name."""
        return await self._run(
            page_call(TenantPage, ListQuery, "tenants", limit=limit, cursor=cursor)
        )

    async def make(self, name: str, *, idempotency_key: str | None = None) -> CreatedTenant:
        """Create a tenant; only this answer has the text of its first key."""
        body = NewTenant(name=name)
        return await self._run(create_call(CreatedTenant, body, idempotency_key, "tenants"))


class AsyncDomains(AsyncResource):
    """``client.domains``."""

    def list(self) -> AsyncIterator[Domain]:
        """Iterate over all domains, by name."""
        return self._runner.iterate(page_call(DomainPage, ListQuery, "domains"))

    async def page(self, *, limit: int | None = None, cursor: str | None = None) -> DomainPage:
        """Return one page of domains, by name."""
        return await self._run(
            page_call(DomainPage, ListQuery, "domains", limit=limit, cursor=cursor)
        )

    async def add(
        self, name: str, *, catch_all: bool = False, idempotency_key: str | None = None
    ) -> Domain:
        """Accept mail for a domain; with ``catch_all``, one inbox gets all unknown addresses."""
        body = NewDomain(name=name, catch_all=catch_all)
        return await self._run(create_call(Domain, body, idempotency_key, "domains"))

    async def remove(self, name: str) -> None:
        """Accept no more mail for a domain; its inboxes and messages stay."""
        await self._run(delete_call(type(None), "domains", name))
