"""Transports: the ways by which mail leaves, how fast, and when they rest."""

from typing import Literal

import msgspec

from oncebox.model.outcome import Accepted, Outcome, Phase, Rejected, Unknown

#: the transport of every tenant until another is configured; it sends nothing
LOG = "log"
#: what a transport says that was not allowed to hand over
FENCE_LOST = "fence_lost"
#: codes of tries that were ended from here: before the marker, without a ledger, or after it
GIVEN_BACK = "given_back"
STORE_AWAY = "store_unavailable"
WORKER_STOPPED = "worker_stopped"


class Rate(msgspec.Struct, frozen=True):
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
    rate: Rate | None = None


class Transport(msgspec.Struct, frozen=True, kw_only=True):
    """A transport as it stands."""

    tenant: str
    name: str
    kind: str
    config: bytes | None
    position: int
    rate: Rate | None
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
_OF_THE_WAY = frozenset({Phase.CONNECT, Phase.GREETED})
_TOO_MANY = 429
_OURS = frozenset({FENCE_LOST, GIVEN_BACK, STORE_AWAY, WORKER_STOPPED})


def strains(outcome: Outcome) -> bool:
    """Say whether an outcome speaks against the way itself and not against one message."""
    if isinstance(outcome, Accepted | Rejected) or outcome.code in _OURS:
        return False
    if isinstance(outcome, Unknown):
        return True
    return outcome.opens_circuit or outcome.phase in _OF_THE_WAY or outcome.reply == _TOO_MANY


def works(outcome: Outcome) -> bool:
    """Say whether an outcome shows that the way works."""
    # What has a flaw of its own is rejected without asking anybody.
    return isinstance(outcome, Accepted | Rejected) and outcome.phase is not Phase.CONNECT
