"""Liveness: whatever a handler or the database does, the worker goes on and nothing is stuck."""

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from oncebox.db.database import Transaction
from oncebox.errors import CommitUnknown, DatabaseReadOnly, NotDone, StoreUnavailable
from oncebox.ledger.deliveries import leases, settlements
from oncebox.ledger.deliveries.leases import DeliveryClaimant
from oncebox.model.deliveries.delivery import Delivery, DeliveryState, Settlement
from oncebox.model.deliveries.effects import Done, EffectState
from oncebox.workers.deliveries.once import Once
from tests.support.databases import Place
from tests.support.ledger_calls import intercept
from tests.support.program import SOURCE, Program


class _Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


class _OwnKind(BaseException):
    pass


@pytest.mark.parametrize("raised", [_Unprintable, _OwnKind, SystemExit, GeneratorExit])
async def test_whatever_a_handler_raises_is_a_failed_try(
    place: Place, raised: type[BaseException]
) -> None:
    program = Program(place, retry={"tries": 2})

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        raise raised

    async with program.running():
        seen = await program.handled("k")

    assert (seen.delivery.state, seen.delivery.tries) == (DeliveryState.DEAD, 2)


async def test_a_handler_that_ignores_its_time_limit_loses_its_lease(place: Place) -> None:
    program = Program(place, worker={"lease": 0.3, "handler_limit": 0.1}, retry={"tries": 2})
    free = asyncio.Event()

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        while not free.is_set():
            try:
                await free.wait()
            except asyncio.CancelledError:
                continue

    async with program.running():
        id_ = await program.accept("k")
        states = await program.ended(id_)
        free.set()

    assert states == [DeliveryState.DEAD]


