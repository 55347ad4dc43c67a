"""Other people's programs hand mail to us: smtplib, aiosmtplib, swaks, smtp-source, Postfix."""

import asyncio
import smtplib
import ssl
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import aiosmtplib
import pytest
import trustme

from tests.support.debian import program
from tests.support.http import until
from tests.support.mail import MailServer, receiving
from tests.support.postfix import Postfix

STUFFED = b"Subject: dots\r\n\r\n.\r\n..\r\nend\r\n"


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def shown(authority: trustme.CA, tmp_path: Path) -> dict[str, Any]:
    """The settings of a server with a certificate."""
    issued = authority.issue_cert("127.0.0.1", "localhost")
    file = tmp_path / "certificate.pem"
    file.write_bytes(issued.private_key_and_cert_chain_pem.bytes())
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    return {"tls_certificate": str(file)}


@pytest.fixture
def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def run(*words: str) -> str:
    """Run a program that must succeed; return what it said."""
    process = await asyncio.create_subprocess_exec(
        *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    async with asyncio.timeout(60):
        said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    return said.decode()


async def test_smtplib(tmp_path: Path, shown: dict[str, Any], trusting: ssl.SSLContext) -> None:
    def send(port: int) -> dict[str, tuple[int, bytes]]:
        with smtplib.SMTP("localhost", port, timeout=20) as client:
            client.starttls(context=trusting)
            client.sendmail("ann@example.com", ["a@oncebox.test"], STUFFED)
            to = ["a@oncebox.test", "nobody@oncebox.test", "b@oncebox.test"]
            return client.sendmail("ann@example.com", to, b"Subject: two\r\n\r\nbody")

    async with receiving(tmp_path, host="localhost", **shown) as server:
        refused = await asyncio.to_thread(send, server.port)
        await until(lambda: server.count("oncebox_smtp_open") == 0)

    assert server.shelf.bodies == [STUFFED, b"Subject: two\r\n\r\nbody\r\n"]
    assert [told.tls for told, _ in server.shelf.mails] == ["TLSv1.3"] * 2
    assert refused == {"nobody@oncebox.test": (550, b"5.1.1 there is no such inbox here")}


async def test_smtplib_with_addresses_beyond_ascii(tmp_path: Path) -> None:
    def send(port: int) -> None:
        mail = EmailMessage()
        mail["From"], mail["To"], mail["Subject"] = "ü@example.com", "jürgen@oncebox.test", "Grüße"
        mail.set_content("Grüße")
        with smtplib.SMTP("127.0.0.1", port, timeout=20) as client:
            client.send_message(mail)

    async with receiving(tmp_path, local=("jürgen",)) as server:
        await asyncio.to_thread(send, server.port)

    ((envelope, _),) = server.shelf.mails
    assert (envelope.sender, envelope.utf8) == ("ü@example.com", True)


async def test_aiosmtplib(tmp_path: Path, shown: dict[str, Any], trusting: ssl.SSLContext) -> None:
    async with receiving(tmp_path, **shown) as server:
        client = aiosmtplib.SMTP(
            hostname="127.0.0.1", port=server.port, start_tls=True, tls_context=trusting, timeout=20
        )
        async with client:
            for number in range(20):
                mail = b"Subject: %d\r\n\r\n%s" % (number, b"x" * 60_000 + b"\r\n")
                await client.sendmail("ann@example.com", ["a@oncebox.test"], mail)
        await until(lambda: server.count("oncebox_smtp_open") == 0)

    assert len(server.shelf.bodies) == 20


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
async def test_swaks(tmp_path: Path, shown: dict[str, Any], tls: bool) -> None:
    swaks = program("swaks", "swaks", "libnet-ssleay-perl")
    wanted = ["--tls", "--tls-verify", "--tls-ca-path", str(tmp_path / "authority.pem")]
    async with receiving(tmp_path, **shown) as server:
        said = await run(
            swaks, "--server", f"127.0.0.1:{server.port}", "--from", "ann@example.com",
            "--to", "a@oncebox.test,b@oncebox.test", "--body", ".\nhello\n..",
            *(wanted if tls else ()),
        )  # fmt: skip

    assert "250 2.0.0 stored" in said
    ((envelope, body),) = server.shelf.mails
    assert body.endswith(b"\r\n.\r\nhello\r\n..\r\n\r\n\r\n")
    assert len(envelope.recipients) == 2
    assert bool(envelope.tls) is tls


@pytest.mark.parametrize("size", [4_000, 400_000])
async def test_smtp_source(tmp_path: Path, size: int) -> None:
    source = program("smtp-source", "postfix")
    async with receiving(tmp_path) as server:
        await run(
            source, "-s", "8", "-m", "100", "-l", str(size), "-f", "ann@example.com",
            "-t", "a@oncebox.test", f"127.0.0.1:{server.port}",
        )  # fmt: skip

    assert len(server.shelf.mails) == 100
    assert all(len(body) >= size * 0.9 for body in server.shelf.bodies)


async def test_postfix_relays_to_us(tmp_path: Path, shown: dict[str, Any]) -> None:
    """Many mails for many, large ones, and those in UTF-8, through TLS and pipelined."""
    large = b"Subject: large\r\n\r\n" + (b"." * 60 + b"\r\n") * 20_000

    def send(port: int) -> None:
        with smtplib.SMTP("127.0.0.1", port, timeout=20) as client:
            for number in range(10):
                mail = b"Subject: %d\r\n\r\nbody\r\n" % number
                client.sendmail("ann@example.com", ["a@oncebox.test", "b@oncebox.test"], mail)
            client.sendmail("ann@example.com", ["c@oncebox.test"], large)
            client.ehlo()
            client.sendmail(
                "ü@example.com", ["a@oncebox.test"], b"Subject: x\r\n\r\n", ["SMTPUTF8"]
            )

    async with receiving(tmp_path, **shown) as server:
        with Postfix.relaying(server.port, smtp_tls_security_level="may") as relay:
            await asyncio.to_thread(send, relay.port)
            await _emptied(server, relay)
            log = relay.log()

    mails = server.shelf.mails
    assert len(mails) == 12, log
    assert {told.tls for told, _ in mails} == {"TLSv1.3"}
    assert {told.helo for told, _ in mails} == {"relay.oncebox.test"}
    assert sum(len(told.recipients) for told, _ in mails) == 22
    rows = large.partition(b"\r\n\r\n")[2]
    assert any(body.endswith(b"\r\n\r\n" + rows) for body in server.shelf.bodies)
    assert ("ü@example.com", True) in [(told.sender, told.utf8) for told, _ in mails]


async def test_postfix_bounces_what_we_refuse_and_keeps_what_we_cannot_take_now(
    tmp_path: Path,
) -> None:
    def send(port: int, to: str) -> None:
        with smtplib.SMTP("127.0.0.1", port, timeout=20) as client:
            client.sendmail("ann@example.com", [to], b"Subject: x\r\n\r\nbody\r\n")

    async with receiving(tmp_path) as server:
        with Postfix.relaying(server.port) as relay:
            server.directory.is_down = True
            await asyncio.to_thread(send, relay.port, "a@oncebox.test")
            await until(lambda: "451 4.3.0" in relay.log(), within=30)
            server.directory.is_down = False
            await _emptied(server, relay)
            await asyncio.to_thread(send, relay.port, "nobody@oncebox.test")
            await until(lambda: "status=bounced" in relay.log(), within=30)

    assert len(server.shelf.mails) == 1


async def _emptied(server: MailServer, relay: Postfix) -> None:
    """Wait until the relay has nothing left."""
    async with asyncio.timeout(60):
        while relay.queued() or not server.shelf.mails:
            await asyncio.to_thread(relay.try_again)
            await asyncio.sleep(0.5)
