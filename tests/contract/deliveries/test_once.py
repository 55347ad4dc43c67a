"""``once``: a repeat of the delivery repeats no side effect; the three choices when in doubt."""

import asyncio
import functools
import threading
from collections.abc import Callable
from typing import Any

import pytest

from oncebox.errors import EffectOutcomeUnknown, LeaseLost, NotDone, Permanent, Transient
from oncebox.ledger.deliveries import effects
from oncebox.model.deliveries.delivery import Delivery, DeliveryState
from oncebox.model.deliveries.effects import (
    NO_RESULT,
    BeginEffect,
    Done,
    EffectState,
    effect_key,
)
from oncebox.model.deliveries.inspection import DeliveryInspection
from oncebox.workers.deliveries.once import Once, SyncOnce
from tests.support.clerk import TENANT
from tests.support.databases import Place
from tests.support.ledger_calls import intercept
from tests.support.program import SOURCE, Program

Handler = Callable[[Delivery, Once], Any]


async def _handled(place: Place, handler: Handler, **rest: Any) -> DeliveryInspection:
    """Run one delivery through a handler to its end."""
    program = Program(place)
    program.box.on(SOURCE)(handler)
    async with program.running():
        return await program.handled(**rest)


class World:
    """The outside: it counts what really happens to it."""

    def __init__(self, *failures: Exception | None) -> None:
        """Fail the first calls as given; a failure here is after the effect, as a lost reply."""
        self.calls: list[dict[str, Any]] = []
        self._failures = list(failures)

    async def charge(self, **given: Any) -> int:
        """Take an effect without a key."""
        self.calls.append(given)
        failure = self._failures.pop(0) if self._failures else None
        if failure is not None:
            raise failure
        return len(self.calls)

    async def charge_with_key(self, *, idempotency_key: str) -> int:
        """Take an effect with a key."""
        return await self.charge(key=idempotency_key)


# the plain case


async def test_an_effect_happens_once_however_often_the_handler_runs(place: Place) -> None:
    world = World()
    results = []

    async def handler(delivery: Delivery, once: Once) -> None:
        results.append(await once.do("charge", world.charge))
        if delivery.tries < 3:
            raise Transient

    seen = await _handled(place, handler)

    assert (seen.delivery.state, seen.delivery.tries) == (DeliveryState.DONE, 3)
    assert len(world.calls) == 1
    assert results == [1, 1, 1]


async def test_effects_after_the_one_that_failed_are_made_by_the_next_try(place: Place) -> None:
    first, second = World(), World(NotDone(), NotDone())

    async def handler(delivery: Delivery, once: Once) -> None:
        await once.do("first", first.charge)
        await once.do("second", second.charge)

    seen = await _handled(place, handler)

    assert (len(first.calls), len(second.calls)) == (1, 3)
    assert [each.state for each in seen.effects] == [EffectState.DONE] * 2


async def test_arguments_reach_the_function(place: Place) -> None:
    def add(a: int, b: int, *, c: int) -> int:
        return a + b + c

    sums = []

    async def handler(delivery: Delivery, once: Once) -> None:
        sums.append(await once.do("add", add, 1, 2, c=3))

    await _handled(place, handler)

    assert sums == [6]


@pytest.mark.parametrize("shape", ["async", "plain", "partial", "object", "lambda"])
async def test_any_kind_of_function_can_be_an_effect(place: Place, shape: str) -> None:
    async def coroutine(number: int = 7) -> int:
        return number

    class Callee:
        async def __call__(self) -> int:
            return 7

    functions: dict[str, Any] = {
        "async": coroutine,
        "plain": lambda: 7,
        "partial": functools.partial(coroutine, 7),
        "object": Callee(),
        "lambda": lambda: coroutine(7),
    }
    results = []

    async def handler(delivery: Delivery, once: Once) -> None:
        results.append(await once.do("it", functions[shape]))

    seen = await _handled(place, handler)

    assert results == [7]
    assert seen.effects[0].result == b"7"


async def test_a_plain_function_does_not_block_the_loop(place: Place) -> None:
    threads = []

    async def handler(delivery: Delivery, once: Once) -> None:
        await once.do("it", lambda: threads.append(threading.current_thread()))

    await _handled(place, handler)

    assert threads[0] is not threading.main_thread()


# the key


async def test_the_key_is_stable_and_offered_to_functions_that_take_one(place: Place) -> None:
    world = World(RuntimeError("the reply was lost"))
    keys = []

    async def handler(delivery: Delivery, once: Once) -> None:
        keys.append(once.key("charge"))
        await once.do("charge", world.charge_with_key)

    await _handled(place, handler, key="evt_1")

    expected = effect_key(TENANT, SOURCE, "evt_1", "", "charge")
    assert keys == [expected] * 2
    assert [call["key"] for call in world.calls] == [expected] * 2


