"""Quarantine: rejected webhook requests, as received, stored and listed."""

import msgspec

from oncebox.model.deliveries.delivery import Headers


class RejectedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A rejected request, with everything needed to verify it again."""

    id: str
    tenant: str
    source: str
    #: the verifier's reason
    reason: str
    method: str
    url: str
    headers: Headers
    body: bytes
    received_at: int

    def __repr__(self) -> str:
        return f"RejectedRequest(id={self.id!r}, source={self.source!r}, reason={self.reason!r})"


class QuarantinedRequest(msgspec.Struct, frozen=True):
    """A rejected request as stored: possible secrets are encrypted."""

    id: str
    tenant: str
    source: str
    reason: str
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
    """A rejected request in a list."""

    id: str
    source: str
    reason: str
    duplicate_class: str = msgspec.field(name="sighting")
    received_at: int
    method: str
    url: str
    size: int


class RejectionCount(msgspec.Struct, frozen=True):
    """How many requests of a source were rejected in one class, stored or not."""

    source: str
    duplicate_class: str = msgspec.field(name="sighting")
    count: int
    first_at: int
    last_at: int
