"""`oncebox doctor` finds what is wrong and says what helps; `oncebox migrate` mends the schema."""

import asyncio
import base64
from pathlib import Path

import pytest

from oncebox.core import disk_space
from oncebox.core.disk_space import Disk
from oncebox.db import migrate, startup
from oncebox.errors import Permanent
from oncebox.model.deliveries.delivery import Delivery
from oncebox.settings_loading import load_settings
from oncebox.workers.deliveries.once import Once
from tests.cli.ledger import Ledger
from tests.support.postgres import Postgres


async def refuse(delivery: Delivery, once: Once) -> None:
    raise Permanent("no")


def findings(ledger: Ledger, *options: str) -> dict[str, tuple[str, str, str]]:
    records = ledger.type("doctor", "--json", *options).records
    return {each["check"]: (each["status"], each["message"], each["remedy"]) for each in records}


def applied(kind: str) -> list[list[str]]:
    """Return the lines of a first migration."""
    return [[f"applied {each.name}"] for each in migrate.shipped_migrations(kind)]


def test_a_healthy_ledger_passes_every_check(sound_ledger: Ledger) -> None:
    answer = sound_ledger.type("doctor")

    assert answer.code == 0
    assert {row[1] for row in answer.rows} == {"ok"}
    assert {"database", "schema", "clock", "master key"} <= {row[0] for row in answer.rows}


def test_quiet_says_only_what_is_not_well(sound_ledger: Ledger) -> None:
    assert sound_ledger.type("doctor", "-q").out == ""


def test_durability_is_looked_at(sound_ledger: Ledger) -> None:
    found = findings(sound_ledger)

    sqlite = {"sqlite version", "write-ahead log", "sync", "file system", "disk space", "inodes"}
    postgres = {"synchronous_commit", "fsync", "full_page_writes"}
    assert sqlite <= set(found) or postgres <= set(found)


def test_no_database_yet_is_a_warning_and_makes_none(bare: Ledger) -> None:
    answer = bare.type("doctor", "--json")

    assert answer.code == 0
    assert answer.records[-1]["status"] == "warn"
    assert not Path("data").exists()


