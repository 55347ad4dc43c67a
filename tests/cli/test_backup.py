"""Backups hold what was acknowledged; restores leave the old or the new, and let nothing leave."""

import base64
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

import apsw
import pytest

from oncebox import errors
from oncebox.cli.commands.database import staging_folder
from oncebox.core import encryption
from oncebox.db import migrate, sqlite_backup
from oncebox.db.sqlite import SqliteDatabase
from oncebox.db.sqlite_backup import Manifest
from oncebox.service import Role
from oncebox.testing.smtp import ScriptedSmtp
from tests.cli.ledger import Ledger
from tests.cli.services import Running, Services
from tests.support.databases import empty_sqlite
from tests.support.running import running
from tests.torture.processes import Children, TooLate, await_halt, until

FEW = 60
BEFORE = ("restore.unpacked", "restore.ready", "restore.kept")


@pytest.fixture
def home(bare: Ledger, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """A folder with a key file of its own, and one delivery."""
    monkeypatch.delenv("ONCEBOX_MASTER_KEY")
    bare.accept("old")
    return bare


@pytest.fixture
def children(tmp_path: Path) -> Iterator[Children]:
    (tmp_path / "output").mkdir()
    with Children(tmp_path / "output") as children:
        yield children


@pytest.fixture
def services(tmp_path: Path, children: Children) -> Services:
    return Services(tmp_path, children)


def saved(ledger: Ledger, *options: str) -> Path:
    path = Path("backup.tar").absolute()
    assert ledger.type("backup", str(path), *options).code == 0
    return path


def keys(ledger: Ledger, *options: str) -> set[str]:
    return {each["key"] for each in ledger.type("delivery", "list", "--json", *options).records}


def killed(point: str, *arguments: str) -> int:
    """Run a command that dies at a point."""
    return subprocess.run(
        [sys.executable, "-m", "oncebox", *arguments],
        check=False,
        capture_output=True,
        timeout=60,
        env={**os.environ, "ONCEBOX_FAULTS": f"{point}:1:kill"},
    ).returncode


# Backups


def test_a_backup_under_load_holds_all_that_was_acknowledged_before_it_began(
    services: Services, tmp_path: Path
) -> None:
    service = services.serve()
    with _Load(service) as load:
        load.wait_for(FEW)
        before = set(load.acknowledged)
        done = services.start_command("backup", str(tmp_path / "one.tar"), "--json")
        assert done.wait(timeout=60) == 0
        during = len(load.acknowledged)
        load.wait_for(during + 10)  # nobody was held up for good
    refused = services.start_command("restore", str(tmp_path / "one.tar"), "--force")

    found = _sends(tmp_path / "one.tar", tmp_path)
    assert before <= found
    assert found <= set(load.acknowledged)
    assert (refused.wait(), "stop every service" in refused.text()) == (4, True)


class _Load:
    """Clients that ask for mail as fast as they are answered."""

    def __init__(self, service: Running) -> None:
        self.acknowledged: list[str] = []
        self._stopped = threading.Event()
        self._service = service
        self._threads = [threading.Thread(target=self._run, args=(each,)) for each in range(3)]

    def __enter__(self) -> Self:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stopped.set()
        for each in self._threads:
            each.join()

    def wait_for(self, many: int) -> None:
        for _ in until(60.0):
            if len(self.acknowledged) >= many:
                return

    def _run(self, number: int) -> None:
        mail = {"sender": "a@example.com", "to": "b@example.com", "text": "x" * 2000}
        with self._service.client() as client:
            for count in range(100_000):
                if self._stopped.is_set():
                    return
                key = {"Idempotency-Key": f'"{number}-{count}"'}
                answer = client.post("/v1/sends", json=mail, headers=key).raise_for_status()
                self.acknowledged.append(answer.json()["id"])


def _sends(backup: Path, folder: Path) -> set[str]:
    """Return the sends in a backup, by another SQLite than ours."""
    with tarfile.open(backup) as packed:
        packed.extract("oncebox.db", folder, filter="data")
    opened = sqlite3.connect(folder / "oncebox.db")
    try:
        assert opened.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return {id_ for (id_,) in opened.execute("SELECT id FROM oncebox_sends")}
    finally:
        opened.close()


def test_a_backup_is_one_private_file_that_says_what_is_in_it(home: Ledger) -> None:
    Path("data/templates").mkdir()
    Path("data/templates/hello.txt").write_text("Hello")
    told = home.type("backup", ".", "--json").record
    path = Path(told["file"])

    assert path.parent == Path.cwd()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert told["files"] == ["oncebox.db", "templates/hello.txt"]
    assert told["master_key_id"] == encryption.master_key_from_file(Path("data/oncebox.key")).id
    assert told["size"] == path.stat().st_size
    assert sorted(each.name for each in Path.cwd().iterdir()) == ["data", path.name]


def test_a_backup_replaces_nothing_unless_told(home: Ledger) -> None:
    saved(home)
    again = home.type("backup", "backup.tar", "--json")
    home.accept("newer")

    assert (again.code, again.error["code"]) == (4, "state_conflict")
    saved(home, "--force")
    assert home.type("restore", "backup.tar", "--force").code == 0
    assert keys(home) == {"old", "newer"}


@pytest.mark.parametrize("point", ["backup.copied", "backup.packed"])
def test_a_killed_backup_leaves_no_half_file_and_harms_no_whole_one(
    home: Ledger, point: str
) -> None:
    whole = saved(home).read_bytes()
    name = "new.tar" if point == "backup.copied" else "backup.tar"

    assert killed(point, "backup", name, "--force") == -signal.SIGKILL
    assert not Path("new.tar").exists()
    assert Path("backup.tar").read_bytes() == whole
    assert home.type("backup", name, "--force").code == 0
    assert {each.name for each in Path.cwd().iterdir()} == {"data", "backup.tar", name}


def test_there_must_be_something_to_back_up_and_room_for_it(
    home: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere = home.type("backup", "x.tar", "--data-dir", "elsewhere", "--json")
    unmounted = home.type("backup", "mnt/x.tar", "--json")
    unwritten = home.type("restore", "x.tar", "--force", "--json")
    monkeypatch.setattr(sqlite_backup, "database_size", lambda _path: 1 << 60)
    full = home.type("backup", "x.tar", "--json")

    for answer in (nowhere, unmounted, unwritten):
        assert (answer.code, answer.error["code"]) == (3, "not_found")
    assert (full.code, full.error["code"]) == (1, "disk_full")
    assert {each.name for each in Path.cwd().iterdir()} == {"data"}


# Restores


@pytest.mark.parametrize("point", [*BEFORE, "restore.placed"])
def test_a_killed_restore_leaves_the_old_or_the_new(home: Ledger, point: str) -> None:
    saved(home)
    home.accept("newer")
    _leave_a_log(home)

    assert killed(point, "restore", "backup.tar", "--force") == -signal.SIGKILL
    expected = {"old", "newer", "logged"} if point in BEFORE else {"old"}
    assert keys(home) == expected
    assert home.type("doctor", "-q").code == 0
    assert home.type("restore", "backup.tar", "--force").code == 0
    assert keys(home) == {"old"}
    assert not [each for each in Path("data").iterdir() if "restoring" in each.name]


def _leave_a_log(ledger: Ledger) -> None:
    """Leave a delivery in the write-ahead log, as a service does that is killed."""
    path, log = Path("data/oncebox.db"), Path("data/oncebox.db-wal")
    reader = apsw.Connection(str(path))  # whoever closes the file last would take the log in
    reader.execute("SELECT 1 FROM sqlite_schema").fetchall()
    ledger.accept("logged")
    left = {each: each.read_bytes() for each in (path, log)}
    reader.close()
    for each, content in left.items():
        each.write_bytes(content)
    assert left[log]


def test_after_a_restore_nothing_leaves_until_a_person_says_so(
    bare: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCEBOX_MASTER_KEY", base64.b64encode(bytes(range(32))).decode())
    home, place = bare, empty_sqlite(Path("data").absolute())
    with ScriptedSmtp() as relay, ScriptedSmtp() as other:
        _add(home, "relay", relay)
        _send(home, "before", "relay")
        saved(home)
        with running(place, place.path.parent, Role.ALL):
            _wait_for(relay, 1)
        told = home.type("restore", "backup.tar", "--force", "--json").record
        _add(home, "other", other)
        _send(home, "after", "relay")
        with running(place, place.path.parent, Role.ALL):
            # Mail that leaves by another way shows that somebody is at work.
            for number in range(3):
                _send(home, f"other-{number}", "other")
                _wait_for(other, number + 1)
            assert len(relay.accepted) == 1
            home.type("transport", "resume", "relay")
            _wait_for(relay, 3)
        copies = [each.message_id for each in relay.accepted]

    assert told["paused"] == [{"tenant": "default", "transport": "relay"}]
    # What left before, and was not known any more, is repeated under the same Message-ID.
    assert copies.count(copies[0]) == 2


def _add(ledger: Ledger, name: str, relay: ScriptedSmtp) -> None:
    added = ledger.type(
        "transport", "add", name, "--kind", "smtp", "--host", relay.host,
        "--port", str(relay.port), "--security", "none",
    )  # fmt: skip
    assert added.code == 0


def _send(ledger: Ledger, key: str, way: str) -> None:
    mail = ("--from", "a@example.com", "--to", "b@example.com", "--text", "x")
    assert ledger.type("send", "mail", "--key", key, "--transport", way, *mail).code == 0


def _wait_for(relay: ScriptedSmtp, many: int) -> None:
    for _ in until(30.0):
        if len(relay.accepted) >= many:
            return
    message = f"{many} mails did not come"
    raise TooLate(message)


def test_the_story_says_what_may_happen_twice_and_how_to_go_on(home: Ledger) -> None:
    home.type("transport", "add", "away", "--kind", "smtp", "--host", "smtp.example.com")
    home.type("transport", "add", "still", "--kind", "smtp", "--host", "smtp.example.com")
    home.type("transport", "pause", "still", "--why", "moving")
    saved(home)
    told = home.type("restore", "backup.tar", "--force").rows
    again = [row[1] for row in told if row[0] == "then"]

    assert again == ["oncebox transport resume away"]
    assert ["look", "oncebox send list --state pending"] in told
    assert any(row[0] == "mail" and "would leave again" in row[1] for row in told)
    assert any(row[0] == "deliveries" and "may run again" in row[1] for row in told)
    _who, what, why = home.audit("transport:away")[-1]
    assert (what, why.startswith("restored from a backup of 20")) == ("transport pause", True)
    assert home.audit("transport:still")[-1][2] == "moving"


def test_a_database_that_was_put_back_by_other_means_is_made_safe_too(ledger: Ledger) -> None:
    ledger.type("tenant", "new", "acme")
    for tenant in ("default", "acme"):
        ledger.type(
            "transport", "add", "away", "--kind", "smtp", "--host", "smtp.example.com",
            "--tenant", tenant,
        )  # fmt: skip
    told = ledger.type("restore", "--pause-only").rows
    states = [
        ledger.type("transport", "list", "--tenant", tenant).rows[0][1]
        for tenant in ("default", "acme")
    ]

    assert states == ["paused", "paused"]
    assert [row[1] for row in told if row[0] == "then"] == [
        "oncebox transport resume away --tenant acme", "oncebox transport resume away",
    ]  # fmt: skip
    assert ledger.type("restore").code == 2


def test_a_database_that_is_there_is_replaced_only_when_told_and_kept(home: Ledger) -> None:
    saved(home)
    home.accept("newer")
    refused = home.type("restore", "backup.tar", "--json")
    told = home.type("restore", "backup.tar", "--force", "--json").record

    assert (refused.code, refused.error["code"]) == (4, "state_conflict")
    assert keys(home) == {"old"}
    Path(told["replaced"]).replace("data/oncebox.db")  # the way back
    assert keys(home) == {"old", "newer"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files for others")
def test_what_root_restores_belongs_to_whom_it_belonged(home: Ledger) -> None:
    saved(home, "--with-key")
    other = 65_534
    os.chown("data/oncebox.db", other, other)
    Path("data/oncebox.db").chmod(0o640)
    Path("two").mkdir()
    os.chown("two", other, other)
    home.type("restore", "backup.tar", "--force")
    home.type("restore", "backup.tar", "--data-dir", "two")
    files = {path: path.stat() for path in map(Path, ("data/oncebox.db", "two/oncebox.db"))}

    assert [each.st_uid for each in files.values()] == [other, other]
    assert [stat.S_IMODE(each.st_mode) for each in files.values()] == [0o640, 0o600]
    assert Path("two/oncebox.key").stat().st_uid == other


def test_a_broken_database_can_be_replaced(home: Ledger) -> None:
    saved(home)
    Path("data/oncebox.db").write_bytes(b"broken " * 10_000)

    assert home.type("restore", "backup.tar", "--force").code == 0
    assert keys(home) == {"old"}


def test_another_machine_needs_the_key_from_the_backup_or_from_elsewhere(
    home: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(home)
    without = home.type("restore", "backup.tar", "--data-dir", "two", "--json")
    assert not Path("two").exists()
    saved(home, "--with-key", "--force")
    inside = home.type("restore", "backup.tar", "--data-dir", "two")
    home.accept("x", "--data-dir", "three")
    wrong = home.type("restore", "backup.tar", "--data-dir", "three", "--force", "--json")
    monkeypatch.setenv("ONCEBOX_MASTER_KEY", base64.b64encode(b"x" * 32).decode())
    foreign = home.type("restore", "backup.tar", "--data-dir", "four", "--json")

    assert (without.code, without.error["code"]) == (1, "master_key_missing")
    assert "two/oncebox.key" in without.error["message"]
    assert inside.code == 0
    monkeypatch.delenv("ONCEBOX_MASTER_KEY")
    assert keys(home, "--data-dir", "two") == {"old"}
    assert stat.S_IMODE(Path("two/oncebox.key").stat().st_mode) == 0o600
    for answer in (wrong, foreign):
        assert (answer.code, answer.error["code"]) == (1, "master_key_wrong")
    assert keys(home, "--data-dir", "three") == {"x"}


def test_the_settings_file_comes_along_only_with_the_key(home: Ledger) -> None:
    Path("oncebox.toml").write_text('tenant = "default"\n')
    without = home.type("backup", "one.tar", "--json").record
    home.type("backup", "two.tar", "--with-key")
    told = home.type("restore", "two.tar", "--force").rows
    command = next(row[2] for row in told if row[0] == "settings")

    assert without["files"] == ["oncebox.db"]
    printed = subprocess.run(command.split(), capture_output=True, check=True).stdout
    assert printed == b'tenant = "default"\n'


def test_templates_that_are_not_there_come_back_and_others_stay(home: Ledger) -> None:
    folder = Path("data/templates")
    folder.mkdir()
    (folder / "a.txt").write_text("a")
    (folder / "b.txt").write_text("b")
    saved(home)
    (folder / "a.txt").unlink()
    (folder / "b.txt").write_text("edited")
    told = home.type("restore", "backup.tar", "--force", "--json").record

    assert told["templates"] == ["a.txt"]
    assert [(folder / name).read_text() for name in ("a.txt", "b.txt")] == ["a", "edited"]


def test_a_template_that_cannot_be_written_is_told_when_all_else_is_done(home: Ledger) -> None:
    folder = Path("data/templates")
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text("a")
    saved(home)
    (folder / "a.txt").unlink()
    folder.rmdir()
    folder.touch()  # where no folder can be
    answer = home.type("restore", "backup.tar", "--force", "--json")

    assert (answer.code, answer.record["templates_left"]) == (0, ["a.txt"])


@pytest.mark.parametrize("harm", ["cut", "flipped", "foreign", "sized", "template"])
def test_a_damaged_backup_is_refused_and_changes_nothing(home: Ledger, harm: str) -> None:
    Path("data/templates").mkdir(parents=True)
    Path("data/templates/a.txt").write_text("a template of ours")
    path = saved(home)
    shutil.rmtree("data/templates")
    whole = path.read_bytes()
    middle = len(whole) // 2
    harmed = {
        "cut": whole[:middle],
        "flipped": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
        "foreign": b"no tar at all",
        "sized": _of_size(whole, b"\x80" + b"\x7f" * 11),
        "template": whole.replace(b"a template of ours", b"a template of none"),
    }
    path.write_bytes(harmed[harm])
    home.accept("newer")
    answer = home.type("restore", "backup.tar", "--force", "--json")

    assert (answer.code, answer.error["code"]) == (1, "backup_damaged")
    assert keys(home) == {"old", "newer"}
    assert {each.name for each in Path("data").iterdir()} == {"oncebox.db", "oncebox.key"}


def test_a_backup_from_no_time_at_all_is_refused(home: Ledger) -> None:
    home.accept("old")
    manifest = Manifest(made_at=10**18, version="1", master_key_id="k", schema="0001")
    sqlite_backup.write_archive(Path("backup.tar"), manifest, {}, lambda _bytes: None)
    answer = home.type("restore", "backup.tar", "--force", "--json")

    assert (answer.code, answer.error["code"]) == (1, "backup_damaged")


def _of_size(whole: bytes, size: bytes) -> bytes:
    """Return a tar file whose first file says that it is so large."""
    header = bytearray(whole[:512])
    header[124:136], header[148:156] = size, b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + whole[512:]


def test_an_older_backup_is_brought_to_this_version_and_a_newer_one_refused(
    home: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = migrate.shipped_migrations("sqlite")
    with monkeypatch.context() as patch:
        patch.setattr(migrate, "shipped_migrations", lambda _kind: known[:5])
        home.type("migrate", "--data-dir", "older")
    key = encryption.master_key_from_file(Path("data/oncebox.key"))
    _run("older", "INSERT INTO oncebox_meta VALUES ('master_key_id', ?)", key.id)
    Path("older/oncebox.key").write_bytes(Path("data/oncebox.key").read_bytes())
    home.type("backup", "older.tar", "--data-dir", "older")
    restored = home.type("restore", "older.tar", "--force")
    _run("data", "INSERT INTO oncebox_migrations VALUES (9999, 'x', 'x', 1)")
    home.type("backup", "newer.tar")
    Path("two").mkdir()
    Path("two/oncebox.key").write_bytes(Path("data/oncebox.key").read_bytes())
    refused = home.type("restore", "newer.tar", "--data-dir", "two", "--json")

    assert restored.code == 0
    assert "oncebox migrate" in home.type("delivery", "list", "--data-dir", "older").err
    assert (refused.code, refused.error["code"]) == (1, "schema_too_new")
    assert not Path("two/oncebox.db").exists()


def _run(folder: str, statement: str, *values: str) -> None:
    opened = apsw.Connection(str(Path(folder) / "oncebox.db"))
    opened.execute(statement, values)
    opened.close()


def test_who_opens_the_file_during_a_restore_never_gets_what_was_replaced(
    home: Ledger, children: Children
) -> None:
    backup, path = str(saved(home)), Path("data/oncebox.db").absolute()
    faults = {"ONCEBOX_FAULTS": "restore.kept:1:stop"}
    restoring = children.python("oncebox", "restore", backup, "--force", environment=faults)
    await_halt([restoring.pid], timeout=60)
    outcome: list[Exception] = []

    def open_() -> None:
        try:
            SqliteDatabase(path)
        except errors.OnceboxError as error:
            outcome.append(error)

    opener = threading.Thread(target=open_)
    opener.start()
    for _ in until(30.0):
        if _has_open(path):
            break
    restoring.resume()
    opener.join()

    assert restoring.wait() == 0
    assert [type(each) for each in outcome] == [errors.DatabaseBusy]
    assert keys(home) == {"old"}


def _has_open(path: Path) -> bool:
    """Say whether this process has a file open."""
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            if each.readlink() == path:
                return True
    return False


def test_only_one_works_in_a_folder_at_a_time(home: Ledger) -> None:
    saved(home)
    with staging_folder(Path("data/oncebox.db.restoring").absolute(), 0) as folder:
        (folder / "work").touch()
        answer = home.type("restore", "backup.tar", "--force", "--json")
        assert (folder / "work").exists()

    assert (answer.code, answer.error["code"]) == (4, "state_conflict")


@pytest.mark.parametrize("name", ["oncebox.db", "oncebox.db-wal", "oncebox.key"])
def test_a_backup_never_replaces_what_it_copies(home: Ledger, name: str) -> None:
    answer = home.type("backup", f"data/{name}", "--force", "--json")

    assert (answer.code, answer.error["code"]) == (4, "state_conflict")
    assert keys(home) == {"old"}


@pytest.mark.parametrize("trap", ["link", "foreign"])
def test_a_folder_that_somebody_else_laid_out_is_not_worked_in(home: Ledger, trap: str) -> None:
    """Else a name known before would empty another folder, or show the copy to others."""
    precious = Path("precious")
    precious.mkdir()
    (precious / "file").touch()
    folder = Path(".backup.tar.making")
    if trap == "link":
        folder.symlink_to(precious)
    else:
        if os.geteuid() != 0:
            pytest.skip("only root can give a folder away")
        precious.rename(folder)
        os.chown(folder, 12_345, 12_345)
    answer = home.type("backup", "backup.tar", "--json")

    assert answer.code != 0
    assert (folder / "file").exists()


def test_a_backup_of_postgresql_is_left_to_its_own_tools(
    bare: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCEBOX_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    Path("x.tar").touch()
    backup, restore = (bare.type(verb, "x.tar", "--json") for verb in ("backup", "restore"))

    assert (backup.code, restore.code) == (4, 4)
    assert "pg_dump" in backup.error["message"]
    assert "--pause-only" in restore.error["message"]
