"""Tables at 80 columns: what identifies a row is never cut."""

import pytest

from oncebox.cli.output.table import Layout

_ROOM = 80
_ID = "dlv_01jx9m4e8q0000000000000000"
_COLUMNS = ("delivery", "state", "source", "type", "key", "tries", "age", "note")


def _lines(columns: tuple[str, ...], row: tuple[str, ...]) -> list[str]:
    return list(Layout(columns, [row], _ROOM).lines(row))


def test_short_row_stays_on_one_line() -> None:
    lines = _lines(_COLUMNS, (_ID, "done", "shop", "paid", "evt_1", "1", "3 s", ""))

    assert lines == [f"{_ID}  done   shop    paid  evt_1  1      3 s"]


def test_other_columns_give_way_first() -> None:
    note = "TimeoutError: the shop did not answer within thirty seconds"
    (line,) = _lines(_COLUMNS, (_ID, "dead", "shop", "paid", "evt_1", "1", "3 s", note))

    assert line.endswith("…")
    assert len(line) == _ROOM
    assert "evt_1" in line


@pytest.mark.parametrize("key", ["evt_1SbQ7x2eZvKYlo2CQ3kMdF0a", "k" * 200])
def test_long_key_is_never_cut(key: str) -> None:
    lines = _lines(_COLUMNS, (_ID, "dead", "shop", "invoice.paid", key, "8", "3 h", "failed"))

    assert any(key in line for line in lines)
    assert any("invoice.paid" in line for line in lines)
    assert all(len(line) <= _ROOM for line in lines if key not in line)
    assert all(line.startswith("    ") for line in lines[1:])


def test_address_sender_and_subject_are_never_cut() -> None:
    columns = ("message", "number", "status", "from", "verdict", "subject", "age", "copies")
    sender, subject = "no-reply@accounts.example.com", "Your verification code for Example Cloud"
    lines = _lines(columns, ("msg_" + "0" * 26, "1", "new", sender, "pass", subject, "3 s", "0"))

    assert any(sender in line for line in lines)
    assert any(subject in line for line in lines)
    assert all(len(line) <= _ROOM for line in lines)
