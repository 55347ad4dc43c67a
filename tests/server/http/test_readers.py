"""Clients that read slowly or never, leave midway, or are answered before they have finished."""

import asyncio
import socket
import struct
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from oncebox.server.http import http_connection
from oncebox.server.http.request_context import Receive, RequestContext, Scope, Send
from oncebox.settings import HttpSettings
from tests.support.connections import connected
from tests.support.http import SHORT, Recorder, Served, chunked, post, serving, until

MIB = 1024 * 1024
EXPECT = b"POST /v1/x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"


class Sender:
    """An application that answers with so many bytes at once, and counts its calls."""

    def __init__(self, size: int) -> None:
        self._body = b"x" * size
        self.calls = 0

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        self.calls += 1
        length = b"%d" % len(self._body)
        headers = [(b"content-length", length)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": self._body})


async def started(send: Send, body: bytes, *, more: bool = True) -> None:
    """Start a response."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body, "more_body": more})


@asynccontextmanager
async def slow_reader(served: Served, *, buffer: int = 4096) -> AsyncIterator[socket.socket]:
    """Connect with a small buffer for what is received."""
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        slow.setblocking(False)
        await asyncio.get_running_loop().sock_connect(slow, ("127.0.0.1", served.port))
        yield slow


async def read_slowly(slow: socket.socket, *, at_once: int, pause: float) -> bytes:
    """Read until the end."""
    loop, said = asyncio.get_running_loop(), b""
    while part := await asyncio.wait_for(loop.sock_recv(slow, at_once), 10):
        said += part
        await asyncio.sleep(pause)
    return said


def quiet(served: Served) -> bool:
    """Say whether nothing is left of any connection or request."""
    names = ("oncebox_connections", "oncebox_http_in_flight")
    return not any(served.count(name) for name in names) and not served.body_bytes()


# reading


@pytest.mark.parametrize("direct", [False, True], ids=["application", "webhooks"])
async def test_nothing_more_is_prepared_for_a_client_that_does_not_read(direct: bool) -> None:
    app, handled = Sender(4 * MIB), []

    def handle(exchange: RequestContext, _body: bytes) -> None:
        handled.append(exchange)
        exchange.respond(200, [], b"x" * 4 * MIB)

    async with serving(app, handle if direct else None, **SHORT) as served:
        async with slow_reader(served) as deaf:
            await asyncio.get_running_loop().sock_sendall(deaf, post() * 20)
            await until(lambda: served.count("oncebox_connections_ended_total") > 0)
        await until(lambda: quiet(served))

        assert served.count("oncebox_connections_ended_total", why="does_not_read") == 1
    assert app.calls + len(handled) <= 2


async def test_client_that_reads_after_a_while_gets_every_answer() -> None:
    app = Sender(MIB)
    async with serving(app) as served, slow_reader(served, buffer=65_536) as slow:
        await asyncio.get_running_loop().sock_sendall(slow, post() * 10)
        await asyncio.sleep(0.2)
        slow.shutdown(socket.SHUT_WR)
        said = await read_slowly(slow, at_once=MIB, pause=0)

    assert said.count(b"HTTP/1.1 200 OK") == app.calls == 10


@pytest.mark.parametrize("more", ["Connection: close", "X: y"])
async def test_slow_reader_gets_a_large_response_whole(
    more: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_connection, "_CLOSE_WITHIN", 0.1)
    limits = {**SHORT, "headers_within": 1.0, "idle": 1.0}
    async with (
        serving(Sender(8 * MIB), **limits) as served,
        slow_reader(served, buffer=65_536) as slow,
    ):
        await asyncio.get_running_loop().sock_sendall(slow, post(b"", more))
        said = await read_slowly(slow, at_once=200_000, pause=0.03)

    assert len(said.partition(b"\r\n\r\n")[2]) == 8 * MIB


async def test_client_that_never_reads_is_let_go_although_its_body_has_just_ended() -> None:
    async def chatty(_scope: Scope, _receive: Receive, send: Send) -> None:
        await started(send, b"")
        while True:
            await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})
            await asyncio.sleep(0)

    async with serving(chatty, **{**SHORT, "request_within": 30.0}) as served:
        async with slow_reader(served) as deaf:
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(deaf, post(b"body", path="/v1/x")[:-1])
            await asyncio.sleep(0.3)
            await loop.sock_sendall(deaf, b"y")
            await until(
                lambda: served.count("oncebox_connections_ended_total", why="does_not_read") == 1
            )
        await until(lambda: served.count("oncebox_connections") == 0)


# early answers


async def early(_scope: Scope, _receive: Receive, send: Send) -> None:
    await started(send, b"no", more=False)


async def test_large_body_that_the_application_does_not_want_is_discarded() -> None:
    async with serving(early) as served:
        for make in (post, chunked):
            peer = await served.connect()
            peer.send(make(b"x" * 900_000, path="/v1/x"))
            first = await peer.answer()
            peer.send(post(b"next", path="/v1/x"))
            second = await peer.answer()
            peer.close()

            assert (first.status, second.status) == (200, 200)
        await until(lambda: quiet(served))


async def test_application_does_not_wait_for_a_body_that_was_refused() -> None:
    app = Recorder()
    async with serving(app, body=100_000) as served:
        peer = await served.connect()
        peer.send(chunked(b"x" * 50_000, b"x" * 51_000, path="/v1/x"))
        refused = await peer.answer()
        await until(lambda: app.gone == 1)
        peer.send(post(b"next", path="/v1/x"))
        answer = await peer.answer()
        assert served.count("oncebox_http_in_flight") == 0
        peer.close()

    assert (refused.status, answer.status) == (413, 200)


async def test_large_body_before_an_end_does_not_cost_the_answer() -> None:
    async with serving(early) as served:
        peer = await served.connect()
        peer.send(post(b"x" * 900_000, "Connection: close", path="/v1/x"))
        answer = await peer.answer()
        assert await peer.end() == b""
        peer.close()

    assert answer.status == 200


async def test_client_is_not_told_to_continue_within_a_response() -> None:
    async def listening(_scope: Scope, receive: Receive, send: Send) -> None:
        await started(send, b"one")
        await receive()
        await send({"type": "http.response.body", "body": b"two"})

    async with serving(listening) as served:
        peer = await served.connect()
        peer.send(EXPECT)
        await asyncio.sleep(0.05)
        peer.send(b"hi")
        answer = await peer.answer()
        peer.close()

    assert (answer.status, answer.body) == (200, b"onetwo")


async def test_wrong_rest_of_a_body_does_not_cost_the_answer() -> None:
    connection, transport = connected(None, early)
    connection.data_received(chunked(b"hello", path="/v1/x")[:-5])
    for _ in range(5):
        await asyncio.sleep(0)
    connection.data_received(b"no chunk\r\n")

    assert transport.written.startswith(b"HTTP/1.1 200 ")
    assert (transport.ended, transport.closed) == (True, False)


# applications and handlers that fail


async def test_webhook_handler_that_fails_is_answered_for() -> None:
    def broken(_exchange: RequestContext, _body: bytes) -> None:
        raise ZeroDivisionError

    async with serving(Recorder(), broken) as served:
        peer = await served.connect()
        for body in (b"small", b"x" * 100_000):
            peer.send(post(body))
            answer = await peer.answer()
            assert (answer.status, answer.json["code"]) == (500, "internal_error")
        peer.close()
        await until(lambda: quiet(served))


@pytest.mark.parametrize("order", [("body",), ("start", "start"), ("start", "body", "start")])
async def test_response_that_starts_twice_or_without_a_head_is_no_response(
    order: tuple[str, ...],
) -> None:
    messages = {
        "start": {"type": "http.response.start", "status": 200, "headers": [(b"x", b"y")]},
        "body": {"type": "http.response.body", "body": b"part", "more_body": True},
    }

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        for name in order:
            await send(messages[name])

    async with serving(app) as served:
        peer = await served.connect()
        peer.send(post())
        said = await peer.end() if "start" in order else (await peer.answer()).body
        peer.close()
        await until(lambda: quiet(served))

    assert said.count(b"HTTP/1.1") <= 1
    assert b"0\r\n\r\n" not in said


# memory


async def test_refused_body_is_not_kept() -> None:
    async with serving(Recorder(), lambda *_: None, body=MIB) as served:
        peers = [await served.connect() for _ in range(20)]
        tracemalloc.start()
        for peer in peers:
            peer.send(chunked(b"x" * 2 * MIB)[:-10])
            assert (await peer.answer()).status == 413
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        for peer in peers:
            peer.close()

    assert kept < 5 * MIB


@pytest.mark.parametrize("webhook", [False, True])
async def test_body_in_small_packets_takes_no_more_memory_than_its_size(webhook: bool) -> None:
    gate = asyncio.Event()

    async def waiting(_scope: Scope, _receive: Receive, _send: Send) -> None:
        await gate.wait()

    handler = (lambda *_: None) if webhook else None
    connection, _ = connected(handler, waiting, HttpSettings(headers=1000))
    connection.data_received(post(b"x" * 60_000)[:-60_000])
    await asyncio.sleep(0)
    tracemalloc.start()
    for _ in range(29_999):
        connection.data_received(b"xy"[:2])
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    gate.set()

    assert kept < 200_000


# leaving


async def streaming(_scope: Scope, _receive: Receive, send: Send) -> None:
    await started(send, b"x" * 1000)
    for _ in range(20):
        await asyncio.sleep(0.005)
        await send({"type": "http.response.body", "body": b"x" * 1000, "more_body": True})
    await send({"type": "http.response.body", "body": b"end"})


@pytest.mark.parametrize("wait", [0.0, 0.05])
async def test_half_closed_client_gets_the_whole_of_a_streamed_response(wait: float) -> None:
    async with serving(streaming) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(post())
        await asyncio.sleep(wait)
        writer.write_eof()
        said = await asyncio.wait_for(reader.read(), 10)
        writer.close()

    assert said.endswith(b"3\r\nend\r\n0\r\n\r\n")


async def test_application_that_listens_notices_a_client_that_had_left_before() -> None:
    async def listening(_scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        await started(send, b"late", more=False)

    connection, transport = connected(None, listening)
    connection.data_received(post(b"1") + post(b"2"))
    assert connection.eof_received()
    await until(lambda: transport.closed)

    assert transport.written.count(b"HTTP/1.1 200") == 2


def _leave(peer: socket.socket, how: str) -> None:
    if how == "reset":
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    if how == "half-close":
        peer.shutdown(socket.SHUT_WR)
    else:
        peer.close()


BODY = b"x" * 100_000
STAGES = {
    "nothing": b"",
    "a CR": b"\r",
    "a part of a head": post(BODY)[:20],
    "a head": post(BODY)[:-100_000],
    "a part of a body": post(BODY)[:-10],
    "a part of a chunk line": chunked(BODY)[: -100_000 - 10],
    "a part of a chunk": chunked(BODY)[:-100],
    "a part of a trailer": chunked(BODY)[:-2] + b"X: y",
    "a whole request": post(BODY),
    "a request and a half": post(BODY) + post(BODY)[:-10],
    "three requests": post(BODY) + chunked(BODY) + post(BODY),
    "an expectation": EXPECT,
    "something malformed": b"GET / HTTP/3.0\r\n\r\n",
    "a refused body": chunked(b"x" * 200_000)[:-10],
}


def _answer_later(exchange: RequestContext, _body: bytes) -> None:
    loop = asyncio.get_running_loop()
    loop.call_later(0.01, exchange.respond, 200, [], b"x" * 1000)


@pytest.mark.parametrize("direct", [False, True], ids=["application", "webhooks"])
@pytest.mark.parametrize("how", ["half-close", "close", "reset"])
async def test_client_that_leaves_at_any_stage_leaves_nothing_behind(
    how: str, direct: bool
) -> None:
    async with serving(
        streaming, _answer_later if direct else None, **SHORT, body=150_000
    ) as served:
        loop = asyncio.get_running_loop()
        for data in STAGES.values():
            for wait in (0, 0.02):
                peer = socket.socket()
                peer.setblocking(False)
                await loop.sock_connect(peer, ("127.0.0.1", served.port))
                await loop.sock_sendall(peer, data)
                await asyncio.sleep(wait)
                _leave(peer, how)
                if how == "half-close":
                    await read_slowly(peer, at_once=100_000, pause=0)
                    peer.close()
        await until(lambda: quiet(served))
        answer = await served.ask(post())

    assert answer.status == 200


# many


async def test_webhooks_are_answered_beside_a_thousand_idle_connections() -> None:
    async with serving(Recorder(), _answer_later, connections=2_000) as served:
        idle = [await served.connect() for _ in range(1_000)]
        for peer in idle[::2]:
            peer.send(b"POST /in/x HTTP/1.1\r\nHost: a\r\n")
        statuses = [(await served.ask(post(b"x" * 1000))).status for _ in range(50)]
        assert served.count("oncebox_connections") >= 1_000
        for peer in idle:
            peer.close()
        await until(lambda: quiet(served))

    assert statuses == [200] * 50
