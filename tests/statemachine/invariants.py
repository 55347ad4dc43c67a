"""What must hold of the ledger at every moment, whatever happened before."""

from collections.abc import Mapping

from oncebox.model.delivery import TRANSITIONS, State
from oncebox.model.inspection import Facts
from tests.statemachine.model import OPEN, WAITING

Ledger = Mapping[str, Facts]


def check(now: Ledger, before: Ledger) -> None:
    """Check everything that can be said without knowing what was done."""
    nothing_is_lost(now, before)
    moves_are_in_the_table(now, before)
    keys_count_once(now)
    lanes_are_in_order(now)
    nothing_is_stuck(now)


def nothing_is_lost(now: Ledger, before: Ledger) -> None:
    """What was accepted stays."""
    assert now.keys() >= before.keys()


def moves_are_in_the_table(now: Ledger, before: Ledger) -> None:
    """States change only as the table says; the fence never falls; a claim counts a try."""
    for id_, facts in now.items():
        if id_ not in before:
            assert facts.state in {State.RECEIVED, State.HELD}
            continue
        earlier = before[id_]
        assert facts.fence >= earlier.fence
        claimed = facts.fence > earlier.fence
        if claimed:
            assert (facts.fence, facts.tries) == (earlier.fence + 1, earlier.tries + 1)
        if claimed or facts.state is not earlier.state:
            assert (earlier.state, facts.state) in TRANSITIONS


def keys_count_once(now: Ledger) -> None:
    """There is one delivery to a key, and one to each body that conflicts with it."""
    keys = [(facts.source, facts.key, facts.variant) for facts in now.values()]
    assert len(keys) == len(set(keys))


def lanes_are_in_order(now: Ledger) -> None:
    """At most one of a lane is worked on or due, and nobody before it is open."""
    for lane in {facts.lane for facts in now.values() if facts.lane}:
        members = [
            facts
            for facts in now.values()
            if facts.lane == lane and facts.state in OPEN and facts.lane_position is not None
        ]
        earliest = min((facts.lane_position or 0 for facts in members), default=0)
        active = [
            facts
            for facts in members
            if facts.state is State.PROCESSING
            or (facts.state in WAITING and facts.due_at is not None)
        ]
        assert len(active) <= 1
        assert all(facts.lane_position == earliest for facts in active)


def nothing_is_stuck(now: Ledger) -> None:
    """What is open is worked on, due, behind somebody in its lane, or held with a reason."""
    for facts in now.values():
        if facts.state is State.HELD:
            assert facts.hold_reason
        elif facts.state in OPEN:
            assert facts.due_at is not None or _is_behind_somebody(facts, now)


def _is_behind_somebody(facts: Facts, now: Ledger) -> bool:
    return facts.lane is not None and any(
        other.lane == facts.lane
        and other.state in OPEN
        and other.lane_position is not None
        and other.lane_position < (facts.lane_position or 0)
        for other in now.values()
    )
