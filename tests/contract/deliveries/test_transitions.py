"""Every verb from every state: the table of transitions is exactly what the verbs can do."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec
import pytest

from oncebox.errors import StateConflict
from oncebox.model.deliveries.delivery import TRANSITIONS, Delivery, DeliveryState, Settlement
from oncebox.model.deliveries.inspection import DeliveryRecord
from tests.support.clerk import (
    HOUR,
    LEASE,
    SOURCE,
    TENANT,
    Clerk,
    dead,
    done,
    failed,
    given_back,
    held,
)

#: what a verb does to a delivery that was last claimed as this
Verb = Callable[[Clerk, Delivery], object]


def _received(clerk: Clerk) -> Delivery:
    accepted = clerk.accept_one()
    return Delivery(
        accepted.id, TENANT, SOURCE, "key", "", "", None, False, None, 0, 0, clerk.now, 0, b"", b""
    )


def _processing(clerk: Clerk) -> Delivery:
    return clerk.accept_and_claim()


def _ended(end: Callable[[Clerk, Delivery], bool]) -> Callable[[Clerk], Delivery]:
    def reach(clerk: Clerk) -> Delivery:
        delivery = clerk.accept_and_claim()
        assert end(clerk, delivery)
        return delivery

    return reach


#: how a delivery comes into each state
REACH: dict[DeliveryState, Callable[[Clerk], Delivery]] = {
    DeliveryState.RECEIVED: _received,
    DeliveryState.PROCESSING: _processing,
    DeliveryState.DONE: _ended(Clerk.complete),
    DeliveryState.FAILED: _ended(lambda clerk, each: clerk.fail(each, wait=HOUR)),
    DeliveryState.DEAD: _ended(Clerk.give_up),
    DeliveryState.HELD: _ended(Clerk.stop_for_a_person),
}


def _claim_when_due(clerk: Clerk, delivery: Delivery) -> object:
    clerk.now += 2 * HOUR
    return clerk.claim()


def _claim_expired(clerk: Clerk, delivery: Delivery) -> object:
    clerk.now += LEASE
    return clerk.claim_expired()


def _bury(clerk: Clerk, delivery: Delivery) -> object:
    clerk.now += LEASE
    clerk.tries = 1
    return clerk.bury()


def _settle(ending: Callable[[Clerk, Delivery], Settlement]) -> Verb:
    return lambda clerk, delivery: clerk.settle(ending(clerk, delivery))


def _persons(act: Callable[[Clerk, str], None]) -> Verb:
    def verb(clerk: Clerk, delivery: Delivery) -> object:
        try:
            act(clerk, delivery.id)
        except StateConflict as conflict:
            return conflict
        return None

    return verb


VERBS: dict[str, Verb] = {
    "claim": _claim_when_due,
    "claim_expired": _claim_expired,
    "bury": _bury,
    "renew": lambda clerk, delivery: clerk.renew(delivery),
    "allow": lambda clerk, delivery: clerk.allow(delivery),
    "complete": _settle(lambda _, each: done(each)),
    "fail": _settle(lambda clerk, each: failed(each, clerk.now + HOUR)),
    "give_up": _settle(lambda _, each: dead(each)),
    "stop_for_a_person": _settle(lambda _, each: held(each)),
    "give_back": _settle(lambda clerk, each: given_back(each, clerk.now)),
    "hold": _persons(Clerk.hold),
    "release": _persons(Clerk.release),
    "drop": _persons(Clerk.drop),
    "replay": _persons(Clerk.replay),
    "accept_again": lambda clerk, _: clerk.accept_one(),
    "accept_conflict": lambda clerk, _: clerk.accept_one(body=b"other"),
    "begin_effect": lambda clerk, each: clerk.begin(each),
}


class Move(NamedTuple):
    """A verb that changes the state."""

    verb: str
    before: DeliveryState
    after: DeliveryState


R, P, D, F, X, H = (
    DeliveryState.RECEIVED,
    DeliveryState.PROCESSING,
    DeliveryState.DONE,
    DeliveryState.FAILED,
    DeliveryState.DEAD,
    DeliveryState.HELD,
)
MOVES = {
    Move("claim", R, P),
    Move("claim", F, P),
    Move("claim_expired", P, P),
    Move("bury", P, X),
    Move("complete", P, D),
    Move("fail", P, F),
    Move("give_up", P, X),
    Move("stop_for_a_person", P, H),
    Move("give_back", P, R),
    Move("hold", R, H),
    Move("hold", F, H),
    Move("release", H, R),
    Move("drop", H, D),
    Move("replay", D, R),
    Move("replay", X, R),
    Move("accept_again", X, R),
}
#: what only happens in a lane with numbers; tests/contract/deliveries/test_ordering.py shows it
STALE = {Move("accept in a lane", R, D), Move("accept in a lane", X, D)}
#: verbs that rightly change something else than the state
TOUCHES = {("renew", P), ("allow", P), ("accept_again", F)}


def _essence(facts: DeliveryRecord) -> DeliveryRecord:
    return msgspec.structs.replace(facts, last_error=None)


@pytest.mark.parametrize("before", list(DeliveryState))
@pytest.mark.parametrize("name", list(VERBS))
def test_each_verb_from_each_state(clerk: Clerk, name: str, before: DeliveryState) -> None:
    delivery = REACH[before](clerk)
    facts = clerk.facts(delivery.id)
    assert facts.state is before

    VERBS[name](clerk, delivery)

    now = clerk.facts(delivery.id)
    move = Move(name, before, now.state)
    moved = now.state is not before or now.fence != facts.fence
    assert moved == (move in MOVES), move
    if not moved and (name, before) not in TOUCHES:
        assert _essence(now) == _essence(facts)


def test_the_moves_are_exactly_the_table_of_transitions() -> None:
    assert {(each.before, each.after) for each in MOVES | STALE} == set(TRANSITIONS)


@pytest.mark.parametrize(("name", "before"), sorted(TOUCHES))
def test_a_touch_changes_something(clerk: Clerk, name: str, before: DeliveryState) -> None:
    delivery = REACH[before](clerk)
    facts = clerk.facts(delivery.id)
    clerk.now += 1

    VERBS[name](clerk, delivery)

    assert clerk.facts(delivery.id) != facts


@pytest.mark.parametrize("name", ["hold", "release", "drop", "replay"])
def test_a_person_is_told_why_not_and_what_instead(clerk: Clerk, name: str) -> None:
    delivery = REACH[DeliveryState.PROCESSING](clerk)

    refusal = VERBS[name](clerk, delivery)

    assert isinstance(refusal, StateConflict)
    assert "processing" in str(refusal)
    assert "only" in str(refusal)
    assert clerk.inspect(delivery.id).audit == []
