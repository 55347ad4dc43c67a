"""Messages: filed once per inbox, numbered in the order of commits, copies counted."""

import msgspec
import pytest
from msgspec.structs import replace

from oncebox.core.metrics import Telemetry
from oncebox.errors import RowRefused
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.deliveries import leases, settlements
from oncebox.ledger.inboxes import inbox_counts, messages
from oncebox.ledger.inboxes.inbox_counts import InboxCounter
from oncebox.ledger.transactions import Ledger
from oncebox.model.attempts import single_attempt
from oncebox.model.deliveries.delivery import (
    CommitHook,
    Delivery,
    DeliveryOutcome,
    DeliveryState,
    Settlement,
)
from oncebox.model.inboxes.inbox import InboxCounts
from oncebox.model.inboxes.message import Message, NewMessageResult
from oncebox.model.inboxes.received_mail import MAIL_SOURCE, AuthResult, SenderVerdict
from tests.support.clerk import TENANT, VAULT, Clerk
from tests.support.events import number_all, read
from tests.support.letters import FILE, Mailroom, mail


@pytest.fixture
def room(clerk: Clerk) -> Mailroom:
    """A ledger with one inbox."""
    return Mailroom(clerk)


def file(room: Mailroom, *deliveries: Delivery) -> list[NewMessageResult]:
    """File deliveries in one commit."""
    filings = [room.filing(each) for each in deliveries]
    return room.clerk.run(FILE, filings, room.clerk.now)


def file_raw(room: Mailroom, *raws: bytes) -> list[NewMessageResult]:
    """Take mails in, one after another, and file them in one commit."""
    deliveries = [each for raw in raws for each in room.claimed(raw)]
    return file(room, *deliveries)


def all_of(room: Mailroom, inbox: str = "inb_1") -> list[Message]:
    """Return the messages of an inbox."""
    return room.clerk.run(messages.page, TENANT, inbox, most=1000).messages


def test_a_mail_becomes_a_message(room: Mailroom) -> None:
    raw = mail(subject="Hello", text="Hi there")
    (filed,) = file_raw(room, raw)
    whole = room.clerk.run(messages.get, VAULT, TENANT, filed.message_id)

    assert (filed.sequence, filed.duplicate, filed.reused) == (1, False, False)
    assert whole.message == all_of(room)[0]
    assert (whole.message.sender, whole.message.recipient) == (
        "ann@example.com",
        "inb_1+tag@oncebox.test",
    )
    assert whole.document is not None
    assert (whole.document.parsed.subject, whole.document.carrier.client) == ("Hello", "192.0.2.1")
    assert room.clerk.run(messages.raw, VAULT, TENANT, filed.message_id) == raw
    assert [(each.road, each.differs) for each in whole.copies] == [("smtp", ())]


@pytest.mark.parametrize("together", [True, False])
def test_events_tell_of_messages_in_the_order_of_their_numbers(
    room: Mailroom, together: bool
) -> None:
    """Also where the ids of events say otherwise: a mail was read later, or a clock is wrong."""
    room.add_inbox("inb_2")
    raws = [mail(text=f"{number}", message_id=f"<{number}@x>") for number in range(4)]
    filings = [room.filing(each) for raw in raws for each in room.claimed(raw, "inb_1", "inb_2")]
    drawn = sorted((each.event_id for each in filings), reverse=True)
    wrong = [replace(each, event_id=id_) for each, id_ in zip(filings, drawn, strict=True)]
    for batch in [wrong] if together else [[each] for each in wrong]:
        room.clerk.run(FILE, batch, room.clerk.now)
    room.clerk.run(number_all)
    told = room.clerk.run(read, types=frozenset({"message.received"}))

    for inbox in ("inb_1", "inb_2"):
        assert [each.data["sequence"] for each in told if each.inbox_id == inbox] == [1, 2, 3, 4]


_PROVEN = SenderVerdict(
    dkim=AuthResult.PASS, dmarc=AuthResult.PASS, domain="example.com", details=("dkim_aligned",)
)


def _link(token: str) -> bytes:
    """Return a mail whose visible words everybody knows; the link is all that is its own."""
    page = f"<p>Click <a href='https://example.com/{token}'>here</a></p>"
    return mail(text=page, more=["Content-Type: text/html"])


