"""A Redis of our own, kept as safe as it can be, and the four words the published pattern uses."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from tests.support.debian import program
from tests.support.ports import free_port
from tests.torture.processes import until

_READY_WITHIN = 10.0


class RedisSilent(Exception):
    """Redis was started and does not answer."""


class Redis:
    """One connection."""

    def __init__(self, port: int) -> None:
        """Connect."""
        self._line = socket.create_connection(("127.0.0.1", port), timeout=10)
        self._words = self._line.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._words.close()
        self._line.close()

    def ask(self, *words: str) -> str | None:
        """Say a command; return its answer, None for nil."""
        said = b"".join(b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in words)
        self._line.sendall(b"*%d\r\n%s" % (len(words), said))
        first = self._words.readline()
        if not first:
            raise ConnectionResetError
        if first.startswith(b"$-1"):
            return None
        if first.startswith(b"$"):
            return self._words.readline().decode().strip()
        return first[1:].decode().strip()


@contextmanager
def redis_server(folder: Path) -> Iterator[int]:
    """Run a server that flushes every write, for as long as the block lasts.

    Raises: ProgramMissing, RedisSilent.
    """
    redis, port = program("redis-server", "redis-server"), free_port()
    words = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""]
    with (folder / "redis.log").open("wb") as log:
        server = subprocess.Popen(
            [
                redis,
                *words,
                "--appendonly",
                "yes",
                "--appendfsync",
                "always",
            ],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        _await(port)
        yield port
    finally:
        server.terminate()
        server.wait(10)


def _await(port: int) -> None:
    for _ in until(_READY_WITHIN):
        with suppress(OSError), Redis(port) as redis:
            if redis.ask("PING") == "PONG":
                return
    raise RedisSilent("redis-server does not answer")
