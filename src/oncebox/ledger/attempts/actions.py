"""Actions: begun once per attempt, leased, their result stored; AttemptRepository.

The verbs that many call at once take many wishes; what is refused is told, not raised, so that
nobody loses their commit to a neighbour.
"""

import os
from collections.abc import Callable, Iterable, Sequence

import msgspec

from oncebox.core import faults, ids
from oncebox.core.encryption import MasterKey
from oncebox.core.metrics import Telemetry
from oncebox.db.database import Row, Transaction
from oncebox.db.group_commit import grouped
from oncebox.db.queries import load
from oncebox.errors import LeaseLost, NotFound, StateConflict
from oncebox.ledger.admin import audit
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.attempts import attempts
from oncebox.ledger.events import event_log
from oncebox.ledger.notifications import EVENTS
from oncebox.ledger.transactions import Ledger
from oncebox.model.attempts import (
    Action,
    ActionReport,
    ActionState,
    BeginAction,
    BeginActionResult,
    BeginStatus,
    check_action_name,
    check_attempt_id,
    request_fingerprint,
)
from oncebox.model.deliveries.effects import Safety
from oncebox.model.events import EventType, NewEvent

_sql = load(__package__, "actions.sql")

#: tenant, attempt and name, which together name one action
ActionKey = tuple[str, str, str]
_OPEN = {ActionState.STARTED, ActionState.VERIFYING}


class _StoredAction(msgspec.Struct, frozen=True):
    """An action as it stands, whose it is, and the request that holds it."""

    action: Action
    owner: str | None
    fingerprint: bytes


def _begin_topics(results: Sequence[BeginActionResult | None]) -> Iterable[str]:
    return [EVENTS] if any(each is not None and each.held_now for each in results) else []


@grouped(topics=_begin_topics)
def begin(
    tx: Transaction, wishes: Sequence[BeginAction], now: int
) -> list[BeginActionResult | None]:
    """Begin actions, or tell how they stand; None where the attempt is not the asker's.

    One that was begun and never heard of again is begun anew, looked at or held, as was chosen.
    """
    attempts.record_owners(tx, {(w.tenant, w.attempt_id, w.key) for w in wishes}, now)
    ordered = sorted(wishes, key=lambda w: (*_action_key(w), w.fingerprint))
    held: set[ActionKey] = set()
    if tx.run_many(_sql.begin, [_begin_row(w, now) for w in ordered]) < len(ordered):
        held = _take_over(tx, ordered, now)
    known = _stored_actions(tx, wishes)
    faults.point("actions.begun-not-committed")
    return [_begin_answer(w, known.get(_action_key(w)), held) for w in wishes]


@grouped()
def finish(tx: Transaction, words: Sequence[ActionReport], now: int) -> list[Action | None]:
    """Record success, which is proof whoever brings it; return how the actions stand.

    None where there is no such action of the asker's.
    """
    rows = [(*_action_key(w), w.owner, w.fence, now, w.result) for w in words]
    tx.run_many(_sql.prove, sorted(rows, key=lambda row: row[:3]))
    known = _stored_actions(tx, words)
    faults.point("actions.done-not-committed")
    return [_visible_action(w, known.get(_action_key(w))) for w in words]


@grouped()
def finish_not_done(
    tx: Transaction, words: Sequence[ActionReport], now: int
) -> list[Action | None]:
    """Record that actions did not happen, where their holder says so; return how they stand.

    None where there is no such action of the asker's. ``counts`` says whose word was taken.
    """
    rows = sorted((*_action_key(w), w.owner, w.fence, now) for w in words)
    tx.run_many(_sql.deny, rows)
    tx.run_many(_sql.give_back, rows, nothing=b"")
    known = _stored_actions(tx, words)
    return [_visible_action(w, known.get(_action_key(w))) for w in words]


@grouped()
def renew(tx: Transaction, words: Sequence[ActionReport], _now: int) -> list[Action | None]:
    """Prolong leases; return how the actions stand. None as above."""
    rows = sorted((*_action_key(w), w.owner, w.fence, w.until) for w in words)
    tx.run_many(_sql.renew, rows)
    known = _stored_actions(tx, words)
    return [_visible_action(w, known.get(_action_key(w))) for w in words]


def is_held(word: ActionReport, action: Action) -> bool:
    """Say whether an action is still held by who speaks."""
    return action.fence == word.fence and action.state in _OPEN


def is_accepted(word: ActionReport, action: Action) -> bool:
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
    return [_to_action(row) for row in tx.all(_sql.newest, **where)]


