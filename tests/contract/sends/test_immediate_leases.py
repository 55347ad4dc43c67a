"""Intent and lease in one commit: what it leaves, when it is not granted, and who sends then."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from msgspec.structs import asdict

from oncebox.errors import CommitUnknown, StoreUnavailable
from oncebox.ledger.sends import transports
from oncebox.model.sends.send import AnswerStatus, IntentResult, SendLease, SendLimits, SendState
from oncebox.model.sends.transports import NewTransport, SendAccepted, TransportRate
from oncebox.testing.smtp import ScriptedSmtp
from tests.support.clerk import LEASE, TENANT, Clerk
from tests.support.databases import Place
from tests.support.mailer import NO_KEY, RELAY, Mailer
from tests.support.posthouse import HeldWay, PostHouse, mail, open_house, until


@pytest.fixture
def mailer(clerk: Clerk) -> Mailer:
    return Mailer(clerk)


def _lease(mailer: Mailer, transport: str = RELAY) -> SendLease:
    seen = mailer.clerk.run(transports.get, TENANT, transport)
    return SendLease("ann", transport, seen.changed_at, LEASE)


def _stored(mailer: Mailer, key: str, **more: Any) -> Any:
    return mailer.get(mailer.intend(key, lease=_lease(mailer), **more).send.id)


# what one commit leaves


def test_the_commit_leaves_what_a_claim_leaves(mailer: Mailer) -> None:
    mailer.intend("claimed")
    claimed = mailer.claim_one()
    told = mailer.intend("leased", lease=_lease(mailer))
    leased = mailer.get(told.send.id)

    assert told.send == leased
    own = ("id", "key", "message_id", "body_id")
    assert {name: value for name, value in asdict(leased).items() if name not in own} == {
        name: value for name, value in asdict(claimed).items() if name not in own
    }
    assert mailer.claim() == []


def test_a_lease_that_is_lost_before_the_marker_is_given_back(mailer: Mailer) -> None:
    leased = _stored(mailer, "key")
    swept = mailer.lose()
    again = mailer.claim_one("bob")

    assert swept.given_back == 1
    assert [each.outcome for each in mailer.tries(leased.id)] == ["lost"]
    assert (again.fence, again.tries) == (2, 2)
    assert not mailer.begin(leased)
    assert mailer.begin(again)


def test_a_lease_that_is_lost_after_the_marker_is_unknown(mailer: Mailer) -> None:
    leased = _stored(mailer, "key")
    assert mailer.begin(leased)
    swept = mailer.lose()

    assert swept.unknown == 1
    assert mailer.state(leased.id) is SendState.UNKNOWN
    assert mailer.claim() == []


def test_a_marker_is_refused_after_the_lease_even_if_nobody_swept(mailer: Mailer) -> None:
    leased = _stored(mailer, "key")
    mailer.clerk.now += LEASE
    assert not mailer.begin(leased)


def test_a_suppressed_recipient_gets_nothing_and_no_try_is_counted(mailer: Mailer) -> None:
    mailer.suppress()
    found = _stored(mailer, "key")

    assert (found.state, found.tries, found.worker) == (SendState.SUPPRESSED, 0, None)
    assert not mailer.begin(found)


def test_a_known_key_is_answered_and_its_lease_stays_with_its_holder(mailer: Mailer) -> None:
    mailer.intend()
    held = mailer.claim_one("bob")
    told = mailer.intend(lease=_lease(mailer))

    assert (told.created, told.send.fence, told.send.worker) == (False, held.fence, "bob")


def test_two_leases_for_one_key_in_one_commit_are_one(mailer: Mailer) -> None:
    both = [mailer.new(lease=_lease(mailer)) for _ in range(2)]
    told = [each for each in mailer.ask(*both) if each is not None]

    assert sorted(each.created for each in told) == [False, True]
    assert len({each.send.id for each in told}) == 1
    assert mailer.rows("SELECT COUNT(*) FROM oncebox_sends WHERE fence = 1") == [(1,)]


# when it is not granted


def _paused(mailer: Mailer) -> None:
    mailer.pause()


def _rated(mailer: Mailer) -> None:
    new = NewTransport(name=RELAY, kind="smtp", rate=TransportRate(1, 60_000))
    mailer.clerk.run(transports.change, new, mailer.deed())


def _resting(mailer: Mailer) -> None:
    mailer.intend("breaks")
    mailer.say(mailer.claim_one(), NO_KEY, wait=None)


def _rested(mailer: Mailer) -> None:
    """After its rest a transport is probed by one send, which a claim counts."""
    _resting(mailer)
    mailer.clerk.now += 24 * 3_600_000


@pytest.mark.parametrize("prevented", [_paused, _rated, _resting, _rested])
def test_what_a_claim_counts_or_refuses_is_left_to_a_claim(
    mailer: Mailer, prevented: Callable[[Mailer], None]
) -> None:
    prevented(mailer)
    before = mailer.rows("SELECT allowance, rests_until, probing FROM oncebox_transports")
    found = _stored(mailer, "key")

    assert (found.state, found.fence, found.tries) == (SendState.PENDING, 0, 0)
    assert (found.worker, found.claimed_at, found.due_at) == (None, None, mailer.clerk.now)
    assert mailer.rows("SELECT allowance, rests_until, probing FROM oncebox_transports") == before


def test_a_transport_that_was_changed_since_is_not_used_from_memory(mailer: Mailer) -> None:
    lease = _lease(mailer)
    mailer.clerk.run(transports.change, NewTransport(name=RELAY, kind="smtp"), mailer.deed())
    assert mailer.intend(lease=lease).send.state is SendState.PENDING


def test_a_transport_that_is_no_longer_the_first_is_not_used(mailer: Mailer) -> None:
    lease = _lease(mailer)
    mailer.add_transport("before", position=-1)
    told = mailer.intend(transport="", lease=lease)
    assert (told.send.transport, told.send.state) == ("before", SendState.PENDING)


def test_the_first_transport_is_used_where_none_is_named(mailer: Mailer) -> None:
    told = mailer.intend(transport="", lease=_lease(mailer))
    assert (told.send.transport, told.send.state) == (RELAY, SendState.CLAIMED)


def test_a_send_is_not_leased_before_or_after_its_time(mailer: Mailer) -> None:
    now = mailer.clerk.now
    later = _stored(mailer, "later", send_at=now + 60_000)
    late = _stored(mailer, "late", valid_until=now)
    assert (later.state, late.state) == (SendState.PENDING, SendState.PENDING)


def test_a_rearmed_send_is_claimed_like_any_other(mailer: Mailer) -> None:
    mailer.cancel(mailer.intend().send.id)
    told = mailer.intend(lease=_lease(mailer))
    assert (told.rearmed, told.send.state) == (True, SendState.PENDING)


def test_an_intent_over_its_limits_is_neither_stored_nor_leased(mailer: Mailer) -> None:
    limits = SendLimits(cool_down=60_000)
    mailer.intend("first", guards=limits, lease=_lease(mailer))
    mailer.turned_down("second", guards=limits, lease=_lease(mailer))
    assert len(mailer.rows("SELECT id FROM oncebox_sends")) == 1


# who sends


@pytest.fixture
async def server() -> AsyncIterator[ScriptedSmtp]:
    async with ScriptedSmtp() as server:
        yield server


@pytest.fixture
async def house(place: Place, server: ScriptedSmtp) -> AsyncIterator[PostHouse]:
    async with open_house(place) as house:
        await house.add(server)
        yield house


async def test_a_mail_is_leased_by_the_commit_that_stores_it_and_sent_once(
    house: PostHouse, server: ScriptedSmtp
) -> None:
    told = await house.send()

    assert (told.state, told.status) == (SendState.CLAIMED, AnswerStatus.IN_FLIGHT)
    found = await house.until(told.id, SendState.SENT)
    assert (found.fence, found.tries) == (1, 1)
    assert server.count(told.message_id) == 1


async def test_a_mail_whose_caller_has_gone_is_sent_at_once(
    house: PostHouse, server: ScriptedSmtp
) -> None:
    store = house.rooms.ledger.enqueue
    going: asyncio.Task[Any] | None = None

    def enqueue(*given: Any) -> None:
        store(*given)
        assert going is not None
        going.cancel()

    house.rooms.ledger.enqueue = enqueue
    going = asyncio.create_task(house.send())
    with pytest.raises(asyncio.CancelledError):
        await going
    await until(lambda: len(server.accepted) == 1)
    await until(lambda: house.metric('oncebox_sends_total{status="sent"}') == 1)


async def test_a_lost_reply_to_the_commit_costs_a_lease_and_sends_once(
    place: Place, server: ScriptedSmtp
) -> None:
    async with open_house(place, lease=0.5) as house:
        await house.add(server)
        store = house.rooms.ledger.enqueue

        def enqueue(function: Any, item: Any, waiter: Any) -> None:
            store(function, item, _Lost(waiter))

        house.rooms.ledger.enqueue = enqueue
        with pytest.raises(CommitUnknown):
            await house.send("order_1")
        house.rooms.ledger.enqueue = store
        again = await house.send("order_1", wait=30)

        assert (again.status, again.created) == (AnswerStatus.DUPLICATE, False)
        assert [each.outcome for each in await house.tries(again.id)] == ["lost", "accepted"]
        assert server.count(again.message_id) == 1
        (sender,) = house.box._send_workers
        assert sender._is_idle()


class _Lost:
    """A waiter that hears nothing of what was committed."""

    def __init__(self, waiter: Any) -> None:
        self._waiter = waiter

    def done(self) -> bool:
        return False

    def set_result(self, _result: IntentResult) -> None:
        self._waiter.set_exception(CommitUnknown("the connection broke during COMMIT"))

    def set_exception(self, error: Exception) -> None:
        self._waiter.set_exception(error)


async def test_a_mail_that_another_process_stored_first_is_not_sent_here(
    house: PostHouse,
) -> None:
    way = HeldWay()
    house.goes_by(way)
    first = await house.send("order_1")
    await way.taken.wait()

    async def unknown(_asked: Any) -> None:
        """Look before the other process has stored it."""

    house.rooms.outbox._find_existing.read = unknown
    again = await house.send("order_1")
    (sender,) = house.box._send_workers
    tries = len(sender._tries)
    way.answer.set_result(SendAccepted())

    assert (again.id, again.created) == (first.id, False)
    assert (tries, sender._reserved) == (1, 0)
    await house.until(first.id, SendState.SENT)
    assert way.count == 1


async def test_capacity_is_given_back_when_nothing_can_be_stored(house: PostHouse) -> None:
    def refuse(*_given: Any) -> None:
        raise StoreUnavailable("too many calls wait for the database")

    await house.send(wait=30)
    store, house.rooms.ledger.enqueue = house.rooms.ledger.enqueue, refuse
    with pytest.raises(StoreUnavailable):
        await house.send()
    house.rooms.ledger.enqueue = store

    (sender,) = house.box._send_workers
    assert sender._is_idle()


async def test_no_more_are_leased_than_may_be_sent_at_the_same_time(
    place: Place, server: ScriptedSmtp
) -> None:
    async with open_house(place, concurrency=4) as house:
        await house.add(server)
        way = HeldWay()
        house.goes_by(way)
        told = [await house.send() for _ in range(6)]

        assert [each.state for each in told].count(SendState.CLAIMED) == 3
        way.answer.set_result(SendAccepted())
        for each in told:
            await house.until(each.id, SendState.SENT)
        assert way.count == 6


async def test_new_mail_does_not_overtake_what_waits_for_capacity(
    place: Place, server: ScriptedSmtp
) -> None:
    async with open_house(place, concurrency=4) as house:
        await house.add(server)
        way = HeldWay()
        house.goes_by(way)
        for _ in range(3):
            await house.send()
        waits = await house.send()
        (sender,) = house.box._send_workers
        await until(lambda: bool(sender._backlogged))
        vacate, asked = sender._vacate, []

        def ask_at_once(transport: Any) -> None:
            vacate(transport)
            asked.append(asyncio.create_task(sender.reserve(TENANT, RELAY)))

        sender._vacate = ask_at_once  # type: ignore[method-assign]
        way.answer.set_result(SendAccepted())
        await until(lambda: bool(asked))

        assert await asked[0] is None
        await house.until(waits.id, SendState.SENT)
        await until(lambda: not sender._backlogged)


async def test_who_stops_leases_nothing_more(house: PostHouse) -> None:
    await house.send(wait=30)
    (sender,) = house.box._send_workers
    sender.stop()
    assert await sender.reserve(TENANT, RELAY) is None


async def test_a_logged_mail_takes_two_commits(place: Place) -> None:
    async with open_house(place) as house:
        await house.box.send(mail(), key="makes the transport", wait=30)
        (sender,) = house.box._send_workers
        sender._directory._known.clear()
        told = await house.send(wait=30)

        assert (told.status, told.transport) == (AnswerStatus.LOGGED, "log")
        assert (await house.get(told.id)).fence == 1
