"""Delivery inspection: record, tries, effects, duplicates, audit and the next step."""

import shlex
from collections.abc import Sequence

import msgspec

from oncebox.model.deliveries.delivery import DeliveryState, Headers
from oncebox.model.deliveries.effects import Effect, EffectState, Safety


class DeliveryRecord(msgspec.Struct, frozen=True):
    """Everything the ledger knows of a delivery, except its body."""

    id: str
    tenant: str
    source: str
    key: str
    variant: str
    type: str
    road: str
    state: DeliveryState
    lane: str | None
    lane_position: int | None
    late: bool
    due_at: int | None
    received_at: int
    accepted_at: int
    tries: int
    fence: int
    worker: str | None
    claimed_at: int | None
    give_up_at: int | None
    not_before: int | None
    rearms: int
    policy: str | None
    hold_reason: str | None
    held_at: int | None
    outcome: str | None
    last_error: str | None
    ended_at: int | None
    size: int
    verdict: str
    secret_id: str | None
    #: the request it came in, and where in it its body begins
    payload_id: str
    start: int
    sequence: int | None
    #: what it waits for in its lane, while its due time has not come
    waits_for: str | None
    replay_of: str | None
    purged_at: int | None
    seen_at: int | None

    @property
    def is_element(self) -> bool:
        """Whether it came with others in one request."""
        return self.payload_id != self.id

    def is_waiting(self, now: int) -> bool:
        """Say whether it waits for others of its lane."""
        return (
            self.state is DeliveryState.RECEIVED
            and self.waits_for is not None
            and self.due_at is not None
            and self.due_at > now
        )


class DeliveryTry(msgspec.Struct, frozen=True):
    """One claim that did not end its delivery well."""

    fence: int
    worker: str | None
    claimed_at: int | None
    ended_at: int
    outcome: str
    error: str | None
    #: the frames of the error and its causes
    traceback: str | None = None


class DuplicateCount(msgspec.Struct, frozen=True):
    """How often a delivery was seen again in one class."""

    duplicate_class: str = msgspec.field(name="sighting")
    count: int
    first_at: int
    last_at: int
    road: str


class DuplicateExample(msgspec.Struct, frozen=True):
    """One of the first repeats of a class, as it came."""

    duplicate_class: str = msgspec.field(name="sighting")
    at: int
    road: str
    verdict: str
    secret_id: str | None
    headers: Headers


class AuditRecord(msgspec.Struct, frozen=True):
    """An action of an operator."""

    at: int
    who: str
    action: str
    why: str
    detail: str


class DeliveryInspection(msgspec.Struct, frozen=True):
    """One delivery with all that belongs to it."""

    delivery: DeliveryRecord
    tries: list[DeliveryTry]
    effects: list[Effect]
    duplicates: list[DuplicateCount] = msgspec.field(name="sightings")
    examples: list[DuplicateExample]
    audit: list[AuditRecord]
    next_action: str


def unknown_effects(effects: Sequence[Effect]) -> list[Effect]:
    """Return the effects that only an operator can resolve."""
    return [
        effect
        for effect in effects
        if effect.state is EffectState.UNKNOWN
        or (effect.state is EffectState.STARTED and effect.safe is Safety.ONCE)
    ]


def next_step(facts: DeliveryRecord, effects: Sequence[Effect], now: int) -> str:
    """Say in one line what may or must happen next."""
    unknown = unknown_effects(effects)
    if facts.state is DeliveryState.PROCESSING and (facts.due_at or 0) > now:
        return "wait: a worker holds the lease"
    if unknown and facts.state is not DeliveryState.DONE:
        names = ", ".join(effect.name for effect in unknown)
        return f"needs a person: {names} unknown{_resolve_command(facts, unknown)}"
    if facts.state is DeliveryState.HELD:
        return (
            f"needs a person: {facts.hold_reason}; run it with: "
            f"oncebox delivery release {facts.id} --why '…'; or discard it with: "
            f"oncebox delivery drop {facts.id} --why '…'"
        )
    if facts.is_waiting(now):
        return f"wait for {facts.waits_for}: " + _retry_safety(effects)
    if facts.state is DeliveryState.DEAD and facts.purged_at is not None:
        return "nothing: its body is no longer kept"
    dead = facts.state is DeliveryState.DEAD
    command = f"; run it with: oncebox delivery replay {facts.id} --why '…'" if dead else ""
    return _NEXT_STEPS[facts.state] + _retry_safety(effects) + command


def _resolve_command(facts: DeliveryRecord, unknown: Sequence[Effect]) -> str:
    """Return the commands that say of each unknown effect whether it happened."""
    verb = {DeliveryState.HELD: "release", DeliveryState.DEAD: "replay"}.get(facts.state)
    if verb is None:
        return ""
    command = f"oncebox delivery {verb} {facts.id} --why '…'"
    done = " ".join(
        f"{effect_option(each.name, 'done')} --result {shlex.quote(each.name)}='JSON'"
        for each in unknown
    )
    not_done = " ".join(effect_option(each.name, "not-done") for each in unknown)
    several = len(unknown) > 1
    yes, no = ("if all happened", "if none did") if several else ("if it happened", "if not")
    mixed = "; else combine the two" if several else ""
    discard = f"; to discard it, with the same options: oncebox delivery drop {facts.id}"
    rest = mixed + (discard if facts.state is DeliveryState.HELD else "")
    return f"; check the other side; {yes}: {command} {done}; {no}: {command} {not_done}{rest}"


def effect_option(name: str, outcome: str) -> str:
    """Return the option of the command line that decides on an effect."""
    return f"--effect {shlex.quote(name)}={outcome}"


def _retry_safety(effects: Sequence[Effect]) -> str:
    done = [effect.name for effect in effects if effect.state is EffectState.DONE]
    return f"retry-safe, {', '.join(done)} done" if done else "retry-safe, no journalled effect"


_NEXT_STEPS = {
    DeliveryState.RECEIVED: "wait for a worker: ",
    DeliveryState.FAILED: "wait for the next try: ",
    DeliveryState.PROCESSING: "wait, the lease expired and the next worker takes it: ",
    DeliveryState.DEAD: "replay when the cause is fixed: ",
    DeliveryState.DONE: "nothing: it is done; ",
}
