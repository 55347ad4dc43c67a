"""One PostgreSQL for a whole run of pytest: its first process starts it, every worker uses it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.databases import FAST
from tests.support.postgres import (
    CLUSTER,
    Postgres,
    PostgresFailed,
    PostgresMissing,
    PostgresServer,
)

#: every worker has a pool or two, and the services that its tests start have theirs
_SETTINGS = {**FAST, "max_connections": "400"}
_ANSWER = "postgres"


def worker() -> str:
    """Return the name of this worker, for databases that no other worker may touch."""
    return os.environ.get("PYTEST_XDIST_WORKER", "alone")


@contextmanager
def of_this_run(config: pytest.Config) -> Iterator[Postgres]:
    """Use the server of the run; a process without workers starts one of its own.

    Raises: PostgresMissing, PostgresFailed.
    """
    given: dict[str, Any] | None = getattr(config, "workerinput", None)
    if given is None:
        with _started() as server:
            yield server
        return
    answer = given.get(_ANSWER, {"failed": "--sqlite-only leaves PostgreSQL out"})
    if "failed" in answer:
        raise PostgresFailed(answer["failed"])
    yield Postgres(answer["port"], Path(answer["data"]))


def share_the_cluster(config: pytest.Config) -> None:
    """Have a worker copy the cluster of the run; it ends without cleaning up, so it makes none."""
    answer: dict[str, Any] = getattr(config, "workerinput", {}).get(_ANSWER, {})
    if "cluster" in answer:
        os.environ[CLUSTER] = answer["cluster"]


class RunServer:
    """Starts the server before the first worker, and ends it after the last."""

    def __init__(self) -> None:
        self._server: PostgresServer | None = None
        self._failed = ""

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker where the server is, or why there is none."""
        if self._server is None and not self._failed:
            try:
                self._server = _started()
            except (PostgresMissing, PostgresFailed) as failure:
                self._failed = str(failure)
        node.workerinput[_ANSWER] = self._answer()

    def _answer(self) -> dict[str, Any]:
        if self._server is None:
            return {"failed": self._failed}
        return {
            "port": self._server.port,
            "data": str(self._server.data),
            "cluster": os.environ[CLUSTER],
        }

    def pytest_unconfigure(self) -> None:
        if self._server is not None:
            self._server.__exit__()


def _started() -> PostgresServer:
    return PostgresServer.start(settings=_SETTINGS)
