"""The worker: claims, runs handlers, settles; loses nothing and runs nothing twice."""

import asyncio
import functools
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import pytest

from oncebox.box import Oncebox
from oncebox.db.database import Transaction
from oncebox.errors import ConfigInvalid, HandlerRegisteredTwice, OnceboxError, Permanent, Transient
from oncebox.ledger.deliveries import settlements
from oncebox.model.deliveries.delivery import Delivery, DeliveryState, Settlement
from oncebox.workers.deliveries.once import Once
from tests.support.clerk import Clerk
from tests.support.databases import Place
from tests.support.program import SOURCE, Program


async def _nothing(delivery: Delivery, once: Once) -> None:
    """Handle a delivery by doing nothing."""


# what is run


async def test_every_delivery_is_handled_once(place: Place) -> None:
    program = Program(place)
    handled: Counter[str] = Counter()

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        await asyncio.sleep(0)
        handled[delivery.id] += 1

    async with program.running():
        ids = await asyncio.gather(*(program.accept(str(n), body=b"%d" % n) for n in range(300)))
        states = await program.ended(*ids)

    assert states == [DeliveryState.DONE] * 300
    assert handled == Counter(ids)


async def test_a_handler_sees_what_arrived(place: Place) -> None:
    program = Program(place)
    seen: list[Delivery] = []

    @program.box.on(SOURCE, "paid")
    async def handler(delivery: Delivery, once: Once) -> None:
        seen.append(delivery)

    async with program.running():
        await program.handled("k", body='{"a": [1]}', headers=[("X-A", "b")], type="paid")

    (delivery,) = seen
    assert (delivery.key, delivery.type, delivery.tries) == ("k", "paid", 1)
    assert (delivery.json, delivery.text) == ({"a": [1]}, '{"a": [1]}')
    assert delivery.headers == (("X-A", "b"),)


async def test_plain_handlers_run_in_threads_beside_each_other(place: Place) -> None:
    program = Program(place)
    together = threading.Barrier(3, timeout=20)

    @program.box.on(SOURCE)
    def handler(delivery: Delivery, once: object) -> None:
        together.wait()

    async with program.running():
        ids = [await program.accept(str(number)) for number in range(3)]
        assert await program.ended(*ids) == [DeliveryState.DONE] * 3


