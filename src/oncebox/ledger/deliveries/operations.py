"""Operator actions on deliveries: replay, hold, release, mark as seen; always audited."""

from collections.abc import Callable, Mapping

from oncebox.db.database import Transaction
from oncebox.db.queries import load
from oncebox.errors import EffectOutcomeUnknown, NotFound, StateConflict
from oncebox.ledger.admin import audit
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.deliveries import effects, inspections, lanes
from oncebox.model.deliveries.delivery import DeliveryState
from oncebox.model.deliveries.effects import EffectState
from oncebox.model.deliveries.inspection import DeliveryInspection, DeliveryRecord, unknown_effects

_sql = load(__package__, "operations.sql")

#: a person's word on effects in doubt: name to ``done`` or ``not_done``
EffectResolutions = Mapping[str, EffectState]


def replay(tx: Transaction, id_: str, deed: audit.AuditEntry, words: EffectResolutions) -> None:
    """Run a done or dead delivery again; effects that are done stay done."""
    facts = _resolve_effects(tx, id_, deed, words)
    tx.run(_sql.record_end, id=id_, tenant=deed.tenant, now=deed.at)
    row = tx.one(_sql.replay, id=id_, tenant=deed.tenant, now=deed.at)
    if row is None:
        gone = facts.purged_at is not None
        raise StateConflict(_BODY_GONE if gone else _cannot("replay", facts.state))
    if row[3] is not None:
        lanes.enter(tx, [lanes.LanePlace(*row)], deed.at)
    audit.record(tx, deed, "replay", id_, _audit_detail(words))


def hold(tx: Transaction, id_: str, deed: audit.AuditEntry) -> None:
    """Keep a waiting delivery from running."""
    facts = inspections.read_facts(tx, deed.tenant, id_)
    if not tx.all(_sql.hold, id=id_, tenant=deed.tenant, reason="operator", now=deed.at):
        raise StateConflict(_cannot("hold", facts.state))
    audit.record(tx, deed, "hold", id_)


def release(tx: Transaction, id_: str, deed: audit.AuditEntry, words: EffectResolutions) -> None:
    """Let a held delivery run."""
    facts = _resolve_effects(tx, id_, deed, words)
    tx.run(_sql.record_end, id=id_, tenant=deed.tenant, now=deed.at)
    row = tx.one(_sql.release, id=id_, tenant=deed.tenant, now=deed.at)
    if row is None:
        raise StateConflict(_cannot("release", facts.state))
    _return_to_lane(tx, row[:4], row[4], deed.at)
    audit.record(tx, deed, "release", id_, _audit_detail(words))


def mark_seen(tx: Transaction, id_: str, deed: audit.AuditEntry) -> None:
    """Write down that a person has seen a dead delivery; only then may its body go."""
    facts = inspections.read_facts(tx, deed.tenant, id_)
    if not tx.all(_sql.see, id=id_, tenant=deed.tenant, now=deed.at):
        raise StateConflict(_cannot("see", facts.state))
    audit.record(tx, deed, "see", id_)


def _return_to_lane(
    tx: Transaction, row: tuple[str, str, str, str | None], position: int | None, now: int
) -> None:
    """Give a released delivery its old place, or the last where it never had one."""
    id_, tenant, source, lane = row
    if lane is None:
        return
    if position is None:
        lanes.enter(tx, [lanes.LanePlace(id_, tenant, source, lane)], now)
    else:
        lanes.advance(tx, [((tenant, source, lane), None)], now)


def _resolve_effects(
    tx: Transaction, id_: str, deed: audit.AuditEntry, words: EffectResolutions
) -> DeliveryRecord:
    """Apply a person's words to effects in doubt; refuse while any is left in doubt."""
    facts = inspections.read_facts(tx, deed.tenant, id_)
    for name, state in words.items():
        if not effects.resolve(tx, deed.tenant, id_, name, state, deed.at):
            raise NotFound(f"this delivery has no effect {name!r} in doubt")
    doubtful = unknown_effects(effects.of_delivery(tx, deed.tenant, id_))
    if doubtful:
        name = doubtful[0].name
        raise StateConflict(
            f"effect {name!r} may or may not have happened; look there, then add "
            f"--effect {name}=done or --effect {name}=not-done"
        )
    return facts


def _audit_detail(words: EffectResolutions) -> str:
    return " ".join(f"{name}={state}" for name, state in sorted(words.items()))


def _cannot(action: str, state: DeliveryState) -> str:
    return f"a delivery that is {state} cannot be {_PAST[action]}; {_REMEDY[action]}"


_BODY_GONE = "its body is no longer kept, so there is nothing to run; let the sender send it again"
_PAST = {"replay": "replayed", "hold": "held", "release": "released", "see": "marked as seen"}
_REMEDY = {
    "replay": "only done or dead ones can; a held one is released instead",
    "hold": "only received or failed ones can; if a worker has it, try again later",
    "release": "only held ones can; a dead one is replayed instead",
    "see": "only dead ones can",
}


def replay_and_inspect(
    tx: Transaction, id_: str, deed: AuditEntry, words: EffectResolutions
) -> DeliveryInspection:
    """Run a done or dead delivery again; return how it stands then."""
    return _apply_and_inspect(tx, id_, deed, words, replay)


def release_and_inspect(
    tx: Transaction, id_: str, deed: AuditEntry, words: EffectResolutions
) -> DeliveryInspection:
    """Let a held delivery run; return how it stands then."""
    return _apply_and_inspect(tx, id_, deed, words, release)


def hold_and_inspect(tx: Transaction, id_: str, deed: AuditEntry) -> DeliveryInspection:
    """Keep a waiting delivery from running; return how it stands then."""
    hold(tx, id_, deed)
    return inspections.inspect(tx, deed.tenant, id_, deed.at)


def _apply_and_inspect(
    tx: Transaction,
    id_: str,
    deed: AuditEntry,
    words: EffectResolutions,
    change: Callable[[Transaction, str, AuditEntry, EffectResolutions], None],
) -> DeliveryInspection:
    inspections.read_facts(tx, deed.tenant, id_)
    for effect in unknown_effects(effects.of_delivery(tx, deed.tenant, id_)):
        if effect.name not in words:
            raise EffectOutcomeUnknown(
                f"effect {effect.name!r} may or may not have happened; look there, then say in "
                "effects whether it is done or not_done"
            )
    change(tx, id_, deed, words)
    return inspections.inspect(tx, deed.tenant, id_, deed.at)
