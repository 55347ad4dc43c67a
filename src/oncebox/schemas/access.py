"""API keys and tenants: request and response bodies."""

from typing import Annotated

import msgspec

from oncebox.schemas.fields import ListPage, Timestamp

Scope = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^(admin|operator|agent|read:text|worker:([A-Za-z0-9][A-Za-z0-9._:/-]{0,99}|\*))$",
        description="admin, operator, agent, read:text beside agent, or worker:SOURCE",
    ),
]


class NewKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key to be made."""

    scopes: Annotated[list[Scope], msgspec.Meta(min_length=1, max_length=50)]
    #: what people call it
    name: Annotated[str, msgspec.Meta(max_length=100)] = ""
    #: seconds from now; for ever unless set
    expires_in: Annotated[float, msgspec.Meta(ge=1, le=3_000_000_000)] | None = None


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key without its text."""

    id: str
    name: str
    #: the beginning of its text, to tell keys apart
    hint: str
    scopes: list[str]
    #: ``active``, ``expired`` or ``revoked``
    state: str
    created_at: Timestamp
    expires_at: Timestamp | None = None
    revoked_at: Timestamp | None = None
    last_used_at: Timestamp | None = None


class CreatedApiKey(ApiKey, frozen=True, kw_only=True):
    """A new key, with its text this once."""

    #: send it as ``Authorization: Bearer …``; it cannot be shown again
    key: str

    def __repr__(self) -> str:
        """Show which one it is, never its text."""
        return f"CreatedApiKey(id={self.id!r}, hint={self.hint!r})"


class KeyPage(ListPage, frozen=True, kw_only=True):
    """Some of the keys."""

    data: list[ApiKey]


class CurrentKey(msgspec.Struct, frozen=True, kw_only=True):
    """Who is asking."""

    tenant: str
    key: ApiKey


class NewTenant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tenant to be made."""

    name: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """One of several parties that share the installation."""

    name: str
    #: 0 for the one that was always there
    created_at: Timestamp


class CreatedTenant(Tenant, frozen=True, kw_only=True):
    """A new tenant, with its first key."""

    key: CreatedApiKey


class TenantPage(ListPage, frozen=True, kw_only=True):
    """Some of the tenants."""

    data: list[Tenant]
