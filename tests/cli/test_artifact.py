"""`oncebox artifact`: listed without what it says, claimed once, released with a reason."""

import asyncio

import pytest

from oncebox.box import Oncebox
from tests.cli.ledger import Ledger
from tests.support.finds import bring, code
from tests.support.sorter import Sorter


async def _bring() -> list[str]:
    box = Oncebox()
    await box.open()
    try:
        await Sorter(box).add_inbox("inb_1")
        return await bring(box, "inb_1", code("481920"))
    finally:
        await box.close()


@pytest.fixture
def artifact(ledger: Ledger) -> str:
    """A code in an inbox."""
    (id_,) = asyncio.run(_bring())
    return id_


def test_artifacts_are_listed_and_shown_without_what_they_say(
    ledger: Ledger, artifact: str
) -> None:
    listed = ledger.type("artifact", "list", "inb_1")
    ids = ledger.type("artifact", "list", "inb_1", "--kind", "code", "-q").out.split()
    links = ledger.type("artifact", "list", "inb_1", "--kind", "link", "-q").out.split()
    shown = ledger.type("artifact", "show", artifact)
    record = ledger.type("artifact", "show", artifact, "--json").record

    assert listed.rows[0][:3] == [artifact, "code", "available"]
    assert (ids, links) == ([artifact], [])
    assert "sender\tno-reply@shop.example\tpass" in shown.out
    assert (record["state"], record["confidence"]) == ("available", 0.987)
    assert "claim_fingerprint" not in record
    assert "481920" not in listed.out + shown.out + str(record)


def test_a_claim_prints_the_value_and_a_release_needs_a_reason(
    ledger: Ledger, artifact: str
) -> None:
    first = ledger.type("artifact", "claim", artifact)
    again = ledger.type("artifact", "claim", artifact, "--json").record
    other = ledger.type("artifact", "claim", artifact, "--claim-key", "other")
    unsaid = ledger.type("artifact", "release", artifact)
    released = ledger.type("artifact", "release", artifact, "--why", "agent died", "--who", "ann")
    after = ledger.type("artifact", "claim", artifact, "--claim-key", "other")

    assert first.out == "481920\n"
    assert (again["value"], again["repeated"], again["claimed_by"]) == ("481920", True, "terminal")
    assert other.code != 0
    assert "another claim has it" in other.err
    assert unsaid.code != 0
    assert "--why" in unsaid.err
    assert released.rows == [[artifact, "available"]]
    assert after.out == "481920\n"


def test_what_is_not_there_is_said(ledger: Ledger, artifact: str) -> None:
    assert "no such artifact" in ledger.type("artifact", "show", "art_none").err
    assert "no such artifact" in ledger.type("artifact", "claim", "art_none").err
    assert "no such inbox" in ledger.type("artifact", "list", "inb_none").err
    assert artifact
