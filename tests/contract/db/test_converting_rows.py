"""Migrations that convert rows: in batches, with progress; killed anywhere, they go on."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from oncebox.core import faults
from oncebox.db import migrate
from oncebox.db.sqlite import SqliteSession
from oncebox.errors import DiskFull, SchemaOutdated, SchemaTooNew, StoreFailed
from oncebox.ledger.deliveries import inspections
from oncebox.model.deliveries.delivery import ArrivalKind
from tests.support import old_schema
from tests.support.clerk import SOURCE, START, TENANT, Clerk
from tests.support.databases import Place, empty_sqlite

BATCH = 6
_MIGRATE = f"""
import asyncio, sys
from oncebox.db import migrate, startup
migrate.BATCH_ROWS = {BATCH}
async def main():
    database = startup.connect(sys.argv[1])
    await migrate.migrate(database)
    await database.close()
asyncio.run(main())
"""


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(migrate, "BATCH_ROWS", BATCH)
    yield
    faults.disarm()


@pytest.fixture
def old(kind: str, clerk: Clerk, request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A database of the version before, with the same deliveries as the clerk's."""
    if kind == "sqlite":
        (tmp_path / "old").mkdir()
        place = empty_sqlite(tmp_path / "old")
    else:
        place = request.getfixturevalue("empty_place")
    old_schema.every_kind(clerk)
    old_schema.create(place)
    old_schema.copy(clerk, place)
    return place


async def _migrate(place: Place) -> list[tuple[int, int]]:
    """Migrate; return the progress that was reported."""
    seen: list[tuple[int, int]] = []
    database = place.open()
    try:
        await migrate.migrate(database, lambda done, total: seen.append((done, total)))
    finally:
        await database.close()
    return seen


