"""Waiting at the terminal, through a running service."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from oncebox.client.sync import Client
from tests.cli.ledger import Answer, Ledger
from tests.support.databases import fresh_sqlite
from tests.support.finds import code
from tests.support.running import Running, running
from tests.support.waits import Arrivals


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """A service whose credentials are in a folder."""
    for name in ("ONCEBOX_URL", "ONCEBOX_API_KEY", "ONCEBOX_API_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    with running(fresh_sqlite(tmp_path), tmp_path) as started:
        yield started


def made(service: Running, *codes: str) -> str:
    """Make an inbox with codes in it."""
    with Client(service.url, service.key) as client:
        inbox = client.inboxes.create().id
    for each in codes:
        service.call(Arrivals(service.box).bring(inbox, code(each)))
    return inbox


def typed(ledger: Ledger, service: Running, *words: str) -> Answer:
    """Type a command."""
    return ledger.type("inbox", "wait", *words, "--data-dir", str(service.folder))


def test_the_code_is_all_that_is_printed(ledger: Ledger, service: Running) -> None:
    inbox = made(service, "123456")
    plain = typed(ledger, service, inbox, "--code", "--sender", "shop.example", "--within", "20s")
    quiet = typed(ledger, service, inbox, "--code", "--quiet")
    record = typed(ledger, service, inbox, "--code", "--json").record

    assert (plain.code, plain.out) == (0, "123456\n")
    assert quiet.out == f"{record['id']}\n"
    assert (record["value"], record["repeated"]) == ("123456", True)


def test_a_timeout_says_what_was_seen(ledger: Ledger, service: Running) -> None:
    inbox = made(service, "123456")
    told = typed(ledger, service, inbox, "--link", "--within", "1s", "--json")

    assert told.code == 1
    error = told.error
    assert (error["code"], error["retry_safe"]) == ("wait_timed_out", True)
    assert "(number 1): no_link" in error["message"]


def test_a_timeout_is_readable_line_by_line(ledger: Ledger, service: Running) -> None:
    inbox = made(service, "123456")
    told = typed(ledger, service, inbox, "--link", "--within", "1s")
    lines = told.err.splitlines()

    assert lines[0] == "error: wait_timed_out: no matching link arrived within 1 s"
    assert lines[1].startswith(f"  {inbox} (active")
    assert lines[2].startswith("    msg_")
    assert "\\x0a" not in told.err


def test_a_timeout_names_the_sender_that_is_refused_and_the_rules(
    ledger: Ledger, service: Running
) -> None:
    inbox = made(service, "123456")
    rules = ("--sender", "bank.example", "--sender", "post.example")
    told = typed(ledger, service, inbox, "--code", *rules, "--within", "1s", "--json")

    assert (
        "sender_not_allowed (shop.example; allowed: bank.example, post.example)"
        in told.error["message"]
    )


def test_what_another_has_is_a_conflict(ledger: Ledger, service: Running) -> None:
    inbox = made(service, "123456")
    typed(ledger, service, inbox, "--code", "--claim-key", "one")
    told = typed(ledger, service, inbox, "--code", "--claim-key", "two", "--json")

    assert told.code == 4
    assert told.error["code"] == "already_claimed"


@pytest.mark.parametrize("words", [(), ("--code", "--host", "a.example")])
def test_what_means_nothing_is_said_so(
    ledger: Ledger, service: Running, words: tuple[str, ...]
) -> None:
    assert typed(ledger, service, "inb_1", *words).code == 2


def test_a_message_is_awaited_by_subject_and_attachment_and_its_id_printed(
    ledger: Ledger, service: Running
) -> None:
    inbox = made(service)
    raw = (
        b"From: news@shop.example\r\nSubject: Your gallery is unlocked\r\n"
        b"Content-Type: text/html\r\n\r\n<p>Come in\r\n"
    )
    (id_,) = service.call(Arrivals(service.box).file(inbox, raw))
    words = (inbox, "--message", "--subject", "*unlocked")
    late = typed(ledger, service, *words, "--has-attachment", "--within", "1s", "--json")
    plain = typed(ledger, service, *words, "--no-attachment", "--within", "20s")
    record = typed(ledger, service, *words, "--json").record
    odd = typed(ledger, service, inbox, "--code", "--has-attachment")

    assert "attachments_differ" in late.error["message"]
    assert (plain.code, plain.out) == (0, f"{id_}\n")
    assert record["message"]["content"]["html"].strip() == "<p>Come in"
    assert (odd.code, "--has-attachment" in odd.err) == (2, True)
