"""Pool of child processes that parse mail under CPU, time and memory limits.

Children live long and are sent several mails ahead. They answer in order, so the oldest mail
without an answer is the one a dead child was parsing. A mail that took too long is ``limited``;
one whose child died of something else gets a second child to itself, and is ``limited`` or
``unparsed`` if that one dies too. The other mails go to the next child.

Whose mail is next is decided by a fair queue. A pool with a quick limit gives up on a mail that
takes longer, or waits longer for its turn: another pool parses it, behind nobody's quick mail.
"""

import asyncio
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Any, Self, cast

import msgspec

from oncebox.core import clock, faults
from oncebox.core.metrics import Telemetry
from oncebox.errors.mail import ParserUnavailable
from oncebox.mail.limits import ParseLimits
from oncebox.model.inboxes.received_mail import ParsedMail, ParseStatus
from oncebox.settings import ParserSettings
from oncebox.workers.mail.fair_queue import FairQueue, MailFlow, ParsingDeferred
from oncebox.workers.mail.parser_process import (
    LENGTH_BYTES,
    NO_MEMORY,
    READY,
    ChildOptions,
    Operation,
    ParserReply,
    ParserRequest,
)
from oncebox.workers.process.supervisor import Backoff

_REPLY = msgspec.msgpack.Decoder(ParserReply)
_START_WITHIN = 30.0
#: mails that a child has at once, so that it need not wait for the next one, and their bytes
_MAX_QUEUED = 4
_MAX_QUEUED_BYTES = 4 * 1024 * 1024
_MAX_FRAME = 1 << 30
_MIB = 1024 * 1024
#: the environment of a child: nothing that could be a secret
_PASSED_VARIABLES = ("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH")


class ChildDeath(StrEnum):
    """The cause of a child's death."""

    #: the mail exceeded the limit of processor time
    CPU = "cpu"
    #: the child did not answer in time
    WALL = "wall"
    #: the mail exceeded the memory limit
    MEMORY = "memory"
    #: anything else
    CRASH = "crash"


class ParseTask:
    """One mail, and the future of its result."""

    __slots__ = (
        "alone", "done", "flow", "is_abandoned", "operation", "raw", "records", "since", "within",
    )  # fmt: skip

    def __init__(
        self,
        operation: Operation,
        raw: bytes,
        records: Mapping[str, list[bytes]],
        flow: MailFlow,
        within: float = 0.0,
    ) -> None:
        """Give up after ``within`` seconds of processor time; 0 is no limit."""
        self.operation = operation
        self.flow = flow
        self.within = within
        #: whether it took too long
        self.is_abandoned = False
        #: since when it waits for its turn
        self.since = clock.steady()
        self.raw = raw
        self.records = dict(records)
        self.done: asyncio.Future[bytes | ChildDeath | None] = (
            asyncio.get_running_loop().create_future()
        )
        #: a child died with it; the next one gets no other mail
        self.alone = False

    def finish(self, result: bytes | ChildDeath | None) -> None:
        """Set the result, unless the caller is gone."""
        if not self.done.done():
            self.done.set_result(result)

    def defer(self, reason: str) -> None:
        """Give up on it for now, unless the caller is gone."""
        if not self.done.done():
            self.done.set_exception(ParsingDeferred(reason))


