"""`oncebox message`: what came to inboxes, safe to look at and exact to the byte."""

import asyncio
import base64
import os
import subprocess
import sys
from pathlib import Path

import pytest

from oncebox.box import Oncebox
from tests.cli.ledger import Ledger
from tests.support.letters import mail
from tests.support.sorter import Sorter

RAW = mail("Hel\x1b[31mlo", "Hi\x07 there", more=["X-Odd: \xff"])


async def _file(*raws: bytes) -> list[str]:
    box = Oncebox()
    await box.open()
    try:
        sorter = Sorter(box)
        await sorter.add_inbox("inb_1")
        return await sorter.file("inb_1", *raws)
    finally:
        await box.close()


@pytest.fixture
def filed(ledger: Ledger) -> list[str]:
    """Two messages in an inbox."""
    return asyncio.run(_file(RAW, mail(message_id="<2@x>")))


def test_messages_are_listed_in_order(ledger: Ledger, filed: list[str]) -> None:
    rows = ledger.type("message", "list", "inb_1").rows
    rest = ledger.type("message", "list", "inb_1", "--after", "1", "-q").out.split()
    records = ledger.type("message", "list", "inb_1", "--json").records

    assert [(row[0], row[1]) for row in rows] == [(filed[0], "1"), (filed[1], "2")]
    assert rest == [filed[1]]
    assert [each["subject"] for each in records][1] == "Hello"


def test_a_message_is_shown_without_steering_the_terminal(ledger: Ledger, filed: list[str]) -> None:
    shown = ledger.type("message", "show", filed[0])
    record = ledger.type("message", "show", filed[0], "--json").record

    assert "\x1b" not in shown.out
    assert "\x07" not in shown.out
    assert "subject\t" in shown.out
    assert record["parsed"]["sender"]["address"] == "ann@example.com"
    assert [each["road"] for each in record["copies"]] == ["smtp"]


def test_the_text_of_a_message_is_shown_as_lines(ledger: Ledger) -> None:
    (id_,) = asyncio.run(_file(mail("Hello", "One\r\nTwo\r\n\r\nFour")))
    rows = ledger.type("message", "show", id_).rows

    assert [row[1:] for row in rows if row[0] == "text"] == [["One"], ["Two"], [""], ["Four"]]


def test_raw_is_exact_to_the_byte(ledger: Ledger, filed: list[str]) -> None:
    written = subprocess.run(
        [sys.executable, "-m", "oncebox", "message", "raw", filed[0]],
        check=True,
        stdout=subprocess.PIPE,
        env=dict(os.environ),
    )

    assert written.stdout == RAW


@pytest.mark.parametrize("verb", ["show", "raw"])
def test_a_missing_message_is_said(ledger: Ledger, verb: str) -> None:
    answer = ledger.type("message", verb, "msg_gone", "--json")

    assert (answer.code, answer.error["code"]) == (3, "not_found")


def test_messages_of_all_inboxes_are_listed_newest_first_and_paged(ledger: Ledger) -> None:
    async def file() -> list[str]:
        box = Oncebox()
        await box.open()
        try:
            sorter = Sorter(box)
            ids = []
            for number, inbox in enumerate(("inb_1", "inb_2", "inb_3")):
                await sorter.add_inbox(inbox)
                ids += await sorter.file(inbox, mail(f"No. {number}", message_id=f"<{number}@x>"))
            return ids
        finally:
            await box.close()

    ids = asyncio.run(file())
    first = ledger.type("message", "list", "--limit", "2").rows
    rest = ledger.type("message", "list", "--before", ids[1], "-q").out.split()
    records = ledger.type("message", "list", "--json").records
    other = ledger.type("message", "list", "--after", "1")

    assert [row[0] for row in first] == [ids[2], ids[1]]
    assert rest == [ids[0]]
    assert [(each["inbox_id"], each["subject"]) for each in records] == [
        ("inb_3", "No. 2"), ("inb_2", "No. 1"), ("inb_1", "No. 0"),
    ]  # fmt: skip
    assert other.code == 2
    assert "--after" in other.err


# attachments

ATTACHED = bytes(range(256)) * 3


def with_attachments(*names: str) -> bytes:
    """Return a mail with attachments of these names."""
    lines = ["From: ann@example.com", "Subject: files", "MIME-Version: 1.0",
             "Content-Type: multipart/mixed; boundary=b", "", "--b", "", "see"]  # fmt: skip
    for name in names:
        lines += [
            "--b", f'Content-Disposition: attachment; filename="{name}"',
            "Content-Type: application/octet-stream", "Content-Transfer-Encoding: base64", "",
            base64.encodebytes(ATTACHED + name.encode()).decode(),
        ]  # fmt: skip
    return "\r\n".join([*lines, "--b--", ""]).encode()


@pytest.fixture
def attached(ledger: Ledger) -> str:
    """A message with four attachments, two of one name."""
    raw = with_attachments("../../odd.pdf", "a.csv", "b.csv", "b.csv")
    return asyncio.run(_file(raw))[0]


@pytest.mark.parametrize("which", ["2", "a.csv"])
def test_an_attachment_is_written_by_number_or_name(
    ledger: Ledger, attached: str, tmp_path: Path, which: str
) -> None:
    target = tmp_path / "out.bin"
    done = ledger.type("message", "attachment", attached, which, "--output", str(target))

    assert done.code == 0
    assert target.read_bytes() == ATTACHED + b"a.csv"
    assert target.stat().st_mode & 0o777 == 0o600


def test_an_attachment_replaces_no_file_unless_forced(
    ledger: Ledger, attached: str, tmp_path: Path
) -> None:
    target = tmp_path / "out.bin"
    target.write_bytes(b"mine")
    words = ("message", "attachment", attached, "2", "--output", str(target))
    refused = ledger.type(*words, "--json")
    kept = target.read_bytes()
    forced = ledger.type(*words, "--force")

    assert (refused.code, refused.error["code"]) == (4, "state_conflict")
    assert "--force" in refused.error["message"]
    assert (kept, forced.code) == (b"mine", 0)
    assert target.read_bytes() == ATTACHED + b"a.csv"
    assert [each.name for each in tmp_path.iterdir() if "out.bin" in each.name] == ["out.bin"]


def test_the_name_that_a_sender_chose_is_never_a_path(
    ledger: Ledger, attached: str, tmp_path: Path
) -> None:
    """A folder as the target is refused: no file name would be left but the sender's."""
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    words = ("message", "attachment", attached, "../../odd.pdf", "--output")
    refused = ledger.type(*words, str(folder))
    done = ledger.type(*words, str(folder / "mine.pdf"))

    assert (refused.code, done.code) == (2, 0)
    assert sorted(each.name for each in tmp_path.rglob("*.pdf")) == ["mine.pdf"]


@pytest.mark.parametrize("which", ["5", "0", "c.csv", "b.csv"])
def test_an_attachment_that_is_not_there_or_not_the_only_one_is_said(
    ledger: Ledger, attached: str, tmp_path: Path, which: str
) -> None:
    target = tmp_path / "out.bin"
    told = ledger.type("message", "attachment", attached, which, "--output", str(target), "--json")

    assert told.code in {3, 4}
    assert f"oncebox message show {attached}" in told.error["message"]
    assert not target.exists()
