"""Retries: exponential backoff with full jitter, bounded by tries and by time."""

from collections.abc import Callable

import msgspec


class RetryRules(msgspec.Struct, frozen=True, kw_only=True):
    """How often and how long a failing delivery is tried; times in milliseconds."""

    tries: int = 8
    budget: int = 86_400_000
    first_wait: int = 2_000
    longest_wait: int = 3_600_000


def wait_before(rules: RetryRules, tries: int, random: Callable[[], float]) -> int:
    """Return the wait after that many tries: anything from zero to the doubled bound."""
    doublings = min(tries - 1, 40)
    bound = min(rules.longest_wait, rules.first_wait * 2**doublings)
    return int(bound * random())
