"""Ids: a prefix and a UUIDv7, so that text order is time order."""

import re
import time
from threading import Thread

import pytest

from oncebox.core import clock, ids

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def _number(id_: str) -> int:
    number = 0
    for letter in id_.split("_", 1)[1]:
        number = number * 32 + _ALPHABET.index(letter)
    return number


@pytest.mark.parametrize("prefix", ["dlv", "aud", "wrk"])
def test_an_id_has_its_prefix_and_26_letters_that_cannot_be_confused(prefix: str) -> None:
    assert re.fullmatch(rf"{prefix}_[0-9a-hjkmnp-tv-z]{{26}}", ids.new(prefix))


def test_an_id_is_a_uuid_of_version_7_with_the_time_in_front() -> None:
    before = time.time_ns() // 1_000_000
    number = _number(ids.new("dlv"))
    after = time.time_ns() // 1_000_000

    assert number >> 76 & 0xF == 7
    assert number >> 62 & 0x3 == 2
    assert before - 1 <= number >> 80 <= after + 1


def test_later_ids_are_greater_as_text() -> None:
    made = [ids.new("dlv") for _ in range(20_000)]

    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_threads_never_make_the_same_id() -> None:
    made: list[list[str]] = [[] for _ in range(4)]

    def make(kept: list[str]) -> None:
        kept.extend(ids.new("dlv") for _ in range(5_000))

    threads = [Thread(target=make, args=(kept,)) for kept in made]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert len({id_ for kept in made for id_ in kept}) == 20_000
    assert all(kept == sorted(kept) for kept in made)


def test_the_lowest_id_of_a_time_separates_those_before_and_after_it() -> None:
    before = ids.new("evt")
    time.sleep(0.002)
    middle = ids.lowest("evt", clock.system())
    time.sleep(0.002)

    assert before < middle < ids.new("evt")
    assert len(before) == len(middle)
