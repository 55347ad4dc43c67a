"""`AsyncRunner`: runs calls and plans over httpx in the caller's task; heartbeats in a task.

``sync/runner.py`` is its counterpart for threads. Both are written by hand; the rest of ``sync``
is generated from this package.
"""

import asyncio
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeAlias, TypeVar

import httpx2

from oncebox.client.core import network
from oncebox.client.core.calls import (
    Call,
    CloseStep,
    HttpReply,
    ListFollower,
    OpenedStream,
    OpenStep,
    PageOf,
    PauseStep,
    Plan,
    ReadStep,
    RunStep,
    SendStep,
    Step,
    TimeoutStep,
    call_with_retries,
)
from oncebox.client.errors import ClientClosed
from oncebox.errors.http import Unauthenticated
from oncebox.model.deliveries.effects import is_async

T = TypeVar("T")
R = TypeVar("R")
Items: TypeAlias = Iterable[T] | AsyncIterable[T]


class AsyncRunner:
    """Runs calls and plans, each in the task that awaits it."""

    def __init__(self, url: str, timeout: float, http: httpx2.AsyncClient, key_source: str) -> None:
        self.url = url
        #: the deadline of each call in seconds
        self._timeout = timeout
        self._http = http
        self._key_source = key_source
        #: plans of what is still open, run before the connections are closed
        self.endings: set[Callable[[], Plan[None]]] = set()
        self._background: set[asyncio.Task[None]] = set()

    @classmethod
    def connect(
        cls,
        url: str | None,
        key: str | None,
        *,
        timeout: float,
        tls: ssl.SSLContext | None,
        transport: httpx2.AsyncBaseTransport | None,
    ) -> Self:
        """Return a runner for the service that ``network.find`` finds."""
        settings = network.connection_settings(url, key, tls, timeout)
        transport = transport or httpx2.AsyncHTTPTransport(
            verify=settings.tls, trust_env=False, retries=0, limits=network.POOL_LIMITS
        )
        http = httpx2.AsyncClient(transport=transport, headers=settings.headers, trust_env=False)
        return cls(settings.url, timeout, http, settings.key_source)

    def within(self, seconds: float) -> "AsyncRunner":
        """Return a runner with another deadline and the same connections."""
        timeout = network.check_timeout(seconds)
        other = AsyncRunner(self.url, timeout, self._http, self._key_source)
        other.endings = self.endings
        return other

    async def close(self) -> None:
        """End what is still open, and close the connections."""
        while self.endings and not self._http.is_closed:
            await self.run(self.endings.pop()())
        await self._http.aclose()

    async def run(self, what: Call[T] | Plan[T]) -> T:
        """Return the result of a call or a plan."""
        plan = call_with_retries(what, within=self._timeout) if isinstance(what, Call) else what
        try:
            step = next(plan)
            while True:
                try:
                    result = await self._run_step(step)
                except GeneratorExit:  # the coroutine was closed, not cancelled
                    plan.close()
                    raise
                except BaseException as error:  # noqa: BLE001 - the plan decides
                    step = plan.throw(error)
                else:
                    step = plan.send(result)
        except StopIteration as end:
            value: T = end.value
            return value
        except Unauthenticated as error:
            network.with_key_source(error, self._key_source)
            raise

    async def iterate(
        self, first: Call[PageOf[T]], *, follow: bool = False, idle: float | None = None
    ) -> AsyncIterator[T]:
        """Yield the items of a list, read page by page; ``follow`` waits for more at the end."""
        follower = ListFollower(call=first, follow=follow, idle=idle)
        while (page := await self.run(follower.next())) is not None:
            for item in page.data:
                yield item

    async def run_in_chunks(
        self,
        items: Items[T],
        is_full: Callable[[Sequence[T], T], bool],
        plan: Callable[[Sequence[T]], Plan[list[R]]],
    ) -> AsyncIterator[R]:
        """Run a plan for some items at a time; yield the results of each.

        ``is_full`` says whether a chunk ends before the next item.
        """
        async for chunk in _chunks(items, is_full):
            for result in await self.run(plan(chunk)):
                yield result

    async def _run_step(self, step: Step) -> Any:
        match step:
            case Call():
                return await self.run(step)
            case SendStep():
                return await self._send(step)
            case PauseStep():
                return await asyncio.sleep(step.seconds)
            case RunStep():
                return await self._run_function(step)
            case OpenStep() | ReadStep() | CloseStep():
                return await self._stream(step)
            case TimeoutStep():
                return self._timeout

    async def _send(self, step: SendStep) -> HttpReply:
        async with self._within_deadline(step.within):
            response = await self._http.send(self._request(step))
            return HttpReply(response.status_code, response.headers, response.content)

    async def _stream(self, step: OpenStep | ReadStep | CloseStep) -> Any:
        match step:
            case OpenStep():
                async with self._within_deadline(step.within):
                    response = await self._http.send(self._request(step), stream=True)
                    return await _opened_stream(response)
            case ReadStep():
                async with self._within_deadline(step.within):
                    return await anext(step.stream.chunks, b"")
            case CloseStep():
                return await step.stream.response.aclose()

    def _request(self, step: SendStep | OpenStep) -> httpx2.Request:
        if self._http.is_closed:
            raise ClientClosed("this client is closed; make a new one")
        method, path, headers, content = step.request
        # Reads and writes have no timeouts of their own: the deadline bounds them together.
        connect = min(step.within, network.CONNECT_TIMEOUT)
        timeout = httpx2.Timeout(None, connect=connect, pool=step.within)
        return self._http.build_request(
            method, self.url + path, headers=headers, content=content, timeout=timeout
        )

    @asynccontextmanager
    async def _within_deadline(self, seconds: float) -> AsyncIterator[None]:
        """Enforce a deadline and map the errors of httpx."""
        try:
            async with asyncio.timeout(seconds):
                yield
        except (httpx2.RequestError, httpx2.StreamError, TimeoutError) as error:
            raise network.connection_error(error, self.url, seconds) from error

    async def _run_function(self, step: RunStep) -> Any:
        """Call a function of the user; a plain one runs in a thread that cannot be stopped."""
        if is_async(step.function):
            async with asyncio.timeout(step.within):
                return await step.function()
        thread = asyncio.ensure_future(asyncio.to_thread(_call, step.function))
        try:
            async with asyncio.timeout(step.within):
                return await asyncio.shield(thread)
        except (TimeoutError, asyncio.CancelledError):
            if not thread.done():
                late = asyncio.create_task(self._record_late_success(step, thread))
                self._background.add(late)
                late.add_done_callback(self._background.discard)
                if step.on_still_running is not None:
                    await self.run(step.on_still_running())
            raise

    async def _record_late_success(self, step: RunStep, thread: "asyncio.Future[Any]") -> None:
        """Wait for a function that outlived its time, and record its success."""
        await asyncio.wait([thread])
        if step.on_late_success is not None and thread.exception() is None:
            await self.run(step.on_late_success(thread.result()))


