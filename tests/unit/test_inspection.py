"""The next action: what may or must happen to a delivery, in one line."""

from typing import Any

import pytest

from oncebox.model.delivery import State
from oncebox.model.effect import Effect, EffectState, Safe
from oncebox.model.inspection import Facts, in_doubt, next_action

NOW = 1_000_000
SAFE = "retry-safe, no journalled effect"


def _facts(state: State, **rest: Any) -> Facts:
    plain: dict[str, Any] = dict.fromkeys(Facts.__struct_fields__)
    return Facts(**plain | {"state": state, "due_at": NOW} | rest)


def _effect(state: EffectState, safe: Safe = Safe.ONCE, name: str = "open-issue") -> Effect:
    return Effect(name, state, safe, 1, 0, 0, 0, None, None, None)


DONE = _effect(EffectState.DONE)
NOT_DONE = _effect(EffectState.NOT_DONE)
UNKNOWN = _effect(EffectState.UNKNOWN)
STARTED = _effect(EffectState.STARTED)
REPEATABLE = _effect(EffectState.STARTED, Safe.IDEMPOTENT)


@pytest.mark.parametrize(
    ("facts", "effects", "advice"),
    [
        (_facts(State.RECEIVED), [], "wait for a worker: retry-safe, no journalled effect"),
        (_facts(State.RECEIVED), [NOT_DONE], "wait for a worker: retry-safe, no journalled effect"),
        (_facts(State.FAILED), [DONE], "wait for the next try: retry-safe, open-issue done"),
        (_facts(State.FAILED), [UNKNOWN], "needs a person: open-issue unknown"),
        (_facts(State.PROCESSING, due_at=NOW + 1), [STARTED], "wait: a worker holds the lease"),
        (_facts(State.PROCESSING), [STARTED], "needs a person: open-issue unknown"),
        (
            _facts(State.PROCESSING),
            [REPEATABLE],
            f"wait, the lease expired and the next worker takes it: {SAFE}",
        ),
        (_facts(State.HELD, hold_reason="operator"), [], "needs a person: operator"),
        (_facts(State.HELD, hold_reason="x"), [UNKNOWN], "needs a person: open-issue unknown"),
        (
            _facts(State.DEAD),
            [DONE, _effect(EffectState.DONE, name="mail")],
            "replay when the cause is mended: retry-safe, open-issue, mail done",
        ),
        (_facts(State.DONE), [DONE], "nothing: it is done; retry-safe, open-issue done"),
        (_facts(State.DONE), [STARTED], "nothing: it is done; retry-safe, no journalled effect"),
    ],
)
def test_the_advice_fits_the_facts(facts: Facts, effects: list[Effect], advice: str) -> None:
    assert next_action(facts, effects, NOW) == advice


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("effect", [None, DONE, NOT_DONE, UNKNOWN, STARTED, REPEATABLE])
def test_there_is_advice_for_everything(state: State, effect: Effect | None) -> None:
    effects = [effect] if effect else []

    assert next_action(_facts(state, hold_reason="why"), effects, NOW)


def test_only_a_person_resolves_what_is_unknown_or_may_happen_once() -> None:
    effects = [DONE, NOT_DONE, UNKNOWN, STARTED, REPEATABLE]

    assert in_doubt(effects) == [UNKNOWN, STARTED]
