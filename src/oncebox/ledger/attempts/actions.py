"""Actions: begun once per attempt, leased, and answered with their result ever after.

The verbs that many call at once take many wishes; what is refused is told, not raised, so that
nobody loses their commit to a neighbour.
"""

from collections.abc import Sequence

import msgspec

from oncebox import faults, ids
from oncebox.errors import NotFound, StateConflict
from oncebox.ledger.attempts import attempts
from oncebox.ledger.events import outbox
from oncebox.ledger.office import audit
from oncebox.model.action import (
    Action,
    ActionState,
    ActionWord,
    BeginAction,
    BegunAction,
    Standing,
)
from oncebox.model.effect import Safe
from oncebox.model.event import EventType, NewEvent
from oncebox.store.database import Row, Transaction
from oncebox.store.queries import load

_sql = load(__package__, "actions.sql")

#: tenant, attempt and name, which together name one action
Place = tuple[str, str, str]
_OPEN = {ActionState.STARTED, ActionState.VERIFYING}


class _Known(msgspec.Struct, frozen=True):
    """An action as it stands, whose it is, and the request that holds it."""

    action: Action
    owner: str | None
    mark: bytes


def begin(
    tx: Transaction, wishes: Sequence[BeginAction], new_id: ids.NewId = ids.new
) -> list[BegunAction | None]:
    """Begin actions, or tell how they stand; None where the attempt is not the asker's.

    One that was begun and never heard of again is begun anew, looked at or held, as was chosen.
    """
    attempts.adopt(tx, {(w.tenant, w.attempt_id, w.key) for w in wishes}, _now(wishes))
    ordered = sorted(wishes, key=lambda w: (*_place(w), w.mark))
    held: set[Place] = set()
    if tx.run_many(_sql.begin, [_first(w) for w in ordered]) < len(ordered):
        held = _take_over(tx, ordered, new_id)
    known = _known(tx, wishes)
    faults.point("actions.begun-not-committed")
    return [_answer(w, known.get(_place(w)), held) for w in wishes]


def finish(tx: Transaction, words: Sequence[ActionWord]) -> list[Action | None]:
    """Record success, which is proof whoever brings it; return how the actions stand.

    None where there is no such action of the asker's.
    """
    rows = [(*_place(w), w.owner, w.fence, w.now, w.result) for w in words]
    tx.run_many(_sql.prove, sorted(rows, key=lambda row: row[:3]))
    known = _known(tx, words)
    faults.point("actions.done-not-committed")
    return [_seen(w, known.get(_place(w))) for w in words]


def deny(tx: Transaction, words: Sequence[ActionWord]) -> list[Action | None]:
    """Record that actions did not happen, where their holder says so; return how they stand.

    None where there is no such action of the asker's. ``counts`` says whose word was taken.
    """
    rows = sorted((*_place(w), w.owner, w.fence, w.now) for w in words)
    tx.run_many(_sql.deny, rows)
    tx.run_many(_sql.give_back, rows, nothing=b"")
    known = _known(tx, words)
    return [_seen(w, known.get(_place(w))) for w in words]


def renew(tx: Transaction, words: Sequence[ActionWord]) -> list[Action | None]:
    """Prolong leases; return how the actions stand. None as above."""
    rows = sorted((*_place(w), w.owner, w.fence, w.until) for w in words)
    tx.run_many(_sql.renew, rows)
    known = _known(tx, words)
    return [_seen(w, known.get(_place(w))) for w in words]


def holds(word: ActionWord, action: Action) -> bool:
    """Say whether an action is still held by who speaks."""
    return action.fence == word.fence and action.state in _OPEN


def counts(word: ActionWord, action: Action) -> bool:
    """Say whether it was the holder who said that an action did not happen."""
    return action.fence == word.fence and action.state is not ActionState.UNKNOWN


def newest(
    tx: Transaction,
    tenant: str,
    *,
    attempt_id: str | None = None,
    state: ActionState | None = None,
    most: int = 50,
) -> list[Action]:
    """Return actions, those that were begun last first."""
    where = {"tenant": tenant, "attempt_id": attempt_id, "state": state, "most": most}
    return [_action(row) for row in tx.all(_sql.newest, **where)]


