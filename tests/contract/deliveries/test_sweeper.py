"""The sweeper lets go of what has had its time, and of nothing else."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from oncebox.db.database import Transaction
from oncebox.ledger import maintenance
from oncebox.ledger.admin import idempotency
from oncebox.ledger.deliveries import inspections
from oncebox.ledger.notifications import DUE
from oncebox.ledger.sends import sends
from oncebox.model.admin.idempotency import FreshRequest, IdempotentRequest
from oncebox.model.deliveries.delivery import Delivery
from oncebox.model.sends.email import Email
from oncebox.model.sends.intent import Intent, SendOrigin
from oncebox.model.sends.send import Send
from oncebox.workers.deliveries.once import Once
from oncebox.workers.maintenance.sweeper import Sweeper
from tests.support.api import Api, calling
from tests.support.databases import Place

DAY = 24 * 3_600_000


@pytest.fixture
async def api(place: Place) -> AsyncIterator[Api]:
    """A box whose clock can be moved."""
    async with calling(place) as opened:
        yield opened


def later(api: Api, days: float) -> Sweeper:
    """Return a sweeper that lives so many days from now."""
    rooms = api.box.components
    counter = type(rooms.ledger)(rooms.database)
    counter.clock = lambda: rooms.database.clock() + round(days * DAY)
    return Sweeper(counter, rooms.sources, rooms.telemetry, events=rooms.settings.events)


async def test_answers_are_forgotten_after_a_day_and_not_before(api: Api) -> None:
    counter, key = api.box.components.ledger, api.box.components.master_key
    asked = IdempotentRequest(tenant=api.home, route="POST /x", key="k", body_hash=b"h")
    await counter.write(idempotency.begin, key, asked, counter.clock())
    await later(api, 0.9).sweep()
    early = await counter.write(idempotency.begin, key, asked, counter.clock())
    await later(api, 1.1).sweep()
    late = await counter.write(idempotency.begin, key, asked, counter.clock())

    assert not isinstance(early, FreshRequest)
    assert isinstance(late, FreshRequest)


async def test_bodies_that_are_kept_are_not_looked_at_again_and_never_in_a_write(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.add_source("shop", retention=2, mode="handler")
    await api.add_source("bank", mode="handler")
    for number in range(3):
        await api.accept("bank", f"k{number}", body=b"x")
    searched: list[tuple[str, str | None]] = []
    find = maintenance.find_purgeable_bodies

    def recorded(
        tx: Transaction, cutoffs: maintenance.Cutoffs, after: str, upto: str
    ) -> maintenance.PurgeableBodies:
        found = find(tx, cutoffs, after, upto)
        searched.append((after, found.after))
        return found

    monkeypatch.setattr(maintenance, "find_purgeable_bodies", recorded)
    monkeypatch.delattr(maintenance, "purge_bodies")

    recent = later(api, 0)
    await recent._purge_bodies()
    assert searched == [("", None)], "younger than every retention"

    searched.clear()
    sweeper = later(api, 5)
    await sweeper._purge_bodies()
    await sweeper._purge_bodies()
    last = searched[0][1]
    assert last is not None
    assert searched == [("", last), (last, None), (last, None)]


async def test_bodies_go_when_their_source_keeps_them_no_longer(api: Api) -> None:
    await api.add_source("shop", retention=2, mode="handler")
    await api.add_source("bank", mode="handler")
    ids = [(await api.accept(name, "k", body=b"x")).id for name in ("shop", "bank")]
    for name in ("shop", "bank"):
        api.box.on(name)(_nothing)
    api.box._start_workers()
    while {each["state"] for each in (await api.call("GET", "/v1/deliveries")).json()["data"]} != {
        "done"
    }:
        await api.box.components.database.wait(DUE, 0.02)
    await later(api, 1).sweep()
    before = [await _has_body(api, id_) for id_ in ids]
    await later(api, 3).sweep()
    after = [await _has_body(api, id_) for id_ in ids]

    assert (before, after) == ([True, True], [False, True])


async def test_inboxes_that_ended_go_after_their_retention_and_open_ones_stay(api: Api) -> None:
    made = [
        (await api.call("POST", "/v1/inboxes", {"attempt_id": each})).json()["id"]
        for each in ("ended", "open")
    ]
    await api.call("POST", f"/v1/inboxes/{made[0]}/close", {"drain": 0})
    found = []
    for days in (364, 366):
        await later(api, days).sweep()
        listed = (await api.call("GET", "/v1/inboxes")).json()["data"]
        found.append({each["id"] for each in listed})

    assert found == [set(made), {made[1]}]


async def test_guards_of_sends_are_forgotten_when_they_guard_nothing_any_more(api: Api) -> None:
    email = Email(sender="shop@example.com", to="ann@example.org", text="Thank you.")
    agent = SendOrigin(tenant=api.home, key="key_1", is_agent=True)
    await api.box.components.outbox.send(agent, Intent(email=email, key="k"))

    def count(tx: Transaction) -> int:
        ((guards,),) = tx.execute("SELECT COUNT(*) FROM oncebox_send_guards")
        return int(guards)

    await later(api, 0).sweep()
    early = await api.box.components.database.read(count)
    await later(api, 0.1).sweep()

    assert (early, await api.box.components.database.read(count)) == (2, 0)


async def test_what_a_send_said_goes_after_its_time_and_its_key_stays(api: Api) -> None:
    email = Email(sender="shop@example.com", to="ann@example.org", text="Thank you.")
    first = await api.box.send(email, key="k", wait=30)
    await later(api, 6).sweep()
    kept = await _purged(api, first.id)
    await later(api, 8).sweep()

    assert kept is None
    assert await _purged(api, first.id) is not None
    again = await api.box.send(email, key="k")
    assert (again.id, again.created, again.status) == (first.id, False, "logged")


async def _purged(api: Api, id_: str) -> int | None:
    found: Send = await api.box.components.database.read(sends.get, api.home, id_)
    return found.purged_at


async def test_what_is_written_of_a_source_holds_for_the_worker_too(api: Api) -> None:
    """Paused, nothing is claimed; resumed, it is worked on without a restart."""
    await api.add_source("shop", mode="handler", tries=3, concurrency=2)
    await api.call("POST", "/v1/sources/shop/pause")
    accepted = await api.accept("shop", "k")
    api.box.on("shop")(_nothing)
    api.box._start_workers()
    for _ in range(5):
        await api.box.components.database.wait(DUE, 0.05)
    paused = (await api.call("GET", f"/v1/deliveries/{accepted.id}")).json()["delivery"]
    rules = api.box.handlers.rules("shop")
    await api.call("POST", "/v1/sources/shop/resume")
    state = "received"
    while state != "done":
        await api.box.components.database.wait(DUE, 0.05)
        found = (await api.call("GET", f"/v1/deliveries/{accepted.id}")).json()
        state = found["delivery"]["state"]

    assert (paused["state"], paused["tries"]) == ("received", 0)
    assert (rules.paused, rules.retry.tries, rules.concurrency) == (True, 3, 2)


async def test_what_the_program_says_of_a_source_wins(api: Api) -> None:
    await api.add_source("shop", mode="handler", tries=3, redelivery="count", rate=7)
    api.box.source("shop", tries=5)
    rules = api.box.handlers.rules("shop")

    assert (rules.retry.tries, rules.redelivery, rules.rate) == (5, "rearm", 7)
    assert msgspec.structs.asdict(api.box.handlers.rules("other"))["mode"] == "handler"


async def _nothing(_delivery: Delivery, _once: Once) -> None:
    """Handle it."""


async def _has_body(api: Api, id_: str) -> bool:
    facts = await api.box.components.ledger.read(inspections.inspect, api.home, id_, 0)
    answer = await api.call("GET", f"/v1/deliveries/{facts.delivery.id}?payload=true")
    return answer.status_code == 200 and answer.json()["payload"]["body"] == "eA=="
