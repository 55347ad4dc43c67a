"""Requests and responses on a connection: half-closed clients, HEAD, proxies, capacity, data."""

import asyncio
from pathlib import Path

import pytest

from oncebox.server.http.request_context import Receive, RequestContext, Scope, Send
from oncebox.settings import HttpSettings
from tests.server.http.test_request_parsing import decoded
from tests.support.connections import connected
from tests.support.http import Recorder, chunked, post, serving, until
from tests.support.shared import lies, shared

FOLDER = "data/http-requests"
#: valid requests that are refused, and why
REFUSED = {
    "003.http": "the Host is not a host name",
    "004.http": "HTTP/1.1 without Host",
    "005.http": "HTTP/1.1 without Host",
    "006.http": "HTTP/1.1 without Host",
    "011.http": "HTTP/1.1 without Host",
    "012.http": "HTTP/1.1 without Host",
    "014.http": "HTTP/1.1 without Host",
    "021.http": "HTTP/1.1 without Host",
    "023.http": "HTTP/1.1 without Host",
    "028.http": "a blank before the colon",
    "029.http": "two transfer codings",
    "030.http": "two transfer codings",
    "031.http": "an unknown method",
    "031compat.http": "an unknown method",
    "031compat2.http": "an unknown method",
    "040_compat.http": "a name that some readers take for Content-Length",
    "compat_obs_fold.http": "obsolete folding",
    "pp_04.http": "a PROXY protocol header where none is expected",
}


def names(kind: str) -> list[str]:
    folder = lies(f"{FOLDER}/{kind}")
    return sorted(path.name for path in folder.glob("*.http")) if folder.exists() else ["missing"]


def requests_in(kind: str, name: str) -> bytes:
    return decoded(shared(f"{FOLDER}/{kind}") / name)


async def run(data: bytes, *, bytewise: bool = False) -> tuple[Recorder, bytes, bool]:
    """Return what an application received, what was answered, and whether it was closed."""
    app = Recorder()
    connection, transport = connected(None, app)
    for packet in [data[n : n + 1] for n in range(len(data))] if bytewise else [data]:
        connection.data_received(packet)
    for _ in range(20):
        await asyncio.sleep(0)
    return app, transport.written, transport.closed or transport.ended


@pytest.mark.parametrize("bytewise", [False, True])
@pytest.mark.parametrize("name", names("invalid"))
async def test_invalid_request_reaches_no_application(name: str, bytewise: bool) -> None:
    data = requests_in("invalid", name)
    app, answer, closed = await run(data, bytewise=bytewise)

    assert app.bodies == []
    assert b"HTTP/1.1 2" not in answer
    assert closed or not answer  # an incomplete one still waits


@pytest.mark.parametrize("bytewise", [False, True])
@pytest.mark.parametrize("name", names("valid"))
async def test_valid_request_is_answered_or_refused_for_a_reason(name: str, bytewise: bool) -> None:
    data = requests_in("valid", name)
    app, answer, _ = await run(data, bytewise=bytewise)

    if name in REFUSED:
        assert app.bodies == []
        assert answer.startswith(b"HTTP/1.1 400 ")
    else:
        assert app.bodies
        assert answer.startswith(b"HTTP/1.1 200 ")


async def test_half_closed_client_gets_its_answers() -> None:
    app = Recorder()
    async with serving(app) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(post(b"1") + chunked(b"2") + post(b"3"))
        writer.write_eof()
        said = await asyncio.wait_for(reader.read(), 10)
        writer.close()

    assert said.count(b"HTTP/1.1 200 OK") == 3
    assert app.bodies == [b"1", b"2", b"3"]


async def test_half_closed_client_with_half_a_request_gets_nothing() -> None:
    app = Recorder()
    async with serving(app) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(post(b"1") + post(b"second")[:-3])
        writer.write_eof()
        said = await asyncio.wait_for(reader.read(), 10)
        writer.close()

    assert said.count(b"HTTP/1.1 200 OK") == 1
    assert app.bodies == [b"1"]


async def test_client_that_leaves_is_noticed_by_the_application() -> None:
    gone = asyncio.Event()

    async def waiting(_scope: Scope, receive: Receive, _send: Send) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        gone.set()

    async with serving(waiting) as served:
        peer = await served.connect()
        peer.send(post(b"x"))
        await asyncio.sleep(0.05)
        peer.close()
        await asyncio.wait_for(gone.wait(), 10)


