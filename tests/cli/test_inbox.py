"""Inboxes and domains at the terminal."""

import pytest

from tests.cli.ledger import Ledger


def new(ledger: Ledger, *options: str) -> list[str]:
    """Make an inbox; return its id and address."""
    answer = ledger.type("inbox", "new", *options)
    assert answer.code == 0, answer.err
    (row,) = answer.rows
    return row


def test_an_inbox_is_made_once_for_an_attempt(ledger: Ledger) -> None:
    first = new(ledger, "--attempt", "a", "--metadata", "run=7")
    again = new(ledger, "--attempt", "a", "--metadata", "run=7")
    record = ledger.type("inbox", "new", "--attempt", "a", "--metadata", "run=7", "--json").record
    differs = ledger.type("inbox", "new", "--attempt", "a", "--json")

    assert first == again
    assert first[1].endswith("@oncebox.test")
    assert (record["id"], record["created"], record["metadata"]) == (first[0], False, {"run": "7"})
    assert (differs.code, differs.error["code"]) == (4, "inbox_conflict")


def test_an_inbox_is_listed_shown_rotated_and_closed(ledger: Ledger) -> None:
    id_, email = new(
        ledger,
        *("--attempt", "a", "--label", "l", "--lifetime", "2h", "--sender", "github.com"),
        *("--token", "t", "--purpose", "login", "--link-host", "github.com", "--resends", "2"),
    )
    rotated = ledger.type("inbox", "rotate", id_).rows[0]
    again = ledger.type("inbox", "rotate", id_).rows[0]
    closed = ledger.type("inbox", "close", rotated[0], "--drain", "0").rows
    listed = ledger.type("inbox", "list", "--attempt", "a").rows
    only = ledger.type("inbox", "list", "--state", "closed", "--quiet").out.split()
    shown = {row[0]: row[1:] for row in ledger.type("inbox", "show", id_).rows}
    record = ledger.type("inbox", "show", id_, "--json").record

    assert rotated == again
    assert rotated[1] != email
    assert closed == [[rotated[0], "closed"]]
    assert [row[:4] for row in listed] == [
        [rotated[0], "closed", rotated[1], "a"],
        [id_, "draining", email, "a"],
    ]
    assert only == [rotated[0]]
    assert (shown["address"], shown["state"], shown["attempt"]) == ([email], ["draining"], ["a"])
    assert shown["messages"][0] == "0"
    assert record["policy"]["senders"] == ["github.com"]
    assert record["rotated_to"] == rotated[0]
    assert record["active_until"] - record["created_at"] == 2 * 3_600_000


def test_the_figures_of_a_batch_are_shown(ledger: Ledger) -> None:
    for name in ("run-7/a", "run-7/b", "run-8/a"):
        new(ledger, "--attempt", name)
    shown = {row[0]: row[1:] for row in ledger.type("inbox", "stats", "run-7/").rows}
    record = ledger.type("inbox", "stats", "run-7/", "--json").record

    assert (shown["attempts"], shown["inboxes"], shown["reached"]) == (["2"], ["2"], ["0"])
    assert (record["prefix"], record["attempts"], record["states"]) == ("run-7/", 2, {"active": 2})
    assert ledger.type("inbox", "stats", "run-9/").code == 3


def test_the_policy_of_an_inbox_is_changed(ledger: Ledger) -> None:
    id_, _ = new(ledger, "--sender", "github.com", "--token", "t")
    words = ("--sender", "a.example", "--sender", "b.example", "--no-authenticated")
    changed = ledger.type("inbox", "change-policy", id_, *words, "--why", "test").rows
    shown = ledger.type("inbox", "show", id_).rows
    record = ledger.type("inbox", "show", id_, "--json").record
    nothing = ledger.type("inbox", "change-policy", id_)

    assert changed == [[id_, "changed"]]
    assert record["policy"]["senders"] == ["a.example", "b.example"]
    assert (record["policy"]["token"], record["policy"]["authenticated"]) == ("t", False)
    assert record["warnings"] == ["authentication_off"]
    assert ["warning", "authentication_off"] in shown
    assert (nothing.code, "--sender" in nothing.err) == (2, True)


def test_an_address_may_be_chosen(ledger: Ledger) -> None:
    made = new(ledger, "--local", "Support", "--lifetime", "0")
    taken = ledger.type("inbox", "new", "--local", "support")

    assert made[1] == "support@oncebox.test"
    assert (taken.code, "address_taken" in taken.err) == (4, True)


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (("inbox", "show", "inb_nothing"), 3, "not_found"),
        (("inbox", "close", "inb_nothing"), 3, "not_found"),
        (("inbox", "rotate", "inb_nothing"), 3, "not_found"),
        (("inbox", "new", "--metadata", "x"), 2, "NAME=VALUE"),
        (("inbox", "new", "--lifetime", "soon"), 2, "30s"),
        (("inbox", "new", "--sender", "not a sender"), 1, "inbox_invalid"),
        (("inbox", "new", "--domain", "missing.test"), 3, "domain_unknown"),
        (("domain", "add", "not a domain"), 1, "address_invalid"),
        (("domain", "remove", "missing.test"), 3, "not_found"),
        (("domain", "remove", "oncebox.test"), 4, "ONCEBOX_INBOXES__DOMAIN"),
    ],
)
def test_what_cannot_be_done_is_said(
    ledger: Ledger, arguments: tuple[str, ...], code: int, word: str
) -> None:
    answer = ledger.type(*arguments)

    assert (answer.code, word in answer.err) == (code, True)


def test_a_domain_is_added_with_the_records_to_set(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCEBOX_INBOXES__HOST", "mx.example.net")
    added = ledger.type("domain", "add", "in.example.com", "--who", "ada", "--why", "tests").rows
    again = ledger.type("domain", "add", "IN.example.com")
    caught = ledger.type("domain", "add", "all.example.com", "--catch-all", "--json").record
    listed = ledger.type("domain", "list").rows
    records = ledger.type("domain", "list", "--json").records
    names = ledger.type("domain", "list", "--quiet").out.split()
    removed = ledger.type("domain", "remove", "in.example.com", "--json").record

    assert added == [
        ["in.example.com", "added"],
        ["in.example.com.", "MX", "10 mx.example.net."],
        ["in.example.com.", "TXT", '"v=spf1 mx -all"'],
    ]
    assert (again.code, "domain_taken" in again.err) == (4, True)
    assert [row[:2] for row in listed] == [
        ["all.example.com", caught["catch_all"]],
        ["in.example.com", "refused"],
        ["oncebox.test", "refused"],
    ]
    assert records[2]["records"] == []
    assert names == ["all.example.com", "in.example.com", "oncebox.test"]
    assert removed == {"name": "in.example.com", "action": "removed"}
    assert ledger.audit("domain:in.example.com")[0] == ("ada", "domain add", "tests")


def test_tenants_have_their_own_domains_and_inboxes(ledger: Ledger) -> None:
    ledger.type("tenant", "new", "acme")
    needed = ledger.type("inbox", "new", "--tenant", "acme")
    ledger.type("domain", "add", "acme.test", "--tenant", "acme")
    id_, email = new(ledger, "--tenant", "acme")

    assert (needed.code, "domain_required" in needed.err) == (4, True)
    assert email.endswith("@acme.test")
    assert ledger.type("inbox", "list").out == ""
    assert ledger.type("inbox", "show", id_).code == 3
    assert ledger.type("inbox", "show", id_, "--tenant", "acme").code == 0
