"""Transports: rates, circuit breaker rules, send outcomes and provider events."""

from enum import StrEnum
from typing import Literal

import msgspec

#: the code of what its provider knows under the same key as something else; repeats change nothing
KEY_MISMATCH = "key_mismatch"


class SendPhase(StrEnum):
    """How far a hand-over came, in this order."""

    CONNECT = "connect"
    GREETED = "greeted"
    ENVELOPE = "envelope"
    BODY = "body"
    #: the ledger knows that from here on it may be taken
    MARKED = "marked"
    HANDED_OVER = "handed_over"
    ANSWERED = "answered"


class SendAccepted(msgspec.Struct, frozen=True, kw_only=True, tag="accepted"):
    """The other side took it: proof, whoever brings it."""

    #: what the other side calls it; empty if it does not say
    provider_id: str = ""
    phase: SendPhase = SendPhase.ANSWERED


class NotSent(msgspec.Struct, frozen=True, kw_only=True, tag="not_sent"):
    """It was certainly not taken, and may be tried again."""

    code: str
    phase: SendPhase
    #: milliseconds that the other side asks to wait
    retry_after: int | None = None
    #: nothing that goes this way will be taken until somebody mends it
    opens_circuit: bool = False
    #: the reply code of SMTP or HTTP; 0 without a reply
    reply: int = 0


class SendRejected(msgspec.Struct, frozen=True, kw_only=True, tag="rejected"):
    """It was certainly not taken, and never will be."""

    code: str
    phase: SendPhase
    reply: int = 0


class SendUnknown(msgspec.Struct, frozen=True, kw_only=True, tag="unknown"):
    """It may have been taken, and nobody here can know."""

    code: str
    phase: SendPhase
    reply: int = 0


SendOutcome = SendAccepted | NotSent | SendRejected | SendUnknown


#: the transport of every tenant until another is configured; it sends nothing
LOG_TRANSPORT = "log"
#: what a transport says that was not allowed to hand over
FENCE_LOST = "fence_lost"
#: codes of tries that were ended from here: before the marker, without a ledger, or after it
GIVEN_BACK = "given_back"
STORE_UNAVAILABLE = "store_unavailable"
WORKER_STOPPED = "worker_stopped"


class TransportRate(msgspec.Struct, frozen=True):
    """How many sends may begin within how many milliseconds, by all processes together."""

    sends: int
    within: int


class BreakerRules(msgspec.Struct, frozen=True, kw_only=True):
    """When a transport rests because it fails; times in milliseconds."""

    #: failures without a success between them
    failures: int = 5
    #: the first rest; each further one is twice as long
    first_rest: int = 30_000
    longest_rest: int = 900_000


class NewTransport(msgspec.Struct, frozen=True, kw_only=True):
    """A transport as somebody configures it."""

    name: str
    kind: str
    #: sealed; None where there is nothing to configure
    config: bytes | None = None
    #: those with smaller numbers are taken first
    position: int = 0
    rate: TransportRate | None = None


class ConfiguredTransport(msgspec.Struct, frozen=True, kw_only=True):
    """A transport as it stands."""

    tenant: str
    name: str
    kind: str
    config: bytes | None
    position: int
    rate: TransportRate | None
    paused: bool
    #: failures without a success between them
    failures: int
    #: how often it rested since its last success
    rests: int
    #: until when it rests; then one send tries whether it works again
    rests_until: int | None
    created_at: int
    changed_at: int

    def state(self, now: int) -> Literal["working", "resting", "paused"]:
        """Say whether mail leaves this way."""
        if self.paused:
            return "paused"
        return "resting" if self.rests_until is not None and self.rests_until > now else "working"


#: how far a hand-over must have come to tell something of its message instead of its way
_CONNECTION_PHASES = frozenset({SendPhase.CONNECT, SendPhase.GREETED})
_TOO_MANY_REQUESTS = 429
_LOCAL_CODES = frozenset({FENCE_LOST, GIVEN_BACK, STORE_UNAVAILABLE, WORKER_STOPPED})


def counts_as_failure(outcome: SendOutcome) -> bool:
    """Say whether an outcome speaks against the way itself and not against one message."""
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
    """Say whether an outcome shows that the way works."""
    # What has a flaw of its own is rejected without asking anybody.
    return (
        isinstance(outcome, SendAccepted | SendRejected) and outcome.phase is not SendPhase.CONNECT
    )


class ProviderStatus(StrEnum):
    """What became of a mail, from the weakest word to the strongest.

    Providers tell in any order, and more than once. A word counts only if it is stronger than the
    last: who complained has certainly got it, and what bounced for good was not read.
    """

    #: taken; proof for who was in doubt, and no word on the recipient
    ACCEPTED = "accepted"
    DELAYED = "delayed"
    #: sent back for now; some mailboxes answer so although they keep the mail
    SOFT_BOUNCED = "soft_bounced"
    DELIVERED = "delivered"
    OPENED = "opened"
    CLICKED = "clicked"
    #: not passed on, because the provider has the recipient on a list of its own
    SUPPRESSED = "suppressed"
    #: not passed on, because something went wrong at the provider
    FAILED = "failed"
    #: sent back for good
    BOUNCED = "bounced"
    #: the recipient calls it spam
    COMPLAINED = "complained"

    @property
    def strength(self) -> int:
        """How much it counts against other words; nothing told is 0."""
        return _STRENGTHS[self]


_STRENGTHS = {told: place for place, told in enumerate(ProviderStatus)}
#: what is written of the recipient who will get no more mail
SUPPRESSION_REASONS = {
    ProviderStatus.BOUNCED: "hard_bounce",
    ProviderStatus.COMPLAINED: "complaint",
}


class ProviderEventRecipient(msgspec.Struct, frozen=True):
    """Whom a word is about."""

    fingerprint: bytes
    #: the address, sealed
    address: bytes


class ProviderEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One word of a provider on one mail."""

    tenant: str
    #: the way whose provider tells
    transport: str
    #: what the provider calls the mail
    provider_id: str
    #: the send that the mail's tag names; empty: it names none
    send_id: str = ""
    status: ProviderStatus
    #: when it happened, as the provider says
    at: int
    recipients: tuple[ProviderEventRecipient, ...] = ()


class ProviderEventResult(msgspec.Struct, frozen=True):
    """What came of a word."""

    #: the send it is about; None: it is about none of ours, and changes nothing
    send_id: str | None = None
    #: it ended a doubt, or any other state but sent
    proven: bool = False
    #: more is known of the recipient than before
    changed: bool = False
    #: addresses that get no more mail
    suppressed: int = 0
