"""What follows a body in chunks is not the request's: it is dropped, and bounded while it comes."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from oncebox.server.http.http_server import listen
from oncebox.settings import HttpSettings
from tests.support import databases
from tests.support.api import Api, calling
from tests.support.connections import connected
from tests.support.databases import Place
from tests.support.hookserver import github
from tests.support.hookserver import serving as hooks_served
from tests.support.http import Answer, Peer, Recorder, Served, post, serving
from tests.support.streams import box_server

HEAD = "POST {} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n{}\r\n"
BODY = b'{"ref":"main"}'


def request(
    *trailer: str,
    path: str = "/in/test",
    headers: str = "",
    body: bytes = BODY,
    extension: str = "",
) -> bytes:
    """Return a request in one chunk, with fields behind it."""
    chunk = b"%x\r\n%s\r\n" % (len(body), body)
    after = "".join(f"{field}\r\n" for field in trailer).encode()
    return HEAD.format(path, headers).encode() + chunk + b"0\r\n" + after + b"\r\n"


async def ask(port: int, *packets: bytes) -> Answer:
    """Send packets that arrive one by one; return the answer."""
    peer = Peer(*await asyncio.open_connection("127.0.0.1", port))
    try:
        for packet in packets:
            peer.send(packet)
            await asyncio.sleep(0.02)
        return await peer.answer()
    finally:
        peer.close()


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[tuple[Api, int]]:
    """Serve the API on a port."""
    async with calling(databases.fresh_sqlite(tmp_path)) as opened:
        sockets = listen("127.0.0.1", 0)
        async with box_server(opened.box, sockets):
            yield opened, sockets[0].getsockname()[1]


@pytest.mark.parametrize("cut", [None, 5, 60])
async def test_a_key_in_a_trailer_opens_nothing(api: tuple[Api, int], cut: int | None) -> None:
    opened, port = api
    key = f"Authorization: Bearer {await opened.key('admin')}"
    more = "Content-Type: application/json\r\nIdempotency-Key: one\r\n"
    path, body = "/v1/keys", b'{"scopes":["operator"]}'
    behind = request(key, path=path, headers=more, body=body)
    before = request(path=path, headers=f"{more}{key}\r\n", body=body)
    packets = (behind,) if cut is None else (behind[:-cut], behind[-cut:])

    assert (await ask(port, *packets)).status in {400, 401}
    assert (await ask(port, before)).status == 201


@pytest.mark.parametrize("cut", [None, 5, 60])
async def test_a_signature_in_a_trailer_proves_nothing(place: Place, cut: int | None) -> None:
    fields = [f"{name}: {value}" for name, value in github(BODY).items()]
    behind = request(*fields, path="/in/github")
    packets = (behind,) if cut is None else (behind[:-cut], behind[-cut:])
    headers = "".join(f"{field}\r\n" for field in fields)
    async with hooks_served(place) as server:
        await server.source("github")

        assert (await ask(server.port, *packets)).status == 401
        assert server.clerk.all() == []
        assert (await ask(server.port, request(path="/in/github", headers=headers))).status == 200
        assert len(server.clerk.all()) == 1


async def test_a_small_trailer_is_dropped_and_the_connection_goes_on() -> None:
    app = Recorder()
    odd = (
        "X-Checksum: 1",
        "Vary: *",
        "X-Request-Id: theirs",
    )
    async with serving(app) as served:
        peer = await served.connect()
        peer.send(request(*odd) + post(b"next"))
        answers = [await peer.answer(), await peer.answer()]
        peer.close()

    assert [each.status for each in answers] == [200, 200]
    assert app.bodies == [BODY, b"next"]
    assert [name for name, _ in app.scopes[0]["headers"]] == [b"host", b"transfer-encoding"]


@pytest.mark.parametrize(
    "trailer",
    [["X: " + "y" * 5_000], ["X: y"] * 1_000, ["X" * 5_000 + ": y"]],
    ids=["a long field", "many fields", "a long name"],
)
@pytest.mark.parametrize("at_once", [100, 1_000_000])
async def test_a_large_trailer_is_refused_and_ends_the_connection(
    trailer: list[str], at_once: int
) -> None:
    app = Recorder()
    whole = request(*trailer)
    async with serving(app, headers=2_000) as served:
        peer = await served.connect()
        for place in range(0, len(whole), at_once):
            peer.send(whole[place : place + at_once])
            await asyncio.sleep(0.001)

        assert (await peer.answer()).status == 431
        assert await peer.end() == b""
        peer.close()
    assert app.bodies == []


@pytest.mark.parametrize("length", [100, 5_000])
async def test_extensions_of_chunks_are_counted_together(length: int) -> None:
    app = Recorder()
    connection, transport = connected(None, app, HttpSettings(headers=2_000))
    connection.data_received(HEAD.format("/in/test", "").encode())
    chunks = (b"1;" + b"y" * length + b"\r\nx\r\n") * 40
    for place in range(0, len(chunks), 70):
        connection.data_received(chunks[place : place + 70])
        await asyncio.sleep(0)
    connection.data_received(b"0\r\n\r\n")

    assert transport.written.startswith(b"HTTP/1.1 431 ")
    assert transport.ended
    assert app.bodies == []


@pytest.mark.parametrize("packet", [1, 7, 5_000])
async def test_small_chunks_are_no_trailer_however_they_come(packet: int) -> None:
    app, settings = Recorder(), HttpSettings(headers=200)
    connection, _ = connected(None, app, settings)
    whole = HEAD.format("/in/test", "").encode() + b"1\r\nx\r\n" * 2_000 + b"0\r\n\r\n"
    for place in range(0, len(whole), packet):
        connection.data_received(whole[place : place + packet])
        await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0)

    assert app.bodies == [b"x" * 2_000]


async def test_an_endless_trailer_costs_no_memory() -> None:
    app, settings = Recorder(), HttpSettings()
    connection, transport = connected(None, app, settings)
    connection.data_received(request()[:-2] + b"X: ")
    await asyncio.sleep(0)
    block = b"y" * 16_384
    tracemalloc.start()
    for _ in range(500):
        connection.data_received(block)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert most < 4 * settings.headers
    assert transport.written.startswith(b"HTTP/1.1 431 ")
    assert transport.ended
    assert app.bodies == []


async def test_small_chunks_pay_for_no_trailer() -> None:
    app = Recorder()
    connection, transport = connected(None, app, HttpSettings(headers=2_000))
    connection.data_received(HEAD.format("/in/test", "").encode() + b"1\r\nx\r\n" * 1_000)
    connection.data_received(b"0\r\nX: ")
    for _ in range(3):
        connection.data_received(b"y" * 1_000)

    assert transport.written.startswith(b"HTTP/1.1 431 ")


async def test_an_endless_trailer_behind_a_refused_body_is_not_answered_again() -> None:
    async with serving(Recorder(), body=10, headers=2_000) as served:
        peer = await _refused(served)
        peer.send(b"0\r\nX: ")
        for _ in range(10):
            peer.send(b"y" * 1_000)
            await asyncio.sleep(0.001)

        assert await peer.end() == b""
        assert served.count("oncebox_connections_ended_total", why="large_headers") == 1
        peer.close()


async def _refused(served: Served) -> Peer:
    peer = await served.connect()
    peer.send(request(body=b"x" * 100)[:-5])
    assert (await peer.answer()).status == 413
    return peer
