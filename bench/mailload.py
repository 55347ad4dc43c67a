"""Load for mail servers: raw sockets, 16 connections kept open, mails made before the clock starts.

All sides are loaded by this file, each in its own environment, so it needs nothing but the
standard library and uvloop. Each command waits for its reply, as most senders do.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

import uvloop

from bench import load
from tests.torture.processes import Children

CONNECTIONS = 16
MAIL_BYTES = 4096
WARM_SECONDS = 1.0
SECONDS = 4.0
DOMAIN = "oncebox.test"
INBOXES = 100
READY_WITHIN = 60.0
# More than any server here takes in the time, so that none is made while it runs.
PER_SECOND = 25_000
#: what a server prints when it is ready, and where it listens behind it
READY = "smtp: "

_LINE = 76
_CHANCE = random.Random(11)
_FILLING = "\r\n".join(
    "".join(_CHANCE.choices("abcdefghijklmnopqrstuvwxyz     ", k=_LINE)) for _ in range(60)
)


def mail(number: int) -> bytes:
    """Return a mail of 4 KB that no other number shares, with the dot behind it."""
    head = (
        f"Message-ID: <{number}.bench@sender.example>\r\nDate: Mon, 16 Nov 2026 10:00:00 +0000\r\n"
        f"From: Shop <shop@sender.example>\r\nTo: {inbox(number)}@{DOMAIN}\r\n"
        f"Subject: Your code\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n"
    )
    return (head + _FILLING)[: MAIL_BYTES - 2].encode() + b"\r\n.\r\n"


def inbox(number: int) -> str:
    """Return the local part that a mail is for."""
    return f"inbox{number % INBOXES}"


class Connection(asyncio.Protocol):
    """Sends mail after mail."""

    def __init__(self, numbers: Iterator[int], mails: Sequence[bytes], pulse: Pulse) -> None:
        self._numbers = numbers
        self._mails = mails
        self._pulse = pulse
        self._buffer = b""
        self._steps: list[tuple[bytes, bytes]] = []
        self._step = 0
        self._sent = 0.0
        self.closed = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the greeting."""
        self._transport = cast("asyncio.Transport", transport)
        self._steps = [(b"220", b"EHLO bench.example\r\n"), (b"250", b"")]

    def data_received(self, data: bytes) -> None:
        """Say the next thing when a reply is complete."""
        self._buffer += data
        if not data.endswith(b"\r\n") or not _is_last(self._buffer):
            return
        expected, answer = self._steps[self._step]
        if not self._buffer.startswith(expected):
            self._pulse.refused.append(self._buffer)
        self._buffer = b""
        self._step += 1
        if answer:
            self._transport.write(answer)
            if self._step == len(self._steps) - 1:
                self._sent = time.perf_counter()
        else:
            self._finish()

    def connection_lost(self, _error: Exception | None) -> None:
        """Note that it is over; who is still wanted should not have been let go."""
        if not self._pulse.stopped:
            self._pulse.refused.append(b"connection lost")
        if not self.closed.done():
            self.closed.set_result(None)

    def _finish(self) -> None:
        """Count the mail that was taken, and begin with the next."""
        if self._sent:
            self._pulse.waits.append(time.perf_counter() - self._sent)
            self._sent = 0.0
        if self._pulse.stopped:
            self._transport.close()
            return
        number = next(self._numbers)
        data = self._mails[number] if number < len(self._mails) else mail(number)
        recipient = f"RCPT TO:<{inbox(number)}@{DOMAIN}>\r\n".encode()
        self._steps = [(b"250", recipient), (b"250", b"DATA\r\n"), (b"354", data), (b"250", b"")]
        self._step = 0
        self._transport.write(b"MAIL FROM:<shop@sender.example>\r\n")


def _is_last(reply: bytes) -> bool:
    """Say whether the last line of a reply has come."""
    return reply[reply.rfind(b"\n", 0, -1) + 4 :][:1] != b"-"


class Pulse:
    """What was taken, and how long the last reply took."""

    def __init__(self) -> None:
        self.stopped = False
        self.waits: list[float] = []
        self.refused: list[bytes] = []


async def run(port: int, mails: Sequence[bytes], seconds: float) -> dict[str, float]:
    """Return mails per second, and the milliseconds from the dot to the 250."""
    pulse, numbers = Pulse(), itertools.count()
    loop = asyncio.get_running_loop()
    connections = [
        (
            await loop.create_connection(
                lambda: Connection(numbers, mails, pulse), "127.0.0.1", port
            )
        )[1]
        for _ in range(CONNECTIONS)
    ]
    await asyncio.sleep(WARM_SECONDS)
    first, began = len(pulse.waits), time.perf_counter()
    await asyncio.sleep(seconds)
    taken, took = len(pulse.waits) - first, time.perf_counter() - began
    waits = sorted(pulse.waits[first:])
    pulse.stopped = True
    await asyncio.wait([each.closed for each in connections], timeout=10)
    if pulse.refused:
        raise SystemExit(f"{len(pulse.refused)} replies were wrong, such as {pulse.refused[0]!r}")
    return {
        "rate": taken / took,
        "p50": 1000 * waits[len(waits) // 2],
        "p99": 1000 * waits[len(waits) * 99 // 100],
    }


def measure(
    server: Sequence[str],
    setting: str,
    *,
    environment: Mapping[str, str] | None = None,
    seconds: float = SECONDS,
) -> None:
    """Start a server that prints where it listens, load it and report."""
    mails = made(seconds)
    with (
        tempfile.TemporaryDirectory(prefix="oncebox-bench-") as folder,
        Children(Path(folder)) as children,
    ):
        child = children.start("server", list(server), environment=environment)
        line = child.wait_for(READY, timeout=READY_WITHIN)
        port = int(line.rpartition(":")[2])
        report(port, child.pid, setting, mails, seconds)
        child.terminate()
        child.wait(timeout=READY_WITHIN)


def made(seconds: float) -> list[bytes]:
    """Return mails that all differ, enough for one run."""
    return [mail(number) for number in range(int(PER_SECOND * (WARM_SECONDS + seconds)))]


def report(port: int, pid: int, setting: str, mails: Sequence[bytes], seconds: float) -> None:
    """Load what listens on a port, and tell how it went and how large it has become."""
    figures = uvloop.run(run(port, mails, seconds))
    rate = figures.pop("rate")
    figures["mib"] = resident(pid)
    load.report(rate, setting, **{name: round(value, 2) for name, value in figures.items()})


def resident(pid: int) -> float:
    """Return the MiB in memory of a process and all that descend from it."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(path.parent.name))
    family, found = [pid], 0.0
    while family:
        one = family.pop()
        family += parents.get(one, [])
        found += _own_pages(one)
    return found


def _own_pages(pid: int) -> float:
    """Return MiB, those shared by several processes counted in parts."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:")), 0.0)
