"""`oncebox quarantine`: what was not believed can be looked at, checked again and thrown away."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from oncebox import wiring
from oncebox.box import Oncebox
from oncebox.components import Components
from oncebox.errors import InputRefused
from oncebox.model.deliveries.delivery import NewDelivery
from oncebox.model.webhooks.quarantine import RejectedRequest
from oncebox.settings import Settings
from tests.cli.ledger import Ledger

HEADERS = (("X-Signature", "00"), ("Authorization", "Bearer letmein"))


async def _reject(bodies: Sequence[str]) -> None:
    async with Oncebox() as box:
        for body in bodies:
            box.components.quarantine.put(
                "shop",
                tenant="default",
                reason="mismatch",
                headers=HEADERS,
                body=body.encode(),
                url="/in/src_1?token=letmein",
            )


@pytest.fixture
def rejected(ledger: Ledger) -> list[str]:
    """Two requests in the quarantine, newest first."""
    asyncio.run(_reject(["one", "two"]))
    return ledger.type("quarantine", "list", "-q").out.split()


def _judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what carries the right token and says ``one`` be believed now."""

    really = wiring.open_components

    async def open_components(settings: Settings, *args: Any, **kwargs: Any) -> Components:
        rooms = await really(settings, *args, **kwargs)

        async def judge(request: RejectedRequest) -> list[NewDelivery]:
            assert dict(request.headers)["Authorization"] == "Bearer letmein"
            assert request.url.endswith("?token=letmein")
            if request.body != b"one":
                raise InputRefused("still not believed")
            return [rooms.intake.draft("shop", key="k1", body=request.body)]

        rooms.recheck_rejected = judge
        return rooms

    monkeypatch.setattr(wiring, "open_components", open_components)


def test_rejected_requests_are_listed_newest_first(ledger: Ledger, rejected: list[str]) -> None:
    rows = ledger.type("quarantine", "list").rows

    assert [row[0] for row in rows] == rejected
    assert rows[0][1:4] == ["forged", "shop", "mismatch"]
    assert ledger.type("quarantine", "list", "--source", "bank").out == ""
    record = ledger.type("quarantine", "list", "--limit", "1", "--json").record
    assert (record["id"], record["sighting"]) == (rejected[0], "forged")


def test_a_request_is_shown_without_its_secrets(ledger: Ledger, rejected: list[str]) -> None:
    shown = ledger.type("quarantine", "show", rejected[0])
    record = ledger.type("quarantine", "show", rejected[0], "--json").record

    assert ["body", "two"] in shown.rows
    assert ["header", "Authorization", "[sealed]"] in shown.rows
    assert record["headers"] == [["X-Signature", "00"], ["Authorization", "[sealed]"]]
    assert "letmein" not in shown.out + str(record)


def test_what_is_believed_now_is_taken_in_once(
    ledger: Ledger, rejected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _judged(monkeypatch)
    answer = ledger.type("quarantine", "retry", rejected[1], "--why", "the secret was wrong")

    assert answer.code == 0
    request, arrival, id_, state = answer.rows[0]
    assert (request, arrival, state) == (rejected[1], "new", "received")
    assert ledger.state(id_) == "received"
    again = ledger.type("quarantine", "retry", rejected[1], "--why", "once more")
    assert again.code == 3


def test_what_is_not_believed_stays(
    ledger: Ledger, rejected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _judged(monkeypatch)
    answer = ledger.type("quarantine", "retry", *rejected, "--why", "mended", "--json")

    assert answer.code == 1
    assert [each["arrival"] for each in answer.records] == ["new"]
    assert "still not believed" in answer.err
    assert ledger.type("quarantine", "list", "-q").out.split() == [rejected[0]]


def test_where_no_source_can_be_asked_that_is_said(ledger: Ledger, rejected: list[str]) -> None:
    answer = ledger.type("quarantine", "retry", rejected[0], "--why", "x")

    assert answer.code == 1
    assert "no source 'shop'" in answer.err


def test_requests_can_be_thrown_away(ledger: Ledger, rejected: list[str]) -> None:
    assert ledger.type("quarantine", "forget", *rejected, "--why", "a scanner").code == 0
    assert ledger.type("quarantine", "list").out == ""
    assert ledger.type("quarantine", "forget", rejected[0], "--why", "again").code == 3
    assert ledger.type("quarantine", "forget", *rejected, "--why", "again").code == 3


@pytest.mark.parametrize("verb", ["retry", "forget"])
def test_a_deed_needs_a_reason(ledger: Ledger, rejected: list[str], verb: str) -> None:
    assert ledger.type("quarantine", verb, rejected[0]).code == 2


def test_a_request_that_is_not_there_is_not_found(ledger: Ledger) -> None:
    assert ledger.type("quarantine", "show", "rej_none").code == 3