async def test_a_key_of_the_users_own_is_left_alone(place: Place) -> None:
    world = World()

    async def handler(delivery: Delivery, once: Once) -> None:
        await once.do("charge", world.charge_with_key, idempotency_key="mine")

    await _handled(place, handler)

    assert world.calls == [{"key": "mine"}]


async def test_different_deliveries_and_names_have_different_keys(place: Place) -> None:
    keys = []

    async def handler(delivery: Delivery, once: Once) -> None:
        keys.extend([once.key("a"), once.key("b")])

    program = Program(place)
    program.box.on(SOURCE)(handler)
    async with program.running():
        await program.handled("1")
        await program.handled("2")

    assert len(set(keys)) == 4


# in doubt: the three choices and their defaults


async def test_an_effect_with_a_key_is_repeated_by_default(place: Place) -> None:
    world = World(RuntimeError("the reply was lost"))

    async def handler(delivery: Delivery, once: Once) -> None:
        await once.do("charge", world.charge_with_key)

    seen = await _handled(place, handler)

    assert seen.delivery.state is DeliveryState.DONE
    assert len(world.calls) == 2


async def test_an_effect_without_a_key_is_held_by_default(place: Place) -> None:
    world = World(RuntimeError("the reply was lost"))

    async def handler(delivery: Delivery, once: Once) -> None:
        await once.do("charge", world.charge)

    seen = await _handled(place, handler)

    assert len(world.calls) == 1
    assert seen.delivery.state is DeliveryState.HELD
    assert seen.effects[0].state is EffectState.UNKNOWN
    assert seen.next_action.startswith("needs a person: charge unknown")


@pytest.mark.parametrize(
    ("word", "calls"), [(EffectState.DONE, 1), (EffectState.NOT_DONE, 2)], ids=["done", "not_done"]
)
async def test_a_held_effect_goes_on_with_a_persons_word(
    place: Place, word: EffectState, calls: int
) -> None:
    world = World(RuntimeError("the reply was lost"))

    async def handler(delivery: Delivery, once: Once) -> None:
        await once.do("charge", world.charge)

    program = Program(place)
    program.box.on(SOURCE)(handler)
    async with program.running():
        seen = await program.handled()
        program.clerk.now = program.box.components.database.clock()
        program.clerk.release(seen.delivery.id, charge=word)
        assert await program.ended(seen.delivery.id) == [DeliveryState.DONE]

    assert len(world.calls) == calls


async def test_safe_once_holds_even_a_function_with_a_key(place: Place) -> None:
    world = World(RuntimeError("the reply was lost"))

    async def handler(delivery: Delivery, once: Once) -> None:
        await once.do("charge", world.charge_with_key, safe="once")

    seen = await _handled(place, handler)

    assert (len(world.calls), seen.delivery.state) == (1, DeliveryState.HELD)


async def test_safe_idempotent_repeats_even_a_function_without_a_key(place: Place) -> None:
    world = World(RuntimeError("the reply was lost"))

    async def handler(delivery: Delivery, once: Once) -> None:
        await once.do("charge", world.charge, safe="idempotent")

    seen = await _handled(place, handler)

    assert (len(world.calls), seen.delivery.state) == (2, DeliveryState.DONE)


async def test_after_the_window_an_idempotent_effect_is_held(place: Place) -> None:
    world = World(RuntimeError("the reply was lost"))

    async def handler(delivery: Delivery, once: Once) -> None:
        await asyncio.sleep(0.01)
        await once.do("charge", world.charge_with_key, window=0.001)

    seen = await _handled(place, handler)

    assert (len(world.calls), seen.delivery.state) == (1, DeliveryState.HELD)


async def test_a_verify_function_that_finds_it_done_gives_the_result(place: Place) -> None:
    world = World(RuntimeError("the reply was lost"))
    asked: list[str] = []
    results = []

    async def verify(idempotency_key: str) -> Done:
        asked.append(idempotency_key)
        return Done({"id": 7})

    async def handler(delivery: Delivery, once: Once) -> None:
        results.append(await once.do("charge", world.charge, safe=verify, timeout=0.2))

    seen = await _handled(place, handler, key="evt_1")

    assert (len(world.calls), seen.delivery.state) == (1, DeliveryState.DONE)
    assert results == [{"id": 7}]
    assert asked == [effect_key(TENANT, SOURCE, "evt_1", "", "charge")]
    assert seen.effects[0].result == b'{"id":7}'


async def test_a_verify_function_that_finds_it_not_done_lets_it_run_again(place: Place) -> None:
    world = World(RuntimeError("the reply was lost"))

    def verify() -> Done:
        raise NotDone

    async def handler(delivery: Delivery, once: Once) -> None:
        await once.do("charge", world.charge, safe=verify, timeout=0.2)

    seen = await _handled(place, handler)

    assert (len(world.calls), seen.delivery.state) == (2, DeliveryState.DONE)


