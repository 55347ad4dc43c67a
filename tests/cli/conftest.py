"""Ledgers for the commands: an empty one on each database."""

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.ledger import Ledger
from tests.support.postgres import PostgresServer, start_or_skip

#: quick retries, so that what fails is soon given up
_SETTINGS = {
    "ONCEBOX_RETRY__TRIES": "2",
    "ONCEBOX_RETRY__FIRST_WAIT": "0.01",
    "ONCEBOX_WORKER__POLL": "0.05",
    "ONCEBOX_HTTP__PORT": "0",
    "ONCEBOX_SMTP__PORT": "0",
    "ONCEBOX_MASTER_KEY": base64.b64encode(bytes(32)).decode(),
}


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """One PostgreSQL for the session."""
    with start_or_skip(tmp_path_factory.mktemp("postgres")) as running:
        yield running


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


@pytest.fixture(params=["sqlite", "postgres"])
def ledger(
    request: pytest.FixtureRequest,
    bare: Ledger,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Ledger]:
    """An empty ledger, on each database in turn."""
    if request.param == "sqlite":
        bare.type("migrate")
        yield bare
        return
    running: PostgresServer = request.getfixturevalue("server")
    name = f"cli_{tmp_path.name}".lower().replace("-", "_")[:60]
    monkeypatch.setenv("ONCEBOX_DATABASE_URL", running.create_database(name))
    bare.type("migrate")
    yield bare
    running.drop_database(name)
