"""The judge of claims is not blind: every broken promise has its name."""

import pytest

from tests.torture.artifacts.claims import judge
from tests.torture.artifacts.crowd import Answer
from tests.torture.artifacts.extraction import points
from tests.torture.artifacts.shelf import Thing
from tests.torture.artifacts.workers import judge as judge_workers

THING = Thing("art_1", "481920")
FIRST = Answer("a", "granted", "481920")
AGAIN = Answer("a", "granted", "481920", repeated=True)
DENIED = Answer("b", "already_claimed")


def rules(has: str | None, first: list[Answer], second: list[Answer]) -> set[str]:
    """Return the promises that are broken."""
    return {each.rule for each in judge(THING, has, first, second)}


def test_one_grant_that_is_read_again_keeps_all_promises() -> None:
    assert rules("a", [FIRST, AGAIN, DENIED], [AGAIN, AGAIN, DENIED]) == set()


def test_the_answer_to_the_one_who_has_it_may_be_lost() -> None:
    assert rules("a", [DENIED], [AGAIN, DENIED]) == set()


@pytest.mark.parametrize(
    ("has", "first", "second", "rule"),
    [
        ("a", [FIRST, Answer("b", "granted", "481920")], [AGAIN], "doubled"),
        ("a", [FIRST, FIRST], [AGAIN], "doubled"),
        ("a", [FIRST], [FIRST], "doubled"),
        (None, [DENIED], [DENIED], "stolen"),
        ("b", [FIRST], [Answer("b", "granted", "481920", repeated=True)], "stolen"),
        ("a", [FIRST], [Answer("a", "already_claimed")], "stolen"),
        ("a", [Answer("a", "granted", "000000")], [AGAIN], "corrupt"),
        ("a", [FIRST, Answer("b", "not_found")], [AGAIN], "refused"),
    ],
)
def test_a_broken_promise_is_found(
    has: str | None, first: list[Answer], second: list[Answer], rule: str
) -> None:
    assert rule in rules(has, first, second)


HELD = Answer("a", "in_flight")
USED = Answer("a", "used")


def test_one_worker_at_a_time_keeps_all_promises() -> None:
    assert not [*judge_workers(THING, [FIRST, HELD], [HELD, HELD], [AGAIN, HELD], [USED, USED])]


@pytest.mark.parametrize(
    ("first", "leased", "expired", "used", "rule"),
    [
        ([FIRST, AGAIN], [HELD], [AGAIN], [USED], "doubled"),
        ([FIRST], [AGAIN], [AGAIN], [USED], "doubled"),
        ([FIRST], [HELD], [AGAIN, AGAIN], [USED], "doubled"),
        ([FIRST], [HELD], [HELD], [USED], "lost"),
        ([FIRST], [HELD], [AGAIN], [AGAIN], "doubled"),
        ([FIRST, DENIED], [HELD], [AGAIN], [USED], "refused"),
        ([FIRST], [HELD], [Answer("a", "granted", "000000")], [USED], "corrupt"),
    ],
)
def test_two_workers_at_a_time_are_found(
    first: list[Answer], leased: list[Answer], expired: list[Answer], used: list[Answer], rule: str
) -> None:
    found = judge_workers(THING, first, leased, expired, used)

    assert rule in {each.rule for each in found}


def test_every_point_of_artifacts_is_struck_somewhere() -> None:
    assert points()
