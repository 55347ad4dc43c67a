"""The way out: what is public, what is refused, what is bounded."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from oncebox.egress import Egress
from oncebox.errors import EgressFailed, EgressRefused
from oncebox.model.internet import is_public

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
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "52.94.0.1", "2606:4700::1111", "172.32.0.1"])
def test_what_is_public_is_not(address: str) -> None:
    assert is_public(address)


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
