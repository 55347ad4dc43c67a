"""The scripted mail server, as a user meets it: with the standard library, in a thread."""

import os
import smtplib
import ssl
from contextlib import suppress
from pathlib import Path

import pytest

from oncebox.testing.smtp import ScriptedSmtp, SmtpFault, SmtpFaultAction, SmtpStep
from tests.support import certificates
from tests.torture.processes import Children

MAIL = b"Message-ID: <one@example.com>\r\nSubject: x\r\n\r\n.hello\r\n"


def send(server: ScriptedSmtp, to: str | list[str] = "bob@example.net") -> object:
    with smtplib.SMTP(server.host, server.port, timeout=10) as client:
        return client.sendmail("ann@example.com", to, MAIL)


def test_a_mail_is_listed_as_it_was_sent() -> None:
    with ScriptedSmtp() as server:
        send(server, ["bob@example.net", "kim@example.net"])

        (mail,) = server.accepted
        assert (mail.sender, mail.recipients) == (
            "ann@example.com",
            ("bob@example.net", "kim@example.net"),
        )
        assert mail.message == MAIL
        assert server.count("<one@example.com>") == 1
        assert "hello" not in repr(mail)
        assert "bob" not in repr(mail)


@pytest.mark.parametrize(
    ("fault", "taken"),
    [
        ("drop@connect", 0), ("554@connect", 0), ("421@hello", 0), ("451@mail", 0),
        ("550@rcpt", 0), ("drop@rcpt", 0), ("451@data", 0), ("hang_up@data", 0), ("drop@body", 0),
        ("451@dot", 0), ("550@dot", 0), ("drop@dot", 0), ("hang_up@dot", 0),
        ("accept_then_drop", 1), ("accept_then_hang_up", 1), ("accept_then_451", 1),
    ],
)  # fmt: skip
def test_a_fault_is_seen_once_by_a_client_that_cannot_tell(fault: str, taken: int) -> None:
    with ScriptedSmtp() as server:
        server.script(fault)

        with pytest.raises((smtplib.SMTPException, OSError)):
            send(server)
        assert len(server.accepted) == taken
        assert server.script_is_over
        send(server)
        assert len(server.accepted) == taken + 1


@pytest.mark.parametrize(
    ("fault", "taken"), [("silence@dot", 0), ("accept_then_silence", 1), ("silence@mail", 0)]
)
def test_a_server_may_never_answer(fault: str, taken: int) -> None:
    with ScriptedSmtp() as server:
        server.script(fault)
        with smtplib.SMTP(server.host, server.port, timeout=0.3) as client:
            with pytest.raises(smtplib.SMTPServerDisconnected, match="timed out"):
                client.sendmail("ann@example.com", "bob@example.net", MAIL)
            client.close()

        assert len(server.accepted) == taken


def test_a_script_goes_on_where_it_was() -> None:
    with ScriptedSmtp() as server:
        server.script("ok", "451@rcpt", "sleep=0.01@mail", "accept_then_sleep=0.01")
        send(server)
        with pytest.raises(smtplib.SMTPRecipientsRefused):
            send(server)
        send(server)
        send(server)

        assert server.script_is_over
        assert len(server.accepted) == 3


def test_a_standing_fault_stands_until_it_is_taken_away() -> None:
    with ScriptedSmtp() as server:
        server.always("550@rcpt")
        for _ in range(2):
            with pytest.raises(smtplib.SMTPRecipientsRefused):
                send(server)
        server.always()
        send(server)

        assert len(server.accepted) == 1


def test_one_address_may_be_refused() -> None:
    with ScriptedSmtp() as server:
        server.refuse("eve@example.net", 450)

        refused = send(server, ["bob@example.net", "eve@example.net"])

        assert refused == {"eve@example.net": (450, b"no")}
        assert server.accepted[0].recipients == ("bob@example.net",)


@pytest.mark.parametrize("implicit", [False, True])
def test_it_speaks_tls_and_knows_users(tmp_path: Path, implicit: bool) -> None:
    shown, trusting = certificates.make(tmp_path)

    def client() -> smtplib.SMTP:
        if implicit:
            return smtplib.SMTP_SSL(server.host, server.port, timeout=10, context=trusting)
        plain = smtplib.SMTP(server.host, server.port, timeout=10)
        plain.starttls(context=trusting)
        return plain

    with ScriptedSmtp(tls=shown, implicit_tls=implicit, users={"ann": "hush"}) as server:
        with client() as first:
            with pytest.raises(smtplib.SMTPSenderRefused):
                first.sendmail("ann@example.com", "bob@example.net", MAIL)
            with pytest.raises(smtplib.SMTPAuthenticationError):
                first.login("ann", "wrong")
            first.login("ann", "hush")
            first.sendmail("ann@example.com", "bob@example.net", MAIL)

        (mail,) = server.accepted
        assert (mail.user, mail.is_secured) == ("ann", True)
        assert not any("hush" in each for each in server.commands)


async def test_it_runs_in_the_loop_as_well() -> None:
    async with ScriptedSmtp() as server:
        assert server.port
        assert server.accepted == []


def test_a_port_that_is_taken_is_said_at_once() -> None:
    with ScriptedSmtp() as first, pytest.raises(OSError, match="no server could be started"):
        ScriptedSmtp(port=first.port).__enter__()


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("ok", SmtpFault(step=SmtpStep.DOT)),
        ("drop@rcpt", SmtpFault(step=SmtpStep.RCPT, action=SmtpFaultAction.DROP)),
        ("sleep=1.5@body", SmtpFault(step=SmtpStep.BODY, delay=1.5)),
        ("451@mail", SmtpFault(step=SmtpStep.MAIL, action=SmtpFaultAction.REPLY, code=451)),
        (
            "accept_then_550",
            SmtpFault(step=SmtpStep.DOT, action=SmtpFaultAction.REPLY, code=550, accepts_mail=True),
        ),
    ],
)
def test_a_fault_has_a_name(name: str, fault: SmtpFault) -> None:
    assert SmtpFault.parse(name) == fault


@pytest.mark.parametrize("name", ["", "drop", "drop@nowhere", "999@dot", "accept_then_drop@mail"])
def test_what_is_no_fault_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="there is no fault"):
        SmtpFault.parse(name)


def test_a_client_that_trusts_nobody_is_none_of_its_business(tmp_path: Path) -> None:
    shown, _ = certificates.make(tmp_path)
    with ScriptedSmtp(tls=shown) as server:
        with smtplib.SMTP(server.host, server.port, timeout=10) as client:
            with pytest.raises(ssl.SSLCertVerificationError):
                client.starttls(context=ssl.create_default_context())
            client.close()
        send(server)

        assert len(server.accepted) == 1


def test_at_a_terminal_it_prints_what_it_takes_and_fails_as_told(tmp_path: Path) -> None:
    with Children(tmp_path) as children:
        command = ("--port", "0", "--fault", "451@rcpt")
        child = children.python("oncebox.testing.smtp", *command, environment=dict(os.environ))
        port = int(child.wait_for("listening at").partition(";")[0].rpartition(":")[2])
        for _ in range(2):
            with smtplib.SMTP("127.0.0.1", port, timeout=10) as client:
                mail = b"Message-ID: <\x1b@b>\r\nSubject: hi\r\n\r\nx\r\n"
                with suppress(smtplib.SMTPRecipientsRefused):
                    client.sendmail("ann@example.com", "bob@example.net", mail)
        line = child.wait_for("accepted:")
        child.terminate()

    assert line.strip() == "accepted: <\\x1b@b> for bob@example.net: hi"
