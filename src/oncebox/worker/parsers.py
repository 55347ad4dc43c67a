"""Parsers: a pool of child processes that read mail, so that no mail can harm its neighbours.

Children live long and are sent several mails ahead. They answer in order, so the oldest mail
without an answer is the one a dead child was reading. A mail that took too long is ``limited``;
one whose child died of something else gets a second child to itself, and is ``limited`` or
``unparsed`` if that one dies too. The others go to the next child as if nothing had been.
"""

import asyncio
import os
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import msgspec

from oncebox import faults
from oncebox.config import ParserSettings
from oncebox.mail.limits import ParseLimits
from oncebox.mail_errors import ParserUnavailable
from oncebox.model.message import Parsed, Status
from oncebox.telemetry import Telemetry
from oncebox.worker.reading import Child, Death, Task
from oncebox.worker.supervise import Backoff

#: a child that dies so often before it is ready will not do better
_MOST_FALSE_STARTS = 5
_MOST_CHILDREN = 8
_STOP_WITHIN = 2.0
_PARSED = msgspec.msgpack.Decoder(Parsed)
_NOTHING: Mapping[str, list[bytes]] = {}


class Parsers:
    """Reads any number of mails at a time, each in a child process under limits."""

    def __init__(
        self,
        settings: ParserSettings,
        telemetry: Telemetry,
        limits: ParseLimits | None = None,
    ) -> None:
        """Prepare; children are started by ``async with``, and as they are needed."""
        self._settings = settings
        self._telemetry = telemetry
        self._limits = limits or ParseLimits()
        self._children: list[Child] = []
        self._waiting: deque[Task] = deque()
        self._false_starts = 0
        self._backoff = Backoff()
        self._keepers: set[asyncio.Task[None]] = set()
        self._stopping = False

    async def __aenter__(self) -> Self:
        """Start the children."""
        for _ in range(children(self._settings)):
            self._hire(0)
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Stop the children; who still waits is told that there is no parser."""
        self._stopping = True
        for keeper in list(self._keepers):
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        await asyncio.gather(*(child.stop(_STOP_WITHIN) for child in list(self._children)))
        self._refuse()

    async def parse(self, raw: bytes) -> Parsed:
        """Return all that is known of a mail; one that breaks its reader is still a message.

        Raises: ParserUnavailable, if no child can be started, or all are being stopped.
        """
        task = await self._ask("parse", raw, b"")
        if task.death is not None:
            parsed = Parsed(status=_STATUS[task.death])
        elif task.result is None:
            parsed = Parsed(status=Status.UNPARSED)
        else:
            parsed = _PARSED.decode(task.result)
        self._telemetry.parsed.labels(parsed.status.value).inc()
        faults.point("parse.answered")
        return parsed

    async def check(self, raw: bytes, answers: Mapping[str, list[bytes]] = _NOTHING) -> Any:
        """Return what the verb ``check`` says of a mail's signatures, given the keys' records.

        None if it broke its reader. Raises: ParserUnavailable.
        """
        task = await self._ask("check", raw, msgspec.msgpack.encode(answers))
        return None if task.result is None else msgspec.msgpack.decode(task.result)

    @property
    def pids(self) -> list[int]:
        """The ids of the children's processes."""
        return [child.pid for child in self._children]

    # sharing out

    async def _ask(self, verb: str, raw: bytes, rest: bytes) -> Task:
        if self._stopping:
            raise _unavailable()
        task = Task(verb, raw, rest, asyncio.get_running_loop().create_future())
        self._waiting.append(task)
        self._share_out()
        await task.done
        return task

    def _share_out(self) -> None:
        """Give waiting mails to the children that have least to do."""
        while self._waiting:
            if self._waiting[0].done.done():  # nobody waits for it any more
                self._waiting.popleft()
                continue
            child = min(self._children, key=Child.load, default=None)
            if child is None or not child.has_room_for(self._waiting[0]):
                return
            child.give(self._waiting.popleft())

    # children

    def _hire(self, wait: float) -> None:
        """Start a child after a while, without keeping anybody waiting."""
        keeper = asyncio.create_task(self._start(wait), name="oncebox-parsers")
        self._keepers.add(keeper)
        keeper.add_done_callback(self._keepers.discard)

    async def _start(self, wait: float) -> None:
        await asyncio.sleep(wait)
        try:
            child = await Child.start(self._settings, self._limits, self._answered, self._died)
        except OSError:  # no room for a process now
            self._false_start()
            return
        if self._stopping:
            await child.stop(0)
            return
        self._children.append(child)
        self._share_out()

    def _answered(self) -> None:
        """Go on after an answer, or after a child's first word."""
        self._false_starts = 0
        self._share_out()

    def _died(self, child: Child, death: Death) -> None:
        """Take a dead child's mails back, and start another one."""
        with suppress(ValueError):
            self._children.remove(child)
        left = child.unanswered()
        if self._stopping:
            self._waiting.extend(left)
            return
        self._telemetry.parser_deaths.labels(death.value).inc()
        self._telemetry.log.warning("parser_died", cause=death.value)
        if left and child.ready:
            self._judge(left, death)
        self._waiting.extendleft(reversed(left))
        if child.ready:
            self._hire(0)
            self._share_out()
        else:
            self._false_start()

    def _judge(self, left: list[Task], death: Death) -> None:
        """Find the mail that a child died of, the oldest one, and decide what becomes of it."""
        guilty = left[0]
        if guilty.alone or death in {Death.CPU, Death.WALL}:
            guilty.end(death)
            del left[0]
        else:
            guilty.alone = True  # it may not have been its fault: once more, with nobody near

    def _false_start(self) -> None:
        self._false_starts += 1
        if self._false_starts >= _MOST_FALSE_STARTS:
            self._refuse()  # who comes later may find better times
        self._hire(self._backoff.after(0))

    def _refuse(self) -> None:
        for task in self._waiting:
            task.refuse(_unavailable())
        self._waiting.clear()


_STATUS = {
    Death.CPU: Status.LIMITED,
    Death.WALL: Status.LIMITED,
    Death.MEMORY: Status.LIMITED,
    Death.CRASH: Status.UNPARSED,
}


def children(settings: ParserSettings) -> int:
    """Return how many children to have: as asked, else one for each processor but one."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    return settings.children or max(1, min(_MOST_CHILDREN, processors - 1))


def _unavailable() -> ParserUnavailable:
    return ParserUnavailable("there is no process to read mail with just now; try again shortly")
