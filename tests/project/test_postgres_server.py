"""The test server itself: it starts, survives a crash, stops, and shares the machine."""

import os
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from tests.support.postgres import PostgresMissing, PostgresServer


def _alive(pid: int) -> bool:
    """An ended process that nobody has reaped yet still has a pid, and no command line."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


def test_a_server_starts_survives_a_crash_and_stops(tmp_path: Path) -> None:
    with PostgresServer.start(tmp_path) as server:
        url = server.create_database("first")
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE kept (word text)")
            connection.execute("INSERT INTO kept VALUES ('here')")
        first_pid = server.pid

        server.restart("immediate")

        assert server.pid != first_pid
        assert server.url("first") == url
        copy = server.create_database("second", template="first")
        with psycopg.connect(copy) as connection:
            assert connection.execute("SELECT word FROM kept").fetchall() == [("here",)]
            assert connection.execute("SHOW server_encoding").fetchone() == ("UTF8",)

        last_pid = server.pid
        server.stop()

        assert not _alive(last_pid)
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(url, connect_timeout=2)


def test_two_servers_run_at_the_same_time_each_with_its_settings(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with (
        PostgresServer.start(tmp_path / "a", settings={"work_mem": "1MB"}) as a,
        PostgresServer.start(tmp_path / "b", settings={"work_mem": "2MB"}) as b,
    ):
        for server, expected in ((a, "1MB"), (b, "2MB")):
            with psycopg.connect(server.url()) as connection:
                assert connection.execute("SHOW work_mem").fetchone() == (expected,)


def test_a_server_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    with PostgresServer.start(tmp_path) as server:
        programs = server.programs
    program = (
        "import os, signal, sys; from pathlib import Path;"
        "from tests.support.postgres import PostgresServer;"
        "server = PostgresServer.start(Path(sys.argv[1]));"
        "print(server.pid, server.data, flush=True);"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        check=False,
        env={**os.environ, "ONCEBOX_TEST_PG_BIN": str(programs)},
        stdout=subprocess.PIPE,
        timeout=60,
    )
    pid, data = ended.stdout.decode().split()

    give_up = time.monotonic() + 30
    while (_alive(int(pid)) or Path(data).exists()) and time.monotonic() < give_up:
        time.sleep(0.05)
    assert not _alive(int(pid))
    assert not Path(data).exists()


@pytest.mark.parametrize("ci", ["true", "false"])
def test_a_missing_server_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ci: str
) -> None:
    monkeypatch.setenv("ONCEBOX_TEST_PG_BIN", str(tmp_path))
    monkeypatch.setenv("CI", ci)

    with pytest.raises(PostgresMissing):
        PostgresServer.start(tmp_path)
