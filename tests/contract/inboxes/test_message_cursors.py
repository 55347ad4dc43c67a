"""Cursors: a reader sees every message, in order, however commits overlap.

Numbers are given out under the inbox's lock, which is held until the commit. A number that the
database gives out by itself, as it is usually done, is shown to lose messages.
"""

import random
from collections import Counter
from collections.abc import Iterator
from threading import Event, Thread

import pytest

from oncebox.core import ids
from oncebox.db.database import Transaction
from oncebox.ledger.deliveries import deduplication, leases
from oncebox.ledger.inboxes import messages
from oncebox.model.inboxes.message import NewMessage
from oncebox.model.inboxes.received_mail import MAIL_SOURCE
from tests.support.clerk import START, TENANT, Clerk
from tests.support.databases import Place
from tests.support.interleaved import Running, Slow, wait_for_a_lock
from tests.support.letters import FILE, Mailroom, mail, posted

WRITERS, ROUNDS, BATCH = 4, 12, 5
INBOXES = ("inb_1", "inb_2", "inb_3")


@pytest.fixture
def room(clerk: Clerk) -> Mailroom:
    """A ledger with three inboxes."""
    room = Mailroom(clerk)
    for inbox in INBOXES[1:]:
        room.add_inbox(inbox)
    return room


def prepared(room: Mailroom, *mails: tuple[bytes, str]) -> list[NewMessage]:
    """Take mails in and read them."""
    for raw, inbox in mails:
        room.post(raw, inbox)
    return [room.filing(each) for each in room.clerk.claim(most=10_000, source=MAIL_SOURCE)]


class Reader:
    """Follows one inbox by cursor, from another connection, without ever looking back."""

    def __init__(self, place: Place, inbox: str) -> None:
        self.inbox = inbox
        self.seen: list[int] = []
        self._place = place
        self._stop = Event()
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def finish(self) -> list[int]:
        """Read to the end; return every number seen, in the order it was seen."""
        self._stop.set()
        self._thread.join(30)
        return self.seen

    def _run(self) -> None:
        session = self._place.session()
        try:
            last_round = False
            while True:
                page = session.run(self._page)
                self.seen += [each.sequence for each in page.messages]
                if last_round and not page.messages:
                    return
                last_round = self._stop.is_set()
                self._stop.wait(random.random() / 500)
        finally:
            session.close()

    def _page(self, tx: Transaction) -> messages.MessagePage:
        after = self.seen[-1] if self.seen else 0
        return messages.page(tx, TENANT, self.inbox, after=after, most=7)


def test_a_reader_never_skips_while_many_file_at_once(room: Mailroom) -> None:
    dice = random.Random(7)
    mails = [
        (mail(message_id=f"<{number}@x>"), dice.choice(INBOXES))
        for number in range(WRITERS * ROUNDS * BATCH)
    ]
    filings = prepared(room, *mails)
    dice.shuffle(filings)
    readers = [Reader(room.clerk.place, inbox) for inbox in INBOXES]
    shares = [filings[number::WRITERS] for number in range(WRITERS)]
    writers = [Thread(target=_file_in_rounds, args=(room.clerk.place, each)) for each in shares]
    for each in writers:
        each.start()
    for each in writers:
        each.join(60)
    counts = Counter(inbox for _raw, inbox in mails)

    for reader in readers:
        assert reader.finish() == list(range(1, counts[reader.inbox] + 1))


def _file_in_rounds(place: Place, filings: list[NewMessage]) -> None:
    session = place.session()
    try:
        for batch in _batches(filings):
            session.run(lambda tx, batch=batch: FILE(tx, batch, START))  # type: ignore[misc]
    finally:
        session.close()


def _batches(filings: list[NewMessage]) -> Iterator[list[NewMessage]]:
    for start in range(0, len(filings), BATCH):
        yield filings[start : start + BATCH]


def test_a_later_number_is_never_seen_before_an_earlier_one(room: Mailroom) -> None:
    """One has written and waits with its commit; the other must not overtake it."""
    one, two = prepared(room, (mail(text="a"), "inb_1"), (mail(text="b"), "inb_1"))
    if room.clerk.place.kind == "sqlite":
        return  # there is one writer at a time
    slow = Slow(room.clerk.place, lambda tx: FILE(tx, [one], START))
    quick = Running(room.clerk.place, lambda tx: FILE(tx, [two], START))
    wait_for_a_lock()
    between = room.clerk.run(messages.page, TENANT, "inb_1").messages
    (first,), (second,) = slow.commit(), quick.answer()

    assert between == []
    assert (first.sequence, second.sequence) == (1, 2)


