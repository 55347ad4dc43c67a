"""SMTP of test mode as real programs use it: STARTTLS with our certificate, and any login."""

import smtplib
import ssl
from pathlib import Path

import pytest

from oncebox.client import Inbox
from oncebox.testing.shared_server import OnceboxServer
from tests.support.databases import fresh_sqlite
from tests.support.running import running

MAIL = "From: Acme <no-reply@acme.example>\nSubject: Hello\n\nYour code is 482913."


def connect(server: OnceboxServer) -> smtplib.SMTP:
    return smtplib.SMTP(server.smtp_host, server.smtp_port, timeout=60)


@pytest.mark.parametrize("mechanism", ["PLAIN", "LOGIN"])
def test_a_program_that_insists_on_tls_and_login_delivers_its_mail(
    oncebox_server: OnceboxServer, inbox: Inbox, mechanism: str
) -> None:
    context = ssl.create_default_context(cadata=oncebox_server.smtp_certificate)
    with connect(oncebox_server) as app:
        app.starttls(context=context)
        app.ehlo()
        app.esmtp_features["auth"] = mechanism
        assert app.login("ann", "hunter2")[0] == 235
        app.sendmail("no-reply@acme.example", inbox.email, MAIL)

    assert inbox.wait_for_code(within=60).value == "482913"


def test_login_needs_no_tls_and_tls_no_login(oncebox_server: OnceboxServer, inbox: Inbox) -> None:
    with connect(oncebox_server) as app:
        app.login("ann", "hunter2")
        app.sendmail("no-reply@acme.example", inbox.email, MAIL)
    with connect(oncebox_server) as app:
        app.starttls()
        app.sendmail("no-reply@acme.example", inbox.email, MAIL)
    with connect(oncebox_server) as app:
        app.sendmail("no-reply@acme.example", inbox.email, MAIL)

    assert inbox.wait_for_code(within=60).value == "482913"


def test_the_certificate_is_trusted_only_by_those_who_are_told_to(
    oncebox_server: OnceboxServer,
) -> None:
    strict = ssl.create_default_context(cadata=oncebox_server.smtp_certificate)
    strict.verify_flags |= ssl.VERIFY_X509_STRICT
    with smtplib.SMTP("localhost", oncebox_server.smtp_port, timeout=60) as app:
        assert app.starttls(context=strict)[0] == 220
    with connect(oncebox_server) as app, pytest.raises(ssl.SSLCertVerificationError):
        app.starttls(context=ssl.create_default_context())


def test_outside_test_mode_there_is_neither_auth_nor_a_certificate(tmp_path: Path) -> None:
    with running(fresh_sqlite(tmp_path), tmp_path) as real:
        host, _, port = (real.smtp or "").rpartition(":")
        with smtplib.SMTP(host, int(port), timeout=60) as app:
            app.ehlo()
            assert not app.has_extn("auth")
            assert not app.has_extn("starttls")
            assert app.docmd("AUTH", "PLAIN AGEAYg==")[0] == 502
    assert list(tmp_path.rglob("smtp-test-certificate.pem")) == []
