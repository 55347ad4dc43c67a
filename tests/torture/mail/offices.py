"""Databases with a few inboxes in them, copied for every trial."""

import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from tests.support.postgres import PostgresServer
from tests.torture.ledger.books import prepare_marks
from tests.torture.ledger.boxes import MASTER_KEY
from tests.torture.ledger.sites import UNFLUSHED
from tests.torture.processes import ROOT

INBOXES = 3
_TEMPLATE = "template_mail"


class Office(Protocol):
    """Lends databases that have the same inboxes."""

    @property
    def inboxes(self) -> Sequence[str]:
        """Their addresses."""

    def fresh(self) -> str:
        """Make a database and return its URL."""

    def drop(self, url: str) -> None:
        """Take a database back."""


@contextmanager
def open_office(database: str, folder: Path) -> Iterator[Office]:
    """Open the place for databases of one kind."""
    if database == "sqlite":
        yield _SqliteOffice(folder)
        return
    place = folder / "postgres"
    place.mkdir(mode=0o755)
    server = PostgresServer.start(place, settings=UNFLUSHED)
    try:
        yield _PostgresOffice(server, folder)
    finally:
        server.stop()


class _SqliteOffice:
    """Each database is a copy of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count()
        (folder / _TEMPLATE).mkdir()
        self.inboxes = _furnish(_url(folder / _TEMPLATE), folder)

    def fresh(self) -> str:
        place = self._folder / f"database-{next(self._numbers)}"
        shutil.copytree(self._folder / _TEMPLATE, place)
        return _url(place)

    def drop(self, url: str) -> None:
        shutil.rmtree(Path(url.removeprefix("sqlite://")).parent)


class _PostgresOffice:
    """Each database is a copy of a template."""

    def __init__(self, server: PostgresServer, folder: Path) -> None:
        self._server = server
        self._numbers = itertools.count()
        self.inboxes = _furnish(server.create_database(_TEMPLATE), folder)

    def fresh(self) -> str:
        return self._server.create_database(f"mail{next(self._numbers)}", _TEMPLATE)

    def drop(self, url: str) -> None:
        self._server.drop_database(url.rpartition("/")[2].partition("?")[0])


def _url(place: Path) -> str:
    return f"sqlite:///{(place / 'oncebox.db').relative_to('/')}"


def run_command(url: str, folder: Path, *words: str) -> str:
    """Run a command on a database as an operator would; return what it printed."""
    environment = {
        "ONCEBOX_DATABASE_URL": url,
        "ONCEBOX_DATA_DIR": str(folder / "operator"),
        "ONCEBOX_MASTER_KEY": MASTER_KEY,
    }
    done = subprocess.run(
        [sys.executable, "-m", "oncebox", *words],
        check=False,
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    if done.returncode:
        raise RuntimeError(f"oncebox {' '.join(words)}: {done.stderr.decode()}")
    return done.stdout.decode()


def _furnish(url: str, folder: Path) -> list[str]:
    """Make the tables and the inboxes as an operator would; return the addresses."""
    run_command(url, folder, "migrate")
    prepare_marks(url)
    made = (
        run_command(url, folder, "inbox", "new", f"--label={number}", "--lifetime=0", "--json")
        for number in range(INBOXES)
    )
    return [str(json.loads(text)["email"]) for text in made]
