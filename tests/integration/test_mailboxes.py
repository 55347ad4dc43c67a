"""A mailbox on a real server: added at the terminal, read by the service, its codes granted."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncebox import Client
from oncebox.client import Inbox
from tests.cli.services import Services
from tests.docs.page import blocks
from tests.docs.reference import DOCS
from tests.support.dovecot import PASSWORD, Dovecot
from tests.support.letters import mail
from tests.torture.processes import Children, until


@pytest.fixture
def dovecot() -> Iterator[Dovecot]:
    """A real server."""
    with Dovecot() as server:
        yield server


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    """Services on a folder of their own."""
    with Children(tmp_path) as children:
        yield Services(tmp_path, children)


def oncebox(services: Services, *words: str) -> str:
    """Run a command and return what it prints."""
    child = services.start_command(*words)
    assert child.wait(timeout=60) == 0, child.text()
    return child.text()


def test_a_code_that_arrives_in_an_imap_mailbox_is_granted(
    tmp_path: Path, services: Services, dovecot: Dovecot
) -> None:
    service = services.serve()
    with Client(service.url, service.key) as client:
        inbox = client.inboxes.create(attempt_id="signup")
        _read_mailbox(tmp_path, services, dovecot, inbox)

    assert "S" not in "".join(dovecot.flags("ann"))
    assert PASSWORD not in service.child.text()


def _read_mailbox(tmp_path: Path, services: Services, dovecot: Dovecot, inbox: Inbox) -> None:
    password, ca = tmp_path / "password", tmp_path / "ca.pem"
    password.write_text(PASSWORD)
    ca.write_text(ssl.DER_cert_to_PEM_cert(dovecot.tls.get_ca_certs(binary_form=True)[0]))

    typed = {
        "imaps://ann@imap.example.com": f"imaps://ann@127.0.0.1:{dovecot.tls_port} --ca {ca}",
        "file:password": f"file:{password}",
        "INBOX": inbox.id,
    }
    (block,) = blocks(DOCS / "mailboxes.md", "sh")
    for printed, real in typed.items():
        block = block.replace(printed, real)
    added, tested, _ = (oncebox(services, *line.split()[1:]) for line in block.splitlines())
    assert added.split("\t")[:3] == ["work", "added", "imap"]
    assert "works" in tested
    for _ in until(30):
        if "\treading\t" in oncebox(services, "mailbox", "list"):
            break
    dovecot.deliver("ann", mail("Your code", "Your verification code is 482913"))

    assert inbox.wait_for_code(within=30).value == "482913"