def _decorated(function: Callable[..., Awaitable[None]]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Awaitable[None]:
        return function(*args)

    return wrapper


class _Object:
    def __init__(self, ran: list[str]) -> None:
        self._ran = ran

    async def __call__(self, delivery: Delivery, once: Once) -> None:
        await asyncio.sleep(0)
        self._ran.append(await once.do("it", lambda: delivery.key))


@pytest.mark.parametrize("shape", ["async", "decorated", "object", "partial"])
async def test_a_handler_of_any_shape_is_run_to_its_end(place: Place, shape: str) -> None:
    program = Program(place)
    ran: list[str] = []

    async def handler(delivery: Delivery, once: Once) -> None:
        await asyncio.sleep(0)
        ran.append(await once.do("it", lambda: delivery.key))

    shapes: dict[str, Callable[..., Any]] = {
        "async": handler,
        "decorated": _decorated(handler),
        "object": _Object(ran),
        "partial": functools.partial(handler),
    }
    program.box.on(SOURCE)(shapes[shape])
    async with program.running():
        seen = await program.handled("k")

    assert (ran, seen.delivery.state) == (["k"], DeliveryState.DONE)


async def test_a_plain_handler_that_returns_a_coroutine_is_not_called_done(place: Place) -> None:
    """It would never run, and nobody would know."""
    program = Program(place)

    @program.box.on(SOURCE)
    def handler(delivery: Delivery, once: Once) -> Awaitable[None]:
        return _nothing(delivery, once)

    async with program.running():
        seen = await program.handled()

    assert (seen.delivery.state, seen.delivery.outcome) == (DeliveryState.DEAD, "permanent")
    assert "make it an async function" in str(seen.delivery.last_error)


# what is not run


async def test_a_type_nobody_handles_is_ignored(place: Place) -> None:
    program = Program(place)
    program.box.on(SOURCE, "paid")(_nothing)

    async with program.running():
        ignored = await program.handled("1", type="refunded")
        handled = await program.handled("2", type="paid")

    assert (ignored.delivery.state, ignored.delivery.outcome) == (DeliveryState.DONE, "ignored")
    assert handled.delivery.outcome == "handled"


async def test_the_handler_of_a_type_goes_before_the_one_for_all(place: Place) -> None:
    program = Program(place)
    ran = []

    @program.box.on(SOURCE)
    async def rest(delivery: Delivery, once: Once) -> None:
        ran.append(("rest", delivery.type))

    @program.box.on(SOURCE, "paid")
    async def paid(delivery: Delivery, once: Once) -> None:
        ran.append(("paid", delivery.type))

    async with program.running():
        await program.handled("1", type="paid")
        await program.handled("2", type="other")
        await program.handled("3")

    assert ran == [("paid", "paid"), ("rest", "other"), ("rest", "")]


async def test_a_source_nobody_handles_stays_received(place: Place) -> None:
    program = Program(place)
    program.box.on(SOURCE)(_nothing)

    async with program.running():
        other = (await program.box.accept("bank", key="1")).id
        await program.handled("2")
        facts = program.clerk.facts(other)

    assert (facts.state, facts.tries, facts.fence) == (DeliveryState.RECEIVED, 0, 0)


async def test_a_duplicate_runs_nothing(place: Place) -> None:
    program = Program(place)
    ran = []

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        ran.append(delivery.id)

    async with program.running():
        for _ in range(5):
            await program.handled("same")

    assert len(ran) == 1


def test_two_handlers_for_the_same_are_an_error(place: Place) -> None:
    box = Program(place).box
    box.on(SOURCE, "paid")(_nothing)
    box.on(SOURCE)(_nothing)

    with pytest.raises(HandlerRegisteredTwice, match="remove one"):
        box.on(SOURCE, "paid")(_nothing)
    with pytest.raises(HandlerRegisteredTwice, match="remove one"):
        box.on(SOURCE)(_nothing)


# how tries fail


async def test_an_unknown_exception_is_tried_again_until_the_tries_are_used_up(
    place: Place,
) -> None:
    program = Program(place, retry={"tries": 3})

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        raise KeyError("nope")

    async with program.running():
        seen = await program.handled()

    assert (seen.delivery.state, seen.delivery.outcome) == (DeliveryState.DEAD, "tries_used_up")
    assert seen.delivery.tries == 3
    assert [each.error for each in seen.tries] == ["KeyError: 'nope'"] * 3


async def test_a_permanent_failure_is_dead_at_once(place: Place) -> None:
    program = Program(place)

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        raise Permanent("no such customer")

    async with program.running():
        seen = await program.handled()

    assert (seen.delivery.state, seen.delivery.tries) == (DeliveryState.DEAD, 1)
    assert seen.delivery.outcome == "permanent"
    assert seen.delivery.last_error == "permanent: no such customer"


async def test_a_failure_may_ask_for_time(place: Place) -> None:
    program = Program(place)

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        raise Transient("busy", retry_after=3_600)

    async with program.running():
        id_ = await program.accept()
        await program.until(lambda: program.clerk.state(id_) is DeliveryState.FAILED)
        facts = program.clerk.facts(id_)

    assert facts.not_before == facts.due_at
    assert facts.due_at is not None
    assert facts.due_at - facts.accepted_at >= 3_600_000


async def test_a_failure_that_asks_for_more_time_than_there_is_is_dead(place: Place) -> None:
    program = Program(place, retry={"budget": 60})

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        raise Transient("busy", retry_after=3_600)

    async with program.running():
        seen = await program.handled()

    assert (seen.delivery.state, seen.delivery.outcome) == (DeliveryState.DEAD, "time_used_up")


@pytest.mark.parametrize("asked", [float("inf"), 1e300, "later", "3600000000"])
async def test_a_failure_that_asks_for_nonsense_is_settled_all_the_same(
    place: Place, asked: Any
) -> None:
    program = Program(place, retry={"tries": 1})

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        raise Transient("busy", retry_after=asked)

    async with program.running():
        seen = await program.handled()

    assert (seen.delivery.state, seen.delivery.tries) == (DeliveryState.DEAD, 1)


@pytest.mark.parametrize("asked", [float("nan"), -1, 0, None])
async def test_a_failure_that_asks_for_no_time_is_tried_again_at_once(
    place: Place, asked: Any
) -> None:
    program = Program(place)

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        if delivery.tries == 1:
            raise Transient("busy", retry_after=asked)

    async with program.running():
        seen = await program.handled()

    assert (seen.delivery.state, seen.delivery.tries) == (DeliveryState.DONE, 2)


async def test_a_source_may_have_rules_of_its_own(place: Place) -> None:
    program = Program(place)
    program.box.source(SOURCE, tries=2, redelivery="count")

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        raise RuntimeError

    async with program.running():
        seen = await program.handled()
        again = await program.handled()

    assert (seen.delivery.state, seen.delivery.tries) == (DeliveryState.DEAD, 2)
    assert (again.delivery.state, again.delivery.rearms) == (DeliveryState.DEAD, 0)


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "async"])
async def test_a_handler_over_its_limit_is_stopped_and_failed(place: Place, plain: bool) -> None:
    program = Program(place, retry={"tries": 1})
    go_on = threading.Event()

    def wait(delivery: Delivery, once: object) -> None:
        go_on.wait(20)

    async def sleep(delivery: Delivery, once: Once) -> None:
        await asyncio.sleep(20)

    program.box.on(SOURCE, limit=0.05)(wait if plain else sleep)
    async with program.running():
        seen = await program.handled()
    go_on.set()

    assert (seen.delivery.state, seen.delivery.outcome) == (DeliveryState.DEAD, "tries_used_up")
    assert str(seen.delivery.last_error).startswith("TimeoutError")


