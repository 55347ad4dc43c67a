"""`oncebox delivery list` shows deliveries newest first, as lines or as JSON."""

from oncebox.errors import Permanent
from oncebox.model.deliveries.delivery import Delivery
from oncebox.workers.deliveries.once import Once
from tests.cli.ledger import Ledger


async def refuse(delivery: Delivery, once: Once) -> None:
    raise Permanent("no \x1b[31mred\u202e words")


def test_the_newest_comes_first_and_the_list_goes_on_below_an_id(ledger: Ledger) -> None:
    ids = [ledger.accept(f"k{number}") for number in range(5)]

    first = ledger.type("delivery", "list", "--limit", "2", "-q").out.split()
    rest = ledger.type("delivery", "list", "--before", first[-1], "-q").out.split()

    assert first + rest == ids[::-1]


def test_a_pipe_gets_tabbed_lines_without_a_heading(ledger: Ledger) -> None:
    id_ = ledger.accept("k1", "--type", "order.paid")
    (row,) = ledger.type("delivery", "list").rows

    assert row[:6] == [id_, "received", "shop", "order.paid", "k1", "0"]


def test_state_and_source_narrow_the_list(ledger: Ledger) -> None:
    dead, other = ledger.accept("k1"), ledger.accept("k1", source="bank")
    ledger.work(refuse)

    assert ledger.type("delivery", "list", "--state", "dead", "-q").out.split() == [dead]
    assert ledger.type("delivery", "list", "--state", "held", "-q").out == ""
    assert ledger.type("delivery", "list", "--source", "bank", "-q").out.split() == [other]
    assert ledger.type("dead", "list", "-q").out.split() == [dead]
    assert ledger.type("dead", "list", "--source", "bank", "-q").out == ""


def test_json_lines_carry_the_facts(ledger: Ledger) -> None:
    ids = [ledger.accept(f"k{number}") for number in range(2)]
    records = ledger.type("delivery", "list", "--json").records

    assert [record["id"] for record in records] == ids[::-1]
    assert records[0]["received_at"] > 1_600_000_000_000


def test_stored_text_cannot_steer_the_terminal(ledger: Ledger) -> None:
    ledger.accept("k\u202e1")
    ledger.work(refuse)
    plain = ledger.type("delivery", "list").out
    as_json = ledger.type("delivery", "list", "--json")

    assert "no \\x1b[31mred\\u202e words" in plain
    assert "k\\u202e1" in plain
    assert not set(plain + as_json.out) & set("\x1b\u202e")
    assert as_json.record["key"] == "k\u202e1"


def test_a_mistyped_folder_does_not_become_an_empty_ledger(bare: Ledger) -> None:
    answer = bare.type("delivery", "list", "--data-dir", "typo")

    assert answer.code == 3
    assert "there is no database at" in answer.err
    assert "typo" in answer.err
