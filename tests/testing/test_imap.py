"""The scripted IMAP server, as a user meets it: with the standard library, in a thread."""

import imaplib
from pathlib import Path

import pytest

from oncebox.testing.imap import ImapFault, ImapFaultAction, ImapStep, ScriptedImap
from tests.support import certificates

MAIL = b"Message-ID: <one@example.com>\r\nSubject: x\r\n\r\nhello\r\n"


def read(server: ScriptedImap) -> list[bytes]:
    """Read INBOX as a program does."""
    client = imaplib.IMAP4(server.host, server.port, timeout=10)
    try:
        client.login("ann", "secret")
        client.select("INBOX", readonly=True)
        _, (found,) = client.uid("SEARCH", "UID", "1:*")
        mails = []
        for uid in found.split():
            _, answer = client.uid("FETCH", uid.decode(), "(UID BODY.PEEK[])")
            mails += [each[1] for each in answer if isinstance(each, tuple)]
        return mails
    finally:
        client.shutdown()


def test_a_mail_is_read_as_it_was_added() -> None:
    with ScriptedImap() as server:
        assert read(server) == []
        server.add(MAIL)

        assert read(server) == [MAIL]
        assert server.connections == 2
        assert not any("secret" in each for each in server.commands)


@pytest.mark.parametrize(
    "fault",
    [
        "drop@connect", "bye@connect", "no=UNAVAILABLE@login", "drop@examine", "bye@search",
        "hang_up@body", "no@examine",
    ],
)  # fmt: skip
def test_a_fault_is_seen_once(fault: str) -> None:
    with ScriptedImap() as server:
        server.add(MAIL)
        server.script(fault)

        with pytest.raises((imaplib.IMAP4.error, OSError, TypeError)):
            read(server)
        assert server.script_is_over
        assert read(server) == [MAIL]


def test_a_folder_can_be_rebuilt_and_renamed_to_nothing() -> None:
    with ScriptedImap() as server:
        server.add(MAIL)
        server.rebuild()
        assert server.folder().uidvalidity == 2
        server.remove_folder("INBOX")

        with pytest.raises(imaplib.IMAP4.error):
            read(server)


def test_tls_from_the_first_byte(tmp_path: Path) -> None:
    shown, trusted = certificates.make(tmp_path)
    with ScriptedImap(tls=shown, implicit_tls=True) as server:
        client = imaplib.IMAP4_SSL(server.host, server.port, ssl_context=trusted, timeout=10)
        client.login("ann", "secret")
        client.shutdown()

        assert server.commands[-1] == "LOGIN"


@pytest.mark.parametrize("name", ["", "drop", "drop@nowhere", "451@login", "no=lower@login", "ok"])
def test_an_unknown_fault_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="write one such as"):
        ImapFault.parse(name)


def test_faults_are_named() -> None:
    assert ImapFault.parse("no=LIMIT@search") == ImapFault(
        step=ImapStep.SEARCH, action=ImapFaultAction.REFUSE, code="LIMIT"
    )
    assert ImapFault.parse("sleep=2@body") == ImapFault(step=ImapStep.BODY, delay=2.0)
