"""`oncebox delivery accept` stores once and says what it was."""

from pathlib import Path

import pytest

from tests.cli.ledger import Ledger


def test_the_first_is_new_the_second_a_duplicate(ledger: Ledger) -> None:
    command = ("delivery", "accept", "shop", "--key", "k1", "--body", "hi")
    first, second = ledger.type(*command), ledger.type(*command)

    assert [first.code, second.code] == [0, 0]
    assert first.rows[0][1:3] == ["new", "received"]
    assert second.rows == [[first.rows[0][0], "duplicate", "received", "provider_retry"]]


def test_another_body_under_the_same_key_is_a_conflict_with_exit_code_4(ledger: Ledger) -> None:
    ledger.accept("k1", body="hi")
    answer = ledger.type("delivery", "accept", "shop", "--key", "k1", "--body", "ho", "--json")

    assert answer.code == 4
    assert answer.record["arrival"] == "conflict"
    assert answer.record["state"] == "held"
    assert answer.err == ""


def test_json_has_the_fields_of_the_model(ledger: Ledger) -> None:
    answer = ledger.type("delivery", "accept", "shop", "--key", "k", "--body", "", "--json")

    assert set(answer.record) == {"id", "arrival", "state", "sighting"}


def test_quiet_prints_the_id_alone(ledger: Ledger) -> None:
    answer = ledger.type("delivery", "accept", "shop", "--key", "k", "--body", "", "-q")

    assert answer.out == f"{ledger.accept('k', body='')}\n"


def test_everything_given_is_kept(ledger: Ledger) -> None:
    given = ("--type", "order.paid", "--order-key", "o1", "--header", "X-A: 1", "--header", "x-a:2")
    id_ = ledger.accept("k1", *given, body="né")
    shown = ledger.type("delivery", "inspect", id_, "--payload", "--json").record

    assert shown["delivery"]["type"] == "order.paid"
    assert shown["delivery"]["lane"] == "o1"
    assert shown["delivery"]["road"] == "cli"
    assert shown["payload"] == {"headers": [["X-A", "1"], ["x-a", "2"]], "body": "né"}


def test_the_body_may_come_from_a_file_or_from_standard_input(bare: Ledger, tmp_path: Path) -> None:
    body = b"\x00\xff binary"
    (tmp_path / "body").write_bytes(body)
    from_file = bare.type(
        "delivery", "accept", "shop", "--key", "k", "--body-file", str(tmp_path / "body")
    )
    from_stdin = bare.type("delivery", "accept", "shop", "--key", "k", "-", stdin=body)

    assert from_file.rows[0][1] == "new"
    assert from_stdin.rows[0][1] == "duplicate"


def test_without_a_key_the_same_body_is_the_same_delivery(bare: Ledger) -> None:
    answers = [bare.type("delivery", "accept", "shop", "--body", "hi") for _ in range(2)]

    assert [answer.rows[0][1] for answer in answers] == ["new", "duplicate"]


@pytest.mark.parametrize(
    "options",
    [
        ["--key", "k"],
        ["--key", "k", "--body", "a", "-"],
        ["--key", "k", "--body-file", "no-such-file"],
        ["--key", "k", "--body", "a", "--header", "no colon"],
        ["--key", "k", "--body", "a", "--no-such-option"],
    ],
)
def test_misuse_is_exit_code_2_and_stores_nothing(bare: Ledger, options: list[str]) -> None:
    answer = bare.type("delivery", "accept", "shop", *options)

    assert answer.code == 2
    assert answer.err.startswith("error: usage: ")
    assert not Path("data").exists()


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["a b", "--key", "k", "--body", ""], "key_invalid"),
        (["shop", "--key", "a\x1bb", "--body", ""], "key_invalid"),
        (["shop", "--key", "k", "--body", "", "--header", "a b: c"], "header_invalid"),
        (["shop", "--key", "k", "--body", "over the limit"], "body_too_large"),
    ],
)
def test_what_cannot_be_taken_is_told_by_code(
    bare: Ledger, monkeypatch: pytest.MonkeyPatch, options: list[str], code: str
) -> None:
    monkeypatch.setenv("ONCEBOX_LIMITS__BODY", "4")

    plain = bare.type("delivery", "accept", *options)
    as_json = bare.type("delivery", "accept", *options, "--json")

    assert plain.code == as_json.code == 1
    assert plain.err.startswith(f"error: {code}: ")
    assert (as_json.error["code"], as_json.error["retry_safe"]) == (code, False)
