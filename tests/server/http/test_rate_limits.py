"""Buckets let each name have its share, and remember only so many."""

from hypothesis import given
from hypothesis import strategies as st

from oncebox.server.rate_limits import TokenBuckets


@given(rate=st.integers(1, 50), burst=st.integers(1, 50), asked=st.integers(1, 300))
def test_nobody_gets_more_than_the_burst_and_the_rate(rate: int, burst: int, asked: int) -> None:
    buckets = TokenBuckets(rate, burst=burst)
    taken = sum(not buckets.take("a", number / 100) for number in range(asked))

    assert taken <= burst + rate * (asked - 1) / 100 + 1
    assert taken >= min(asked, burst)


@given(st.integers(1, 20))
def test_who_waits_as_long_as_told_gets_one(rate: int) -> None:
    buckets = TokenBuckets(rate, burst=2)
    now = 0.0
    for _ in range(10):
        wait = buckets.take("a", now)
        if wait:
            assert buckets.wait("a", now) == wait
            now += wait
            assert not buckets.take("a", now)


def test_names_do_not_share() -> None:
    buckets = TokenBuckets(1, burst=1)

    assert not buckets.take("a", 0)
    assert not buckets.take("b", 0)
    assert buckets.take("a", 0)


def test_a_flood_of_names_is_forgotten() -> None:
    buckets = TokenBuckets(1, burst=1, most=100)
    for number in range(1_000):
        buckets.take(str(number), 0)

    assert len(buckets) <= 100
