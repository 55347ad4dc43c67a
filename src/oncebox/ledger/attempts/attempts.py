"""Attempts: owner, resend limit and statistics.

A missing attempt and one of another key get the same error.
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from oncebox.core import faults, ids
from oncebox.db.database import Row, Transaction
from oncebox.db.queries import load
from oncebox.errors import NotFound
from oncebox.errors.mail import ResendLimitReached
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.events import event_log
from oncebox.ledger.inboxes import inbox_counts
from oncebox.model.attempts import (
    ActionState,
    AttemptCounts,
    ResendGrant,
    attempt_batch,
    single_attempt,
)
from oncebox.model.events import EventData, EventType, NewEvent
from oncebox.model.inboxes.inbox import AttemptInboxStats, InboxPolicy

_sql = load(__package__, "attempts.sql")


def record_owners(tx: Transaction, owners: Iterable[tuple[str, str, str]], now: int) -> None:
    """Record the owners of attempts, as ``(tenant, attempt, key)``, unless they have one."""
    tx.run_many(_sql.adopt, [(*owner, 1, now) for owner in sorted(set(owners))])


def grant_resend(
    tx: Transaction, requester: Requester, attempt_id: str, mark: bytes, now: int
) -> ResendGrant:
    """Grant one more mail to an attempt, within its policy's limit; a repeat gets the same.

    Raises: NotFound, ResendLimitReached.
    """
    name = {"tenant": requester.tenant, "attempt_id": attempt_id}
    key = requester.key or ""
    tx.run_many(_sql.adopt, [(requester.tenant, attempt_id, key, 0, now)])
    locked = tx.one(_sql.lock, **name, owner=requester.owner)
    if locked is None:
        raise not_found()
    allowed = _allowed_resends(tx, name, locked[0])
    before = tx.one(_sql.granted, **name, mark=mark)
    if before is not None:
        number, at = before
        return ResendGrant(
            attempt_id=attempt_id, number=number, allowed=allowed, at=at, repeated=True
        )
    spent = tx.one(_sql.spend, **name, allowed=allowed)
    if spent is None:
        raise _resends_exhausted(allowed)
    number = int(spent[0])
    tx.run(_sql.grant, **name, number=number, mark=mark, key=key, now=now)
    data = {"number": number, "left": allowed - number}
    attempt = (requester.tenant, attempt_id)
    event_log.record(tx, [attempt_event(tx, EventType.RESEND_GRANTED, attempt, data, now)])
    faults.point("actions.resend-not-committed")
    return ResendGrant(attempt_id=attempt_id, number=number, allowed=allowed, at=now)


def figures(tx: Transaction, requester: Requester, attempt_id: str) -> AttemptCounts | None:
    """Return the resends and actions of an attempt; None if it is not the requester's."""
    name = {"tenant": requester.tenant, "attempt_id": attempt_id}
    found = tx.one(_sql.one, **name, owner=requester.owner) or _known_by_inbox(tx, requester, name)
    if found is None:
        return None
    owner, created_at, resends = found
    states = {ActionState(row[0]): int(row[1]) for row in tx.all(_sql.states, **name)}
    allowed = _allowed_resends(tx, name, owner)
    return AttemptCounts(created_at=created_at, resends=resends, allowed=allowed, actions=states)


def stats(
    tx: Transaction, requester: Requester, attempt_id: str
) -> tuple[AttemptInboxStats, AttemptCounts | None]:
    """Return the statistics of an attempt's inboxes and actions that the requester may see.

    Raises: NotFound.
    """
    counts = figures(tx, requester, attempt_id)
    try:
        return inbox_counts.attempt_stats(tx, requester, single_attempt(attempt_id)), counts
    except NotFound:
        if counts is None:
            raise
    return AttemptInboxStats(attempt_id=attempt_id, created_at=counts.created_at), counts


class BatchCounts(NamedTuple):
    """Attempts of a batch, their resends and actions."""

    attempts: int
    resends: int
    #: the number of actions in each state
    actions: dict[ActionState, int]


def batch_stats(
    tx: Transaction, requester: Requester, prefix: str
) -> tuple[AttemptInboxStats, BatchCounts]:
    """Return the statistics of all attempts of the requester whose ids begin with a prefix.

    Raises: NotFound.
    """
    ids_ = attempt_batch(prefix)
    of = {
        "tenant": requester.tenant,
        "owner": requester.owner,
        "lowest": ids_.lowest,
        "highest": ids_.highest,
    }
    attempts, created_at, resends = tx.all(_sql.batch, **of)[0]
    if not attempts:
        raise NotFound("no attempt of yours begins with that prefix")
    actions = {ActionState(row[0]): int(row[1]) for row in tx.all(_sql.batch_states, **of)}
    counts = BatchCounts(int(attempts), int(resends), actions)
    try:
        return inbox_counts.attempt_stats(tx, requester, ids_), counts
    except NotFound:
        return AttemptInboxStats(attempt_id=prefix, created_at=created_at), counts


def attempt_event(
    tx: Transaction, type_: EventType, attempt: tuple[str, str], data: EventData, now: int
) -> NewEvent:
    """Return an event of a tenant's attempt, visible to the owner of its first inbox."""
    tenant, attempt_id = attempt
    first = tx.one(_sql.first_inbox, tenant=tenant, attempt_id=attempt_id)
    return NewEvent(
        id=ids.new("evt"),
        tenant=tenant,
        type=type_,
        inbox_id=None if first is None else first[0],
        attempt_id=attempt_id,
        subject_id=attempt_id,
        at=now,
        data=data,
    )


def not_found() -> NotFound:
    """Return the error for an attempt that is missing or not the requester's."""
    return NotFound("there is no such attempt")


def _known_by_inbox(tx: Transaction, requester: Requester, name: dict[str, str]) -> Row | None:
    """Return an attempt that has inboxes but no actions or resends yet."""
    first = tx.one(_sql.first_inbox, **name)
    if first is None or requester.owner not in {None, first[1]}:
        return None
    return first[1], first[2], 0


def _allowed_resends(tx: Transaction, name: dict[str, str], owner: str | None) -> int:
    """Return the limit of resends: that of the strictest policy."""
    rows = tx.all(_sql.policies, **name, owner=owner or "")
    policies = [msgspec.json.decode(row[0], type=InboxPolicy) for row in rows]
    return min((each.resends for each in policies), default=InboxPolicy().resends)


def _resends_exhausted(allowed: int) -> ResendLimitReached:
    if not allowed:
        return ResendLimitReached(
            "the mail of this attempt must not be requested again (resends is 0 in the policy of "
            "its inboxes); wait for the mail that was sent, or begin a new attempt"
        )
    times = "once" if allowed == 1 else f"{allowed} times"
    return ResendLimitReached(
        f"the mail of this attempt was requested again {times}, which is the limit (resends in "
        "the policy of its inboxes); wait for the mail that was sent, or begin a new attempt"
    )
