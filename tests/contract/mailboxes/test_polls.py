"""Mailboxes that a program polls: one loop at a time, and every message stored before its cursor.

A message that was listed is a delivery, so what tests/contract/deliveries promises holds for it.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import pytest

from oncebox.core import ids
from oncebox.errors import LeaseLost, NotFound, StateConflict
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.deliveries import pull
from oncebox.ledger.deliveries.leases import DeliveryClaimant
from oncebox.ledger.mailboxes import mailboxes, polls
from oncebox.ledger.mailboxes.mailboxes import StoredPage
from oncebox.ledger.mailboxes.polls import PolledPage, PollGrant, PollHolder, PollRefused
from oncebox.model.deliveries.delivery import Delivery, NewDelivery
from oncebox.model.mailboxes.mailbox import Mailbox, MailboxKind, NewMailbox
from tests.support.clerk import DAY, LEASE, TENANT, Clerk
from tests.support.interleaved import interleave

NAME = "support"


def entry(clerk: Clerk) -> AuditEntry:
    return AuditEntry(id=ids.new("aud"), tenant=TENANT, at=clerk.now, who="t", why="")


def ask(clerk: Clerk, worker: str = "w1", **more: Any) -> PollGrant | PollRefused:
    request = polls.PollRequest(name=NAME, worker=worker, lease=LEASE, **more)
    return clerk.run(polls.begin, request, ids.new("mbx"), entry(clerk))


def begun(clerk: Clerk, worker: str = "w1") -> tuple[PollHolder, PollGrant]:
    grant = ask(clerk, worker)
    assert isinstance(grant, PollGrant)
    return PollHolder(tenant=TENANT, name=NAME, fence=grant.fence), grant


def stored(clerk: Clerk) -> Mailbox:
    return clerk.run(mailboxes.get, TENANT, NAME)


def message(key: str, body: bytes = b"{}") -> NewDelivery:
    return NewDelivery(
        id=ids.new("dlv"),
        tenant=TENANT,
        source=NAME,
        key=key,
        body=body,
        headers=b"[]",
        fingerprint=sha256(key.encode()).digest(),
        road="poll",
        redelivery="count",
        received_at=1,
    )


def store(
    clerk: Clerk, holder: PollHolder, version: int, keys: Sequence[str] = (), **more: Any
) -> StoredPage:
    page = PolledPage(
        version=version,
        cursor=f'"c{version + 1}"',
        messages=[message(each) for each in keys],
        **more,
    )
    return clerk.run(polls.store, holder, page, clerk.now)


def claim(clerk: Clerk, holder: PollHolder, worker: str = "w1", key: str = "") -> Delivery | None:
    who = DeliveryClaimant(TENANT, NAME, worker, LEASE, 8, DAY)
    request = pull.ClaimRequest(
        tenant=TENANT,
        worker=worker,
        request_key=key or ids.new("clm"),
        claimants=(who,),
        most=1,
    )
    found = clerk.run(polls.claim, holder, request, LEASE, clerk.now).claimed
    return found[0] if found else None


def confirm(clerk: Clerk, delivery: Delivery) -> bool:
    lease = pull.LeaseRef(delivery.id, delivery.fence)
    return clerk.run(pull.complete, pull.WorkerCaller(tenant=TENANT), lease, clerk.now).counts


# leases


def test_a_mailbox_is_made_by_its_first_poll_and_kept(clerk: Clerk) -> None:
    holder, grant = begun(clerk)
    clerk.run(polls.end, holder, timed_out=False, now=clerk.now)
    again, _ = begun(clerk)

    assert (stored(clerk).kind, grant.cursor) == (MailboxKind.PROGRAM, None)
    assert again.fence > holder.fence
    assert stored(clerk).figures.lease_conflicts == 0


def test_a_second_poller_is_refused_with_the_time_that_is_left_and_counted_once(
    clerk: Clerk,
) -> None:
    begun(clerk)
    clerk.now += LEASE // 3

    refused = ask(clerk, "w2")
    ask(clerk, "w2", counted=True)

    assert refused == PollRefused("in_use", LEASE - LEASE // 3)
    assert stored(clerk).figures.lease_conflicts == 1


def test_a_poller_that_died_is_followed_after_its_lease_and_can_do_nothing_more(
    clerk: Clerk,
) -> None:
    stale, _ = begun(clerk)
    clerk.now += LEASE
    fresh, _ = begun(clerk, "w2")

    with pytest.raises(LeaseLost):
        store(clerk, stale, 0, ["a"])
    with pytest.raises(LeaseLost):
        claim(clerk, stale)
    with pytest.raises(LeaseLost):
        clerk.run(polls.renew, stale, None, clerk.now + LEASE)
    with pytest.raises(LeaseLost):
        clerk.run(polls.fail, stale, polls.PollFailed("timeout"), lambda: 0.0, clerk.now)
    clerk.run(polls.end, stale, timed_out=True, now=clerk.now)
    assert store(clerk, fresh, 0, ["a"]).new == 1
    found = stored(clerk).figures
    assert (found.lease_conflicts, found.timeouts) == (1, 0)


def test_a_begin_whose_answer_was_lost_gets_the_same_lease_again(clerk: Clerk) -> None:
    first, _ = begun(clerk)

    assert begun(clerk)[0] == first


def test_of_two_pollers_that_begin_at_the_same_time_one_gets_the_mailbox(clerk: Clerk) -> None:
    def begin(worker: str) -> Any:
        request = polls.PollRequest(name=NAME, worker=worker, lease=LEASE)
        return lambda tx: polls.begin(tx, request, f"mbx_{worker}", entry(clerk))

    answers = interleave(clerk.place, begin("w1"), begin("w2"))

    assert sorted(type(each).__name__ for each in answers) == ["PollGrant", "PollRefused"]


def test_a_mailbox_that_the_service_reads_is_not_polled(clerk: Clerk) -> None:
    new = NewMailbox(name=NAME, kind=MailboxKind.IMAP, account="ann@imap.example", config=b"x")
    clerk.run(mailboxes.add, "mbx_1", new, entry(clerk))

    with pytest.raises(StateConflict):
        ask(clerk)


def test_a_mailbox_that_is_polled_is_not_claimed_by_the_workers_of_the_service(
    clerk: Clerk,
) -> None:
    holder, _ = begun(clerk)
    clerk.run(polls.end, holder, timed_out=False, now=clerk.now)

    assert clerk.run(mailboxes.claim, "reader", LEASE, 10, clerk.now + DAY) == []


def test_a_paused_mailbox_is_refused_until_it_is_resumed(clerk: Clerk) -> None:
    holder, _ = begun(clerk)
    clerk.run(mailboxes.pause, NAME, entry(clerk))

    with pytest.raises(LeaseLost):
        claim(clerk, holder)
    refused = ask(clerk)
    clerk.run(mailboxes.resume, NAME, entry(clerk))

    assert isinstance(refused, PollRefused)
    assert refused.status == "paused"
    begun(clerk)


def test_a_mailbox_of_another_tenant_looks_like_none(clerk: Clerk) -> None:
    holder, _ = begun(clerk)

    with pytest.raises(NotFound):
        claim(clerk, holder._replace(tenant="other"))
    with pytest.raises(NotFound):
        clerk.run(polls.end, holder._replace(name="nothing"), timed_out=False, now=clerk.now)


# messages and cursor


def test_messages_and_their_cursor_are_stored_in_one_commit(clerk: Clerk) -> None:
    holder, _ = begun(clerk)
    page = PolledPage(version=0, cursor='"c1"', messages=[message("a")])

    def crash(tx: Any) -> None:
        polls.store(tx, holder, page, clerk.now)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        clerk.run(crash)
    assert (stored(clerk).cursor, claim(clerk, holder)) == (None, None)

    store(clerk, holder, 0, ["a"])
    found = claim(clerk, holder)
    assert (stored(clerk).cursor, found and found.key) == ('"c1"', "a")


def test_a_message_that_was_done_is_never_handed_out_again_whatever_is_listed(
    clerk: Clerk,
) -> None:
    holder, _ = begun(clerk)
    store(clerk, holder, 0, ["a", "b"])
    for _ in range(2):
        found = claim(clerk, holder)
        assert found is not None
        assert confirm(clerk, found)

    again = store(clerk, holder, 1, ["a", "b", "b"])
    clerk.run(mailboxes.resync, NAME, entry(clerk))
    later, grant = begun(clerk)
    replayed = store(clerk, later, grant.cursor_version, ["b", "a"])

    assert (again.new, again.replays, replayed.new) == (0, 3, 0)
    assert claim(clerk, later) is None
    assert stored(clerk).figures.messages == 2


def test_a_message_that_is_listed_with_another_body_is_the_same_message(clerk: Clerk) -> None:
    holder, _ = begun(clerk)
    store(clerk, holder, 0, ["a"])
    changed = PolledPage(version=1, cursor='"c2"', messages=[message("a", b'{"read": true}')])

    assert clerk.run(polls.store, holder, changed, clerk.now).replays == 1
    assert claim(clerk, holder) is not None
    assert claim(clerk, holder) is None


def test_a_mailbox_that_was_removed_and_begun_again_hands_out_nothing_twice(clerk: Clerk) -> None:
    holder, _ = begun(clerk)
    store(clerk, holder, 0, ["a"])
    found = claim(clerk, holder)
    assert found is not None
    confirm(clerk, found)
    clerk.run(mailboxes.remove, NAME, entry(clerk))
    fresh, _ = begun(clerk)

    assert store(clerk, fresh, 0, ["a"]).duplicates == 1
    assert claim(clerk, fresh) is None


def test_messages_are_handed_out_in_the_order_of_their_list(clerk: Clerk) -> None:
    holder, _ = begun(clerk)
    keys = ["m", "z", "a", "k", "b"]
    store(clerk, holder, 0, keys)

    assert [found.key for _ in keys if (found := claim(clerk, holder))] == keys


def test_a_message_whose_poller_died_is_handed_to_the_next_one_first(clerk: Clerk) -> None:
    """Its lease ends with that of the mailbox, however late in it the message was claimed."""
    holder, _ = begun(clerk)
    store(clerk, holder, 0, ["a", "b"])
    clerk.now += LEASE // 2
    lost = claim(clerk, holder)
    assert ask(clerk, "w2") == PollRefused("in_use", LEASE)
    clerk.now += LEASE
    fresh, _ = begun(clerk, "w2")
    again = claim(clerk, fresh, "w2")

    assert lost is not None
    assert again is not None
    assert (again.id, again.tries) == (lost.id, 2)
    assert not confirm(clerk, lost)
    assert confirm(clerk, again)


def test_a_renewal_keeps_the_mailbox_and_the_message_together(clerk: Clerk) -> None:
    holder, _ = begun(clerk)
    store(clerk, holder, 0, ["a"])
    found = claim(clerk, holder)
    assert found is not None
    clerk.now += LEASE - 1
    clerk.run(polls.renew, holder, pull.LeaseRef(found.id, found.fence), clerk.now + LEASE)
    clerk.now += 2

    assert isinstance(ask(clerk, "w2"), PollRefused)
    assert claim(clerk, holder) is None
    assert confirm(clerk, found)


def test_a_claim_whose_answer_was_lost_gets_the_same_message_again(clerk: Clerk) -> None:
    holder, _ = begun(clerk)
    store(clerk, holder, 0, ["a", "b"])

    first = claim(clerk, holder, key="claim-0001")
    assert first is not None
    assert claim(clerk, holder, key="claim-0001") == first


def test_a_page_that_is_stored_again_after_a_lost_answer_changes_nothing(clerk: Clerk) -> None:
    holder, _ = begun(clerk)
    for _ in range(2):
        store(clerk, holder, 0, ["a"], repeated=3)

    found = stored(clerk)
    assert (found.cursor_version, found.figures.polls, found.figures.replays) == (1, 1, 3)


def test_a_page_in_parts_is_one_poll(clerk: Clerk) -> None:
    holder, _ = begun(clerk)
    store(clerk, holder, 0, ["a"], polls=0)
    store(clerk, holder, 1, ["b"])

    assert stored(clerk).figures.polls == 1


# failures and figures


def test_a_failed_poll_keeps_all_pollers_away_for_a_time_that_doubles(clerk: Clerk) -> None:
    waits = []
    for _ in range(3):
        holder, _grant = begun(clerk)
        due_at = clerk.run(polls.fail, holder, polls.PollFailed("timeout"), lambda: 1.0, clerk.now)
        refused = ask(clerk, "w2")
        assert refused == PollRefused("backoff", due_at - clerk.now)
        waits.append(due_at - clerk.now)
        clerk.now = due_at

    found = stored(clerk)
    assert waits == [1_000, 2_000, 4_000]
    assert (found.failure, found.failures, found.figures.lease_conflicts) == ("timeout", 3, 0)


def test_a_failed_poll_is_not_repeated_before_the_time_that_the_api_asked_for(
    clerk: Clerk,
) -> None:
    holder, _ = begun(clerk)
    failed = polls.PollFailed("http_429", retry_after=90.0)

    assert clerk.run(polls.fail, holder, failed, lambda: 0.0, clerk.now) == clerk.now + 90_000


def test_the_figures_name_the_first_message_and_the_deadlines_without_one(clerk: Clerk) -> None:
    holder, _ = begun(clerk)
    created = clerk.now
    clerk.now += 700
    first = store(clerk, holder, 0, ["a"])
    clerk.now += 700
    second = store(clerk, holder, 1, ["b"])
    clerk.run(polls.end, holder, timed_out=True, now=clerk.now)

    found = stored(clerk)
    assert found.first_message_at == created + 700
    assert (first.first_after, second.first_after) == (700, None)
    assert (found.figures.messages, found.figures.timeouts) == (2, 1)
