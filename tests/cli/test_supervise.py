"""The supervisor restarts what dies, waits longer each time, and stops when told."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Sequence

import pytest

from oncebox.core.logging import Log
from oncebox.workers.process.child_control import EXIT_TOO_SLOW
from oncebox.workers.process.supervisor import GIVE_UP, Backoff, Supervisor

FOREVER = "import sys, time; sys.stdin.read()"


def supervised(programs: Sequence[str], *, processes: int = 1) -> tuple[Supervisor, list[int]]:
    """Supervise programs: the first start runs the first, later ones the last."""
    started: list[int] = []

    def command(number: int, starts: int) -> list[str]:
        started.append(number)
        return [sys.executable, "-c", programs[min(starts, len(programs) - 1)]]

    supervisor = Supervisor(command, processes=processes, environ={}, log=Log())
    return supervisor, started


async def wait_for_starts(started: list[int], number: int) -> None:
    async with asyncio.timeout(20):
        while len(started) < number:  # noqa: ASYNC110 - another process is waited for
            await asyncio.sleep(0.01)


def test_the_wait_doubles_up_to_its_bound() -> None:
    backoff = Backoff()

    assert [backoff.delay_after(1.0) for _ in range(7)] == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


def test_a_healthy_life_makes_the_wait_short_again() -> None:
    backoff = Backoff()
    for _ in range(5):
        backoff.delay_after(1.0)

    assert [backoff.delay_after(60.0), backoff.delay_after(59.0)] == [0.2, 0.4]


async def test_any_unexpected_end_is_followed_by_a_start() -> None:
    ends = ["raise SystemExit(0)", "raise SystemExit(3)", FOREVER]
    supervisor, started = supervised(ends)
    running = asyncio.create_task(asyncio.to_thread(supervisor.run))
    await wait_for_starts(started, 3)
    supervisor.stop()

    assert await running is True


async def test_a_child_that_gives_up_ends_them_all() -> None:
    supervisor, started = supervised([f"raise SystemExit({GIVE_UP})"], processes=2)

    assert await asyncio.to_thread(supervisor.run) is False
    assert set(started) == {0, 1}


async def test_a_child_that_cannot_be_started_is_tried_again() -> None:
    started = []

    def command(_number: int, starts: int) -> list[str]:
        started.append(starts)
        return ["/no/such/program"] if starts < 2 else [sys.executable, "-c", FOREVER]

    supervisor = Supervisor(command, processes=1, environ={}, log=Log())
    running = asyncio.create_task(asyncio.to_thread(supervisor.run))
    await wait_for_starts(started, 3)
    supervisor.stop()

    assert await running is True


async def test_a_stop_between_two_lives_starts_nothing_more() -> None:
    supervisor, started = supervised(["pass"])
    running = asyncio.create_task(asyncio.to_thread(supervisor.run))
    await wait_for_starts(started, 3)
    supervisor.stop()

    assert await running is True
    assert len(started) <= 4


async def test_the_second_stop_ends_a_child_that_does_not_listen() -> None:
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    supervisor, started = supervised([deaf])
    running = asyncio.create_task(asyncio.to_thread(supervisor.run))
    await wait_for_starts(started, 1)
    await asyncio.sleep(0.5)
    supervisor.stop()
    await asyncio.sleep(0.2)
    assert not running.done()
    supervisor.stop()

    assert await running is True


BLOCKED = """
import asyncio, os, time
from oncebox.workers.process.child_control import ParentWatch

async def work():
    ParentWatch(lambda: print("stopping", flush=True), within=0.3).start()
    print(repr(os.read(0, 1)), flush=True)
    {rest}

asyncio.run(work())
"""


@pytest.mark.parametrize("told_by", ["signal", "pipe"])
@pytest.mark.parametrize(
    ("rest", "words"), [("time.sleep(600)", ""), ("await asyncio.sleep(600)", "stopping\n")]
)
def test_the_leash_ends_a_process_even_when_its_loop_is_blocked(
    told_by: str, rest: str, words: str
) -> None:
    program = BLOCKED.format(rest=rest)
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == b"b''\n"  # the pipe is not the handlers' to read
        if told_by == "signal":
            child.send_signal(signal.SIGTERM)
        else:
            child.stdin.close()

        assert child.wait(20) == EXIT_TOO_SLOW
        assert child.stdout.read().decode() == words
