"""Expiry: inboxes end on time, whoever looks, and each step is told once."""

import asyncio

import pytest

from oncebox.core.metrics import Telemetry
from oncebox.db.database import Database, Transaction
from oncebox.ledger.deliveries import deduplication
from oncebox.ledger.inboxes import inboxes
from oncebox.ledger.transactions import Ledger
from oncebox.model.inboxes.inbox import TRANSITIONS, InboxState
from oncebox.workers.maintenance.sweeper import InboxExpirer
from tests.support.clerk import MINUTE, Clerk
from tests.support.interleaved import interleave
from tests.support.letters import posted
from tests.support.mailroom import ALL, DRAINING, LIFETIME, MailRoom

_LIFETIME, _DRAINING = LIFETIME * 1000, DRAINING * 1000


@pytest.fixture
def room(clerk: Clerk) -> MailRoom:
    return MailRoom(clerk)


def test_an_inbox_drains_after_its_time_and_then_expires(room: MailRoom) -> None:
    made = room.make()
    room.clerk.now += _LIFETIME - 1
    assert room.turn().found == 0
    room.clerk.now += 1
    room.turn()
    draining = room.get(made.id)
    room.clerk.now += _DRAINING - 1
    assert room.turn().found == 0
    room.clerk.now += 1
    room.turn()
    expired = room.get(made.id)

    assert (draining.state, draining.due_at) == (
        InboxState.DRAINING,
        made.created_at + _LIFETIME + _DRAINING,
    )
    assert (expired.state, expired.due_at) == (InboxState.EXPIRED, None)
    assert expired.ended_at == room.clerk.now
    assert room.turn().found == 0


def test_a_late_look_does_not_lengthen_the_draining(room: MailRoom) -> None:
    made = room.make()
    room.clerk.now += _LIFETIME + _DRAINING
    room.turn()
    room.turn()

    assert room.get(made.id).state is InboxState.EXPIRED


def test_a_closed_inbox_is_closed_after_draining_not_expired(room: MailRoom) -> None:
    made = room.make()
    room.close(made.id)
    room.clerk.now += _DRAINING
    room.turn()

    assert room.get(made.id).state is InboxState.CLOSED
    assert room.told() == [("inbox.closed", made.id)]


def test_one_that_is_closed_while_it_drains_after_its_time_is_closed(room: MailRoom) -> None:
    made = room.make()
    room.clerk.now += _LIFETIME
    room.turn()
    room.close(made.id)
    room.clerk.now += _DRAINING
    room.turn()

    assert room.get(made.id).state is InboxState.CLOSED


def test_an_inbox_for_ever_is_never_due(room: MailRoom) -> None:
    room.make(lifetime=0)
    room.clerk.now += 100 * 365 * 24 * 60 * MINUTE

    assert room.turn().found == 0


# missed


def test_an_inbox_with_nothing_matched_is_reported_missed_once(room: MailRoom) -> None:
    missed, other = room.make(attempt_id="a"), room.make()
    room.file(missed.id, cursor=4, matched=0)
    room.file(other.id, matched=1)
    room.clerk.now += _LIFETIME
    first, second = room.turn(), room.turn()

    assert (first.missed, second.missed) == (1, 0)
    assert room.told() == [("inbox.missed", missed.id)]
    assert room.events()[-1][2] == {"active_until": missed.active_until, "messages": 4}
    assert room.get(missed.id).missed_at == room.clerk.now
    assert room.get(other.id).missed_at is None


def test_missed_comes_before_expired(room: MailRoom) -> None:
    made = room.make()
    room.clerk.now += _LIFETIME + _DRAINING
    room.turn()
    room.turn()

    assert room.told() == [("inbox.missed", made.id), ("inbox.expired", made.id)]


def test_one_that_was_closed_before_its_time_is_not_missed(room: MailRoom) -> None:
    made = room.make()
    room.close(made.id)
    room.clerk.now += _LIFETIME
    room.turn()

    assert room.told("inbox.missed") == []
    assert room.get(made.id).missed_at is None


def test_a_message_that_commits_first_keeps_an_inbox_from_being_missed(room: MailRoom) -> None:
    """The row's lock decides: whoever is second sees what the first did."""
    made = room.make()
    room.clerk.now += _LIFETIME

    def matched(tx: Transaction) -> None:
        tx.execute("UPDATE oncebox_inboxes SET matched = matched + 1")

    interleave(
        room.clerk.place,
        matched,
        lambda tx: inboxes.expire(tx, _DRAINING, room.clerk.now),
    )
    room.turn()

    assert room.told("inbox.missed") == []
    assert room.get(made.id).state is InboxState.DRAINING


