"""Interventions: what a person may do to a delivery, always audited."""

from collections.abc import Mapping

from oncebox.errors import NotFound, StateConflict
from oncebox.ledger.deliveries import effects, inspections, lanes
from oncebox.ledger.office import audit
from oncebox.model.delivery import State
from oncebox.model.effect import EffectState
from oncebox.model.inspection import Facts, in_doubt
from oncebox.store.database import Transaction
from oncebox.store.queries import load

_sql = load(__package__, "interventions.sql")

#: a person's word on effects in doubt: name to ``done`` or ``not_done``
Words = Mapping[str, EffectState]


def replay(tx: Transaction, id_: str, deed: audit.Deed, words: Words) -> None:
    """Run a done or dead delivery again; effects that are done stay done.

    Raises: NotFound, StateConflict.
    """
    facts = _decide(tx, id_, deed, words)
    tx.run(_sql.record_end, id=id_, tenant=deed.tenant, now=deed.at)
    row = tx.one(_sql.replay, id=id_, tenant=deed.tenant, now=deed.at)
    if row is None:
        gone = facts.purged_at is not None
        raise StateConflict(_BODY_GONE if gone else _cannot("replay", facts.state))
    if row[3] is not None:
        lanes.enter(tx, [lanes.Place(*row)], deed.at)
    audit.record(tx, deed, "replay", id_, _detail(words))


def hold(tx: Transaction, id_: str, deed: audit.Deed) -> None:
    """Keep a waiting delivery from running.

    Raises: NotFound, StateConflict.
    """
    facts = inspections.read_facts(tx, deed.tenant, id_)
    if not tx.all(_sql.hold, id=id_, tenant=deed.tenant, reason="operator", now=deed.at):
        raise StateConflict(_cannot("hold", facts.state))
    audit.record(tx, deed, "hold", id_)


def release(tx: Transaction, id_: str, deed: audit.Deed, words: Words) -> None:
    """Let a held delivery run.

    Raises: NotFound, StateConflict.
    """
    facts = _decide(tx, id_, deed, words)
    tx.run(_sql.record_end, id=id_, tenant=deed.tenant, now=deed.at)
    row = tx.one(_sql.release, id=id_, tenant=deed.tenant, now=deed.at)
    if row is None:
        raise StateConflict(_cannot("release", facts.state))
    _back_into_lane(tx, row[:4], row[4], deed.at)
    audit.record(tx, deed, "release", id_, _detail(words))


def see(tx: Transaction, id_: str, deed: audit.Deed) -> None:
    """Write down that a person has seen a dead delivery; only then may its body go.

    Raises: NotFound, StateConflict.
    """
    facts = inspections.read_facts(tx, deed.tenant, id_)
    if not tx.all(_sql.see, id=id_, tenant=deed.tenant, now=deed.at):
        raise StateConflict(_cannot("see", facts.state))
    audit.record(tx, deed, "see", id_)


def _back_into_lane(
    tx: Transaction, row: tuple[str, str, str, str | None], position: int | None, now: int
) -> None:
    """Give a released delivery its old place, or the last where it never had one."""
    id_, tenant, source, lane = row
    if lane is None:
        return
    if position is None:
        lanes.enter(tx, [lanes.Place(id_, tenant, source, lane)], now)
    else:
        lanes.move_on(tx, [((tenant, source, lane), None)], now)


def _decide(tx: Transaction, id_: str, deed: audit.Deed, words: Words) -> Facts:
    """Apply a person's words to effects in doubt; refuse while any is left in doubt."""
    facts = inspections.read_facts(tx, deed.tenant, id_)
    for name, state in words.items():
        if not effects.resolve(tx, deed.tenant, id_, name, state, deed.at):
            message = f"this delivery has no effect {name!r} in doubt"
            raise NotFound(message)
    doubtful = in_doubt(effects.of_delivery(tx, deed.tenant, id_))
    if doubtful:
        name = doubtful[0].name
        message = (
            f"effect {name!r} may or may not have happened; look there, then add "
            f"--effect {name}=done or --effect {name}=not-done"
        )
        raise StateConflict(message)
    return facts


def _detail(words: Words) -> str:
    return " ".join(f"{name}={state}" for name, state in sorted(words.items()))


def _cannot(action: str, state: State) -> str:
    return f"a delivery that is {state} cannot be {_PAST[action]}; {_REMEDY[action]}"


_BODY_GONE = "its body is no longer kept, so there is nothing to run; let the sender send it again"
_PAST = {"replay": "replayed", "hold": "held", "release": "released", "see": "marked as seen"}
_REMEDY = {
    "replay": "only done or dead ones can; a held one is released instead",
    "hold": "only received or failed ones can; if a worker has it, try again later",
    "release": "only held ones can; a dead one is replayed instead",
    "see": "only dead ones can",
}
