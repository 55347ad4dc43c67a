"""Limits of a source: how many are begun per second and at the same time, by everybody together."""

from typing import Any

import pytest

from oncebox.ledger.deliveries import leases
from oncebox.model.deliveries.delivery import Delivery
from tests.support.clerk import HOUR, LEASE, Clerk
from tests.support.interleaved import interleave


def _fill(clerk: Clerk, count: int = 20) -> None:
    clerk.accept(*(clerk.arrival(str(number)) for number in range(count)))


def _limited(clerk: Clerk, worker: str = "ann", **limits: Any) -> leases.DeliveryClaimant:
    return clerk.claimant(worker)._replace(**limits)


def _claim(clerk: Clerk, most: int = 100, **limits: Any) -> list[Delivery]:
    return clerk.run(leases.claim, _limited(clerk, **limits), most, clerk.now)


def test_no_more_are_worked_on_at_once_than_the_source_allows(clerk: Clerk) -> None:
    _fill(clerk)
    first = _claim(clerk, concurrency=3)
    assert len(first) == 3
    assert _claim(clerk, concurrency=3) == []

    clerk.complete(first[0])
    assert len(_claim(clerk, concurrency=3)) == 1


def test_lost_work_still_counts_as_being_worked_on(clerk: Clerk) -> None:
    _fill(clerk)
    _claim(clerk, concurrency=2)
    clerk.now += LEASE

    assert _claim(clerk, concurrency=2) == []
    assert clerk.claim_expired() is not None


def test_no_more_are_begun_in_a_second_than_the_source_allows(clerk: Clerk) -> None:
    _fill(clerk)
    assert len(_claim(clerk, rate=4)) == 4
    assert _claim(clerk, rate=4) == []

    clerk.now += 250
    assert len(_claim(clerk, rate=4)) == 1
    clerk.now += 500
    assert len(_claim(clerk, rate=4)) == 2
    clerk.now += HOUR
    assert len(_claim(clerk, rate=4)) == 4


def test_a_claim_that_finds_nothing_uses_nothing_up(clerk: Clerk) -> None:
    assert _claim(clerk, rate=2) == []
    _fill(clerk)

    assert len(_claim(clerk, rate=2)) == 2


def test_a_rate_that_is_lowered_holds_at_once(clerk: Clerk) -> None:
    _fill(clerk)
    _claim(clerk, most=1, rate=10)
    clerk.now += 1_000

    assert len(_claim(clerk, rate=2)) == 2


@pytest.mark.parametrize("jump", [-HOUR, -1])
def test_a_clock_that_goes_back_stops_no_source(clerk: Clerk, jump: int) -> None:
    _fill(clerk)
    clerk.now += 2 * HOUR
    assert len(_claim(clerk, rate=2)) == 2

    clerk.now += jump
    assert _claim(clerk, rate=2) == []
    clerk.now += 1_000
    assert len(_claim(clerk, rate=2)) == 2


def test_sources_have_limits_of_their_own(clerk: Clerk) -> None:
    clerk.accept(clerk.arrival("1"), clerk.arrival("2", source="bank"))
    _claim(clerk, concurrency=1)
    bank = clerk.claimant(source="bank")._replace(concurrency=1)

    assert len(clerk.run(leases.claim, bank, 5, clerk.now)) == 1


@pytest.mark.parametrize("limits", [{"concurrency": 3}, {"rate": 3}])
def test_two_claims_at_once_stay_within_the_limit_together(
    clerk: Clerk, limits: dict[str, int]
) -> None:
    _fill(clerk)
    ann, ben = _limited(clerk, "ann", **limits), _limited(clerk, "ben", **limits)

    first, second = interleave(
        clerk.place,
        lambda tx: leases.claim(tx, ann, 2, clerk.now),
        lambda tx: leases.claim(tx, ben, 2, clerk.now),
    )

    assert (len(first), len(second)) == (2, 1)
