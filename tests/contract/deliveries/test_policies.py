"""Policies: asked after the claim and before the handler, once, and their word is on record."""

from typing import Any

import pytest

from oncebox.errors import HandlerRegisteredTwice, Transient
from oncebox.model.deliveries.delivery import Allow, Delivery, DeliveryState, Drop, Hold
from oncebox.workers.deliveries.once import Once
from tests.support.databases import Place
from tests.support.program import SOURCE, Program


class Asked:
    """A program whose policy gives the same answer every time, and counts."""

    def __init__(self, place: Place, answer: Any, *, plain: bool = False) -> None:
        """Prepare it."""
        self.program = Program(place)
        self.asked = 0
        self.ran = 0
        self.answer = answer
        if plain:
            self.program.box.policy(SOURCE)(self._ask)
        else:
            self.program.box.policy(SOURCE)(self._ask_async)
        self.program.box.on(SOURCE)(self._handle)

    async def _ask_async(self, delivery: Delivery) -> Any:
        return self._ask(delivery)

    def _ask(self, delivery: Delivery) -> Any:
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def _handle(self, delivery: Delivery, once: Once) -> None:
        self.ran += 1
        if delivery.body == b"twice" and delivery.tries == 1:
            raise Transient


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "async"])
async def test_what_is_allowed_runs(place: Place, plain: bool) -> None:
    asked = Asked(place, Allow(), plain=plain)

    async with asked.program.running() as program:
        seen = await program.handled()

    assert (asked.asked, asked.ran) == (1, 1)
    assert (seen.delivery.state, seen.delivery.policy) == (DeliveryState.DONE, "allowed")


async def test_a_policy_is_asked_once_however_many_tries(place: Place) -> None:
    asked = Asked(place, Allow())

    async with asked.program.running() as program:
        seen = await program.handled(body=b"twice")

    assert (asked.asked, asked.ran) == (1, 2)
    assert seen.delivery.state is DeliveryState.DONE


async def test_what_is_held_waits_for_a_person_and_is_not_asked_again(place: Place) -> None:
    asked = Asked(place, Hold("over 1000 EUR"))

    async with asked.program.running() as program:
        seen = await program.handled()
        assert (asked.asked, asked.ran) == (1, 0)
        assert seen.delivery.hold_reason == "policy: over 1000 EUR"
        assert seen.next_action.startswith("needs a person: policy: over 1000 EUR")
        program.clerk.now = program.box.components.database.clock()
        program.clerk.release(seen.delivery.id)
        assert await program.ended(seen.delivery.id) == [DeliveryState.DONE]

    assert (asked.asked, asked.ran) == (1, 1)


async def test_what_is_dropped_is_done_without_running_and_says_why(place: Place) -> None:
    asked = Asked(place, Drop("spam"))

    async with asked.program.running() as program:
        seen = await program.handled()

    assert (asked.asked, asked.ran) == (1, 0)
    assert (seen.delivery.state, seen.delivery.outcome) == (DeliveryState.DONE, "dropped")
    assert seen.delivery.last_error == "policy: spam"


@pytest.mark.parametrize("answer", [True, None, "allow", Allow], ids=str)
async def test_a_policy_that_answers_nonsense_lets_nothing_run(place: Place, answer: Any) -> None:
    asked = Asked(place, answer)

    async with asked.program.running() as program:
        seen = await program.handled()

    assert (asked.ran, seen.delivery.state) == (0, DeliveryState.DEAD)
    assert "Allow(), Hold(…) or Drop(…)" in str(seen.delivery.last_error)


async def test_a_policy_that_fails_lets_nothing_run_and_is_asked_again(place: Place) -> None:
    asked = Asked(place, ConnectionError())

    async with asked.program.running() as program:
        id_ = await program.accept()
        await program.until(lambda: asked.asked >= 2)
        assert asked.ran == 0
        asked.answer = Allow()
        assert await program.ended(id_) == [DeliveryState.DONE]

    assert asked.ran == 1


@pytest.mark.parametrize("reason", ["a\x00b", "\ud800", "x" * 100_000, ""])
@pytest.mark.parametrize("ruling", [Hold, Drop])
async def test_the_words_of_a_policy_never_stop_its_ruling(
    place: Place, ruling: Any, reason: str
) -> None:
    asked = Asked(place, ruling(reason))

    async with asked.program.running() as program:
        seen = await program.handled()

    assert asked.ran == 0
    assert seen.delivery.state is (DeliveryState.HELD if ruling is Hold else DeliveryState.DONE)


@pytest.mark.parametrize(
    ("answer", "outcome"), [(Hold("all"), "held"), (Drop("all"), "dropped"), (Allow(), "ignored")]
)
async def test_a_policy_is_asked_for_types_that_nobody_handles_too(
    place: Place, answer: Any, outcome: str
) -> None:
    program = Program(place)
    asked = []

    @program.box.policy(SOURCE)
    async def policy(delivery: Delivery) -> Any:
        asked.append(delivery.type)
        return answer

    @program.box.on(SOURCE, "paid")
    async def handler(delivery: Delivery, once: Once) -> None:
        """Never run."""

    async with program.running():
        seen = await program.handled(type="other")

    assert (asked, seen.delivery.outcome) == (["other"], outcome)


def test_two_policies_for_a_source_are_an_error(place: Place) -> None:
    box = Program(place).box
    box.policy(SOURCE)(lambda delivery: Allow())

    with pytest.raises(HandlerRegisteredTwice, match="remove one"):
        box.policy(SOURCE)(lambda delivery: Allow())


async def test_a_person_may_run_what_a_policy_dropped(place: Place) -> None:
    program = Program(place)
    ran = []

    @program.box.policy(SOURCE)
    def policy(delivery: Delivery) -> Drop:
        return Drop("too large")

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        ran.append(delivery.key)

    async with program.running():
        dropped = await program.handled("k")
        program.clerk.replay(dropped.delivery.id)
        await program.until(lambda: bool(ran))

    assert (dropped.delivery.outcome, ran) == ("dropped", ["k"])


async def test_a_release_does_not_pass_over_a_policy_that_never_saw_it(place: Place) -> None:
    program = Program(place)
    id_ = program.clerk.accept_one().id
    program.clerk.hold(id_)
    asked = []

    @program.box.policy(SOURCE)
    def policy(delivery: Delivery) -> Drop:
        asked.append(delivery.id)
        return Drop("no")

    @program.box.on(SOURCE)
    async def handler(delivery: Delivery, once: Once) -> None:
        pytest.fail("the policy drops it")

    async with program.running():
        program.clerk.release(id_)
        await program.ended(id_)

    assert asked == [id_]
