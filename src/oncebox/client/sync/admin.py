# Generated from oncebox/client/asynchronous/admin.py by `make sync-client`; do not edit.
"""`client.keys`, `client.tenants`, `client.domains`: administration."""

from collections.abc import Iterator, Sequence

from oncebox.client.core.calls import api_path, create_call, delete_call, get_call, page_call
from oncebox.client.sync.runner import SyncRunner
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

_KEYS = api_path("keys")
_TENANTS = api_path("tenants")
_DOMAINS = api_path("domains")


class Keys:
    """``client.keys``."""

    def __init__(self, runner: SyncRunner) -> None:
        """Make calls with this runner."""
        self._runner = runner

    def mine(self) -> CurrentKey:
        """Return the tenant and the scopes of the key of this client."""
        return self._runner.run(get_call(CurrentKey, api_path("self")))

    def list(self) -> Iterator[ApiKey]:
        """Iterate over all keys, oldest first; never their texts."""
        return self._runner.iterate(page_call(KeyPage, _KEYS, ListQuery))

    def page(self, *, limit: int | None = None, cursor: str | None = None) -> KeyPage:
        """Return one page of keys, oldest first."""
        return self._runner.run(page_call(KeyPage, _KEYS, ListQuery, limit=limit, cursor=cursor))

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
        return self._runner.run(create_call(CreatedApiKey, _KEYS, body, idempotency_key))

    def revoke(self, id: str) -> ApiKey:
        """Revoke a key for good; a second time changes nothing."""
        path = api_path("keys", id)
        return self._runner.run(delete_call(ApiKey, path, repeatable=True))


class Tenants:
    """``client.tenants``."""

    def __init__(self, runner: SyncRunner) -> None:
        """Make calls with this runner."""
        self._runner = runner

    def list(self) -> Iterator[Tenant]:
        """Iterate over all tenants, by name."""
        return self._runner.iterate(page_call(TenantPage, _TENANTS, ListQuery))

    def page(self, *, limit: int | None = None, cursor: str | None = None) -> TenantPage:
        """Return one page of tenants, by name."""
        return self._runner.run(
            page_call(TenantPage, _TENANTS, ListQuery, limit=limit, cursor=cursor)
        )

    def make(self, name: str, *, idempotency_key: str | None = None) -> CreatedTenant:
        """Create a tenant; only this answer has the text of its first key."""
        body = NewTenant(name=name)
        return self._runner.run(create_call(CreatedTenant, _TENANTS, body, idempotency_key))


class Domains:
    """``client.domains``."""

    def __init__(self, runner: SyncRunner) -> None:
        """Make calls with this runner."""
        self._runner = runner

    def list(self) -> Iterator[Domain]:
        """Iterate over all domains, by name."""
        return self._runner.iterate(page_call(DomainPage, _DOMAINS, ListQuery))

    def page(self, *, limit: int | None = None, cursor: str | None = None) -> DomainPage:
        """Return one page of domains, by name."""
        return self._runner.run(
            page_call(DomainPage, _DOMAINS, ListQuery, limit=limit, cursor=cursor)
        )

    def add(
        self, name: str, *, catch_all: bool = False, idempotency_key: str | None = None
    ) -> Domain:
        """Accept mail for a domain; with ``catch_all``, one inbox gets all unknown addresses."""
        body = NewDomain(name=name, catch_all=catch_all)
        return self._runner.run(create_call(Domain, _DOMAINS, body, idempotency_key))

    def remove(self, name: str) -> None:
        """Accept no more mail for a domain; its inboxes and messages stay."""
        self._runner.run(delete_call(type(None), api_path("domains", name)))
