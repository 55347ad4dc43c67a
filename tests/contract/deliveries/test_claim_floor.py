"""A worker's claims start where its last one found nothing, and miss nothing for long."""

from typing import Any

import pytest

from oncebox.core import clock
from oncebox.db.database import Database
from oncebox.ledger.deliveries import leases
from oncebox.ledger.deliveries.leases import DeliveryClaimant
from oncebox.ledger.transactions import Ledger
from oncebox.model.deliveries.delivery import Delivery
from oncebox.workers.deliveries.delivery_worker import Claimer
from tests.support.clerk import LEASE, SOURCE, TENANT, Clerk

WHO = DeliveryClaimant(TENANT, SOURCE, "ann", LEASE, 5, 100_000_000)


class Worker:
    """A claimer on a clerk's ledger, at the clerk's time, and where its scans started."""

    def __init__(self, clerk: Clerk, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clerk = clerk
        self.steady = 1_000.0
        self.floors: list[int] = []
        monkeypatch.setattr(clock, "steady", lambda: self.steady)
        ledger = Ledger(database)
        write, read = ledger.write, ledger.read
        monkeypatch.setattr(ledger, "clock", lambda: clerk.now)

        async def watched(work: Any, *args: Any) -> Any:
            if work in {leases.claim_from, leases.has_expired, leases.dead_letter_exhausted}:
                self.floors.append(args[-1])
            return await (read if work is leases.has_expired else write)(work, *args)

        monkeypatch.setattr(ledger, "write", watched)
        monkeypatch.setattr(ledger, "read", watched)
        self.claimer = Claimer(ledger, self._targets)

    async def _targets(self) -> list[DeliveryClaimant]:
        return [WHO]

    async def claim(self, most: int = 10) -> list[Delivery]:
        return await self.claimer.claim(most, lambda _: False)


@pytest.fixture
def worker(clerk: Clerk, database: Database, monkeypatch: pytest.MonkeyPatch) -> Worker:
    return Worker(clerk, database, monkeypatch)


async def test_a_claim_starts_where_the_last_one_found_nothing_also_without_a_backlog(
    worker: Worker,
) -> None:
    clerk = worker.clerk
    assert await worker.claim() == []
    clerk.now += 100
    one = clerk.accept_one()

    assert [each.id for each in await worker.claim()] == [one.id]
    clerk.now += 100
    assert await worker.claim() == []

    assert worker.floors == [0, clerk.now - 200 - 2_000, clerk.now - 100 - 2_000]


async def test_what_is_due_below_the_floor_is_claimed_by_the_next_complete_scan(
    worker: Worker,
) -> None:
    """Its commit came late, or another worker rolled its claim back."""
    clerk = worker.clerk
    assert await worker.claim() == []
    clerk.now -= 60_000
    late = clerk.accept_one()
    clerk.now += 60_000

    assert await worker.claim() == []
    worker.steady += 1
    assert [each.id for each in await worker.claim()] == [late.id]


async def test_what_a_claim_left_is_above_the_floor(worker: Worker) -> None:
    clerk = worker.clerk
    accepted = []
    for number in range(6):
        accepted += [each.id for each in clerk.accept(clerk.arrival(str(number), b"x"))]
        clerk.now += 10_000

    claimed = [each.id for _ in range(4) for each in await worker.claim(2)]

    assert claimed == accepted
    assert sorted(worker.floors) == worker.floors


async def test_a_lease_that_runs_out_is_seen_although_leases_before_it_are_skipped(
    worker: Worker,
) -> None:
    clerk = worker.clerk
    clerk.accept_one()
    await worker.claim()
    clerk.now += LEASE - 1_000
    assert not await worker.claimer.dead_letter_exhausted()
    assert not await worker.claimer.has_suspects()
    skipped = worker.floors[-1]

    clerk.now += 2_000
    assert not await worker.claimer.dead_letter_exhausted()
    assert await worker.claimer.has_suspects()

    assert skipped == 0 < worker.floors[-1] == clerk.now - 2_000 - 2_000