@pytest.mark.parametrize("together", [True, False])
def test_a_forgery_that_came_first_does_not_keep_the_genuine_mail_away(
    room: Mailroom, together: bool
) -> None:
    """Message-ID and Date can be guessed, and the words of many mails are always the same."""
    (forged,), (genuine,) = (room.claimed(_link(token)) for token in ("forged", "genuine"))
    both = [room.filing(forged), room.filing(genuine, verdict=_PROVEN)]
    filed = [
        each
        for batch in ([both] if together else [[one] for one in both])
        for each in room.clerk.run(FILE, batch, room.clerk.now)
    ]

    assert [each.duplicate for each in filed] == [False, False]
    assert [each.sender_verdict for each in all_of(room)] == ["none", "pass"]
    assert "message_id_reused" in all_of(room)[1].warnings


@pytest.mark.parametrize("together", [True, False])
def test_a_copy_that_proves_less_is_a_copy(room: Mailroom, together: bool) -> None:
    """A relay may break what proved the sender."""
    (first,), (again,), (third,) = (room.claimed(_link(token)) for token in "abc")
    several = [
        room.filing(first, verdict=_PROVEN),
        room.filing(again),
        room.filing(third, verdict=_PROVEN),
    ]
    for batch in [several] if together else [[one] for one in several]:
        room.clerk.run(FILE, batch, room.clerk.now)

    assert [(each.sender_verdict, each.duplicates) for each in all_of(room)] == [("pass", 2)]


def test_numbers_go_up_by_one(room: Mailroom) -> None:
    first = file_raw(room, mail(text="a"), mail(text="b", message_id="<2@example.com>"))
    second = file_raw(room, mail(text="c", message_id="<3@example.com>"))

    assert [each.sequence for each in (*first, *second)] == [1, 2, 3]


# the same message


def test_a_copy_is_counted_and_is_no_second_message(room: Mailroom) -> None:
    (first,) = file_raw(room, mail())
    (copy,) = file_raw(room, mail(more=["Received: by a relay"]))
    (message,) = all_of(room)

    assert (copy.message_id, copy.duplicate, copy.sequence) == (first.message_id, True, None)
    assert message.duplicates == 1
    assert len(room.clerk.run(messages.get, VAULT, TENANT, message.id).copies) == 2
    assert counters(room) == (1, 1)


def test_a_mail_that_smtp_delivers_again_is_counted_as_a_copy(room: Mailroom) -> None:
    """It is recognised before it is parsed; the message and the statistics count it too."""
    room.add_inbox("inb_2", attempt="att_inb_1")
    (filed,) = file_raw(room, mail())
    for _ in range(2):
        room.post(mail())
    (message,) = all_of(room)
    who = Requester(tenant=TENANT)
    inbox, counts = room.clerk.run(inbox_counts.inbox_stats, who, "inb_1")
    attempt = room.clerk.run(inbox_counts.attempt_stats, who, single_attempt("att_inb_1"))

    assert message.duplicates == 2
    assert room.clerk.run(messages.get, VAULT, TENANT, filed.message_id).message.duplicates == 2
    assert (inbox.duplicates, attempt.duplicates, attempt.messages) == (2, 2, 1)
    assert counts == attempt.counts == InboxCounts()


def test_the_first_message_of_an_inbox_tells_how_long_it_took(room: Mailroom) -> None:
    room.clerk.now += 5_000
    first, second = file_raw(room, mail(text="One"), mail(text="Two"))

    assert (first.since_inbox is not None, second.since_inbox) == (True, None)


async def test_what_is_counted_for_inboxes_is_added_up(room: Mailroom) -> None:
    room.add_inbox("inb_2", attempt="att_inb_1")
    database = room.clerk.place.open()
    try:
        counter = InboxCounter(Ledger(database), Telemetry())
        for inbox, name in (("inb_1", "polls"), ("inb_2", "polls"), ("inb_1", "timeouts")):
            counter.count(inbox, TENANT, name)  # type: ignore[arg-type]
        await counter.store()
        counter.count("inb_1", TENANT, "polls", 3)
        await counter.close()
    finally:
        await database.close()
    who = Requester(tenant=TENANT)
    _, one = room.clerk.run(inbox_counts.inbox_stats, who, "inb_1")
    both = room.clerk.run(inbox_counts.attempt_stats, who, single_attempt("att_inb_1")).counts

    assert one == InboxCounts(polls=4, timeouts=1)
    assert both == InboxCounts(polls=5, timeouts=1)


def test_copies_in_one_commit_are_one_message(room: Mailroom) -> None:
    raws = [mail(more=[f"Received: by relay {number}"]) for number in range(5)]
    filed = file_raw(room, *raws)
    (message,) = all_of(room)

    assert [each.duplicate for each in filed] == [False, True, True, True, True]
    assert {each.message_id for each in filed} == {message.id}
    assert (message.duplicates, counters(room)) == (4, (1, 4))


