"""Mailboxes: one reader at a time, and a cursor that is never ahead of its mails."""

from collections.abc import Sequence
from typing import Any

import pytest

from oncebox.core import ids
from oncebox.db.database import Transaction
from oncebox.errors import LeaseLost, NotFound, StateConflict
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.mailboxes import mailboxes
from oncebox.ledger.mailboxes.mailboxes import MailboxFailed, MailToStore, PageToStore, StoredPage
from oncebox.model.deliveries.delivery import NewDelivery
from oncebox.model.inboxes.received_mail import MAIL_SOURCE, MAIL_TYPE
from oncebox.model.mailboxes.mailbox import (
    TRIES_BEFORE_PAUSE,
    Mailbox,
    MailboxKind,
    MailboxLease,
    NewMailbox,
)
from tests.support.clerk import LEASE, TENANT, Clerk
from tests.support.interleaved import interleave

NEW = NewMailbox(
    name="support", kind=MailboxKind.IMAP, account="ann@imap.example", config=b"sealed"
)


def entry(clerk: Clerk) -> AuditEntry:
    return AuditEntry(id=ids.new("aud"), tenant=TENANT, at=clerk.now, who="t", why="")


def added(clerk: Clerk, new: NewMailbox = NEW) -> Mailbox:
    return clerk.run(mailboxes.add, f"mbx_{new.name}", new, entry(clerk))


def claimed(clerk: Clerk, worker: str = "w1") -> tuple[Mailbox, MailboxLease]:
    (one,) = clerk.run(mailboxes.claim, worker, LEASE, 10, clerk.now)
    return one, MailboxLease(id=one.id, tenant=one.tenant, fence=one.fence)


def stored(clerk: Clerk, name: str = "support") -> Mailbox:
    return clerk.run(mailboxes.get, TENANT, name)


def mail(number: int, *, provider_id: str = "", text: str = "") -> MailToStore:
    mark = (text or f"mail {number}").encode()
    delivery = NewDelivery(
        id=f"dlv_{number}_{provider_id}",
        tenant=TENANT,
        source=MAIL_SOURCE,
        key=f"inb_1:{mark.hex()}",
        body=mark,
        headers=b"[]",
        fingerprint=mark,
        type=MAIL_TYPE,
        road="mailbox",
        received_at=1,
    )
    return MailToStore(provider_id or f"uid:{number}", (delivery,))


def store(
    clerk: Clerk, lease: MailboxLease, version: int, mails: Sequence[MailToStore] = ()
) -> StoredPage:
    page = PageToStore(version, f"c{version + 1}", mails)
    return clerk.run(mailboxes.store_page, lease, page, clerk.now)


def scalar(clerk: Clerk, statement: str) -> Any:
    def found(tx: Transaction) -> Any:
        return tx.execute(statement)[0][0]

    return clerk.run(found)


def deliveries(clerk: Clerk) -> int:
    return int(scalar(clerk, "SELECT count(*) FROM oncebox_deliveries"))


# configuration


def test_a_mailbox_is_added_once_under_its_name(clerk: Clerk) -> None:
    one = added(clerk)

    assert (one.name, one.cursor, one.state(clerk.now)) == ("support", None, "waiting")
    with pytest.raises(StateConflict):
        added(clerk)
    assert [each.name for each in clerk.run(mailboxes.of_tenant, TENANT)] == ["support"]


def test_a_mailbox_that_is_changed_takes_the_lease_from_its_reader(clerk: Clerk) -> None:
    one = added(clerk)
    _, lease = claimed(clerk)

    clerk.run(mailboxes.change, NEW, entry(clerk), seen=one.changed_at)

    with pytest.raises(LeaseLost):
        store(clerk, lease, 0, [mail(1)])
    assert deliveries(clerk) == 0
    with pytest.raises(StateConflict):
        clerk.run(mailboxes.change, NEW, entry(clerk), seen=one.changed_at)


def test_a_paused_mailbox_is_not_read_and_a_resumed_one_at_once(clerk: Clerk) -> None:
    added(clerk)
    _, lease = claimed(clerk)
    clerk.run(mailboxes.pause, "support", entry(clerk))

    assert clerk.run(mailboxes.claim, "w2", LEASE, 10, clerk.now + 10 * LEASE) == []
    with pytest.raises(LeaseLost):
        store(clerk, lease, 0)
    clerk.run(mailboxes.resume, "support", entry(clerk))
    assert claimed(clerk)[0].paused is None


