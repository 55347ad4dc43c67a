"""Running a user's blocking function in a thread of its own."""

import asyncio
import contextvars
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from types import TracebackType
from typing import Any


async def in_thread(function: Callable[[], Any]) -> Any:
    """Run a function in a fresh thread.

    A thread cannot be cancelled. A fresh one for each call means that a function that never
    returns keeps only its own thread, and no pool of ours fills up with the stuck.
    Who is cancelled meanwhile is told, by the traceback, where the function is.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            result, failure = context.run(function), None
        except BaseException as error:  # noqa: BLE001 - it belongs to the caller
            result, failure = None, error
        with suppress(RuntimeError):  # the loop is gone, and so is whoever waited
            loop.call_soon_threadsafe(_answer, future, result, failure)

    thread = Thread(target=run, name="oncebox-call", daemon=True)
    thread.start()
    try:
        return await future
    except asyncio.CancelledError as error:
        if future.cancelled():  # not the function's own
            raise error.with_traceback(_place_in(thread)) from None
        raise


def _place_in(thread: Thread) -> TracebackType | None:
    """Return where a thread is now, as a traceback."""
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 - it is documented
    trace = None
    while frame is not None:
        trace = TracebackType(trace, frame, frame.f_lasti, frame.f_lineno or 0)
        frame = frame.f_back
    return trace


def _answer(future: asyncio.Future[Any], result: object, failure: BaseException | None) -> None:
    if future.done():
        return
    if failure is None:
        future.set_result(result)
    elif isinstance(failure, StopIteration):
        future.set_exception(RuntimeError("the function raised StopIteration"))
    else:
        future.set_exception(failure)
