"""Quarantine: rejected webhook requests, as received, stored and listed."""

import msgspec

from oncebox.model.deliveries.delivery import Headers


class RejectedRequest(msgspec.Struct, frozen=True, kw_only=True):
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
        return f"RejectedRequest(id={self.id!r}, source={self.source!r}, reason={self.reason!r})"


class QuarantinedRequest(msgspec.Struct, frozen=True):
    """A rejected request as it lies in the quarantine: what may be a secret is sealed."""

    id: str
    tenant: str
    source: str
    reason: str
    #: what it most likely was
    duplicate_class: str = msgspec.field(name="sighting")
    received_at: int
    method: str
    #: without its query
    url: str
    #: values that may be secrets are left out
    headers: Headers
    body: bytes
    size: int
    encrypted: bytes


class QuarantineEntry(msgspec.Struct, frozen=True):
    """One line of the quarantine."""

    id: str
    source: str
    reason: str
    duplicate_class: str = msgspec.field(name="sighting")
    received_at: int
    method: str
    url: str
    size: int


class RejectionCount(msgspec.Struct, frozen=True):
    """How many requests of a source were rejected in one class, kept or not."""

    source: str
    duplicate_class: str = msgspec.field(name="sighting")
    count: int
    first_at: int
    last_at: int
