"""Sightings: what a repeat or a rejected request most likely was, by written rule tables."""

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import NamedTuple

import msgspec

from oncebox.model.delivery import State

#: an acknowledgement slower than this makes most providers send again
LATE_ACK_MS = 5_000
#: providers' own retries stop after three days
RETRY_SPAN_MS = 3 * 24 * 3_600_000


class Sighting(StrEnum):
    """The classes of repeats and rejected requests."""

    #: our own forward came back to us
    ECHO = "echo"
    #: the same key with another body
    CONFLICT = "conflict"
    #: a known body under a new id that nobody signed: somebody may have caught and altered it
    SUSPICIOUS_REPLAY = "suspicious_replay"
    #: the same thing by another road, such as webhook and poll
    CROSS_PATH = "cross_path"
    #: we took so long to acknowledge that the sender tried again
    OUR_LATE_ACK = "our_late_ack"
    #: sent again long after, or after the end: somebody asked for it
    REDELIVERY = "redelivery"
    #: signed at a time too far from ours: sent again as it was, kept too long, or a wrong clock
    STALE = "stale"
    #: the sender did not hear our answer, or sends at least once
    PROVIDER_RETRY = "provider_retry"
    #: the signature does not fit the body: a wrong secret, or not the sender it claims to be
    FORGED = "forged"
    #: none of the rules fits
    UNCLEAR = "unclear"


class Repeat(msgspec.Struct, frozen=True, kw_only=True):
    """What is known when something is seen again."""

    same_body: bool
    same_road: bool
    state: State
    #: how long the first arrival waited for its commit
    ack_ms: int
    #: how long after the first arrival this one came
    gap_ms: int
    #: it carries our own mark
    echo: bool = False
    #: it is a known body under an id that nobody signed, or a repeat of such
    replay: bool = False
    #: it was signed outside the window
    late: bool = False


class Rule(NamedTuple):
    """A class, in words and in code when it is meant."""

    sighting: Sighting
    when: str
    holds: Callable[..., bool]


#: what a repeat was: the first rule that holds decides; tests and docs come from this table
REPEATS: tuple[Rule, ...] = (
    Rule(Sighting.ECHO, "it carries our own mark", lambda it: it.echo),
    Rule(Sighting.CONFLICT, "the body is another", lambda it: not it.same_body),
    Rule(
        Sighting.SUSPICIOUS_REPLAY,
        "the body is known under another id, and nobody signed the ids",
        lambda it: it.replay,
    ),
    Rule(Sighting.CROSS_PATH, "it came by another road", lambda it: not it.same_road),
    Rule(
        Sighting.OUR_LATE_ACK,
        f"our first answer took {LATE_ACK_MS // 1000} s or more, and not twice as long passed",
        lambda it: it.ack_ms >= LATE_ACK_MS and it.gap_ms <= 2 * it.ack_ms,
    ),
    Rule(Sighting.REDELIVERY, "the delivery is dead", lambda it: it.state is State.DEAD),
    Rule(
        Sighting.REDELIVERY,
        f"more than {RETRY_SPAN_MS // (24 * 3_600_000)} days passed since the first",
        lambda it: it.gap_ms > RETRY_SPAN_MS,
    ),
    Rule(Sighting.STALE, "its signed time is outside the window", lambda it: it.late),
    Rule(Sighting.PROVIDER_RETRY, "it came after the first", lambda it: it.gap_ms >= 0),
    Rule(Sighting.UNCLEAR, "none of these", lambda _: True),
)

#: reasons for a rejection that speak of time, and the first words of those that leave open who
#: is at fault
_OUT_OF_TIME = {"stale", "future"}
_UNREADABLE = {"missing", "malformed", "unusable", "too", "scheme"}

#: what a rejected request was, by the verifier's reason
REJECTS: tuple[Rule, ...] = (
    Rule(
        Sighting.STALE,
        "its signed time is too far from ours",
        lambda reason: reason in _OUT_OF_TIME,
    ),
    Rule(
        Sighting.UNCLEAR,
        "there is no signature, or none that can be read or checked",
        lambda reason: reason.partition("_")[0] in _UNREADABLE,
    ),
    Rule(Sighting.FORGED, "none of these: the signature does not fit", lambda _: True),
)


def classify(repeat: Repeat) -> Sighting:
    """Return what a repeat most likely was."""
    return _first(REPEATS, repeat)


def classify_reject(reason: str) -> Sighting:
    """Return what a rejected request most likely was."""
    return _first(REJECTS, reason)


def _first(rules: Iterable[Rule], known: object) -> Sighting:
    return next(rule.sighting for rule in rules if rule.holds(known))