class FrameSplitter:
    """Splits a stream of bytes into frames."""

    def __init__(self) -> None:
        self._waiting = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes; return the frames that are complete now.

        Raises: ValueError, if a frame is too long.
        """
        self._waiting += data
        found: list[bytes] = []
        at = 0
        while len(self._waiting) - at >= LENGTH_BYTES:
            start = at + LENGTH_BYTES
            size = int.from_bytes(self._waiting[at:start])
            if size > _MAX_FRAME:
                raise ValueError("the length of a frame exceeds the limit")
            if len(self._waiting) < start + size:
                break
            at = start + size
            found.append(bytes(self._waiting[start:at]))
        del self._waiting[:at]
        return found


class ParserChild(asyncio.SubprocessProtocol):
    """A process that parses mails in the order they are sent."""

    def __init__(
        self,
        settings: ParserSettings,
        on_answer: Callable[[ParseTask | None, float], None],
        on_death: Callable[["ParserChild", ChildDeath], None],
    ) -> None:
        self.ready = False
        #: the mails that it has not answered, oldest first
        self.queued: deque[ParseTask] = deque()
        self._settings = settings
        self._on_answer = on_answer
        self._on_death = on_death
        self._sent = 0
        self._answered = 0
        self._splitter = FrameSplitter()
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._deadline: asyncio.TimerHandle | None = None
        self._late = False
        #: when it began with its oldest mail
        self.began = clock.steady()
        self._transport: asyncio.SubprocessTransport
        self._pipe: asyncio.WriteTransport

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._transport.get_pid()

    def accepts(self, task: ParseTask) -> bool:
        """Say whether it may have this mail too; a large or suspect one is parsed alone."""
        if not self.queued:
            return True
        if task.alone or len(self.queued) >= _MAX_QUEUED or any(each.alone for each in self.queued):
            return False
        return sum(len(each.raw) for each in self.queued) + len(task.raw) <= _MAX_QUEUED_BYTES

    def send(self, task: ParseTask) -> None:
        """Send a mail to the process."""
        if not self.queued:
            self.began = clock.steady()
            if self.ready:
                self._set_deadline(self._settings.wall)
        self.queued.append(task)
        request = ParserRequest(self._sent, task.operation, task.raw, task.records, task.within)
        frame = msgspec.msgpack.encode(request)
        self._pipe.write(len(frame).to_bytes(LENGTH_BYTES) + frame)
        self._sent += 1

    async def stop(self, within: float) -> None:
        """Give the process some time to end, then kill it; it is gone when this returns."""
        self._pipe.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await asyncio.shield(self._ended)
        self._kill()
        await self._ended

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the process to be ready."""
        self._transport = cast("asyncio.SubprocessTransport", transport)
        self._pipe = cast("asyncio.WriteTransport", self._transport.get_pipe_transport(0))
        self._set_deadline(_START_WITHIN)

    def pipe_data_received(self, _fd: int, data: bytes) -> None:
        """Read replies; kill a child that sends anything else."""
        try:
            for frame in self._splitter.feed(data):
                self._handle_reply(_REPLY.decode(frame))
        except (ValueError, msgspec.MsgspecError):
            self._kill()

    def connection_lost(self, _error: Exception | None) -> None:
        """Report that the process has ended and its pipes are closed."""
        self._set_deadline(None)
        self._transport.close()
        if not self._ended.done():
            self._ended.set_result(None)
        causes = {-signal.SIGPROF: ChildDeath.CPU, NO_MEMORY: ChildDeath.MEMORY}
        cause = causes.get(self._transport.get_returncode() or 0, ChildDeath.CRASH)
        self._on_death(self, ChildDeath.WALL if self._late else cause)

    def _handle_reply(self, reply: ParserReply) -> None:
        task = None
        if reply.number == READY:
            self.ready = True
        elif not self.queued or reply.number != self._answered:
            raise ValueError("a reply without a request")
        else:
            self._answered += 1
            task = self.queued.popleft()
            if reply.abandoned:
                task.is_abandoned = True
                task.defer("slow")
            else:
                task.finish(reply.result)
        began, self.began = self.began, clock.steady()
        self._set_deadline(self._settings.wall if self.queued else None)
        self._on_answer(task, self.began - began)

    def _set_deadline(self, seconds: float | None) -> None:
        """Expect the next reply within so many seconds."""
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


#: failed starts in a row after which waiting mails are refused
_MAX_FAILED_STARTS = 5
_MAX_CHILDREN = 8
_STOP_WITHIN = 2.0
_PARSED = msgspec.msgpack.Decoder(ParsedMail)
_NO_RECORDS: Mapping[str, list[bytes]] = {}
_NO_FLOW = MailFlow()
#: seconds that a mail waits for its turn in a quick pool, and between two checks
_PATIENCE = 0.5
_CHECK_EVERY = 0.1
#: seconds in which the mails of one inbox and address are deferred after a slow one
_SLOW_FOR = 10.0
_MAX_SLOW_FLOWS = 10_000


