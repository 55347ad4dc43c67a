"""Tenants, as the outside sees them."""

from typing import Annotated

import msgspec

from oncebox.wire.fields import Moment, Page
from oncebox.wire.keys import MadeKey


class NewTenant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tenant to be made."""

    name: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """One of several parties that share the installation."""

    name: str
    #: 0 for the one that was always there
    created_at: Moment


class MadeTenant(Tenant, frozen=True, kw_only=True):
    """A new tenant, with its first key."""

    key: MadeKey


class TenantPage(Page, frozen=True, kw_only=True):
    """Some of the tenants."""

    data: list[Tenant]
