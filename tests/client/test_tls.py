"""Clients over TLS: whom they trust, and that a deadline bounds them there too."""

import asyncio
import time
from pathlib import Path

import pytest

from oncebox.client.asynchronous import AsyncClient
from oncebox.client.errors import DeadlinePassed
from oncebox.client.sync import Client
from oncebox.errors import ConfigInvalid
from tests.client.conftest import KEY, Speaker
from tests.client.test_exchange import SELF
from tests.support import certificates
from tests.support.scripted import answer, drip, scripted


def test_a_stranger_is_not_trusted_and_not_asked_again(speaker: Speaker, tmp_path: Path) -> None:
    server, _ = certificates.make(tmp_path)
    began = time.monotonic()
    with (
        scripted(answer(SELF), tls=server) as script,
        pytest.raises(ConfigInvalid, match="not trusted"),
    ):
        speaker.ask(script.url, lambda client: client.keys.mine(), timeout=20)

    assert time.monotonic() - began < 10
    assert script.heard == []


def test_certificates_of_ones_own_are_trusted_when_given(tmp_path: Path) -> None:
    server, trusted = certificates.make(tmp_path)

    async def later(url: str) -> str:
        async with AsyncClient(url, KEY, tls=trusted) as client:
            return (await client.keys.mine()).tenant

    with scripted(answer(SELF), tls=server) as script:
        with Client(script.url, KEY, tls=trusted) as client:
            assert client.keys.mine().tenant == "acme"
            assert client.keys.mine().tenant == "acme"
        assert asyncio.run(later(script.url)) == "acme"

    assert [each.connection for each in script.heard] == [0, 0, 1]


def test_an_answer_that_trickles_in_is_bounded_over_tls_too(tmp_path: Path) -> None:
    server, trusted = certificates.make(tmp_path)
    began = time.monotonic()
    with (
        scripted(drip(b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 100), tls=server) as script,
        Client(script.url, KEY, tls=trusted, timeout=1) as client,
        pytest.raises(DeadlinePassed),
    ):
        client.keys.mine()

    assert time.monotonic() - began < 8