def test_the_same_mail_in_two_inboxes_is_two_messages(room: Mailroom) -> None:
    room.add_inbox("inb_2")
    filed = file(room, *room.claimed(mail(), "inb_1", "inb_2"))

    assert [(each.sequence, each.duplicate) for each in filed] == [(1, False)] * 2
    assert len(all_of(room)) == len(all_of(room, "inb_2")) == 1


def test_a_copy_whose_other_parts_differ_is_flagged(room: Mailroom) -> None:
    """What differs is named, on the copy and as a warning on the message."""
    (first,) = file_raw(room, mail(more=["Date: Mon, 16 Nov 2026 04:00:00 +0000"]))
    (copy,) = file_raw(room, mail(more=["Date: Mon, 16 Nov 2026 05:00:00 +0000"]))
    whole = room.clerk.run(messages.get, VAULT, TENANT, first.message_id)

    assert copy.duplicate
    assert copy.differs == ("date", "headers")
    assert whole.message.warnings == ("copies_differ",)
    assert [each.differs for each in whole.copies] == [(), ("date", "headers")]


@pytest.mark.parametrize("together", [True, False])
def test_a_message_id_used_again_with_other_text_is_a_second_message(
    room: Mailroom, *, together: bool
) -> None:
    """Nobody suppresses a genuine mail by guessing its Message-ID."""
    forged, genuine = mail(text="click here"), mail(text="Your code is 123456")
    if together:
        first, second = file_raw(room, forged, genuine)
    else:
        (first,), (second,) = file_raw(room, forged), file_raw(room, genuine)

    assert (first.reused, second.reused) == (False, True)
    assert [each.warnings for each in all_of(room)] == [(), ("message_id_reused",)]


def test_without_an_identity_every_delivery_is_a_message(room: Mailroom) -> None:
    raws = [mail(message_id=None, more=[f"X-Number: {number}"]) for number in range(2)]
    filed = file_raw(room, *raws)

    assert [each.sequence for each in filed] == [1, 2]


def test_a_delivery_that_is_run_again_changes_nothing(room: Mailroom) -> None:
    """A person replays it, or the parser knows more than last time."""
    (delivery,) = room.claimed(mail())
    (first,) = file(room, delivery)
    again = msgspec.structs.replace(delivery, fence=2)
    filing = room.filing(
        again, lambda parsed: msgspec.structs.replace(parsed, identity=b"other" * 8)
    )
    (second,) = room.clerk.run(FILE, [filing], room.clerk.now)

    assert (second.message_id, second.sequence, second.duplicate) == (
        first.message_id,
        None,
        False,
    )
    assert (len(all_of(room)), counters(room)) == (1, (1, 0))


def test_text_that_no_database_takes_is_left_out_of_the_columns(room: Mailroom) -> None:
    (delivery,) = room.claimed(mail())
    sender = msgspec.structs.replace(
        room.filing(delivery).document.parsed.sender, address="a\0nn@x"
    )
    filing = room.filing(delivery, lambda it: msgspec.structs.replace(it, sender=sender))
    room.clerk.run(FILE, [filing], room.clerk.now)

    assert all_of(room)[0].sender == "ann@x"


# with the delivery, or not at all


def settlement(room: Mailroom, delivery: Delivery) -> Settlement:
    """Return the settlement that files a mail."""
    deed = CommitHook(FILE, room.filing(delivery))
    return Settlement(
        delivery=delivery,
        state=DeliveryState.DONE,
        outcome=DeliveryOutcome.HANDLED,
        commit_hook=deed,
    )


def test_the_delivery_is_done_and_the_message_is_there_in_one_commit(room: Mailroom) -> None:
    (delivery,) = room.claimed(mail())

    assert room.clerk.settle(settlement(room, delivery)) == [True]
    assert room.clerk.state(delivery.id) is DeliveryState.DONE
    assert [each.delivery_id for each in all_of(room)] == [delivery.id]
    assert events(room) == [("message.received", all_of(room)[0].id)]


def test_a_settlement_that_was_committed_before_files_nothing_twice(room: Mailroom) -> None:
    """The reply to the commit was lost, so the worker says it again."""
    (delivery,) = room.claimed(mail(message_id=None))
    again = settlement(room, delivery)
    room.clerk.settle(again)

    assert room.clerk.settle(again) == [True]
    assert (len(all_of(room)), len(events(room)), counters(room)) == (1, 1, (1, 0))


def test_a_stale_worker_files_nothing(room: Mailroom) -> None:
    (first,) = room.claimed(mail())
    room.clerk.now += 30_000
    claimant = room.clerk.claimant("ben", MAIL_SOURCE)
    second = room.clerk.run(leases.claim_expired, claimant, room.clerk.now)
    assert second is not None

    assert room.clerk.settle(settlement(room, first)) == [False]
    assert all_of(room) == []
    assert room.clerk.settle(settlement(room, second)) == [True]
    assert len(all_of(room)) == 1


