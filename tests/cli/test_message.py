"""`oncebox message`: what came to inboxes, safe to look at and exact to the byte."""

import asyncio
import os
import subprocess
import sys

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
