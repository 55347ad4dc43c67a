"""The judge of the readers is not blind: what is missed, doubled or out of order is seen."""

import pytest

from tests.torture.mail.readers import Reader, judge

WANTED = ["a", "b", "c", "d"]


def broken(seen: list[str], recorded: int = 4) -> set[str]:
    return {found.rule for found in judge(WANTED, [Reader("one", seen=seen)], recorded)}


def test_a_reader_that_saw_everything_once_and_in_order_breaks_nothing() -> None:
    assert broken(WANTED) == set()


@pytest.mark.parametrize(
    ("seen", "rule"),
    [
        (["a", "b", "d"], "skipped"),
        ([], "skipped"),
        (["a", "b", "b", "c", "d"], "doubled"),
        (["a", "c", "b", "d"], "disordered"),
        (["a", "b", "c", "d", "e"], "disordered"),
    ],
)
def test_a_reader_that_saw_anything_else_is_caught(seen: list[str], rule: str) -> None:
    assert rule in broken(seen)


def test_an_event_that_was_recorded_and_is_not_there_is_lost() -> None:
    assert broken(WANTED, recorded=5) == {"lost"}


def test_a_reader_in_trouble_is_reported() -> None:
    (found,) = judge(WANTED, [Reader("one", seen=WANTED, trouble="OSError")], 4)

    assert found.rule == "crashed"
