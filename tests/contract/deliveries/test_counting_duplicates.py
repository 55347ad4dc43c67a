"""Duplicates without a transaction: the answers, counts, examples and states of ``accept``."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from random import Random
from typing import Any, NamedTuple

import pytest

from oncebox.core import ids
from oncebox.core.metrics import Telemetry
from oncebox.db.database import Database, Row
from oncebox.db.group_commit import GroupCommit
from oncebox.db.postgres import PostgresDatabase
from oncebox.ledger.deliveries import deduplication, leases, settlements
from oncebox.ledger.deliveries.intake import Intake
from oncebox.model.deliveries.delivery import (
    Accepted,
    ArrivalKind,
    DeliveryState,
    NewDelivery,
)
from oncebox.settings import LimitSettings
from tests.support.clerk import (
    DAY,
    HOUR,
    LEASE,
    SOURCE,
    START,
    TENANT,
    Clerk,
    dead,
    done,
    failed,
    held,
)
from tests.support.databases import Place

ENDINGS = ("processing", "done", "failed", "dead", "held")

STORED = (
    "SELECT id, state, due_at, tries, rearms, hastened_at, late, road FROM oncebox_deliveries",
    "SELECT delivery_id, class, count, first_at, last_at, road FROM oncebox_sightings",
    "SELECT delivery_id, class, number, at, verdict, secret_id, headers FROM oncebox_examples",
)


class Sent(NamedTuple):
    """What a sender sends, to either tenant."""

    key: str
    body: bytes
    road: str
    verdict: str
    redelivery: str
    #: the key of the delivery that it is an echo of
    echo: str | None
    headers: bytes


class Clock:
    """A time that only the test moves."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now


class Side:
    """A tenant, whose arrivals are answered with ``count_duplicates`` or without."""

    def __init__(self, database: Database, tenant: str, *, counts: bool) -> None:
        self.database = database
        self.tenant = tenant
        self.counts = counts
        #: how many batches ``count_duplicates`` has answered, and how many it has not
        self.answered = Counter[bool]()

    async def accept(self, batch: Sequence[Sent]) -> list[Row]:
        now = self.database.clock()
        names = await self._names()
        known = {name: id_ for id_, name in names.items()}
        arrivals = [self._arrival(each, known, now) for each in batch]
        answers = None
        if self.counts:
            answers = await deduplication.count_duplicates(self.database, arrivals)
            self.answered[answers is not None] += 1
        if answers is None:
            answers = await self.database.write(deduplication.accept, arrivals, now)
        names = await self._names()
        return [
            (names[each.id], each.arrival, each.state, each.duplicate_class) for each in answers
        ]

    def _arrival(self, sent: Sent, known: dict[str, str], now: int) -> NewDelivery:
        return NewDelivery(
            id=ids.new("dlv"),
            tenant=self.tenant,
            source=SOURCE,
            key=sent.key,
            body=sent.body,
            headers=sent.headers,
            fingerprint=hashlib.sha256(sent.body).digest(),
            road=sent.road,
            received_at=now,
            redelivery=sent.redelivery,
            unsigned=sent.key.startswith("unsigned"),
            verdict=sent.verdict,
            secret_id=None if sent.verdict else "sec_1",
            echo_of=None if sent.echo is None else known.get(sent.echo + "|", "dlv_unknown"),
        )

    async def run_due(self, endings: dict[str, str]) -> None:
        """Claim what is due, and end each try as its key says."""
        now = self.database.clock()
        who = leases.DeliveryClaimant(self.tenant, SOURCE, "ann", LEASE, 8, DAY)
        claimed = await self.database.write(leases.claim, who, 100, now)
        settled = {
            "done": done,
            "failed": lambda each: failed(each, now + HOUR),
            "dead": dead,
            "held": held,
        }
        chosen = [
            settled[endings[each.key]](each) for each in claimed if endings[each.key] in settled
        ]
        await self.database.write(settlements.settle, chosen, now)

    async def stored(self) -> dict[str, list[Row]]:
        """Return everything about the deliveries, without the ids."""
        names = await self._names()
        return {
            statement: sorted((names[id_], *rest) for id_, *rest in await self._select(statement))
            for statement in STORED
        }

    async def _names(self) -> dict[str, str]:
        found = await self._select("SELECT id, key || '|' || variant FROM oncebox_deliveries")
        return dict(found)

    async def _select(self, statement: str) -> list[Any]:
        whole = f"{statement} WHERE tenant = '{self.tenant}'"
        return await self.database.read(lambda tx: tx.execute(whole))


