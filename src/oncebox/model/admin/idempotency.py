"""Idempotent API requests: the request, its stored response, and lookup results."""

from typing import Any

import msgspec

from oncebox.model.deliveries.delivery import Headers
from oncebox.model.validation import check_key


class IdempotentRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request under the caller's own key.

    Raises: KeyInvalid.
    """

    tenant: str
    #: method and path; the same key on another route is another request
    route: str
    key: str
    #: detects another body under the same key
    body_hash: bytes

    def __post_init__(self) -> None:
        """Refuse a key that is empty, too long or has control characters."""
        check_key(self.key, "idempotency key")


class StoredResponse(msgspec.Struct, frozen=True):
    """A response that every repeat gets."""

    status: int
    headers: Headers
    body: bytes

    def __repr__(self) -> str:
        """Leave out the body, which may hold a key that is shown once."""
        return f"StoredResponse(status={self.status})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Show no more than ``repr`` does."""
        return [("status", self.status)]


class FreshRequest(msgspec.Struct, frozen=True):
    """The request is new: create, and ``finish`` in the same transaction."""

    request: IdempotentRequest
    #: identifies the process that handles it
    holder: str


class RunningRequest(msgspec.Struct, frozen=True):
    """The request is in progress: 409."""

    #: milliseconds until it may be taken over
    retry_after: int


class ReplayedResponse(msgspec.Struct, frozen=True):
    """The request was answered before: the same response again."""

    response: StoredResponse


class BodyMismatch(msgspec.Struct, frozen=True):
    """The key was used with another body: 422."""


IdempotencyResult = FreshRequest | RunningRequest | ReplayedResponse | BodyMismatch
