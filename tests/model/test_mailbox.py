"""Mailboxes: when a server that failed is asked again."""

import pytest

from oncebox.model.mailboxes.mailbox import backoff

_DAY_MS = 86_400_000


@pytest.mark.parametrize("asked", [86_401, 999_999_999, 1e300, float("inf")])
def test_a_server_delays_its_next_read_for_a_day_at_most(asked: float) -> None:
    assert backoff(1, asked, lambda: 0.0) == _DAY_MS


def test_a_server_is_asked_again_no_earlier_than_it_says() -> None:
    assert backoff(1, 7200, lambda: 0.0) == 7_200_000
    assert backoff(20, 1, lambda: 1.0) == 900_000
    assert backoff(1, None, lambda: 0.0) == 500
