"""Bad input: each gives its stable code and a message with the remedy; nothing is half-written."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import msgspec
import psycopg
import pytest

from oncebox import errors
from oncebox.box import Oncebox
from oncebox.db import sqlite
from oncebox.db.database import Database, Transaction
from oncebox.model.deliveries.delivery import ArrivalKind
from oncebox.settings import Settings
from oncebox.wiring import open_components
from tests.support import databases
from tests.support.databases import Place
from tests.support.postgres import Postgres
from tests.support.program import KEY, SOURCE, Program, settings

OTHER_KEY = "A" * 43 + "="
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """Whatever was refused, nothing of it goes on."""
    yield
    assert [each.name for each in threading.enumerate() if each.name.startswith("oncebox-")] == []


async def _refusal(given: Settings, kind: type[errors.OnceboxError], *remedies: str) -> str:
    """Open with bad settings; return the message of the refusal."""
    with pytest.raises(kind) as caught:
        await open_components(given)
    assert caught.type is kind
    message = str(caught.value)
    for remedy in remedies:
        assert remedy in message
    assert "secret" not in message
    return message


def _at(url: str) -> Settings:
    return Settings(database_url=url, master_key=KEY)


# the URL


@pytest.mark.parametrize(
    "url",
    [
        "mysql://user:secret@host/db",
        "oncebox.db",
        "/tmp/oncebox.db",
        "SQLITE:///x",
        "://",
        "x" * 99,
    ],
)
async def test_an_unknown_url_is_refused_with_the_known_ones(url: str) -> None:
    await _refusal(_at(url), errors.ConfigInvalid, "sqlite:///path/to/file.db", "postgresql://")


@pytest.mark.parametrize("url", ["sqlite:", "sqlite://", "sqlite:///", "sqlite://file.db"])
async def test_a_sqlite_url_without_a_path_is_refused(url: str) -> None:
    await _refusal(_at(url), errors.ConfigInvalid, "three slashes")


async def test_a_server_url_that_cannot_be_read_is_refused() -> None:
    url = "postgresql://user:secret@host/db?nonsense=1"

    await _refusal(_at(url), errors.ConfigInvalid, "postgresql://user@host/name")


@pytest.mark.parametrize("name", ["a b", "100%", "a%20b", "a#b", "a?b", "ü", "a+b", "x;y"])
def test_a_data_folder_of_any_name_is_the_folder_used(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name

    url = Settings(data_dir=str(folder)).database

    assert Place("sqlite", url).path == folder / "oncebox.db"


def test_a_relative_data_folder_is_meant_from_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    url = Settings(data_dir="data").database

    assert Place("sqlite", url).path == tmp_path / "data" / "oncebox.db"


# the server


async def test_a_server_that_cannot_be_reached_is_named_as_such() -> None:
    url = "postgresql://postgres:secret@127.0.0.1:1/oncebox"

    await _refusal(_at(url), errors.DatabaseUnreachable, "check that it runs", "host and port")
    assert errors.DatabaseUnreachable.retry_safe


@pytest.fixture
def locked(postgres: Postgres) -> Iterator[str]:
    """A user who must give a password; returns the address with a place for it."""
    rules = postgres.data / "pg_hba.conf"
    before = rules.read_text()
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS locked")
        connection.execute("CREATE ROLE locked LOGIN PASSWORD 'right'")
        rules.write_text(f"host all locked 127.0.0.1/32 scram-sha-256\n{before}")
        connection.execute("SELECT pg_reload_conf()")
    yield f"postgresql://locked:{{}}@127.0.0.1:{postgres.port}/postgres"
    rules.write_text(before)
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("SELECT pg_reload_conf()")


async def test_a_wrong_password_is_refused_and_never_shown(locked: str) -> None:
    await _refusal(
        _at(locked.format("secret")), errors.DatabaseLoginRefused, "check the database URL"
    )
    await _refusal(_at(locked.format("")), errors.DatabaseLoginRefused)


async def test_an_unknown_user_or_database_is_refused(postgres: Postgres) -> None:
    for url in (
        postgres.url("nowhere"),
        postgres.url().replace("postgres@", "nobody:secret@"),
    ):
        await _refusal(_at(url), errors.DatabaseLoginRefused, "user, password or database name")


async def test_a_server_that_only_reads_is_refused(postgres: Postgres) -> None:
    place = databases.empty_postgres(postgres, "standby")
    with psycopg.connect(place.url, autocommit=True) as connection:
        connection.execute("ALTER DATABASE standby SET default_transaction_read_only = on")

    with pytest.raises(errors.DatabaseReadOnly, match="standby"):
        await open_components(_at(place.url), migrate=True)


async def test_a_server_that_forgets_what_it_acknowledged_is_refused(
    postgres: Postgres,
) -> None:
    place = databases.empty_postgres(postgres, "forgetful")
    await (await open_components(_at(place.url), migrate=True)).close()
    with psycopg.connect(place.url, autocommit=True) as connection:
        connection.execute("ALTER DATABASE forgetful SET synchronous_commit = off")

    await _refusal(_at(place.url), errors.DatabaseUnsafe, "synchronous_commit", "set it to on")


# the schema


async def test_a_server_without_tables_asks_for_a_migration(postgres: Postgres) -> None:
    place = databases.empty_postgres(postgres, "bare")

    await _refusal(_at(place.url), errors.SchemaOutdated, "oncebox migrate")


async def test_a_schema_from_the_future_is_refused(tmp_path: Path) -> None:
    place = databases.fresh_sqlite(tmp_path)
    session = place.session()
    session.run(
        lambda tx: tx.execute("INSERT INTO oncebox_migrations VALUES (9999, 'future', 'x', 0)")
    )
    session.close()

    await _refusal(_at(place.url), errors.SchemaTooNew, "9999", "install the newer version")


# the master key


@pytest.mark.parametrize(
    ("key", "remedy"),
    [
        ("secret", "not base64"),
        ("sécret" * 8, "not base64"),
        ("c2VjcmV0", "6 bytes instead of 32"),
        ("A" * 88, "66 bytes instead of 32"),
    ],
)
async def test_a_master_key_that_is_none_is_refused(tmp_path: Path, key: str, remedy: str) -> None:
    given = Settings(data_dir=str(tmp_path), master_key=key)

    await _refusal(given, errors.MasterKeyMissing, remedy, "openssl rand -base64 32")


async def test_a_master_key_file_that_is_missing_is_refused(tmp_path: Path) -> None:
    given = Settings(data_dir=str(tmp_path), master_key_file=str(tmp_path / "nothing"))

    await _refusal(given, errors.MasterKeyMissing, "ONCEBOX_MASTER_KEY_FILE")


async def test_a_server_wants_its_key_from_outside(postgres: Postgres) -> None:
    await _refusal(
        Settings(database_url=postgres.url()),
        errors.MasterKeyMissing,
        "ONCEBOX_MASTER_KEY",
        "openssl rand -base64 32",
    )


async def test_the_wrong_master_key_is_refused_and_the_right_one_still_fits(
    place: Place,
) -> None:
    right = settings(place)
    await (await open_components(right)).close()

    message = await _refusal(
        msgspec.structs.replace(right, master_key=OTHER_KEY),
        errors.MasterKeyWrong,
        "ONCEBOX_MASTER_KEY",
        "the key it was created with, or last rotated to",
    )

    assert OTHER_KEY not in message
    assert KEY not in message
    await (await open_components(right)).close()


# the file and its folder


async def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    given = Settings(data_dir=str(tmp_path / "file" / "data"))

    await _refusal(given, errors.DatabaseReadOnly, "ONCEBOX_DATA_DIR")
    assert (tmp_path / "file").read_text() == "not a folder"


async def test_a_folder_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "oncebox.db").mkdir()

    await _refusal(_at(f"sqlite:///{tmp_path}/oncebox.db"), errors.DatabaseReadOnly, "check owner")


@pytest.mark.parametrize("size", [1, 100, 5_000, 100_000])
async def test_a_file_that_is_no_database_is_refused_and_left_alone(
    tmp_path: Path, size: int
) -> None:
    path = tmp_path / "oncebox.db"
    path.write_bytes(b"garbage!" * size)

    await _refusal(_at(f"sqlite:///{path}"), errors.DatabaseCorrupt, "restore it from a backup")
    assert path.read_bytes() == b"garbage!" * size


async def test_a_damaged_database_is_refused(tmp_path: Path) -> None:
    place = databases.fresh_sqlite(tmp_path)
    connection = apsw.Connection(str(place.path))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    content = place.path.read_bytes()
    place.path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))

    await _refusal(_at(place.url), errors.DatabaseCorrupt, "restore it from a backup")


def _mounted(option: str, folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a world of its own, in which a folder is mounted differently."""
    script = f'mount -t tmpfs -o size=2m none {folder} && {option} && exec "$@"'
    return subprocess.run(
        [
            *("unshare", "--mount", "--map-root-user", "sh", "-ec", script, "sh"),
            *(sys.executable, "-c", program, str(folder)),
        ],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )


