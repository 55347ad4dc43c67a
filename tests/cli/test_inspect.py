"""`oncebox delivery inspect` tells everything known of a delivery, and what to do next."""

import asyncio

from oncebox import Delivery, Hold, Once, Oncebox
from oncebox.ledger.deliveries import leases
from oncebox.store.database import Transaction
from tests.cli.ledger import Ledger


async def open_issue(delivery: Delivery, once: Once) -> None:
    await once.do("open-issue", lambda: {"number": 7})


async def lose_the_answer(delivery: Delivery, once: Once) -> None:
    def call() -> None:
        raise OSError("the answer was lost")

    await once.do("open-issue", call)


async def _claim_and_vanish(ago: int) -> None:
    """Claim as a worker did that many milliseconds ago, with a lease of a second."""
    async with Oncebox() as box:
        database = box.rooms.database
        await database.write(_age)
        claimant = leases.Claimant("default", "shop", "host:1", 1000, 2, 60_000)
        await database.write(leases.claim, claimant, 1, database.clock() - ago)


def _age(tx: Transaction) -> None:
    tx.execute("UPDATE oncebox_deliveries SET due_at = due_at - 60000")


def told(ledger: Ledger, wanted: str, *options: str) -> dict[str, list[str]]:
    rows = ledger.type("delivery", "inspect", wanted, *options).rows
    return {row[0]: row[1:] for row in rows}


def test_a_waiting_one_is_safe_to_retry(ledger: Ledger) -> None:
    id_ = ledger.accept("k1")
    lines = told(ledger, id_)

    assert lines["delivery"] == [id_]
    assert lines["source"] == ["shop"]
    assert lines["key"] == ["k1"]
    assert lines["state"] == ["received"]
    assert lines["next action"] == ["wait for a worker: retry-safe, no journalled effect"]


def test_a_done_one_shows_its_effects(ledger: Ledger) -> None:
    id_ = ledger.accept("k1")
    ledger.accept("k1")
    ledger.work(open_issue)
    lines, record = told(ledger, id_), ledger.inspect(id_)

    assert lines["state"] == ["done", "handled"]
    assert lines["effect"][:2] == ["open-issue", "done"]
    assert lines["effect"][4] == '{"number":7}'
    assert lines["sighting"][:2] == ["provider_retry", "1 time"]
    assert "open-issue done" in lines["next action"][0]
    assert record["effects"][0]["result"] == {"number": 7}


def test_an_effect_in_doubt_needs_a_person(ledger: Ledger) -> None:
    id_ = ledger.accept("k1")
    ledger.work(lose_the_answer)
    lines = told(ledger, id_)

    assert lines["state"] == ["held", "held"]
    assert lines["effect"][:2] == ["open-issue", "unknown"]
    assert lines["next action"] == ["needs a person: open-issue unknown"]
    assert "OSError: the answer was lost" in ledger.type("delivery", "inspect", id_).out


def test_a_lost_lease_says_for_how_long(ledger: Ledger) -> None:
    id_ = ledger.accept("k1")
    asyncio.run(_claim_and_vanish(42_000))
    lines = told(ledger, id_)

    assert lines["state"] == ["processing"]
    assert lines["lease"] == ["expired 41 s ago", "host:1"]


def test_a_key_that_means_several_shows_them_all(ledger: Ledger) -> None:
    ids = [ledger.accept("k1", body="a"), ledger.accept("k1", body="b")]
    ids.append(ledger.accept("k1", source="bank"))

    found = ledger.type("delivery", "inspect", "k1", "--json").records
    of_shop = ledger.type("delivery", "inspect", "k1", "--source", "shop", "--json").records

    assert {each["delivery"]["id"] for each in found} == set(ids)
    assert [each["delivery"]["id"] for each in of_shop] == ids[:2]
    assert of_shop[1]["next_action"] == "needs a person: conflict"


def test_the_payload_is_shown_when_asked_for(ledger: Ledger) -> None:
    id_ = ledger.accept("k1", "--header", "X-Name: é", body="a\x1bb")
    lines = told(ledger, id_, "--payload")

    assert lines["header"] == ["X-Name", "é"]
    assert lines["body"] == ["a\\x1bb"]
    assert "body" not in told(ledger, id_)


def test_an_unknown_one_is_exit_code_3(ledger: Ledger) -> None:
    plain = ledger.type("delivery", "inspect", "nothing")
    as_json = ledger.type("delivery", "inspect", "nothing", "--json")

    assert (plain.code, as_json.code) == (3, 3)
    assert plain.err.startswith("error: not_found: ")
    assert as_json.error["code"] == "not_found"


def test_a_policys_hold_says_its_reason(ledger: Ledger) -> None:
    async def run() -> None:
        box = Oncebox()
        box.on("shop")(open_issue)
        box.policy("shop")(lambda _delivery: Hold("too large"))
        async with box:
            while not box.metrics().count('outcome="held"'):
                await box.rooms.database.wait("due", 0.01)

    id_ = ledger.accept("k1")
    asyncio.run(run())

    assert told(ledger, id_)["held"][0] == "policy: too large"
