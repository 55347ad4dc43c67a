"""``oncebox mail authenticate``: verdicts at a terminal, from real name servers."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.ledger import Ledger
from tests.mail.signing import NAME, rsa_key, signed
from tests.support.nameserver import NameServer

_CLIENT = "198.49.23.7"
_FROM = ("--from", _CLIENT, "--mail-from", "bounce@example.com")


@contextmanager
def _serving(server: NameServer) -> Iterator[None]:
    """Answer beside the test, which runs a loop of its own."""
    ready, over = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        async with server.running():
            loops.append(asyncio.get_running_loop())
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(10)
    try:
        yield
    finally:
        loops[0].call_soon_threadsafe(over.set)
        thread.join(10)


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    key = rsa_key()[1].decode()
    server = NameServer({
        ("txt", "example.com"): [f'"v=spf1 ip4:{_CLIENT} -all"'],
        ("txt", "_dmarc.example.com"): ['"v=DMARC1; p=reject"'],
        ("txt", NAME): [f'"{key[:200]}" "{key[200:]}"'],
    })  # fmt: skip
    with _serving(server):
        monkeypatch.setenv("ONCEBOX_MAIL__DNS_SERVERS", server.address)
        monkeypatch.setenv("ONCEBOX_MAIL__AUTHENTICATE_WITHIN", "20")
        yield


@pytest.fixture
def mail(tmp_path: Path) -> Path:
    path = tmp_path / "message.eml"
    path.write_bytes(signed())
    return path


def test_a_proven_sender_is_trusted(bare: Ledger, zone: None, mail: Path) -> None:
    told = bare.type("mail", "authenticate", str(mail), *_FROM, "--json")

    assert told.code == 0
    assert told.record["trusted"] is True
    assert [told.record[name] for name in ("spf", "dkim", "dmarc")] == ["pass"] * 3
    assert (told.record["domain"], told.record["origin"]) == ("example.com", "smtp")
    assert "signed_date" in told.record["details"]


def test_a_forged_mail_is_not_and_says_why(bare: Ledger, zone: None, mail: Path) -> None:
    mail.write_bytes(mail.read_bytes().replace(b"482913", b"999999"))

    told = bare.type("mail", "authenticate", str(mail), "--from", "8.8.8.8")

    assert told.code == 1
    assert ["sender", "unproven"] in told.rows
    assert ["dkim", "fail"] in told.rows
    assert any(row[:2] == ["detail", "dkim_body_changed"] for row in told.rows)
    assert bare.type("mail", "authenticate", str(mail), *_FROM, "-q").out == "trusted\n"


def test_what_is_no_address_is_refused(bare: Ledger, mail: Path) -> None:
    told = bare.type("mail", "authenticate", str(mail), "--from", "mx.example.com")

    assert told.code == 2
    assert "is no address" in told.err
