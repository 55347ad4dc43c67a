"""Mailboxes at the terminal: added, changed, seen, tested and removed; secrets never shown."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from oncebox.testing.imap import ScriptedImap
from tests.cli.ledger import Answer, Ledger
from tests.mailboxes.test_rest import TABLE
from tests.support import certificates
from tests.support.token_endpoint import rotating_tokens

CANARY = "CANARYPASSWORD"


@pytest.fixture
def imap(tmp_path: Path) -> Iterator[ScriptedImap]:
    """A server with TLS and one user."""
    server, _ = certificates.make(tmp_path)
    with ScriptedImap(tls=server, implicit_tls=True, users={"ann": CANARY}) as opened:
        yield opened


def add(ledger: Ledger, *options: str, verb: str = "add", stdin: str = CANARY) -> Answer:
    words = ("mailbox", verb, "support", "imaps://ann@127.0.0.1:1", "--password", "-", *options)
    return ledger.type(*words, stdin=stdin.encode())


def test_a_mailbox_is_added_changed_seen_paused_and_removed_on_record(ledger: Ledger) -> None:
    added = add(ledger, "--poll-every", "90s", "--folder", "INBOX", "--folder", "Spam", "--json")
    changed = add(ledger, "--trust-results", "mx.example.com", "--json", verb="change")
    listed = ledger.type("mailbox", "list").rows
    paused = ledger.type("mailbox", "pause", "support", "--why", "moving", "--json").record
    resumed = ledger.type("mailbox", "resume", "support").rows
    resynced = ledger.type("mailbox", "resync", "support", "--json").record
    outline = ledger.type("mailbox", "show", "support")
    removed = ledger.type("mailbox", "remove", "support").rows

    assert (added.record["poll_every"], added.record["action"]) == (90, "added")
    assert (added.record["tenant"], added.record["figures"]["polls"]) == ("default", 0)
    assert (changed.record["trust_results"], changed.record["poll_every"]) == ("mx.example.com", 60)
    assert listed[0][:4] == ["support", "waiting", "imap", "ann at 127.0.0.1"]
    assert (paused["paused"], resumed[0][:2]) == ("operator", ["support", "resumed"])
    assert resynced["cursor_version"] == 1
    assert ["account", "ann at 127.0.0.1"] in outline.rows
    assert removed == [["support", "removed"]]
    assert CANARY not in added.out + changed.out + outline.out
    assert [each[1] for each in ledger.audit("mailbox:support")] == [
        "mailbox add", "mailbox change", "mailbox pause", "mailbox resume", "mailbox resync",
        "mailbox remove",
    ]  # fmt: skip


def test_a_mailbox_is_tested_without_reading_mail(
    ledger: Ledger, imap: ScriptedImap, tmp_path: Path
) -> None:
    pem = tmp_path / "ca.pem"
    text = (tmp_path / "certificate.pem").read_text()
    pem.write_text(text[text.index("-----BEGIN CERTIFICATE") :])
    url = f"imaps://ann@127.0.0.1:{imap.port}"
    words = ("mailbox", "add", "support", url, "--ca", str(pem), "--password", "-")
    ledger.type(*words, stdin=CANARY.encode())
    works = ledger.type("mailbox", "test", "support", "--json")
    assert ledger.type("mailbox", "test", "support").rows == [["support", "works", "1 folder"]]
    ledger.type(*words[:1], "change", *words[2:], stdin=b"wrong")
    refused = ledger.type("mailbox", "test", "support", "--json")
    told = ledger.type("mailbox", "test", "support").rows
    ledger.type("mailbox", "change", "support", url, "--password", "-", stdin=CANARY.encode())
    untrusted = ledger.type("mailbox", "test", "support").rows

    assert told[0][:3] == ["support", "does not work", "login_refused"]
    assert "app password" in told[0][3]
    assert untrusted[0][2] == "certificate_refused"
    assert "--ca FILE" in untrusted[0][3]
    assert (works.code, works.record["works"], works.record["folders"]) == (0, True, ["INBOX"])
    assert (refused.code, refused.record["code"]) == (1, "login_refused")


def test_a_change_without_the_url_says_that_it_replaces_everything(ledger: Ledger) -> None:
    add(ledger)
    refused = ledger.type("mailbox", "change", "support", "--poll-every", "90s")

    assert refused.code == 2
    assert "replaces the whole configuration: give the URL" in refused.err
    assert ledger.type("mailbox", "show", "support", "--json").record["poll_every"] == 60


def test_a_test_stores_the_refresh_token_that_replaced_the_one_before(
    ledger: Ledger, tmp_path: Path
) -> None:
    server, _ = certificates.make(tmp_path)
    pem = tmp_path / "ca.pem"
    text = (tmp_path / "certificate.pem").read_text()
    pem.write_text(text[text.index("-----BEGIN CERTIFICATE") :])
    with (
        rotating_tokens() as endpoint,
        ScriptedImap(tls=server, implicit_tls=True, tokens={"key"}) as imap,
    ):
        url = f"imaps://ann@127.0.0.1:{imap.port}"
        words = ("mailbox", "add", "support", url, "--ca", str(pem), "--client-id", "app")
        ledger.type(*words, "--token-url", endpoint.url, "--refresh-token", "-", stdin=b"refresh-1")
        tested = [ledger.type("mailbox", "test", "support") for _ in range(2)]

    assert [each.code for each in tested] == [0, 0]
    assert endpoint.accepted == ["refresh-1", "refresh-2"]


@pytest.mark.parametrize(
    "options",
    [
        ("--since", "yesterday"),
        ("--api", "mailpit"),
        ("--inbox", "inb_missing"),
        ("--password", "-", "--client-secret", "-"),
        ("--password", CANARY),
        ("--token-command", "'open"),
        ("--tenant", "nobody"),
    ],
)
def test_what_cannot_be_a_mailbox_is_refused(ledger: Ledger, options: tuple[str, ...]) -> None:
    ledger.type("migrate")
    refused = add(ledger, *options)

    assert refused.code in {1, 2, 3}
    assert CANARY not in refused.out
    assert ledger.type("mailbox", "list", "--json").records == []


def test_an_api_of_your_own_is_described_by_a_file(ledger: Ledger, tmp_path: Path) -> None:
    file = tmp_path / "table.json"
    file.write_bytes(msgspec.json.encode(TABLE))
    words = ("mailbox", "add", "tests", "http://127.0.0.1:8025", "--kind", "rest",
             "--api", "generic-rest", "--api-inbox", "box", "--api-key", "-", "--table", str(file),
             "--json")  # fmt: skip
    added = ledger.type(*words, stdin=CANARY.encode())
    file.write_text("[]")
    refused = ledger.type(*words, stdin=CANARY.encode())

    assert (added.record["kind"], added.record["account"]) == ("rest", "box@127.0.0.1:8025")
    assert refused.code == 1
