"""What must hold of the ledger at every moment, whatever happened before."""

from collections.abc import Mapping

from oncebox.model.deliveries.delivery import TRANSITIONS, DeliveryState
from oncebox.model.deliveries.inspection import DeliveryRecord
from tests.statemachine.model import OPEN, WAITING
from tests.statemachine.profiles import RULED_LANES

Ledger = Mapping[str, DeliveryRecord]


def check(now: Ledger, before: Ledger) -> None:
    """Check everything that can be said without knowing what was done."""
    nothing_is_lost(now, before)
    moves_are_in_the_table(now, before)
    keys_count_once(now)
    bodies_count_once_where_nobody_signed_the_key(now)
    lanes_are_in_order(now)
    numbers_begin_from_the_lowest(now, before)
    what_is_stale_is_not_run(now)
    nothing_is_stuck(now)


def nothing_is_lost(now: Ledger, before: Ledger) -> None:
    """What was accepted stays."""
    assert now.keys() >= before.keys()


def moves_are_in_the_table(now: Ledger, before: Ledger) -> None:
    """States change only as the table says; the fence never falls; a claim counts a try."""
    for id_, facts in now.items():
        if id_ not in before:
            assert facts.state in {DeliveryState.RECEIVED, DeliveryState.HELD, DeliveryState.DONE}
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


def bodies_count_once_where_nobody_signed_the_key(now: Ledger) -> None:
    """A replay names the first that had its body, and that one is no replay itself."""
    for facts in now.values():
        if facts.replay_of is not None:
            assert now[facts.replay_of].replay_of is None
            assert facts.replay_of != facts.id


def numbers_begin_from_the_lowest(now: Ledger, before: Ledger) -> None:
    """What begins has the lowest number of all that are open in its lane."""
    for id_, facts in now.items():
        begins = (
            facts.state is DeliveryState.PROCESSING and id_ in before and before[id_].tries == 0
        )
        if begins and facts.sequence is not None and before[id_].state is DeliveryState.RECEIVED:
            open_numbers = [
                other.sequence
                for other in before.values()
                if other.lane == facts.lane
                and other.state in OPEN
                and other.lane_position is not None
                and other.sequence is not None
            ]
            assert facts.sequence == min(open_numbers)


def what_is_stale_is_not_run(now: Ledger) -> None:
    """What was skipped was never begun in that round, and has a higher number done beside it."""
    for facts in now.values():
        if facts.outcome == "stale" and facts.state is DeliveryState.DONE:
            assert facts.sequence is not None
            assert facts.tries == 0
            assert any(
                other.lane == facts.lane and (other.sequence or 0) > facts.sequence
                for other in now.values()
            )


def lanes_are_in_order(now: Ledger) -> None:
    """At most one of a lane is worked on or due; where only arrival counts, the first."""
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
            if facts.state is DeliveryState.PROCESSING
            or (facts.state in WAITING and facts.due_at is not None)
        ]
        assert len(active) <= 1
        assert lane in RULED_LANES or all(facts.lane_position == earliest for facts in active)


def nothing_is_stuck(now: Ledger) -> None:
    """What is open is worked on, due, behind somebody in its lane, or held with a reason."""
    for facts in now.values():
        if facts.state is DeliveryState.HELD:
            assert facts.hold_reason
        elif facts.state in OPEN:
            assert facts.due_at is not None or _is_behind_somebody(facts, now)


def _is_behind_somebody(facts: DeliveryRecord, now: Ledger) -> bool:
    return facts.lane is not None and any(
        other.lane == facts.lane
        and other.state in OPEN
        and other.lane_position is not None
        and (other.lane_position < (facts.lane_position or 0) or facts.lane in RULED_LANES)
        and other.id != facts.id
        for other in now.values()
    )
