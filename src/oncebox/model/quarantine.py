"""Quarantine: a rejected request as it came, and as an operator sees it."""

import msgspec

from oncebox.model.delivery import Headers


class Rejected(msgspec.Struct, frozen=True, kw_only=True):
    """A request that was not believed, with everything needed to check it again."""

    id: str
    tenant: str
    source: str
    #: why the verifier did not believe it
    reason: str
    method: str
    url: str
    headers: Headers
    body: bytes
    received_at: int

    def __repr__(self) -> str:
        """Show which one it is; what it carries may be secret."""
        return f"Rejected(id={self.id!r}, source={self.source!r}, reason={self.reason!r})"


class Kept(msgspec.Struct, frozen=True):
    """A rejected request as it lies in the quarantine: what may be a secret is sealed."""

    id: str
    tenant: str
    source: str
    reason: str
    #: what it most likely was
    sighting: str
    received_at: int
    method: str
    #: without its query
    url: str
    #: values that may be secrets are left out
    headers: Headers
    body: bytes
    size: int
    sealed: bytes


class Listed(msgspec.Struct, frozen=True):
    """One line of the quarantine."""

    id: str
    source: str
    reason: str
    sighting: str
    received_at: int
    method: str
    url: str
    size: int


class Rejects(msgspec.Struct, frozen=True):
    """How many requests of a source were rejected in one class, kept or not."""

    source: str
    sighting: str
    count: int
    first_at: int
    last_at: int
