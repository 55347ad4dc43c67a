"""Operator actions on deliveries: replay, hold, release, drop, mark as seen; always audited."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from oncebox.db.database import Transaction
from oncebox.db.queries import load
from oncebox.errors import EffectOutcomeUnknown, NotFound, StateConflict
from oncebox.ledger.admin import audit
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.deliveries import effects, inspections, lanes
from oncebox.model.deliveries.delivery import DeliveryState
from oncebox.model.deliveries.effects import EffectState
from oncebox.model.deliveries.inspection import (
    DeliveryInspection,
    DeliveryRecord,
    effect_option,
    unknown_effects,
)

_sql = load(__package__, "operations.sql")


class EffectResolution(NamedTuple):
    """An operator's decision on an effect of unknown outcome."""

    #: ``done`` or ``not_done``
    state: EffectState
    #: what a repeat returns, as JSON; only of one that is done
    result: bytes | None = None


#: decisions by the names of the effects
EffectResolutions = Mapping[str, EffectResolution]


def replay(tx: Transaction, id_: str, entry: AuditEntry, resolutions: EffectResolutions) -> None:
    """Run a done or dead delivery again; effects that are done stay done."""
    facts = _resolve_effects(tx, id_, entry, resolutions)
    tx.run(_sql.record_end, id=id_, tenant=entry.tenant, now=entry.at)
    row = tx.one(_sql.replay, id=id_, tenant=entry.tenant, now=entry.at)
    if row is None:
        gone = facts.purged_at is not None
        raise StateConflict(_BODY_GONE if gone else _cannot("replay", facts.state))
    if row[3] is not None:
        lanes.enter(tx, [lanes.LanePlace(*row)], entry.at)
    audit.record(tx, entry, "replay", id_, _audit_detail(resolutions))


def hold(tx: Transaction, id_: str, entry: AuditEntry) -> None:
    """Keep a waiting delivery from running."""
    facts = inspections.read_facts(tx, entry.tenant, id_)
    if not tx.all(_sql.hold, id=id_, tenant=entry.tenant, reason="operator", now=entry.at):
        raise StateConflict(_cannot("hold", facts.state))
    audit.record(tx, entry, "hold", id_)


def release(tx: Transaction, id_: str, entry: AuditEntry, resolutions: EffectResolutions) -> None:
    """Let a held delivery run."""
    facts = _resolve_effects(tx, id_, entry, resolutions)
    tx.run(_sql.record_end, id=id_, tenant=entry.tenant, now=entry.at)
    row = tx.one(_sql.release, id=id_, tenant=entry.tenant, now=entry.at)
    if row is None:
        raise StateConflict(_cannot("release", facts.state))
    _return_to_lane(tx, row[:4], row[4], entry.at)
    audit.record(tx, entry, "release", id_, _audit_detail(resolutions))


def drop(tx: Transaction, id_: str, entry: AuditEntry, resolutions: EffectResolutions) -> None:
    """End a held delivery without running it; for its lane it counts as done."""
    facts = _resolve_effects(tx, id_, entry, resolutions)
    row = tx.one(_sql.drop, id=id_, tenant=entry.tenant, now=entry.at)
    if row is None:
        raise StateConflict(_cannot("drop", facts.state))
    tenant, source, lane, position, type_, sequence = row
    # One that was held on arrival has no place in its lane, so nobody waits for it.
    if position is not None:
        completion = lanes.LaneCompletion(type_, sequence)
        lanes.advance(tx, [((tenant, source, lane), completion)], entry.at)
    audit.record(tx, entry, "drop", id_, _audit_detail(resolutions))


def mark_seen(tx: Transaction, id_: str, entry: AuditEntry) -> None:
    """Record that an operator has seen a dead delivery; only then may its body be purged."""
    facts = inspections.read_facts(tx, entry.tenant, id_)
    if not tx.all(_sql.see, id=id_, tenant=entry.tenant, now=entry.at):
        raise StateConflict(_cannot("see", facts.state))
    audit.record(tx, entry, "see", id_)


def _return_to_lane(
    tx: Transaction, row: tuple[str, str, str, str | None], position: int | None, now: int
) -> None:
    """Return a released delivery to its old place, or to the end if it never had one."""
    id_, tenant, source, lane = row
    if lane is None:
        return
    if position is None:
        lanes.enter(tx, [lanes.LanePlace(id_, tenant, source, lane)], now)
    else:
        lanes.advance(tx, [((tenant, source, lane), None)], now)


def _resolve_effects(
    tx: Transaction, id_: str, entry: AuditEntry, resolutions: EffectResolutions
) -> DeliveryRecord:
    """Record the outcomes of unknown effects; refuse while another outcome is unknown."""
    facts = inspections.read_facts(tx, entry.tenant, id_)
    for name, (state, result) in resolutions.items():
        if not effects.resolve(tx, entry.tenant, id_, name, state, entry.at, result=result):
            raise NotFound(f"this delivery has no effect {name!r} of unknown outcome")
    unknown = unknown_effects(effects.of_delivery(tx, entry.tenant, id_))
    if unknown:
        name = unknown[0].name
        raise StateConflict(
            f"effect {name!r} may or may not have happened; look there, then add "
            f"{effect_option(name, 'done')} or {effect_option(name, 'not-done')}; with done, "
            "--result JSON says what it returned"
        )
    return facts


def _audit_detail(resolutions: EffectResolutions) -> str:
    return " ".join(f"{name}={each.state}" for name, each in sorted(resolutions.items()))


def _cannot(action: str, state: DeliveryState) -> str:
    return f"a delivery that is {state} cannot be {_PAST[action]}; {_REMEDY[action]}"


_BODY_GONE = "its body is no longer kept, so there is nothing to run; let the sender send it again"
_PAST = {
    "replay": "replayed",
    "hold": "held",
    "release": "released",
    "drop": "dropped",
    "see": "marked as seen",
}
_REMEDY = {
    "replay": "only done or dead ones can; a held one is released instead",
    "hold": "only received or failed ones can; if a worker has it, try again later",
    "release": "only held ones can; a dead one is replayed instead",
    "drop": "only held ones can; a dead one is marked as seen instead",
    "see": "only dead ones can",
}


def change_and_inspect(
    tx: Transaction, change: Callable[..., None], id_: str, entry: AuditEntry, *args: Any
) -> DeliveryInspection:
    """Make a change and return the delivery as it is then."""
    change(tx, id_, entry, *args)
    return inspections.inspect(tx, entry.tenant, id_, entry.at)


def resolve_and_inspect(
    tx: Transaction,
    change: Callable[..., None],
    id_: str,
    entry: AuditEntry,
    resolutions: EffectResolutions,
) -> DeliveryInspection:
    """Replay, release or drop a delivery through the API; return it as it is then."""
    for effect in unknown_effects(effects.of_delivery(tx, entry.tenant, id_)):
        if effect.name not in resolutions:
            raise EffectOutcomeUnknown(
                f"effect {effect.name!r} may or may not have happened; look there, then say in "
                "effects whether it is done or not_done"
            )
    return change_and_inspect(tx, change, id_, entry, resolutions)
