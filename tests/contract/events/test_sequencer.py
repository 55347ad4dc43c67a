"""The sequencer: numbers soon, alone, and leaves its duty to others when it ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from oncebox.box import Oncebox
from oncebox.core.metrics import Telemetry
from oncebox.db.database import Database
from oncebox.errors import Permanent
from oncebox.ledger.events import event_log as verbs
from oncebox.ledger.notifications import EVENTS, STREAM
from oncebox.ledger.transactions import Ledger
from oncebox.model.deliveries.delivery import Delivery
from oncebox.settings import EventSettings
from oncebox.workers.maintenance.sequencer import Sequencer
from tests.support.databases import Place
from tests.support.events import new, number_all, read, record
from tests.support.program import settings


@asynccontextmanager
async def sequencing(
    database: Database, telemetry: Telemetry | None = None, *, lease: float = 30.0
) -> AsyncIterator[None]:
    """Run a sequencer."""
    sequencer = Sequencer(Ledger(database), telemetry or Telemetry(), EventSettings(lease=lease))
    task = asyncio.create_task(sequencer.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _count(database: Database) -> int:
    return len(await database.read(read))


async def _wait_for(database: Database, count: int, within: float = 10.0) -> None:
    async with asyncio.timeout(within):
        while await _count(database) < count:  # noqa: ASYNC110 - it looks past the bell
            await asyncio.sleep(0.01)


async def test_a_recorded_event_is_numbered_at_a_ring_and_its_readers_are_woken(
    database: Database,
) -> None:
    ear = database.subscribe(STREAM)
    async with sequencing(database):
        await asyncio.sleep(0.1)
        await database.write(record, new())
        database.notify(EVENTS)

        assert await ear.wait(0.9)
        await _wait_for(database, 1, within=0.5)


async def test_an_event_whose_ring_was_lost_is_numbered_all_the_same(database: Database) -> None:
    async with sequencing(database):
        await database.write(record, new())

        await _wait_for(database, 1)


async def test_more_events_than_fit_into_one_commit_are_all_numbered(database: Database) -> None:
    await database.write(record, *(new() for _ in range(1_201)))
    telemetry = Telemetry()
    async with sequencing(database, telemetry):
        await _wait_for(database, 1_201)

    assert "oncebox_events_numbered_total 1201.0" in telemetry.scrape()
    assert "oncebox_sequencer_turns_total 1.0" in telemetry.scrape()


async def test_of_many_sequencers_one_numbers_and_another_takes_over_at_once_when_it_ends(
    place: Place,
) -> None:
    databases = [place.open() for _ in range(3)]
    first = databases[0]
    async with sequencing(databases[1]), sequencing(databases[2]):
        async with sequencing(first):
            for count in range(1, 6):
                await first.write(record, new(), new())
                first.notify(EVENTS)
                await _wait_for(first, 2 * count)
        ended = await first.read(verbs.sequencer_status)
        await first.write(record, new())
        first.notify(EVENTS)
        await _wait_for(first, 11, within=5)
        now_has_it = await first.read(verbs.sequencer_status)

    numbers = [each.number for each in await first.read(read)]
    assert numbers == list(range(1, 12))
    assert now_has_it.holder != ""
    assert ended.fence <= now_has_it.fence
    for each in databases:
        await each.close()


async def test_an_idle_ledger_is_left_alone(database: Database) -> None:
    """The duty is taken only when there is something to number."""
    async with sequencing(database, lease=0.1):
        await asyncio.sleep(1.5)

        assert (await database.read(verbs.sequencer_status)).fence == 0


async def test_a_sequencer_waits_for_the_lease_of_one_that_is_gone_and_not_longer(
    database: Database,
) -> None:
    now = database.clock()
    await database.write(verbs.number_events, "gone", 0, now=now, until=now + 700)
    async with sequencing(database):
        await database.write(record, new())
        database.notify(EVENTS)
        await asyncio.sleep(0.3)
        assert await _count(database) == 0

        await _wait_for(database, 1, within=1.5)


async def test_a_sequencer_survives_whatever_happens_to_one_round(database: Database) -> None:
    """Somebody takes its duty away, by force, again and again."""
    telemetry = Telemetry()
    async with sequencing(database, telemetry):
        for count in range(1, 4):
            await database.write(record, new())
            database.notify(EVENTS)
            await _wait_for(database, count)
            await database.write(number_all)
            await database.write(lambda tx: tx.execute("UPDATE oncebox_duties SET until = 0"))

    assert [each.number for each in await database.read(read)] == [1, 2, 3]


async def test_a_box_in_a_program_of_its_own_numbers_what_it_tells(place: Place) -> None:
    """Without a service beside it nobody else would."""
    box = Oncebox(settings=settings(place))

    @box.on("shop")
    async def handle(delivery: Delivery) -> None:
        raise Permanent("it cannot be done")

    async with box:
        await box.accept("shop", key="1")
        await _wait_for(box.components.database, 1)
        (told,) = await box.components.database.read(read, tenant=box.settings.tenant)

    assert (told.type, told.number) == ("delivery.dead", 1)


async def test_an_event_is_numbered_by_its_own_commit_where_commits_come_one_by_one(
    database: Database,
) -> None:
    numbered = await database.write(verbs.record_numbered, [new(), new()])
    found = await database.read(read)

    assert numbered is (database.kind == "sqlite")
    assert [each.number for each in found] == ([1, 2] if numbered else [])


async def test_no_event_gets_a_number_before_one_that_waits_for_its_own(
    database: Database,
) -> None:
    earlier, later = new(), new()
    await database.write(record, earlier)
    assert not await database.write(verbs.record_numbered, [later])
    await database.write(number_all)

    assert [each.id for each in await database.read(read)] == [earlier.id, later.id]


async def test_processes_that_number_in_their_own_commits_leave_no_gap(
    place: Place, database: Database
) -> None:
    other = place.open()
    try:
        async with sequencing(database, lease=0.2):
            for _ in range(20):
                await asyncio.gather(
                    database.write(verbs.record_numbered, [new(), new()]),
                    other.write(verbs.record_numbered, [new()]),
                    other.write(record, new()),
                )
                other.notify(EVENTS)
            await _wait_for(database, 80)
    finally:
        await other.close()

    assert [each.number for each in await database.read(read)] == [*range(1, 81)]