def list_unknown(
    tx: Transaction, tenant: str, now: int, *, attempt_id: str | None = None, most: int = 50
) -> list[Action]:
    """Return actions that wait for a person, or would if somebody asked for them now."""
    where = {"tenant": tenant, "attempt_id": attempt_id, "now": now, "most": most}
    return [_to_action(row) for row in tx.all(_sql.doubtful, **where)]


def resolve(
    tx: Transaction,
    place: tuple[str, str],
    state: ActionState,
    deed: audit.AuditEntry,
    result: bytes | None = None,
) -> Action:
    """Record a person's word on an action in doubt.

    Raises: NotFound, StateConflict.
    """
    attempt_id, name = place
    where = {"tenant": deed.tenant, "attempt_id": attempt_id, "name": name}
    row = tx.one(_sql.resolve, **where, state=state, now=deed.at, result=result)
    if row is None:
        raise _not_resolvable(tx, (deed.tenant, attempt_id, name))
    audit.record(tx, deed, "action resolve", f"action:{attempt_id}/{name}", str(state))
    return _to_action(row)


def _take_over(tx: Transaction, wishes: Sequence[BeginAction], now: int) -> set[ActionKey]:
    """Begin anew what may be; return what nobody may, and is held from now on."""
    tx.run_many(
        _sql.keep, [(*_action_key(w), w.owner, w.fingerprint, now + w.lease) for w in wishes]
    )
    tx.run_many(_sql.again, [(*_begin_row(w, now), now - w.window) for w in wishes])
    rows = [(*_action_key(w), w.owner, str(w.safe), now, now - w.window) for w in wishes]
    held = {(row[0], row[1], row[2]) for row in tx.many(_sql.hold, rows)}
    event_log.record(tx, [_held_event(tx, place, now) for place in sorted(held)])
    return held


def _held_event(tx: Transaction, place: ActionKey, now: int) -> NewEvent:
    tenant, attempt_id, name = place
    where = (tenant, attempt_id)
    return attempts.attempt_event(tx, EventType.ACTION_HELD, where, {"name": name}, now, ids.new)


def _begin_answer(
    wish: BeginAction, known: _StoredAction | None, held: set[ActionKey]
) -> BeginActionResult | None:
    if known is None or wish.owner not in {None, known.owner}:
        return None
    action = known.action
    if action.state in _OPEN and known.fingerprint == wish.fingerprint:
        looks = action.state is ActionState.VERIFYING
        return BeginActionResult(BeginStatus.LOOK if looks else BeginStatus.BEGUN, action)
    if action.state is ActionState.DONE:
        return BeginActionResult(BeginStatus.DONE, action)
    if action.state is ActionState.UNKNOWN:
        return BeginActionResult(BeginStatus.HELD, action, held_now=_action_key(wish) in held)
    # Also what was given up between two of our statements: whoever asks again may begin it.
    return BeginActionResult(BeginStatus.IN_FLIGHT, action)


def _visible_action(word: ActionReport, known: _StoredAction | None) -> Action | None:
    if known is None or word.owner not in {None, known.owner} or word.fence > known.action.fence:
        return None
    return known.action


def _stored_actions(
    tx: Transaction, wanted: Sequence[BeginAction] | Sequence[ActionReport]
) -> dict[ActionKey, _StoredAction]:
    rows = tx.many(_sql.known, sorted({_action_key(each) for each in wanted}))
    found = (_StoredAction(_to_action(row[:12]), row[12], bytes(row[13])) for row in rows)
    return {_action_key(each.action): each for each in found}


def _not_resolvable(tx: Transaction, place: ActionKey) -> NotFound | StateConflict:
    rows = tx.many(_sql.known, [place])
    if not rows:
        return NotFound("there is no such action; list them with: oncebox action list --all")
    state = ActionState(rows[0][3])
    if state in _OPEN:
        return StateConflict("somebody is doing this action now; wait until its lease is over")
    return StateConflict(f"this action is {state}; only one in doubt can be resolved")


def _begin_row(wish: BeginAction, now: int) -> Row:
    until = now + wish.lease
    return (
        *_action_key(wish),
        wish.owner,
        wish.key,
        str(wish.safe),
        wish.fingerprint,
        until,
        now,
    )


def _action_key(of: BeginAction | ActionReport | Action) -> ActionKey:
    return of.tenant, of.attempt_id, of.name


def _to_action(row: Row) -> Action:
    values = dict(zip(Action.__struct_fields__, row, strict=True))
    values["state"] = ActionState(values["state"])
    values["safe"] = Safety(values["safe"])
    values["result"] = None if values["result"] is None else bytes(values["result"])
    return Action(**values)


