"""A provider: sends signed events over many connections, each until it is told 2xx.

It prints ``storm over`` or ``stream over`` with its figures as JSON.
"""

import argparse
import asyncio
import itertools
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import uvloop

from tests.torture.history import History
from tests.torture.hooks.events import Line, Lost, request

#: What comes back as 2xx.
_OK = range(200, 300)
#: Of so many events that were acknowledged, one is sent once more, as providers do.
AGAIN = 7
#: How long a sender waits before it knocks again, in seconds.
_REST = 0.25


async def storm(port: int, *, copies: int, connections: int) -> Counter[str]:
    """Send copies of one event; return how often each answer came."""
    answers: Counter[str] = Counter()
    numbers = iter(range(copies))
    event = request("storm")

    async def sender() -> None:
        line = Line(port)
        for _ in numbers:
            try:
                answers[str(await line.ask(event))] += 1
            except Lost as lost:
                answers[str(lost)] += 1
        line.close()

    await asyncio.gather(*(sender() for _ in range(connections)))
    return answers


class Stream:
    """Sends event after event until a file is there."""

    def __init__(self, given: argparse.Namespace, history: History) -> None:
        self._given = given
        self._history = history
        self._numbers = itertools.count()
        self.answers: Counter[str] = Counter()

    async def run(self) -> None:
        """Send over kept connections, and over some that are made anew for each request."""
        count = self._given.connections
        lines = [
            Line(self._given.port, kept=number >= self._given.fresh) for number in range(count)
        ]
        await asyncio.gather(*(self._send(line) for line in lines))

    async def _send(self, line: Line) -> None:
        while not self._given.until.exists():
            number = next(self._numbers)
            key = f"{self._given.seed}-{number}"
            event = request(key)
            for _ in range(2 if number % AGAIN == 0 else 1):
                await self._until_told(line, key, event)
            await asyncio.sleep(self._given.pause)
        line.close()

    async def _until_told(self, line: Line, key: str, event: bytes) -> None:
        """Send the same thing again until it is said to be taken."""
        while not await self._told(line, key, event):  # noqa: ASYNC110 - only asking helps
            await asyncio.sleep(_REST)

    async def _told(self, line: Line, key: str, event: bytes) -> bool:
        call = self._history.invoke("post", key)
        try:
            async with asyncio.timeout(self._given.limit):
                status = await line.ask(event)
        except (Lost, TimeoutError) as lost:
            line.close()
            note = str(lost) or type(lost).__name__
            self.answers[note] += 1
            call.info(note)
            return False
        self.answers[str(status)] += 1
        if status in _OK:
            call.ok()
        elif status == 503:
            call.info("503")
        else:
            # A provider would not send again.
            call.fail(str(status))
        return status != 503


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--copies", type=int, default=0, help="a storm of one event")
    parser.add_argument("--history", type=Path)
    parser.add_argument("--until", type=Path, help="send until this file is there")
    parser.add_argument("--fresh", type=int, default=0, help="connections that are not kept")
    parser.add_argument("--pause", type=float, default=0.01)
    parser.add_argument("--limit", type=float, help="seconds to wait for an answer")
    parser.add_argument("--seed", default="0")
    return parser.parse_args(arguments)


async def main(given: argparse.Namespace) -> None:
    """Send what was asked for, and say how it went."""
    if given.copies:
        answers = await storm(given.port, copies=given.copies, connections=given.connections)
        _say("storm over", answers)
        return
    with History(given.history) as history:
        stream = Stream(given, history)
        await stream.run()
        _say("stream over", stream.answers)


def _say(word: str, answers: Counter[str]) -> None:
    sys.stdout.write(f"{word} {json.dumps(answers)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    uvloop.run(main(options(sys.argv[1:])))