def take_mail(room: MailRoom, inbox_id: str) -> None:
    """Take a mail that nobody reads yet."""
    new = posted(b"unread", inbox_id, now=room.clerk.now)
    room.clerk.run(deduplication.accept, new, room.clerk.now)


def test_an_inbox_is_not_missed_while_mail_for_it_is_not_read(room: MailRoom) -> None:
    made, empty = room.make(), room.make()
    take_mail(room, made.id)
    room.clerk.now += _LIFETIME
    turned = room.turn()
    room.file(made.id, matched=1)
    room.clerk.now += _DRAINING
    room.turn()

    assert turned.missed == 1
    assert room.told("inbox.missed") == [("inbox.missed", empty.id)]
    assert room.get(made.id).missed_at is None


def test_what_was_read_late_and_does_not_match_is_missed_in_the_end(room: MailRoom) -> None:
    made = room.make()
    take_mail(room, made.id)
    room.clerk.now += _LIFETIME
    first = room.turn()
    room.file(made.id, matched=0)
    room.clerk.now += _DRAINING
    second, third = room.turn(), room.turn()

    assert [each.missed for each in (first, second, third)] == [0, 1, 0]
    assert room.told() == [("inbox.missed", made.id), ("inbox.expired", made.id)]
    assert room.get(made.id).missed_at == room.clerk.now


# racing


def test_two_who_look_at_once_take_each_step_once(room: MailRoom) -> None:
    made = [room.make() for _ in range(5)]
    room.clerk.now += _LIFETIME

    one, two = interleave(
        room.clerk.place,
        lambda tx: inboxes.expire(tx, _DRAINING, room.clerk.now, 3),
        lambda tx: inboxes.expire(tx, _DRAINING, room.clerk.now, 3),
    )
    room.turn()

    assert one.missed == 3
    assert two.missed <= 2
    assert sorted(room.told("inbox.missed")) == sorted(("inbox.missed", each.id) for each in made)


def test_a_close_at_the_last_moment_and_the_look_agree(room: MailRoom) -> None:
    made = room.make()
    room.clerk.now += _LIFETIME

    interleave(
        room.clerk.place,
        lambda tx: room.postmaster.close(tx, ALL, made.id, 0, room.clerk.now),
        lambda tx: inboxes.expire(tx, _DRAINING, room.clerk.now),
    )

    assert room.get(made.id).state is InboxState.CLOSED
    assert room.told() == [("inbox.closed", made.id)]


def test_only_transitions_of_the_table_happen(room: MailRoom) -> None:
    made = [room.make(attempt_id=str(number)) for number in range(6)]
    seen: set[tuple[InboxState, InboxState]] = set()
    states = {each.id: InboxState.ACTIVE for each in made}

    def look() -> None:
        for id_, before in states.items():
            after = room.get(id_).state
            if after is not before:
                seen.add((before, after))
            states[id_] = after

    room.close(made[0].id, 0)
    look()
    room.close(made[1].id)
    room.rotate(made[2].id)
    room.rotate(made[3].id, 0)
    look()
    room.close(made[1].id, 0)
    look()
    for step in (_LIFETIME, _DRAINING, _DRAINING):
        room.clerk.now += step
        room.turn()
        look()
        for each in made[:5]:
            room.close(each.id, 0 if step == _DRAINING else None)
        look()

    assert seen == set(TRANSITIONS)


# the loop


async def test_the_loop_takes_all_that_is_due_and_counts_the_missed(
    room: MailRoom, database: Database
) -> None:
    for _ in range(3):
        room.make()
    room.clerk.now += _LIFETIME
    telemetry = Telemetry()
    counter = Ledger(database)
    counter.clock = lambda: room.clerk.now
    expiry_loop = InboxExpirer(counter, telemetry, draining=_DRAINING, every=0.01)
    running = asyncio.create_task(expiry_loop.run())
    while "oncebox_inboxes_missed_total 3.0" not in telemetry.scrape():  # noqa: ASYNC110 - a database
        await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert len(room.told("inbox.missed")) == 3
