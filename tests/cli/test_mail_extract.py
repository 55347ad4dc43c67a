"""``oncebox mail extract`` and ``try``: what a mail is about, as JSON and explained."""

import json
from pathlib import Path

from tests.cli.ledger import Ledger
from tests.mail.mails import alternative, html, plain

_CODE = plain("Your verification code is 482913. It expires in 10 minutes.\r\n", subject="Sign in")
_LINK = html(
    "<p>Please confirm your address.</p>"
    "<a href='https://app.example.com/confirm?token=8f3c2e9a4b7d6f1c'>Confirm email</a>"
)


def test_one_object_is_printed_for_each_mail(bare: Ledger, tmp_path: Path) -> None:
    paths = [tmp_path / "a.eml", tmp_path / "b.eml", tmp_path / "c.eml"]
    for path, raw in zip(paths, (_CODE, _LINK, plain("Hello, how are you?")), strict=True):
        path.write_bytes(raw)
    answer = bare.type("mail", "extract", "--json", *map(str, paths))
    first, second, third = map(json.loads, answer.out.splitlines())

    assert answer.code == 0
    assert [each["file"] for each in (first, second, third)] == list(map(str, paths))
    assert first["best"] == {"code": "482913", "link": None}
    assert second["best"]["code"] is None
    assert second["best"]["link"] == "https://app.example.com/confirm?token=8f3c2e9a4b7d6f1c"
    assert third["best"] == {"code": None, "link": None}
    assert third["codes"] == third["links"] == []
    (code,) = first["codes"]
    assert (code["where"], code["start"], code["end"]) == ("plain", 26, 32)
    assert code["score"] == sum(reason["points"] for reason in code["evidence"])
    assert first["tied"] == {"code": False, "link": False}


def test_without_json_a_line_is_printed_for_each_mail(bare: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "a.eml"
    path.write_bytes(_CODE)

    assert bare.type("mail", "extract", str(path)).rows == [[str(path), "482913", ""]]


def test_a_choice_is_explained_to_a_person(bare: Ledger) -> None:
    raw = plain("Your code is 482913. Order 20481 ships soon, for 10 minutes.\r\n")
    answer = bare.type("mail", "try", stdin=raw)

    assert answer.code == 0
    assert answer.rows[0][:2] == ["code", "482913"]
    assert ["", "+35", "a word for a code is before it"] in answer.rows
    assert ["not used", "20481"] in [row[:2] for row in answer.rows]
    assert ["", "-45", "the name of another number is before it"] in answer.rows
    assert ["link", "(none)", "there is no candidate"] in answer.rows


def test_a_tie_is_explained(bare: Ledger) -> None:
    raw = alternative("Your code is 482913.", "<p>Your code is 111111.</p>")
    answer = bare.type("mail", "try", stdin=raw)

    assert answer.rows[0][:2] == ["code", "(tied)"]
    assert {row[1] for row in answer.rows if row[0] == "possible"} == {"482913", "111111"}


def test_trying_can_be_read_by_a_program(bare: Ledger) -> None:
    assert bare.type("mail", "try", "--json", stdin=_CODE).record["best"]["code"] == "482913"


def test_nothing_that_is_found_steers_the_terminal(bare: Ledger) -> None:
    raw = html("<p>Your code is</p><p>4\u200b8\u200b2\u200b9\u200b1\u200b3</p>")
    for arguments in (["mail", "try"], ["mail", "try", "--json"]):
        out = bare.type(*arguments, stdin=raw).out
        assert "482913" in out
        assert "\u200b" not in out


def test_a_mail_that_was_not_read_in_full_is_told_by_the_exit_code(bare: Ledger) -> None:
    raw = b"Content-Type: multipart/mixed; boundary=b\n\n" + b"--b\n\n\n" * 1_000

    assert bare.type("mail", "try", stdin=raw).code == 1
