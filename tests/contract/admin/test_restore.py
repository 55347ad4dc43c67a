"""A ledger that was put back to an earlier time: what was given out since then counts no more."""

from collections.abc import Callable

import pytest

from oncebox.ledger import maintenance
from oncebox.ledger.sends import transports
from oncebox.model.deliveries.delivery import Delivery
from oncebox.model.sends.transports import NewTransport
from tests.support.clerk import TENANT, Clerk


def settle_in(clerk: Clerk) -> list[str]:
    found = clerk.run(maintenance.void_leases_and_pause, now=clerk.now, who="ann", why="restored")
    return [each.name for each in found]


def test_a_lease_that_was_given_after_the_backup_is_void(clerk: Clerk) -> None:
    """Fences would be given again; the ledger of the test stands for both times."""
    clerk.accept(clerk.arrival())
    lost = clerk.claim_one()
    clerk.session.run(lambda tx: tx.execute(_BACK))  # as the backup has it
    settle_in(clerk)
    current = clerk.claim_one(worker="ben")

    assert current.fence > lost.fence
    assert clerk.complete(lost) is False
    assert clerk.renew(lost) == set()
    assert clerk.complete(current)


_BACK = "UPDATE oncebox_deliveries SET state = 'received', fence = 0, tries = 0, due_at = 0"


def test_what_was_claimed_at_the_backup_is_claimed_again(clerk: Clerk) -> None:
    held = clerk.accept_and_claim()
    settle_in(clerk)

    assert clerk.complete(held) is False
    assert clerk.take_over().fence > held.fence


@pytest.mark.parametrize("look", [Clerk.complete, Clerk.fail, Clerk.give_back])
def test_nobody_from_before_can_end_anything(
    clerk: Clerk, look: Callable[[Clerk, Delivery], bool]
) -> None:
    held = clerk.accept_and_claim()
    settle_in(clerk)

    assert look(clerk, held) is False


def test_every_way_is_paused_and_those_that_were_are_not_told(clerk: Clerk) -> None:
    for name in ("one", "two"):
        clerk.run(transports.add, NewTransport(name=name, kind="smtp"), clerk.deed())
    clerk.run(transports.pause, "one", clerk.deed())

    assert settle_in(clerk) == ["two"]
    assert [each.paused for each in clerk.run(transports.of_tenant, TENANT)] == [True, True]
    assert settle_in(clerk) == []
