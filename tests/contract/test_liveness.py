"""Liveness: whatever a handler or the database does, the worker goes on and nothing is stuck."""

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from oncebox import Delivery, Done, NotDone, Once
from oncebox.errors import CommitUnknown, DatabaseReadOnly, StoreUnavailable
from oncebox.ledger.deliveries.desk import Desk
from oncebox.ledger.deliveries.leases import Claimant
from oncebox.model.delivery import Settlement, State
from oncebox.model.effect import EffectState
from tests.support.databases import Place
from tests.support.program import SOURCE, Program


class _Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


class _OwnKind(BaseException):
    pass


@pytest.mark.parametrize("kind", [_Unprintable, _OwnKind, SystemExit, GeneratorExit])
async def test_whatever_a_handler_raises_is_a_failed_try(
    place: Place, kind: type[BaseException]
) -> None:
    program = Program(place, retry={"tries": 2})

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        raise kind

    async with program.running():
        seen = await program.handled("k")

    assert (seen.delivery.state, seen.delivery.tries) == (State.DEAD, 2)


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

    assert states == [State.DEAD]


async def test_a_read_only_moment_loses_no_settlement(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program(place)
    settle = Desk.settle
    refusals = iter([DatabaseReadOnly("a standby"), DatabaseReadOnly("still")])

    async def refuse_twice(desk: Desk, batch: Sequence[Settlement]) -> list[bool]:
        for refusal in refusals:
            raise refusal
        return await settle(desk, batch)

    monkeypatch.setattr(Desk, "settle", refuse_twice)
    ran = []

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        ran.append(delivery.fence)

    async with program.running():
        seen = await program.handled("k")

    assert (seen.delivery.state, ran) == (State.DONE, [1])


async def test_a_stumbling_renewal_is_tried_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program(place, worker={"lease": 0.6})
    renew = Desk.renew
    stumbles = iter([DatabaseReadOnly("a standby"), RuntimeError()])
    renewed = asyncio.Event()

    async def stumble(desk: Desk, held: Sequence[tuple[str, int]], lease: int) -> set[str]:
        for stumble_ in stumbles:
            raise stumble_
        ours = await renew(desk, held, lease)
        renewed.set()
        return ours

    monkeypatch.setattr(Desk, "renew", stumble)

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        await renewed.wait()

    async with program.running():
        seen = await program.handled("k")

    assert (seen.delivery.state, seen.delivery.fence) == (State.DONE, 1)


async def test_what_is_leased_already_is_begun_when_another_source_fails(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program(place, worker={"lease": 30.0}, retry={"tries": 1})
    claim = Desk.claim

    async def fail_at_other(desk: Desk, who: Claimant, most: int, floor: int) -> list[Delivery]:
        if who.source == "other":
            raise StoreUnavailable("away")
        return await claim(desk, who, most, floor)

    monkeypatch.setattr(Desk, "claim", fail_at_other)

    @program.box.on(SOURCE)
    @program.box.on("other")
    async def handler(delivery: Delivery, once: Once) -> None:
        pass

    async with program.running():
        ids = [await program.accept(str(number)) for number in range(5)]
        states = await program.ended(*ids)

    assert states == [State.DONE] * 5


async def test_a_claim_whose_commit_reply_was_lost_is_found_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program(place, worker={"lease": 30.0}, retry={"tries": 1})
    claim = Desk.claim
    lost: list[int] = []

    async def lose_the_first(desk: Desk, who: Claimant, most: int, floor: int) -> list[Delivery]:
        claimed = await claim(desk, who, most, floor)
        if claimed and not lost:
            lost.append(len(claimed))
            raise CommitUnknown("lost")
        return claimed

    monkeypatch.setattr(Desk, "claim", lose_the_first)

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        pass

    async with program.running():
        seen = await program.handled("k")

    assert lost == [1]
    assert (seen.delivery.state, seen.delivery.fence) == (State.DONE, 1)


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

    assert states == [State.DONE, State.DONE]
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

    assert (seen.delivery.state, len(happened)) == (State.HELD, 1)


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

    assert (seen.delivery.state, seen.effects) == (State.DEAD, [])
    assert "over the limit of 1 s" in (seen.delivery.last_error or "")
