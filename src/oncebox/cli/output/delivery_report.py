"""A delivery explained in plain English; errors and reasons as they are stored."""

from collections.abc import Iterator, Sequence

from oncebox.cli.output.times import ago, duration
from oncebox.model.deliveries.delivery import DeliveryState
from oncebox.model.deliveries.effects import Effect, EffectState
from oncebox.model.deliveries.inspection import DeliveryInspection, DeliveryRecord, DeliveryTry

_OUTCOME_TEXTS = {
    "handled": "its handler succeeded",
    "ignored": "no handler wanted its type",
    "dropped": "a policy or the source's rule for replays dropped it",
    "stale": "a later one of its lane was done before",
    "permanent": "its handler said that a retry does not help",
    "tries_used_up": "all its tries were used up",
    "time_used_up": "its time for retries was used up",
}
_HOLD_TEXTS = {
    "conflict": "another body arrived under the same key",
    "suspicious_replay": "its body is known under another, unsigned id",
    "late": "its signed time is outside the window",
    "operator": "a person held it",
}


def explain_delivery(inspection: DeliveryInspection, now: int) -> Iterator[str]:
    """Yield the sentences that explain a delivery."""
    facts = inspection.delivery
    yield _arrival_sentence(facts, now)
    repeats = sum(each.count for each in inspection.duplicates)
    if repeats:
        last = max(each.last_at for each in inspection.duplicates)
        yield f"It was sent again {_times(repeats)}, the last {ago(last, now)}; none counted."
    yield from _tries_sentence(inspection.tries, now)
    yield from _effects_sentence(inspection.effects)
    yield _state_sentence(facts, now)
    step = inspection.next_action
    yield f"Next: {step}" if "oncebox " in step else f"Next: {step}."  # a command ready to copy


def _arrival_sentence(facts: DeliveryRecord, now: int) -> str:
    kind = f" of type {facts.type}" if facts.type else ""
    return (
        f"A delivery{kind} of source {facts.source} was received {ago(facts.received_at, now)} "
        f"under the key {facts.key}."
    )


def _tries_sentence(tries: Sequence[DeliveryTry], now: int) -> Iterator[str]:
    failed = [each for each in tries if each.error and each.outcome != "held"]
    if failed:
        last = failed[-1]
        count = f"{len(failed)} tries failed, the last" if len(failed) > 1 else "A try failed"
        yield f"{count} {ago(last.ended_at, now)}: {last.error}."
    lost = sum(each.outcome == "lost" for each in tries)
    if lost:
        yield f"Its worker was lost {_times(lost)}."


def _effects_sentence(effects: Sequence[Effect]) -> Iterator[str]:
    by_state = {
        EffectState.DONE: "done and not repeated",
        EffectState.NOT_DONE: "proven not to have happened",
        EffectState.STARTED: "started",
        EffectState.UNKNOWN: "of unknown outcome",
    }
    for state, words in by_state.items():
        names = [effect.name for effect in effects if effect.state is state]
        if names:
            yield f"Effects {words}: {', '.join(names)}."


def _state_sentence(facts: DeliveryRecord, now: int) -> str:
    outcome = _OUTCOME_TEXTS.get(facts.outcome or "", facts.outcome or "unknown")
    ended = f" {ago(facts.ended_at, now)}" if facts.ended_at is not None else ""
    if facts.state is DeliveryState.DONE:
        return f"It was done{ended}: {outcome}."
    if facts.state is DeliveryState.DEAD:
        return f"It was given up{ended}: {outcome}."
    if facts.state is DeliveryState.HELD:
        since = "" if facts.held_at is None else f" for {duration(max(0, now - facts.held_at))}"
        reason = facts.hold_reason or ""
        return f"It has been held{since}: {_HOLD_TEXTS.get(reason, reason)}."
    if facts.state is DeliveryState.PROCESSING:
        return f"The worker {facts.worker} is working on it{_lease(facts, now)}."
    return _waiting_sentence(facts, now)


def _lease(facts: DeliveryRecord, now: int) -> str:
    if facts.due_at is None:
        return ""
    return f"; its lease {'expires' if facts.due_at > now else 'expired'} {ago(facts.due_at, now)}"


def _waiting_sentence(facts: DeliveryRecord, now: int) -> str:
    if facts.due_at is None:
        return "It waits for others of its lane."
    if facts.due_at > now:
        return f"It is due {ago(facts.due_at, now)}."
    waited = duration(now - facts.due_at)
    return f"It has been due for {waited}; a worker with a handler for {facts.source} must run."


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
