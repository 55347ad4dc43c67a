"""Pool of child processes that parse mail under CPU, time and memory limits.

Children live long and are sent several mails ahead. They answer in order, so the oldest mail
without an answer is the one a dead child was reading. A mail that took too long is ``limited``;
one whose child died of something else gets a second child to itself, and is ``limited`` or
``unparsed`` if that one dies too. The others go to the next child as if nothing had been.
"""

import asyncio
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum
from types import TracebackType
from typing import Any, Self, cast

import msgspec

from oncebox.core import faults
from oncebox.core.metrics import Telemetry
from oncebox.errors.mail import ParserUnavailable
from oncebox.mail.limits import ParseLimits
from oncebox.model.inboxes.received_mail import ParsedMail, ParseStatus
from oncebox.settings import ParserSettings
from oncebox.workers.mail.parser_process import (
    NO_MEMORY,
    ChildOptions,
    FrameSplitter,
    ParserReply,
    ParserRequest,
    encode_frame,
)
from oncebox.workers.process.supervisor import Backoff

_REPLY = msgspec.msgpack.Decoder(ParserReply)
_READY_NUMBER = -1
_START_WITHIN = 30.0
#: mails a child has before it, so that it need not wait for the next one, and their bytes
_MAX_QUEUED = 4
_MAX_QUEUED_BYTES = 4 * 1024 * 1024
_MIB = 1024 * 1024
#: all that a child is told of our surroundings: nothing that could be a secret
_PASSED_VARIABLES = ("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH")


class ChildDeath(StrEnum):
    """What a child died of."""

    #: the mail took more processor time than it may
    CPU = "cpu"
    #: it did not answer in time
    WALL = "wall"
    #: it needed more memory than it may
    MEMORY = "memory"
    #: anything else
    CRASH = "crash"


class ParseTask:
    """One mail, and who waits for it."""

    __slots__ = ("alone", "death", "done", "raw", "rest", "result", "verb")

    def __init__(self, verb: str, raw: bytes, rest: bytes, done: asyncio.Future[None]) -> None:
        """Take what is to be done, and the promise to keep."""
        self.verb = verb
        self.raw = raw
        self.rest = rest
        self.done = done
        self.result: bytes | None = None
        self.death: ChildDeath | None = None
        #: a child died with it; the next one gets nothing else
        self.alone = False

    def answer(self, result: bytes | None) -> None:
        """Keep the promise."""
        self.result = result
        self._release()

    def end(self, death: ChildDeath) -> None:
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


