"""A real server over an opened box, and readers of its streams, byte by byte."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from oncebox.box import Oncebox
from oncebox.ledger.notifications import STREAM
from oncebox.model.admin.access import DEFAULT_TENANT
from oncebox.model.events import NewEvent
from oncebox.server.http.http_server import HttpServer, listen
from oncebox.settings import EventSettings, HttpSettings
from oncebox.wiring import build_asgi_app, build_http_handlers
from tests.support import events
from tests.support.api import Api
from tests.support.databases import Place
from tests.support.program import settings


@dataclass(frozen=True)
class Block:
    """One block of a stream."""

    id: str = ""
    event: str = ""
    data: Any = None
    retry: int | None = None
    comment: str = ""


@dataclass
class Streams:
    """A server with streams, and its events by hand."""

    api: Api
    port: int
    stopping: asyncio.Event
    server: HttpServer
    readers: list["Reader"] = field(default_factory=list)

    async def tell(self, *new: NewEvent) -> None:
        """Record and number events, as the sequencer does."""
        database = self.api.box.components.database
        await database.write(events.record, *new)
        await database.write(events.number_all)
        database.notify(STREAM)

    async def happen(self, *subjects: str, **rest: Any) -> None:
        """Let something happen to each of these subjects."""
        await self.tell(*(events.new(each, tenant=DEFAULT_TENANT, **rest) for each in subjects))

    async def read(
        self, query: str = "", *, key: str | None = None, headers: Sequence[str] = ()
    ) -> "Reader":
        """Open a stream."""
        text = await self.api.key("admin") if key is None else key
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        lines = (
            f"GET /v1/events{query} HTTP/1.1",
            "Host: test",
            f"Authorization: Bearer {text}",
            "Accept: text/event-stream",
            *headers,
        )
        writer.write("\r\n".join((*lines, "", "")).encode())
        opened = Reader(reader, writer)
        await opened.open()
        self.readers.append(opened)
        return opened


class Reader:
    """One open stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self._text = b""
        self.status = 0
        self.headers: dict[str, str] = {}

    async def open(self) -> None:
        """Read the head."""
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.split("\r\n")
        self.status = int(first.split()[1])
        pairs = (line.partition(": ") for line in lines if line)
        self.headers = {name.lower(): value for name, _, value in pairs}

    async def problem(self) -> Any:
        """Read a refusal."""
        return json.loads(await self._reader.readexactly(int(self.headers["content-length"])))

    async def block(self, within: float = 10.0) -> Block | None:
        """Read the next block; None when the stream has ended in good order."""
        async with asyncio.timeout(within):
            while b"\n\n" not in self._text:
                size = int(await self._reader.readline(), 16)
                chunk = await self._reader.readexactly(size + 2)
                if not size:
                    return None
                self._text += chunk[:-2]
        text, _, self._text = self._text.partition(b"\n\n")
        return _parsed(text.decode())

    async def events(self, count: int) -> list[Any]:
        """Read so many events."""
        found: list[Any] = []
        while len(found) < count:
            block = await self.block()
            assert block is not None, "the stream has ended"
            if block.data is not None:
                found.append(block.data)
        return found

    async def subjects(self, count: int) -> list[str]:
        """Read what so many events are about."""
        return [each["subject_id"] for each in await self.events(count)]

    def close(self) -> None:
        """Go away."""
        self.writer.close()


def _parsed(text: str) -> Block:
    values: dict[str, Any] = {}
    for line in text.split("\n"):
        name, _, value = line.partition(": ")
        values[name or "comment"] = value
    if "data" in values:
        values["data"] = json.loads(values["data"])
    if "retry" in values:
        values["retry"] = int(values["retry"])
    return Block(**values)


def box_server(
    box: Oncebox, sockets: list[socket.socket], stopping: asyncio.Event | None = None
) -> HttpServer:
    """Return a server of an opened box."""
    handlers = build_http_handlers(box.components, stopping or asyncio.Event())
    http = box.settings.http
    return HttpServer(handlers.app, sockets, http, box.telemetry, handlers.webhooks)


@asynccontextmanager
async def streaming(
    place: Place, http: dict[str, Any] | None = None, **rules: Any
) -> AsyncIterator[Streams]:
    """Serve the API of a fresh box on a free port."""
    box = Oncebox(
        settings=msgspec.structs.replace(
            settings(place),
            tenant=DEFAULT_TENANT,
            http=HttpSettings(**{"stop_within": 2.0, **(http or {})}),
            events=EventSettings(**rules),
        )
    )
    await box.open()
    stopping = asyncio.Event()
    sockets = listen("127.0.0.1", 0)
    app = build_asgi_app(box.components, stopping)
    server = box_server(box, sockets, stopping)
    await server.start()
    streams = Streams(Api(box, app), sockets[0].getsockname()[1], stopping, server)
    try:
        yield streams
    finally:
        stopping.set()
        await server.stop()
        for each in streams.readers:
            each.close()
        await box.close()
