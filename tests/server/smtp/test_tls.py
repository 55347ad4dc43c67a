"""STARTTLS: nothing said in the clear survives it, and no certificate means no offer."""

import asyncio
import socket
import ssl
import struct
from pathlib import Path
from typing import Any

import pytest
import trustme

from oncebox.core.metrics import Telemetry
from oncebox.errors import ConfigInvalid
from oncebox.server.smtp.tls import TlsCertificate
from oncebox.settings import SmtpSettings
from tests.support.http import until
from tests.support.mail import PLAIN, SHORT, Line, receiving


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(context)
    return context


@pytest.fixture
def shown(authority: trustme.CA, tmp_path: Path) -> dict[str, Any]:
    """The settings of a server with a certificate."""
    issued = authority.issue_cert("mx.oncebox.test")
    files = {"tls_certificate": tmp_path / "certificate.pem", "tls_key": tmp_path / "key.pem"}
    files["tls_key"].write_bytes(issued.private_key_pem.bytes())
    files["tls_certificate"].write_bytes(b"".join(each.bytes() for each in issued.cert_chain_pems))
    return {name: str(path) for name, path in files.items()}


async def secure(line: Line, context: ssl.SSLContext) -> None:
    """Go on inside TLS."""
    await line._writer.start_tls(context, server_hostname="mx.oncebox.test")


async def test_mail_comes_through_tls(
    tmp_path: Path, shown: dict[str, Any], trusting: ssl.SSLContext
) -> None:
    async with receiving(tmp_path, **shown) as server:
        line = await server.line()
        assert (await line.ask("STARTTLS")).startswith("220 ")
        await secure(line, trusting)
        offers = await line.ask("EHLO client.example")
        small = await line.mail(PLAIN)
        large = await line.mail(PLAIN * 100_000)
        line.close()
        await until(lambda: server.count("oncebox_smtp_open") == 0)

    assert "STARTTLS" not in offers
    assert (small[:3], large[:3]) == ("250", "250")
    assert [told.tls for told, _ in server.shelf.mails] == ["TLSv1.3"] * 2
    assert server.shelf.bodies == [PLAIN, PLAIN * 100_000]


async def test_what_is_slipped_in_before_the_handshake_is_never_heard(
    tmp_path: Path, shown: dict[str, Any], trusting: ssl.SSLContext
) -> None:
    """T1."""
    async with receiving(tmp_path, **shown) as server:
        line = await server.line()
        line.send(b"STARTTLS\r\nMAIL FROM:<evil@x.example>\r\nRCPT TO:<a@oncebox.test>\r\n")
        assert (await line.reply()).startswith("220 ")
        await secure(line, trusting)
        codes = await line.codes(
            "RCPT TO:<a@oncebox.test>", "EHLO x", "RCPT TO:<a@oncebox.test>",
            "MAIL FROM:<good@x.example>",
        )  # fmt: skip
        line.close()
        await until(lambda: server.count("oncebox_smtp_open") == 0)

    assert codes == [503, 250, 503, 250]


async def test_what_is_no_handshake_ends_the_connection(
    tmp_path: Path, shown: dict[str, Any]
) -> None:
    async with receiving(tmp_path, **shown) as server:
        line = await server.line()
        await line.ask("STARTTLS")
        line.send(b"MAIL FROM:<evil@x.example>\r\n" * 100)
        last_words = await line.end()
        line.close()
        await until(lambda: server.count("oncebox_smtp_open") == 0)

        assert b"250" not in last_words
        assert server.count("oncebox_smtp_ended_total", why="tls_failed") == 1


async def test_who_asks_for_tls_and_is_gone_at_once_leaves_nothing_waiting(
    tmp_path: Path, shown: dict[str, Any]
) -> None:
    """Otherwise anybody makes us wait for any number of handshakes that no limit counts."""
    async with receiving(tmp_path, **shown) as server:
        before = asyncio.all_tasks()
        gone = socket.create_connection(("127.0.0.1", server.port))
        await until(lambda: server.count("oncebox_smtp_open") == 1)
        gone.sendall(b"STARTTLS\r\n")
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        gone.close()
        await until(lambda: server.count("oncebox_smtp_open") == 0)
        await until(lambda: asyncio.all_tasks() == before)