class ParserChild(asyncio.SubprocessProtocol):
    """A process that reads mails in the order they are given."""

    def __init__(
        self,
        settings: ParserSettings,
        answered: Callable[[], None],
        died: Callable[["ParserChild", ChildDeath], None],
    ) -> None:
        """Prepare; ``start`` makes one that runs."""
        self.ready = False
        self._settings = settings
        self._on_answer = answered
        self._on_death = died
        self._queued: deque[ParseTask] = deque()
        self._numbers = 0
        self._expected = 0
        self._splitter = FrameSplitter()
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._deadline: asyncio.TimerHandle | None = None
        self._late = False
        self._transport: asyncio.SubprocessTransport
        self._pipe: asyncio.WriteTransport

    @classmethod
    async def start(
        cls,
        settings: ParserSettings,
        limits: ParseLimits,
        answered: Callable[[], None],
        died: Callable[["ParserChild", ChildDeath], None],
    ) -> "ParserChild":
        """Start a process.

        Raises: OSError.
        """
        orders = ChildOptions(cpu=settings.cpu, memory=settings.memory * _MIB, limits=limits)
        _, child = await asyncio.get_running_loop().subprocess_exec(
            lambda: cls(settings, answered, died),
            sys.executable, "-P", "-m", "oncebox.workers.mail.parser_process",
            msgspec.json.encode(orders).decode(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,  # it could quote mail
            env=_child_environment(),
            close_fds=True,
            start_new_session=True,
        )  # fmt: skip
        return child

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._transport.get_pid()

    def accepts(self, task: ParseTask) -> bool:
        """Say whether it may have this mail too; a heavy one, or a suspect, is alone."""
        if not self._queued:
            return True
        if (
            task.alone
            or len(self._queued) >= _MAX_QUEUED
            or any(each.alone for each in self._queued)
        ):
            return False
        return sum(len(each.raw) for each in self._queued) + len(task.raw) <= _MAX_QUEUED_BYTES

    def load(self) -> int:
        """Return how many mails it has."""
        return len(self._queued)

    def send(self, task: ParseTask) -> None:
        """Send a mail to the process."""
        if not self._queued and self.ready:
            self._set_deadline(self._settings.wall)
        self._queued.append(task)
        self._pipe.write(encode_frame(ParserRequest(self._numbers, task.verb, task.raw, task.rest)))
        self._numbers += 1

    def unanswered(self) -> list[ParseTask]:
        """Return the mails that it has not answered, oldest first."""
        return list(self._queued)

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
        self._set_deadline(_START_WITHIN)

    def pipe_data_received(self, _fd: int, data: bytes) -> None:
        """Take answers; what makes no sense ends the child."""
        try:
            for frame in self._splitter.feed(data):
                self._handle_reply(_REPLY.decode(frame))
        except (ValueError, msgspec.MsgspecError):
            self._kill()

    def connection_lost(self, _error: Exception | None) -> None:
        """Tell that the process has ended and its pipes are closed."""
        self._set_deadline(None)
        self._transport.close()
        if not self._ended.done():
            self._ended.set_result(None)
        self._on_death(self, self._death())

    # inside

    def _handle_reply(self, reply: ParserReply) -> None:
        if reply.number == _READY_NUMBER:
            self.ready = True
        elif not self._queued or reply.number != self._expected:
            raise ValueError("an answer to nothing that was asked")
        else:
            self._expected += 1
            self._queued.popleft().answer(reply.result)
        self._set_deadline(self._settings.wall if self._queued else None)
        self._on_answer()

    def _set_deadline(self, seconds: float | None) -> None:
        """Expect the next answer within so many seconds."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = (
            None if seconds is None else self._loop.call_later(seconds, self._on_deadline)
        )

    def _on_deadline(self) -> None:
        self._late = True
        self._kill()

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            self._transport.kill()

    def _death(self) -> ChildDeath:
        status = self._transport.get_returncode()
        if self._late:
            return ChildDeath.WALL
        return {-signal.SIGPROF: ChildDeath.CPU, NO_MEMORY: ChildDeath.MEMORY}.get(
            status or 0, ChildDeath.CRASH
        )


def _child_environment() -> dict[str, str]:
    passed = {name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ}
    return {**passed, "PYTHONUTF8": "1", "PYTHONDONTWRITEBYTECODE": "1"}


#: a child that dies so often before it is ready will not do better
_MAX_FAILED_STARTS = 5
_MAX_CHILDREN = 8
_STOP_WITHIN = 2.0
_PARSED = msgspec.msgpack.Decoder(ParsedMail)
_NO_RECORDS: Mapping[str, list[bytes]] = {}


class ParserPool:
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
        self._children: list[ParserChild] = []
        self._waiting: deque[ParseTask] = deque()
        self._failed_starts = 0
        self._backoff = Backoff()
        self._starters: set[asyncio.Task[None]] = set()
        self._stopping = False

    async def __aenter__(self) -> Self:
        """Start the children."""
        for _ in range(child_count(self._settings)):
            self._start_child_after(0)
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Stop the children; who still waits is told that there is no parser."""
        self._stopping = True
        for keeper in list(self._starters):
            keeper.cancel()
        await asyncio.gather(*self._starters, return_exceptions=True)
        await asyncio.gather(*(child.stop(_STOP_WITHIN) for child in list(self._children)))
        self._fail_waiting()

    async def parse(self, raw: bytes) -> ParsedMail:
        """Return all that is known of a mail; one that breaks its reader is still a message.

        Raises: ParserUnavailable, if no child can be started, or all are being stopped.
        """
        task = await self._submit("parse", raw, b"")
        if task.death is not None:
            parsed = ParsedMail(status=_STATUS_BY_DEATH[task.death])
        elif task.result is None:
            parsed = ParsedMail(status=ParseStatus.UNPARSED)
        else:
            parsed = _PARSED.decode(task.result)
        self._telemetry.parsed.labels(parsed.status.value).inc()
        faults.point("parse.answered")
        return parsed

    async def check(self, raw: bytes, answers: Mapping[str, list[bytes]] = _NO_RECORDS) -> Any:
        """Return what the verb ``check`` says of a mail's signatures, given the keys' records.

        None if it broke its reader. Raises: ParserUnavailable.
        """
        task = await self._submit("check", raw, msgspec.msgpack.encode(answers))
        return None if task.result is None else msgspec.msgpack.decode(task.result)

    @property
    def pids(self) -> list[int]:
        """The ids of the children's processes."""
        return [child.pid for child in self._children]

    # sharing out

    async def _submit(self, verb: str, raw: bytes, rest: bytes) -> ParseTask:
        if self._stopping:
            raise _unavailable()
        task = ParseTask(verb, raw, rest, asyncio.get_running_loop().create_future())
        self._waiting.append(task)
        self._dispatch()
        await task.done
        return task

    def _dispatch(self) -> None:
        """Give waiting mails to the children that have least to do."""
        while self._waiting:
            if self._waiting[0].done.done():  # nobody waits for it any more
                self._waiting.popleft()
                continue
            child = min(self._children, key=ParserChild.load, default=None)
            if child is None or not child.accepts(self._waiting[0]):
                return
            child.send(self._waiting.popleft())

    # children

    def _start_child_after(self, wait: float) -> None:
        """Start a child after a while, without keeping anybody waiting."""
        keeper = asyncio.create_task(self._start_child(wait), name="oncebox-parsers")
        self._starters.add(keeper)
        keeper.add_done_callback(self._starters.discard)

    async def _start_child(self, wait: float) -> None:
        await asyncio.sleep(wait)
        try:
            child = await ParserChild.start(
                self._settings, self._limits, self._on_answer, self._on_death
            )
        except OSError:  # no room for a process now
            self._count_failed_start()
            return
        if self._stopping:
            await child.stop(0)
            return
        self._children.append(child)
        self._dispatch()

    def _on_answer(self) -> None:
        """Go on after an answer, or after a child's first word."""
        self._failed_starts = 0
        self._dispatch()

    def _on_death(self, child: ParserChild, death: ChildDeath) -> None:
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
            self._blame_oldest_mail(left, death)
        self._waiting.extendleft(reversed(left))
        if child.ready:
            self._start_child_after(0)
            self._dispatch()
        else:
            self._count_failed_start()

    def _blame_oldest_mail(self, left: list[ParseTask], death: ChildDeath) -> None:
        """Find the mail that a child died of, the oldest one, and decide what becomes of it."""
        guilty = left[0]
        if guilty.alone or death in {ChildDeath.CPU, ChildDeath.WALL}:
            guilty.end(death)
            del left[0]
        else:
            guilty.alone = True  # it may not have been its fault: once more, with nobody near

    def _count_failed_start(self) -> None:
        self._failed_starts += 1
        if self._failed_starts >= _MAX_FAILED_STARTS:
            self._fail_waiting()  # who comes later may find better times
        self._start_child_after(self._backoff.delay_after(0))

    def _fail_waiting(self) -> None:
        for task in self._waiting:
            task.refuse(_unavailable())
        self._waiting.clear()


_STATUS_BY_DEATH = {
    ChildDeath.CPU: ParseStatus.LIMITED,
    ChildDeath.WALL: ParseStatus.LIMITED,
    ChildDeath.MEMORY: ParseStatus.LIMITED,
    ChildDeath.CRASH: ParseStatus.UNPARSED,
}


def child_count(settings: ParserSettings) -> int:
    """Return how many children to have: as asked, else one for each processor but one."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    return settings.children or max(1, min(_MAX_CHILDREN, processors - 1))


def _unavailable() -> ParserUnavailable:
    return ParserUnavailable("there is no process to read mail with just now; try again shortly")
