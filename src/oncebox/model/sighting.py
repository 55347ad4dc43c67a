"""Sightings: what a repeat of a known key most likely was, by a written rule table."""

from collections.abc import Callable
from enum import StrEnum

import msgspec

from oncebox.model.delivery import State

#: an acknowledgement slower than this makes most providers send again
LATE_ACK_MS = 5_000
#: providers' own retries stop after three days
RETRY_SPAN_MS = 3 * 24 * 3_600_000


class Sighting(StrEnum):
    """The classes of repeats."""

    #: same key, other body
    CONFLICT = "conflict"
    #: the same thing by another road, such as webhook and poll
    CROSS_PATH = "cross_path"
    #: we took so long to acknowledge that the sender tried again
    OUR_LATE_ACK = "our_late_ack"
    #: sent again long after, or after the end: somebody asked for it
    REDELIVERY = "redelivery"
    #: the sender did not hear our answer, or sends at least once
    PROVIDER_RETRY = "provider_retry"
    #: none of the rules fits
    UNCLEAR = "unclear"


class Repeat(msgspec.Struct, frozen=True, kw_only=True):
    """What is known when a key is seen again."""

    same_body: bool
    same_road: bool
    state: State
    #: how long the first arrival waited for its commit
    ack_ms: int
    #: how long after the first arrival this one came
    gap_ms: int


#: the first rule that holds decides
RULES: tuple[tuple[Sighting, Callable[[Repeat], bool]], ...] = (
    (Sighting.CONFLICT, lambda repeat: not repeat.same_body),
    (Sighting.CROSS_PATH, lambda repeat: not repeat.same_road),
    (
        Sighting.OUR_LATE_ACK,
        lambda repeat: repeat.ack_ms >= LATE_ACK_MS and repeat.gap_ms <= 2 * repeat.ack_ms,
    ),
    (Sighting.REDELIVERY, lambda repeat: repeat.state is State.DEAD),
    (Sighting.REDELIVERY, lambda repeat: repeat.gap_ms > RETRY_SPAN_MS),
    (Sighting.PROVIDER_RETRY, lambda repeat: repeat.gap_ms >= 0),
)


def classify(repeat: Repeat) -> Sighting:
    """Return what a repeat most likely was."""
    return next((name for name, holds in RULES if holds(repeat)), Sighting.UNCLEAR)
