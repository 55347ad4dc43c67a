"""Who is trusted with a mail: certificates are checked, and passwords are not shown around."""

import ssl
from pathlib import Path

import pytest
import trustme

from oncebox.model.sends.transports import NotSent, SendAccepted, SendPhase
from oncebox.testing.smtp import ScriptedSmtp
from oncebox.transports.smtp import SmtpTransport
from oncebox.transports.smtp_connection import Relay, RelaySecurity
from tests.support import certificates
from tests.transports.handover import MESSAGE, Marks, parcel

SECURED = [(RelaySecurity.STARTTLS, False), (RelaySecurity.TLS, True)]


@pytest.fixture
def contexts(tmp_path: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """What the server shows, and what a client needs to believe it."""
    return certificates.make(tmp_path)


def way_to(
    server: ScriptedSmtp, security: RelaySecurity, tls: ssl.SSLContext | None, password: str = ""
) -> SmtpTransport:
    relay = Relay(
        host=server.host,
        port=server.port,
        security=security,
        username="ann" if password else "",
        password=password,
    )
    return SmtpTransport(relay, tls=tls)


@pytest.mark.parametrize(("security", "implicit"), SECURED)
async def test_a_mail_goes_through_tls_and_a_login(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext], security: RelaySecurity, implicit: bool
) -> None:
    shown, trusting = contexts
    large = MESSAGE + (b"." * 900 + b"\r\n") * 1000
    async with ScriptedSmtp(tls=shown, implicit_tls=implicit, users={"ann": "hush"}) as server:
        way = way_to(server, security, trusting, "hush")
        outcomes = [await way.send(parcel(message=large), Marks()) for _ in range(2)]
        await way.close()

    assert all(isinstance(each, SendAccepted) for each in outcomes)
    assert [(mail.user, mail.is_secured) for mail in server.accepted] == [("ann", True)] * 2
    assert {mail.message for mail in server.accepted} == {large}
    assert server.connections == 1


@pytest.mark.parametrize(("security", "implicit"), SECURED)
async def test_a_server_with_an_invalid_certificate_gets_no_mail_and_no_password(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext], security: RelaySecurity, implicit: bool
) -> None:
    async with ScriptedSmtp(
        tls=contexts[0], implicit_tls=implicit, users={"ann": "hush"}
    ) as server:
        outcome = await way_to(server, security, None, "hush").send(parcel(), Marks())

    assert isinstance(outcome, NotSent)
    assert (outcome.code, outcome.opens_circuit) == ("certificate_refused", True)
    assert not any(each.startswith(("AUTH", "MAIL")) for each in server.commands)


@pytest.mark.parametrize(("security", "implicit"), SECURED)
async def test_a_certificate_for_another_name_is_none(
    security: RelaySecurity, implicit: bool
) -> None:
    authority = trustme.CA()
    shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("other.example.com").configure_cert(shown)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    async with ScriptedSmtp(tls=shown, implicit_tls=implicit) as server:
        outcome = await way_to(server, security, trusting).send(parcel(), Marks())

    assert isinstance(outcome, NotSent)
    assert (outcome.code, server.accepted) == ("certificate_refused", [])


async def test_without_starttls_nothing_is_said_in_the_clear() -> None:
    async with ScriptedSmtp(users={"ann": "hush"}) as server:
        outcome = await way_to(server, RelaySecurity.STARTTLS, None, "hush").send(parcel(), Marks())

    assert outcome == NotSent(code="starttls_missing", phase=SendPhase.GREETED, opens_circuit=True)
    assert server.commands == ["EHLO localhost"]


async def test_a_server_that_cannot_do_tls_now_is_asked_later(
    contexts: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    async with ScriptedSmtp(tls=contexts[0]) as server:
        server.script("454@starttls", "drop@starttls")
        way = way_to(server, RelaySecurity.STARTTLS, contexts[1])
        deferred = await way.send(parcel(), Marks())
        lost = await way.send(parcel(), Marks())

    assert deferred == NotSent(code="session_deferred", phase=SendPhase.GREETED, reply=454)
    assert lost == NotSent(code="connection_lost", phase=SendPhase.GREETED)


async def test_a_server_that_speaks_no_tls_at_all_gets_nothing() -> None:
    async with ScriptedSmtp() as server:
        outcome = await way_to(server, RelaySecurity.TLS, None).send(parcel(), Marks())

    assert isinstance(outcome, NotSent)
    assert (outcome.code, outcome.phase) == ("tls_failed", SendPhase.CONNECT)


async def test_a_wrong_password_is_tried_once_and_opens_the_circuit() -> None:
    async with ScriptedSmtp(users={"ann": "hush"}) as server:
        outcome = await way_to(server, RelaySecurity.NONE, None, "wrong").send(parcel(), Marks())

    assert outcome == NotSent(
        code="login_refused", phase=SendPhase.GREETED, reply=535, opens_circuit=True
    )
    assert server.commands == ["EHLO localhost", "AUTH PLAIN"]


async def test_a_login_that_fails_for_now_is_tried_later() -> None:
    async with ScriptedSmtp(users={"ann": "hush"}) as server:
        server.script("454@login")
        way = way_to(server, RelaySecurity.NONE, None, "hush")
        outcome = await way.send(parcel(), Marks())
        again = await way.send(parcel(), Marks())
        await way.close()

    assert outcome == NotSent(code="login_deferred", phase=SendPhase.GREETED, reply=454)
    assert isinstance(again, SendAccepted)


async def test_a_server_without_a_login_gets_no_password() -> None:
    async with ScriptedSmtp() as server:
        outcome = await way_to(server, RelaySecurity.NONE, None, "hush").send(parcel(), Marks())

    assert outcome == NotSent(code="login_missing", phase=SendPhase.GREETED, opens_circuit=True)


async def test_a_server_that_wants_a_login_burns_no_mail() -> None:
    async with ScriptedSmtp(users={"ann": "hush"}) as server:
        way = way_to(server, RelaySecurity.NONE, None)
        outcome = await way.send(parcel(), Marks())
        await way.close()

    assert outcome == NotSent(
        code="login_required", phase=SendPhase.ENVELOPE, reply=530, opens_circuit=True
    )
