"""Session pool: threads that each own one database connection and take jobs from a queue."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread, get_native_id
from typing import Any, Generic, Protocol, TypeVar

from oncebox.errors import DatabaseClosed


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


class Job:
    """A function of a session or a transaction, and the future of its result."""

    __slots__ = ("exclusive", "function", "future", "is_statement", "loop")

    def __init__(self, work: Callable[[Any], Any], *, alone: bool, statement: bool) -> None:
        """Belong to the running loop; an ``alone`` job shares its transaction with none."""
        self.function = work
        self.exclusive = alone
        self.is_statement = statement
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()

    def finish(self, result: object, error: BaseException | None) -> None:
        """Resolve the future, from another thread."""
        # The loop may be closed if the program ends in the middle of a job.
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._resolve_future, result, error)

    def _resolve_future(self, result: object, error: BaseException | None) -> None:
        if self.future.cancelled():
            return
        if error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(error)


class SessionPool(Generic[S]):
    """Threads that each open a session when first needed, and again after it broke."""

    def __init__(self, name: str, size: int, connect: Callable[[], S]) -> None:
        """Start ``size`` threads; none connects yet."""
        self._connect = connect
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._closed = False
        self._threads = [
            Thread(target=self._thread_main, name=f"oncebox-{name}-{number}", daemon=True)
            for number in range(size)
        ]
        for thread in self._threads:
            thread.start()

    async def submit(
        self, work: Callable[[Any], T], *, alone: bool = False, statement: bool = False
    ) -> T:
        """Run a function of a session in one of the threads; one hop there, one back.

        A ``statement`` is a transaction by itself.
        """
        return await self.start(work, alone=alone, statement=statement)

    def start(
        self, work: Callable[[Any], T], *, alone: bool = False, statement: bool = False
    ) -> asyncio.Future[T]:
        """Start a function as ``submit`` does, without waiting for its result."""
        job = Job(work, alone=alone, statement=statement)
        if self._closed:
            job.future.set_exception(DatabaseClosed("this database was closed; open it again"))
        else:
            self._jobs.put(job)
        return job.future

    async def close(self) -> None:
        """Finish the jobs already given, then close every session."""
        self._closed = True
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

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
                job.finish(result, failure)
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