def test_a_mailbox_that_is_removed_is_forgotten_with_its_ids(clerk: Clerk) -> None:
    added(clerk)
    _, lease = claimed(clerk)
    store(clerk, lease, 0, [mail(1)])

    clerk.run(mailboxes.remove, "support", entry(clerk))

    assert scalar(clerk, "SELECT count(*) FROM oncebox_mailbox_mails") == 0
    assert deliveries(clerk) == 1
    with pytest.raises(NotFound):
        stored(clerk)


# leases


def test_a_mailbox_has_one_reader_at_a_time(clerk: Clerk) -> None:
    added(clerk)
    claimed(clerk)

    assert clerk.run(mailboxes.claim, "w2", LEASE, 10, clerk.now) == []


def test_two_workers_that_claim_at_once_share_no_mailbox(clerk: Clerk) -> None:
    for number in range(4):
        added(clerk, NewMailbox(name=f"m{number}", kind=NEW.kind, account="a", config=b"x"))

    first, second = interleave(
        clerk.place,
        lambda tx: mailboxes.claim(tx, "w1", LEASE, 3, clerk.now),
        lambda tx: mailboxes.claim(tx, "w2", LEASE, 3, clerk.now),
    )
    assert not {each.id for each in first} & {each.id for each in second}
    assert len(first) == 3


def test_a_reader_whose_lease_ended_stores_nothing(clerk: Clerk) -> None:
    added(clerk)
    _, stale = claimed(clerk)
    clerk.now += LEASE
    second, lease = claimed(clerk, "w2")
    assert second.figures.lease_conflicts == 1

    with pytest.raises(LeaseLost):
        store(clerk, stale, 0, [mail(1)])
    with pytest.raises(LeaseLost):
        clerk.run(mailboxes.fail, stale, MailboxFailed("timed_out", 0, False, "evt_1"), clerk.now)
    assert clerk.run(mailboxes.renew, [stale, lease], clerk.now + LEASE) == {lease}
    assert deliveries(clerk) == 0
    assert stored(clerk).cursor is None


def test_a_released_mailbox_is_claimed_again_when_it_is_due(clerk: Clerk) -> None:
    added(clerk)
    _, lease = claimed(clerk)
    clerk.run(mailboxes.release, [(lease, clerk.now + 500)])

    assert clerk.run(mailboxes.claim, "w2", LEASE, 10, clerk.now) == []
    clerk.now += 500
    assert claimed(clerk, "w2")[0].figures.lease_conflicts == 0


# failures


def test_a_failure_is_counted_and_tried_again_later(clerk: Clerk) -> None:
    added(clerk)
    _, lease = claimed(clerk)
    failed = MailboxFailed("connect_failed", clerk.now + 1_000, False, "evt_1")
    clerk.run(mailboxes.fail, lease, failed, clerk.now)

    assert (stored(clerk).failure, stored(clerk).state(clerk.now)) == ("connect_failed", "failing")
    clerk.now += 1_000
    _, lease = claimed(clerk)
    store(clerk, lease, 0)
    assert (stored(clerk).failures, stored(clerk).failure) == (0, None)


def test_a_failure_that_needs_an_operator_pauses_the_mailbox_with_an_event(clerk: Clerk) -> None:
    added(clerk)
    told = []
    for number in range(TRIES_BEFORE_PAUSE):
        _, lease = claimed(clerk)
        failed = MailboxFailed("login_refused", clerk.now, True, f"evt_{number - 1}")
        told.append(clerk.run(mailboxes.fail, lease, failed, clerk.now))

    assert told == [False, False, True]
    assert stored(clerk).paused == "login_refused"
    kind = scalar(clerk, "SELECT type FROM oncebox_events WHERE id = 'evt_1'")
    assert kind == "mailbox.paused"