def test_numbers_that_a_database_gives_out_by_itself_lose_messages(room: Mailroom) -> None:
    """The naive version, shown failing: its reader goes past a number that commits later."""
    if room.clerk.place.kind == "sqlite":
        return  # there is one writer at a time
    session = room.clerk.session
    session.run(lambda tx: tx.execute("DROP TABLE IF EXISTS naive"))
    session.run(
        lambda tx: tx.execute(
            "CREATE TABLE naive (number BIGINT GENERATED ALWAYS AS IDENTITY, name TEXT)"
        )
    )
    cursor, seen = 0, []

    def read() -> None:
        nonlocal cursor
        rows = session.run(
            lambda tx: tx.execute(
                "SELECT number, name FROM naive WHERE number > %s ORDER BY number", (cursor,)
            )
        )
        for cursor, name in rows:  # noqa: B007 - the cursor goes on
            seen.append(name)

    def write(tx: Transaction, name: str) -> object:
        return tx.execute("INSERT INTO naive (name) VALUES (%s)", (name,))

    slow = Slow(room.clerk.place, lambda tx: write(tx, "early"))
    Running(room.clerk.place, lambda tx: write(tx, "late")).answer()
    read()
    slow.commit()
    read()
    session.run(lambda tx: tx.execute("DROP TABLE naive"))

    assert seen == ["late"]


def test_filing_into_the_same_inboxes_in_other_orders_does_not_deadlock(room: Mailroom) -> None:
    """Inboxes are locked by id, whatever the order of the filings."""
    forth = prepared(room, *((mail(message_id=f"<a{box}@x>"), box) for box in INBOXES))
    back = prepared(room, *((mail(message_id=f"<b{box}@x>"), box) for box in INBOXES))[::-1]
    slow = Slow(room.clerk.place, lambda tx: FILE(tx, forth[-1:], START))
    threads = [
        Thread(target=_file_in_rounds, args=(room.clerk.place, each)) for each in (forth[:2], back)
    ]
    for each in threads:
        each.start()
    wait_for_a_lock()
    slow.commit()
    for each in threads:
        each.join(30)

    for inbox in INBOXES:
        page = room.clerk.run(messages.page, TENANT, inbox)
        assert [each.sequence for each in page.messages] == [1, 2]


@pytest.mark.parametrize("seed", range(12))
def test_however_mail_is_shuffled_and_repeated_the_messages_are_the_same(
    clerk: Clerk, seed: int
) -> None:
    """Copies by other roads, reused Message-IDs, mail without any, in commits of any size."""
    dice = random.Random(seed)
    room = Mailroom(clerk)
    kinds = [(f"<{dice.randrange(6)}@x>", f"text {dice.randrange(3)}") for _ in range(30)]
    raws = [
        (kind, mail(text=kind[1], message_id=kind[0], more=[f"Received: by {number}"]))
        for number, kind in enumerate(kinds)
    ]
    raws += [
        (("", str(number)), mail(message_id=None, more=[f"X-Number: {number}"]))
        for number in range(3)
    ]
    dice.shuffle(raws)
    arrivals: Counter[tuple[str, str]] = Counter()
    for kind, raw in raws:
        # The same bytes again are a sighting of the same delivery.
        for _ in range(dice.choice((1, 1, 2))):
            arrivals[kind] += 1
            new = posted(raw, "inb_1", now=clerk.now + dice.randrange(1000))
            clerk.run(deduplication.accept, new, clerk.now)
    clerk.now += 1000
    filings = [room.filing(each) for each in clerk.claim(most=1000, source=MAIL_SOURCE)]
    dice.shuffle(filings)
    while filings:
        size = dice.choice((1, 2, 5, 30))
        batch, filings = filings[:size], filings[size:]
        clerk.run(FILE, batch, clerk.now)
    found = clerk.run(messages.page, TENANT, "inb_1", most=1000).messages
    expected = Counter(kinds)

    assert [each.sequence for each in found] == list(range(1, len(expected) + 3 + 1))
    assert sorted(each.duplicates for each in found) == sorted(
        count - 1 for count in arrivals.values()
    )
    flagged = sum("message_id_reused" in each.warnings for each in found)
    assert flagged == len(expected) - len({message_id for message_id, _ in expected})
    cursor, duplicates = clerk.session.run(
        lambda tx: tx.execute("SELECT cursor, duplicates FROM oncebox_inboxes WHERE id = 'inb_1'")
    )[0]
    assert (cursor, duplicates) == (len(found), len(raws) - len(found))


def test_a_claim_brings_a_mail_for_several_inboxes_whole_to_each(room: Mailroom) -> None:
    """They share what is stored; each has the bytes, in the one look that claims them."""
    raw = mail(text="x" * 100)
    room.post(raw, *INBOXES)
    who = room.clerk.claimant(source=MAIL_SOURCE)
    claimed = room.clerk.run(leases.claim, who, 10, room.clerk.now)

    assert [each.body for each in claimed] == [raw] * 3
    assert ids.new("msg") < ids.new("msg")
