"""Transports and suppressions, for operators; no secrets; durations in seconds."""

from typing import Literal

import msgspec

from oncebox.schemas.fields import ListPage, OptionalReason, Timestamp
from oncebox.schemas.inboxes import EmailAddress

SuppressionReason = Literal["manual", "hard_bounce", "complaint", "unsubscribe"]


class TransportRate(msgspec.Struct, frozen=True, kw_only=True):
    """Rate limit shared by all processes: ``sends`` per ``within`` seconds."""

    sends: int
    within: float


class Transport(msgspec.Struct, frozen=True, kw_only=True):
    """A transport for outgoing mail, without its configuration."""

    name: str
    #: ``log``, ``smtp``, ``resend``
    kind: str
    #: transports with smaller numbers are tried first
    position: int
    #: transports of the same group take over from each other; empty: no failover
    failover_group: str
    rate: TransportRate | None
    #: ``resting`` after failures, until ``rests_until``; then a single send probes it
    state: Literal["working", "resting", "paused"]
    #: consecutive failures
    failures: int
    rests_until: Timestamp | None
    created_at: Timestamp
    changed_at: Timestamp


class TransportList(msgspec.Struct, frozen=True, kw_only=True):
    """The transports of a tenant, in order of preference."""

    data: list[Transport]


class NewSuppression(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An address to suppress."""

    address: EmailAddress
    why: OptionalReason = ""

    def __repr__(self) -> str:
        """Show no address."""
        return "NewSuppression()"


class FindSuppression(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A query for a suppressed address; in a body, because bodies are never logged."""

    address: EmailAddress

    def __repr__(self) -> str:
        """Show no address."""
        return "FindSuppression()"


class Suppression(msgspec.Struct, frozen=True, kw_only=True):
    """A suppressed address, which is sent no mail."""

    #: identifies the entry where the address must not appear
    id: str
    address: str
    reason: SuppressionReason
    #: the send that caused the suppression
    send_id: str | None
    created_at: Timestamp

    def __repr__(self) -> str:
        """Show no address."""
        return f"Suppression({self.id!r}, {self.reason!r})"


class SuppressionPage(ListPage, frozen=True, kw_only=True):
    """A page of suppressed addresses."""

    data: list[Suppression]
