"""Actions: begun once per attempt, leased, their result stored; AttemptRepository.

Grouped functions return a refusal instead of raising it, so that it does not fail the other
callers of the same commit. See docs/decisions/0020-use-request-keys-and-fences-for-actions.md.
"""

import os
from collections.abc import Callable, Iterable, Sequence

import msgspec

from oncebox.core import faults
from oncebox.core.encryption import MasterKey
from oncebox.core.metrics import Telemetry
from oncebox.db.database import Row, Transaction
from oncebox.db.group_commit import grouped
from oncebox.db.queries import load
from oncebox.errors import LeaseLost, NotFound, StateConflict
from oncebox.ledger.admin import audit
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.artifacts import claims
from oncebox.ledger.attempts import attempts
from oncebox.ledger.events import event_log
from oncebox.ledger.notifications import EVENTS
from oncebox.ledger.transactions import Ledger
from oncebox.model.attempts import (
    Action,
    ActionState,
    BeginActionResult,
    BeginStatus,
    check_action,
    request_fingerprint,
)
from oncebox.model.deliveries.effects import Safety
from oncebox.model.events import EventType

_sql = load(__package__, "actions.sql")

#: tenant, attempt and name, which together name one action
ActionKey = tuple[str, str, str]
_OPEN = {ActionState.STARTED, ActionState.VERIFYING}
_RANDOM_BYTES = 32
#: the purpose of the key that encrypts results
RESULT = "action result"


class ActionRef(msgspec.Struct, frozen=True):
    """An action, and who requests or reports it."""

    requester: Requester
    attempt_id: str
    name: str

    @property
    def key(self) -> ActionKey:
        """What names the action."""
        return self.requester.tenant, self.attempt_id, self.name


class BeginAction(msgspec.Struct, frozen=True, kw_only=True):
    """A request to begin an action."""

    ref: ActionRef
    safe: Safety
    #: a repeat of the same request gets the same answer
    fingerprint: bytes
    #: milliseconds until the lease ends, unless it is renewed
    lease: int
    #: milliseconds for which the target system remembers an idempotency key
    window: int


class ActionReport(msgspec.Struct, frozen=True, kw_only=True):
    """A holder's report on its action."""

    ref: ActionRef
    #: from the begin
    fence: int
    #: encrypted; only of an action that is done
    result: bytes | None = None
    #: artifacts that an action which is done has used
    uses: tuple[str, ...] = ()
    #: the new end of the lease, of a renewal
    until: int = 0


class _StoredAction(msgspec.Struct, frozen=True):
    """An action, its owner, and the request that holds it."""

    action: Action
    owner: str | None
    fingerprint: bytes


def _begin_topics(results: Sequence[BeginActionResult | None]) -> Iterable[str]:
    return [EVENTS] if any(each is not None and each.held_now for each in results) else []


@grouped(topics=_begin_topics)
def begin(
    tx: Transaction, requests: Sequence[BeginAction], now: int
) -> list[BeginActionResult | None]:
    """Begin actions, or return their state; None where the attempt is not the requester's.

    An action whose lease expired is begun again, verified or held, as its ``safe`` says.
    """
    owners = {(*each.ref.key[:2], each.ref.requester.key or "") for each in requests}
    attempts.record_owners(tx, owners, now)
    ordered = sorted(requests, key=lambda each: (*each.ref.key, each.fingerprint))
    held: set[ActionKey] = set()
    if tx.run_many(_sql.begin, [_begin_row(each, now) for each in ordered]) < len(ordered):
        held = _take_over(tx, ordered, now)
    known = _stored_actions(tx, (each.ref for each in requests))
    faults.point("actions.begun-not-committed")
    return [_begin_answer(each, known.get(each.ref.key), held) for each in requests]


@grouped()
def finish(tx: Transaction, reports: Sequence[ActionReport], now: int) -> list[Action | None]:
    """Record success, which any holder may prove, even late; return the actions.

    None where the requester has no such action.
    """
    rows = [(*_holder(each), now, each.result) for each in reports]
    tx.run_many(_sql.prove, sorted(rows, key=lambda row: row[:3]))
    found = _visible_actions(tx, reports)
    for report, action in zip(reports, found, strict=True):
        if report.uses and action is not None:
            claims.use(tx, report.ref.requester, report.uses, now)
    faults.point("actions.done-not-committed")
    return found


@grouped()
def finish_not_done(
    tx: Transaction, reports: Sequence[ActionReport], now: int
) -> list[Action | None]:
    """Record that actions did not happen, if their holder reports it; return the actions.

    None where the requester has no such action. ``is_accepted`` says whether it was recorded.
    """
    rows = sorted((*_holder(each), now) for each in reports)
    tx.run_many(_sql.deny, rows)
    tx.run_many(_sql.give_back, rows, nothing=b"")
    return _visible_actions(tx, reports)


@grouped()
def renew(tx: Transaction, reports: Sequence[ActionReport], _now: int) -> list[Action | None]:
    """Prolong leases; return the actions, None as above."""
    tx.run_many(_sql.renew, sorted((*_holder(each), each.until) for each in reports))
    return _visible_actions(tx, reports)


