"""No client keeps the service waiting for long, and slow ones never keep others out."""

import asyncio
import socket

import pytest

from oncebox.errors import ListenAddressUnavailable
from oncebox.server.http.http_server import listen
from oncebox.server.http.request_context import Receive, RequestContext, Scope, Send
from oncebox.server.http.server_state import OVERFLOW
from oncebox.settings import HttpSettings
from tests.support.connections import connected
from tests.support.http import SHORT, Peer, Recorder, Served, post, serving, until


def ended(served: Served, why: str) -> float:
    return served.count("oncebox_connections_ended_total", why=why)


async def test_a_silent_connection_is_closed() -> None:
    async with serving(Recorder(), **SHORT) as served:
        peer = await served.connect()
        last_words = await peer.end()
        peer.close()

        assert last_words == b""
        assert ended(served, "idle") == 1


async def test_slow_headers_are_cut_off_however_steadily_they_drip() -> None:
    async with serving(Recorder(), **SHORT) as served:
        peer = await served.connect()
        dripping = asyncio.create_task(_drip(peer, b"POST /in/x HTTP/1.1\r\nX: " + b"a" * 500))
        last_words = await peer.end()
        dripping.cancel()
        peer.close()

        assert last_words.startswith(b"HTTP/1.1 408 ")
        assert ended(served, "slow_headers") == 1


async def test_slow_headers_of_a_second_request_are_cut_off_too() -> None:
    async with serving(Recorder(), **SHORT) as served:
        peer = await served.connect()
        peer.send(post())
        await peer.answer()
        dripping = asyncio.create_task(_drip(peer, b"POST /in/x HTTP/1.1\r\nX: " + b"a" * 500))
        last_words = await peer.end()
        dripping.cancel()
        peer.close()

        assert last_words.startswith(b"HTTP/1.1 408 ")


async def test_a_slow_body_is_cut_off_and_never_whole() -> None:
    app = Recorder()
    async with serving(app, **SHORT) as served:
        peer = await served.connect()
        peer.send(b"POST /in/x HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n")
        dripping = asyncio.create_task(_drip(peer, b"x" * 1000))
        answer = await peer.answer()
        await peer.end()
        dripping.cancel()
        peer.close()

        assert (answer.status, answer.json["code"]) == (408, "request_timeout")
        assert ended(served, "slow_body") == 1
        await until(lambda: app.gone == 1)
    assert app.bodies == []


async def test_a_body_that_stalls_after_a_fast_start_is_cut_off() -> None:
    settings = {**SHORT, "request_within": 6.0, "body_rate": 50_000}
    async with serving(Recorder(), **settings) as served:
        began = asyncio.get_running_loop().time()
        peer = await served.connect()
        peer.send(b"POST /in/x HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\n")
        peer.send(b"x" * 500_000)
        answer = await peer.answer()
        took = asyncio.get_running_loop().time() - began
        peer.close()

    assert answer.status == 408
    assert took < 5.5


async def test_a_body_that_keeps_the_pace_has_its_time_and_no_more() -> None:
    app = Recorder()
    async with serving(app, **{**SHORT, "body_rate": 100}) as served:
        steady, endless = await served.connect(), await served.connect()
        for peer, size in ((steady, 400), (endless, 100_000)):
            peer.send(b"POST /in/x HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size)
        drips = [
            asyncio.create_task(_drip(steady, b"x" * 400, at_once=40, pause=0.05)),
            asyncio.create_task(_drip(endless, b"x" * 100_000, at_once=40, pause=0.05)),
        ]
        in_time, too_long = await steady.answer(), await endless.answer()
        for drip in drips:
            drip.cancel()
        steady.close()
        endless.close()

    assert (in_time.status, too_long.status) == (200, 408)
    assert app.bodies == [b"x" * 400]


async def test_an_idle_connection_is_closed_and_a_busy_one_lives_on() -> None:
    async with serving(Recorder(), **SHORT) as served:
        idle, busy = await served.connect(), await served.connect()
        for peer in (idle, busy):
            peer.send(post())
            await peer.answer()
        for _ in range(10):
            await asyncio.sleep(0.1)
            busy.send(post())
            assert (await busy.answer()).status == 200

        assert await idle.end() == b""
        assert ended(served, "idle") == 1
        idle.close()
        busy.close()


async def test_work_of_ours_is_never_counted_against_the_client() -> None:
    app = Recorder()
    app.gate.clear()
    async with serving(app, **SHORT) as served:
        peer = await served.connect()
        peer.send(post(b"slow is us"))
        await asyncio.sleep(1.5)
        app.gate.set()
        answer = await peer.answer()
        peer.close()

    assert answer.status == 200


async def test_a_client_that_does_not_read_is_let_go() -> None:
    async def chatty(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(2_000):
            await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})

    async with serving(chatty, **SHORT) as served:
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect(("127.0.0.1", served.port))
            deaf.sendall(post())
            await until(lambda: ended(served, "does_not_read") == 1)
            await until(lambda: served.count("oncebox_connections") == 0)


