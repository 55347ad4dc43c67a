"""Backoff: exponential, with full jitter, bounded."""

from hypothesis import given
from hypothesis import strategies as st

from oncebox.ledger.deliveries.settlements import default_retry_rules
from oncebox.model.deliveries.retry import RetryRules, backoff
from oncebox.settings import RetrySettings

rules = st.builds(
    RetryRules,
    first_wait=st.integers(0, 10**6),
    longest_wait=st.integers(0, 10**9),
)
tries = st.integers(1, 10**6)
dice = st.floats(0, 1, exclude_max=True)


@given(rules, tries, dice)
def test_a_wait_is_never_negative_and_never_over_its_bound(
    given_: RetryRules, count: int, draw: float
) -> None:
    wait = backoff(given_, count, lambda: draw)

    assert 0 <= wait <= given_.longest_wait
    assert wait <= given_.first_wait * 2 ** min(count - 1, 60)


@given(rules, tries, dice)
def test_a_later_wait_is_never_shorter_for_the_same_draw(
    given_: RetryRules, count: int, draw: float
) -> None:
    assert backoff(given_, count, lambda: draw) <= backoff(given_, count + 1, lambda: draw)


def test_the_bound_doubles_until_the_longest_wait() -> None:
    given_ = RetryRules(first_wait=1_000, longest_wait=10_000)

    waits = [backoff(given_, count, lambda: 1.0) for count in range(1, 8)]

    assert waits == [1_000, 2_000, 4_000, 8_000, 10_000, 10_000, 10_000]


def test_by_default_a_handler_that_fails_for_an_hour_uses_up_no_delivery() -> None:
    given_ = default_retry_rules(RetrySettings())
    waits = [backoff(given_, count, lambda: 0.5) for count in range(1, given_.tries)]

    assert given_ == RetryRules()
    assert 2 * 3_600_000 < sum(waits) < given_.budget


def test_the_jitter_is_full() -> None:
    given_ = RetryRules(first_wait=1_000)

    assert [backoff(given_, 1, lambda draw=draw: draw) for draw in (0.0, 0.25, 0.5)] == [  # type: ignore[misc]
        0,
        250,
        500,
    ]
