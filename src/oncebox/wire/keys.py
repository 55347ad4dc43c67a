"""API keys, as the outside sees them."""

from typing import Annotated

import msgspec

from oncebox.wire.fields import Moment, Page

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


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """A key without its text."""

    id: str
    name: str
    #: the beginning of its text, to tell keys apart
    hint: str
    scopes: list[str]
    #: ``active``, ``expired`` or ``revoked``
    state: str
    created_at: Moment
    expires_at: Moment | None = None
    revoked_at: Moment | None = None
    last_used_at: Moment | None = None


class MadeKey(Key, frozen=True, kw_only=True):
    """A new key, with its text this once."""

    #: send it as ``Authorization: Bearer …``; it cannot be shown again
    key: str

    def __repr__(self) -> str:
        """Show which one it is, never its text."""
        return f"MadeKey(id={self.id!r}, hint={self.hint!r})"


class KeyPage(Page, frozen=True, kw_only=True):
    """Some of the keys."""

    data: list[Key]


class Self(msgspec.Struct, frozen=True, kw_only=True):
    """Who is asking."""

    tenant: str
    key: Key
