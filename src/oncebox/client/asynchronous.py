"""The client for programs with an event loop."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, Self, TypeVar, Unpack

import httpx2

from oncebox.client import access, line
from oncebox.client.attempt import AsyncAttempt
from oncebox.client.call import (
    Allowance,
    Call,
    Open,
    Opened,
    Pause,
    Plan,
    Read,
    Reply,
    Request,
    Run,
    Send,
    Shut,
    Step,
    next_page,
)
from oncebox.client.exchange import exchange
from oncebox.client.failures import ClientClosed
from oncebox.client.following import Following
from oncebox.client.room import Later
from oncebox.client.rooms import Rooms
from oncebox.client.shift import Shift
from oncebox.client.tail import Tail
from oncebox.client.work import AsyncWork
from oncebox.model.asking import SendOptions
from oncebox.model.calling import is_async
from oncebox.model.email import Email
from oncebox.wire.events import Event
from oncebox.wire.sends import SendAnswer

T = TypeVar("T")


class AsyncClient(Rooms[Later]):
    """Speaks to a service; any number of tasks of one event loop may share one.

    Without arguments it finds the address and the key as ``access.find`` describes. ``timeout``
    is the deadline of each call in seconds, retries included; ``tls`` is for certificates of
    your own. ``transport`` takes the place of the network, such as ``httpx2.ASGITransport`` for
    a service in the same process.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float = 30.0,
        tls: ssl.SSLContext | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """Prepare; nothing is sent before the first call.

        Raises: ConfigInvalid.
        """
        found = access.find(url, key)
        transport = transport or httpx2.AsyncHTTPTransport(
            verify=line.tls(found.url, tls), trust_env=False, retries=0, limits=line.LIMITS
        )
        http = httpx2.AsyncClient(transport=transport, headers=line.headers(found), trust_env=False)
        self._courier = AsyncCourier(found.url, timeout, http)
        super().__init__(self._courier)

    async def send(
        self, email: Email, *, wait: float = 10.0, **options: Unpack[SendOptions]
    ) -> SendAnswer:
        """Send a mail once, and wait up to so many seconds for what becomes of it.

        The same ``event_type``, ``entity_id``, ``version`` and recipients are the same mail,
        whoever asks and however often; or the same ``key``. The answer's ``status`` says what
        became of it; ``in_flight``: it is on disk, and not over yet.

        Raises: InputRefused, NotFound.
        """
        return await self.sends.send(email, wait=wait, **options)

    def attempt(self, id: str) -> AsyncAttempt:  # noqa: A002 - the word users know
        """Return the handle of an attempt; nothing is asked yet."""
        return AsyncAttempt(self._courier, id)

    def within(self, seconds: float) -> "AsyncClient":
        """Return the same client with another deadline; they share their connections."""
        other = object.__new__(type(self))
        other._courier = self._courier.within(seconds)
        Rooms.__init__(other, other._courier)
        return other

    async def close(self) -> None:
        """Close the connections."""
        await self._courier.close()

    async def __aenter__(self) -> Self:
        """Return the client, to be closed at the end."""
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Close the connections."""
        await self.close()

    def __repr__(self) -> str:
        """Show where it speaks to, never the key."""
        return f"AsyncClient(url={self._courier.url!r})"


class AsyncCourier:
    """Takes the steps of plans, each plan in the task that asks."""

    def __init__(self, url: str, timeout: float, http: httpx2.AsyncClient) -> None:
        """Allow each call so many seconds."""
        self.url = url
        self._timeout = line.checked(timeout)
        self._http = http
        self._background: set[asyncio.Task[None]] = set()

    def within(self, seconds: float) -> "AsyncCourier":
        """Return one with another deadline on the same line."""
        return AsyncCourier(self.url, seconds, self._http)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def carry(self, what: Call[T] | Plan[T]) -> T:
        """Return what comes of a call or a plan."""
        if isinstance(what, Call):
            return await self.drive(exchange(what, within=self._timeout))
        return await self.drive(what)

    async def pages(self, first: Call[Any]) -> AsyncIterator[Any]:
        """Go through a list, fetching its pages as they are read."""
        call: Call[Any] | None = first
        while call is not None:
            page = await self.carry(call)
            for each in page.data:
                yield each
            call = next_page(call, page)

    async def tail(self, tail: Tail[Any, Any]) -> AsyncIterator[Any]:
        """Go through a list that grows, waiting at its end if that is wanted."""
        while (page := await self.drive(tail.next())) is not None:
            for each in page.data:
                yield each

    async def work(self, shift: Shift) -> AsyncIterator[AsyncWork]:
        """Fetch one delivery after another."""
        while (fetched := await self.drive(shift.next())) is not None:
            work = AsyncWork(self, fetched, shift.time_limit)
            yield work
            work.check_used()

    async def follow(self, following: Following) -> AsyncIterator[Event]:
        """Yield events as they happen."""
        try:
            while (event := await self.drive(following.next())) is not None:
                yield event
        finally:
            await self.drive(following.close())

    async def drive(self, plan: Plan[T]) -> T:
        """Take the steps of a plan; return what comes of it."""
        try:
            step = next(plan)
            while True:
                try:
                    result = await self._take(step)
                except GeneratorExit:  # nobody awaits this any more
                    plan.close()
                    raise
                except BaseException as error:  # noqa: BLE001 - the plan decides
                    step = plan.throw(error)
                else:
                    step = plan.send(result)
        except StopIteration as end:
            value: T = end.value
            return value

    async def _take(self, step: Step) -> Any:
        match step:
            case Call():
                return await self.drive(exchange(step, within=self._timeout))
            case Send():
                return await self._send(step)
            case Pause():
                return await asyncio.sleep(step.seconds)
            case Run():
                return await self._run(step)
            case Open() | Read() | Shut():
                return await self._stream(step)
            case Allowance():
                return self._timeout

    async def _send(self, step: Send) -> Reply:
        async with self._bounded(step.within):
            request = self._request(step.request, line.timeout(step.within))
            return line.reply(await self._http.send(request))

    async def _stream(self, step: Open | Read | Shut) -> Any:
        """Take a step of an answer that goes on."""
        match step:
            case Open():
                async with self._bounded(step.within):
                    request = self._request(step.request, line.patience(step.within))
                    return await _opened(await self._http.send(request, stream=True))
            case Read():
                async with self._bounded(step.within):
                    return await anext(step.line.chunks, b"")
            case Shut():
                return await step.line.response.aclose()

    def _request(self, request: Request, timeout: httpx2.Timeout) -> httpx2.Request:
        if self._http.is_closed:
            message = "this client is closed; make a new one"
            raise ClientClosed(message)
        method, path, headers, content = request
        return self._http.build_request(
            method,
            self.url + path,
            headers=headers,
            content=content,
            timeout=timeout,
        )

    @asynccontextmanager
    async def _bounded(self, seconds: float) -> AsyncIterator[None]:
        """Keep to a deadline, and say in our words what goes wrong."""
        try:
            async with asyncio.timeout(seconds):
                yield
        except (httpx2.RequestError, httpx2.StreamError, TimeoutError) as error:
            raise line.broken(error, self.url, seconds) from error

    async def _run(self, step: Run) -> Any:
        """Call a function of the user; a plain one that outlives its time is left to itself."""
        if is_async(step.function):
            async with asyncio.timeout(step.within):
                return await step.function()
        thread = asyncio.ensure_future(asyncio.to_thread(step.function))
        try:
            async with asyncio.timeout(step.within):
                return await asyncio.shield(thread)
        except (TimeoutError, asyncio.CancelledError):
            if not thread.done():  # a thread cannot be stopped
                self._leave(self._outlived(step, thread))
                if step.unstopped is not None:
                    await self.drive(step.unstopped())
            raise

    async def _outlived(self, step: Run, thread: "asyncio.Future[Any]") -> None:
        """Record the late success of a function that outlived its time: it is proof."""
        await asyncio.wait([thread])
        if step.outlived is not None and thread.exception() is None:
            await self.drive(step.outlived(thread.result()))

    def _leave(self, what: Any) -> None:
        task = asyncio.create_task(what)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


class _Line(NamedTuple):
    """An answer that goes on."""

    response: httpx2.Response
    chunks: AsyncIterator[bytes]


async def _opened(response: httpx2.Response) -> Opened:
    if line.goes_on(response):
        head = Reply(response.status_code, response.headers, b"")
        return Opened(head, _Line(response, response.aiter_raw()))
    try:
        await response.aread()
    finally:
        await response.aclose()
    return Opened(line.reply(response), None)
