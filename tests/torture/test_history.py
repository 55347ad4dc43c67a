"""Histories survive their writers, and each check sees what it is there for."""

import sys
from pathlib import Path

import pytest

from tests.torture import checks
from tests.torture.checks import Violation
from tests.torture.history import (
    Downstream,
    Effect,
    Event,
    History,
    Kind,
    read_downstream,
    read_history,
    read_torn,
)
from tests.torture.processes import Children

CALLS = (
    "import sys, pathlib\n"
    "from tests.torture.history import Downstream\n"
    "world = Downstream(pathlib.Path(sys.argv[1]))\n"
    "for number in range(1000): world.call(str(number), delivery='d' * (number % 300))"
)


def ok(key: str, identity: str | None = None) -> Event:
    return Event(kind=Kind.OK, verb="accept", key=key, call="1", id=identity, pid=1)


def effect(key: str, fence: int | None = None) -> Effect:
    return Effect(key=key, delivery=f"dlv-{key}", pid=1, fence=fence)


def test_a_call_is_read_back_as_it_was_told(tmp_path: Path) -> None:
    path = tmp_path / "history"
    with History(path) as history:
        history.invoke("accept", "a").ok("dlv_1")
        history.invoke("accept", "b").info("connection lost")

    told = [(event.kind, event.key, event.id, event.note) for event in read_history(path)]

    assert told == [
        (Kind.INVOKE, "a", None, None),
        (Kind.OK, "a", "dlv_1", None),
        (Kind.INVOKE, "b", None, None),
        (Kind.INFO, "b", None, "connection lost"),
    ]


def test_beginning_and_end_of_a_call_share_a_number(tmp_path: Path) -> None:
    path = tmp_path / "history"
    with History(path) as history:
        first, second = history.invoke("accept", "a"), history.invoke("accept", "a")
        second.ok()
        first.fail()

    calls = [event.call for event in read_history(path)]

    assert calls[0] == calls[3] != calls[1] == calls[2]


def test_lines_of_many_processes_stay_whole(tmp_path: Path) -> None:
    path = tmp_path / "world"
    with Children(tmp_path) as children:
        writers = [
            children.start("writer", [sys.executable, "-c", CALLS, str(path)]) for _ in "123"
        ]
        ends = [writer.wait() for writer in writers]

    assert ends == [0, 0, 0]
    assert len(read_downstream(path)) == 3000
    assert read_torn(path) == []


def test_a_torn_line_swallows_nobody(tmp_path: Path) -> None:
    path = tmp_path / "world"
    path.write_bytes(b'\n{"key":"torn","deliv')
    with Downstream(path) as world:
        world.call("whole", delivery="d", fence=3)

    assert [one.key for one in read_downstream(path)] == ["whole"]
    assert len(read_torn(path)) == 1


def test_a_file_that_was_never_written_is_an_empty_history(tmp_path: Path) -> None:
    assert read_history(tmp_path / "absent") == []


def test_lost_finds_what_was_promised_and_is_not_there() -> None:
    assert checks.lost([ok("a"), ok("b"), ok("b")], ["a"]) == [Violation("lost", "b")]


def test_split_finds_two_ids_for_one_key() -> None:
    events = [ok("a", "1"), ok("a", "1"), ok("b", "1"), ok("b", "2")]

    assert checks.split(events) == [Violation("split", "b", "1, 2")]


def test_doubled_finds_a_second_effect() -> None:
    effects = [effect("a"), effect("b"), effect("a")]

    assert checks.doubled(effects) == [Violation("doubled", "a", "2 effects")]


def test_stale_finds_a_lower_fence_after_a_higher_one() -> None:
    effects = [effect("a", 1), effect("a", 2), effect("a", 1), effect("b", 1)]

    assert [one.subject for one in checks.stale(effects)] == ["dlv-a"]


@pytest.mark.parametrize(
    ("state", "found"), [("done", 0), ("dead", 0), ("held", 0), ("processing", 1), ("received", 1)]
)
def test_stuck_finds_what_is_in_no_end_state(state: str, found: int) -> None:
    assert len(checks.stuck({"dlv": state})) == found


def test_foreign_and_missing_compare_the_world_with_the_store() -> None:
    effects = [effect("a"), effect("b")]

    assert checks.foreign(effects, ["dlv-a"]) == [Violation("foreign", "dlv-b")]
    assert checks.missing(effects, ["dlv-a", "dlv-c"]) == [Violation("missing", "dlv-c")]


def test_unanswered_lists_the_keys_whose_retry_is_due(tmp_path: Path) -> None:
    path = tmp_path / "history"
    with History(path) as history:
        history.invoke("accept", "heard").ok()
        history.invoke("accept", "unsure").info()
        history.invoke("accept", "cut short")

    assert checks.unanswered(read_history(path)) == ["unsure", "cut short"]