async def test_head_is_answered_without_a_body() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({
            "type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")],
        })  # fmt: skip
        await send({"type": "http.response.body", "body": b"hello"})

    async with serving(app) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        head = b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n"
        writer.write(head + head.replace(b"HEAD", b"GET"))
        writer.write_eof()
        said = await asyncio.wait_for(reader.read(), 10)
        writer.close()

    first, second = said.split(b"HTTP/1.1 200 OK\r\n")[1:]
    assert (first[-4:], second[-5:]) == (b"\r\n\r\n", b"hello")
    assert b"content-length: 5" in first


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_streamed_response_is_framed_for_its_reader(version: str) -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for part in (b"one", b"", b"two"):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async with serving(app) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(f"GET / HTTP/{version}\r\nHost: a\r\n\r\n".encode())
        writer.write_eof()
        _, _, body = (await asyncio.wait_for(reader.read(), 10)).partition(b"\r\n\r\n")
        writer.close()

    chunks = b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"
    assert body == (b"onetwo" if version == "1.0" else chunks)


@pytest.mark.parametrize("length", [b"4", b"6"])
async def test_response_of_another_length_than_announced_is_never_complete(length: bytes) -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        headers = [(b"content-length", length)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"hello"})

    async with serving(app) as served:
        peer = await served.connect()
        peer.send(post())
        said = await peer.end()
        peer.close()

    assert b"hello" not in said


async def test_line_break_in_a_response_header_is_not_sent() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        headers = [(b"x", b"a\r\nset-cookie: b")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"hello"})

    async with serving(app) as served:
        peer = await served.connect()
        peer.send(post(b"", "Connection: close"))
        said = await peer.end()
        peer.close()

    assert said.startswith(b"HTTP/1.1 500 ")
    assert b"set-cookie" not in said


@pytest.mark.parametrize(
    "header",
    [
        (b"content-length", b"4"),
        (b"content-length", b"6"),
        (b"content-length", b"05"),
        (b"x", b"a\r\nset-cookie: b"),
        (b"x", b"a\nset-cookie: b"),
        (b"x", b"a\rset-cookie: b"),
        (b"x", b"a\r\n"),
        (b"x\r\nset-cookie", b"b"),
    ],
)
def test_response_of_a_webhook_with_wrong_headers_is_not_sent(header: tuple[bytes, bytes]) -> None:
    def handle(exchange: RequestContext, _body: bytes) -> None:
        exchange.respond(200, [(b"content-type", b"text/plain"), header], b"hello")

    connection, transport = connected(handle)
    connection.data_received(post(b""))

    assert transport.written.startswith(b"HTTP/1.1 500 ")
    assert b"set-cookie" not in transport.written
    assert b"hello" not in transport.written


@pytest.mark.parametrize("announced", [False, True])
def test_response_has_its_length_once(announced: bool) -> None:
    def handle(exchange: RequestContext, body: bytes) -> None:
        length = [(b"content-length", b"%d" % len(body))] if announced else []
        exchange.respond(200, [(b"content-type", b"text/plain"), *length], body)

    connection, transport = connected(handle)
    for body in (b"hello", b"hello world"):  # the same headers before another body
        transport.written = b""
        connection.data_received(post(body))

        head, _, sent = transport.written.partition(b"\r\n\r\n")
        lengths = [line for line in head.split(b"\r\n") if line.startswith(b"content-length:")]
        assert lengths == [b"content-length: %d" % len(body)]
        assert sent == body


async def test_headers_of_a_response_may_be_any_pairs() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        headers = ([name, b"3"] for name in (b"content-length", b"x-other"))
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"abc"})

    async with serving(app) as served:
        answer = await served.ask(post())

    assert answer.status == 200
    assert answer.body == b"abc"


async def test_proxy_protocol_is_read_from_trusted_proxies_only() -> None:
    line = b"PROXY TCP4 203.0.113.7 192.0.2.1 56324 443\r\n"
    app = Recorder()
    async with serving(app, proxies="127.0.0.0/8", proxy_protocol=True) as served:
        told, untold = await served.ask(line + post(b"1")), await served.ask(post(b"2"))
    async with serving(app, proxies="10.0.0.0/8", proxy_protocol=True) as served:
        stranger, plain = await served.ask(line + post(b"3")), await served.ask(post(b"4"))

    assert [each.status for each in (told, untold, stranger, plain)] == [200, 400, 400, 200]
    assert [scope["client"][0] for scope in app.scopes] == ["203.0.113.7", "127.0.0.1"]


