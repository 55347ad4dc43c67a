"""The guard lets through what keeps the limits, and refuses the rest in constant words."""

import asyncio
import gc
import re
from collections.abc import Callable

import pytest

from oncebox.core.metrics import Telemetry
from oncebox.server.http.asgi_app import AsgiApp
from oncebox.server.http.request_context import Receive, Scope, Send, request_context
from oncebox.settings import HttpSettings
from tests.support.http import Recorder, chunked, post, serving, until

KIB = 1024


@pytest.mark.parametrize("make", [post, chunked])
async def test_a_body_at_the_limit_is_taken_and_one_byte_more_is_not(
    make: Callable[[bytes], bytes],
) -> None:
    app = Recorder()
    async with serving(app, body=200 * KIB) as served:
        good = await served.ask(make(b"x" * 200 * KIB))
        bad = await served.ask(make(b"x" * (200 * KIB + 1)))

    assert good.status == 200
    assert (bad.status, bad.json["code"]) == (413, "body_too_large")
    assert app.bodies == [b"x" * 200 * KIB]


@pytest.mark.parametrize("make", [post, chunked])
async def test_only_mail_may_have_a_body_as_large_as_mail(make: Callable[..., bytes]) -> None:
    app = Recorder()
    async with serving(app, body=100 * KIB, mail_body=200 * KIB) as served:
        statuses = [
            (await served.ask(make(b"x" * size * KIB, path=path))).status
            for path in ("/v1/sends", "/v1/inboxes", "/in/shop")
            for size in (100, 200, 201)
        ]

    assert statuses == [200, 200, 413, 200, 413, 413, 200, 413, 413]


async def test_an_announced_giant_is_refused_before_it_is_sent() -> None:
    app = Recorder()
    async with serving(app) as served:
        peer = await served.connect()
        peer.send(b"POST /in/x HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999999\r\n\r\n")
        answer = await peer.answer()
        peer.close()

    assert answer.status == 413
    assert app.scopes == []


async def test_a_giant_in_chunks_is_refused_while_it_comes_and_not_kept() -> None:
    app = Recorder()
    async with serving(app, body=64 * KIB) as served:
        peer = await served.connect()
        peer.send(b"POST /in/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(40):
            peer.send(b"4000\r\n" + b"x" * 0x4000 + b"\r\n")
        answer = await peer.answer()
        peer.close()

    assert answer.status == 413
    assert app.bodies == []
    assert app.gone == 1


async def test_the_bodies_of_all_share_a_bounded_memory() -> None:
    app = Recorder()
    app.gate.clear()
    async with serving(app, body=100 * KIB, bodies=250 * KIB) as served:
        peers = [await served.connect() for _ in range(4)]
        for peer in peers[:2]:
            peer.send(post(b"x" * 100 * KIB))
        await until(lambda: len(app.bodies) == 2)
        peers[2].send(post(b"x" * 100 * KIB))
        refused = await peers[2].answer()
        peers[3].send(post(b"small ones are not counted"))
        await until(lambda: len(app.bodies) == 3)
        app.gate.set()
        statuses = [(await peers[number].answer()).status for number in (0, 1, 3)]
        again = await served.ask(post(b"x" * 100 * KIB))
        for peer in peers:
            peer.close()

    assert (refused.status, refused.json["code"]) == (503, "server_busy")
    assert refused.headers["retry-after"] == "2"
    assert [*statuses, again.status] == [200, 200, 200, 200]


@pytest.mark.parametrize(
    ("count", "size", "status"),
    [(50, 100, 200), (51, 100, 431), (4, 7 * KIB, 200), (5, 7 * KIB, 431), (1, 8 * KIB, 431)],
    ids=["as-many-as-allowed", "one-more", "large-enough", "too-large", "one-too-large"],
)
async def test_headers_are_limited_in_number_and_size(count: int, size: int, status: int) -> None:
    headers = [f"X-{number}: {'a' * (size - 10)}" for number in range(count)]
    app = Recorder()
    async with serving(app, header_count=52, headers=32 * KIB - 1000) as served:
        answer = await served.ask(post(b"", *headers))

    assert answer.status == status
    assert len(app.bodies) == (status == 200)


async def test_a_head_without_end_is_cut_off() -> None:
    async with serving(Recorder(), headers=32 * KIB) as served:
        peer = await served.connect()
        peer.send(b"POST /in/x HTTP/1.1\r\nHost: a\r\nX: ")
        for _ in range(20):
            peer.send(b"a" * 4 * KIB)
            await asyncio.sleep(0)
        answer = await peer.answer()
        await peer.end()
        peer.close()

        assert answer.status == 431
        assert served.count("oncebox_connections_ended_total", why="large_headers") == 1


async def test_a_long_path_counts_as_a_header() -> None:
    async with serving(Recorder(), headers=8 * KIB) as served:
        answer = await served.ask(post(b"", path="/in/" + "a" * 9 * KIB))

    assert answer.status == 431


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("Content-Length: 2\r\nTransfer-Encoding: chunked", b"2\r\nhi\r\n0\r\n\r\n"),
        ("Content-Length: 2\r\nContent-Length: 2", b"hi"),
        ("Content-Length: 2\r\nContent-Length: 3", b"hi"),
        ("Content-Length: -1", b"hi"),
        ("Content-Length: +2", b"hi"),
        ("Transfer-Encoding: chunked", b"zz\r\nhi\r\n0\r\n\r\n"),
        ("Transfer-Encoding: gzip, chunked", b"0\r\n\r\n"),
        ("Host: b\r\nContent-Length: 2", b"hi"),
        ("X: a\rb\r\nContent-Length: 2", b"hi"),
        ("X: a\x00b\r\nContent-Length: 2", b"hi"),
        ("X: a\r\n b\r\nContent-Length: 2", b"hi"),
        ("X : a\r\nContent-Length: 2", b"hi"),
    ],
)
async def test_what_two_readers_could_read_differently_is_refused(head: str, body: bytes) -> None:
    app = Recorder()
    async with serving(app) as served:
        answer = await served.ask(
            f"POST /in/x HTTP/1.1\r\nHost: a\r\n{head}\r\n\r\n".encode() + body
        )

    assert (answer.status, answer.json["code"]) == (400, "request_malformed")
    assert app.bodies == []