async def test_the_rest_of_a_refused_body_is_thrown_away_and_the_connection_goes_on() -> None:
    app = Recorder()
    async with serving(app, body=100_000) as served:
        peer = await served.connect()
        peer.send(post(b"x" * 300_000))
        refused = await peer.answer()
        peer.send(post(b"good"))
        answer = await peer.answer()
        peer.close()

    assert (refused.status, answer.status) == (413, 200)
    assert app.bodies == [b"good"]


async def test_a_refused_body_that_never_ends_is_not_listened_to_for_ever() -> None:
    async with serving(Recorder(), **SHORT, body=10) as served:
        peer = await served.connect()
        peer.send(b"POST /in/x HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n")
        dripping = asyncio.create_task(_drip(peer, b"x" * 1_000_000, at_once=100))
        refused = await peer.answer()
        await peer.end()
        dripping.cancel()
        peer.close()

        assert refused.status == 413
        assert ended(served, "rest_of_body") == 1


async def test_who_waits_longest_gives_way_to_who_comes_new() -> None:
    async with serving(Recorder(), connections=3) as served:
        first = await served.connect()
        await until(lambda: served.count("oncebox_connections") == 1)
        await asyncio.sleep(0.6)
        others = [await served.connect() for _ in range(3)]
        await first.end()
        others[-1].send(post())
        answer = await others[-1].answer()

        assert answer.status == 200
        assert ended(served, "gave_way") == 1
        assert served.count("oncebox_connections") == 3
        for peer in (first, *others):
            peer.close()


async def test_a_known_connection_gives_way_only_after_the_strangers() -> None:
    async with serving(Recorder(), connections=3) as served:
        known = await served.connect()
        known.send(post())
        await known.answer()
        strangers = [await served.connect() for _ in range(6)]
        await until(lambda: served.count("oncebox_connections") == 3)
        known.send(post())
        answer = await known.answer()
        for peer in (known, *strangers):
            peer.close()

    assert answer.status == 200


async def test_where_everybody_is_worked_for_a_newcomer_is_told_to_come_back() -> None:
    app = Recorder()
    app.gate.clear()
    async with serving(app, connections=2) as served:
        working = [await served.connect() for _ in range(2 * OVERFLOW)]
        for peer in working:
            peer.send(post(b"x"))
        await until(lambda: len(app.bodies) == 2 * OVERFLOW)
        newcomer = await served.connect()
        refused = await newcomer.answer()
        app.gate.set()
        statuses = [(await peer.answer()).status for peer in working]
        for peer in (newcomer, *working):
            peer.close()

    assert (refused.status, refused.headers["retry-after"]) == (503, "2")
    assert statuses == [200] * 2 * OVERFLOW


async def test_nobody_gives_way_before_a_first_request_could_arrive() -> None:
    """Many may connect in one turn of the loop, before any of them is read."""
    async with serving(Recorder(), connections=10) as served:
        peers = [await served.connect() for _ in range(20)]
        for peer in peers:
            peer.send(post())
        statuses = [(await peer.answer()).status for peer in peers]
        for peer in peers:
            peer.close()

    assert statuses == [200] * 20


