"""The express: the short way in, which promises what the long way promises."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager

import pytest

from oncebox.errors import StoreUnavailable
from oncebox.model.deliveries.delivery import DeliveryState, NewDelivery
from oncebox.server.http.request_context import RequestContext
from oncebox.server.webhooks.endpoint import WebhookEndpoint
from tests.support.connections import connected
from tests.support.databases import Place
from tests.support.hookserver import HookServer, github, serving

BODY = b'{"ref":"main"}'


@pytest.fixture
async def server(place: Place) -> AsyncIterator[HookServer]:
    """Serve webhooks of GitHub."""
    async with serving(place) as server:
        await server.source("github")
        yield server


def request(delivery: str, *more: str, secret: str | None = None, body: bytes = BODY) -> bytes:
    """Return a request as it is on the wire."""
    headers = github(body, delivery) if secret is None else github(body, delivery, secret=secret)
    lines = [f"{name}: {value}" for name, value in headers.items()]
    head = ["POST /in/github HTTP/1.1", "host: a", f"content-length: {len(body)}", *more, *lines]
    return "\r\n".join((*head, "", "")).encode() + body


class Line:
    """A connection, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, *packets: bytes) -> None:
        """Send packets that arrive one by one."""
        for packet in packets:
            self.writer.write(packet)
            await self.writer.drain()
            await asyncio.sleep(0.02)

    async def answer(self) -> tuple[bytes, dict[bytes, bytes], bytes]:
        """Return status, headers and body of the next answer."""
        head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 10)
        status, *lines = head.rstrip().split(b"\r\n")
        pairs = (line.split(b": ", 1) for line in lines)
        headers = dict(pairs)
        body = await self.reader.readexactly(int(headers[b"content-length"]))
        return status, headers, body


