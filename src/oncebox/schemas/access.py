"""API keys and tenants: request and response bodies."""

from typing import Annotated

import msgspec

from oncebox.schemas.fields import ListPage, Timestamp

Scope = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^(admin|operator|agent|read:text|metrics"
        r"|(worker|accept):([A-Za-z0-9][A-Za-z0-9._:/-]{0,99}|\*))$",
        description="admin, operator, agent, read:text together with agent, metrics, "
        "worker:SOURCE or accept:SOURCE",
    ),
]


class NewKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An API key to create."""

    scopes: Annotated[list[Scope], msgspec.Meta(min_length=1, max_length=50)]
    #: a name for humans
    name: Annotated[
        str, msgspec.Meta(max_length=100, pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$")
    ] = ""
    #: seconds from now; default: never
    expires_in: Annotated[float, msgspec.Meta(ge=1, le=3_000_000_000)] | None = None


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """An API key without its secret."""

    id: str
    name: str
    #: the first characters, to distinguish keys
    hint: str
    scopes: list[str]
    #: ``active``, ``expired`` or ``revoked``
    state: str
    created_at: Timestamp
    expires_at: Timestamp | None = None
    revoked_at: Timestamp | None = None
    last_used_at: Timestamp | None = None


class CreatedApiKey(ApiKey, frozen=True, kw_only=True):
    """A new API key with its secret, which is shown only once."""

    #: the secret: send it as ``Authorization: Bearer …``
    key: str

    def __repr__(self) -> str:
        """Show the id, never the secret."""
        return f"CreatedApiKey(id={self.id!r}, hint={self.hint!r})"


class KeyPage(ListPage, frozen=True, kw_only=True):
    """A page of API keys."""

    data: list[ApiKey]


class CurrentKey(msgspec.Struct, frozen=True, kw_only=True):
    """The tenant and key of this request."""

    tenant: str
    key: ApiKey


class NewTenant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tenant to create."""

    name: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant of this installation."""

    name: str
    #: 0 for the default tenant
    created_at: Timestamp


class CreatedTenant(Tenant, frozen=True, kw_only=True):
    """A new tenant and its first key."""

    key: CreatedApiKey


class TenantPage(ListPage, frozen=True, kw_only=True):
    """A page of tenants."""

    data: list[Tenant]
