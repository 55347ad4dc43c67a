"""The next action: what may or must happen to a delivery, in one line."""

from typing import Any

import pytest

from oncebox.model.deliveries.delivery import DeliveryState
from oncebox.model.deliveries.effects import Effect, EffectState, Safety
from oncebox.model.deliveries.inspection import DeliveryRecord, next_step, unknown_effects

NOW = 1_000_000
SAFE = "retry-safe, no journalled effect"


def _facts(state: DeliveryState, **rest: Any) -> DeliveryRecord:
    plain: dict[str, Any] = dict.fromkeys(DeliveryRecord.__struct_fields__)
    return DeliveryRecord(**plain | {"state": state, "due_at": NOW} | rest)


def _effect(state: EffectState, safe: Safety = Safety.ONCE, name: str = "open-issue") -> Effect:
    return Effect(name, state, safe, 1, 0, 0, 0, None, None, None)


DONE = _effect(EffectState.DONE)
NOT_DONE = _effect(EffectState.NOT_DONE)
UNKNOWN = _effect(EffectState.UNKNOWN)
STARTED = _effect(EffectState.STARTED)
REPEATABLE = _effect(EffectState.STARTED, Safety.IDEMPOTENT)


@pytest.mark.parametrize(
    ("facts", "effects", "advice"),
    [
        (_facts(DeliveryState.RECEIVED), [], "wait for a worker: retry-safe, no journalled effect"),
        (
            _facts(DeliveryState.RECEIVED),
            [NOT_DONE],
            "wait for a worker: retry-safe, no journalled effect",
        ),
        (
            _facts(DeliveryState.FAILED),
            [DONE],
            "wait for the next try: retry-safe, open-issue done",
        ),
        (_facts(DeliveryState.FAILED), [UNKNOWN], "needs a person: open-issue unknown"),
        (
            _facts(DeliveryState.PROCESSING, due_at=NOW + 1),
            [STARTED],
            "wait: a worker holds the lease",
        ),
        (_facts(DeliveryState.PROCESSING), [STARTED], "needs a person: open-issue unknown"),
        (
            _facts(DeliveryState.PROCESSING),
            [REPEATABLE],
            f"wait, the lease expired and the next worker takes it: {SAFE}",
        ),
        (
            _facts(DeliveryState.HELD, id="dlv_1", hold_reason="operator"),
            [],
            (
                "needs a person: operator; run it with: oncebox delivery release dlv_1 --why '…'; "
                "or discard it with: oncebox delivery drop dlv_1 --why '…'"
            ),
        ),
        (
            _facts(DeliveryState.HELD, id="dlv_1", hold_reason="x"),
            [UNKNOWN],
            (
                "needs a person: open-issue unknown; check the other side; if it happened: "
                "oncebox delivery release dlv_1 --why '…' --effect open-issue=done "
                "--result open-issue='JSON'; if not: "
                "oncebox delivery release dlv_1 --why '…' --effect open-issue=not-done; "
                "to discard it, with the same options: oncebox delivery drop dlv_1"
            ),
        ),
        (
            _facts(DeliveryState.DEAD, id="dlv_1"),
            [UNKNOWN],
            (
                "needs a person: open-issue unknown; check the other side; if it happened: "
                "oncebox delivery replay dlv_1 --why '…' --effect open-issue=done "
                "--result open-issue='JSON'; if not: "
                "oncebox delivery replay dlv_1 --why '…' --effect open-issue=not-done"
            ),
        ),
        (
            _facts(DeliveryState.HELD, id="dlv_1", hold_reason="x"),
            [UNKNOWN, DONE, _effect(EffectState.UNKNOWN, name="send mail")],
            (
                "needs a person: open-issue, send mail unknown; check the other side; "
                "if all happened: oncebox delivery release dlv_1 --why '…' "
                "--effect open-issue=done --result open-issue='JSON' "
                "--effect 'send mail'=done --result 'send mail'='JSON'; "
                "if none did: oncebox delivery release dlv_1 --why '…' "
                "--effect open-issue=not-done --effect 'send mail'=not-done; "
                "else combine the two; "
                "to discard it, with the same options: oncebox delivery drop dlv_1"
            ),
        ),
        (
            _facts(DeliveryState.DEAD, id="dlv_1"),
            [DONE, _effect(EffectState.DONE, name="mail")],
            (
                "replay when the cause is fixed: retry-safe, open-issue, mail done; "
                "run it with: oncebox delivery replay dlv_1 --why '…'"
            ),
        ),
        (_facts(DeliveryState.DONE), [DONE], "nothing: it is done; retry-safe, open-issue done"),
        (
            _facts(DeliveryState.DONE),
            [STARTED],
            "nothing: it is done; retry-safe, no journalled effect",
        ),
    ],
)
def test_the_advice_fits_the_facts(
    facts: DeliveryRecord, effects: list[Effect], advice: str
) -> None:
    assert next_step(facts, effects, NOW) == advice


@pytest.mark.parametrize("state", list(DeliveryState))
@pytest.mark.parametrize("effect", [None, DONE, NOT_DONE, UNKNOWN, STARTED, REPEATABLE])
def test_there_is_advice_for_everything(state: DeliveryState, effect: Effect | None) -> None:
    effects = [effect] if effect else []

    assert next_step(_facts(state, hold_reason="why"), effects, NOW)


def test_only_a_person_resolves_what_is_unknown_or_may_happen_once() -> None:
    effects = [DONE, NOT_DONE, UNKNOWN, STARTED, REPEATABLE]

    assert unknown_effects(effects) == [UNKNOWN, STARTED]
