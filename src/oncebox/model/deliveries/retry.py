"""Retries: exponential backoff with full jitter, bounded by tries and by time."""

from collections.abc import Callable

import msgspec

from oncebox.errors import EffectMisused, EffectNameReused, OnceboxError, Permanent, Transient
from oncebox.model.deliveries.delivery import Delivery, DeliveryOutcome, DeliveryState, Settlement

_LONGEST_LINE = 500
#: seconds; nobody waits for a century, and every database can count to it
_LONGEST_WAIT = 3_000_000_000
#: errors in the handler's own code, which a retry does not help
_PERMANENT = (Permanent, EffectMisused, EffectNameReused)


class RetryRules(msgspec.Struct, frozen=True, kw_only=True):
    """How often and how long a failing delivery is tried; times in milliseconds."""

    #: the waits between them take two and a half hours on average
    tries: int = 16
    budget: int = 86_400_000
    first_wait: int = 2_000
    longest_wait: int = 3_600_000


def backoff(rules: RetryRules, tries: int, random: Callable[[], float]) -> int:
    """Return the wait after that many tries: anything from zero to the doubled bound."""
    doublings = min(tries - 1, 40)
    bound = min(rules.longest_wait, rules.first_wait * 2**doublings)
    return int(bound * random())


class TryFailure(msgspec.Struct, frozen=True, kw_only=True):
    """How a try failed."""

    #: in one short line
    error: str
    #: a retry does not help
    permanent: bool = False
    #: the shortest wait that the failure asked for, in milliseconds
    wait: int | None = None


def one_line(text: str) -> str:
    """Return text as one short line that every database can store."""
    line = " ".join(text.replace("\0", " ").split())
    return line.encode("utf-8", "replace").decode()[:_LONGEST_LINE]


def describe_error(error: BaseException) -> str:
    """Return an error in one short line: its own code or type, and its message."""
    name = error.code if isinstance(error, OnceboxError) else type(error).__name__
    try:
        return one_line(f"{name}: {error}").removesuffix(":")
    except Exception:  # noqa: BLE001 - an error that cannot even say what it is
        return name


def failure_from_error(error: BaseException) -> TryFailure:
    """Return how an error failed a try."""
    return TryFailure(
        error=describe_error(error),
        permanent=isinstance(error, _PERMANENT),
        wait=_requested_wait(error),
    )


def _requested_wait(error: BaseException) -> int | None:
    """Return the wait a failure asked for, in milliseconds; invalid values are ignored."""
    try:
        seconds = float(error.retry_after) if isinstance(error, Transient) else None  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    if seconds is None or not seconds > 0:  # not a number is not greater either
        return None
    return int(min(seconds, _LONGEST_WAIT) * 1000)


def settle_failure(
    delivery: Delivery,
    failure: TryFailure,
    rules: RetryRules,
    *,
    now: int,
    random: Callable[[], float],
) -> Settlement:
    """Return the settlement of a failed try: repeated later, or given up."""
    not_before = None if failure.wait is None else now + failure.wait
    due_at = max(now + backoff(rules, delivery.tries, random), not_before or 0)
    gave_up = _final_outcome(delivery, failure, rules.tries, due_at)
    return Settlement(
        delivery=delivery,
        state=DeliveryState.DEAD if gave_up else DeliveryState.FAILED,
        outcome=gave_up or DeliveryOutcome.FAILED,
        error=one_line(failure.error),
        due_at=None if gave_up else due_at,
        not_before=not_before,
    )


def hold_settlement(delivery: Delivery, reason: str) -> Settlement:
    """Return the settlement of a try after which an operator decides."""
    reason = one_line(reason)
    return Settlement(
        delivery=delivery,
        state=DeliveryState.HELD,
        outcome=DeliveryOutcome.HELD,
        hold_reason=reason,
        error=reason,
    )


def _final_outcome(
    delivery: Delivery, failure: TryFailure, tries: int, due_at: int
) -> DeliveryOutcome | None:
    if failure.permanent:
        return DeliveryOutcome.PERMANENT
    if delivery.tries >= tries:
        return DeliveryOutcome.TRIES_USED_UP
    return DeliveryOutcome.TIME_USED_UP if due_at > delivery.give_up_at else None
