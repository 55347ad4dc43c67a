"""Load for webhook servers: raw sockets, 64 connections, requests made before the clock starts.

Both sides are loaded by this file, each in its own environment, so it needs nothing but the
standard library and uvloop.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import itertools
import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

import uvloop

from bench import load
from tests.torture.processes import Children

SECRET = b"bench-secret-of-the-hook"
CONNECTIONS = 64
BODY_BYTES = 1024
WARM_SECONDS = 1.0
SECONDS = 4.0
PATH = "/in/github"
# Clients behind a proxy, all on the same connections.
CLIENTS = 1_000
# More than any server here answers in the time, so that none is made while it runs.
PER_SECOND = 25_000
READY_WITHIN = 60.0
ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)")


def request(key: str, forwarded: str = "") -> bytes:
    """Return one signed request as GitHub would send it, or as a proxy passes it on."""
    body = load.body(key, BODY_BYTES)
    signature = hmac.digest(SECRET, body, hashlib.sha256).hex()
    head = (
        f"POST {PATH} HTTP/1.1\r\nhost: 127.0.0.1\r\nuser-agent: GitHub-Hookshot/bench\r\n"
        f"content-type: application/json\r\nx-github-event: push\r\nx-github-delivery: {key}\r\n"
        f"x-hub-signature-256: sha256={signature}\r\ncontent-length: {len(body)}\r\n"
        f"{forwarded}\r\n"
    )
    return head.encode() + body


class Connection(asyncio.Protocol):
    """Sends a request, waits for the whole answer, sends the next."""

    def __init__(self, requests: Iterator[bytes], pulse: Pulse) -> None:
        self._requests = requests
        self._pulse = pulse
        self._sent = 0.0
        self._buffer = b""
        self.closed = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first."""
        self._transport = cast("asyncio.Transport", transport)
        self._next()

    def data_received(self, data: bytes) -> None:
        """Send the next when an answer is complete."""
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0 or len(self._buffer) < end + 4 + _length(self._buffer[:end]):
            return
        self._pulse.answer(self._buffer, time.perf_counter() - self._sent)
        self._buffer = b""
        self._next()

    def connection_lost(self, _error: Exception | None) -> None:
        """Note that it is over; who is still wanted should not have been let go."""
        if not self._pulse.stopped:
            self._pulse.refused += 1
        if not self.closed.done():
            self.closed.set_result(None)

    def _next(self) -> None:
        if self._pulse.stopped:
            self._transport.close()
            return
        self._sent = time.perf_counter()
        self._transport.write(next(self._requests))


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    return 0


class Pulse:
    """What was answered, and how fast."""

    def __init__(self) -> None:
        self.stopped = False
        self.answered = 0
        self.waits: list[float] = []
        self.refused = 0

    def answer(self, text: bytes, wait: float) -> None:
        """Note one answer."""
        self.answered += 1
        self.waits.append(wait)
        if not text.startswith(b"HTTP/1.1 20"):
            self.refused += 1


async def run(port: int, requests: Iterator[bytes], seconds: float) -> dict[str, float]:
    """Return requests per second, and the milliseconds of the middle and slowest hundredth."""
    pulse = Pulse()
    loop = asyncio.get_running_loop()
    connections = [
        (await loop.create_connection(lambda: Connection(requests, pulse), "127.0.0.1", port))[1]
        for _ in range(CONNECTIONS)
    ]
    await asyncio.sleep(WARM_SECONDS)
    first, began = pulse.answered, time.perf_counter()
    await asyncio.sleep(seconds)
    answered, took = pulse.answered - first, time.perf_counter() - began
    waits = sorted(pulse.waits[first:])
    pulse.stopped = True
    await asyncio.wait([each.closed for each in connections], timeout=10)
    if pulse.refused:
        raise SystemExit(f"{pulse.refused} of {pulse.answered} requests were refused")
    return {
        "rate": answered / took,
        "p50": 1000 * waits[len(waits) // 2],
        "p99": 1000 * waits[len(waits) * 99 // 100],
    }


def distinct(seconds: float, *, proxied: bool = False) -> Iterator[bytes]:
    """Return requests that all differ."""
    keys, forwarded = load.keys(), _forwarded() if proxied else itertools.repeat("")
    made = map(request, keys, forwarded)
    ready = list(itertools.islice(made, int(PER_SECOND * (WARM_SECONDS + seconds))))
    return itertools.chain(ready, made)


def _forwarded() -> Iterator[str]:
    """Return what a proxy adds to the requests of its clients."""
    for number in itertools.cycle(range(CLIENTS)):
        client = f"198.18.{number >> 8}.{number & 255}"
        yield f"x-forwarded-for: {client}\r\nx-forwarded-proto: https\r\n"


def storm() -> Iterator[bytes]:
    """Return the same request for ever."""
    return itertools.repeat(request(next(load.keys())))


def measure(
    server: Sequence[str],
    setting: str,
    *,
    repeat: bool = False,
    proxied: bool = False,
    environment: Mapping[str, str] | None = None,
    seconds: float = SECONDS,
) -> None:
    """Start a server that prints its address, load it and report.

    `repeat` sends one event; `proxied` sends what a proxy passes on.
    """
    requests = storm() if repeat else distinct(seconds, proxied=proxied)
    with (
        tempfile.TemporaryDirectory(prefix="oncebox-bench-") as folder,
        Children(Path(folder)) as children,
    ):
        child = children.start("server", list(server), environment=environment)
        line = child.wait_for("http://127.0.0.1:", timeout=READY_WITHIN)
        found = ADDRESS.search(line)
        assert found is not None, line
        figures = uvloop.run(run(int(found[1]), requests, seconds))
        child.terminate()
        child.wait(timeout=READY_WITHIN)
    rate = figures.pop("rate")
    load.report(rate, setting, **{name: round(value, 2) for name, value in figures.items()})