async def test_one_address_has_its_own_limit() -> None:
    async with serving(Recorder(), connections_per_address=2) as served:
        first = await served.connect()
        await until(lambda: served.count("oncebox_connections") == 1)
        others = [await served.connect() for _ in range(2)]
        await first.end()

        assert served.count("oncebox_connections") == 2
        for peer in (first, *others):
            peer.close()


async def test_pipelining_does_not_let_a_client_run_ahead() -> None:
    """While we work on one request, no more than one head of the next is read."""
    accepted: list[RequestContext] = []
    settings = HttpSettings(headers=4096)
    connection, transport = connected(lambda each, _: accepted.append(each), settings=settings)
    connection.data_received(post(b"x"))
    parts = 0
    while not transport.paused and parts < 100:
        connection.data_received(b"X" * 1000)
        parts += 1
    assert parts == 5

    accepted[0].respond(200, [], b"ok")

    assert not transport.paused


@pytest.mark.parametrize("sizes", [(60_000, 20_000), (100, 100_000, 100), (100,) * 900])
async def test_a_body_that_comes_in_many_reads_before_anybody_looks_is_still_counted(
    sizes: tuple[int, ...],
) -> None:
    """Some loops read again and again before they let the application begin."""
    app = Recorder()
    settings = HttpSettings(body=70_000)
    connection, transport = connected(None, app, settings)
    connection.data_received(
        b"POST /in/x HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % sum(sizes)
    )
    for size in sizes:
        connection.data_received(b"x" * size)
    for _ in range(10):
        await asyncio.sleep(0)

    assert transport.written.startswith(b"HTTP/1.1 413 ")
    assert app.bodies == []


async def test_stopping_lets_a_request_finish_and_ends_those_who_only_wait() -> None:
    app = Recorder()
    app.gate.clear()
    async with serving(app, stop_within=5.0) as served:
        waiting, working = await served.connect(), await served.connect()
        working.send(post(b"x"))
        await until(lambda: len(app.bodies) == 1)
        asyncio.get_running_loop().call_later(0.5, app.gate.set)
    answer = await working.answer()
    last_words = await waiting.end()
    waiting.close()
    working.close()

    assert answer.status == 200
    assert answer.headers["connection"] == "close"
    assert last_words == b""


async def test_what_a_stopping_server_does_not_serve_is_told_to_come_back() -> None:
    """A request whose head is still arriving, and one that takes longer than the stop."""
    app = Recorder()
    app.gate.clear()
    async with serving(app, stop_within=0.3) as served:
        arriving, working = await served.connect(), await served.connect()
        working.send(post(b"x"))
        await until(lambda: len(app.bodies) == 1)
        arriving.send(post(b"y")[:20])
        await served.ask(b"nonsense\r\n\r\n")  # what was sent before has arrived
    answers = [await each.answer() for each in (arriving, working)]
    last_words = [await each.end() for each in (arriving, working)]
    app.gate.set()
    for each in (arriving, working):
        each.close()

    for answer in answers:
        assert (answer.status, answer.json["code"]) == (503, "server_busy")
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["connection"] == "close"
        assert int(answer.headers["retry-after"]) > 0
    assert last_words == [b"", b""]


async def test_a_stream_that_a_stopping_server_must_cut_ends_without_another_response() -> None:
    async def endless(_scope: Scope, _receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b": hello\n\n", "more_body": True})
        await asyncio.Event().wait()

    async with serving(endless, stop_within=0.3) as served:
        reader = await served.connect()
        reader.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        said = await reader.until(b": hello\n\n\r\n")
    said += await reader.end()
    reader.close()

    assert said.startswith(b"HTTP/1.1 200 ")
    assert said.count(b"HTTP/1.1") == 1
    assert said.endswith(b": hello\n\n\r\n")


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("no such host", "is no host name or address"),
        ("203.0.113.1", "this machine has no such address"),
    ],
)
async def test_an_address_that_cannot_be_listened_on_is_told(host: str, words: str) -> None:
    with pytest.raises(ListenAddressUnavailable, match=words):
        listen(host, 0)


async def _drip(peer: Peer, data: bytes, *, at_once: int = 1, pause: float = 0.05) -> None:
    """Send a little at a time."""
    for place in range(0, len(data), at_once):
        peer.send(data[place : place + at_once])
        await asyncio.sleep(pause)