@pytest.mark.parametrize(
    "request_",
    [
        b"POST /in/x HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi",
        b"POST /in/x HTTP/1.1\nHost: a\nContent-Length: 2\n\nhi",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
async def test_what_is_not_proper_http_is_refused(request_: bytes) -> None:
    app = Recorder()
    async with serving(app) as served:
        answer = await served.ask(request_)

    assert (answer.status, answer.json["code"]) == (400, "request_malformed")
    assert app.bodies == []


async def test_a_body_shorter_than_announced_is_never_whole() -> None:
    app = Recorder()
    async with serving(app) as served:
        peer = await served.connect()
        peer.send(b"POST /in/x HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf")
        await until(lambda: bool(app.scopes))
        peer.close()
        await until(lambda: app.gone == 1)

    assert app.bodies == []


async def test_older_and_odder_requests_are_served() -> None:
    app = Recorder()
    async with serving(app) as served:
        old = await served.ask(b"POST /in/x HTTP/1.0\r\nContent-Length: 2\r\n\r\nhi")
        absolute = await served.ask(
            b"POST http://elsewhere/in/x HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"
        )

    assert (old.status, absolute.status) == (200, 200)
    assert [scope["path"] for scope in app.scopes] == ["/in/x", "/in/x"]


async def test_a_client_that_waits_to_continue_is_told_to() -> None:
    app = Recorder()
    async with serving(app) as served:
        peer = await served.connect()
        peer.send(
            b"POST /in/x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n"
        )
        go_on = await peer.answer()
        peer.send(b"hi")
        answer = await peer.answer()
        peer.close()

    assert (go_on.status, answer.status) == (100, 200)


async def test_a_client_that_waits_to_continue_with_too_much_is_let_go() -> None:
    """Whether its body follows nobody knows, so the connection cannot go on."""
    async with serving(Recorder(), body=10) as served:
        peer = await served.connect()
        peer.send(
            b"POST /in/x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 11\r\n\r\n"
        )
        answer = await peer.answer()
        rest = await peer.end()
        peer.close()

    assert answer.status == 413
    assert rest == b""


async def test_pipelined_requests_are_answered_in_turn() -> None:
    app = Recorder()
    async with serving(app) as served:
        peer = await served.connect()
        peer.send(post(b"1") + post(b"2") + post(b"3"))
        answers = [await peer.answer() for _ in range(3)]
        peer.close()

    assert [answer.status for answer in answers] == [200, 200, 200]
    assert app.bodies == [b"1", b"2", b"3"]


async def test_nonsense_after_a_good_request_does_not_spoil_its_answer() -> None:
    app = Recorder()
    async with serving(app) as served:
        peer = await served.connect()
        peer.send(post(b"good") + b"\x00\x01nonsense\r\n\r\n")
        answer = await peer.answer()
        refused = await peer.answer()
        rest = await peer.end()
        peer.close()

    assert (answer.status, refused.status) == (200, 400)
    assert rest == b""


async def test_one_address_may_not_ask_too_often() -> None:
    async with serving(Recorder(), rate=5) as served:
        answers = [await served.ask(post()) for _ in range(8)]

    assert [answer.status for answer in answers[:5]] == [200] * 5
    refused = [answer for answer in answers if answer.status == 429]
    assert refused
    assert {answer.headers["retry-after"] for answer in refused} == {"1"}
    assert refused[0].json["retry_safe"] is True


async def test_a_trusted_proxy_says_who_asks_and_nobody_else_does() -> None:
    app = Recorder()
    headers = ("X-Forwarded-For: 203.0.113.7, 198.51.100.1", "X-Forwarded-Proto: https")
    async with serving(app) as served:
        await served.ask(post(b"", *headers))
    async with serving(app, proxies="127.0.0.0/8, 198.51.100.1") as served:
        await served.ask(post(b"", *headers))
    plain, behind = app.scopes

    assert (plain["client"][0], plain["scheme"]) == ("127.0.0.1", "http")
    assert (behind["client"][0], behind["scheme"]) == ("203.0.113.7", "https")
    assert request_context(behind).address == "203.0.113.7"


@pytest.mark.parametrize("sent", ["abc-1.2_3", "a" * 64])
async def test_a_sane_request_id_is_taken_over(sent: str) -> None:
    app = Recorder()
    async with serving(app) as served:
        answer = await served.ask(post(b"", f"X-Request-Id: {sent}"))

    assert answer.headers["x-request-id"] == sent
    assert request_context(app.scopes[0]).request_id == sent


@pytest.mark.parametrize("sent", ["a b", "-x", "a" * 65, "é", "a\tb", "x;y", '"'])
async def test_an_odd_request_id_is_replaced(sent: str) -> None:
    async with serving(Recorder()) as served:
        answer = await served.ask(post(b"", f"X-Request-Id: {sent}"))

    assert re.fullmatch(r"req_[0-9a-z]{26}-[0-9a-f]+", answer.headers["x-request-id"])


async def test_requests_without_an_id_get_one_each() -> None:
    async with serving(Recorder()) as served:
        answers = [await served.ask(post()) for _ in range(3)]

    assert len({answer.headers["x-request-id"] for answer in answers}) == 3


async def test_a_failing_application_tells_the_client_nothing_of_why(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def broken(_scope: Scope, _receive: Receive, _send: Send) -> None:
        message = "canary-7f3a"
        raise RuntimeError(message)

    async with serving(broken) as served:
        answer = await served.ask(post(b"canary-7f3a", "X-Canary: canary-7f3a"))

        assert (answer.status, answer.json["code"]) == (500, "internal_error")
        assert b"canary-7f3a" not in answer.body
        assert "canary-7f3a" not in served.telemetry.scrape()
        assert served.count("oncebox_http_requests_total", route="/in/", status="500") == 1
    assert "canary-7f3a" not in caplog.text
    assert "request_failed" in caplog.text


async def test_every_refusal_has_the_same_shape_and_words() -> None:
    async with serving(Recorder(), body=1) as served:
        first, second = [(await served.ask(post(b"12"))).json for _ in range(2)]

    assert set(first) == {
        "type", "title", "status", "detail", "instance", "code", "retry_safe", "request_id",
    }  # fmt: skip
    for own in ("instance", "request_id"):
        del first[own], second[own]
    assert first == second


async def test_web_sockets_are_turned_away() -> None:
    sent = []

    async def send(message: object) -> None:
        sent.append(message)

    async def receive() -> dict[str, object]:
        return {"type": "websocket.connect"}

    app = AsgiApp(Recorder(), HttpSettings(), Telemetry())
    await app({"type": "websocket"}, receive, send)

    assert sent == [{"type": "websocket.close", "code": 1008}]


async def test_a_request_leaves_no_garbage_behind() -> None:
    """A circle through the scope would cost a sweep of the collector every few requests."""

    async def forgetful(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    async with serving(forgetful) as served:
        peer = await served.connect()
        gc.collect()
        gc.disable()
        try:
            for _ in range(50):
                peer.send(post())
                await peer.answer()
            garbage = gc.collect()
        finally:
            gc.enable()
        peer.close()

    assert garbage < 50
