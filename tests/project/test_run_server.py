"""The server of a run: one for all workers, gone at the end, and never silently missing."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest

from tests.support.postgres import PostgresFailed
from tests.support.run_server import RunServer, of_this_run


def _worker(server: RunServer) -> pytest.Config:
    """Return the configuration of a worker that was told where the server is."""
    node: Any = SimpleNamespace(workerinput={})
    server.pytest_configure_node(node)
    return cast("pytest.Config", node)


def test_all_workers_use_one_server_which_ends_with_the_run() -> None:
    server = RunServer()
    try:
        workers = [_worker(server) for _ in range(2)]
        with of_this_run(workers[0]) as first, of_this_run(workers[1]) as second:
            assert first.url() == second.url()
            first.create_database("seen")
            with psycopg.connect(second.url("seen")) as connection:
                assert connection.execute("SHOW fsync").fetchone() == ("off",)
    finally:
        server.pytest_unconfigure()

    assert not first.data.exists()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(first.url(), connect_timeout=2)


def test_a_missing_server_fails_the_tests_that_ask_for_it_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCEBOX_TEST_PG_BIN", str(tmp_path))
    server = RunServer()
    worker = _worker(server)
    server.pytest_unconfigure()

    with pytest.raises(PostgresFailed, match="there is no postgres in"), of_this_run(worker):
        pass
