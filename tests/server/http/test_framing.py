"""Where a request ends: no body is taken for a request, and none is answered that is cut short."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from oncebox.core.metrics import Telemetry
from oncebox.server.http import http_connection
from oncebox.server.http.asgi_app import AsgiApp
from oncebox.server.http.http_server import listen
from oncebox.server.http.request_context import RequestContext
from oncebox.settings import HttpSettings
from tests.support import databases
from tests.support.api import Api, calling
from tests.support.connections import connected
from tests.support.http import Peer, Recorder, chunked, post, serving, until
from tests.support.streams import box_server

#: what a body would do, were it taken for a request
SMUGGLED = b'POST /in/shop HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\n{"n":"evil"}'
UPGRADES = {
    "h2c": ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk"),
    "websocket": ("Connection: Upgrade", "Upgrade: websocket"),
    "keep-alive": ("Connection: keep-alive, upgrade", "Upgrade: foo/2"),
}


@dataclass
class Service:
    """A whole service on a port: webhooks below ``/in/``, the API below ``/v1/``."""

    api: Api
    port: int
    key: str

    @asynccontextmanager
    async def line(self) -> AsyncIterator[Peer]:
        """Open a connection."""
        peer = Peer(*await asyncio.open_connection("127.0.0.1", self.port))
        try:
            yield peer
        finally:
            peer.close()

    async def stored(self) -> list[Any]:
        """Return what is on disk: deliveries, and sources other than the first."""
        deliveries = (await self.api.call("GET", "/v1/deliveries")).json()["data"]
        sources = (await self.api.call("GET", "/v1/sources")).json()["data"]
        return [*deliveries, *(each for each in sources if each["name"] != "shop")]


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    """Serve a source that takes anything, and an API key that may do anything.

    On one database: what is promised here is decided before either is asked.
    """
    async with calling(databases.fresh_sqlite(tmp_path)) as api:
        await api.add_source("shop", public_id="shop")
        sockets = listen("127.0.0.1", 0)
        async with box_server(api.box, sockets):
            yield Service(api, sockets[0].getsockname()[1], await api.key("admin"))


def head(service: Service, path: str, *more: str, method: str = "POST") -> bytes:
    """Return the head of a request that would be granted."""
    own = (f"Authorization: Bearer {service.key}", "Idempotency-Key: one")
    lines = (f"{method} {path} HTTP/1.1", "Host: a", *more, *own, "Content-Type: application/json")
    return "\r\n".join((*lines, "", "")).encode()


def framed(body: bytes, framing: str) -> tuple[str, bytes]:
    """Return the header that announces a body, and the body as it is on the wire."""
    if framing == "length":
        return f"Content-Length: {len(body)}", body
    return "Transfer-Encoding: chunked", b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize("packets", [1, 2])
async def test_upgrade_is_ignored_and_the_body_is_the_request_s(
    service: Service, packets: int, framing: str
) -> None:
    announced, body = framed(SMUGGLED, framing)
    for number, upgrade in enumerate(UPGRADES.values(), 1):
        async with service.line() as peer:
            delivery = f"X-Delivery: {number}"
            first = head(service, "/in/shop", *upgrade, announced, delivery)
            peer.send(first + body if packets == 1 else first)
            if packets == 2:
                await asyncio.sleep(0.02)
                peer.send(body)

            assert (await peer.answer()).status == 200
            peer.send(head(service, "/v1/deliveries", "Connection: close", method="GET"))
            assert (await peer.answer()).status == 200
            assert await peer.end() == b""
    (stored,) = await service.stored()  # the same body each time
    found = await service.api.call("GET", f"/v1/deliveries/{stored['id']}?payload=true")
    assert base64.b64decode(found.json()["payload"]["body"]) == SMUGGLED


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_upgrade_without_a_body_is_ignored_and_what_follows_is_the_next_request(
    service: Service, method: str
) -> None:
    async with service.line() as peer:
        path = "/v1/deliveries" if method == "GET" else "/in/shop"
        first = head(service, path, *UPGRADES["h2c"], method=method)
        peer.send(first + SMUGGLED)

        assert (await peer.answer()).status == 200
        assert (await peer.answer()).status == 200


async def test_connect_is_refused(service: Service) -> None:
    async with service.line() as peer:
        peer.send(b"CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n" + SMUGGLED)

        assert (await peer.answer()).status == 400
        assert await peer.end() == b""
    assert await service.stored() == []


@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_an_upgrade_that_the_connection_does_not_name_is_a_header_like_any_other(
    service: Service, framing: str
) -> None:
    announced, body = framed(b'{"n":1}', framing)
    async with service.line() as peer:
        for number in range(2):
            delivery = f"X-Delivery: {number}"
            peer.send(head(service, "/in/shop", "Upgrade: h2c", announced, delivery) + body)

            assert (await peer.answer()).status == 200
    (stored,) = await service.stored()
    assert stored["state"] == "received"


@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize("packets", [1, 2])
@pytest.mark.parametrize("path", ["/in/shop", "/v1/sources"])
async def test_a_body_whose_sender_stops_halfway_is_never_stored(
    service: Service, path: str, packets: int, framing: str
) -> None:
    announced, body = framed(b'{"name":"x","scheme":"none","allow_unsigned":true}', framing)
    whole = head(service, path, announced) + body
    reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
    for packet in [whole[:-8]] if packets == 1 else [whole[:-20], whole[-20:-8]]:
        writer.write(packet)
        await writer.drain()
        await asyncio.sleep(0.02)
    writer.write_eof()
    said = await asyncio.wait_for(reader.read(), 10)
    writer.close()

    assert not said.startswith(b"HTTP/1.1 2")
    assert await service.stored() == []


BROKEN = b"POST /in/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n"


async def test_a_refusal_never_overtakes_the_answer_to_an_earlier_request() -> None:
    app = Recorder()
    app.gate.clear()
    async with serving(app) as served:
        peer = await served.connect()
        peer.send(post(b"first") + BROKEN)
        await until(lambda: app.bodies == [b"first"])
        app.gate.set()

        assert (await peer.answer()).status == 200
        assert (await peer.end()).startswith(b"HTTP/1.1 400 ")
        peer.close()
    assert app.bodies == [b"first"]


async def test_chunks_that_are_none_are_malformed_however_much_follows_them() -> None:
    async with serving(Recorder(), headers=1_000) as served:
        answer = await served.ask(BROKEN + b"y" * 10_000)

    assert answer.status == 400


async def test_a_refused_request_is_not_answered_twice() -> None:
    async with serving(Recorder(), body=10) as served:
        peer = await served.connect()
        peer.send(chunked(b"x" * 100)[:-5])
        refused = await peer.answer()
        peer.send(b"no chunk\r\n")

        assert refused.status == 413
        assert await peer.end() == b""
        peer.close()


@pytest.mark.parametrize("path", ["/in/shop", "/v1/x"])
async def test_body_that_comes_with_its_head_ends_where_the_next_request_begins(path: str) -> None:
    """Wherever the packets are cut, and whether or not all of the body is in the first."""
    first, second = post(b"hello", path=path), post(b"next", path=path)
    for cut in range(len(first) - 7, len(first + second) + 1):
        received: list[bytes] = []

        def handle(exchange: RequestContext, body: bytes, received: list[bytes] = received) -> None:
            received.append(body)
            exchange.respond(200, [], b"ok")

        app = Recorder()
        connection, transport = connected(handle, app)
        connection.data_received((first + second)[:cut])
        for _ in range(10):
            await asyncio.sleep(0)
        connection.data_received((first + second)[cut:])
        for _ in range(20):
            await asyncio.sleep(0)

        assert received + app.bodies == [b"hello", b"next"]
        assert transport.written.count(b"HTTP/1.1 200 ") == 2
        assert not transport.ended


# A layer below that takes part of a body for all of it, as parsers have done.


class LyingBody:
    """A body reader that calls a body complete that is not."""

    done = False

    def __init__(self, part: bytes) -> None:
        self._part = part

    def take(self, _data: bytes) -> tuple[bytes, bytes]:
        self.done = True
        return self._part, b""


@pytest.mark.parametrize(
    ("body", "is_whole"), [(b"", False), (b"hell", False), (b"hello!", False), (b"hello", True)]
)
@pytest.mark.parametrize("path", ["/in/shop", "/v1/x"])
async def test_body_of_another_length_than_announced_reaches_nobody(
    path: str, body: bytes, is_whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connection, "body_reader", lambda *_: LyingBody(body))
    received: list[bytes] = []

    def handle(exchange: RequestContext, body: bytes) -> None:
        received.append(body)
        exchange.respond(200, [], b"ok")

    app = Recorder()
    connection, transport = connected(handle, app)
    connection.data_received(
        f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n".encode()
    )
    connection.data_received(b"hello")
    for _ in range(10):
        await asyncio.sleep(0)

    assert received + app.bodies == ([body] if is_whole else [])
    assert transport.written.count(b"HTTP/1.1 ") == 1
    assert transport.written.startswith(b"HTTP/1.1 200 " if is_whole else b"HTTP/1.1 400 ")
    if not is_whole:
        assert transport.ended
        connection.data_received(b"more")
        assert received + app.bodies == []


@pytest.mark.parametrize("pieces", [(b"",), (b"hell",), (b"he", b"l"), (b"hello", b"!")])
@pytest.mark.parametrize("path", ["/in/shop", "/v1/x"])
async def test_another_server_s_body_of_another_length_reaches_nobody(
    path: str, pieces: tuple[bytes, ...]
) -> None:
    app, sent, received = Recorder(), [], []
    coming = [{"type": "http.request", "body": each, "more_body": True} for each in pieces]
    coming[-1]["more_body"] = False

    async def receive() -> Any:
        return coming.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    def handle(_exchange: RequestContext, body: bytes) -> None:
        received.append(body)

    served = AsgiApp(app, HttpSettings(), Telemetry(), handle)
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": [(b"host", b"a"), (b"content-length", b"5")],
        "client": ("127.0.0.1", 1),
    }
    await served(scope, receive, send)

    assert received + app.bodies == []
    assert (sent[0]["status"], len(sent)) == (400, 2)