def _call(function: Callable[[], Any]) -> Any:
    """Call a plain function; a future cannot carry StopIteration, and would never end."""
    try:
        return function()
    except StopIteration as error:
        raise RuntimeError("the function raised StopIteration") from error


class AsyncResource:
    """Base of the resources of a client."""

    def __init__(self, runner: AsyncRunner) -> None:
        self._runner = runner
        self._run = runner.run


class AsyncHeartbeats:
    """Renews a lease from a task while a block runs, and cancels the block if it is lost."""

    def __init__(self, runner: AsyncRunner) -> None:
        self._runner = runner
        self._scope = asyncio.timeout(None)
        self._task: asyncio.Task[None] | None = None

    async def start(self, heartbeats: Plan[bool] | None) -> None:
        """Enter the block and run a plan of heartbeats; if it returns True, cancel the block."""
        await self._scope.__aenter__()
        if heartbeats is not None:
            self._task = asyncio.create_task(self._run(heartbeats))

    async def leave(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> TimeoutError | None:
        """Leave the block; return an error if the heartbeats cancelled it."""
        try:
            await self._scope.__aexit__(kind, error, trace)
        except TimeoutError as stopped:
            return stopped
        return None

    def stop(self) -> None:
        """End the heartbeats."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self, heartbeats: Plan[bool]) -> None:
        if await self._runner.run(heartbeats):
            with suppress(RuntimeError):  # the block has ended already
                self._scope.reschedule(asyncio.get_running_loop().time())


async def _each(items: Items[T]) -> AsyncIterator[T]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item


async def _chunks(
    items: Items[T], is_full: Callable[[Sequence[T], T], bool]
) -> AsyncIterator[list[T]]:
    chunk: list[T] = []
    async for item in _each(items):
        if is_full(chunk, item):
            yield chunk
            chunk = []
        chunk.append(item)
    if chunk:
        yield chunk


class _OpenStream(NamedTuple):
    response: httpx2.Response
    chunks: AsyncIterator[bytes]


async def _opened_stream(response: httpx2.Response) -> OpenedStream:
    head = HttpReply(response.status_code, response.headers, b"")
    if network.is_stream(response):
        return OpenedStream(head, _OpenStream(response, response.aiter_raw()))
    try:
        return OpenedStream(head._replace(body=await response.aread()), None)
    finally:
        await response.aclose()
