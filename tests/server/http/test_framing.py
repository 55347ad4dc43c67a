"""Where a request ends: no body is taken for a request, and none is answered that is cut short."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httptools
import pytest

from oncebox.core.metrics import Telemetry
from oncebox.server.application import make_app
from oncebox.server.http.http_server import HttpServer, listen
from oncebox.server.http.request_limits import SMALL_REQUEST, Headers, Limits, WriteResponse
from oncebox.settings import HttpSettings
from tests.support import databases
from tests.support.api import Api, calling
from tests.support.connections import connected
from tests.support.http import Peer, Recorder, chunked, post, serving, until

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
        async with HttpServer(api.app, sockets, HttpSettings(), api.box.components.telemetry):
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
@pytest.mark.parametrize("path", ["/in/shop", "/v1/sources"])
async def test_a_body_behind_an_upgrade_is_refused_and_never_taken_for_a_request(
    service: Service, path: str, packets: int, framing: str
) -> None:
    announced, body = framed(SMUGGLED, framing)
    for upgrade in UPGRADES.values():
        async with service.line() as peer:
            first = head(service, path, *upgrade, announced)
            peer.send(first + body if packets == 1 else first)
            answer = await peer.answer()
            if packets == 2:
                peer.send(body)

            assert (answer.status, answer.json["code"]) == (400, "request_malformed")
            assert await peer.end() == b""
    assert await service.stored() == []


@pytest.mark.parametrize("method", ["GET", "POST", "CONNECT"])
@pytest.mark.parametrize("rest", [b"", SMUGGLED], ids=["nothing", "more"])
async def test_an_upgrade_without_a_body_is_refused_alike(
    service: Service, method: str, rest: bytes
) -> None:
    async with service.line() as peer:
        peer.send(head(service, "/v1/keys", *UPGRADES["h2c"], method=method) + rest)

        assert (await peer.answer()).status == 400
        assert await peer.end() == b""
    assert await service.stored() == []


async def test_an_upgrade_behind_a_request_is_not_heard_and_the_request_is_answered(
    service: Service,
) -> None:
    whole = head(service, "/in/shop", "Content-Length: 2") + b"{}"
    async with service.line() as peer:
        peer.send(whole + head(service, "/in/shop", *UPGRADES["h2c"], "Content-Length: 2") + b"[]")

        assert (await peer.answer()).status == 200
        assert await peer.end() == b""
    assert len(await service.stored()) == 1


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
        assert await peer.end() == b""
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


# A parser that takes part of a body for all of it, as httptools does behind an upgrade.


class Skipping:
    """A parser that calls a request whole before it is."""

    def __init__(self, connection: Any, body: bytes, *announced: tuple[bytes, bytes]) -> None:
        self._connection = connection
        self._body = body
        self._announced = announced

    def feed_data(self, _data: bytes) -> None:
        try:
            self._call()
        except Exception as error:
            raise httptools.HttpParserCallbackError from error

    def _call(self) -> None:
        connection = self._connection
        connection.on_message_begin()
        connection.on_url(b"/in/shop")
        for name, value in ((b"Host", b"a"), *self._announced):
            connection.on_header(name, value)
        connection.on_headers_complete()
        if self._body:
            connection.on_body(self._body)
        connection.on_message_complete()

    def get_method(self) -> bytes:
        return b"POST"

    def get_http_version(self) -> str:
        return "1.1"

    def should_keep_alive(self) -> bool:
        return True

    def should_upgrade(self) -> bool:
        return False


LENGTH = (b"Content-Length", b"5")
CHUNKED = (b"Transfer-Encoding", b"chunked")


@pytest.mark.parametrize(
    ("body", "announced", "is_whole"),
    [
        (b"", LENGTH, False),
        (b"hell", LENGTH, False),
        (b"hello!", LENGTH, False),
        (b"", CHUNKED, False),
        (b"hello", LENGTH, True),
    ],
)
@pytest.mark.parametrize("way", ["express", "asgi"])
async def test_no_way_takes_a_body_that_is_shorter_than_announced(
    way: str, body: bytes, announced: tuple[bytes, bytes], is_whole: bool
) -> None:
    taken: list[bytes] = []

    def take(
        _path: str, _headers: Headers, body: bytes, _client: object, _write: WriteResponse
    ) -> bool:
        taken.append(body)
        return True

    app, settings = Recorder(), HttpSettings()
    guarded = make_app(app, app, settings, Telemetry())
    connection, transport = connected(take if way == "express" else None, guarded, settings)
    connection.parser = Skipping(connection, body, announced)  # type: ignore[assignment]
    connection.data_received(b"whatever")
    for _ in range(10):
        await asyncio.sleep(0)

    assert taken + app.bodies == ([body] if is_whole else [])
    if not is_whole:
        assert transport.written.startswith(b"HTTP/1.1 400 ")
        assert transport.written.count(b"HTTP/1.1 ") == 1
        assert transport.ended
        connection.data_received(b"more")
        assert taken + app.bodies == []


@pytest.mark.parametrize("pieces", [(b"",), (b"hell",), (b"he", b"l"), (b"hello", b"!")])
async def test_the_guard_takes_no_shorter_body_from_any_server(pieces: tuple[bytes, ...]) -> None:
    app, sent = Recorder(), []
    coming = [{"type": "http.request", "body": each, "more_body": True} for each in pieces]
    coming[-1]["more_body"] = False

    async def receive() -> Any:
        return coming.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    await Limits(app, HttpSettings(), Telemetry())(_scope(), receive, send)

    assert app.bodies == []
    assert (sent[0]["status"], len(sent)) == (400, 2)
    assert (b"connection", b"close") in sent[0]["headers"]


def _scope() -> dict[str, Any]:
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": "/v1/x",
        "query_string": b"",
        "headers": [(b"host", b"a"), (b"content-length", b"5")],
        "client": ("127.0.0.1", 1),
    }
    assert SMALL_REQUEST not in scope
    return scope