def is_held(report: ActionReport, action: Action) -> bool:
    """Return whether the reporter still holds an action."""
    return action.fence == report.fence and action.state in _OPEN


def is_accepted(report: ActionReport, action: Action) -> bool:
    """Return whether it was the holder who reported that an action did not happen."""
    return action.fence == report.fence and action.state is not ActionState.UNKNOWN


def newest(
    tx: Transaction,
    tenant: str,
    *,
    attempt_id: str | None = None,
    state: ActionState | None = None,
    most: int = 50,
) -> list[Action]:
    """Return actions, the last begun first."""
    if attempt_id is not None:
        found = [
            each for each in _of_attempt(tx, tenant, attempt_id) if state in {None, each.state}
        ]
        return sorted(found, key=lambda each: (-each.started_at, each.name))[:most]
    query = _sql.newest if state in {None, ActionState.DONE} else _sql.newest_open
    return [_to_action(row) for row in tx.all(query, tenant=tenant, state=state, most=most)]


def _of_attempt(tx: Transaction, tenant: str, attempt_id: str) -> list[Action]:
    rows = tx.all(_sql.of_attempt, tenant=tenant, attempt_id=attempt_id)
    return [_to_action(row) for row in rows]


def list_unknown(
    tx: Transaction, tenant: str, now: int, *, attempt_id: str | None = None, most: int = 50
) -> list[Action]:
    """Return actions with an unknown outcome, and those that a begin would find unknown now."""
    if attempt_id is not None:
        found = [
            each
            for each in _of_attempt(tx, tenant, attempt_id)
            if each.state is ActionState.UNKNOWN
            or (each.state in _OPEN and each.lease_until <= now)
        ]
        return sorted(found, key=lambda each: (each.started_at, each.name))[:most]
    return [_to_action(row) for row in tx.all(_sql.doubtful, tenant=tenant, now=now, most=most)]


def resolve(
    tx: Transaction,
    place: tuple[str, str],
    state: ActionState,
    entry: audit.AuditEntry,
    result: bytes | None = None,
) -> Action:
    """Record a person's decision on an action with an unknown outcome.

    Raises: NotFound, StateConflict.
    """
    attempt_id, name = place
    where = {"tenant": entry.tenant, "attempt_id": attempt_id, "name": name}
    row = tx.one(_sql.resolve, **where, state=state, now=entry.at, result=result)
    if row is None:
        raise _not_resolvable(tx, (entry.tenant, attempt_id, name))
    audit.record(tx, entry, "action resolve", f"action:{attempt_id}/{name}", str(state))
    return _to_action(row)


def _take_over(tx: Transaction, requests: Sequence[BeginAction], now: int) -> set[ActionKey]:
    """Begin expired actions again where that is safe; return those that are held from now on."""
    keep, again, hold = [], [], []
    for each in requests:
        key, owner, since = each.ref.key, each.ref.requester.owner, now - each.window
        keep.append((*key, owner, each.fingerprint, now + each.lease))
        again.append((*_begin_row(each, now), since))
        hold.append((*key, owner, str(each.safe), now, since))
    tx.run_many(_sql.keep, keep)
    tx.run_many(_sql.again, again)
    held = {(row[0], row[1], row[2]) for row in tx.many(_sql.hold, hold)}
    event_log.record(
        tx,
        [
            attempts.attempt_event(
                tx, EventType.ACTION_HELD, (tenant, attempt_id), {"name": name}, now
            )
            for tenant, attempt_id, name in sorted(held)
        ],
    )
    return held


def _begin_answer(
    request: BeginAction, known: _StoredAction | None, held: set[ActionKey]
) -> BeginActionResult | None:
    if known is None or request.ref.requester.owner not in {None, known.owner}:
        return None
    action = known.action
    if action.state in _OPEN and known.fingerprint == request.fingerprint:
        verifying = action.state is ActionState.VERIFYING
        return BeginActionResult(BeginStatus.LOOK if verifying else BeginStatus.BEGUN, action)
    if action.state is ActionState.DONE:
        return BeginActionResult(BeginStatus.DONE, action)
    if action.state is ActionState.UNKNOWN:
        return BeginActionResult(BeginStatus.HELD, action, held_now=request.ref.key in held)
    # Also an action that was released between two of our statements: a repeat may begin it.
    return BeginActionResult(BeginStatus.IN_FLIGHT, action)


def _visible_actions(tx: Transaction, reports: Sequence[ActionReport]) -> list[Action | None]:
    stored = _stored_actions(tx, (each.ref for each in reports))
    found: list[Action | None] = []
    for report in reports:
        known = stored.get(report.ref.key)
        found.append(
            known.action
            if known is not None
            and report.ref.requester.owner in {None, known.owner}
            and report.fence <= known.action.fence
            else None
        )
    return found


