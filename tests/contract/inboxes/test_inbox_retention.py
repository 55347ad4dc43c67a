"""Retention of inboxes: deleted with all that hangs on them, once nothing of them is kept."""

from typing import Any

import pytest

from oncebox.ledger import maintenance
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.deliveries import operations
from oncebox.ledger.inboxes import inboxes, retention
from oncebox.model.deliveries.delivery import (
    CommitHook,
    Delivery,
    DeliveryOutcome,
    DeliveryState,
    Settlement,
)
from oncebox.model.inboxes.inbox import Inbox, InboxPolicy, InboxState
from oncebox.model.inboxes.received_mail import MAIL_SOURCE
from tests.support.clerk import DAY, TENANT, Clerk
from tests.support.finds import Finds, code
from tests.support.letters import FILE, Mailroom, mail

#: tables with rows of an inbox
TABLES = ("inboxes", "messages", "copies", "artifacts", "inbox_counts", "deliveries", "tries")


@pytest.fixture
def room(clerk: Clerk) -> Mailroom:
    """A ledger with one inbox."""
    return Mailroom(clerk)


def _sql(clerk: Clerk, statement: str) -> list[Any]:
    return clerk.run(lambda tx: list(tx.execute(statement)))


def _rows(clerk: Clerk) -> dict[str, int]:
    return {
        table: count
        for table in TABLES
        if (count := _sql(clerk, f"SELECT COUNT(*) FROM oncebox_{table}")[0][0])  # noqa: S608 - ours
    }


def _file(room: Mailroom, *raws: bytes, inbox: str = "inb_1") -> list[Delivery]:
    filed = []
    for raw in raws:
        (delivery,) = room.claimed(raw, inbox)
        ending = Settlement(
            delivery=delivery,
            state=DeliveryState.DONE,
            outcome=DeliveryOutcome.HANDLED,
            commit_hook=CommitHook(FILE, room.filing(delivery)),
        )
        room.clerk.settle(ending)
        filed.append(delivery)
    return filed


def _close(room: Mailroom, inbox: str = "inb_1") -> None:
    room.clerk.run(inboxes.close, Requester(tenant=TENANT), inbox, room.clerk.now, room.clerk.now)


def _purge(clerk: Clerk) -> None:
    """Purge everything that other settings keep."""
    clerk.purge_bodies({(maintenance.ANY_TENANT, MAIL_SOURCE): clerk.now})
    clerk.run(maintenance.empty_messages, clerk.now, clerk.now)
    clerk.run(maintenance.overwrite_artifacts, clerk.now, clerk.now)


def _delete(clerk: Clerk, days: int = 30, most: int = 500) -> int:
    """Delete inboxes as the sweeper does; return how many."""
    before = clerk.now - days * DAY
    found = clerk.run(retention.find_ended, before, retention.OLDEST, most)
    count = clerk.run(retention.retire, found.ids, before)
    while clerk.run(retention.delete_contents, most):
        pass
    return count


def test_an_inbox_that_ended_long_ago_is_deleted_with_all_that_hangs_on_it(room: Mailroom) -> None:
    _file(room, mail(), mail(more=["Received: again"]), mail(message_id="<2@x>"))
    _close(room)
    room.clerk.now += 30 * DAY - 1
    _purge(room.clerk)
    assert _delete(room.clerk) == 0

    room.clerk.now += 1
    assert _delete(room.clerk) == 1
    assert _rows(room.clerk) == {}


def test_an_open_inbox_is_never_deleted(room: Mailroom) -> None:
    room.clerk.now += 900 * DAY

    assert _delete(room.clerk) == 0


def test_what_another_setting_keeps_keeps_its_inbox(room: Mailroom) -> None:
    clerk = room.clerk
    _file(room, mail())
    _close(room)
    clerk.now += 900 * DAY
    assert _delete(clerk) == 0
    clerk.purge_bodies({(maintenance.ANY_TENANT, MAIL_SOURCE): clerk.now})
    assert _delete(clerk) == 0
    clerk.run(maintenance.empty_messages, clerk.now, clerk.now)
    assert _delete(clerk) == 1


def test_a_code_that_is_kept_keeps_its_inbox(clerk: Clerk) -> None:
    finds = Finds(clerk)
    finds.file(code("481920"))
    _sql(clerk, "UPDATE oncebox_messages SET purged_at = 1")
    _sql(clerk, "UPDATE oncebox_deliveries SET purged_at = 1")
    _close(finds.room)
    clerk.now += 900 * DAY
    assert _delete(clerk) == 0

    clerk.run(maintenance.overwrite_artifacts, clerk.now, clerk.now)
    assert _delete(clerk) == 1
    assert _rows(clerk) == {}


@pytest.mark.parametrize("trouble", ["held", "dead", "waiting"])
def test_an_inbox_with_mail_that_waits_for_somebody_is_kept(room: Mailroom, trouble: str) -> None:
    clerk = room.clerk
    (delivery,) = room.claimed(mail())
    if trouble == "held":
        clerk.complete(delivery)
        clerk.replay(delivery.id)
        clerk.hold(delivery.id)
    if trouble == "dead":
        clerk.give_up(delivery)
    _close(room)
    clerk.now += 900 * DAY
    _purge(clerk)
    assert _delete(clerk) == 0
    if trouble == "dead":
        clerk.run(operations.mark_seen, delivery.id, clerk.deed())
        _purge(clerk)
        assert _delete(clerk) == 1