@asynccontextmanager
async def line_to(server: HookServer) -> AsyncIterator[Line]:
    """Open a connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        yield Line(reader, writer)
    finally:
        writer.close()


@pytest.fixture
def no_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Close the long way."""

    async def closed(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(WebhookEndpoint, "_handle", closed)


@pytest.mark.usefixtures("no_long_way")
async def test_a_small_whole_webhook_goes_by_the_express_and_is_on_disk_when_answered(
    server: HookServer,
) -> None:
    async with line_to(server) as line:
        for number in range(3):
            await line.send(request(f"d-{number}", body=b'{"n":%d}' % number))
            status, _, body = await line.answer()

            assert (status, body) == (b"HTTP/1.1 200 OK", b'{"status":"accepted"}')
            stored = server.clerk.all()
            assert len(stored) == number + 1
            assert all(each.state is DeliveryState.RECEIVED for each in stored)


async def test_both_ways_store_and_answer_alike(server: HookServer) -> None:
    async with line_to(server) as line:
        whole = request("d-1", "x-request-id: mine")
        await line.send(whole)
        short = await line.answer()
        await line.send(whole[:40], whole[40:-3], whole[-3:])
        long = await line.answer()

    assert _undated(short) == _undated(long)
    assert short[1][b"x-request-id"] == b"mine"
    (stored,) = server.clerk.all()
    assert server.clerk.sightings(stored.id) == {"provider_retry": 1}


def _undated(answer: tuple[bytes, dict[bytes, bytes], bytes]) -> tuple[bytes, list[bytes], bytes]:
    """Return an answer without what changes every second."""
    status, headers, body = answer
    return status, sorted(name + value for name, value in headers.items() if name != b"date"), body


@pytest.mark.parametrize("cut", range(0, 300, 23))
async def test_however_a_request_is_cut_it_is_answered_once(server: HookServer, cut: int) -> None:
    whole = request("d-1")
    async with line_to(server) as line:
        await line.send(whole[:cut], whole[cut:]) if cut else await line.send(whole)

        assert (await line.answer())[0] == b"HTTP/1.1 200 OK"
        await line.send(request("d-2", body=b"{}"))
        assert (await line.answer())[0] == b"HTTP/1.1 200 OK"
    assert len(server.clerk.all()) == 2


async def test_requests_in_one_packet_are_answered_in_order(server: HookServer) -> None:
    several = [request(f"d-{n}", f"x-request-id: n{n}", body=b'{"n":%d}' % n) for n in range(5)]
    async with line_to(server) as line:
        await line.send(b"".join(several))

        answers = [await line.answer() for _ in several]

    assert [each[1][b"x-request-id"] for each in answers] == [b"n%d" % n for n in range(5)]
    assert len(server.clerk.all()) == 5


async def test_a_forged_request_is_refused_and_kept_apart(server: HookServer) -> None:
    async with line_to(server) as line:
        await line.send(request("d-1", secret="another"))

        status, headers, _ = await line.answer()

    assert status == b"HTTP/1.1 401 Unauthorized"
    assert headers[b"content-type"] == b"application/problem+json"
    assert server.clerk.all() == []


@pytest.mark.parametrize(
    "more",
    [
        ("transfer-encoding: chunked",),
        ("content-length: 14",),
        ("host: b",),
        *[tuple(f"x-{number}: y" for number in range(101))],
    ],
    ids=["two lengths", "length twice", "host twice", "too many headers"],
)
async def test_what_is_doubtful_is_refused_as_on_the_long_way(
    server: HookServer, more: Sequence[str]
) -> None:
    async with line_to(server) as line:
        await line.send(request("d-1", *([more] if isinstance(more, str) else more)))

        status, _, _ = await line.answer()

    assert status.split()[1] in {b"400", b"431"}
    assert server.clerk.all() == []


async def test_a_client_that_asks_for_an_end_gets_it(server: HookServer) -> None:
    async with line_to(server) as line:
        await line.send(request("d-1", "connection: close"))

        assert (await line.answer())[0] == b"HTTP/1.1 200 OK"
        assert await asyncio.wait_for(line.reader.read(), 5) == b""


async def test_a_client_that_is_gone_costs_nothing(server: HookServer) -> None:
    async with line_to(server) as line:
        await line.send(request("d-1"))
    async with line_to(server) as line:
        await line.send(request("d-2", body=b"{}"))
        assert (await line.answer())[0] == b"HTTP/1.1 200 OK"
    assert len(server.clerk.all()) == 2


@pytest.mark.usefixtures("no_long_way")
async def test_a_failed_commit_is_reported_as_temporary(
    server: HookServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_tx: object, _arrivals: Sequence[NewDelivery], _now: int) -> Iterator[None]:
        message = "away"
        raise StoreUnavailable(message)

    monkeypatch.setattr(server.rooms.intake._group, "_function", fail)
    monkeypatch.setattr(server.rooms.intake._group, "_insert", None)
    async with line_to(server) as line:
        await line.send(request("d-1"))

        status, headers, _ = await line.answer()

        assert status == b"HTTP/1.1 503 Service Unavailable"
        assert int(headers[b"retry-after"]) > 0
    assert server.clerk.all() == []


async def test_a_stopping_server_answers_what_it_accepted() -> None:
    accepted: list[RequestContext] = []
    connection, transport = connected(lambda exchange, _body: accepted.append(exchange))
    connection.data_received(request("d-1"))
    connection.stop()
    assert transport.written == b""

    accepted[0].respond(200, [(b"content-length", b"2")], b"ok")

    assert transport.written.startswith(b"HTTP/1.1 200 OK")
    assert b"connection: close\r\n" in transport.written
    assert transport.ended


async def test_nothing_is_written_to_a_client_that_left_before_the_commit() -> None:
    accepted: list[RequestContext] = []
    connection, transport = connected(lambda exchange, _body: accepted.append(exchange))
    connection.data_received(request("d-1"))
    connection.connection_lost(None)

    accepted[0].respond(200, [(b"content-length", b"2")], b"ok")

    assert transport.written == b""
    assert connection.state.in_flight == 0
