"""Chaos: decides by rules and a seed what happens to what comes in.

What happens to the n-th arrival that a rule is about follows from the seed, the rule and n alone:
the same seed does the same to the same sequence.
"""

import random
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from oncebox.testing.chaos_rules import Rule

R = TypeVar("R", bound=Rule)

#: how many faults are remembered
_MOST = 10_000


class Happened(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that happened."""

    #: to which arrival, counted from 1
    arrival: int
    fault: str
    #: by which rule, counted from 1
    rule: int


class Script(Generic[R]):
    """Some rules, and how far they have come."""

    def __init__(self, rules: Sequence[R], seed: int) -> None:
        """Begin with the first arrival."""
        self.rules = tuple(rules)
        self.seed = seed
        self.happened: list[Happened] = []
        self._arrivals = 0
        self._seen = [0] * len(self.rules)
        self._struck = [0] * len(self.rules)

    def next(self, is_about: Callable[[R], bool]) -> R | None:
        """Return the rule that strikes the next arrival: the first of those that would."""
        self._arrivals += 1
        chosen: int | None = None
        for place, rule in enumerate(self.rules):
            if not is_about(rule):
                continue
            self._seen[place] += 1
            if chosen is None and self._strikes(place, rule):
                chosen = place
        if chosen is None:
            return None
        self._struck[chosen] += 1
        rule = self.rules[chosen]
        if len(self.happened) < _MOST:
            self.happened.append(
                Happened(arrival=self._arrivals, fault=rule.fault, rule=chosen + 1)
            )
        return rule

    def _strikes(self, place: int, rule: R) -> bool:
        number = self._seen[place] - rule.after
        if number < 1 or number % rule.every:
            return False
        if rule.times is not None and self._struck[place] >= rule.times:
            return False
        # No dice are shared: what one rule throws moves no other.
        return random.Random(f"{self.seed}/{place}/{number}").random() < rule.chance  # noqa: S311 - repeatable
