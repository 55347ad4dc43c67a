"""Ledgers for the commands: an empty one on each database."""

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.ledger import Ledger
from tests.support import databases
from tests.support.databases import Place
from tests.support.postgres import Postgres, PostgresServer

#: quick retries, so that what fails is soon given up
_SETTINGS = {
    "ONCEBOX_RETRY__TRIES": "2",
    "ONCEBOX_RETRY__FIRST_WAIT": "0.01",
    "ONCEBOX_WORKER__POLL": "0.05",
    "ONCEBOX_HTTP__PORT": "0",
    "ONCEBOX_SMTP__PORT": "0",
    "ONCEBOX_MASTER_KEY": base64.b64encode(bytes(32)).decode(),
}


@pytest.fixture
def bare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Ledger:
    """A data folder with nothing in it yet."""
    monkeypatch.chdir(tmp_path)
    for name, value in _SETTINGS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ONCEBOX_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("ONCEBOX_DATABASE_URL", raising=False)
    return Ledger(capsys, monkeypatch)


@pytest.fixture(scope="session")
def careful() -> Iterator[Postgres]:
    """A server as the doctor wants it: it flushes."""
    with PostgresServer.start() as server:
        yield server


@pytest.fixture
def sound_ledger(
    kind: str, request: pytest.FixtureRequest, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> Ledger:
    """An empty ledger in which the doctor finds nothing wrong, on each database in turn."""
    if kind == "postgres":
        place = databases.fresh_postgres(request.getfixturevalue("careful"))
        monkeypatch.setenv("ONCEBOX_DATABASE_URL", place.url)
    return ledger


@pytest.fixture
def ledger(
    kind: str, request: pytest.FixtureRequest, bare: Ledger, monkeypatch: pytest.MonkeyPatch
) -> Ledger:
    """An empty ledger, on each database in turn."""
    if kind == "sqlite":
        Path("data").mkdir(mode=0o700)
        databases.fresh_sqlite(Path("data").resolve())
    else:
        place: Place = request.getfixturevalue("place")
        monkeypatch.setenv("ONCEBOX_DATABASE_URL", place.url)
    return bare
