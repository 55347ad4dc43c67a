"""The judge of the webhooks is not blind: each broken promise is seen, and nothing else."""

from collections import Counter
from dataclasses import replace

import pytest

from tests.torture.history import Effect, Event, Kind
from tests.torture.hooks.promises import disturbed, judge, judge_storm
from tests.torture.ledger.books import Books, Row

DONE = Row(
    id="d1",
    source="github",
    key="k1",
    variant="",
    type="push",
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
RUN = Effect(key="run/d1", delivery="d1", pid=1, fence=1)


def told(kind: Kind, key: str = "k1") -> Event:
    return Event(kind=kind, verb="post", key=key, call="1", pid=1)


#: A request that was sent and acknowledged.
HEARD = (told(Kind.INVOKE), told(Kind.OK))


def books(*rows: Row, marks: int = 1, seen: int = 0) -> Books:
    counted = {"d1": Counter(provider_retry=seen)} if seen else {}
    found = Counter({row.id: marks for row in rows})
    return Books(list(rows), [], [], found, [], counted)


def broken(events: tuple[Event, ...], found: Books) -> set[str]:
    return {violation.rule for violation in judge(events, found)}


def test_a_sound_run_breaks_nothing() -> None:
    assert broken(HEARD, books(DONE)) == set()


def test_a_retry_after_a_lost_answer_may_or_may_not_have_been_seen() -> None:
    events = (told(Kind.INVOKE), told(Kind.INFO), *HEARD)

    assert broken(events, books(DONE)) == set()
    assert broken(events, books(DONE, seen=1)) == set()


@pytest.mark.parametrize(
    ("rule", "events", "found"),
    [
        ("lost", HEARD, books()),
        ("doubled", (*HEARD, *HEARD), books(DONE, replace(DONE, id="d2"), seen=1)),
        ("foreign", (), books(DONE)),
        ("refused", (told(Kind.INVOKE), told(Kind.FAIL), *HEARD), books(DONE)),
        ("stuck", HEARD, books(replace(DONE, state="received"))),
        ("stuck", HEARD, books(replace(DONE, state="held", hold_reason="suspicious_replay"))),
        ("missing", HEARD, books(DONE, marks=0)),
        ("doubled", HEARD, books(DONE, marks=2)),
        ("miscounted", HEARD, books(DONE, seen=1)),
        ("miscounted", (*HEARD, *HEARD), books(DONE)),
        ("corrupt", HEARD, replace(books(DONE), faults=["torn page"])),
    ],
)
def test_a_broken_promise_is_seen(rule: str, events: tuple[Event, ...], found: Books) -> None:
    assert rule in broken(events, found)


def test_a_lost_answer_is_a_disturbance_where_nothing_was_to_stop_it() -> None:
    assert disturbed(HEARD) == []
    assert len(disturbed((*HEARD, told(Kind.INFO)))) == 1


def test_a_storm_is_one_delivery_one_run_and_every_copy_counted() -> None:
    assert judge_storm(100, [RUN], books(DONE, seen=99)) == []


@pytest.mark.parametrize(
    ("runs", "found"),
    [
        ([], books(DONE, seen=99)),
        ([RUN, RUN], books(DONE, seen=99)),
        ([RUN], books(DONE, replace(DONE, id="d2"), seen=99)),
        ([RUN], books(DONE, seen=98)),
        ([RUN], books(DONE, seen=100)),
        ([RUN], books(DONE, seen=99, marks=2)),
    ],
)
def test_a_storm_that_went_otherwise_is_seen(runs: list[Effect], found: Books) -> None:
    assert judge_storm(100, runs, found) != []
