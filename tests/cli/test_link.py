"""``oncebox link``: may a link be handed out, said at a terminal."""

import json
from pathlib import Path

from tests.cli.ledger import Ledger
from tests.support.shared import shared

FILE = "data/link-cases.jsonl"


def test_every_recorded_case_agrees_through_the_public_command(bare: Ledger) -> None:
    cases = [json.loads(line) for line in shared(FILE).read_bytes().splitlines()]
    answer = bare.type("link", "check", "--batch", str(shared(FILE)), "--json")

    assert (answer.code, answer.err) == (0, "")
    assert len(cases) >= 175
    assert [(each["id"], each["verdict"]) for each in answer.records] == [
        (case["id"], case["expect"]) for case in cases
    ]
    assert all(set(each) == {"id", "verdict", "reason"} for each in answer.records)


def test_a_link_is_allowed_or_refused_by_exit_code(bare: Ledger) -> None:
    url = "https://app.example.com/verify?token=aB3dE6gH9"
    good = bare.type("link", "check", url, "--allow", "*.example.com", "--json")
    bad = bare.type("link", "check", url, "--allow", "example.com", "--json")

    assert (good.code, bad.code) == (0, 1)
    assert (good.record["token"], good.record["url"]) == ("aB3dE6gH9", url)
    assert (bad.record["verdict"], bad.record["reason"]) == ("block", "host_not_allowed")
    assert bad.record["url"] == ""


def test_a_local_origin_is_for_tests(bare: Ledger) -> None:
    url = "http://localhost:3000/verify"

    assert bare.type("link", "check", url, "--local", "http://localhost:3000").code == 0
    assert bare.type("link", "check", url, "--allow", "*").code == 1


def test_an_entry_that_is_none_is_named(bare: Ledger) -> None:
    answer = bare.type("link", "check", "https://a.org/", "--allow", "1.2.3.4")

    assert answer.code == 1
    assert "a link host is a name" in answer.err


def test_half_a_character_is_judged_and_a_broken_file_is_named(
    bare: Ledger, tmp_path: Path
) -> None:
    half, broken = tmp_path / "half", tmp_path / "broken"
    half.write_bytes(b'{"id": "a", "url": "https://a\\ud800.org/", "allowlist": ["*"]}\n')
    broken.write_bytes(b"{}\n")

    assert bare.type("link", "check", "--batch", str(half), "--json").record["verdict"] == "block"
    assert "not a list of links" in bare.type("link", "check", "--batch", str(broken)).err
