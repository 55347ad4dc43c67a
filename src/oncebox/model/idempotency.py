"""Requests that must not create twice: what was asked, and what is known of it."""

from typing import Any

import msgspec

from oncebox.model.arrival import check_key
from oncebox.model.delivery import Headers


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One request under the caller's own key.

    Raises: KeyInvalid.
    """

    tenant: str
    #: method and path; the same key on another route is another request
    route: str
    key: str
    #: tells another body under the same key
    body_hash: bytes

    def __post_init__(self) -> None:
        """Refuse a key that is empty, too long or has control characters."""
        check_key(self.key, "idempotency key")


class Answer(msgspec.Struct, frozen=True):
    """A response, as it is given again to every repeat."""

    status: int
    headers: Headers
    body: bytes

    def __repr__(self) -> str:
        """Leave out the body, which may hold a key that is shown once."""
        return f"Answer(status={self.status})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Show no more than ``repr`` does."""
        return [("status", self.status)]


class Fresh(msgspec.Struct, frozen=True):
    """Nobody has answered it: create, and ``finish`` in the same transaction."""

    asked: Asked
    #: who answers it now
    holder: str


class Running(msgspec.Struct, frozen=True):
    """Somebody is answering it: 409."""

    #: milliseconds after which it is taken over at the latest
    retry_after: int


class Replay(msgspec.Struct, frozen=True):
    """It was answered: the same answer again."""

    answer: Answer


class Mismatch(msgspec.Struct, frozen=True):
    """The key was used with another body: 422."""


Found = Fresh | Running | Replay | Mismatch
