"""The judge of claims is not blind: every broken promise has its name."""

import pytest

from tests.torture.artifacts.claims import judge
from tests.torture.artifacts.crowd import Answer
from tests.torture.artifacts.extraction import points
from tests.torture.artifacts.shelf import Thing

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


def test_every_point_of_artifacts_is_struck_somewhere() -> None:
    assert points()
