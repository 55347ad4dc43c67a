"""ScriptedEndpoint: an HTTP server for outgoing webhooks that answers and fails as told."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

import msgspec

#: what may happen instead of an answer: no answer, an aborted connection, an answer that comes
#: byte by byte, has a megabyte, is no HTTP, or leads elsewhere
EndpointFault = Literal["hang", "reset", "drip", "huge", "garbage", "redirect"]

_DRIP_EVERY = 0.2
_HUGE = 1 << 20


class EndpointRequest(NamedTuple):
    """A request as an endpoint received it."""

    path: str
    #: by lower-case names
    headers: Mapping[str, str]
    body: bytes

    @property
    def id(self) -> str:
        """The id of the event; a repeat has the same one."""
        return self.headers.get("webhook-id", "")

    @property
    def json(self) -> Any:
        """The body, decoded as JSON."""
        return msgspec.json.decode(self.body)


class ScriptedEndpoint:
    """An endpoint on a free port of 127.0.0.1; ``async with ScriptedEndpoint() as endpoint:``.

    ``endpoint.script`` are its next answers: statuses, or names of faults; when it is used up,
    ``endpoint.usual`` is the answer.
    """

    def __init__(self, *, usual: int | EndpointFault = 200) -> None:
        """Answer with ``usual`` when nothing else is scripted."""
        self.usual = usual
        self.script: list[int | EndpointFault] = []
        #: headers of every answer
        self.headers: dict[str, str] = {}
        self.requests: list[EndpointRequest] = []
        #: how often each event was answered with 2xx
        self.accepted: Counter[str] = Counter()
        self.connections = 0
        self._changed = asyncio.Condition()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        assert self._server is not None  # noqa: S101 - it is entered
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}/hooks"

    async def __aenter__(self) -> Self:
        """Listen."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop listening, and abort what hangs."""
        assert self._server is not None  # noqa: S101 - it is entered
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def received(self, count: int, *, within: float = 30.0) -> list[EndpointRequest]:
        """Wait until so many requests have arrived, and return all.

        Raises: TimeoutError.
        """
        async with asyncio.timeout(within), self._changed:
            await self._changed.wait_for(lambda: len(self.requests) >= count)
        return list(self.requests)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self.connections += 1
        try:
            # Cancelled by the exit: asyncio would log that as an error.
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._exchange(reader, writer):
                    pass
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; return whether the connection is kept."""
        request = await _read_request(reader)
        action = self.script.pop(0) if self.script else self.usual
        async with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
        if isinstance(action, int):
            if 200 <= action < 300:  # noqa: PLR2004 - success
                self.accepted[request.id] += 1
            writer.write(self._answer(action, b"answered"))
            await writer.drain()
            return True
        await _misbehave(action, writer)
        return False

    def _answer(self, status: int, body: bytes) -> bytes:
        lines = [f"HTTP/1.1 {status} Told", f"content-length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        return "\r\n".join([*lines, "", ""]).encode() + body


async def _read_request(reader: asyncio.StreamReader) -> EndpointRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip().split("\r\n")
    pairs = (line.partition(":") for line in lines)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return EndpointRequest(first.split(" ")[1], headers, body)


async def _misbehave(fault: EndpointFault, writer: asyncio.StreamWriter) -> None:
    if fault == "hang":
        await asyncio.sleep(3_600)
    elif fault == "reset":
        writer.transport.abort()
    elif fault == "garbage":
        writer.write(b"220 this is no web server\r\n")
    elif fault == "redirect":
        writer.write(b"HTTP/1.1 307 Elsewhere\r\nlocation: http://127.0.0.1:1/\r\n")
        writer.write(b"content-length: 0\r\n\r\n")
    else:
        size = _HUGE if fault == "huge" else 10_000
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
        if fault == "huge":
            writer.write(b"x" * size)
        while fault == "drip":
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(_DRIP_EVERY)
    await writer.drain()
