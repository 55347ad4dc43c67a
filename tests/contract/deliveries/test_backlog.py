"""The backlog: what is not done is counted by source and state, up to a limit."""

from collections.abc import Callable

import msgspec
import pytest

from oncebox.core.metrics import Telemetry
from oncebox.db.database import Database
from oncebox.ledger.deliveries import backlog, deduplication, operations
from oncebox.ledger.transactions import Ledger
from oncebox.model.deliveries.delivery import DeliveryState
from oncebox.workers.maintenance.backlog_gauges import BacklogGauges
from tests.support.clerk import HOUR, Clerk

RECEIVED, PROCESSING, FAILED = (
    DeliveryState.RECEIVED,
    DeliveryState.PROCESSING,
    DeliveryState.FAILED,
)
DEAD, HELD = DeliveryState.DEAD, DeliveryState.HELD


def _counts(clerk: Clerk, source: str = "shop", **options: int) -> dict[DeliveryState, int]:
    found = clerk.run(backlog.read_backlog, **options)
    return {state: count for state, count in found[source].counts.items() if count}


def test_every_state_but_done_is_counted_by_source(clerk: Clerk) -> None:
    assert clerk.run(backlog.read_backlog) == {}
    for key, end in (
        ("done", clerk.complete),
        ("failed", clerk.fail),
        ("dead", clerk.give_up),
        ("held", clerk.stop_for_a_person),
    ):
        end(clerk.accept_and_claim(key))
    clerk.accept_and_claim("processing")
    clerk.accept(*(clerk.arrival(str(number)) for number in range(3)))
    clerk.accept_one("other", source="bank")

    assert _counts(clerk) == {RECEIVED: 3, PROCESSING: 1, FAILED: 1, DEAD: 1, HELD: 1}
    assert _counts(clerk, "bank") == {RECEIVED: 1}


def test_what_waits_in_a_lane_is_received_too(clerk: Clerk) -> None:
    clerk.accept(*(clerk.arrival(str(number), lane="one") for number in range(4)))

    assert _counts(clerk) == {RECEIVED: 4}
    clerk.claim_one()
    assert _counts(clerk) == {RECEIVED: 3, PROCESSING: 1}


def test_dead_ones_are_counted_until_they_are_acknowledged(clerk: Clerk) -> None:
    ids = [clerk.accept_and_claim(key) for key in "12"]
    for each in ids:
        clerk.give_up(each)

    clerk.run(operations.mark_seen, ids[0].id, clerk.deed())
    assert _counts(clerk) == {DEAD: 1}
    clerk.replay(ids[1].id)
    assert _counts(clerk) == {RECEIVED: 1}


def test_the_oldest_due_and_the_oldest_held_are_found(clerk: Clerk) -> None:
    began = clerk.now
    clerk.stop_for_a_person(clerk.accept_and_claim("held"))
    clerk.now += HOUR
    clerk.accept_one("first")
    clerk.now += HOUR
    clerk.accept_one("second")
    clerk.accept_one("late", hold_reason="late")

    one = clerk.run(backlog.read_backlog)["shop"]
    assert (one.oldest_held_at, one.oldest_due_at) == (began, began + HOUR)


def test_tenants_with_a_source_of_one_name_are_added_up(clerk: Clerk) -> None:
    clerk.accept_one("1")
    foreign = msgspec.structs.replace(clerk.arrival("1"), tenant="another")
    clerk.run(deduplication.accept, [foreign], clerk.now)

    assert _counts(clerk) == {RECEIVED: 2}


def test_counting_ends_at_its_limit(clerk: Clerk) -> None:
    clerk.accept(*(clerk.arrival(str(number)) for number in range(20)))
    for _ in range(4):
        clerk.give_up(clerk.claim(1)[0])

    assert _counts(clerk, most=3) == {RECEIVED: 3, DEAD: 3}


def _release_and_run(clerk: Clerk, id_: str) -> None:
    clerk.release(id_)
    clerk.complete(clerk.claim_one())


@pytest.mark.parametrize("end", [_release_and_run, Clerk.drop])
async def test_the_gauges_show_the_backlog_and_return_to_zero(
    database: Database, clerk: Clerk, end: Callable[[Clerk, str], None]
) -> None:
    telemetry = Telemetry()
    gauges = BacklogGauges(Ledger(database), telemetry)

    held = clerk.accept_one("1", hold_reason="late").id
    await gauges.count()
    shown = telemetry.scrape()
    assert 'oncebox_deliveries{source="shop",state="held"} 1.0' in shown
    assert 'oncebox_deliveries{source="shop",state="dead"} 0.0' in shown

    end(clerk, held)
    await gauges.count()
    shown = telemetry.scrape()
    assert 'oncebox_deliveries{source="shop",state="held"} 0.0' in shown
    assert 'oncebox_oldest_held_seconds{source="shop"} 0.0' in shown