async def test_one_connection_of_a_proxy_serves_many_clients() -> None:
    app = Recorder()
    async with serving(app, proxies="127.0.0.0/8", connections_per_address=1) as served:
        peers = [await served.connect() for _ in range(3)]
        for number, peer in enumerate(peers):
            for client in (f"203.0.113.{number}", f"198.51.100.{number}"):
                peer.send(post(b"", f"X-Forwarded-For: {client}"))
                assert (await peer.answer()).status == 200
        for peer in peers:
            peer.close()

    assert len({scope["client"][0] for scope in app.scopes}) == 6


@pytest.mark.parametrize("header", ["x-forwarded-for", "forwarded"])
async def test_webhooks_take_the_direct_path_behind_a_proxy_too(header: str) -> None:
    app, handled = Recorder(), []

    def handle(exchange: RequestContext, body: bytes) -> None:
        handled.append((exchange.address, exchange.scheme, body))
        exchange.respond(200, [], b"ok")

    fields = {
        "x-forwarded-for": ("X-Forwarded-For: 203.0.113.7", "X-Forwarded-Proto: https"),
        "forwarded": ("Forwarded: for=203.0.113.7;proto=https",),
    }
    async with serving(app, handle, proxies="127.0.0.0/8", forwarded_header=header) as served:
        answer = await served.ask(post(b"hook", *fields[header]))

    assert (answer.status, app.scopes) == (200, [])
    assert handled == [("203.0.113.7", "https", b"hook")]


async def test_webhooks_and_probes_are_served_when_the_api_is_busy() -> None:
    app = Recorder()
    app.gate.clear()
    async with serving(app, connections=10) as served:
        waiting = [await served.connect() for _ in range(9)]
        for peer in waiting:
            peer.send(post(b"long poll", path="/v1/waits"))
        await until(lambda: len(app.bodies) == 9)
        refused = await served.ask(post(b"one more", path="/v1/waits"))
        intake, probe = await served.connect(), await served.connect()
        intake.send(post(b"hook", path="/in/x"))
        probe.send(post(b"probe", path="/healthz"))
        await until(lambda: len(app.bodies) == 11)
        app.gate.set()
        statuses = [(await peer.answer()).status for peer in (intake, probe, *waiting)]
        for peer in (intake, probe, *waiting):
            peer.close()

    assert (refused.status, refused.json["code"]) == (503, "server_busy")
    assert statuses == [200] * 11


async def test_webhooks_on_new_connections_are_served_while_every_other_is_at_work() -> None:
    """Also more of them than the share of connections that is reserved."""
    app = Recorder()
    app.gate.clear()
    async with serving(app, connections=10) as served:
        peers = [await served.connect() for _ in range(15)]
        for number, peer in enumerate(peers):
            peer.send(post(b"x", path="/v1/waits" if number < 9 else "/in/x"))
        await until(lambda: len(app.bodies) == 15)
        refused = await served.ask(post(b"one more", path="/v1/waits"))
        app.gate.set()
        statuses = [(await peer.answer()).status for peer in peers]
        for peer in peers:
            peer.close()

    assert (refused.status, refused.json["code"]) == (503, "server_busy")
    assert statuses == [200] * 15


async def test_handler_of_webhooks_may_answer_at_once_or_later() -> None:
    exchanges: list[RequestContext] = []

    def handle(exchange: RequestContext, body: bytes) -> None:
        if body == b"now":
            exchange.respond(200, [], b"at once")
        else:
            exchanges.append(exchange)

    connection, transport = connected(handle, settings=HttpSettings())
    connection.data_received(post(b"now") + post(b"later") + post(b"now"))
    await asyncio.sleep(0)
    assert transport.written.count(b"HTTP/1.1 200") == 1

    exchanges[0].respond(200, [], b"later")
    for _ in range(3):
        await asyncio.sleep(0)

    bodies = [part[-7:] for part in transport.written.split(b"HTTP/1.1 200")[1:]]
    assert bodies == [b"at once", b"\r\nlater", b"at once"]


def test_every_request_that_is_refused_for_a_reason_exists() -> None:
    folder: Path = shared(f"{FOLDER}/valid")
    assert {path.name for path in folder.glob("*.http")} >= set(REFUSED)