async def _start(place: Place, environment: dict[str, str]) -> Process:
    """Migrate in another process."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", _MIGRATE, place.url, env=os.environ | environment
    )


async def _interrupted(place: Place, batches: int) -> None:
    """Migrate until so many batches are committed."""
    faults.arm(f"migrate.batch-committed:{batches}:raise")
    with pytest.raises(faults.InjectedFault):
        await _migrate(place)
    faults.disarm()


async def test_every_row_is_as_before_and_has_the_digests_of_a_new_one(
    clerk: Clerk, old: Place
) -> None:
    seen = await _migrate(old)

    rows = old_schema.deliveries(old)
    assert rows == old_schema.deliveries(clerk.place)
    assert len(rows) > 3 * BATCH
    assert seen == [(done, len(rows)) for done in range(BATCH, len(rows), BATCH)]


async def test_what_was_stored_before_is_recognised_after(clerk: Clerk, old: Place) -> None:
    await _migrate(old)
    after = Clerk(old)
    known = {each.key: each.id for each in after.all() if not each.variant}

    def kind(key: str, body: bytes, *, unsigned: bool = False) -> ArrivalKind:
        return after.accept_one(key, body, unsigned=unsigned).arrival

    assert after.accept_one("plain-1", b"1").id == known["plain-1"]
    assert kind("plain-2", b"changed") is ArrivalKind.CONFLICT
    assert kind("unsigned-9", b"one body", unsigned=True) is ArrivalKind.SUSPICIOUS_REPLAY
    assert kind("new", b"new", unsigned=True) is ArrivalKind.NEW
    assert len(after.run(inspections.find, TENANT, "plain-0")) == 2
    after.now += 3_600_000
    assert {each.key for each in after.claim(source="@mail")} == {f"ibx_1:{n}" for n in range(3)}
    assert after.claim()
    after.close()


@pytest.mark.parametrize(
    "point",
    [
        *(f"upkeep.migrating:{nth}" for nth in (1, 2, 3, 4)),
        *(f"migrate.batch-committed:{nth}" for nth in (1, 2, 3)),
    ],
)
async def test_a_migration_that_was_killed_goes_on(clerk: Clerk, old: Place, point: str) -> None:
    killed = await _start(old, {"ONCEBOX_FAULTS": f"{point}:kill"})
    assert await killed.wait() == -signal.SIGKILL
    database = old.open()
    with pytest.raises(SchemaOutdated):
        await migrate.check_schema(database)
    await database.close()

    await _migrate(old)

    assert old_schema.deliveries(old) == old_schema.deliveries(clerk.place)


async def test_a_half_converted_database_is_refused_by_the_version_before(
    old: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _interrupted(old, 1)
    known = old_schema.old_migrations(old.kind)
    monkeypatch.setattr(migrate, "shipped_migrations", lambda _kind: known)
    database = old.open()

    with pytest.raises(SchemaTooNew):
        await migrate.check_schema(database)

    await database.close()


def _store_as_before(place: Place, key: str) -> None:
    """Store a delivery as a process of the version before does, which is still running."""
    values: dict[str, object] = dict.fromkeys(old_schema.COLUMNS, 0)
    texts = dict.fromkeys(("variant", "type", "verdict"), "") | {"road": "api", "state": "done"}
    nothing = dict.fromkeys((
        "lane", "lane_position", "due_at", "worker", "claimed_at", "give_up_at", "not_before",
        "hastened_at", "policy", "hold_reason", "held_at", "outcome", "last_error", "ended_at",
        "replay_of", "secret_id", "sequence", "gap_until", "after_type", "after_until",
        "waits_for", "purged_at", "seen_at",
    ))  # fmt: skip
    # An id before all others: its batch is over.
    named = {"id": f"dlv_0000{key}", "payload_id": key, "key": key, "source": SOURCE}
    row = values | texts | nothing | named | {"tenant": TENANT, "fingerprint": b"x"}
    session = place.session()
    try:
        session.run(
            lambda tx: old_schema.insert(
                tx, place.kind, old_schema.TABLE, list(row), [tuple(row.values())]
            )
        )
    finally:
        session.close()


async def test_a_process_of_the_version_before_loses_nothing_while_rows_are_converted(
    old: Place,
) -> None:
    """On SQLite its table is gone; on PostgreSQL it goes on. Either way no answer is wrong."""
    await _interrupted(old, 2)
    if old.kind == "sqlite":
        with pytest.raises(StoreFailed):
            _store_as_before(old, "late")
    else:
        _store_as_before(old, "late")

    await _migrate(old)

    after = Clerk(old)
    answer = after.accept_one("late", b"x")
    after.close()
    assert answer.arrival is (ArrivalKind.NEW if old.kind == "sqlite" else ArrivalKind.CONFLICT)


async def test_a_process_of_the_version_before_cannot_store_without_digests(old: Place) -> None:
    """Its error asks the sender to come again; a refused row would not."""
    await _migrate(old)
    count = len(old_schema.deliveries(old))

    with pytest.raises(StoreFailed):
        _store_as_before(old, "late")

    assert len(old_schema.deliveries(old)) == count


async def test_two_processes_may_convert_at_the_same_time(clerk: Clerk, old: Place) -> None:
    both = [await _start(old, {}) for _ in range(2)]

    assert [await each.wait() for each in both] == [0, 0]
    assert old_schema.deliveries(old) == old_schema.deliveries(clerk.place)


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_a_full_disk_stops_the_conversion_and_room_lets_it_go_on(
    clerk: Clerk, old: Place
) -> None:
    room = apsw.Connection(str(old.path)).pragma("page_count")
    session = SqliteSession(old.path, writable=True)
    session.connection.pragma("max_page_count", room + 4)
    with pytest.raises(DiskFull):
        _apply_all(session)
    session.close()

    await _migrate(old)

    assert old_schema.deliveries(old) == old_schema.deliveries(clerk.place)


def _apply_all(session: SqliteSession) -> None:
    while session.run(lambda tx: migrate._apply_pending(tx, "sqlite", START)).rows is not None:
        pass


async def test_an_empty_database_is_migrated_in_one_transaction(empty_place: Place) -> None:
    assert await _migrate(empty_place) == []
