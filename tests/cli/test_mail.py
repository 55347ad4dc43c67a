"""``oncebox mail parse``: what is read from a mail, for a person and as JSON."""

import json
from pathlib import Path

from tests.cli.ledger import Ledger
from tests.mail.mails import DATE, alternative, html, plain


def test_a_mail_is_shown_to_a_person(bare: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "a.eml"
    path.write_bytes(alternative("Hello\nBob", "<p>Hello Bob</p>"))
    answer = bare.type("mail", "parse", str(path))

    assert answer.code == 0
    assert ["status", "parsed"] in answer.rows
    assert ["from", "Ann <ann@example.com>"] in answer.rows
    assert ["subject", "Grüße"] in answer.rows
    assert ["date", "2026-11-16T04:00:00.000Z"] in answer.rows
    assert [row[1] for row in answer.rows if row[0] == "text"] == ["Hello", "Bob"]


def test_as_json_everything_is_there_one_object_a_mail(bare: Ledger, tmp_path: Path) -> None:
    paths = [tmp_path / "a.eml", tmp_path / "b.eml"]
    paths[0].write_bytes(plain("one", date=DATE, received="x"))
    paths[1].write_bytes(plain("two", message_id=""))
    answer = bare.type("mail", "parse", "--json", *map(str, paths))
    first, second = map(json.loads, answer.out.splitlines())

    assert (first["file"], first["text"], first["status"]) == (str(paths[0]), "one", "parsed")
    assert first["headers"]["received"] == ["x"]
    assert first["sender"] == {
        "address": "ann@example.com",
        "name": "Ann",
        "domain": "example.com",
        "standing": "single",
    }
    assert len(first["identity"]) == len(first["message_mark"]) == 64
    assert (second["identity"], second["message_mark"]) == (None, None)


def test_standard_input_can_be_read(bare: Ledger) -> None:
    assert bare.type("mail", "parse", "-", "--json", stdin=plain("piped")).record["text"] == "piped"


def test_nothing_in_a_mail_steers_the_terminal(bare: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "a.eml"
    path.write_bytes(
        html("<p>\x1b[2J\u202etext</p><p style='display:none'>\x9bhidden\u200b</p>").replace(
            b"Ann", b"=?utf-8?q?A=1B=5B31mn?="
        )
    )
    shown = bare.type("mail", "parse", str(path))
    as_json = bare.type("mail", "parse", "--json", str(path))

    for text in (shown.out, as_json.out):
        assert not any(mark in text for mark in "\x1b\x9b\u202e\u200b")
    assert "\\u202etext" in shown.out


def test_a_mail_that_is_over_a_limit_is_told_by_the_exit_code(bare: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "a.eml"
    path.write_bytes(b"Content-Type: multipart/mixed; boundary=b\n\n" + b"--b\n\n\n" * 1_000)
    answer = bare.type("mail", "parse", str(path))

    assert answer.code == 1
    assert ["status", "limited"] in answer.rows
    assert ["warnings", "parts_limit"] in answer.rows
    assert bare.type("mail", "parse", "-q", str(path)).out == "limited\n"


def test_a_file_over_the_limit_is_refused(bare: Ledger, tmp_path: Path) -> None:
    path = tmp_path / "a.eml"
    with path.open("wb") as opened:
        opened.truncate(25 * 1024 * 1024 + 1)
    answer = bare.type("mail", "parse", "--json", str(path))

    assert answer.code == 1
    assert json.loads(answer.err)["error"]["code"] == "body_too_large"