async def test_a_read_only_moment_loses_no_settlement(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program(place)
    settle = settlements.settle_with_hooks
    refusals = iter([DatabaseReadOnly("a standby"), DatabaseReadOnly("still")])

    def refuse_twice(
        tx: Transaction, batch: Sequence[Settlement], now: int
    ) -> list[settlements.SettledTry]:
        for refusal in refusals:
            raise refusal
        return settle(tx, batch, now)

    monkeypatch.setattr(settlements, "complete_all", lambda _tx, _batch, _now: None)
    monkeypatch.setattr(settlements, "settle_with_hooks", refuse_twice)
    ran = []

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        ran.append(delivery.fence)

    async with program.running():
        seen = await program.handled("k")

    assert (seen.delivery.state, ran) == (DeliveryState.DONE, [1])


async def test_a_stumbling_renewal_is_tried_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program(place, worker={"lease": 0.6})
    stumbles = iter([DatabaseReadOnly("a standby"), RuntimeError()])
    renewed = asyncio.Event()

    async def stumble(renew: Any, *args: Any) -> Any:
        for stumble_ in stumbles:
            raise stumble_
        ours = await renew(*args)
        renewed.set()
        return ours

    intercept(monkeypatch, "write", leases.renew, stumble)

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        await renewed.wait()

    async with program.running():
        seen = await program.handled("k")

    assert (seen.delivery.state, seen.delivery.fence) == (DeliveryState.DONE, 1)


async def test_what_is_leased_already_is_begun_when_another_source_fails(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program(place, worker={"lease": 30.0}, retry={"tries": 1})

    async def fail_at_other(claim: Any, who: DeliveryClaimant, *args: Any) -> Any:
        if who.source == "other":
            raise StoreUnavailable("away")
        return await claim(who, *args)

    intercept(monkeypatch, "write", leases.claim_from, fail_at_other)

    @program.box.on(SOURCE)
    @program.box.on("other")
    async def handler(delivery: Delivery, once: Once) -> None:
        pass

    async with program.running():
        ids = [await program.accept(str(number)) for number in range(5)]
        states = await program.ended(*ids)

    assert states == [DeliveryState.DONE] * 5


async def test_a_claim_whose_commit_reply_was_lost_is_found_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program(place, worker={"lease": 30.0}, retry={"tries": 1})
    lost: list[int] = []

    async def lose_the_first(claim: Any, *args: Any) -> Any:
        claimed = await claim(*args)
        if claimed.deliveries and not lost:
            lost.append(len(claimed.deliveries))
            raise CommitUnknown("lost")
        return claimed

    intercept(monkeypatch, "write", leases.claim_from, lose_the_first)

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        pass

    async with program.running():
        seen = await program.handled("k")

    assert lost == [1]
    assert (seen.delivery.state, seen.delivery.fence) == (DeliveryState.DONE, 1)


async def test_a_suspect_never_runs_beside_another(place: Place) -> None:
    program = Program(place, worker={"lease": 0.4})
    under_way: set[str] = set()
    beside: list[set[str]] = []
    suspect = program.clerk.accept_one(key="suspect").id
    program.clerk.claim_one()

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        under_way.add(delivery.key)
        if delivery.key == "suspect":
            beside.append(set(under_way))
        await asyncio.sleep(1.0 if delivery.key == "long" else 0)
        under_way.discard(delivery.key)

    async with program.running():
        long = await program.accept("long")
        states = await program.ended(suspect, long)

    assert states == [DeliveryState.DONE, DeliveryState.DONE]
    assert beside == [{"suspect"}]


async def test_a_plain_call_that_outlives_its_time_is_not_repeated_by_verify(place: Place) -> None:
    program = Program(place, retry={"tries": 5})
    happened: list[str] = []
    goes_on = threading.Event()

    def charge() -> None:
        goes_on.wait(60)
        happened.append("charged")

    def ask() -> Done:
        if happened:
            return Done()
        raise NotDone

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        await once.do("charge", charge, safe=ask, timeout=0.1)

    async with program.running():
        seen = await program.handled("k")
        goes_on.set()
        await program.until(lambda: bool(happened))
        await program.until(
            lambda: program.clerk.inspect(seen.delivery.id).effects[0].state is EffectState.DONE
        )

    assert (seen.delivery.state, len(happened)) == (DeliveryState.HELD, 1)


# SQLite has a single lock, and its busy timeout bounds the wait for it.
@pytest.mark.parametrize("kind", ["postgres"])
async def test_a_paused_process_does_not_stop_the_others(place: Place) -> None:
    program = Program(place)
    let_go = threading.Event()
    holds = threading.Event()

    def pause(tx: Any) -> None:
        tx.execute(
            "INSERT INTO oncebox_lanes (tenant, source, lane, last_position) "
            "VALUES (%s, %s, 'busy', 1)",
            (program.box.settings.tenant, SOURCE),
        )
        holds.set()
        let_go.wait(60)

    async with program.box:
        session = place.session()
        paused = threading.Thread(target=session.run, args=(pause,))
        paused.start()
        await asyncio.to_thread(holds.wait)
        blocked = [
            asyncio.create_task(program.box.accept(SOURCE, key=f"b{n}", order_key="busy"))
            for n in range(3)
        ]
        await asyncio.sleep(0.1)
        free = await program.box.accept("elsewhere", key="1")
        refused = await asyncio.gather(*blocked, return_exceptions=True)
        let_go.set()
        paused.join()
        session.close()

    assert free.arrival == "new"
    assert all(isinstance(each, StoreUnavailable) for each in refused)


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_a_slow_transaction_is_undone_and_named(place: Place) -> None:
    program = Program(place)

    def slow(tx: Any) -> None:
        tx.execute("CREATE TABLE theirs (n INTEGER)")
        time.sleep(1.1)

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        await once.transaction("slow", slow)

    async with program.running():
        seen = await program.handled("k")

    assert (seen.delivery.state, seen.effects) == (DeliveryState.DEAD, [])
    assert "over the limit of 1 s" in (seen.delivery.last_error or "")