def _stored_actions(tx: Transaction, refs: Iterable[ActionRef]) -> dict[ActionKey, _StoredAction]:
    rows = tx.many(_sql.known, sorted({each.key for each in refs}))
    return {
        (row[0], row[1], row[2]): _StoredAction(_to_action(row[:12]), row[12], bytes(row[13]))
        for row in rows
    }


def _not_resolvable(tx: Transaction, key: ActionKey) -> NotFound | StateConflict:
    rows = tx.many(_sql.known, [key])
    if not rows:
        return NotFound("there is no such action; list them with: oncebox action list --all")
    state = ActionState(rows[0][3])
    if state in _OPEN:
        return StateConflict("this action is in progress; wait until its lease ends")
    return StateConflict(f"this action is {state}; only an unknown outcome can be resolved")


def _begin_row(request: BeginAction, now: int) -> Row:
    requester = request.ref.requester
    return (
        *request.ref.key, requester.owner, requester.key or "", str(request.safe),
        request.fingerprint, now + request.lease, now,
    )  # fmt: skip


def _holder(report: ActionReport) -> Row:
    return (*report.ref.key, report.ref.requester.owner, report.fence)


def _to_action(row: Row) -> Action:
    values = dict(zip(Action.__struct_fields__, row, strict=True))
    values["state"] = ActionState(values["state"])
    values["safe"] = Safety(values["safe"])
    values["result"] = None if values["result"] is None else bytes(values["result"])
    return Action(**values)


class AttemptRepository:
    """Begins actions and records their outcome; all times in milliseconds."""

    def __init__(
        self,
        ledger: Ledger,
        telemetry: Telemetry,
        master_key: MasterKey,
        *,
        random: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._ledger = ledger
        self._telemetry = telemetry
        self._key = master_key
        self._random = random

    async def begin(
        self, ref: ActionRef, safe: Safety, *, lease: int, window: int, request: str | None = None
    ) -> BeginActionResult:
        """Begin an action, or return its state; the same ``request`` gets the same answer.

        Raises: NotFound, KeyInvalid.
        """
        check_action(ref.attempt_id, ref.name)
        if request is None:
            mark = self._random(_RANDOM_BYTES)
        else:
            mark = request_fingerprint(ref.requester.key or "", request)
        begun = await self._ledger.submit(
            begin, BeginAction(ref=ref, safe=safe, fingerprint=mark, lease=lease, window=window)
        )
        faults.point("actions.begun")
        if begun is None:
            raise attempts.not_found()
        repeated = begun.action.fence > 1 and begun.status is BeginStatus.BEGUN
        self._telemetry.actions.labels("repeated" if repeated else begun.status.value).inc()
        return begun

    async def done(
        self, ref: ActionRef, fence: int, result: bytes | None, uses: Iterable[str] = ()
    ) -> Action:
        """Record success, also from an earlier holder, and which artifacts it used.

        Raises: NotFound.
        """
        encrypted = None if result is None else self.encrypt_result(ref, result)
        report = ActionReport(ref=ref, fence=fence, result=encrypted, uses=tuple(uses))
        action = _existing(await self._ledger.submit(finish, report))
        faults.point("actions.done")
        self._telemetry.actions.labels("done").inc()
        return action

    async def not_done(self, ref: ActionRef, fence: int) -> Action:
        """Record that an action did not happen; return it.

        Raises: NotFound, LeaseLost.
        """
        report = ActionReport(ref=ref, fence=fence)
        action = _existing(await self._ledger.submit(finish_not_done, report))
        if not is_accepted(report, action):
            raise self._lost()
        self._telemetry.actions.labels("not_done").inc()
        return action

    async def heartbeat(self, ref: ActionRef, fence: int, lease: int) -> Action:
        """Renew the lease of an action; return it.

        Raises: NotFound, LeaseLost.
        """
        report = ActionReport(ref=ref, fence=fence, until=self._ledger.clock() + lease)
        action = _existing(await self._ledger.submit(renew, report))
        if not is_held(report, action):
            raise self._lost()
        return action

    def encrypt_result(self, ref: ActionRef, result: bytes) -> bytes:
        """Return a result as it is stored."""
        return self._key.encrypt(result, bound_to=result_aad(*ref.key), purpose=RESULT)

    def decrypt_result(self, action: Action) -> bytes | None:
        """Return the result of an action.

        Raises: MasterKeyWrong.
        """
        if action.result is None:
            return None
        bound = result_aad(action.tenant, action.attempt_id, action.name)
        return self._key.decrypt(action.result, bound_to=bound, purpose=RESULT)

    def _lost(self) -> LeaseLost:
        self._telemetry.lease_conflicts.inc()
        self._telemetry.actions.labels("stale").inc()
        return LeaseLost("the lease was lost; another caller may be performing this action")


def _existing(action: Action | None) -> Action:
    if action is None:
        raise attempts.not_found()
    return action


def result_aad(tenant: str, attempt_id: str, name: str) -> bytes:
    """Bind a result to its row."""
    return msgspec.msgpack.encode(("action", tenant, attempt_id, name, "result"))
