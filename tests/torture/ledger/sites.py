"""Where the torture's databases are: files in a folder, or databases on a server of our own."""

import atexit
import contextlib
import functools
import itertools
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from types import MappingProxyType
from typing import Protocol

import psycopg
from psycopg import sql

from tests.support.postgres import PostgresServer
from tests.torture.processes import Children

_TEMPLATE = "template_ledger"
_TABLES = (
    *("oncebox_deliveries", "oncebox_payloads", "oncebox_lanes", "oncebox_tries"),
    *("oncebox_effects", "oncebox_sightings", "torture_marks"),
    *("oncebox_events", "oncebox_streams", "oncebox_duties"),
    *("oncebox_attempts", "oncebox_actions", "oncebox_resends", "oncebox_audit"),
    *("oncebox_sends", "oncebox_send_bodies", "oncebox_send_recipients", "oncebox_send_tries"),
    *(
        "oncebox_batches",
        "oncebox_batch_sends",
        "oncebox_transports",
        "oncebox_signing_domains",
        "oncebox_suppressions",
    ),
)
#: Small enough for many servers on one machine.
SMALL: Mapping[str, str] = MappingProxyType({"shared_buffers": "32MB"})
#: Where only our own processes die, the kernel keeps what they wrote: nothing need be flushed.
UNFLUSHED = {**SMALL, "fsync": "off", "full_page_writes": "off"}


class Site(Protocol):
    """Lends databases."""

    def fresh(self, *, migrated: bool = True) -> str:
        """Make a database and return its URL."""

    def drop(self, url: str) -> None:
        """Take a database back."""


@contextmanager
def open_site(database: str, folder: Path) -> Iterator[Site]:
    """Open the place for databases of one kind, for as long as a scenario of kills lasts."""
    yield _SqliteSite(folder) if database == "sqlite" else _postgres_site()


@functools.cache
def _postgres_site() -> "_PostgresSite":
    """Start one server for all scenarios of this process; it ends with the process."""
    folder = Path(tempfile.mkdtemp(prefix="torture-postgres-"))
    folder.chmod(0o755)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return _PostgresSite(PostgresServer.start(folder, settings=UNFLUSHED), folder)


class _SqliteSite:
    """Each database is a folder with a file; it migrates itself."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count()

    def fresh(self, *, migrated: bool = True) -> str:
        place = self._folder / f"database-{next(self._numbers)}"
        place.mkdir()
        return f"sqlite:///{(place / 'oncebox.db').relative_to('/')}"

    def drop(self, url: str) -> None:
        shutil.rmtree(Path(url.removeprefix("sqlite://")).parent)


class _PostgresSite:
    """Each database is a copy of one that was migrated beforehand; emptied, it serves again."""

    def __init__(self, server: PostgresServer, folder: Path) -> None:
        self._server = server
        self._numbers = itertools.count()
        self._free: SimpleQueue[str] = SimpleQueue()
        url = server.create_database(_TEMPLATE)
        nothing = str(folder / "nothing")
        with Children(folder) as children:
            agent = children.python(
                "tests.torture.ledger.agent", url, nothing, nothing, "--work=no"
            )
            if agent.wait(timeout=60) != 0:
                raise RuntimeError(agent.text())

    def fresh(self, *, migrated: bool = True) -> str:
        if migrated:
            with contextlib.suppress(Empty):
                return self._free.get_nowait()
        template = _TEMPLATE if migrated else None
        return self._server.create_database(f"torture{next(self._numbers)}", template)

    def drop(self, url: str) -> None:
        with psycopg.connect(url) as connection:
            for table in _TABLES:
                connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)))
        self._free.put(url)