async def test_a_verify_function_is_asked_only_when_the_call_is_surely_over(place: Place) -> None:
    program = Program(place)
    world = World(RuntimeError("the reply was lost"))
    asked_at = []

    def verify() -> Done:
        asked_at.append(program.box.components.database.clock())
        return Done()

    async def handler(delivery: Delivery, once: Once) -> None:
        await once.do("charge", world.charge, safe=verify, timeout=0.3)

    program.box.on(SOURCE)(handler)
    async with program.running():
        seen = await program.handled()

    assert asked_at[0] >= seen.effects[0].surely_over_at - 1


async def test_a_verify_function_that_fails_leaves_the_effect_in_doubt(place: Place) -> None:
    world = World(RuntimeError("the reply was lost"))
    answers: list[Any] = [OSError("no route"), Done(1)]

    def verify() -> Done:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, Done)
        return answer

    async def handler(delivery: Delivery, once: Once) -> None:
        await once.do("charge", world.charge, safe=verify, timeout=0.2)

    seen = await _handled(place, handler)

    assert (len(world.calls), seen.delivery.state, answers) == (1, DeliveryState.DONE, [])


async def test_a_verify_function_that_answers_nonsense_is_a_mistake(place: Place) -> None:
    world = World(RuntimeError("the reply was lost"))

    async def handler(delivery: Delivery, once: Once) -> None:
        await once.do("charge", world.charge, safe=lambda: True, timeout=0.2)

    seen = await _handled(place, handler)

    assert (len(world.calls), seen.delivery.state) == (1, DeliveryState.DEAD)
    assert "effect_misused" in str(seen.delivery.last_error)


# proof that nothing happened


@pytest.mark.parametrize("proof", [NotDone("said so"), ConnectionRefusedError()])
async def test_what_proves_that_nothing_happened_lets_it_run_again(
    place: Place, proof: Exception
) -> None:
    world = World(proof)

    async def handler(delivery: Delivery, once: Once) -> None:
        await once.do("charge", world.charge, safe="once")

    seen = await _handled(place, handler)

    assert (len(world.calls), seen.delivery.state) == (2, DeliveryState.DONE)


async def test_a_call_that_takes_too_long_is_in_doubt(place: Place) -> None:
    calls = []

    async def slow() -> None:
        calls.append(1)
        await asyncio.sleep(60)

    async def handler(delivery: Delivery, once: Once) -> None:
        await once.do("charge", slow, timeout=0.5)

    seen = await _handled(place, handler)

    assert (len(calls), seen.delivery.state) == (1, DeliveryState.HELD)
    assert seen.tries[0].error == "TimeoutError"


# mistakes


@pytest.mark.parametrize(
    ("mistake", "code"),
    [
        (lambda once: once.do("a", lambda: 1, timeout=30), "effect_misused"),
        (lambda once: once.do("a", lambda: 1, timeout=0), "effect_misused"),
        (lambda once: once.do("a", lambda: 1, safe="maybe"), "effect_misused"),
        (lambda once: once.transaction("a", asyncio.sleep, 0), "effect_misused"),
    ],
    ids=["timeout-of-a-lease", "no-timeout", "unknown-choice", "async-transaction"],
)
async def test_a_mistake_in_the_handler_is_permanent_and_named(
    place: Place, mistake: Callable[[Once], Any], code: str
) -> None:
    async def handler(delivery: Delivery, once: Once) -> None:
        await mistake(once)

    seen = await _handled(place, handler)

    assert (seen.delivery.state, seen.delivery.tries) == (DeliveryState.DEAD, 1)
    assert str(seen.delivery.last_error).startswith(code)


async def test_a_name_used_twice_in_one_run_is_an_error(place: Place) -> None:
    world = World()

    async def handler(delivery: Delivery, once: Once) -> None:
        await once.do("charge", world.charge)
        await once.do("charge", world.charge)

    seen = await _handled(place, handler)

    assert (len(world.calls), seen.delivery.state) == (1, DeliveryState.DEAD)
    assert str(seen.delivery.last_error).startswith("effect_name_reused")


@pytest.mark.parametrize("name", ["", "x" * 513, "a\nb"])
async def test_a_name_that_is_no_name_is_refused(place: Place, name: str) -> None:
    world = World()

    async def handler(delivery: Delivery, once: Once) -> None:
        try:
            await once.do(name, world.charge)
        except Exception as error:
            raise Permanent(type(error).__name__) from error

    seen = await _handled(place, handler)

    assert world.calls == []
    assert seen.delivery.last_error == "permanent: KeyInvalid"