def _can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    trial = ["unshare", "--mount", "--map-root-user", "mount", "-t", "tmpfs", "none", "/mnt"]
    return subprocess.run(trial, check=False, capture_output=True).returncode == 0


_OPEN = """
import asyncio, sys
from oncebox import Oncebox, errors
from oncebox.settings import Settings
async def main():
    box = Oncebox(settings=Settings(data_dir=sys.argv[1], master_key="%s"))
    try:
        await box.open()
        %s
    except errors.OnceboxError as error:
        print(error.code, "|", error)
    finally:
        await box.close()
asyncio.run(main())
"""


@pytest.mark.skipif(not _can_mount(), reason="this account may not mount, not even for itself")
def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    program = _OPEN % (KEY, "pass")

    ended = _mounted(f"mount -o remount,ro {tmp_path}", tmp_path, program)

    assert ended.stdout.startswith("database_read_only |"), ended
    assert "check owner and permissions" in ended.stdout


@pytest.mark.skipif(not _can_mount(), reason="this account may not mount, not even for itself")
def test_a_full_disk_refuses_without_losing_what_it_acknowledged(tmp_path: Path) -> None:
    fill = """
        from oncebox.ledger.deliveries import inspections
        told = []
        refused = 0
        for number in range(400):
            try:
                told.append((await box.accept("shop", key=str(number), body=bytes(20_000))).id)
            except errors.DiskFull as error:
                refused += 1
                message = f"{error.code} {error.retry_safe} {error}"
        try:
            await box.components.ledger.check_ready()
            message = "ready"
        except errors.DiskFull:
            counted = f'{{code="disk_full",path="accept"}} {refused}.0' in box.metrics()
            message += f" ready={False} counted={counted}"
        await box.close()
        await box.open()
        stored = await box.components.database.read(inspections.newest, "default", most=1000)
        print(refused > 0, {each.id for each in stored} == set(told), len(told) > 10, message)
"""

    ended = _mounted("true", tmp_path, _OPEN % (KEY, fill.strip()))

    assert ended.stdout.startswith("True True True disk_full True"), ended
    assert "free some space" in ended.stdout
    assert "ready=False counted=True" in ended.stdout


