"""The way out: what is public, what is refused, what is bounded."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from oncebox.core.egress import Egress
from oncebox.errors import ConfigInvalid, EgressFailed, EgressRefused
from oncebox.model.public_internet import is_public_ip, parse_allowed_hosts

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.1", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.255.255.254", "168.63.129.16",
        "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.168.1.1",
        "198.18.0.1", "224.0.0.1", "255.255.255.255", "::", "::1", "::127.0.0.1",
        "::ffff:127.0.0.1", "::ffff:8.8.8.8", "64:ff9b::7f00:1", "64:ff9b:1::a00:1",
        "2001::1", "2001:db8::1", "2002:7f00:1::", "fc00::1", "fe80::1%eth0", "fec0::1",
        "ff02::1", "3fff::1", "localhost", "", "1", "0x7f000001",
    ],
)  # fmt: skip
def test_what_is_not_public_is_refused(address: str) -> None:
    assert not is_public_ip(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "52.94.0.1", "2606:4700::1111", "172.32.0.1"])
def test_what_is_public_is_not(address: str) -> None:
    assert is_public_ip(address)


@asynccontextmanager
async def _server(answer: Answer) -> AsyncIterator[str]:
    tasks = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.append(asyncio.current_task())
        try:
            await reader.readuntil(b"\r\n\r\n")
            await answer(writer)
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    for task in tasks:
        if task is not None:
            task.cancel()
    await asyncio.gather(*(task for task in tasks if task is not None), return_exceptions=True)


@asynccontextmanager
async def _egress(*local: str) -> AsyncIterator[Egress]:
    egress = Egress(local=local)
    yield egress
    await egress.close()


def _says(text: str) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(text.encode())
        await writer.drain()

    return answer


async def test_a_small_document_is_fetched() -> None:
    answer = _says("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi")
    async with _server(answer) as place, _egress(place) as egress:
        assert await egress.get(f"http://{place}/key.pem") == b"hi"


async def test_a_redirect_is_not_followed() -> None:
    answer = _says("HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1/\r\ncontent-length: 0\r\n\r\n")
    async with _server(answer) as place, _egress(place) as egress:
        with pytest.raises(EgressFailed):
            await egress.get(f"http://{place}/")


async def test_an_endless_document_is_cut() -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        with suppress(ConnectionError):
            while True:
                writer.write(b"400\r\n" + b"x" * 1024 + b"\r\n")
                await writer.drain()

    async with _server(endless) as place, _egress(place) as egress:
        with pytest.raises(EgressRefused):
            await egress.get(f"http://{place}/")


async def test_a_silent_service_is_given_up() -> None:
    async def silent(_writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(1)

    async with _server(silent) as place, _egress(place) as egress:
        with pytest.raises(EgressFailed):
            await egress.get(f"http://{place}/", within=0.1)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/", "https://example.com:8443/", "https://user@example.com/",
        "file:///etc/passwd", "https://", "ftp://example.com/", "//example.com",
    ],
)  # fmt: skip
async def test_only_plain_https_addresses_are_fetched(url: str) -> None:
    async with _egress() as egress:
        with pytest.raises(EgressRefused):
            await egress.get(url)


async def test_a_name_with_one_private_address_is_refused() -> None:
    async def resolve(_host: str, _port: int) -> list[str]:
        return ["52.94.0.1", "127.0.0.1"]

    egress = Egress(resolve=resolve, tls=ssl.create_default_context())
    with pytest.raises(EgressRefused):
        await egress.get("https://sns.us-east-1.amazonaws.com/key.pem")
    await egress.close()


# posts


async def _body(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def _said(answer: bytes) -> Answer:
    async def say(writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()

    return say


async def test_a_post_is_answered_whatever_is_said() -> None:
    said = b"HTTP/1.1 422 No\r\nRetry-After: 3\r\nContent-Length: 2\r\n\r\nno"
    async with _server(_said(said)) as place, _egress(place) as egress:
        reply = await egress.post(f"http://{place}/", _body(b"x"), headers={"content-length": "1"})

    assert (reply.status, reply.headers["retry-after"], reply.body) == (422, "3", b"no")


async def test_a_post_is_not_sent_on_to_where_an_answer_points() -> None:
    said = b"HTTP/1.1 307 Go\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"
    pulled = []

    async def body() -> AsyncIterator[bytes]:
        pulled.append(1)
        yield b"x"

    async with _server(_said(said)) as place, _egress(place) as egress:
        reply = await egress.post(f"http://{place}/", body(), headers={"content-length": "1"})

    assert (reply.status, pulled) == (307, [1])


@pytest.mark.parametrize(
    "rest", [b"Content-Length: 9\r\n\r\n123456789", b"Content-Length: 4\r\n\r\n123"]
)
async def test_an_answer_that_is_too_long_or_too_short_keeps_its_status_only(rest: bytes) -> None:
    said = b"HTTP/1.1 200 OK\r\n" + rest
    async with _server(_said(said)) as place, _egress(place) as egress:
        reply = await egress.post(
            f"http://{place}/", _body(b"x"), headers={"content-length": "1"}, most=8
        )

    assert (reply.status, reply.body) == (200, None)


async def test_a_body_is_pulled_only_when_the_connection_stands() -> None:
    pulled = []

    async def body() -> AsyncIterator[bytes]:
        pulled.append(1)
        yield b"x"

    async with _egress("127.0.0.1:1") as egress:
        with pytest.raises(EgressFailed):
            await egress.post("http://127.0.0.1:1/", body(), headers={"content-length": "1"})
        with pytest.raises(EgressRefused):
            await egress.post("http://127.0.0.1:2/", body(), headers={"content-length": "1"})

    assert pulled == []


async def test_what_the_body_raises_is_passed_on() -> None:
    def fail() -> bytes:
        raise KeyError

    async def body() -> AsyncIterator[bytes]:
        yield fail()

    async with _server(_said(b"")) as place, _egress(place) as egress:
        with pytest.raises(KeyError):
            await egress.post(f"http://{place}/", body(), headers={"content-length": "1"})


async def test_a_fetched_answer_is_returned_whatever_its_status() -> None:
    answer = _says("HTTP/1.1 404 Gone\r\ncontent-length: 2\r\nX-Why: it is\r\n\r\nno")
    async with _server(answer) as place, _egress(place) as egress:
        found = await egress.fetch(f"http://{place}/", headers={}, most=10, within=5)

    assert (found.status, found.body, found.headers["x-why"]) == (404, b"no", "it is")


async def test_a_fetched_body_over_the_limit_is_none() -> None:
    answer = _says("HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n" + "x" * 20)
    async with _server(answer) as place, _egress(place) as egress:
        found = await egress.fetch(f"http://{place}/", headers={}, most=10, within=5)

    assert (found.status, found.body) == (200, None)


async def test_a_fetch_from_a_private_address_is_refused() -> None:
    async with _egress() as egress:
        for url in ("http://127.0.0.1/", "https://127.0.0.1/", "https://169.254.169.254/latest"):
            with pytest.raises(EgressRefused):
                await egress.fetch(url, headers={"authorization": "x"}, most=10, within=5)


async def test_a_fetch_from_a_silent_server_is_given_up() -> None:
    async def silent(_writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(1)

    async with _server(silent) as place, _egress(place) as egress:
        with pytest.raises(EgressFailed):
            await egress.fetch(f"http://{place}/", headers={}, most=10, within=0.1)


async def test_endpoints_are_reached_by_https_on_any_port_and_by_http_if_they_are_named() -> None:
    allowed = parse_allowed_hosts("10.0.0.0/8, App.internal:3000")
    egress = Egress(allowed=allowed, any_port=True)
    refused = [
        "http://example.com/", "http://app.internal/", "http://app.internal:3001/",
        "http://10.0.0.1/", "ftp://app.internal:3000/", "https://ann@example.com/",
    ]  # fmt: skip
    for url in refused:
        with pytest.raises(EgressRefused):
            egress.check_url(url)
    for url in ("https://example.com:8443/x", "http://app.internal:3000/x"):
        egress.check_url(url)
    await egress.close()


@pytest.mark.parametrize(
    ("address", "allowed"),
    [("10.1.2.3", True), ("::ffff:10.1.2.3", True), ("64:ff9b::a01:203", True), ("fd00::1", True),
     ("192.168.0.1", False), ("::ffff:192.168.0.1", False), ("2002:a01:203::", False),
     ("10.1.2.3%1", False), ("x", False)],
)  # fmt: skip
def test_an_allowed_network_has_its_addresses_however_they_are_written(
    address: str, allowed: bool
) -> None:
    assert parse_allowed_hosts("10.0.0.0/8,fd00::/8").contains(address) is allowed


@pytest.mark.parametrize("entries", ["10.0.0.0/99", "a b", "https://a.example", "a:1:2", "-a"])
def test_what_is_no_network_and_no_host_cannot_be_allowed(entries: str) -> None:
    with pytest.raises(ConfigInvalid, match="networks and hosts"):
        parse_allowed_hosts(entries)
