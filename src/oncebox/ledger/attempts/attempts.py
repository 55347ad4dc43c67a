"""Attempts: owner, resend budget and statistics.

Missing and foreign look the same: an agent acts for what its key made.
"""

from collections.abc import Iterable, Mapping

import msgspec

from oncebox.core import faults, ids
from oncebox.db.database import Row, Transaction
from oncebox.db.queries import load
from oncebox.errors import NotFound
from oncebox.errors.mail import ResendLimitReached
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.events import event_log
from oncebox.ledger.inboxes import inboxes
from oncebox.model.attempts import ActionState, AttemptCounts, ResendGrant
from oncebox.model.events import EventType, NewEvent
from oncebox.model.inboxes.inbox import AttemptInboxStats, InboxPolicy

_sql = load(__package__, "attempts.sql")


def record_owners(tx: Transaction, wishes: Iterable[tuple[str, str, str]], now: int) -> None:
    """Write down whose attempts are: each of ``(tenant, attempt, key)``, unless it is known."""
    rows = [(*wish, 1, now) for wish in sorted(set(wishes))]
    tx.run_many(_sql.adopt, rows)


def grant_resend(
    tx: Transaction,
    asker: Requester,
    attempt_id: str,
    mark: bytes,
    now: int,
    new_id: ids.NewId = ids.new,
) -> ResendGrant:
    """Grant one more mail to an attempt, as often as its policy allows; a repeat gets the same.

    Raises: NotFound, ResendLimitReached.
    """
    name = {"tenant": asker.tenant, "attempt_id": attempt_id}
    tx.run_many(_sql.adopt, [(asker.tenant, attempt_id, asker.key or "", 0, now)])
    locked = tx.one(_sql.lock, **name, owner=asker.owner)
    if locked is None:
        raise not_found()
    allowed = _allowed_resends(tx, name, locked[0])
    before = tx.one(_sql.granted, **name, mark=mark)
    if before is not None:
        return _to_resend(attempt_id, allowed, before, repeated=True)
    spent = tx.one(_sql.spend, **name, allowed=allowed)
    if spent is None:
        raise _resends_exhausted(allowed)
    number = int(spent[0])
    tx.run(_sql.grant, **name, number=number, mark=mark, key=asker.key or "", now=now)
    data = {"number": number, "left": allowed - number}
    place = (asker.tenant, attempt_id)
    event_log.record(tx, [attempt_event(tx, EventType.RESEND_GRANTED, place, data, now, new_id)])
    faults.point("actions.resend-not-committed")
    return _to_resend(attempt_id, allowed, (number, now))


def figures(tx: Transaction, asker: Requester, attempt_id: str) -> AttemptCounts | None:
    """Return what was done for an attempt; None if the asker may not act for it."""
    name = {"tenant": asker.tenant, "attempt_id": attempt_id}
    found = tx.one(_sql.one, **name, owner=asker.owner) or _known_by_inbox(tx, asker, name)
    if found is None:
        return None
    owner, created_at, resends = found
    states = {ActionState(row[0]): int(row[1]) for row in tx.all(_sql.states, **name)}
    return AttemptCounts(
        created_at=created_at,
        resends=resends,
        allowed=_allowed_resends(tx, name, owner),
        actions=states,
    )


def stats(
    tx: Transaction, asker: Requester, attempt_id: str
) -> tuple[AttemptInboxStats, AttemptCounts | None]:
    """Return what came to an attempt and what it did, as far as the asker may see either.

    Raises: NotFound.
    """
    acted = figures(tx, asker, attempt_id)
    try:
        return inboxes.attempt_stats(tx, asker, attempt_id), acted
    except NotFound:
        if acted is None:
            raise
    nothing = AttemptInboxStats(
        attempt_id=attempt_id,
        states={},
        messages=0,
        duplicates=0,
        matched=0,
        created_at=acted.created_at,
        first_message_at=None,
        last_message_at=None,
        missed=0,
    )
    return nothing, acted


def attempt_event(
    tx: Transaction,
    type_: EventType,
    place: tuple[str, str],
    data: Mapping[str, str | int],
    now: int,
    new_id: ids.NewId,
) -> NewEvent:
    """Return an event of a tenant's attempt, filed with its first inbox: its maker hears it."""
    tenant, attempt_id = place
    first = tx.one(_sql.first_inbox, tenant=tenant, attempt_id=attempt_id)
    return NewEvent(
        id=new_id("evt"),
        tenant=tenant,
        type=type_,
        inbox_id=None if first is None else first[0],
        attempt_id=attempt_id,
        subject_id=attempt_id,
        at=now,
        data=dict(data),
    )


def not_found() -> NotFound:
    """Return what is said of an attempt that is not there, or not the asker's."""
    return NotFound("there is no such attempt")


def _known_by_inbox(tx: Transaction, asker: Requester, name: dict[str, str]) -> Row | None:
    """Return an attempt that has inboxes and has done nothing yet."""
    first = tx.one(_sql.first_inbox, **name)
    if first is None or asker.owner not in {None, first[1]}:
        return None
    return first[1], first[2], 0


def _allowed_resends(tx: Transaction, name: dict[str, str], owner: str | None) -> int:
    """Return how many resends there may be: as many as the strictest policy says."""
    rows = tx.all(_sql.policies, **name, owner=owner or "")
    policies = [msgspec.json.decode(row[0], type=InboxPolicy) for row in rows]
    return min((each.resends for each in policies), default=InboxPolicy().resends)


def _to_resend(attempt_id: str, allowed: int, row: Row, *, repeated: bool = False) -> ResendGrant:
    number, at = row
    return ResendGrant(
        attempt_id=attempt_id, number=number, allowed=allowed, at=at, repeated=repeated
    )


def _resends_exhausted(allowed: int) -> ResendLimitReached:
    times = "once" if allowed == 1 else f"{allowed} times"
    message = (
        f"the mail of this attempt may be asked for again {times} (resends in the policy of its "
        "inboxes), and was; wait for what is on its way, or begin a new attempt"
        if allowed
        else "the mail of this attempt must not be asked for again (resends is 0 in the policy of "
        "its inboxes); wait for what is on its way, or begin a new attempt"
    )
    return ResendLimitReached(message)
