# Generated from oncebox/client/asynchronous/admin.py by `make sync-client`; do not edit.
"""`client.keys`, `client.tenants`, `client.domains`: administration."""

from collections.abc import Iterator, Sequence

from oncebox.client.core.calls import create_call, delete_call, get_call, page_call
from oncebox.client.sync.runner import Resource
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


class Keys(Resource):
    """``client.keys``."""

    def mine(self) -> CurrentKey:
        """Return the tenant and the scopes of the key of this client."""
        return self._run(get_call(CurrentKey, "self"))

    def list(self) -> Iterator[ApiKey]:
        """Iterate over all keys, oldest first; never their texts."""
        return self._runner.iterate(page_call(KeyPage, ListQuery, "keys"))

    def page(self, *, limit: int | None = None, cursor: str | None = None) -> KeyPage:
        """Return one page of keys, oldest first."""
        return self._run(page_call(KeyPage, ListQuery, "keys", limit=limit, cursor=cursor))

    def make(
        self,
        scopes: Sequence[str],
        *,
        name: str = "",
        expires_in: float | None = None,
        idempotency_key: str | None = None,
    ) -> CreatedApiKey:
        """Create a key; only this answer has its text. ``expires_in`` is in seconds."""
        body = NewKey(scopes=[*scopes], name=name, expires_in=expires_in)
        return self._run(create_call(CreatedApiKey, body, idempotency_key, "keys"))

    def revoke(self, id: str) -> ApiKey:
        """Revoke a key for good; a second time changes nothing."""
        return self._run(delete_call(ApiKey, "keys", id, repeatable=True))


class Tenants(Resource):
    """``client.tenants``."""

    def list(self) -> Iterator[Tenant]:
        """Iterate over all tenants, by name."""
        return self._runner.iterate(page_call(TenantPage, ListQuery, "tenants"))

    def page(self, *, limit: int | None = None, cursor: str | None = None) -> TenantPage:
        """Return one page of tenants, by name."""
        return self._run(page_call(TenantPage, ListQuery, "tenants", limit=limit, cursor=cursor))

    def make(self, name: str, *, idempotency_key: str | None = None) -> CreatedTenant:
        """Create a tenant; only this answer has the text of its first key."""
        body = NewTenant(name=name)
        return self._run(create_call(CreatedTenant, body, idempotency_key, "tenants"))


class Domains(Resource):
    """``client.domains``."""

    def list(self) -> Iterator[Domain]:
        """Iterate over all domains, by name."""
        return self._runner.iterate(page_call(DomainPage, ListQuery, "domains"))

    def page(self, *, limit: int | None = None, cursor: str | None = None) -> DomainPage:
        """Return one page of domains, by name."""
        return self._run(page_call(DomainPage, ListQuery, "domains", limit=limit, cursor=cursor))

    def add(
        self, name: str, *, catch_all: bool = False, idempotency_key: str | None = None
    ) -> Domain:
        """Accept mail for a domain; with ``catch_all``, one inbox gets all unknown addresses."""
        body = NewDomain(name=name, catch_all=catch_all)
        return self._run(create_call(Domain, body, idempotency_key, "domains"))

    def remove(self, name: str) -> None:
        """Accept no more mail for a domain; its inboxes and messages stay."""
        self._run(delete_call(type(None), "domains", name))
