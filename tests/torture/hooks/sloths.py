"""Slow clients: each keeps the server waiting in its own way, and comes back when it is ended.

When every one of them was ended as often as asked, they stay away; once the last of them is
ended too it prints ``all ended`` with figures as JSON.
"""

import argparse
import asyncio
import itertools
import json
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum

import uvloop

from tests.torture.hooks.events import request

#: How the keys of what the idle ones send begin.
KEY = "sloth-"
#: Seconds between two bytes of those who drip.
_DRIP = 0.5
_OK = b"HTTP/1.1 200 "


class Way(StrEnum):
    """How a client keeps the server waiting."""

    #: The head of a request comes byte by byte, and never ends.
    HEAD = "slow head"
    #: The head is prompt, the body comes byte by byte.
    BODY = "slow body"
    #: Nothing comes at all.
    SILENT = "silent"
    #: A proper request is answered, then nothing more comes.
    IDLE = "idle"


class Sloths:
    """All slow clients of one process."""

    def __init__(self, port: int, *, rounds: int, patience: float) -> None:
        """Be ended so often, each; after so many seconds nobody was ever going to end it."""
        self._port = port
        self._rounds = rounds
        self._patience = patience
        self._unfinished = 0
        self.ended: Counter[str] = Counter()
        self.kept: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.longest: dict[str, float] = dict.fromkeys(Way, 0.0)

    async def run(self, count: int) -> None:
        """Let so many clients keep the server waiting, until all have been ended."""
        self._unfinished = count
        ways = itertools.cycle(Way)
        await asyncio.gather(*(self._come_back(next(ways), n) for n in range(count)))

    async def _come_back(self, way: Way, number: int) -> None:
        """Keep the pressure up until the last of us has been ended often enough."""
        for done in itertools.count(1):
            if await self._visit(way, f"{KEY}{number}-{done}"):
                self.ended[way] += 1
            if done == self._rounds:
                self._unfinished -= 1
            if not self._unfinished:
                return

    async def _visit(self, way: Way, key: str) -> bool:
        """Keep the server waiting; say whether it ended the connection."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError as error:
            self.refused[type(error).__name__] += 1
            await asyncio.sleep(_DRIP)
            return False
        began = time.monotonic()
        try:
            if way is Way.IDLE:
                await self._ask(reader, writer, key)
            return writer.is_closing() or await self._linger(way, reader, writer)
        finally:
            self.longest[way] = max(self.longest[way], time.monotonic() - began)
            writer.close()

    async def _ask(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: str
    ) -> None:
        try:
            writer.write(request(key))
            head = await reader.readuntil(b"\r\n\r\n")
        except (OSError, EOFError) as error:
            head = type(error).__name__.encode()
        if not head.startswith(_OK):
            self.refused[head[:12].decode()] += 1

    async def _linger(
        self, way: Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        drops = _drops(way)
        give_up = time.monotonic() + self._patience
        end = asyncio.create_task(_await_end(reader))
        while time.monotonic() < give_up:
            if not writer.is_closing():
                writer.write(next(drops))
            if (await asyncio.wait([end], timeout=_DRIP))[0]:
                return True
        end.cancel()
        self.kept[way] += 1
        return False


async def _await_end(reader: asyncio.StreamReader) -> None:
    """Read whatever is said until the server hangs up."""
    try:
        while await reader.read(4096):
            pass
    except OSError:
        pass  # it hung up without a word


def _drops(way: Way) -> Iterator[bytes]:
    """Yield what a client sends bit by bit."""
    if way is Way.HEAD:
        return itertools.chain([b"POST /in/github HTTP/1.1\r\nX: "], itertools.repeat(b"x"))
    if way is Way.BODY:
        head, _, body = request("never-whole").partition(b"\r\n\r\n")
        return itertools.chain([head + b"\r\n\r\n"], (body[n : n + 1] for n in itertools.count()))
    return itertools.repeat(b"")


def _allow_files(wanted: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))


async def main(arguments: Sequence[str]) -> None:
    """Be slow, and say how it went."""
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--patience", type=float, default=60.0)
    given = parser.parse_args(arguments)
    _allow_files(given.count + 200)
    sloths = Sloths(given.port, rounds=given.rounds, patience=given.patience)
    await sloths.run(given.count)
    told = {
        "ended": sloths.ended,
        "kept": sloths.kept,
        "refused": sloths.refused,
        "longest": sloths.longest,
    }
    sys.stdout.write(f"all ended {json.dumps(told)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1:]))