def _sent(dice: Random) -> Sent:
    """Return mostly the usual: a known key, with its own body."""
    number = dice.choice([0, 0, 0, 1, 1, 2, 3, 4])
    kind = dice.choice(["signed", "signed", "unsigned"])
    other = dice.random() < 0.08
    return Sent(
        key=f"{kind}-{number}",
        body=b"%d" % (number + other),  # the body of another unsigned key, too
        road=dice.choice(["hook"] * 9 + ["poll"]),
        verdict=dice.choice([""] * 9 + ["late"]),
        redelivery=dice.choice(["rearm", "count"]),
        echo=f"signed-{dice.randrange(9)}" if dice.random() < 0.04 else None,
        headers=b"[%d]" % dice.randrange(100),
    )


@pytest.fixture
async def clock() -> Clock:
    return Clock()


@pytest.fixture
async def steady(place: Place, clock: Clock) -> AsyncIterator[Database]:
    """A database with the time of the test."""
    database = place.open(clock)
    yield database
    await database.close()


@pytest.mark.parametrize("seed", range(5))
async def test_duplicates_are_answered_and_stored_as_by_accept_alone(
    steady: Database, clock: Clock, seed: int
) -> None:
    dice = Random(seed)
    alone, counting = Side(steady, "one", counts=False), Side(steady, "two", counts=True)

    for _ in range(40):
        batch = [_sent(dice) for _ in range(dice.choice([1, 1, 2, 3, 5]))]
        assert await counting.accept(batch) == await alone.accept(batch)
        endings = {
            f"{kind}-{n}": dice.choice(ENDINGS) for kind in ("signed", "unsigned") for n in range(5)
        }
        clock.now += dice.choice([0, 1_000, 2 * LEASE])
        for side in (alone, counting):
            await side.run_due(endings)

    assert await counting.stored() == await alone.stored()
    assert min(counting.answered[True], counting.answered[False]) >= 3


# what is left to ``accept``, one by one; nothing has been written then


async def _refused(database: Database, clerk: Clerk, *arrivals: NewDelivery) -> None:
    before = {each.id: clerk.inspect(each.id).duplicates for each in clerk.all()}
    assert await deduplication.count_duplicates(database, arrivals) is None
    assert {each.id: clerk.inspect(each.id).duplicates for each in clerk.all()} == before


async def test_a_plain_duplicate_is_counted(database: Database, clerk: Clerk) -> None:
    first = clerk.accept_one()

    answers = await deduplication.count_duplicates(database, [clerk.arrival(), clerk.arrival()])

    duplicate = Accepted(first.id, ArrivalKind.DUPLICATE, DeliveryState.RECEIVED, "provider_retry")
    assert answers == [duplicate, duplicate]
    assert clerk.sightings(first.id) == {"provider_retry": 2}
    assert len(clerk.inspect(first.id).examples) == 2


async def test_a_new_arrival_among_duplicates_is_left_to_accept(
    database: Database, clerk: Clerk
) -> None:
    clerk.accept_one()
    await _refused(database, clerk, clerk.arrival(), clerk.arrival("other"), clerk.arrival())


async def test_another_body_among_duplicates_is_left_to_accept(
    database: Database, clerk: Clerk
) -> None:
    clerk.accept_one()
    await _refused(database, clerk, clerk.arrival(), clerk.arrival(body=b"other"))


async def test_an_arrival_that_the_insert_has_stored_is_left_to_accept(
    database: Database, clerk: Clerk
) -> None:
    new = clerk.arrival()
    clerk.accept(new)
    await _refused(database, clerk, clerk.arrival(), new)