@pytest.mark.parametrize("between", ["another failure", "a page"])
def test_only_refusals_in_a_row_pause_a_mailbox(clerk: Clerk, between: str) -> None:
    added(clerk)
    version = 0
    for number in range(2 * TRIES_BEFORE_PAUSE):
        _, lease = claimed(clerk)
        refused = number % TRIES_BEFORE_PAUSE > 0
        if not refused and between == "a page":
            version = store(clerk, lease, version).cursor_version
        failed = MailboxFailed("timed_out", clerk.now, refused, f"evt_{number}")
        clerk.run(mailboxes.fail, lease, failed, clerk.now)

    assert stored(clerk).paused is None


def test_a_mailbox_of_another_account_is_read_from_its_beginning(clerk: Clerk) -> None:
    added(clerk)
    _, lease = claimed(clerk)
    store(clerk, lease, 0, [mail(1), mail(2)])
    seen = stored(clerk).changed_at
    changed = clerk.run(mailboxes.change, NEW, entry(clerk), seen=seen, moved=True)
    _, lease = claimed(clerk, "w2")
    page = store(clerk, lease, 0, [mail(7, provider_id="uid:1")])

    assert (changed.cursor, changed.cursor_version) == (None, 0)
    assert (page.new, page.replays) == (1, 0)


def test_mail_for_nobody_is_read_by_a_resync_once_it_has_an_inbox(clerk: Clerk) -> None:
    added(clerk)
    _, lease = claimed(clerk)
    first = store(clerk, lease, 0, [MailToStore("uid:1", ())])
    clerk.run(mailboxes.resync, "support", entry(clerk))
    again, lease = claimed(clerk, "w2")
    page = store(clerk, lease, again.cursor_version, [mail(1)])

    assert (first.new, page.new, page.replays) == (0, 1, 0)


# pages


def test_a_page_and_its_cursor_are_stored_together(clerk: Clerk) -> None:
    added(clerk)
    _, lease = claimed(clerk)

    page = store(clerk, lease, 0, [mail(1), mail(2)])

    assert page == StoredPage(1, new=2)
    assert (stored(clerk).cursor, stored(clerk).cursor_version) == ("c1", 1)
    assert deliveries(clerk) == 2


def test_a_page_whose_commit_answer_was_lost_is_stored_once(clerk: Clerk) -> None:
    added(clerk)
    _, lease = claimed(clerk)
    store(clerk, lease, 0, [mail(1)])

    assert store(clerk, lease, 0, [mail(1)]) == StoredPage(1)
    assert (stored(clerk).figures.messages, stored(clerk).figures.polls) == (1, 1)


def test_a_mail_that_the_server_gives_again_is_a_replay(clerk: Clerk) -> None:
    added(clerk)
    _, lease = claimed(clerk)
    store(clerk, lease, 0, [mail(1), mail(2)])
    clerk.run(mailboxes.resync, "support", entry(clerk))
    again, lease = claimed(clerk)
    assert again.cursor is None

    page = store(clerk, lease, again.cursor_version, [mail(1), mail(2), mail(3)])

    assert page == StoredPage(again.cursor_version + 1, new=1, replays=2)
    assert deliveries(clerk) == 3


def test_the_same_bytes_by_another_id_are_a_duplicate(clerk: Clerk) -> None:
    added(clerk)
    _, lease = claimed(clerk)
    store(clerk, lease, 0, [mail(1, text="same")])

    page = store(clerk, lease, 1, [mail(2, text="same", provider_id="new uid")])

    assert page == StoredPage(2, duplicates=1)
    assert deliveries(clerk) == 1


def test_a_page_may_hold_one_mail_twice(clerk: Clerk) -> None:
    added(clerk)
    _, lease = claimed(clerk)

    page = store(clerk, lease, 0, [mail(1), mail(1)])

    assert page == StoredPage(1, new=1, replays=1)


def test_a_mail_for_no_inbox_is_no_duplicate(clerk: Clerk) -> None:
    added(clerk)
    _, lease = claimed(clerk)
    page = store(clerk, lease, 0, [mail(1), MailToStore("uid:2", ())])
    again = store(clerk, lease, 1, [mail(1), MailToStore("uid:2", ())])

    assert (page.new, page.duplicates, page.replays) == (1, 0, 0)
    assert (again.new, again.duplicates, again.replays) == (0, 0, 1)
    assert stored(clerk).figures.duplicates == 0
