"""The client for programs that wait for their answers."""

import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Self, TypeVar, Unpack

import httpx2

from oncebox.client import access, line
from oncebox.client.attempt import Attempt
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
from oncebox.client.network import Deadline, Transport
from oncebox.client.room import Now
from oncebox.client.rooms import Rooms
from oncebox.client.shift import Shift
from oncebox.client.tail import Tail
from oncebox.client.work import Work
from oncebox.model.asking import SendOptions
from oncebox.model.email import Email
from oncebox.wire.events import Event
from oncebox.wire.sends import SendAnswer

T = TypeVar("T")
Sleep = Callable[[float], Any]


class Client(Rooms[Now]):
    """Speaks to a service; any number of threads may share one.

    Without arguments it finds the address and the key as ``access.find`` describes. ``timeout``
    is the deadline of each call in seconds, retries included; ``tls`` is for certificates of
    your own.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float = 30.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Prepare; nothing is sent before the first call.

        Raises: ConfigInvalid.
        """
        found = access.find(url, key)
        deadline = Deadline()
        http = httpx2.Client(
            transport=Transport(deadline, line.tls(found.url, tls), line.LIMITS),
            headers=line.headers(found),
            trust_env=False,
        )
        self._courier = Courier(found.url, timeout, http, deadline)
        super().__init__(self._courier)

    def send(
        self, email: Email, *, wait: float = 10.0, **options: Unpack[SendOptions]
    ) -> SendAnswer:
        """Send a mail once, and wait up to so many seconds for what becomes of it.

        The same ``event_type``, ``entity_id``, ``version`` and recipients are the same mail,
        whoever asks and however often; or the same ``key``. The answer's ``status`` says what
        became of it; ``in_flight``: it is on disk, and not over yet.

        Raises: InputRefused, NotFound.
        """
        return self.sends.send(email, wait=wait, **options)

    def attempt(self, id: str) -> Attempt:  # noqa: A002 - the word users know
        """Return the handle of an attempt; nothing is asked yet."""
        return Attempt(self._courier, id)

    def within(self, seconds: float) -> "Client":
        """Return the same client with another deadline; they share their connections."""
        other = object.__new__(type(self))
        other._courier = self._courier.within(seconds)
        Rooms.__init__(other, other._courier)
        return other

    def close(self) -> None:
        """Close the connections."""
        self._courier.close()

    def __enter__(self) -> Self:
        """Return the client, to be closed at the end."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Close the connections."""
        self.close()

    def __repr__(self) -> str:
        """Show where it speaks to, never the key."""
        return f"Client(url={self._courier.url!r})"


class Courier:
    """Takes the steps of plans, one after another, in the thread that asks."""

    def __init__(self, url: str, timeout: float, http: httpx2.Client, deadline: Deadline) -> None:
        """Allow each call so many seconds."""
        self.url = url
        self._timeout = line.checked(timeout)
        self._http = http
        self._deadline = deadline

    def within(self, seconds: float) -> "Courier":
        """Return one with another deadline on the same line."""
        return Courier(self.url, seconds, self._http, self._deadline)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def carry(self, what: Call[T] | Plan[T]) -> T:
        """Return what comes of a call or a plan."""
        if isinstance(what, Call):
            return self.drive(exchange(what, within=self._timeout))
        return self.drive(what)

    def pages(self, first: Call[Any]) -> Iterator[Any]:
        """Go through a list, fetching its pages as they are read."""
        call: Call[Any] | None = first
        while call is not None:
            page = self.carry(call)
            yield from page.data
            call = next_page(call, page)

    def tail(self, tail: Tail[Any, Any]) -> Iterator[Any]:
        """Go through a list that grows, waiting at its end if that is wanted."""
        while (page := self.drive(tail.next())) is not None:
            yield from page.data

    def work(self, shift: Shift) -> Iterator[Work]:
        """Fetch one delivery after another."""
        while (fetched := self.drive(shift.next())) is not None:
            work = Work(self, fetched, shift.time_limit)
            yield work
            work.check_used()

    def follow(self, following: Following) -> Iterator[Event]:
        """Yield events as they happen."""
        try:
            while (event := self.drive(following.next())) is not None:
                yield event
        finally:
            self.drive(following.close())

    def drive(self, plan: Plan[T], sleep: Sleep = time.sleep) -> T:
        """Take the steps of a plan; return what comes of it."""
        try:
            step = next(plan)
            while True:
                try:
                    result = self._take(step, sleep)
                except BaseException as error:  # noqa: BLE001 - the plan decides
                    step = plan.throw(error)
                else:
                    step = plan.send(result)
        except StopIteration as end:
            value: T = end.value
            return value

    def _take(self, step: Step, sleep: Sleep) -> Any:
        match step:
            case Call():
                return self.drive(exchange(step, within=self._timeout), sleep)
            case Send():
                return self._send(step)
            case Pause():
                return sleep(step.seconds)
            case Run():
                return step.function()
            case Open() | Read() | Shut():
                return self._stream(step)
            case Allowance():
                return self._timeout

    def _send(self, step: Send) -> Reply:
        with self._bounded(step.within):
            request = self._request(step.request, line.timeout(step.within))
            return line.reply(self._http.send(request))

    def _stream(self, step: Open | Read | Shut) -> Any:
        """Take a step of an answer that goes on."""
        match step:
            case Open():
                with self._bounded(step.within):
                    request = self._request(step.request, line.patience(step.within))
                    return _opened(self._http.send(request, stream=True))
            case Read():
                with self._bounded(step.within):
                    return next(step.line.chunks, b"")
            case Shut():
                return step.line.response.close()

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

    @contextmanager
    def _bounded(self, seconds: float) -> Iterator[None]:
        """Keep to a deadline, and say in our words what goes wrong."""
        try:
            with self._deadline.within(seconds):
                yield
        except (httpx2.RequestError, httpx2.StreamError) as error:
            raise line.broken(error, self.url, seconds) from error


class _Line(NamedTuple):
    """An answer that goes on."""

    response: httpx2.Response
    chunks: Iterator[bytes]


def _opened(response: httpx2.Response) -> Opened:
    if line.goes_on(response):
        head = Reply(response.status_code, response.headers, b"")
        return Opened(head, _Line(response, response.iter_raw()))
    try:
        response.read()
    finally:
        response.close()
    return Opened(line.reply(response), None)
