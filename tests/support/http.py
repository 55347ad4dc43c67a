"""A real server on a free port, and clients that speak to it byte by byte."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from oncebox.core.metrics import Telemetry
from oncebox.server.http.http_server import HttpServer, listen
from oncebox.server.http.request_context import App, Receive, Scope, Send, WebhookHandler
from oncebox.settings import HttpSettings

#: limits that a test can wait for
SHORT: dict[str, Any] = {
    "headers_within": 0.4,
    "idle": 0.4,
    "request_within": 1.2,
    "stop_within": 2.0,
}


class Recorder:
    """An application that keeps whole bodies and answers ok."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.gone = 0
        self.scopes: list[MutableMapping[str, Any]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        body = b""
        while True:
            message = await receive()
            if message["type"] != "http.request":
                self.gone += 1
                return
            body += message["body"]
            if not message["more_body"]:
                break
        self.bodies.append(body)
        await self.gate.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})


@dataclass(frozen=True)
class Served:
    """A server under test."""

    port: int
    telemetry: Telemetry
    #: bytes of large bodies in memory
    body_bytes: Callable[[], int]

    async def connect(self) -> "Peer":
        """Open a connection."""
        return Peer(*await asyncio.open_connection("127.0.0.1", self.port))

    async def ask(self, request: bytes) -> "Answer":
        """Send one request on a connection of its own."""
        peer = await self.connect()
        try:
            peer.send(request)
            return await peer.answer()
        finally:
            peer.close()

    def count(self, name: str, **labels: str) -> float:
        """Return one figure from a scrape, summed over the labels that are not given."""
        return sum(
            float(line.rsplit(" ", 1)[1])
            for line in self.telemetry.scrape().splitlines()
            if line.startswith((f"{name}{{", f"{name} "))
            and all(f'{label}="{value}"' in line for label, value in labels.items())
        )


@dataclass(frozen=True)
class Answer:
    """One response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Peer:
    """One connection, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def answer(self, *, within: float = 10.0) -> Answer:
        """Read one response with its body."""
        async with asyncio.timeout(within):
            head = await self._reader.readuntil(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            pairs = (line.partition(": ") for line in lines if line)
            headers = {name.lower(): value for name, _, value in pairs}
            return Answer(int(first.split()[1]), headers, await self._body(headers))

    async def _body(self, headers: dict[str, str]) -> bytes:
        if "content-length" in headers:
            return await self._reader.readexactly(int(headers["content-length"]))
        body = b""
        while headers.get("transfer-encoding") == "chunked":
            size = int(await self._reader.readline(), 16)
            chunk = await self._reader.readexactly(size + 2)
            if not size:
                break
            body += chunk[:-2]
        return body

    async def until(self, words: bytes, *, within: float = 10.0) -> bytes:
        """Read up to some words."""
        async with asyncio.timeout(within):
            return await self._reader.readuntil(words)

    async def end(self, *, within: float = 10.0) -> bytes:
        """Wait until the server has closed; return what it said last."""
        async with asyncio.timeout(within):
            try:
                return await self._reader.read()
            except ConnectionError:
                return b""

    def close(self) -> None:
        self._writer.close()


@asynccontextmanager
async def serving(
    app: App, webhooks: WebhookHandler | None = None, **settings: Any
) -> AsyncIterator[Served]:
    """Serve an ASGI application on a free port."""
    http = HttpSettings(**settings)
    telemetry = Telemetry()
    sockets = listen("127.0.0.1", 0)
    port = int(sockets[0].getsockname()[1])
    async with HttpServer(app, sockets, http, telemetry, webhooks) as server:
        yield Served(port, telemetry, lambda: server.state.body_bytes)


def post(body: bytes = b"", *headers: str, path: str = "/in/test") -> bytes:
    """Return a request with a length."""
    lines = (f"POST {path} HTTP/1.1", "Host: test", f"Content-Length: {len(body)}", *headers)
    return "\r\n".join((*lines, "", "")).encode("latin-1") + body


def chunked(*chunks: bytes, path: str = "/in/test") -> bytes:
    """Return a request in chunks."""
    head = f"POST {path} HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    parts = (b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    return head + b"".join(parts) + b"0\r\n\r\n"


async def until(holds: Callable[[], bool], *, within: float = 10.0) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(within):
        while not holds():  # noqa: ASYNC110 - no bell rings
            await asyncio.sleep(0.01)