class ParserPool:
    """Parses any number of mails at a time, each in a child process under limits."""

    def __init__(
        self,
        settings: ParserSettings,
        telemetry: Telemetry,
        limits: ParseLimits | None = None,
        *,
        quick: float = 0.0,
        nice: int = 0,
    ) -> None:
        """Defer mails that take ``quick`` seconds of processor time; 0 defers none."""
        self._settings = settings
        self._telemetry = telemetry
        self._limits = limits or ParseLimits()
        self._quick = quick
        self._nice = nice
        self._children: list[ParserChild] = []
        self._waiting: FairQueue[ParseTask] = FairQueue()
        #: until when the mails of a flow are deferred at once
        self._slow_until: dict[MailFlow, float] = {}
        #: since when there is a child to wait for
        self._ready_since = 0.0
        self._checks: asyncio.TimerHandle | None = None
        self._failed_starts = 0
        self._backoff = Backoff()
        self._starters: set[asyncio.Task[None]] = set()
        self._stopping = False

    async def __aenter__(self) -> Self:
        """Start the children."""
        for _ in range(child_count(self._settings)):
            self._start_child_after(0)
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Stop the children; the calls that still wait fail with ParserUnavailable."""
        self._stopping = True
        for starter in list(self._starters):
            starter.cancel()
        await asyncio.gather(*self._starters, return_exceptions=True)
        await asyncio.gather(*(child.stop(_STOP_WITHIN) for child in list(self._children)))
        self._fail_waiting()

    async def parse(self, raw: bytes, flow: MailFlow = _NO_FLOW) -> ParsedMail:
        """Return the parsed mail; one that breaks the parser has no content.

        Raises: ParserUnavailable, if no child can be started, or all are being stopped;
        ParsingDeferred, in a pool with a quick limit.
        """
        if self._slow_until.get(flow, 0.0) > clock.steady():
            raise ParsingDeferred("crowded")
        result = await self._submit(ParseTask("parse", raw, _NO_RECORDS, flow, self._quick))
        if isinstance(result, bytes):
            parsed = _PARSED.decode(result)
        elif result is None or result is ChildDeath.CRASH:
            parsed = ParsedMail(status=ParseStatus.UNPARSED)
        else:
            parsed = ParsedMail(status=ParseStatus.LIMITED)
        self._telemetry.parsed.labels(parsed.status.value).inc()
        faults.point("parse.answered")
        return parsed

    async def check(
        self,
        raw: bytes,
        answers: Mapping[str, list[bytes]] = _NO_RECORDS,
        flow: MailFlow = _NO_FLOW,
    ) -> Any:
        """Return the results of a mail's DKIM signatures, given the TXT records of their keys.

        None if the mail broke the parser. Raises: ParserUnavailable.
        """
        result = await self._submit(ParseTask("check", raw, answers, flow))
        return msgspec.msgpack.decode(result) if isinstance(result, bytes) else None

    @property
    def pids(self) -> list[int]:
        """The ids of the children's processes."""
        return [child.pid for child in self._children]

    async def _submit(self, task: ParseTask) -> bytes | ChildDeath | None:
        if self._stopping:
            raise _unavailable()
        self._waiting.push(task.flow, task)
        self._dispatch()
        if self._quick and self._checks is None and self._waiting:
            self._check_later()
        return await task.done

    def _dispatch(self) -> None:
        """Send waiting mails to the children with the fewest mails."""
        while self._waiting:
            child = min(self._children, key=lambda each: len(each.queued), default=None)
            if child is None or len(child.queued) >= _MAX_QUEUED:
                return
            task = self._waiting.pop()
            if task.done.done():  # the caller is gone
                continue
            if not child.accepts(task):
                self._waiting.push_back(task.flow, task)
                return
            child.send(task)

    def _check_later(self) -> None:
        self._checks = asyncio.get_running_loop().call_later(_CHECK_EVERY, self._defer_old)

    def _defer_old(self) -> None:
        """Defer mails whose turn has not come in time, although there is a child.

        The mail whose turn is next stays: it is of whoever used the parsers least.
        """
        self._checks = None
        before = clock.steady() - _PATIENCE
        is_ready = self._ready_since <= before and any(child.ready for child in self._children)
        if self._waiting and is_ready:
            following = self._waiting.pop()
            for task in self._waiting.pop_while(
                lambda task: task.operation == "parse" and task.since <= before
            ):
                task.defer("crowded")
            self._waiting.push_back(following.flow, following)
        if self._waiting and not self._stopping:
            self._check_later()

    def _start_child_after(self, wait: float) -> None:
        starter = asyncio.create_task(self._start_child(wait), name="oncebox-parsers")
        self._starters.add(starter)
        starter.add_done_callback(self._starters.discard)

    async def _start_child(self, wait: float) -> None:
        await asyncio.sleep(wait)
        settings = self._settings
        options = ChildOptions(
            cpu=settings.cpu,
            memory=settings.memory * _MIB,
            limits=self._limits,
            nice=self._nice,
        )
        passed = {name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ}
        try:
            _, child = await asyncio.get_running_loop().subprocess_exec(
                lambda: ParserChild(settings, self._on_answer, self._on_death),
                sys.executable, "-P", "-m", "oncebox.workers.mail.parser_process",
                msgspec.json.encode(options).decode(),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,  # it could quote mail
                env={**passed, "PYTHONUTF8": "1", "PYTHONDONTWRITEBYTECODE": "1"},
                close_fds=True,
                start_new_session=True,
            )  # fmt: skip
        except OSError:  # no process can be started now
            self._count_failed_start()
            return
        if self._stopping:
            await child.stop(0)
            return
        self._children.append(child)
        self._dispatch()

    def _on_answer(self, task: ParseTask | None, seconds: float) -> None:
        """Charge the mail that was answered; without one, a child has become ready."""
        self._failed_starts = 0
        if task is None:
            self._ready_since = clock.steady()
        else:
            self._waiting.charge(task.flow, seconds)
            if task.is_abandoned:
                self._remember_slow(task.flow)
        self._dispatch()

    def _remember_slow(self, flow: MailFlow) -> None:
        self._slow_until.pop(flow, None)
        while len(self._slow_until) >= _MAX_SLOW_FLOWS:
            del self._slow_until[next(iter(self._slow_until))]
        self._slow_until[flow] = clock.steady() + _SLOW_FOR

    def _on_death(self, child: ParserChild, death: ChildDeath) -> None:
        """Take a dead child's mails back, and start another child."""
        with suppress(ValueError):
            self._children.remove(child)
        left = list(child.queued)
        if self._stopping:
            self._return(left)
            return
        self._telemetry.parser_deaths.labels(death.value).inc()
        self._telemetry.log.warning("parser_died", cause=death.value)
        if left and child.ready:
            suspect = left[0]  # the oldest mail is the one that the child was parsing
            self._waiting.charge(suspect.flow, clock.steady() - child.began)
            if suspect.alone or death in {ChildDeath.CPU, ChildDeath.WALL}:
                suspect.finish(death)
                del left[0]
            else:
                suspect.alone = True  # perhaps not its fault: parse it again, alone
        self._return(left)
        if child.ready:
            self._start_child_after(0)
            self._dispatch()
        else:
            self._count_failed_start()

    def _return(self, tasks: list[ParseTask]) -> None:
        """Let mails wait for another child, before the others of their flows."""
        for task in reversed(tasks):
            task.since = clock.steady()
            self._waiting.push_back(task.flow, task)

    def _count_failed_start(self) -> None:
        self._failed_starts += 1
        if self._failed_starts >= _MAX_FAILED_STARTS:
            self._fail_waiting()  # later calls may be luckier
        self._start_child_after(self._backoff.delay_after(0))

    def _fail_waiting(self) -> None:
        for task in self._waiting.clear():
            if not task.done.done():
                task.done.set_exception(_unavailable())


def child_count(settings: ParserSettings) -> int:
    """Return the number of children: as configured, else one for each processor but one."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    return settings.children or max(1, min(_MAX_CHILDREN, processors - 1))


def _unavailable() -> ParserUnavailable:
    return ParserUnavailable("no parser process is available just now; try again shortly")
