"""``oncebox event``: the sequence of events at a terminal."""

import asyncio
import threading
from typing import Any

from oncebox.db import startup
from oncebox.ledger.notifications import STREAM
from oncebox.settings_loading import load_settings
from tests.cli.ledger import Ledger
from tests.support import events
from tests.support.clerk import START

TENANT = "default"


def happen(*subjects: str, **rest: Any) -> None:
    """Do what another process would, on a connection of its own."""

    async def tell() -> None:
        database = startup.connect(load_settings().database)
        told = [events.new(each, **{"tenant": TENANT, **rest}) for each in subjects]
        await database.write(events.record, *told)
        await database.write(events.number_all)
        database.notify(STREAM)
        await database.close()

    asyncio.run(tell())


def test_events_are_listed_oldest_first_and_from_a_number_on(ledger: Ledger) -> None:
    happen(*"abcd")

    whole = ledger.type("event", "list", "--json").records
    rest = ledger.type("event", "list", "--after", "1", "--limit", "2").rows

    assert [each["subject_id"] for each in whole] == list("abcd")
    assert [each["number"] for each in whole] == [1, 2, 3, 4]
    assert whole[0]["at"] == START
    assert [(row[0], row[3]) for row in rest] == [("2", "b"), ("3", "c")]


def test_only_wanted_events_are_listed(ledger: Ledger) -> None:
    happen("1", type_="a.one", inbox_id="inb_1")
    happen("2", type_="a.two", attempt_id="att_1")
    happen("3", tenant="other")

    def listed(*options: str) -> list[str]:
        answer = ledger.type("event", "list", *options, "--json")
        return [each["subject_id"] for each in answer.records]

    assert listed() == ["1", "2"]
    assert listed("--type", "a.one", "--type", "a.three") == ["1"]
    assert listed("--inbox", "inb_1") == ["1"]
    assert listed("--attempt", "att_1") == ["2"]
    assert listed("--tenant", "other") == ["3"]


def test_a_number_whose_events_are_gone_is_refused(ledger: Ledger) -> None:
    answer = ledger.type("event", "list", "--after", "7", "--json")

    assert answer.code != 0
    assert "cursor_too_old" in answer.err


def test_what_happens_meanwhile_is_followed(ledger: Ledger) -> None:
    happen("old")
    other = threading.Timer(0.7, happen, ("new",))
    other.start()
    answer = ledger.type("event", "follow", "--for", "3", "--json")
    other.join()

    assert [each["subject_id"] for each in answer.records] == ["new"]


def test_following_may_begin_after_a_number(ledger: Ledger) -> None:
    happen(*"abc")

    answer = ledger.type("event", "follow", "--after", "1", "--for", "0.3", "--quiet")

    assert len(answer.rows) == 2