async def _fill(program: Program) -> None:
    for number in range(500):
        await program.accept(str(number), body=bytes(1000))


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_a_full_database_refuses_the_whole_batch_and_heals_by_itself(
    database: Database, place: Place
) -> None:
    assert isinstance(database, sqlite.SqliteDatabase)
    program = Program(place)
    await program.box.open()
    writer = program.box.components.database
    assert isinstance(writer, sqlite.SqliteDatabase)
    await program.accept("before")

    def limit(tx: Transaction) -> None:
        ((pages,),) = tx.execute("PRAGMA page_count")
        tx.execute(f"PRAGMA max_page_count = {pages}")

    await writer.write_alone(limit)
    with pytest.raises(errors.DiskFull) as caught:
        await _fill(program)

    assert caught.value.retry_safe
    stored = len(program.clerk.all())
    assert (await program.box.accept(SOURCE, key="after")).arrival is ArrivalKind.NEW
    assert len(program.clerk.all()) == stored + 1
    await program.box.close()
    program.clerk.close()


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_a_database_held_by_another_process_is_busy_and_then_free(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_BUSY_TIMEOUT_MS", 50)
    program = Program(place)
    await program.box.open()
    other = apsw.Connection(str(place.path))
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(errors.DatabaseBusy, match="try again") as caught:
        await program.accept()
    assert caught.value.retry_safe

    other.execute("ROLLBACK")
    other.close()
    assert await program.accept()
    await program.box.close()


# what arrives


BAD_ARRIVALS: dict[str, tuple[dict[str, Any], str, str]] = {
    "empty key": ({"key": ""}, "key_invalid", "between 1 and 512"),
    "long key": ({"key": "x" * 513}, "key_invalid", "between 1 and 512"),
    "NUL in key": ({"key": "a\x00b"}, "key_invalid", "send its hash"),
    "newline in key": ({"key": "a\nb"}, "key_invalid", "send its hash"),
    "C1 in key": ({"key": "a\x85b"}, "key_invalid", "send its hash"),
    "separator in key": ({"key": "a\u2028b"}, "key_invalid", "send its hash"),
    "surrogate in key": ({"key": "\ud800"}, "key_invalid", "send its hash"),
    "empty source": ({"source": ""}, "key_invalid", "such as stripe"),
    "odd source": ({"source": "a b"}, "key_invalid", "such as stripe"),
    "newline at the end of a source": ({"source": "a\n"}, "key_invalid", "such as stripe"),
    "long source": ({"source": "a" * 101}, "key_invalid", "such as stripe"),
    "NUL in type": ({"type": "a\x00"}, "key_invalid", "plain text"),
    "long type": ({"type": "x" * 513}, "key_invalid", "between 1 and 512"),
    "empty order key": ({"order_key": ""}, "key_invalid", "order key"),
    "NUL in order key": ({"order_key": "\x00"}, "key_invalid", "order key"),
    "body over the limit": ({"body": bytes(1001)}, "body_too_large", "ONCEBOX_LIMITS__BODY"),
    "NUL in header": ({"headers": [("a", "\x00")]}, "header_invalid", "remove it"),
    "newline in header": ({"headers": [("a", "b\r\nc: d")]}, "header_invalid", "remove it"),
    "odd header name": ({"headers": [("a b", "c")]}, "header_invalid", "remove it"),
    "empty header name": ({"headers": [("", "c")]}, "header_invalid", "remove it"),
    "too many headers": ({"headers": [("a", "b")] * 11}, "header_invalid", "at most 10"),
    "headers too large": ({"headers": [("a", "b" * 1000)]}, "header_invalid", "over 1000 bytes"),
}


@pytest.mark.parametrize("bad", list(BAD_ARRIVALS))
async def test_a_bad_arrival_is_refused_and_nothing_is_stored(place: Place, bad: str) -> None:
    given, code, remedy = BAD_ARRIVALS[bad]
    program = Program(place)
    await program.box.open()

    with pytest.raises(errors.InputRefused) as caught:
        await program.box.accept(**{"source": SOURCE, "key": "k", **given})

    assert caught.value.code == code
    assert remedy in str(caught.value)
    assert not caught.value.retry_safe
    assert program.clerk.all() == []
    assert program.metric("oncebox_refused_total", code=code) == 1
    await program.box.close()
    program.clerk.close()


async def test_what_is_just_within_the_limits_is_accepted(place: Place) -> None:
    program = Program(place)
    await program.box.open()
    headers = [("a", "b" * 989)] + [("h", "")] * 9

    answer = await program.box.accept(
        "a" * 100,
        key="\U0001f4e6" * 512,
        body=bytes(1000),
        headers=headers[:10],
        type="\u00e9" * 512,
        order_key="\U0001f4e6" * 512,
    )

    assert answer.arrival is ArrivalKind.NEW
    await program.box.close()


async def test_without_a_key_the_same_body_is_the_same_arrival(place: Place) -> None:
    program = Program(place)
    await program.box.open()

    first = await program.box.accept(SOURCE, body="one")
    again = await program.box.accept(SOURCE, body=b"one")
    other = await program.box.accept(SOURCE, body="two")

    assert (again.id, again.arrival) == (first.id, ArrivalKind.DUPLICATE)
    assert other.arrival is ArrivalKind.NEW
    assert program.clerk.facts(first.id).key.startswith("sha256:")
    await program.box.close()
    program.clerk.close()


@pytest.mark.parametrize("word", ["always", "", "REARM"])
def test_an_unknown_rule_for_redeliveries_is_refused(place: Place, word: str) -> None:
    with pytest.raises(errors.ConfigInvalid, match="'rearm' or 'count'"):
        Program(place).box.source(SOURCE, redelivery=word)


def test_a_handler_for_a_source_that_is_no_name_is_refused(place: Place) -> None:
    with pytest.raises(errors.KeyInvalid, match="such as stripe"):
        Program(place).box.on("a b")(lambda delivery, once: None)


# the folder made by the first start


@pytest.mark.skipif(os.name != "posix", reason="permissions are a matter of POSIX")
async def test_a_first_start_makes_a_key_only_its_owner_reads(tmp_path: Path) -> None:
    async with Oncebox(settings=Settings(data_dir=str(tmp_path / "new"))):
        pass

    key = tmp_path / "new" / "oncebox.key"
    assert key.stat().st_mode & 0o777 == 0o600
    assert sorted(each.name for each in (tmp_path / "new").iterdir()) == [
        "oncebox.db",
        "oncebox.key",
    ]
