"""`oncebox delivery inspect` tells everything known of a delivery, and what to do next."""

import asyncio
from typing import Any, cast

from oncebox.box import Oncebox
from oncebox.db.database import Transaction
from oncebox.ledger import maintenance
from oncebox.ledger.deliveries import leases
from oncebox.ledger.deliveries.intake import BatchElement
from oncebox.model.deliveries.delivery import Accepted, Delivery, Hold, LaneRules
from oncebox.workers.deliveries.once import Once
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
        database = box.components.database
        await database.write(_age)
        claimant = leases.DeliveryClaimant("default", "shop", "host:1", 1000, 2, 60_000)
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

    assert lines["state"] == ["held"]  # the outcome is the same word
    assert lines["effect"][:2] == ["open-issue", "unknown"]
    assert lines["next action"][0].startswith("needs a person: open-issue unknown")
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
    assert of_shop[1]["next_action"].startswith("needs a person: conflict")


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
            while 'outcome="held",source="shop"} 0.0' in box.metrics():
                await box.components.database.wait("due", 0.01)

    id_ = ledger.accept("k1")
    asyncio.run(run())

    assert told(ledger, id_)["held"][0] == "policy: too large"
    assert not any("try failed" in each for each in explained(ledger, id_))


async def _accept(**sides: Any) -> str:
    async with Oncebox() as box:
        return (await box.components.intake.accept("shop", **sides)).id


async def _accept_batch() -> str:
    async with Oncebox() as box:
        parts = [BatchElement(key="one", start=1, size=3), BatchElement(key="two", start=5, size=3)]
        answers = await box.components.intake.accept_many("shop", parts, body=b"[one,two]")
        return cast("Accepted", answers[1]).id


def test_the_verdict_and_the_secret_are_told(ledger: Ledger) -> None:
    id_ = asyncio.run(_accept(key="k", body=b"{}", verdict="late", secret_id="sec_1"))

    assert told(ledger, id_)["signed"] == ["late", "by sec_1"]


def test_an_element_tells_which_part_of_its_request_it_is(ledger: Ledger) -> None:
    lines = told(ledger, asyncio.run(_accept_batch()), "--payload")

    assert lines["part of"][1] == "bytes 5 to 8"
    assert lines["body"] == ["two"]


def test_a_wait_in_a_lane_says_for_what_and_until_when(ledger: Ledger) -> None:
    rules = LaneRules(after={"job.completed": "job.started"}, after_wait=3_600_000)
    id_ = asyncio.run(
        _accept(key="k", body=b"{}", type_="job.completed", order_key="j", rules=rules)
    )
    lines = told(ledger, id_)

    assert lines["waits"][0].startswith("for job.started until 2")
    assert lines["next action"][0].startswith("wait for job.started: retry-safe")


def test_a_suspicious_replay_names_the_first_and_shows_how_it_came(ledger: Ledger) -> None:
    first = asyncio.run(_accept(key="k1", body=b"{}", unsigned=True))
    replay = asyncio.run(
        _accept(key="k2", body=b"{}", unsigned=True, road="hook", secret_id="sec_1")
    )

    assert told(ledger, replay)["replay of"] == [first]
    lines = told(ledger, first)
    assert lines["sighting"][:2] == ["suspicious_replay", "1 time"]
    assert (lines["example"][0], lines["example"][2:]) == (
        "suspicious_replay",
        ["by hook", "", "sec_1"],
    )


def test_a_number_in_a_lane_is_told(ledger: Ledger) -> None:
    id_ = asyncio.run(_accept(key="k", body=b"{}", order_key="j", sequence=1))

    assert told(ledger, id_)["lane"] == ["j", "position 1", "number 1", ""]


async def _purge() -> None:
    async with Oncebox() as box:
        now = box.components.database.clock() + 1
        cutoffs = {("default", "shop"): now}
        ledger = box.components.ledger
        found = await ledger.read(maintenance.find_purgeable_bodies, cutoffs)
        await ledger.write(maintenance.purge_bodies, found, now)


def test_a_body_that_is_gone_is_said_to_be_gone(ledger: Ledger) -> None:
    id_ = ledger.accept("k1")
    ledger.work(open_issue)
    asyncio.run(_purge())

    assert told(ledger, id_, "--payload")["body"][0] == "no longer kept"
    answer = ledger.type("delivery", "replay", id_, "--why", "again")
    assert answer.code == 4
    assert "body is no longer kept" in answer.err


async def fail_deep(delivery: Delivery, once: Once) -> None:
    def look_up() -> None:
        raise LookupError(delivery.text)

    look_up()


def test_the_last_traceback_is_shown_without_the_message(ledger: Ledger) -> None:
    id_ = ledger.accept("k1", body="canary")
    ledger.work(fail_deep)
    rows = ledger.type("delivery", "inspect", id_).rows
    frames = [row[1] for row in rows if row[0] == "frame"]

    assert [row[1] for row in rows if row[0] == "traceback"] == ["LookupError"]
    assert frames[-2].endswith(" in fail_deep")
    assert frames[-1].endswith("look_up")
    assert not any("canary" in frame for frame in frames)
    assert [each["traceback"] is not None for each in ledger.inspect(id_)["tries"]] == [True, True]


def explained(ledger: Ledger, id_: str) -> list[str]:
    head, *sentences = ledger.type("delivery", "explain", id_).out.splitlines()
    assert head == f"{id_}:"
    record = ledger.type("delivery", "explain", id_, "--json").record
    assert (record["id"], len(record["sentences"])) == (id_, len(sentences))
    return sentences


def test_a_delivery_is_explained_in_sentences(ledger: Ledger) -> None:
    id_ = ledger.accept("k1")
    ledger.accept("k1")
    waiting = explained(ledger, id_)
    ledger.work(open_issue)
    done = explained(ledger, id_)

    assert "under the key k1." in waiting[0]
    assert waiting[1].startswith("It was sent again once, the last ")
    assert waiting[2].endswith("; a worker with a handler for shop must run.")
    assert waiting[-1] == "Next: wait for a worker: retry-safe, no journalled effect."
    assert "Effects done and not repeated: open-issue." in done
    assert any(each.startswith("It was done ") for each in done)


def test_the_explanation_ends_with_a_command_to_copy(ledger: Ledger) -> None:
    held = ledger.accept("k1")
    ledger.work(lose_the_answer)
    dead = ledger.accept("k2")
    ledger.work(fail_deep)

    told_held = explained(ledger, held)[-1]
    release = f"oncebox delivery release {held} --why '…' --effect open-issue="
    assert f"if it happened: {release}done --result open-issue='JSON'; " in told_held
    assert f"if not: {release}not-done; " in told_held
    assert told_held.endswith(f"oncebox delivery drop {held}")
    assert "Effects of unknown outcome: open-issue." in explained(ledger, held)
    told_dead = explained(ledger, dead)
    assert told_dead[-1].endswith(f"run it with: oncebox delivery replay {dead} --why '…'")
    assert any(each.startswith("2 tries failed, the last ") for each in told_dead)
    assert any(each.endswith(": all its tries were used up.") for each in told_dead)


def test_what_is_held_on_arrival_is_explained(ledger: Ledger) -> None:
    ledger.accept("k1", body="a")
    other = ledger.accept("k1", body="b")

    assert any(
        each.endswith(": another body arrived under the same key.")
        for each in explained(ledger, other)
    )
