"""The judge of the ledger is not blind: each broken promise is seen, and nothing else."""

from collections import Counter
from dataclasses import replace

from tests.torture.history import Effect, Event
from tests.torture.history import Kind as Said
from tests.torture.ledger.books import Books, Journalled, Row
from tests.torture.ledger.errands import Kind
from tests.torture.ledger.promises import judge, judge_calm

DONE = Row(
    id="d1",
    source="shop",
    key="k1",
    variant="",
    type=Kind.ONCE,
    state="done",
    lane=None,
    lane_position=None,
    tries=1,
    fence=1,
    outcome="handled",
    due_at=None,
    ended_at=1,
    hold_reason=None,
    last_error=None,
    rearms=0,
)
HELD = replace(DONE, state="held", hold_reason="in doubt", ended_at=None)


def told(key: str = "k1", id_: str = "d1", kind: Said = Said.OK) -> Event:
    return Event(kind=kind, verb="accept", key=key, call="1", id=id_, pid=1)


def call(delivery: str = "d1", key: str = "", fence: int = 1) -> Effect:
    return Effect(key=key or f"call/{delivery}", delivery=delivery, pid=1, fence=fence)


def books(*rows: Row, marks: Counter[str] | None = None, doubtful: tuple[str, ...] = ()) -> Books:
    journal = [Journalled(id_, "call", "unknown", "once", 1) for id_ in doubtful]
    return Books(list(rows), journal, [], marks or Counter(), [])


def broken(
    *rows: Row,
    events: tuple[Event, ...] = (),
    effects: tuple[Effect, ...] = (),
    doubtful: tuple[str, ...] = (),
    marks: Counter[str] | None = None,
) -> set[str]:
    found = judge(events, effects, books(*rows, marks=marks, doubtful=doubtful))
    return {violation.rule for violation in found}


def test_a_sound_run_breaks_nothing() -> None:
    assert broken(DONE, events=(told(),), effects=(call(),)) == set()


def test_an_acknowledged_key_that_is_gone_is_lost() -> None:
    assert broken(events=(told(),)) == {"lost"}


def test_a_key_with_two_rows_is_doubled() -> None:
    other = replace(DONE, id="d2")

    assert broken(DONE, other, effects=(call(), call("d2"))) == {"doubled"}


def test_a_conflict_is_not_a_second_row_of_its_key() -> None:
    conflict = replace(HELD, id="d2", variant="abc", type=Kind.ONCE)

    assert broken(DONE, conflict, effects=(call(),), doubtful=("d2",)) == set()


def test_an_answer_other_than_not_now_is_refused() -> None:
    assert broken(DONE, events=(told(kind=Said.FAIL),), effects=(call(),)) == {"refused"}


def test_two_calls_of_what_may_happen_once_are_doubled() -> None:
    for kind in (Kind.ONCE, Kind.VERIFIED, Kind.FLAKY):
        assert broken(replace(DONE, type=kind), effects=(call(), call())) == {"doubled"}


def test_an_idempotent_call_may_be_repeated_with_its_own_key_only() -> None:
    row = replace(DONE, type=Kind.IDEMPOTENT)

    assert broken(row, effects=(call(), call())) == set()
    assert broken(row, effects=(call(), call(key="other"))) == {"doubled"}


def test_a_key_shared_by_two_deliveries_is_doubled() -> None:
    rows = [replace(DONE, type=Kind.IDEMPOTENT, id=id_, key=id_) for id_ in ("d1", "d2")]

    assert broken(*rows, effects=(call(key="x"), call("d2", key="x"))) == {"doubled"}


def test_marks_are_made_once() -> None:
    row = replace(DONE, type=Kind.OWN)

    assert broken(row, marks=Counter(d1=1)) == set()
    assert broken(row, marks=Counter(d1=2)) == {"doubled"}
    assert broken(row) == {"missing"}


def test_an_effect_of_nobody_is_foreign() -> None:
    assert broken(effects=(call("d9"),)) == {"foreign"}


def test_done_without_an_effect_is_missing() -> None:
    assert broken(DONE) == {"missing"}


def test_whatever_is_open_is_stuck_unless_it_waits_behind_a_held_one() -> None:
    first = replace(HELD, lane="a", lane_position=1)
    second = replace(DONE, id="d2", key="k2", state="received", lane="a", lane_position=2)

    assert broken(replace(DONE, state="failed")) == {"stuck"}
    assert broken(first, second, doubtful=("d1",)) == set()
    assert broken(first, replace(second, lane="b"), doubtful=("d1",)) == {"stuck"}
    assert broken(first, replace(second, lane_position=0), doubtful=("d1",)) == {"stuck"}


def test_a_hold_without_a_doubt_is_needless() -> None:
    assert broken(HELD) == {"needless"}
    assert broken(HELD, doubtful=("d1",)) == set()
    assert broken(replace(HELD, type=Kind.OWN), doubtful=("d1",)) == {"needless"}
    assert [one.rule for one in judge_calm(books(HELD))] == ["needless"]


def test_a_death_with_tries_left_is_needless() -> None:
    assert broken(replace(DONE, state="dead")) == {"needless"}
    assert broken(replace(DONE, state="dead", type=Kind.FATAL)) == set()
    assert broken(replace(DONE, state="dead", source="frail-a")) == set()


def test_overtaking_in_a_lane_is_seen() -> None:
    one = replace(DONE, lane="a", lane_position=1)
    two = replace(DONE, id="d2", key="k2", lane="a", lane_position=2)

    assert broken(one, two, effects=(call("d1"), call("d2"))) == set()
    assert broken(one, two, effects=(call("d2"), call("d1"))) == {"overtaken"}


def test_a_call_under_an_old_fence_is_stale() -> None:
    row = replace(DONE, type=Kind.IDEMPOTENT, fence=2)

    assert broken(row, effects=(call(fence=1), call(fence=2))) == set()
    assert broken(row, effects=(call(fence=2), call(fence=1))) == {"stale"}