async def test_a_handshake_must_come_in_time(tmp_path: Path, shown: dict[str, Any]) -> None:
    async with receiving(tmp_path, **SHORT, **shown) as server:
        line = await server.line()
        await line.ask("STARTTLS")
        await line.end()
        line.close()

        await until(lambda: server.count("oncebox_smtp_open") == 0)


async def test_a_slow_client_is_let_go_inside_tls_too(
    tmp_path: Path, shown: dict[str, Any], trusting: ssl.SSLContext
) -> None:
    async with receiving(tmp_path, **SHORT, **shown) as server:
        line = await server.line()
        await line.ask("STARTTLS")
        await secure(line, trusting)
        await line.ask("EHLO x")
        await line.begin("a@oncebox.test")
        last_words = await line.end()
        line.close()
        await until(lambda: server.count("oncebox_smtp_open") == 0)

    assert last_words.startswith(b"421 4.4.2 ")
    assert server.shelf.mails == []


async def test_stopping_ends_sessions_inside_tls(
    tmp_path: Path, shown: dict[str, Any], trusting: ssl.SSLContext
) -> None:
    async with receiving(tmp_path, **shown, stop_within=5) as server:
        line = await server.line()
        await line.ask("STARTTLS")
        await secure(line, trusting)
        await line.ask("EHLO x")
    last_words = await line.end()
    line.close()

    assert last_words.startswith(b"421 4.3.2 ")


def certificate(**settings: Any) -> TlsCertificate:
    return TlsCertificate(SmtpSettings(**settings), Telemetry())


def _write(path: str, blob: trustme.Blob) -> None:
    Path(path).unlink()
    Path(path).write_bytes(blob.bytes())


async def _shown_now(line: Line, context: ssl.SSLContext) -> bytes:
    """Return the certificate that a client is shown."""
    await line.ask("STARTTLS")
    await secure(line, context)
    shown: bytes = line._writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    line.close()
    return shown


async def test_a_renewed_certificate_is_shown_without_a_restart(
    authority: trustme.CA, tmp_path: Path, shown: dict[str, Any], trusting: ssl.SSLContext
) -> None:
    """Its two files may come one after the other, and meanwhile the old one is shown."""
    renewed = authority.issue_cert("mx.oncebox.test")
    async with receiving(tmp_path, **shown) as server:
        held = server.server._context.tls
        assert held is not None
        old = await _shown_now(await server.line(), trusting)
        _write(shown["tls_key"], renewed.private_key_pem)
        held.reload_if_changed()
        between = await _shown_now(await server.line(), trusting)
        _write(shown["tls_certificate"], renewed.cert_chain_pems[0])
        held.reload_if_changed()
        new = await _shown_now(await server.line(), trusting)
        await until(lambda: server.count("oncebox_smtp_open") == 0)

    assert old == between != new
    assert new == ssl.PEM_cert_to_DER_cert(renewed.cert_chain_pems[0].bytes().decode())


async def test_the_files_of_a_certificate_are_looked_at_again_and_again(
    authority: trustme.CA, shown: dict[str, Any]
) -> None:
    held = TlsCertificate(SmtpSettings(**shown), Telemetry(), every=0.01)
    before = held.context
    watching = asyncio.create_task(held.watch())
    renewed = authority.issue_cert("mx.oncebox.test")
    _write(shown["tls_key"], renewed.private_key_pem)
    await asyncio.sleep(0.05)
    _write(shown["tls_certificate"], renewed.cert_chain_pems[0])
    await until(lambda: held.context is not before)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


def test_an_old_version_of_tls_is_not_spoken(shown: dict[str, Any]) -> None:
    context = certificate(**shown).context

    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize("text", ["", "no certificate"])
def test_a_certificate_that_cannot_be_used_is_told(tmp_path: Path, text: str) -> None:
    file = tmp_path / "certificate.pem"
    file.write_text(text)

    with pytest.raises(ConfigInvalid, match=r"smtp\.tls_certificate"):
        certificate(tls_certificate=str(file))
    with pytest.raises(ConfigInvalid):
        certificate(tls_certificate=str(tmp_path / "missing.pem"))
