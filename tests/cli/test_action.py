"""Actions at the terminal: what is in doubt is seen, and a person's word ends it."""

import asyncio

from oncebox.ledger.admin import audit
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.attempts.actions import ActionRef
from oncebox.model.attempts import BeginActionResult, BeginStatus
from oncebox.model.deliveries.effects import Safety
from oncebox.model.deliveries.inspection import AuditRecord
from oncebox.settings_loading import load_settings
from oncebox.wiring import open_components
from tests.cli.ledger import Ledger


def begin(name: str = "verify", safe: Safety = Safety.ONCE, lease: int = 1) -> BeginActionResult:
    """Begin an action as an agent does; its lease is over at once."""

    async def work() -> BeginActionResult:
        rooms = await open_components(load_settings())
        try:
            task = ActionRef(
                Requester(tenant=rooms.settings.tenant, key="key_1"), "signup-42", name
            )
            begun = await rooms.attempts.begin(task, safe, lease=lease, window=86_400_000)
            await asyncio.sleep(0.01)
            return begun
        finally:
            await rooms.close()

    return asyncio.run(work())


def audited(target: str) -> list[AuditRecord]:
    async def work() -> list[AuditRecord]:
        rooms = await open_components(load_settings())
        try:
            return await rooms.database.read(audit.for_target, rooms.settings.tenant, target)
        finally:
            await rooms.close()

    return asyncio.run(work())


def test_what_is_in_doubt_is_listed_and_the_rest_on_demand(ledger: Ledger) -> None:
    begin()
    begin("held")
    begin("held")
    begin("running", lease=60_000)
    doubtful = ledger.type("action", "list").rows
    all_ = ledger.type("action", "list", "--all", "--attempt", "signup-42", "--json").records
    held = ledger.type("action", "list", "--state", "unknown", "--quiet").rows
    nothing = ledger.type("action", "list", "--attempt", "other").rows

    assert sorted(row[1:4] for row in doubtful) == [
        ["held", "unknown", "once"],
        ["verify", "started", "once"],
    ]
    assert {each["name"] for each in all_} == {"verify", "held", "running"}
    assert all("result" not in each for each in all_)
    assert held == [["signup-42", "held"]]
    assert nothing == []


def test_a_persons_word_ends_the_doubt_and_is_audited(ledger: Ledger) -> None:
    begin()
    begin()
    done = ledger.type(
        *("action", "resolve", "signup-42", "verify", "--done", "--result", '{"account": 7}'),
        *("--why", "the account is there", "--who", "eve"),
    )
    again = ledger.type(
        "action", "resolve", "signup-42", "verify", "--not-done", "--why", "x", "--json"
    )
    (entry,) = audited("action:signup-42/verify")

    assert (done.code, done.rows) == (0, [["signup-42", "verify", "done"]])
    assert begin().status is BeginStatus.DONE
    assert (again.code, again.error["code"]) == (4, "state_conflict")
    assert (entry.who, entry.why, entry.detail) == ("eve", "the account is there", "done")


def test_what_a_person_denied_begins_again(ledger: Ledger) -> None:
    begin()
    held = begin()
    record = ledger.type(
        "action", "resolve", "signup-42", "verify", "--not-done", "--why", "none", "--json"
    ).record

    assert held.status is BeginStatus.HELD
    assert (record["state"], record["has_result"]) == ("not_done", False)
    assert begin().status is BeginStatus.BEGUN


def test_half_a_word_is_refused(ledger: Ledger) -> None:
    begin()
    resolve = ("action", "resolve", "signup-42", "verify")
    answers = [
        ledger.type(*resolve, "--why", "x"),
        ledger.type(*resolve, "--done"),
        ledger.type(*resolve, "--done", "--result", "{", "--why", "x"),
        ledger.type(*resolve, "--not-done", "--result", "1", "--why", "x"),
    ]
    missing = ledger.type("action", "resolve", "a", "b", "--done", "--why", "x")

    assert {each.code for each in answers} == {2}
    assert missing.code == 3


def test_the_doctor_sees_held_actions(ledger: Ledger) -> None:
    begin()
    begin()
    found = {each["check"]: each for each in ledger.type("doctor", "--json").records}

    assert found["held actions"]["status"] == "warn"
