"""Transports and suppressions, for operators; no secrets; durations in seconds."""

from typing import Literal

import msgspec

from oncebox.schemas.fields import ListPage, OptionalReason, Timestamp
from oncebox.schemas.inboxes import EmailAddress

SuppressionReason = Literal["manual", "hard_bounce", "complaint", "unsubscribe"]


class TransportRate(msgspec.Struct, frozen=True, kw_only=True):
    """How many sends may begin within how many seconds, by all processes together."""

    sends: int
    within: float


class Transport(msgspec.Struct, frozen=True, kw_only=True):
    """A way by which mail leaves; what it is configured with is not shown."""

    name: str
    #: ``log``, ``smtp``, ``resend``
    kind: str
    #: those with smaller numbers are taken first
    position: int
    rate: TransportRate | None
    #: ``resting`` after failures, until ``rests_until``; then one send tries whether it works
    state: Literal["working", "resting", "paused"]
    #: failures without a success between them
    failures: int
    rests_until: Timestamp | None
    created_at: Timestamp
    changed_at: Timestamp


class TransportList(msgspec.Struct, frozen=True, kw_only=True):
    """The transports of a tenant, those that are taken first first."""

    data: list[Transport]


class NewSuppression(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An address that is to get no mail."""

    address: EmailAddress
    why: OptionalReason = ""

    def __repr__(self) -> str:
        """Show no address."""
        return "NewSuppression()"


class FindSuppression(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An address that may be on the list; it is asked for in a body, which nobody logs."""

    address: EmailAddress

    def __repr__(self) -> str:
        """Show no address."""
        return "FindSuppression()"


class Suppression(msgspec.Struct, frozen=True, kw_only=True):
    """An address that gets no mail."""

    #: names it where the address should not be named
    id: str
    address: str
    reason: SuppressionReason
    #: the send that brought it on the list
    send_id: str | None
    created_at: Timestamp

    def __repr__(self) -> str:
        """Show no address."""
        return f"Suppression({self.id!r}, {self.reason!r})"


class SuppressionPage(ListPage, frozen=True, kw_only=True):
    """Some of the addresses that get no mail."""

    data: list[Suppression]
