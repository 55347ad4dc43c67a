"""Migrations: numbered, forward-only, checksummed; running them twice does nothing."""

import asyncio
import re
from collections.abc import Callable

import pytest

from oncebox.db import migrate
from oncebox.db.database import Database, Transaction
from oncebox.errors import MigrationChanged, SchemaOutdated, SchemaTooNew, StoreFailed
from tests.support import old_schema
from tests.support.databases import KINDS, Place, Session


def _in_session(place: Place, work: Callable[[Transaction], list[tuple[object, ...]]]) -> None:
    session: Session = place.session()
    session.run(work)
    session.close()


def _schema(place: Place) -> list[tuple[object, ...]]:
    """Return every table, column, index and constraint of a database."""
    statement = (
        "SELECT type, name, sql FROM sqlite_schema ORDER BY type, name"
        if place.kind == "sqlite"
        else """
        SELECT 'column', table_name, column_name, data_type, is_nullable, column_default,
            collation_name
        FROM information_schema.columns WHERE table_schema = 'public'
        UNION ALL
        SELECT 'index', tablename, indexname, indexdef, '', '', ''
        FROM pg_indexes WHERE schemaname = 'public'
        UNION ALL
        SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid),
            '', '', ''
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace
        ORDER BY 1, 2, 3
        """
    )
    session = place.session()
    try:
        return session.run(lambda tx: tx.execute(statement))
    finally:
        session.close()


@pytest.mark.parametrize("kind", KINDS)
def test_migrations_are_numbered_without_a_gap_and_well_named(kind: str) -> None:
    shipped = migrate.shipped_migrations(kind)

    assert [each.number for each in shipped] == list(range(1, len(shipped) + 1))
    assert all(re.fullmatch(r"[0-9]{4}_[a-z_]+", each.name) for each in shipped)


def test_both_databases_have_the_same_migrations() -> None:
    sqlite, postgres = (migrate.shipped_migrations(kind) for kind in KINDS)

    assert [each.name for each in sqlite] == [each.name for each in postgres]


async def test_migrating_twice_does_nothing(empty_place: Place) -> None:
    database = empty_place.open()
    names = [each.name for each in migrate.shipped_migrations(empty_place.kind)]

    assert await migrate.migrate(database) == names
    before = _schema(empty_place)
    assert await migrate.migrate(database) == []
    await migrate.check_schema(database)

    assert _schema(empty_place) == before
    await database.close()


async def test_a_fresh_schema_is_the_sum_of_its_migrations(empty_place: Place) -> None:
    """One step after the other, each in a new process, ends where all at once ends."""
    applied = []
    while True:
        database = empty_place.open()
        names = (await database.write(migrate._apply_pending, empty_place.kind, 0, 1)).names
        await database.close()
        if not names:
            break
        applied += names

    assert applied == [each.name for each in migrate.shipped_migrations(empty_place.kind)]
    assert len(_schema(empty_place)) > 10


async def test_many_processes_may_migrate_at_the_same_time(empty_place: Place) -> None:
    databases = [empty_place.open() for _ in range(4)]

    applied = await asyncio.gather(*(migrate.migrate(each) for each in databases))

    assert sum(map(len, applied)) == len(migrate.shipped_migrations(empty_place.kind))
    for each in databases:
        await each.close()


async def test_an_empty_database_asks_for_its_migration(empty_place: Place) -> None:
    database = empty_place.open()

    with pytest.raises(SchemaOutdated, match="oncebox migrate"):
        await migrate.check_schema(database)

    await database.close()


def _from_the_future(tx: Transaction) -> list[tuple[object, ...]]:
    return tx.execute(
        "INSERT INTO oncebox_migrations (number, name, checksum, applied_at)"
        " VALUES (9999, '9999_future', 'x', 0)"
    )


@pytest.fixture
def migrated(empty_place: Place) -> Place:
    """A migrated database that may be spoilt."""
    session = empty_place.session()
    session.run(lambda tx: migrate._apply_pending(tx, empty_place.kind, 0))
    session.close()
    return empty_place


async def test_a_schema_from_the_future_is_refused(migrated: Place) -> None:
    _in_session(migrated, _from_the_future)
    database = migrated.open()

    with pytest.raises(SchemaTooNew, match="install the newer version"):
        await migrate.migrate(database)
    with pytest.raises(SchemaTooNew):
        await migrate.check_schema(database)

    await database.close()


async def test_a_migration_with_another_text_is_refused(migrated: Place) -> None:
    _in_session(
        migrated, lambda tx: tx.execute("UPDATE oncebox_migrations SET checksum = 'tampered'")
    )
    database = migrated.open()

    with pytest.raises(MigrationChanged, match="reinstall"):
        await migrate.migrate(database)
    with pytest.raises(MigrationChanged):
        await migrate.check_schema(database)

    await database.close()


async def test_a_migration_that_fails_leaves_nothing_behind(
    empty_place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = migrate.shipped_migrations(empty_place.kind)
    number = good[-1].number + 1
    text = "CREATE TABLE half (a INTEGER); SELECT nonsense;"
    broken = migrate.Migration(number, f"{number:04}_broken", text)
    monkeypatch.setattr(migrate, "shipped_migrations", lambda _kind: [*good, broken])
    database: Database = empty_place.open()

    with pytest.raises(StoreFailed):
        await migrate.migrate(database)

    tables = str(_schema(empty_place))
    assert "half" not in tables
    assert "oncebox_deliveries" not in tables
    monkeypatch.undo()
    assert await migrate.migrate(database) == [each.name for each in good]
    await database.close()


def test_artifacts_survive_that_messages_become_a_kind_of_them(empty_place: Place) -> None:
    kind = empty_place.kind
    before = [each for each in migrate.shipped_migrations(kind) if each.number < 17]
    values: dict[str, object] = {
        "id": "art_1", "tenant": "acme", "inbox_id": "inb_1", "attempt_id": "signup",
        "message_id": "msg_1", "sequence": 1, "kind": "code", "mark": b"mark", "sealed": b"sealed",
        "state": "claimed", "rank": 0, "confidence": 900, "tied": 0, "matched": 1,
        "purpose": "login", "sender": "a@b.example", "sender_domain": "b.example",
        "sender_verdict": "pass", "proven": 1, "received_at": 5, "signed_at": 4,
        "warnings": b"[]", "duplicates": 2, "superseded_by": "art_2", "claimed_by": "key_1",
        "claim_mark": b"claim", "claimed_at": 6, "releases": 1, "purged_at": None,
        "attempt_mark": b"attempt", "same_as": None, "lease_until": 7, "lease_mark": b"lease",
        "used_at": 8,
    }  # fmt: skip
    rows: list[object] = []

    def one(**changed: object) -> Callable[[Transaction], None]:
        return lambda tx: old_schema.insert(
            tx, kind, "oncebox_artifacts", list(values), [tuple((values | changed).values())]
        )

    session = empty_place.session()
    session.run(lambda tx: migrate._apply_pending(tx, kind, 0, len(before)))
    session.run(one())
    session.run(lambda tx: migrate._apply_pending(tx, kind, 0))
    columns = ", ".join(values)
    stored = f"SELECT {columns} FROM oncebox_artifacts WHERE id = 'art_1'"  # noqa: S608 - our own
    rows += session.run(lambda tx: tx.execute(stored))
    session.run(one(id="art_3", kind="message", attempt_mark=None))
    session.close()

    assert rows == [tuple(values.values())]
