"""`SyncRunner`: runs calls and plans over httpx in the caller's thread; heartbeats in a thread.

``asynchronous/runner.py`` is its counterpart for tasks. A socket's own timeout restarts with
every byte, so an answer that trickles in could take forever: here every socket operation is
bounded by the deadline of the call.
"""

import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import inf
from typing import Any, NamedTuple, Self, TypeAlias, TypeVar

import httpcore2
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
from oncebox.core import clock
from oncebox.errors import OnceboxError
from oncebox.errors.http import Unauthenticated

T = TypeVar("T")
R = TypeVar("R")
Items: TypeAlias = Iterable[T]
Sleep = Callable[[float], Any]


class SyncRunner:
    """Runs calls and plans, each in the thread that asks."""

    def __init__(
        self,
        url: str,
        timeout: float,
        http: httpx2.Client,
        deadline: "Deadline",
        key_source: str,
    ) -> None:
        self.url = url
        #: the deadline of each call in seconds
        self._timeout = timeout
        self._http = http
        self._key_source = key_source
        #: plans of what is still open, run before the connections are closed
        self.endings: set[Callable[[], Plan[None]]] = set()
        self._deadline = deadline

    @classmethod
    def connect(
        cls, url: str | None, key: str | None, *, timeout: float, tls: ssl.SSLContext | None
    ) -> Self:
        """Return a runner for the service that ``network.find`` finds."""
        settings = network.connection_settings(url, key, tls, timeout)
        deadline = Deadline()
        transport = DeadlineTransport(deadline, settings.tls)
        http = httpx2.Client(transport=transport, headers=settings.headers, trust_env=False)
        return cls(settings.url, timeout, http, deadline, settings.key_source)

    def within(self, seconds: float) -> "SyncRunner":
        """Return a runner with another deadline and the same connections."""
        timeout = network.check_timeout(seconds)
        other = SyncRunner(self.url, timeout, self._http, self._deadline, self._key_source)
        other.endings = self.endings
        return other

    def close(self) -> None:
        """End what is still open, and close the connections."""
        while self.endings and not self._http.is_closed:
            self.run(self.endings.pop()())
        self._http.close()

    def run(self, what: Call[T] | Plan[T], sleep: Sleep = time.sleep) -> T:
        """Return the result of a call or a plan."""
        plan = call_with_retries(what, within=self._timeout) if isinstance(what, Call) else what
        try:
            step = next(plan)
            while True:
                try:
                    result = self._run_step(step, sleep)
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

    def iterate(
        self, first: Call[PageOf[T]], *, follow: bool = False, idle: float | None = None
    ) -> Iterator[T]:
        """Yield the items of a list, read page by page; ``follow`` waits for more at the end."""
        follower = ListFollower(call=first, follow=follow, idle=idle)
        while (page := self.run(follower.next())) is not None:
            yield from page.data

    def run_in_chunks(
        self,
        items: Items[T],
        is_full: Callable[[Sequence[T], T], bool],
        plan: Callable[[Sequence[T]], Plan[list[R]]],
    ) -> Iterator[R]:
        """Run a plan for some items at a time; yield the results of each.

        ``is_full`` says whether a chunk ends before the next item.
        """
        for chunk in _chunks(items, is_full):
            yield from self.run(plan(chunk))

    def _run_step(self, step: Step, sleep: Sleep) -> Any:
        match step:
            case Call():
                return self.run(step, sleep)
            case SendStep():
                return self._send(step)
            case PauseStep():
                return sleep(step.seconds)
            case RunStep():
                return step.function()
            case OpenStep() | ReadStep() | CloseStep():
                return self._stream(step)
            case TimeoutStep():
                return self._timeout

    def _send(self, step: SendStep) -> HttpReply:
        with self._within_deadline(step.within):
            response = self._http.send(self._request(step))
            return HttpReply(response.status_code, response.headers, response.content)

    def _stream(self, step: OpenStep | ReadStep | CloseStep) -> Any:
        match step:
            case OpenStep():
                with self._within_deadline(step.within):
                    return _opened_stream(self._http.send(self._request(step), stream=True))
            case ReadStep():
                with self._within_deadline(step.within):
                    return next(step.stream.chunks, b"")
            case CloseStep():
                return step.stream.response.close()

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

    @contextmanager
    def _within_deadline(self, seconds: float) -> Iterator[None]:
        """Enforce a deadline and map the errors of httpx."""
        try:
            with self._deadline.within(seconds):
                yield
        except (httpx2.RequestError, httpx2.StreamError) as error:
            raise network.connection_error(error, self.url, seconds) from error


class Resource:
    """Base of the resources of a client."""

    def __init__(self, runner: SyncRunner) -> None:
        self._runner = runner
        self._run = runner.run


