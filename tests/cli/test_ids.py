"""A unique beginning of an id is as good as the id."""

import pytest

from tests.cli.ledger import Ledger

_ERROR = 1


def _unique_prefix(id_: str, others: list[str]) -> str:
    return next(
        id_[:length]
        for length in range(5, len(id_) + 1)
        if not any(other.startswith(id_[:length]) for other in others if other != id_)
    )


def test_delivery_is_found_by_a_unique_prefix(ledger: Ledger) -> None:
    ids = [ledger.accept(f"evt_{number}") for number in range(3)]

    for id_ in ids:
        shown = ledger.type("delivery", "inspect", _unique_prefix(id_, ids), "--json").record
        assert shown["delivery"]["id"] == id_
    held = ledger.type("delivery", "hold", _unique_prefix(ids[0], ids), "--why", "test")
    assert held.rows == [[ids[0], "held"]]


def test_ambiguous_prefix_lists_the_matches(ledger: Ledger) -> None:
    ids = [ledger.accept(f"evt_{number}") for number in range(12)]

    answer = ledger.type("delivery", "inspect", "dlv_", "--json")

    assert (answer.code, answer.error["code"]) == (_ERROR, "input_refused")
    assert f"type more of the id: {', '.join(ids[:10])} and more" in answer.error["message"]


def test_inbox_key_and_its_messages_are_found_by_a_prefix(ledger: Ledger) -> None:
    inbox = ledger.type("inbox", "new", "-q").out.strip()
    key = ledger.type("key", "new", "--scope", "agent", "--json").record["id"]

    assert ledger.type("inbox", "show", inbox[:12], "--json").record["id"] == inbox
    assert ledger.type("message", "list", inbox[:12]).code == 0
    assert ledger.type("artifact", "list", inbox[:12]).code == 0
    assert ledger.type("inbox", "close", inbox[:12], "-q").out.strip() == inbox
    assert ledger.type("key", "revoke", key[:12], "--json").record["id"] == key


@pytest.mark.parametrize(
    "command",
    ["delivery inspect dlv_zz", "inbox show inb_zz", "send inspect snd_zz", "message show msg_zz",
     "artifact show art_zz", "quarantine show rej_zz"],
)  # fmt: skip
def test_prefix_of_nothing_is_not_found(ledger: Ledger, command: str) -> None:
    assert ledger.type(*command.split()).code == 3
