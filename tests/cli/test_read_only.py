"""Read-only commands change nothing: no migration, no write lock, no new file."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from oncebox.db import migrate
from oncebox.db.sqlite import SqliteSession
from tests.cli.ledger import Ledger
from tests.support.databases import Place

#: every command that only reads, with arguments that find nothing in an empty database
READ_ONLY = [
    ("delivery", "list"),
    ("delivery", "inspect", "evt_1"),
    ("delivery", "tail", "--once"),
    ("dead", "list"),
    ("quarantine", "list"),
    ("quarantine", "show", "rej_1"),
    ("event", "list"),
    ("event", "follow", "--for", "0"),
    ("source", "list"),
    ("source", "show", "shop"),
    ("source", "secret", "list", "shop"),
    ("inbox", "list"),
    ("inbox", "show", "inb_1"),
    ("message", "list", "inb_1"),
    ("message", "show", "msg_1"),
    ("message", "raw", "msg_1"),
    ("artifact", "list", "inb_1"),
    ("artifact", "show", "art_1"),
    ("action", "list"),
    ("send", "list"),
    ("send", "inspect", "snd_1"),
    ("send", "explain", "snd_1"),
    ("transport", "list"),
    ("transport", "show", "log"),
    ("suppression", "list"),
    ("key", "list"),
    ("tenant", "list"),
    ("domain", "list"),
]
_NOT_FOUND = 3
_OLD_SCHEMA = 7

_HOLD_WRITE_LOCK = """
import sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE oncebox_deliveries SET type = type")
print("locked", flush=True)
sys.stdin.read()
"""

_COMMIT_AND_CRASH = """
import os, sys, apsw
connection = apsw.Connection(sys.argv[1])
connection.execute("PRAGMA wal_autocheckpoint = 0")
connection.execute("UPDATE oncebox_deliveries SET type = 'after'")
os._exit(1)
"""


@pytest.fixture
def database() -> Path:
    """The path of a SQLite database that does not exist yet."""
    return Path("data/oncebox.db")


def _create(path: Path, migrations: int | None) -> None:
    path.parent.mkdir(mode=0o700)
    session = SqliteSession(path, writable=True)
    session.run(lambda tx: migrate._apply_pending(tx, "sqlite", 0, migrations))
    session.close()


@pytest.mark.parametrize("command", READ_ONLY, ids=" ".join)
def test_older_schema_is_left_alone(bare: Ledger, database: Path, command: tuple[str, ...]) -> None:
    _create(database, _OLD_SCHEMA)
    before = database.read_bytes()

    answer = bare.type(*command)

    assert answer.code == 1
    assert "schema_outdated" in answer.err
    assert "oncebox migrate" in answer.err
    assert database.read_bytes() == before
    assert [each.name for each in database.parent.iterdir()] == [database.name]


@pytest.mark.parametrize("command", READ_ONLY, ids=" ".join)
def test_newer_schema_names_the_fix(bare: Ledger, database: Path, command: tuple[str, ...]) -> None:
    _create(database, None)
    connection = apsw.Connection(str(database))
    connection.execute("INSERT INTO oncebox_migrations VALUES (9999, 'future', 'x', 0)")
    connection.close()
    before = database.read_bytes()

    answer = bare.type(*command)

    assert (answer.code, "pip install --upgrade oncebox" in answer.err) == (1, True)
    assert database.read_bytes() == before


@pytest.mark.parametrize("command", READ_ONLY, ids=" ".join)
def test_missing_database_is_not_created(
    bare: Ledger, database: Path, command: tuple[str, ...]
) -> None:
    answer = bare.type(*command)

    assert answer.code == _NOT_FOUND
    assert "there is no database at" in answer.err
    assert "oncebox migrate" in answer.err
    assert not database.parent.exists()


def test_doctor_creates_and_migrates_nothing(bare: Ledger, database: Path) -> None:
    bare.type("doctor")
    assert not database.parent.exists()

    _create(database, _OLD_SCHEMA)
    before = database.read_bytes()
    answer = bare.type("doctor")

    assert "run: oncebox migrate" in answer.out
    assert database.read_bytes() == before
    assert [each.name for each in database.parent.iterdir()] == [database.name]


@pytest.fixture
def write_lock(bare: Ledger, database: Path) -> Iterator[None]:
    """Another process that holds the write lock of the database."""
    assert bare.accept("evt_1")
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD_WRITE_LOCK, str(database)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "locked\n"
    yield
    holder.communicate("")


@pytest.mark.usefixtures("write_lock")
def test_commands_read_while_another_process_holds_the_write_lock(bare: Ledger) -> None:
    for command in READ_ONLY:
        answer = bare.type(*command)
        assert answer.code in {0, _NOT_FOUND}, (command, answer.err)
    assert bare.type("delivery", "list").rows[0][4] == "evt_1"
    assert "evt_1" in bare.type("delivery", "inspect", "evt_1").out
    assert bare.type("doctor").code in {0, 1}


def test_log_of_a_crashed_service_is_read_and_left_alone(bare: Ledger, database: Path) -> None:
    bare.accept("evt_1")
    subprocess.run([sys.executable, "-c", _COMMIT_AND_CRASH, str(database)], check=False)
    log = database.with_name(database.name + "-wal")
    before = database.read_bytes(), log.read_bytes()

    answer = bare.type("delivery", "list")

    assert answer.rows[0][3] == "after"
    assert (database.read_bytes(), log.read_bytes()) == before


def test_file_that_cannot_be_written_can_be_read(bare: Ledger, database: Path) -> None:
    bare.accept("evt_1")
    reader = SqliteSession(database, writable=False)  # as a service would: keeps -shm in place
    reader.run(lambda tx: tx.execute("SELECT count(*) FROM oncebox_deliveries"))
    try:
        with pytest.raises(Exception, match="cannot be written"):
            reader.run(lambda tx: tx.execute("DELETE FROM oncebox_deliveries"))
        assert bare.type("delivery", "list").rows[0][4] == "evt_1"
    finally:
        reader.close()


@pytest.mark.parametrize("kind", ["postgres"])
def test_postgres_connection_of_a_command_is_read_only(ledger: Ledger, place: Place) -> None:
    from oncebox.db.postgres import PostgresReader  # noqa: PLC0415

    reader = PostgresReader(place.url)
    try:
        with pytest.raises(Exception, match="read-only"):
            reader.read(lambda tx: tx.execute("DELETE FROM oncebox_deliveries"))
    finally:
        reader.close()
    assert ledger.type("delivery", "list").code == 0
