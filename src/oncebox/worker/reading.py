"""Reading: one child of the pool of parsers, as its parent sees it."""

import asyncio
import os
import signal
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from typing import cast

import msgspec

from oncebox.config import ParserSettings
from oncebox.mail.limits import ParseLimits
from oncebox.worker.frames import Reply, Request, Splitter, encode
from oncebox.worker.reader import NO_MEMORY, Orders

_REPLY = msgspec.msgpack.Decoder(Reply)
_READY = -1
_START_WITHIN = 30.0
#: mails a child has before it, so that it need not wait for the next one, and their bytes
_AHEAD = 4
_MOST_BYTES = 4 * 1024 * 1024
_MIB = 1024 * 1024
#: all that a child is told of our surroundings: nothing that could be a secret
_PASSED_ON = ("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH")


class Death(StrEnum):
    """What a child died of."""

    #: the mail took more processor time than it may
    CPU = "cpu"
    #: it did not answer in time
    WALL = "wall"
    #: it needed more memory than it may
    MEMORY = "memory"
    #: anything else
    CRASH = "crash"


class Task:
    """One mail, and who waits for it."""

    __slots__ = ("alone", "death", "done", "raw", "rest", "result", "verb")

    def __init__(self, verb: str, raw: bytes, rest: bytes, done: asyncio.Future[None]) -> None:
        """Take what is to be done, and the promise to keep."""
        self.verb = verb
        self.raw = raw
        self.rest = rest
        self.done = done
        self.result: bytes | None = None
        self.death: Death | None = None
        #: a child died with it; the next one gets nothing else
        self.alone = False

    def answer(self, result: bytes | None) -> None:
        """Keep the promise."""
        self.result = result
        self._release()

    def end(self, death: Death) -> None:
        """Say that a child died of it."""
        self.death = death
        self._release()

    def refuse(self, error: Exception) -> None:
        """Say that nothing will come of it."""
        if not self.done.done():
            self.done.set_exception(error)

    def _release(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


class Child(asyncio.SubprocessProtocol):
    """A process that reads mails in the order they are given."""

    def __init__(
        self,
        settings: ParserSettings,
        answered: Callable[[], None],
        died: Callable[["Child", Death], None],
    ) -> None:
        """Prepare; ``start`` makes one that runs."""
        self.ready = False
        self._settings = settings
        self._answered = answered
        self._died = died
        self._given: deque[Task] = deque()
        self._numbers = 0
        self._expected = 0
        self._splitter = Splitter()
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._alarm: asyncio.TimerHandle | None = None
        self._late = False
        self._transport: asyncio.SubprocessTransport
        self._pipe: asyncio.WriteTransport

    @classmethod
    async def start(
        cls,
        settings: ParserSettings,
        limits: ParseLimits,
        answered: Callable[[], None],
        died: Callable[["Child", Death], None],
    ) -> "Child":
        """Start a process.

        Raises: OSError.
        """
        orders = Orders(cpu=settings.cpu, memory=settings.memory * _MIB, limits=limits)
        _, child = await asyncio.get_running_loop().subprocess_exec(
            lambda: cls(settings, answered, died),
            sys.executable, "-P", "-m", "oncebox.worker.reader",
            msgspec.json.encode(orders).decode(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,  # it could quote mail
            env=_surroundings(),
            close_fds=True,
            start_new_session=True,
        )  # fmt: skip
        return child

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._transport.get_pid()

    def has_room_for(self, task: Task) -> bool:
        """Say whether it may have this mail too; a heavy one, or a suspect, is alone."""
        if not self._given:
            return True
        if task.alone or len(self._given) >= _AHEAD or any(each.alone for each in self._given):
            return False
        return sum(len(each.raw) for each in self._given) + len(task.raw) <= _MOST_BYTES

    def load(self) -> int:
        """Return how many mails it has."""
        return len(self._given)

    def give(self, task: Task) -> None:
        """Send a mail to the process."""
        if not self._given and self.ready:
            self._watch(self._settings.wall)
        self._given.append(task)
        self._pipe.write(encode(Request(self._numbers, task.verb, task.raw, task.rest)))
        self._numbers += 1

    def unanswered(self) -> list[Task]:
        """Return the mails that it has not answered, oldest first."""
        return list(self._given)

    async def stop(self, within: float) -> None:
        """Let it end by itself for a moment, then end it; it is gone when this returns."""
        self._pipe.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await asyncio.shield(self._ended)
        self._kill()
        await self._ended

    # what the loop tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note the pipes."""
        self._transport = cast("asyncio.SubprocessTransport", transport)
        self._pipe = cast("asyncio.WriteTransport", self._transport.get_pipe_transport(0))
        self._watch(_START_WITHIN)

    def pipe_data_received(self, _fd: int, data: bytes) -> None:
        """Take answers; what makes no sense ends the child."""
        try:
            for frame in self._splitter.feed(data):
                self._take(_REPLY.decode(frame))
        except (ValueError, msgspec.MsgspecError):
            self._kill()

    def connection_lost(self, _error: Exception | None) -> None:
        """Tell that the process has ended and its pipes are closed."""
        self._watch(None)
        self._transport.close()
        if not self._ended.done():
            self._ended.set_result(None)
        self._died(self, self._death())

    # inside

    def _take(self, reply: Reply) -> None:
        if reply.number == _READY:
            self.ready = True
        elif not self._given or reply.number != self._expected:
            message = "an answer to nothing that was asked"
            raise ValueError(message)
        else:
            self._expected += 1
            self._given.popleft().answer(reply.result)
        self._watch(self._settings.wall if self._given else None)
        self._answered()

    def _watch(self, seconds: float | None) -> None:
        """Expect the next answer within so many seconds."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = None if seconds is None else self._loop.call_later(seconds, self._expire)

    def _expire(self) -> None:
        self._late = True
        self._kill()

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            self._transport.kill()

    def _death(self) -> Death:
        status = self._transport.get_returncode()
        if self._late:
            return Death.WALL
        return {-signal.SIGPROF: Death.CPU, NO_MEMORY: Death.MEMORY}.get(status or 0, Death.CRASH)


def _surroundings() -> dict[str, str]:
    passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {**passed, "PYTHONUTF8": "1", "PYTHONDONTWRITEBYTECODE": "1"}
