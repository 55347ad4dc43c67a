"""A user's blocking function in a thread of its own; patience; the watchdog."""

import asyncio
import contextvars
import threading
import time

import pytest

from oncebox.core.metrics import Telemetry
from oncebox.db.group_commit import retry_until_available
from oncebox.errors import CommitUnknown, DatabaseBusy, RowRefused
from oncebox.model.deliveries.retry import describe_error
from oncebox.workers.deliveries.once import run_in_thread
from oncebox.workers.process.child_control import Watchdog

_name = contextvars.ContextVar("_name", default="nobody")


async def test_a_function_runs_in_a_thread_of_its_own_with_the_callers_context() -> None:
    _name.set("ann")

    thread, name = await run_in_thread(lambda: (threading.current_thread(), _name.get()))

    assert thread is not threading.main_thread()
    assert name == "ann"


async def test_what_a_function_raises_reaches_the_caller() -> None:
    def broken() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await run_in_thread(broken)


async def test_a_function_that_raises_stop_iteration_does_not_hang_its_caller() -> None:
    def broken() -> None:
        raise StopIteration

    with pytest.raises(RuntimeError, match="StopIteration"):
        await run_in_thread(broken)


async def test_stuck_functions_keep_nobody_else_waiting() -> None:
    go_on = threading.Event()
    stuck = [asyncio.create_task(run_in_thread(lambda: go_on.wait(20))) for _ in range(50)]
    await asyncio.sleep(0)

    assert await run_in_thread(lambda: 1) == 1
    go_on.set()
    assert all(await asyncio.gather(*stuck))


async def test_a_cancelled_caller_does_not_hear_of_the_end() -> None:
    go_on = threading.Event()
    call = asyncio.create_task(run_in_thread(lambda: go_on.wait(20)))
    await asyncio.sleep(0.01)
    call.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.sleep(0.01)


async def test_a_write_is_repeated_until_the_store_is_back() -> None:
    failures: list[Exception] = [DatabaseBusy(), CommitUnknown()]

    async def write() -> str:
        if failures:
            raise failures.pop()
        return "written"

    assert await retry_until_available(write) == "written"


async def test_a_write_that_was_refused_is_not_repeated() -> None:
    calls = []

    async def write() -> None:
        calls.append(1)
        raise RowRefused

    with pytest.raises(RowRefused):
        await retry_until_available(write)
    assert calls == [1]


async def test_the_watchdog_ends_a_process_whose_loop_is_blocked() -> None:
    ended = threading.Event()
    watching = asyncio.create_task(Watchdog(Telemetry(), limit=0.6, end=ended.set).watch())
    await asyncio.sleep(0.05)
    assert not ended.is_set()

    give_up = time.monotonic() + 20
    while not ended.is_set() and time.monotonic() < give_up:
        time.sleep(0.01)  # noqa: ASYNC251 - to block the loop is the point

    assert ended.is_set()
    watching.cancel()


async def test_the_watchdog_leaves_a_busy_but_living_loop_alone() -> None:
    ended = threading.Event()
    watching = asyncio.create_task(Watchdog(Telemetry(), limit=5, end=ended.set).watch())
    for _ in range(50):
        await asyncio.sleep(0)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)

    assert not ended.is_set()


async def test_a_watchdog_without_a_limit_sleeps() -> None:
    await Watchdog(Telemetry(), limit=0).watch()


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("two\nlines"), "ValueError: two lines"),
        (ValueError(), "ValueError"),
        (RowRefused("no"), "row_refused: no"),
        (ValueError("a\0b"), "ValueError: a b"),
        (ValueError("\ud800"), "ValueError: ?"),
    ],
)
def test_an_error_is_described_in_one_short_line(error: Exception, line: str) -> None:
    assert describe_error(error) == line


def test_a_long_error_is_cut() -> None:
    assert len(describe_error(ValueError("x" * 10_000))) == 500
