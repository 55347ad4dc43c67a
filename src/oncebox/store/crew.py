"""Threads that each own one database session and take jobs from one queue."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, Protocol, TypeVar

from oncebox.errors import DatabaseClosed


class Session(Protocol):
    """One connection."""

    @property
    def broken(self) -> bool:
        """Whether the connection must be replaced."""

    def close(self) -> None:
        """Let go of the connection."""


S = TypeVar("S", bound=Session)
T = TypeVar("T")


class _Job(Generic[S]):
    """A function of a session, and where its answer goes."""

    __slots__ = ("future", "loop", "work")

    def __init__(self, work: Callable[[S], Any]) -> None:
        self.work = work
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()

    def answer(self, result: object, error: BaseException | None) -> None:
        # The loop may be gone when the program ends in the middle of a job.
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._settle, result, error)

    def _settle(self, result: object, error: BaseException | None) -> None:
        if self.future.cancelled():
            return
        if error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(error)


class Crew(Generic[S]):
    """A few threads, each opening its own session when first needed and after it broke."""

    def __init__(self, name: str, size: int, connect: Callable[[], S]) -> None:
        """Start ``size`` threads; none connects yet."""
        self._connect = connect
        self._jobs: SimpleQueue[_Job[S] | None] = SimpleQueue()
        self._closed = False
        self._threads = [
            Thread(target=self._work, name=f"oncebox-{name}-{number}", daemon=True)
            for number in range(size)
        ]
        for thread in self._threads:
            thread.start()

    async def do(self, work: Callable[[S], T]) -> T:
        """Run a function of a session in one of the threads; one hop there, one back."""
        if self._closed:
            message = "this database was closed; open it again"
            raise DatabaseClosed(message)
        job = _Job(work)
        self._jobs.put(job)
        answer: T = await job.future
        return answer

    async def close(self) -> None:
        """Finish the jobs already given, then close every session."""
        self._closed = True
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

    def _work(self) -> None:
        session: S | None = None
        while (job := self._jobs.get()) is not None:
            try:
                if session is None:
                    session = self._connect()
                result, failure = job.work(session), None
            except BaseException as error:  # noqa: BLE001 - it belongs to the caller, not the thread
                result, failure = None, error
            if session is not None and session.broken:
                _discard(session)
                session = None
            job.answer(result, failure)
            del job, result, failure
        if session is not None:
            _discard(session)


def _discard(session: Session) -> None:
    with suppress(Exception):
        session.close()