@pytest.mark.parametrize("result", [object(), {"big": "x" * 2_000_000}, "\ud800"])
async def test_a_result_that_cannot_be_stored_is_done_without_it(
    place: Place, result: object
) -> None:
    calls = []
    results = []

    def function() -> object:
        calls.append(1)
        return result

    async def handler(delivery: Delivery, once: Once) -> None:
        results.append(await once.do("it", function))
        if delivery.tries == 1:
            raise Transient

    seen = await _handled(place, handler)

    assert (len(calls), results) == (1, [result, NO_RESULT])
    assert (seen.effects[0].state, seen.effects[0].result) == (EffectState.DONE, None)


# handlers that are plain functions


async def test_a_plain_handler_has_the_same_promises(place: Place) -> None:
    world = World(NotDone())
    program = Program(place)
    results = []

    @program.box.on(SOURCE)
    def handler(delivery: Delivery, once: SyncOnce) -> None:
        results.append(once.do("charge", world.charge))
        results.append(once.do("plain", lambda: "x"))
        results.append(once.key("charge"))
        if delivery.tries < 3:
            raise Transient

    async with program.running():
        seen = await program.handled(key="evt_1")

    assert (seen.delivery.state, len(world.calls)) == (DeliveryState.DONE, 2)
    key = effect_key(TENANT, SOURCE, "evt_1", "", "charge")
    assert results == [2, "x", key] * 2


# our own database


def _note(tx: Any, word: str) -> int:
    tx.execute(f"INSERT INTO notes (word) VALUES ('{word}')")  # noqa: S608 - a test's word
    return len(tx.execute("SELECT word FROM notes"))


@pytest.fixture
def notes(place: Place) -> Callable[[], int]:
    """A user's own table; returns how many rows it has."""
    session = place.session()
    session.run(lambda tx: tx.execute("DROP TABLE IF EXISTS notes"))
    session.run(lambda tx: tx.execute("CREATE TABLE notes (word TEXT)"))
    session.close()

    def count() -> int:
        session = place.session()
        rows = session.run(lambda tx: tx.execute("SELECT word FROM notes"))
        session.close()
        return len(rows)

    return count


async def test_a_transaction_happens_truly_once(place: Place, notes: Callable[[], int]) -> None:
    results = []

    async def handler(delivery: Delivery, once: Once) -> None:
        results.append(await once.transaction("note", _note, "one"))
        if delivery.tries < 3:
            raise Transient

    seen = await _handled(place, handler)

    assert (seen.delivery.state, results, notes()) == (DeliveryState.DONE, [1, 1, 1], 1)


async def test_a_failing_transaction_is_undone_and_tried_again(
    place: Place, notes: Callable[[], int]
) -> None:
    def work(tx: Any, tries: int) -> None:
        _note(tx, "half")
        if tries < 3:
            raise ValueError

    async def handler(delivery: Delivery, once: Once) -> None:
        await once.transaction("note", work, delivery.tries)

    seen = await _handled(place, handler)

    assert (seen.delivery.state, seen.delivery.tries, notes()) == (DeliveryState.DONE, 3, 1)


# a worker that lost its lease


async def test_a_worker_that_lost_its_lease_begins_no_effect(place: Place) -> None:
    program = Program(place)
    world = World()
    raised: list[BaseException] = []

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        if delivery.tries > 1:
            return
        program.clerk.now = 2**50
        program.clerk.tries = 99
        assert program.clerk.claim_expired() is not None
        try:
            await once.do("charge", world.charge)
        except LeaseLost as error:
            raised.append(error)
            raise

    async with program.running():
        id_ = await program.accept()
        await program.until(lambda: bool(raised))

    assert world.calls == []
    assert program.clerk.place is place
    assert id_


async def test_an_effect_in_doubt_is_an_error_a_handler_can_see(place: Place) -> None:
    world = World(RuntimeError("the reply was lost"))
    seen_errors = []

    async def handler(delivery: Delivery, once: Once) -> None:
        try:
            await once.do("charge", world.charge)
        except EffectOutcomeUnknown as error:
            seen_errors.append(error.code)
            raise

    seen = await _handled(place, handler)

    assert seen.delivery.state is DeliveryState.HELD
    assert seen_errors == ["effect_outcome_unknown"]


# stopped in the middle


async def test_an_effect_whose_journal_was_still_being_written_was_not_begun(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()

    async def slow_the_first_time(begin: Any, wish: BeginEffect) -> Any:
        begun = await begin(wish)
        await asyncio.sleep(0.6 if wish.fence == 1 else 0)
        return begun

    intercept(monkeypatch, "submit", effects.begin, slow_the_first_time)
    program = Program(place)

    @program.box.on(SOURCE, limit=0.2)
    async def handler(delivery: Delivery, once: Once) -> None:
        await once.do("charge", world.charge)

    async with program.running():
        seen = await program.handled()

    assert (seen.delivery.state, len(world.calls)) == (DeliveryState.DONE, 1)
    assert seen.delivery.tries > 1