async def test_an_echo_among_duplicates_is_left_to_accept(database: Database, clerk: Clerk) -> None:
    ours = clerk.accept_one()
    await _refused(database, clerk, clerk.arrival(), clerk.arrival(echo_of=ours.id))


@pytest.mark.parametrize("state", [DeliveryState.FAILED, DeliveryState.DEAD])
async def test_a_delivery_that_a_redelivery_rearms_is_left_to_accept(
    database: Database, clerk: Clerk, state: DeliveryState
) -> None:
    delivery = clerk.accept_and_claim()
    (clerk.fail if state is DeliveryState.FAILED else clerk.give_up)(delivery)

    await _refused(database, clerk, clerk.arrival())

    counted = await deduplication.count_duplicates(database, [clerk.arrival(redelivery="count")])
    assert counted is not None
    assert [each.state for each in counted] == [state]


# on PostgreSQL, without a session thread


class CountingDatabase(PostgresDatabase):
    """A database that counts what its session threads are given."""

    given = 0

    async def write(self, *args: Any, **kwargs: Any) -> Any:
        self.given += 1
        return await super().write(*args, **kwargs)

    async def write_statement(self, *args: Any, **kwargs: Any) -> Any:
        self.given += 1
        return await super().write_statement(*args, **kwargs)


@pytest.fixture
async def counting(place: Place) -> AsyncIterator[CountingDatabase]:
    """A database whose connections on the loop are open."""
    database = CountingDatabase(place.url)
    row = (b"", TENANT, SOURCE, "none", "")
    while len(database._loop_connections._idle) < 2:
        await asyncio.gather(
            *(database.run_bulk(deduplication._sql.known, [row]) for _ in range(3))
        )
        await asyncio.sleep(0.01)
    database.given = 0
    yield database
    await database.close()


async def _kinds(intake: Intake, *keys: str) -> Counter[ArrivalKind]:
    answers = await asyncio.gather(
        *(intake.accept(SOURCE, key=key, body=key.encode()) for key in keys)
    )
    return Counter(each.arrival for each in answers)


@pytest.mark.parametrize("kind", ["postgres"])
async def test_a_storm_of_duplicates_takes_no_session_thread(
    counting: CountingDatabase, clerk: Clerk
) -> None:
    intake = Intake(counting, Telemetry(), tenant=TENANT, limits=LimitSettings())
    assert await _kinds(intake, "a", "b") == {ArrivalKind.NEW: 2}
    assert counting.given == 0

    for _ in range(30):  # the insert is tried again after every ten
        assert await _kinds(intake, "a", "b", "a") == {ArrivalKind.DUPLICATE: 3}

    assert counting.given == 0
    assert clerk.sightings(clerk.find("a")) == {"provider_retry": 60}
    assert clerk.sightings(clerk.find("b")) == {"provider_retry": 30}


@pytest.mark.parametrize("kind", ["postgres"])
async def test_new_arrivals_after_a_storm_take_no_session_thread_for_long(
    counting: CountingDatabase,
) -> None:
    intake = Intake(counting, Telemetry(), tenant=TENANT, limits=LimitSettings())
    await _kinds(intake, "a")
    await _kinds(intake, "a")

    for number in range(30):
        assert await _kinds(intake, str(number)) == {ArrivalKind.NEW: 1}

    assert counting.given == 10


async def test_only_batches_after_an_insert_that_did_not_suffice_are_asked_for_duplicates(
    database: Database, clerk: Clerk
) -> None:
    asked = []

    async def known(_database: Database, arrivals: Sequence[NewDelivery]) -> None:
        asked.append([each.key for each in arrivals])

    group = GroupCommit(
        database, deduplication.accept, insert=deduplication.insert_new, known=known
    )
    for key, hold_reason in (("a", None), ("b", "late"), ("a", None), ("c", None)):
        await group.submit(clerk.arrival(key, hold_reason=hold_reason))

    assert asked == ([["a"], ["c"]] if database.round_trips else [])