def test_work_that_nobody_does_is_told_by_source(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger.accept("k1")
    assert findings(ledger)["waiting work"][0] == "ok"

    _run("UPDATE oncebox_deliveries SET due_at = due_at - 3600000")
    status, message, remedy = findings(ledger)["waiting work"]
    assert status == "warn"
    assert "1 of source shop overdue by up to 60 min" in message
    assert "oncebox worker" in remedy


def test_the_dead_and_the_held_are_counted(ledger: Ledger) -> None:
    ledger.accept("k1")
    ledger.accept("k2")
    ledger.work(refuse)
    ledger.accept("k1", body="another")
    found = findings(ledger)

    assert found["dead deliveries"][:2] == ("warn", "2")
    assert found["held deliveries"][:2] == ("warn", "1")


def test_a_wrong_master_key_fails(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.accept("k1")
    monkeypatch.setenv("ONCEBOX_MASTER_KEY", base64.b64encode(b"x" * 32).decode())
    answer = ledger.type("doctor", "--json")

    assert answer.code == 1
    assert answer.records[-1]["check"] == "master key"
    assert answer.records[-1]["message"] == "master_key_wrong"


def test_a_lost_key_file_fails_and_no_new_one_is_made(
    bare: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ONCEBOX_MASTER_KEY")
    bare.accept("k1")
    Path("data/oncebox.key").unlink()

    assert findings(bare)["master key"][0] == "fail"
    assert not Path("data/oncebox.key").exists()


def test_a_full_disk_fails_and_a_filling_one_warns(
    bare: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare.type("migrate")
    for mebibytes, status in ((2000, "ok"), (800, "warn"), (500, "fail"), (50, "fail")):
        disk = Disk(free=mebibytes * 1024 * 1024, size=100 * 1024**3)
        monkeypatch.setattr(disk_space, "measure", lambda _path, disk=disk: disk)
        assert findings(bare)["disk space"][0] == status


def test_a_server_that_is_not_there_fails(bare: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEBOX_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    answer = bare.type("doctor", "--json")

    assert answer.code == 1
    assert answer.records[-1]["message"] == "database_unreachable"


def test_an_empty_server_needs_to_be_told_to_migrate(
    bare: Ledger, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCEBOX_DATABASE_URL", postgres.create_database("empty"))

    assert findings(bare)["schema"][0] == "fail"
    refused = bare.type("delivery", "list", "--json")
    assert (refused.code, refused.error["code"]) == (1, "schema_outdated")
    assert bare.type("migrate").rows == applied("postgres")
    assert findings(bare)["schema"][0] == "ok"
    postgres.drop_database("empty")


def test_a_source_that_takes_no_requests_is_told_with_what_helps(sound_ledger: Ledger) -> None:
    assert findings(sound_ledger)["sources"] == ("ok", "0 without trouble", "")
    sound_ledger.type("source", "add", "shop", "--scheme", "stripe", "--secret", "env:NOT_SET")

    status, message, remedy = findings(sound_ledger)["source"]
    assert (status, message) == ("warn", "shop is unready")
    assert "NOT_SET" in remedy
    assert sound_ledger.type("doctor").code == 0


def test_a_mailbox_that_is_not_read_is_told_with_what_helps(sound_ledger: Ledger) -> None:
    assert findings(sound_ledger)["mailboxes"] == ("ok", "0 without trouble", "")
    words = ("mailbox", "add", "work", "imaps://ann@127.0.0.1:1", "--password", "-")
    sound_ledger.type(*words, stdin=b"s3cret")
    assert findings(sound_ledger)["mailboxes"] == ("ok", "1 without trouble", "")

    failed = "UPDATE oncebox_mailboxes SET failures = 3, failure = 'certificate_refused'"
    _run(failed)
    failing = findings(sound_ledger)["mailbox"]
    _run(f"{failed}, paused = 'certificate_refused', due_at = NULL")
    paused = findings(sound_ledger)["mailbox"]
    sound_ledger.type("mailbox", "pause", "work")
    by_operator = findings(sound_ledger)["mailbox"]

    assert failing[:2] == ("warn", "work is failing: certificate_refused")
    assert paused[:2] == ("warn", "work is paused: certificate_refused")
    assert "--ca FILE" in paused[2]
    assert paused[2].endswith("then: oncebox mailbox resume work")
    assert by_operator == (
        "warn", "work is paused by an operator", "oncebox mailbox resume work"
    )  # fmt: skip
    sound_ledger.type("mailbox", "resume", "work")
    assert findings(sound_ledger)["mailboxes"][0] == "ok"


def test_a_source_for_submitted_events_needs_no_secret(sound_ledger: Ledger) -> None:
    sound_ledger.type("source", "add", "shop", "--scheme", "standard-webhooks")
    before = findings(sound_ledger)["source"]
    sound_ledger.accept("k1")

    assert before[:2] == ("warn", "shop is unready")
    assert findings(sound_ledger)["source"] == (
        "ok",
        "shop has no secret: it takes submitted events only",
        "",
    )


def test_a_file_from_before_a_migration_is_only_a_warning(bare: Ledger) -> None:
    Path("data").mkdir(mode=0o700)
    Path("data/oncebox.db").touch(mode=0o600)
    answer = bare.type("doctor", "--json")

    assert answer.code == 0
    assert [each["check"] for each in answer.records if each["status"] != "ok"] == ["schema"]


def test_a_careless_server_fails(
    bare: Ledger, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.create_database("careless")
    monkeypatch.setenv("ONCEBOX_DATABASE_URL", url)
    bare.type("migrate")
    monkeypatch.setenv("ONCEBOX_DATABASE_URL", f"{url}?options=-csynchronous_commit%3Doff")

    assert findings(bare)["synchronous_commit"][0] == "fail"
    postgres.drop_database("careless")


def test_migrate_says_what_it_applied_and_when_there_was_nothing(bare: Ledger) -> None:
    assert bare.type("migrate").rows == applied("sqlite")
    assert bare.type("migrate").rows == [["nothing to do"]]
    assert bare.type("migrate", "--json").record == {"applied": []}
    assert bare.type("migrate", "-q").out == ""


def test_a_newer_schema_is_refused(ledger: Ledger) -> None:
    ledger.accept("k1")
    _run("INSERT INTO oncebox_migrations VALUES (9999, 'x', 'x', 1)")

    assert findings(ledger)["schema"][:2] == ("fail", "schema_too_new")
    assert ledger.type("migrate", "--json").error["code"] == "schema_too_new"


def _run(statement: str) -> None:
    """Change the ledger behind everybody's back."""

    async def run() -> None:
        database = startup.connect(load_settings().database)
        await database.write(lambda tx: tx.execute(statement))
        await database.close()

    asyncio.run(run())


def test_strict_makes_warnings_failures(sound_ledger: Ledger) -> None:
    assert sound_ledger.type("doctor", "--strict").code == 0
    sound_ledger.accept("k1")
    sound_ledger.work(refuse)

    assert sound_ledger.type("doctor").code == 0
    answer = sound_ledger.type("doctor", "--strict", "--quiet")
    assert answer.code == 1
    assert [row[:2] for row in answer.rows] == [["dead deliveries", "warn"]]
