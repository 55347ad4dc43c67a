"""Duplicate classes: rule tables that classify duplicates and rejected requests."""

from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import NamedTuple

import msgspec

from oncebox.model.deliveries.delivery import DeliveryState

#: an acknowledgement slower than this makes most providers send again
ACK_TIMEOUT_MS = 5_000
#: providers' own retries stop after three days
RETRY_SPAN_MS = 3 * 24 * 3_600_000


class DuplicateClass(StrEnum):
    """The classes of repeats and rejected requests."""

    #: a request that we forwarded came back to us
    ECHO = "echo"
    #: the same key with another body
    CONFLICT = "conflict"
    #: a known body under a new unsigned id: it may be an altered copy
    SUSPICIOUS_REPLAY = "suspicious_replay"
    #: the same event through another channel, such as webhook and poll
    CROSS_PATH = "cross_path"
    #: we acknowledged so late that the sender retried
    ACK_TIMEOUT = "our_late_ack"
    #: sent again much later, or after it ended, probably on request
    REDELIVERY = "redelivery"
    #: its signed time is outside the window: replayed, delayed, or clock skew
    STALE = "stale"
    #: a retry of the sender, which got no answer or delivers at least once
    PROVIDER_RETRY = "provider_retry"
    #: the signature does not match the body: a wrong secret or a forged sender
    FORGED = "forged"
    #: from another network, account or topic than the source expects
    WRONG_SOURCE = "wrong_source"
    #: no other rule applies
    UNCLEAR = "unclear"


class DuplicateFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a duplicate."""

    same_body: bool
    same_channel: bool
    state: DeliveryState
    #: how long the first arrival waited for its commit
    ack_ms: int
    #: how long after the first arrival this one came
    gap_ms: int
    #: it carries our own mark
    echo: bool = False
    #: it is a known body under an unsigned id, or a duplicate of such
    replay: bool = False
    #: it was signed outside the window
    late: bool = False


class ClassRule(NamedTuple):
    """A class, and the condition for it, in words and as code."""

    duplicate_class: DuplicateClass
    when: str
    holds: Callable[..., bool]


#: classes of duplicates: the first rule that holds decides; tests and docs use this table
DUPLICATE_RULES: tuple[ClassRule, ...] = (
    ClassRule(DuplicateClass.ECHO, "it carries our own mark", lambda it: it.echo),
    ClassRule(DuplicateClass.CONFLICT, "the body differs", lambda it: not it.same_body),
    ClassRule(
        DuplicateClass.SUSPICIOUS_REPLAY,
        "the body is known under another id, and the ids are not signed",
        lambda it: it.replay,
    ),
    ClassRule(
        DuplicateClass.CROSS_PATH,
        "it arrived through another channel",
        lambda it: not it.same_channel,
    ),
    ClassRule(
        DuplicateClass.ACK_TIMEOUT,
        f"our first answer took {ACK_TIMEOUT_MS // 1000} s or more, and it came within twice that",
        lambda it: it.ack_ms >= ACK_TIMEOUT_MS and it.gap_ms <= 2 * it.ack_ms,
    ),
    ClassRule(
        DuplicateClass.REDELIVERY, "the delivery is dead", lambda it: it.state is DeliveryState.DEAD
    ),
    ClassRule(
        DuplicateClass.REDELIVERY,
        f"more than {RETRY_SPAN_MS // (24 * 3_600_000)} days after the first",
        lambda it: it.gap_ms > RETRY_SPAN_MS,
    ),
    ClassRule(DuplicateClass.STALE, "its signed time is outside the window", lambda it: it.late),
    ClassRule(DuplicateClass.PROVIDER_RETRY, "it came after the first", lambda it: it.gap_ms >= 0),
    ClassRule(DuplicateClass.UNCLEAR, "none of these", lambda _: True),
)

#: reasons other than the signature: the sender is not the one that the source expects
WRONG_SOURCE_REASONS = frozenset({"address_not_allowed", "unexpected_sender", "topic_not_allowed"})
#: reasons about time, and first words of reasons that do not prove a forgery
_TIME_REASONS = {"stale", "future"}
_UNREADABLE_REASONS = {"missing", "malformed", "unusable", "too", "scheme"}

#: classes of rejected requests, by the verifier's reason
REJECTION_RULES: tuple[ClassRule, ...] = (
    ClassRule(
        DuplicateClass.STALE,
        "its signed time is outside the window",
        lambda reason: reason in _TIME_REASONS,
    ),
    ClassRule(
        DuplicateClass.WRONG_SOURCE,
        "it comes from a network, account or topic that the source does not expect",
        lambda reason: reason in WRONG_SOURCE_REASONS,
    ),
    ClassRule(
        DuplicateClass.UNCLEAR,
        "there is no signature, or none that can be read or checked",
        lambda reason: reason.partition("_")[0] in _UNREADABLE_REASONS,
    ),
    ClassRule(DuplicateClass.FORGED, "none of these: the signature does not match", lambda _: True),
)


def classify_duplicate(repeat: DuplicateFacts) -> DuplicateClass:
    """Return the class of a duplicate."""
    return _first_match(DUPLICATE_RULES, repeat)


def classify_rejection(reason: str) -> DuplicateClass:
    """Return the class of a rejected request."""
    return _first_match(REJECTION_RULES, reason)


def _first_match(rules: Iterable[ClassRule], known: object) -> DuplicateClass:
    return next(rule.duplicate_class for rule in rules if rule.holds(known))
