"""Transports: rates, circuit breaker rules, send outcomes and provider events."""

from enum import StrEnum
from typing import Literal

import msgspec

#: the provider knows another mail under the same key; a repeat would not help
KEY_MISMATCH = "key_mismatch"


class SendPhase(StrEnum):
    """Phases of a try, in this order."""

    CONNECT = "connect"
    GREETED = "greeted"
    ENVELOPE = "envelope"
    BODY = "body"
    #: the marker is committed: the mail may be accepted from now on
    MARKED = "marked"
    HANDED_OVER = "handed_over"
    ANSWERED = "answered"


class SendAccepted(msgspec.Struct, frozen=True, kw_only=True, tag="accepted"):
    """The mail was accepted; that is proof, also from a worker that lost its lease."""

    #: the provider's id; empty without one
    provider_id: str = ""
    phase: SendPhase = SendPhase.ANSWERED


class NotSent(msgspec.Struct, frozen=True, kw_only=True, tag="not_sent"):
    """The mail was certainly not accepted, and may be tried again."""

    code: str
    phase: SendPhase
    #: milliseconds the server asks to wait
    retry_after: int | None = None
    #: the transport fails until somebody fixes its configuration
    opens_circuit: bool = False
    #: the reply code of SMTP or HTTP; 0 without a reply
    reply: int = 0


class SendRejected(msgspec.Struct, frozen=True, kw_only=True, tag="rejected"):
    """The mail was certainly not accepted, and never will be."""

    code: str
    phase: SendPhase
    reply: int = 0


class SendUnknown(msgspec.Struct, frozen=True, kw_only=True, tag="unknown"):
    """The mail may have been accepted; there is no proof."""

    code: str
    phase: SendPhase
    reply: int = 0


SendOutcome = SendAccepted | NotSent | SendRejected | SendUnknown


#: the transport of every tenant until another is configured; it sends nothing
LOG_TRANSPORT = "log"
#: the marker was refused
FENCE_LOST = "fence_lost"
#: codes of tries this process ended: before the marker, without the ledger, or after the marker
GIVEN_BACK = "given_back"
STORE_UNAVAILABLE = "store_unavailable"
WORKER_STOPPED = "worker_stopped"


class TransportRate(msgspec.Struct, frozen=True):
    """Rate limit: sends per milliseconds, of all processes together."""

    sends: int
    within: int


class BreakerRules(msgspec.Struct, frozen=True, kw_only=True):
    """When a failing transport is not used for a while; times in milliseconds."""

    #: consecutive failures
    failures: int = 5
    #: each further rest is twice as long
    first_rest: int = 30_000
    longest_rest: int = 900_000


class NewTransport(msgspec.Struct, frozen=True, kw_only=True):
    """Configuration of a transport."""

    name: str
    kind: str
    #: encrypted; None if there is nothing to configure
    config: bytes | None = None
    #: the smallest position is used first
    position: int = 0
    rate: TransportRate | None = None
    #: transports of the same group take over from each other; empty: no failover
    failover_group: str = ""
    #: domains that it signs for with a DKIM key
    signs: tuple[str, ...] = ()


class ConfiguredTransport(msgspec.Struct, frozen=True, kw_only=True):
    """A stored transport with the state of its circuit breaker."""

    tenant: str
    name: str
    kind: str
    config: bytes | None
    position: int
    rate: TransportRate | None
    paused: bool
    #: consecutive failures
    failures: int
    #: how often the breaker opened since the last success
    rests: int
    #: until when the breaker is open; then one send tests the transport
    rests_until: int | None
    created_at: int
    changed_at: int
    #: transports of the same group take over from each other; empty: no failover
    failover_group: str = ""

    def state(self, now: int) -> Literal["working", "resting", "paused"]:
        """Return whether the transport sends mail."""
        if self.paused:
            return "paused"
        return "resting" if self.rests_until is not None and self.rests_until > now else "working"


#: a failure in these phases concerns the transport, not the mail
_CONNECTION_PHASES = frozenset({SendPhase.CONNECT, SendPhase.GREETED})
_TOO_MANY_REQUESTS = 429
_LOCAL_CODES = frozenset({FENCE_LOST, GIVEN_BACK, STORE_UNAVAILABLE, WORKER_STOPPED})


def counts_as_failure(outcome: SendOutcome) -> bool:
    """Tell whether an outcome counts as a failure of the transport, not of one mail."""
    if isinstance(outcome, SendAccepted | SendRejected) or outcome.code in _LOCAL_CODES:
        return False
    if isinstance(outcome, SendUnknown):
        return True
    return (
        outcome.opens_circuit
        or outcome.phase in _CONNECTION_PHASES
        or outcome.reply == _TOO_MANY_REQUESTS
    )


def proves_working(outcome: SendOutcome) -> bool:
    """Tell whether an outcome proves that the transport works."""
    # A malformed mail is rejected without a connection.
    return (
        isinstance(outcome, SendAccepted | SendRejected) and outcome.phase is not SendPhase.CONNECT
    )


class ProviderStatus(StrEnum):
    """Delivery status reported by a provider, from the weakest to the strongest.

    Reports arrive in any order, and repeatedly. Only a stronger status replaces a weaker one: a
    complaint proves delivery, and a hard-bounced mail was not read.
    """

    #: proof of acceptance; says nothing about the recipient
    ACCEPTED = "accepted"
    DELAYED = "delayed"
    #: temporary; some mailboxes answer so although they keep the mail
    SOFT_BOUNCED = "soft_bounced"
    DELIVERED = "delivered"
    OPENED = "opened"
    CLICKED = "clicked"
    #: the recipient is on the provider's own suppression list
    SUPPRESSED = "suppressed"
    #: the provider failed
    FAILED = "failed"
    #: permanent
    BOUNCED = "bounced"
    #: the recipient reported spam
    COMPLAINED = "complained"

    @property
    def strength(self) -> int:
        """Its position in this enumeration."""
        return _STRENGTHS[self]


_STRENGTHS = {status: position for position, status in enumerate(ProviderStatus)}
#: statuses that suppress the recipient
SUPPRESSION_REASONS = {
    ProviderStatus.BOUNCED: "hard_bounce",
    ProviderStatus.COMPLAINED: "complaint",
}


class ProviderEventRecipient(msgspec.Struct, frozen=True):
    """A recipient that an event is about."""

    fingerprint: bytes
    #: encrypted
    address: bytes


class ProviderEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A provider's event about a mail."""

    tenant: str
    transport: str
    provider_id: str
    #: from our tag; empty without one
    send_id: str = ""
    status: ProviderStatus
    #: the provider's time
    at: int
    recipients: tuple[ProviderEventRecipient, ...] = ()


class ProviderEventResult(msgspec.Struct, frozen=True):
    """What a provider's event changed."""

    #: None: the event is about no send of ours, and changes nothing
    send_id: str | None = None
    #: it proved that a send was accepted
    proven: bool = False
    #: the delivery status changed
    changed: bool = False
    #: number of addresses added to the suppression list
    suppressed: int = 0
