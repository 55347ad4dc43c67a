"""The databases a run needs: started when first asked for, stopped at its end."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg

from bench.rows import Database
from tests.support.debian import program
from tests.support.ports import free_port
from tests.support.postgres import PostgresServer

# The same server serves us and the peers. Durability is the default: fsync and
# synchronous_commit are on.
POSTGRES_SETTINGS = {
    "shared_buffers": "512MB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "30min",
}
_READY_WITHIN = 10.0
_PIECE = 1 << 20

Fill = Callable[[str, int], None]


class Stand:
    """Hands out fresh databases, each by its URL."""

    def __init__(self, folder: Path, fill: Fill, stack: ExitStack) -> None:
        self._folder = folder
        self._fill = fill
        self._stack = stack
        self._postgres: PostgresServer | None = None
        self._redis: str | None = None
        self._kept: dict[tuple[Database, int], str] = {}
        self._count = 0

    @contextmanager
    def database(self, kind: Database, stored: int, *, keep: bool) -> Iterator[str]:
        """Lend a database with `stored` of our rows; a kept one is lent again."""
        if keep:
            if (kind, stored) not in self._kept:
                self._kept[kind, stored] = self._filled(kind, stored)
            self._settle(kind)
            self._warm(kind, self._kept[kind, stored])
            yield self._kept[kind, stored]
            return
        url = self._filled(kind, stored)
        self._settle(kind)
        try:
            yield url
        finally:
            self._drop(kind, url)

    def _filled(self, kind: Database, stored: int) -> str:
        url = self._empty(kind)
        if stored:
            self._fill(url, stored)
        return url

    def _empty(self, kind: Database) -> str:
        self._count += 1
        if kind == "sqlite":
            place = self._folder / f"sqlite{self._count}"
            place.mkdir()
            return f"sqlite:///{place}/bench.db"
        if kind == "postgres":
            return self._postgres_server().create_database(f"bench{self._count}")
        return self._redis_url()

    def _drop(self, kind: Database, url: str) -> None:
        if kind == "sqlite":
            shutil.rmtree(_sqlite_folder(url))
        elif kind == "postgres":
            self._postgres_server().drop_database(url.rsplit("/", 1)[1])
        else:
            _redis_command(url, "FLUSHALL")

    def _settle(self, kind: Database) -> None:
        """Bring to disk what the run before left behind, so that this one does not pay for it."""
        if kind == "postgres":
            with psycopg.connect(self._postgres_server().url(), autocommit=True) as connection:
                connection.execute("CHECKPOINT")
        os.sync()

    def _warm(self, kind: Database, url: str) -> None:
        """Read the files once: a database in use is in memory, one just lent again may not be."""
        folder = self._postgres_server().data if kind == "postgres" else _sqlite_folder(url)
        for file in folder.rglob("*"):
            if file.is_file():
                with file.open("rb", buffering=0) as pages:
                    while pages.read(_PIECE):
                        pass

    def _postgres_server(self) -> PostgresServer:
        if self._postgres is None:
            place = self._folder / "postgres"
            place.mkdir(mode=0o755)
            server = PostgresServer.start(place, settings=POSTGRES_SETTINGS)
            self._postgres = self._stack.enter_context(server)
        return self._postgres

    def _redis_url(self) -> str:
        if self._redis is None:
            place = self._folder / "redis"
            place.mkdir()
            self._redis = self._stack.enter_context(_redis_server(place))
        return self._redis


def _sqlite_folder(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///")).parent


@contextmanager
def stand(fill: Fill) -> Iterator[Stand]:
    """Open a stand in a temporary folder (TMPDIR chooses the disk) and clear it away."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="oncebox-bench-")))
        folder.chmod(0o755)
        _describe_machine(folder)
        yield Stand(folder, fill, stack)


def _describe_machine(folder: Path) -> None:
    cores, load = os.cpu_count() or 1, os.getloadavg()[0]
    print(f"{cores} cores, load {load:.1f}, {_syncs(folder):,.0f} syncs/s", flush=True)
    if load > cores / 2:
        print("this machine is busy: do not trust the ratios", flush=True)


def _syncs(folder: Path) -> float:
    """Return how often a second this disk brings an appended page home."""
    file = folder / "syncs"
    ended = time.perf_counter() + 1.0
    count = 0
    with file.open("wb", buffering=0) as page:
        while time.perf_counter() < ended:
            page.write(bytes(4096))
            os.fdatasync(page.fileno())
            count += 1
    file.unlink()
    return count


@contextmanager
def _redis_server(folder: Path) -> Iterator[str]:
    redis, port = program("redis-server", "redis-server"), free_port()
    arguments = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                redis,
                *arguments,
                "--save",
                "",
                "--appendonly",
                "no",
            ],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    url = f"redis://127.0.0.1:{port}/0"
    try:
        _wait_for(url)
        yield url
    finally:
        process.terminate()
        process.wait(10)


def _redis_command(url: str, word: str) -> str:
    host, port = url.removeprefix("redis://").split("/")[0].split(":")
    with socket.create_connection((host, int(port)), timeout=5) as line:
        line.sendall(f"{word}\r\n".encode())
        return line.recv(100).decode()


def _wait_for(url: str) -> None:
    give_up = time.monotonic() + _READY_WITHIN
    while True:
        try:
            if _redis_command(url, "PING").startswith("+PONG"):
                return
        except OSError:
            if time.monotonic() > give_up:
                raise
        time.sleep(0.05)