def test_large_inboxes_are_deleted_in_small_steps_that_can_be_resumed(room: Mailroom) -> None:
    clerk = room.clerk
    _file(room, *(mail(message_id=f"<{number}@x>") for number in range(5)))
    _close(room)
    clerk.now += 30 * DAY
    _purge(clerk)
    found = clerk.run(retention.find_ended, clerk.now - 30 * DAY, retention.OLDEST, 500)
    clerk.run(retention.retire, found.ids, clerk.now - 30 * DAY)
    steps = []
    while count := clerk.run(retention.delete_contents, 2):  # each in a transaction of its own
        steps.append(count)

    assert len(steps) > 3
    assert max(steps) <= 2
    assert _rows(clerk) == {}


def test_the_search_goes_on_after_inboxes_that_are_kept(room: Mailroom) -> None:
    clerk = room.clerk
    for number in range(5):
        room.add_inbox(f"inb_x{number}")
        _close(room, f"inb_x{number}")
    _file(room, mail(), inbox="inb_x0")
    clerk.now += 30 * DAY
    after, deleted = retention.OLDEST, 0
    while True:
        found = clerk.run(retention.find_ended, clerk.now - 30 * DAY, after, 2)
        if found.after is None:
            break
        deleted += clerk.run(retention.retire, found.ids, clerk.now - 30 * DAY)
        after = found.after

    assert deleted == 4
    assert _sql(clerk, "SELECT id FROM oncebox_inboxes WHERE ended_at > 0") == [("inb_x0",)]


def test_the_address_of_a_deleted_inbox_is_never_assigned_again(room: Mailroom) -> None:
    clerk = room.clerk
    _sql(
        clerk,
        "INSERT INTO oncebox_domains (name, tenant, created_at) "  # noqa: S608 - ours
        f"VALUES ('oncebox.test', '{TENANT}', 1)",
    )
    _close(room)
    clerk.now += 30 * DAY
    assert _delete(clerk) == 1
    again, another = (
        Inbox(
            id=f"inb_new{number}",
            tenant=TENANT,
            email=f"{local}@oncebox.test",
            attempt_id=None,
            label="",
            owner="k",
            state=InboxState.ACTIVE,
            created_at=clerk.now,
            active_until=None,
            due_at=None,
            metadata={},
            policy=InboxPolicy(),
        )
        for number, local in enumerate(("inb_1", "inb_2"))
    )
    added = clerk.run(inboxes.add, Requester(tenant=TENANT, key="k"), [again, another], clerk.now)

    assert added == {another.id}
    assert _sql(clerk, "SELECT subject_id FROM oncebox_events WHERE type = 'inbox.created'") == [
        (another.id,)
    ]


def _two_inboxes(clerk: Clerk) -> Finds:
    finds = Finds(clerk)
    for inbox in ("inb_a", "inb_b", "inb_c"):
        finds.room.add_inbox(inbox, attempt="signup")
    return finds


def test_a_value_stays_granted_in_another_inbox_when_the_first_is_deleted(clerk: Clerk) -> None:
    """The row that owns the claim stays as long as a row that refers to it is kept."""
    finds = _two_inboxes(clerk)
    finds.file(code("481920"), inbox="inb_a")
    clerk.now += DAY
    finds.file(code("481920"), inbox="inb_b")
    finds.claim(finds.wish(inbox="inb_a", claim_key="one"))
    _close(finds.room, "inb_a")
    _sql(clerk, "UPDATE oncebox_messages SET purged_at = 1")
    _sql(clerk, "UPDATE oncebox_deliveries SET purged_at = 1")
    clerk.run(maintenance.overwrite_artifacts, clerk.now - 1, clerk.now)
    clerk.now += 900 * DAY

    assert _delete(clerk) == 0
    (other,) = finds.claim(finds.wish(inbox="inb_b", claim_key="two"))
    assert type(other).__name__ != "ClaimGranted"

    clerk.run(maintenance.overwrite_artifacts, clerk.now, clerk.now)
    assert _delete(clerk) == 1


def test_a_value_whose_first_row_was_purged_is_not_granted_again_in_a_third_inbox(
    clerk: Clerk,
) -> None:
    finds = _two_inboxes(clerk)
    finds.file(code("481920"), inbox="inb_a")
    clerk.now += DAY
    finds.file(code("481920"), inbox="inb_b")
    finds.claim(finds.wish(inbox="inb_a", claim_key="one"))
    clerk.run(maintenance.overwrite_artifacts, clerk.now - 1, clerk.now)  # that of inbox a only
    finds.file(code("481920"), inbox="inb_c")
    (other,) = finds.claim(finds.wish(inbox="inb_c", claim_key="two"))
    assert type(other).__name__ != "ClaimGranted"

    clerk.run(maintenance.overwrite_artifacts, clerk.now, clerk.now)
    assert _sql(clerk, "SELECT attempt_mark FROM oncebox_artifacts") == [(None,)] * 3