_RANDOM_BYTES = 32


class ActionRef(msgspec.Struct, frozen=True):
    """Who speaks of which action."""

    requester: Requester
    attempt_id: str
    name: str


class AttemptRepository:
    """Begins actions, and hears how they ended; all times in milliseconds."""

    def __init__(
        self,
        ledger: Ledger,
        telemetry: Telemetry,
        master_key: MasterKey,
        *,
        random: Callable[[int], bytes] = os.urandom,
    ) -> None:
        """Serve any number of callers at the same time."""
        self._ledger = ledger
        self._telemetry = telemetry
        self._key = master_key
        self._random = random

    async def begin(
        self, task: ActionRef, safe: Safety, *, lease: int, window: int, request: str | None = None
    ) -> BeginActionResult:
        """Begin an action, or tell how it stands; the same ``request`` is told the same.

        Raises: NotFound, KeyInvalid.
        """
        who = task.requester.key or ""
        mark = self._random(_RANDOM_BYTES) if request is None else request_fingerprint(who, request)
        wish = BeginAction(
            tenant=task.requester.tenant,
            attempt_id=check_attempt_id(task.attempt_id),
            name=check_action_name(task.name),
            key=who,
            owner=task.requester.owner,
            safe=safe,
            fingerprint=mark,
            lease=lease,
            window=window,
        )
        begun = await self._ledger.submit(begin, wish)
        faults.point("actions.begun")
        if begun is None:
            raise attempts.not_found()
        self._telemetry.actions.labels(_outcome_label(begun)).inc()
        return begun

    async def done(self, task: ActionRef, fence: int, result: bytes | None) -> Action:
        """Record success, from whoever once held the action; return how it stands.

        Raises: NotFound.
        """
        sealed = None if result is None else self.encrypt_result(task, result)
        word = self._report(task, fence, result=sealed)
        action = _existing(await self._ledger.submit(finish, word))
        faults.point("actions.done")
        self._telemetry.actions.labels("done").inc()
        return action

    async def not_done(self, task: ActionRef, fence: int) -> Action:
        """Record that an action did not happen; return how it stands.

        Raises: NotFound, LeaseLost.
        """
        word = self._report(task, fence)
        action = _existing(await self._ledger.submit(finish_not_done, word))
        if not is_accepted(word, action):
            raise self._lost()
        self._telemetry.actions.labels("not_done").inc()
        return action

    async def heartbeat(self, task: ActionRef, fence: int, lease: int) -> Action:
        """Keep an action for longer; return how it stands.

        Raises: NotFound, LeaseLost.
        """
        word = self._report(task, fence, until=self._ledger.clock() + lease)
        action = _existing(await self._ledger.submit(renew, word))
        if not is_held(word, action):
            raise self._lost()
        return action

    def encrypt_result(self, task: ActionRef, result: bytes) -> bytes:
        """Return a result as it is kept."""
        bound = _result_aad(task.requester.tenant, task.attempt_id, task.name)
        return self._key.encrypt(result, bound_to=bound)

    def decrypt_result(self, action: Action) -> bytes | None:
        """Return the result of an action as it was given.

        Raises: MasterKeyWrong.
        """
        if action.result is None:
            return None
        bound = _result_aad(action.tenant, action.attempt_id, action.name)
        return self._key.decrypt(action.result, bound_to=bound)

    def _report(
        self, task: ActionRef, fence: int, *, result: bytes | None = None, until: int = 0
    ) -> ActionReport:
        return ActionReport(
            tenant=task.requester.tenant,
            attempt_id=task.attempt_id,
            name=task.name,
            owner=task.requester.owner,
            fence=fence,
            result=result,
            until=until,
        )

    def _lost(self) -> LeaseLost:
        self._telemetry.lease_conflicts.inc()
        self._telemetry.actions.labels("stale").inc()
        return LeaseLost("the lease was lost; somebody else may be doing this action")


def _outcome_label(begun: BeginActionResult) -> str:
    """Return the word under which an answer is counted."""
    repeated = begun.action.fence > 1 and begun.status is BeginStatus.BEGUN
    return "repeated" if repeated else begun.status.value


def _existing(action: Action | None) -> Action:
    if action is None:
        raise attempts.not_found()
    return action


def _result_aad(tenant: str, attempt_id: str, name: str) -> bytes:
    """Bind a result to its row, so that it opens for no other."""
    return msgspec.msgpack.encode(("action", tenant, attempt_id, name, "result"))
