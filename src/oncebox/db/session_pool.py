"""Session pool: threads that each own one database connection and take jobs from a queue."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread, get_native_id
from typing import Any, Generic, Protocol, TypeVar

from oncebox.core import clock
from oncebox.errors import (
    CommitOverdue,
    DatabaseClosed,
    DatabaseOverdue,
    DiskFull,
    StoreUnavailable,
)


class DatabaseSession(Protocol):
    """One connection."""

    @property
    def broken(self) -> bool:
        """Whether the connection must be replaced."""

    def close(self) -> None:
        """Close the connection."""


S = TypeVar("S", bound=DatabaseSession)
T = TypeVar("T")


#: what a job returned, or the error it raised
JobResult = tuple[object, BaseException | None]


def database_overdue() -> DatabaseOverdue:
    """Return the error of a call that the database did not begin in time."""
    return DatabaseOverdue("the database does not answer; nothing was stored; try again later")


def commit_overdue() -> CommitOverdue:
    """Return the error of a call that may still be committed."""
    return CommitOverdue("the database does not answer; repeat the call with the same key")


class Job:
    """A function of a session or a transaction, and the future of its result."""

    __slots__ = ("_begun", "exclusive", "function", "future", "is_statement", "loop", "since")

    def __init__(self, work: Callable[[Any], Any], *, alone: bool, statement: bool) -> None:
        """Belong to the running loop; an ``alone`` job shares its transaction with none."""
        self.function = work
        self.exclusive = alone
        self.is_statement = statement
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.since = clock.steady()
        #: acquired once: by the thread that begins it, or by its deadline
        self._begun = Lock()

    def begin(self) -> bool:
        """Return whether it may run; after that, nothing can prevent it any more."""
        return self._begun.acquire(blocking=False)

    def give_up(self, *, writes: bool) -> bool:
        """Answer the caller before the database does; return whether the job goes on."""
        is_running = not self.begin()
        if not self.future.done():
            error = commit_overdue() if is_running and writes else database_overdue()
            self.future.set_exception(error)
        return is_running

    def finish(
        self, result: object, error: BaseException | None, done: Callable[["Job", Any], None]
    ) -> None:
        """Call ``done`` with the error and resolve the future, in its loop, from another thread."""
        # The loop may be closed if the program ends in the middle of a job.
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._resolve_future, result, error, done)

    def _resolve_future(
        self, result: object, error: BaseException | None, done: Callable[["Job", Any], None]
    ) -> None:
        done(self, error)
        if self.future.done():
            return  # its caller is gone, or was answered by the deadline
        if error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(error)


class SessionPool(Generic[S]):
    """Threads that each open a session when first needed, and again after it broke."""

    def __init__(
        self, name: str, size: int, connect: Callable[[], S], *, writes: bool = True
    ) -> None:
        """Start ``size`` threads; none connects yet."""
        self._connect = connect
        self._writes = writes
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._closed = False
        #: seconds after which the caller of a job is answered in any case
        self.deadline: float | None = None
        #: jobs with a deadline, the oldest first
        self._waiting: dict[Job, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        #: whether a job found the disk full since this was last set to False
        self.disk_full = False
        #: jobs whose callers were answered by the deadline and that still run
        self._overdue: set[Job] = set()
        self._threads = [
            Thread(target=self._thread_main, name=f"oncebox-{name}-{number}", daemon=True)
            for number in range(size)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def overdue(self) -> int:
        """How many jobs run although their callers were answered by the deadline."""
        return len(self._overdue)

    async def submit(
        self, work: Callable[[Any], T], *, alone: bool = False, statement: bool = False
    ) -> T:
        """Run a function of a session in one of the threads; one hop there, one back.

        A ``statement`` is a transaction by itself. A job that runs ``alone`` has no deadline.
        """
        return await self.start(work, alone=alone, statement=statement)

    def start(
        self, work: Callable[[Any], T], *, alone: bool = False, statement: bool = False
    ) -> asyncio.Future[T]:
        """Start a function as ``submit`` does, without waiting for its result."""
        job = Job(work, alone=alone, statement=statement)
        if self._closed:
            job.future.set_exception(DatabaseClosed("this database was closed; open it again"))
            return job.future
        if self.deadline is not None and not alone:
            self._waiting[job] = None
            if self._timer is None:
                self._timer = job.loop.call_later(self.deadline, self._answer_overdue)
        self._jobs.put(job)
        return job.future

    def _answer_overdue(self) -> None:
        """Answer the callers that have waited for too long; a job that has begun goes on."""
        self._timer = None
        deadline = self.deadline or 0.0
        now = clock.steady()
        while self._waiting:
            job = next(iter(self._waiting))
            if (left := job.since + deadline - now) > 0:
                self._timer = job.loop.call_later(left, self._answer_overdue)
                return
            del self._waiting[job]
            if job.give_up(writes=self._writes):
                self._overdue.add(job)

    def _job_done(self, job: Job, error: BaseException | None) -> None:
        self._waiting.pop(job, None)
        self._overdue.discard(job)
        if isinstance(error, DiskFull):
            self.disk_full = True

    async def close(self) -> None:
        """Finish the jobs already given, then close every session.

        What is not finished by the deadline is left alone: it ends with the process.
        """
        self._closed = True
        for _ in self._threads:
            self._jobs.put(None)
        until = None if self.deadline is None else clock.steady() + self.deadline
        for thread in self._threads:
            left = None if until is None else max(0.0, until - clock.steady())
            await asyncio.to_thread(thread.join, 0.0 if self._overdue else left)
        if self._timer is not None:
            self._timer.cancel()
        for job in self._waiting:
            if not job.future.done():
                job.future.set_exception(StoreUnavailable("the program is stopping; try again"))

    def next_jobs(self) -> list[Job]:
        """Wait for the next jobs; none when the pool closes."""
        job = self._jobs.get()
        return [] if job is None else [job]

    def run_jobs(self, session: S, jobs: list[Job]) -> list[JobResult]:
        """Run jobs; an error is the result of all of them."""
        return [(job.function(session), None) for job in jobs]

    def _thread_main(self) -> None:
        _reduce_timer_slack()
        session: S | None = None
        while jobs := self.next_jobs():
            jobs = [job for job in jobs if job.begin()]
            if not jobs:
                continue  # their callers have given up
            try:
                if session is None:
                    session = self._connect()
                answers = self.run_jobs(session, jobs)
            except BaseException as error:  # noqa: BLE001 - it belongs to the caller, not the thread
                answers = [(None, error)] * len(jobs)
            if session is not None and session.broken:
                _close_quietly(session)
                session = None
            for job, (result, failure) in zip(jobs, answers, strict=True):
                job.finish(result, failure, self._job_done)
            del jobs, answers, job, result, failure
        if session is not None:
            _close_quietly(session)


def _reduce_timer_slack() -> None:
    """Let this thread wait for the interpreter's lock no longer than the switch interval.

    Linux lets a timed wait take 50 µs longer by default; elsewhere nothing is changed.
    """
    with suppress(OSError):
        Path(f"/proc/{get_native_id()}/timerslack_ns").write_text("1")


def _close_quietly(session: DatabaseSession) -> None:
    with suppress(Exception):
        session.close()