class Heartbeats:
    """Renews a lease from a thread while a block runs."""

    def __init__(self, runner: SyncRunner) -> None:
        self._runner = runner
        self._over = threading.Event()

    def start(self, heartbeats: Plan[bool] | None) -> None:
        """Run a plan of heartbeats."""
        if heartbeats is not None:
            threading.Thread(
                target=self._run, args=(heartbeats,), name="oncebox-heartbeat", daemon=True
            ).start()

    def leave(self, *_error: object) -> TimeoutError | None:
        """Leave the block; a block in a thread is never cancelled."""
        return None

    def stop(self) -> None:
        """End the heartbeats."""
        self._over.set()

    def _run(self, heartbeats: Plan[bool]) -> None:
        with suppress(_HeartbeatsStopped, OnceboxError):  # the block ended or the client closed
            self._runner.run(heartbeats, self._sleep)

    def _sleep(self, seconds: float) -> None:
        if self._over.wait(seconds):
            raise _HeartbeatsStopped


class _HeartbeatsStopped(Exception):
    """Ends a plan of heartbeats."""


class Deadline(threading.local):
    """The end of this thread's call on the steady clock."""

    at = inf

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Set the deadline inside the block."""
        self.at = clock.steady() + seconds
        try:
            yield
        finally:
            self.at = inf

    def left(self, timeout: float | None, late: type[Exception]) -> float | None:
        """Return the seconds left, at most ``timeout``; raise ``late`` if there are none."""
        left = self.at - clock.steady()
        if left <= 0:
            raise late("the deadline of the call has passed")
        return timeout if left == inf else min(left, inf if timeout is None else timeout)


class DeadlineTransport(httpx2.BaseTransport):
    """An httpx transport whose connections keep to the deadline of the call."""

    def __init__(self, deadline: Deadline, tls: ssl.SSLContext) -> None:
        # Without retries, and without proxies from the environment.
        limits = network.POOL_LIMITS
        self._connections = httpcore2.ConnectionPool(
            ssl_context=tls,
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            retries=0,
            network_backend=_DeadlineBackend(deadline),
        )

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request; the body of the response is still to be read."""
        url = request.url
        with _httpx_errors():
            reply = self._connections.handle_request(
                httpcore2.Request(
                    method=request.method,
                    url=httpcore2.URL(
                        scheme=url.raw_scheme,
                        host=url.raw_host,
                        port=url.port,
                        target=url.raw_path,
                    ),
                    headers=request.headers.raw,
                    content=request.stream,
                    extensions=request.extensions,
                )
            )
        return httpx2.Response(
            status_code=reply.status,
            headers=reply.headers,
            stream=_BodyStream(reply),
            extensions=reply.extensions,
        )

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()


class _BodyStream(httpx2.SyncByteStream):
    """The body of a response."""

    def __init__(self, reply: httpcore2.Response) -> None:
        self._reply = reply

    def __iter__(self) -> Iterator[bytes]:
        with _httpx_errors():
            yield from self._reply.iter_stream()

    def close(self) -> None:
        self._reply.close()


@contextmanager
def _httpx_errors() -> Iterator[None]:
    """Raise the errors of httpcore as those of httpx, which have the same names."""
    try:
        yield
    except (httpcore2.TimeoutException, httpcore2.NetworkError, httpcore2.ProtocolError) as error:
        kind: type[httpx2.TransportError] = getattr(
            httpx2, type(error).__name__, httpx2.TransportError
        )
        raise kind(str(error)) from error


class _DeadlineBackend(httpcore2.NetworkBackend):
    """Opens connections that keep to the deadline."""

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline
        self._inner = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        left = self._deadline.left(timeout, httpcore2.ConnectTimeout)
        stream = self._inner.connect_tcp(host, port, left, local_address, socket_options)
        return _DeadlineStream(stream, self._deadline)


class _DeadlineStream(httpcore2.NetworkStream):
    """A connection that keeps to the deadline of the thread that uses it."""

    def __init__(self, inner: httpcore2.NetworkStream, deadline: Deadline) -> None:
        self._inner = inner
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, self._deadline.left(timeout, httpcore2.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), _CHUNK):
            left = self._deadline.left(timeout, httpcore2.WriteTimeout)
            self._inner.write(buffer[start : start + _CHUNK], left)

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        left = self._deadline.left(timeout, httpcore2.ConnectTimeout)
        return _DeadlineStream(
            self._inner.start_tls(ssl_context, server_hostname, left), self._deadline
        )

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


_CHUNK = 65_536


def _chunks(items: Items[T], is_full: Callable[[Sequence[T], T], bool]) -> Iterator[list[T]]:
    chunk: list[T] = []
    for item in items:
        if is_full(chunk, item):
            yield chunk
            chunk = []
        chunk.append(item)
    if chunk:
        yield chunk


class _OpenStream(NamedTuple):
    response: httpx2.Response
    chunks: Iterator[bytes]


def _opened_stream(response: httpx2.Response) -> OpenedStream:
    head = HttpReply(response.status_code, response.headers, b"")
    if network.is_stream(response):
        return OpenedStream(head, _OpenStream(response, response.iter_raw()))
    try:
        return OpenedStream(head._replace(body=response.read()), None)
    finally:
        response.close()