def test_a_filing_that_is_refused_undoes_its_settlement(room: Mailroom) -> None:
    (delivery,) = room.claimed(mail(), "inb_gone")

    with pytest.raises(RowRefused):
        room.clerk.settle(settlement(room, delivery))
    assert room.clerk.state(delivery.id) is DeliveryState.PROCESSING


def test_an_inbox_of_another_tenant_takes_nothing(room: Mailroom) -> None:
    room.add_inbox("inb_2", tenant="other")
    (delivery,) = room.claimed(mail(), "inb_2")

    with pytest.raises(RowRefused):
        room.clerk.settle(settlement(room, delivery))


def test_deeds_of_one_kind_are_one_call(room: Mailroom) -> None:
    calls: list[int] = []

    def count(_tx: object, whats: object, _now: int) -> list[int]:
        assert isinstance(whats, list)
        calls.append(len(whats))
        return list(range(1, len(whats) + 1))

    room.post(mail())
    room.post(mail(text="another"))
    endings = [
        Settlement(
            delivery=each,
            state=DeliveryState.DONE,
            outcome=DeliveryOutcome.HANDLED,
            commit_hook=CommitHook(count, each.id),
        )
        for each in room.clerk.claim(source=MAIL_SOURCE)
    ]
    settled = room.clerk.run(settlements.settle_with_hooks, endings, room.clerk.now)

    assert calls == [2]
    assert [each.hook_result for each in settled] == [1, 2]


def test_a_commit_hook_belongs_to_a_try_that_is_done(room: Mailroom) -> None:
    (delivery,) = room.claimed(mail())
    deed = CommitHook(FILE, None)

    with pytest.raises(ValueError, match="a try that is done"):
        Settlement(
            delivery=delivery,
            state=DeliveryState.FAILED,
            outcome=DeliveryOutcome.FAILED,
            commit_hook=deed,
        )


# what an inbox counts


def test_an_inbox_knows_when_its_messages_came(room: Mailroom) -> None:
    began = room.clerk.now
    file_raw(room, mail(text="a"))
    room.clerk.now += 500
    file_raw(room, mail(text="b"))
    room.clerk.now += 500
    file_raw(room, mail(text="b", more=["X-Relay: 1"]))
    row = _inbox(room, "first_message_at, last_message_at, matched")

    assert row == (began, began + 500, 2)


def test_only_tenants_with_mail_that_is_due_are_found(room: Mailroom) -> None:
    assert room.clerk.run(messages.tenants_with_mail, room.clerk.now) == []
    room.post(mail())
    due = room.clerk.run(messages.tenants_with_mail, room.clerk.now)
    early = room.clerk.run(messages.tenants_with_mail, room.clerk.now - 1)
    (delivery,) = room.clerk.claim(source=MAIL_SOURCE)
    leased = room.clerk.run(messages.tenants_with_mail, room.clerk.now)
    lost = room.clerk.run(messages.tenants_with_mail, room.clerk.now + 30_000)
    room.clerk.settle(settlement(room, delivery))
    done = room.clerk.run(messages.tenants_with_mail, room.clerk.now + 30_000)

    assert (due, early, leased, lost, done) == ([TENANT], [], [], [TENANT], [])


def counters(room: Mailroom) -> tuple[int, int]:
    """Return the last number and the copies of the first inbox."""
    cursor, duplicates = _inbox(room, "cursor, duplicates")
    return cursor, duplicates


def events(room: Mailroom) -> list[tuple[str, str]]:
    """Return what the outside will be told."""
    return room.clerk.session.run(
        lambda tx: tx.execute("SELECT type, subject_id FROM oncebox_events ORDER BY id")
    )


def _inbox(room: Mailroom, columns: str) -> tuple[int, ...]:
    (row,) = room.clerk.session.run(
        lambda tx: tx.execute(f"SELECT {columns} FROM oncebox_inboxes WHERE id = 'inb_1'")  # noqa: S608
    )
    return row


def test_on_sqlite_the_events_of_a_mail_are_numbered_by_its_own_commit(room: Mailroom) -> None:
    filed = file_raw(room, mail(), mail(text="another", message_id="<2@x>"))
    numbers = [each.number for each in room.clerk.run(read)]
    serial = room.clerk.place.kind == "sqlite"

    assert [each.numbered for each in filed] == [serial, serial]
    assert numbers == ([1, 2] if serial else [])
