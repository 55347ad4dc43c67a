"""Ordering: what a source says about the order inside its lanes, and what that means for one."""

import msgspec


class LaneRules(msgspec.Struct, frozen=True, kw_only=True):
    """What a source says about its lanes; all times in milliseconds."""

    #: what becomes of a number below the highest that is done: ``skip`` or ``run``
    stale: str = "run"
    #: how long a missing number is waited for
    gap_wait: int = 0
    #: types that wait until another type of the same lane is done
    after: dict[str, str] = {}
    #: how long they wait
    after_wait: int = 0


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What is particular about one delivery's place in its lane."""

    #: its number; a lane with numbers runs from the lowest up
    sequence: int | None = None
    #: it is not run once a higher number is done
    skip_stale: bool = False
    #: until when it waits for the numbers before its own
    gap_until: int = 0
    #: the type that it lets go first
    after: str | None = None
    #: until when it waits for that
    after_until: int = 0


def order(rules: LaneRules, type_: str, sequence: int | None, arrived: int) -> Order:
    """Return what the rules mean for an arrival; waits count from its arrival."""
    return Order(
        sequence=sequence,
        skip_stale=rules.stale == "skip",
        gap_until=arrived + rules.gap_wait,
        after=rules.after.get(type_),
        after_until=arrived + rules.after_wait,
    )