@pytest.mark.parametrize(
    "error", [SystemExit(3), asyncio.CancelledError(), StopIteration(), RecursionError()]
)
async def test_whatever_a_handler_raises_is_recorded_and_the_worker_lives(
    place: Place, error: BaseException
) -> None:
    program = Program(place, retry={"tries": 2})

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        if delivery.key == "bad":
            raise error

    async with program.running():
        bad = await program.handled("bad")
        good = await program.handled("good")

    assert (bad.delivery.state, bad.delivery.tries) == (DeliveryState.DEAD, 2)
    assert good.delivery.state is DeliveryState.DONE


@pytest.mark.parametrize("text", ["a\x00b", "\ud800", "x" * 100_000, "two\nlines", "\u202e"])
async def test_the_words_of_an_error_never_stop_its_settlement(place: Place, text: str) -> None:
    program = Program(place, retry={"tries": 1})

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        raise ValueError(text)

    async with program.running():
        seen = await program.handled()

    assert seen.delivery.state is DeliveryState.DEAD
    assert len(str(seen.delivery.last_error)) <= 500
    assert "\n" not in str(seen.delivery.last_error)


async def test_a_settlement_that_breaks_in_an_unforeseen_way_is_not_stuck_for_ever(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease runs out, and the next try settles it."""
    program = Program(place, worker={"lease": 0.3})
    program.box.on(SOURCE)(_nothing)
    settle, breaks = settlements.settle_with_hooks, [1]

    def breaks_once(
        tx: Transaction, batch: Sequence[Settlement], now: int
    ) -> list[settlements.SettledTry]:
        if breaks:
            breaks.pop()
            raise ZeroDivisionError
        return settle(tx, batch, now)

    monkeypatch.setattr(settlements, "complete_all", lambda _tx, _batch, _now: None)
    monkeypatch.setattr(settlements, "settle_with_hooks", breaks_once)
    async with program.running():
        seen = await program.handled()

    assert (seen.delivery.state, seen.delivery.tries) == (DeliveryState.DONE, 2)


# lanes


async def test_a_lane_is_handled_in_order_one_at_a_time(place: Place) -> None:
    program = Program(place)
    running: Counter[str] = Counter()
    ran: list[str] = []

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        assert delivery.lane is not None
        running[delivery.lane] += 1
        assert running[delivery.lane] == 1
        if delivery.tries == 1 and delivery.key.endswith("3"):
            running[delivery.lane] -= 1
            raise Transient
        await asyncio.sleep(0.001)
        ran.append(delivery.key)
        running[delivery.lane] -= 1

    async with program.running():
        ids = [await program.accept(f"{n:02}", order_key=f"lane-{n % 2}") for n in range(20)]
        assert await program.ended(*ids) == [DeliveryState.DONE] * 20

    for lane in (0, 1):
        keys = [key for key in ran if int(key) % 2 == lane]
        assert keys == sorted(keys)


# stopping


async def test_a_stopping_worker_lets_its_handlers_finish(place: Place) -> None:
    program = Program(place, worker={"stop_within": 20})
    started = asyncio.Event()

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        started.set()
        await asyncio.sleep(0.1)

    async with program.box:
        id_ = await program.accept()
        await started.wait()

    assert program.clerk.state(id_) is DeliveryState.DONE
    program.clerk.close()


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "async"])
async def test_a_stopping_worker_gives_back_what_it_cannot_finish(
    place: Place, plain: bool
) -> None:
    program = Program(place, worker={"stop_within": 0.02})
    started, go_on = threading.Event(), threading.Event()

    def wait(delivery: Delivery, once: object) -> None:
        started.set()
        go_on.wait(20)

    async def sleep(delivery: Delivery, once: Once) -> None:
        started.set()
        await asyncio.sleep(20)

    program.box.on(SOURCE)(wait if plain else sleep)
    async with program.box:
        id_ = await program.accept()
        await program.until(started.is_set)
    go_on.set()

    facts = program.clerk.facts(id_)
    assert (facts.state, facts.tries, facts.fence) == (DeliveryState.RECEIVED, 0, 1)
    assert [each.outcome for each in program.clerk.inspect(id_).tries] == ["given_back"]
    program.clerk.close()


async def test_what_one_worker_gives_back_the_next_takes(place: Place) -> None:
    first = Program(place, worker={"stop_within": 0.02})
    started = asyncio.Event()

    @first.box.on(SOURCE)
    async def stuck(delivery: Delivery, once: Once) -> None:
        started.set()
        await asyncio.sleep(20)

    async with first.box:
        id_ = await first.accept()
        await started.wait()
    first.clerk.close()
    second = Program(place)
    second.box.on(SOURCE)(_nothing)
    async with second.running():
        assert await second.ended(id_) == [DeliveryState.DONE]


async def test_a_box_that_is_not_open_says_so(place: Place) -> None:
    box = Program(place).box

    with pytest.raises(OnceboxError, match="async with box"):
        await box.accept(SOURCE, key="1")


async def test_a_box_can_be_opened_again(place: Place) -> None:
    program = Program(place)
    program.box.on(SOURCE)(_nothing)
    for key in ("1", "2"):
        async with program.box:
            await program.handled(key)

    assert [each.state for each in program.clerk.all()] == [DeliveryState.DONE] * 2
    program.clerk.close()


async def test_a_box_whose_opening_is_cancelled_holds_nothing(place: Place) -> None:
    box = Program(place).box
    box.on(SOURCE)(_nothing)
    load = box.load_workers

    async def cancelled() -> None:
        await load()
        raise asyncio.CancelledError

    box.load_workers = cancelled  # type: ignore[method-assign]
    with pytest.raises(asyncio.CancelledError):
        await box.__aenter__()

    with pytest.raises(OnceboxError, match="async with box"):
        await box.accept(SOURCE, key="1")


# lost workers


async def test_the_work_of_a_lost_worker_is_done_by_another(place: Place) -> None:
    program = Program(place)
    ids = await _lose(program, 3)
    program.box.on(SOURCE)(_nothing)

    async with program.running():
        assert await program.ended(*ids) == [DeliveryState.DONE] * 3
        facts = [program.clerk.facts(id_) for id_ in ids]

    assert [(each.tries, each.fence) for each in facts] == [(2, 2)] * 3


async def _neighbours(program: Program, suspects: list[str]) -> dict[str, set[str]]:
    """Let suspects and fresh work run; return who ran beside whom."""
    running: set[str] = set()
    beside: dict[str, set[str]] = {}

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        running.add(delivery.id)
        for each in running:
            beside.setdefault(each, set()).update(running)
        await asyncio.sleep(0.1)
        running.discard(delivery.id)

    async with program.running():
        fresh = [await program.accept(f"fresh-{number}") for number in range(5)]
        ended = await program.ended(*suspects, *fresh)
    assert ended == [DeliveryState.DONE] * (len(suspects) + len(fresh))
    return beside


async def test_what_was_lost_once_runs_again_together_and_with_nothing_new(place: Place) -> None:
    """A worker that was killed for no fault of its work is soon made up for."""
    program = Program(place)
    suspects = await _lose(program, 3)

    beside = await _neighbours(program, suspects)

    assert {id_: beside[id_] for id_ in suspects} == {id_: set(suspects) for id_ in suspects}


async def test_what_was_lost_twice_runs_alone(place: Place) -> None:
    """What may have killed its workers takes no neighbour along."""
    program = Program(place)
    suspects = await _lose(program, 3, times=2)

    beside = await _neighbours(program, suspects)

    assert {id_: beside[id_] for id_ in suspects} == {id_: {id_} for id_ in suspects}


async def test_work_that_kills_every_worker_is_given_up(place: Place) -> None:
    program = Program(place, retry={"tries": 1})
    ids = await _lose(program, 2)
    ran = []

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        ran.append(delivery.id)

    async with program.running():
        assert await program.ended(*ids) == [DeliveryState.DEAD] * 2
        seen = program.clerk.inspect(ids[0])

    assert ran == []
    assert seen.delivery.outcome == "tries_used_up"
    assert [each.outcome for each in seen.tries] == ["lost"]
    assert seen.next_action.startswith("replay when the cause is fixed")


async def test_a_long_handler_keeps_its_lease(place: Place) -> None:
    program = Program(place, worker={"lease": 1.0})
    other = Program(place, worker={"lease": 1.0})
    ran = []

    async def handler(delivery: Delivery, once: Once) -> None:
        ran.append(delivery.fence)
        await asyncio.sleep(2.2)

    program.box.on(SOURCE)(handler)
    other.box.on(SOURCE)(handler)
    async with program.running(), other.running():
        seen = await program.handled()

    assert ran == [1]
    assert (seen.delivery.state, seen.delivery.fence) == (DeliveryState.DONE, 1)


async def test_a_handler_that_lost_its_lease_is_stopped(place: Place) -> None:
    program = Program(place, worker={"lease": 0.3})
    ended = []

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            ended.append(delivery.fence)
            raise

    async with program.running():
        id_ = await program.accept()
        await program.until(lambda: program.clerk.state(id_) is DeliveryState.PROCESSING)
        _steal(program.clerk)
        await program.until(lambda: ended == [1])
        await program.until(lambda: program.metric("oncebox_lease_conflicts_total") == 1)
        facts = program.clerk.facts(id_)

    assert (facts.state, facts.worker, facts.fence) == (DeliveryState.PROCESSING, "thief", 2)


async def _lose(program: Program, count: int, times: int = 1) -> list[str]:
    """Let workers claim deliveries a long time ago and never be heard of again."""
    program.clerk.now = 1_000_000_000_000
    new = [program.clerk.arrival(f"lost-{number}") for number in range(count)]
    program.clerk.accept(*new)
    assert len(program.clerk.claim(worker="ghost")) == count
    for _ in range(times - 1):
        program.clerk.now += 1_000_000
        assert len(program.clerk.claim_lost_once(worker="ghost")) == count
    return [each.id for each in new]


def _steal(clerk: Clerk) -> None:
    """Claim as somebody whose clock is far ahead."""
    clerk.now = 2**50
    clerk.tries = 99
    assert clerk.claim_expired("thief") is not None


async def test_two_boxes_share_the_work(place: Place) -> None:
    programs = [Program(place, worker={"concurrency": 4}) for _ in range(2)]
    handled: Counter[str] = Counter()

    async def handler(delivery: Delivery, once: Once) -> None:
        handled[delivery.id] += 1
        await asyncio.sleep(0.001)

    for each in programs:
        each.box.on(SOURCE)(handler)
    async with programs[0].running(), programs[1].running():
        ids = await asyncio.gather(*(programs[0].accept(str(n)) for n in range(100)))
        await programs[0].ended(*ids)

    assert handled == Counter(ids)


async def test_never_more_handlers_run_than_allowed(place: Place) -> None:
    program = Program(place, worker={"concurrency": 3})
    running: Counter[str] = Counter()

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        running["now"] += 1
        running["most"] = max(running["most"], running["now"])
        await asyncio.sleep(0.002)
        running["now"] -= 1

    async with program.running():
        ids = await asyncio.gather(*(program.accept(str(n)) for n in range(30)))
        await program.ended(*ids)

    assert 1 <= running["most"] <= 3


async def test_no_source_starves_another(place: Place) -> None:
    program = Program(place, worker={"concurrency": 2})
    ran: list[str] = []

    async def handler(delivery: Delivery, once: Once) -> None:
        ran.append(delivery.source)
        await asyncio.sleep(0)

    for source in ("busy", "quiet"):
        program.box.on(source)(handler)
    await program.box.open()
    for number in range(40):
        await program.box.accept("busy", key=str(number))
    quiet = (await program.box.accept("quiet", key="1")).id
    async with program.running():
        await program.ended(quiet)
        place_in_line = ran.index("quiet")
        await program.until(lambda: len(ran) == 41)

    assert place_in_line < 20


def test_a_box_needs_no_argument(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("ONCEBOX_DATA_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    assert Oncebox().settings.database == f"sqlite:///{tmp_path}/oncebox.db"


# the limits of a source


async def test_no_more_handlers_run_at_once_than_the_source_allows(place: Place) -> None:
    program = Program(place)
    program.box.source(SOURCE, concurrency=2)
    running, most = 0, 0

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1

    async with program.running():
        ids = [await program.accept(str(number)) for number in range(8)]
        assert await program.ended(*ids) == [DeliveryState.DONE] * 8

    assert most <= 2


@pytest.mark.parametrize("rules", [{"paused": True}, {"mode": "pull"}])
async def test_a_source_that_is_paused_or_pulled_is_left_alone(
    place: Place, rules: dict[str, Any]
) -> None:
    program = Program(place)
    handlers = program.box.handlers
    program.box.on(SOURCE)(_nothing)
    before = handlers.rules(SOURCE)
    handlers.put_rules(SOURCE, msgspec.structs.replace(before, **rules))

    async with program.running():
        id_ = await program.accept("1")
        await asyncio.sleep(0.2)
        assert program.clerk.state(id_) is DeliveryState.RECEIVED
        handlers.put_rules(SOURCE, before)
        assert await program.ended(id_) == [DeliveryState.DONE]


@pytest.mark.parametrize("limit", [{"rate": 0}, {"concurrency": -1}])
def test_a_limit_of_nothing_is_refused(limit: dict[str, int]) -> None:
    with pytest.raises(ConfigInvalid, match="at least 1"):
        Oncebox("sqlite:///x").source(SOURCE, **limit)  # type: ignore[arg-type]
