"""The quickstarts of mailboxes and of mail by webhook, typed from the first block to the last."""

import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.docs.page import Terminal, blocks
from tests.docs.reference import DOCS
from tests.docs.test_quickstart import shown
from tests.docs.test_quickstart_inboxes import Reader
from tests.project.tree import ROOT
from tests.support.debian import program
from tests.support.dovecot import PASSWORD, Dovecot
from tests.support.letters import mail
from tests.torture.processes import Children, until

_UNSIGNED = "curl --silent --request POST http://127.0.0.1:8808/in/mail"
MAILBOXES = DOCS / "quickstart-mailboxes.md"


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    if not (ROOT / ".venv/bin/oncebox").exists():
        pytest.skip("the commands use the .venv that make creates")
    with Children(tmp_path) as children:
        yield Reader(tmp_path, children)


@pytest.fixture
def dovecot() -> Iterator[Dovecot]:
    """A real server."""
    with Dovecot() as server:
        yield server


def test_the_quickstart_of_mailboxes_does_what_it_says(reader: Reader, dovecot: Dovecot) -> None:
    serve, add, wait, look = blocks(MAILBOXES, "sh")
    (printed,) = blocks(MAILBOXES, "text")
    (example,) = blocks(MAILBOXES, "python")

    service = reader.serve(serve)
    (reader.folder / "password").write_text(PASSWORD)
    (reader.folder / "example.py").write_text(example)
    with Terminal(reader.environment, reader.folder) as terminal:
        tested = terminal.type(add.replace(*_server(reader.folder, dovecot)))
        for _ in until(30):
            if "\treading\t" in terminal.type("oncebox mailbox list"):
                break
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(terminal.type, wait)
            dovecot.deliver("ann", mail("Your code", "Your verification code is 482913"))
            waited = waiting.result()
        repeated = terminal.type(wait)
        dovecot.deliver("ann", mail("Your code", "Your verification code is 771204"))
        for _ in until(30):
            if terminal.type('oncebox message list "$inbox"').count("msg_") == 2:
                break
        by_program = terminal.type("python example.py")
        looked = terminal.type(look)
    service.terminate()
    service.wait()

    assert shown(printed.splitlines(), tested)
    assert waited.strip() == repeated.strip() == "482913"
    assert by_program.split() == ["6", "example.com"]
    assert "\treading\t" in looked
    assert "S" not in "".join(dovecot.flags("ann"))


def _server(folder: Path, dovecot: Dovecot) -> tuple[str, str]:
    """Return the address on the page, and the one that is typed instead."""
    ca = folder / "ca.pem"
    ca.write_text(ssl.DER_cert_to_PEM_cert(dovecot.tls.get_ca_certs(binary_form=True)[0]))
    return "imaps://ann@imap.example.com", f"imaps://ann@127.0.0.1:{dovecot.tls_port} --ca {ca}"


def test_the_quickstart_of_mail_by_webhook_does_what_it_says(reader: Reader) -> None:
    program("swaks", "swaks")
    serve, add, post, smtp, read = blocks(DOCS / "quickstart-inbound.md", "sh")

    service = reader.serve(serve)
    with Terminal(reader.environment, reader.folder) as terminal:
        terminal.type(add)
        for _ in until(30):
            # Refused without its password, and no longer unknown.
            if "not_found" not in terminal.type(reader.adapted(_UNSIGNED)):
                break
        posted = terminal.type(reader.adapted(post))
        terminal.type(reader.adapted(smtp))
        found = terminal.type(read)
        for _ in until(30):
            # Both copies are recognised when they have been parsed.
            listed = terminal.type('oncebox message list "$inbox"')
            if listed.rstrip().endswith("\t2"):
                break
    service.terminate()
    service.wait()

    assert posted.count("accepted") == 2
    assert found.splitlines()[0] == "482913"
    assert listed.count("msg_") == 1
    assert listed.rstrip().endswith("\t2")
