"""Suppressions at the terminal: an address gets no mail in any spelling, on record."""

from tests.cli.ledger import Ledger

MAIL = ("send", "mail", "--from", "shop@example.com", "--text", "x", "--key")


def test_an_address_on_the_list_gets_no_mail_in_any_spelling(ledger: Ledger) -> None:
    added = ledger.type("suppression", "add", "Ann@Example.com", "--why", "she asked", "--json")
    again = ledger.type("suppression", "add", "Ann <ann@example.com>", "--json").record
    refused = ledger.type(*MAIL, "k", "--to", "ANN@example.com", "--json")
    listed = ledger.type("suppression", "list", "--json").records

    assert (added.record["created"], again["created"]) == (True, False)
    assert added.record["id"] == again["id"]
    assert (refused.code, refused.record["status"]) == (1, "suppressed")
    assert [(each["address"], each["reason"]) for each in listed] == [("ann@example.com", "manual")]
    mark = added.record["id"]
    assert [each[1:] for each in ledger.audit(f"suppression:{mark[:16]}")] == [
        ("suppression add", "she asked")
    ]


def test_an_address_taken_off_the_list_gets_mail_again_on_a_word(bare: Ledger) -> None:
    bare.type("suppression", "add", "ann@example.com")
    id_ = bare.type(*MAIL, "k", "--to", "ann@example.com", "--quiet").out.strip()
    assert bare.type("suppression", "remove", "ann@example.com").rows == [
        ["ann@example.com", "removed"]
    ]
    missing = bare.type("suppression", "remove", "ann@example.com")
    armed = bare.type("send", "resend", id_, "--why", "she asked", "--json").record

    assert (missing.code, armed["state"]) == (3, "pending")


def test_the_list_is_read_page_by_page(bare: Ledger) -> None:
    for number in range(3):
        bare.type("suppression", "add", f"u{number}@example.com")
    first = bare.type("suppression", "list", "--limit", "2", "--quiet").out.split()
    rest = bare.type("suppression", "list", "--after", first[-1], "--quiet").out.split()

    assert len({*first, *rest}) == 3
    assert bare.type("suppression", "list", "--after", "x").code == 2
    assert bare.type("suppression", "add", "no address").code == 1