def doubtful(
    tx: Transaction, tenant: str, now: int, *, attempt_id: str | None = None, most: int = 50
) -> list[Action]:
    """Return actions that wait for a person, or would if somebody asked for them now."""
    where = {"tenant": tenant, "attempt_id": attempt_id, "now": now, "most": most}
    return [_action(row) for row in tx.all(_sql.doubtful, **where)]


def resolve(
    tx: Transaction,
    place: tuple[str, str],
    state: ActionState,
    deed: audit.Deed,
    result: bytes | None = None,
) -> Action:
    """Record a person's word on an action in doubt.

    Raises: NotFound, StateConflict.
    """
    attempt_id, name = place
    where = {"tenant": deed.tenant, "attempt_id": attempt_id, "name": name}
    row = tx.one(_sql.resolve, **where, state=state, now=deed.at, result=result)
    if row is None:
        raise _not_in_doubt(tx, (deed.tenant, attempt_id, name))
    audit.record(tx, deed, "action resolve", f"action:{attempt_id}/{name}", str(state))
    return _action(row)


def _take_over(tx: Transaction, wishes: Sequence[BeginAction], new_id: ids.NewId) -> set[Place]:
    """Begin anew what may be; return what nobody may, and is held from now on."""
    tx.run_many(_sql.keep, [(*_place(w), w.owner, w.mark, w.now + w.lease) for w in wishes])
    tx.run_many(_sql.again, [(*_first(w), w.now - w.window) for w in wishes])
    rows = [(*_place(w), w.owner, str(w.safe), w.now, w.now - w.window) for w in wishes]
    held = {(row[0], row[1], row[2]) for row in tx.many(_sql.hold, rows)}
    now = _now(wishes)
    outbox.record(tx, [_held(tx, place, now, new_id) for place in sorted(held)])
    return held


def _held(tx: Transaction, place: Place, now: int, new_id: ids.NewId) -> NewEvent:
    tenant, attempt_id, name = place
    where = (tenant, attempt_id)
    return attempts.event(tx, EventType.ACTION_HELD, where, {"name": name}, now, new_id)


def _answer(wish: BeginAction, known: _Known | None, held: set[Place]) -> BegunAction | None:
    if known is None or wish.owner not in {None, known.owner}:
        return None
    action = known.action
    if action.state in _OPEN and known.mark == wish.mark:
        looks = action.state is ActionState.VERIFYING
        return BegunAction(Standing.LOOK if looks else Standing.BEGUN, action)
    if action.state is ActionState.DONE:
        return BegunAction(Standing.DONE, action)
    if action.state is ActionState.UNKNOWN:
        return BegunAction(Standing.HELD, action, held_now=_place(wish) in held)
    # Also what was given up between two of our statements: whoever asks again may begin it.
    return BegunAction(Standing.IN_FLIGHT, action)


def _seen(word: ActionWord, known: _Known | None) -> Action | None:
    if known is None or word.owner not in {None, known.owner} or word.fence > known.action.fence:
        return None
    return known.action


def _known(
    tx: Transaction, wanted: Sequence[BeginAction] | Sequence[ActionWord]
) -> dict[Place, _Known]:
    rows = tx.many(_sql.known, sorted({_place(each) for each in wanted}))
    found = (_Known(_action(row[:12]), row[12], bytes(row[13])) for row in rows)
    return {_place(each.action): each for each in found}


def _not_in_doubt(tx: Transaction, place: Place) -> NotFound | StateConflict:
    rows = tx.many(_sql.known, [place])
    if not rows:
        return NotFound("there is no such action; list them with: oncebox action list --all")
    state = ActionState(rows[0][3])
    if state in _OPEN:
        return StateConflict("somebody is doing this action now; wait until its lease is over")
    return StateConflict(f"this action is {state}; only one in doubt can be resolved")


def _first(wish: BeginAction) -> Row:
    until = wish.now + wish.lease
    return (*_place(wish), wish.owner, wish.key, str(wish.safe), wish.mark, until, wish.now)


def _place(of: BeginAction | ActionWord | Action) -> Place:
    return of.tenant, of.attempt_id, of.name


def _now(wishes: Sequence[BeginAction]) -> int:
    return max(wish.now for wish in wishes)


def _action(row: Row) -> Action:
    values = dict(zip(Action.__struct_fields__, row, strict=True))
    values["state"] = ActionState(values["state"])
    values["safe"] = Safe(values["safe"])
    values["result"] = None if values["result"] is None else bytes(values["result"])
    return Action(**values)
