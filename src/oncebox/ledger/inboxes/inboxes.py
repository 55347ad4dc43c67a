"""Inboxes as stored: insert, get, list, close, expire, statistics per attempt."""

from collections.abc import Iterable

import msgspec

from oncebox.core import ids
from oncebox.db.database import Row, Transaction
from oncebox.db.queries import load
from oncebox.errors import NotFound
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.events import event_log
from oncebox.model.events import NewEvent
from oncebox.model.inboxes.inbox import AttemptInboxStats, Inbox, InboxPolicy, InboxState

_sql = load(__package__, "inboxes.sql")

#: an attempt and a label, which together name one inbox
AttemptLabel = tuple[str, str]
#: what comes after every id
_AFTER_ALL_IDS = "~"


class NewInbox(msgspec.Struct, frozen=True, kw_only=True):
    """An inbox that is not kept yet."""

    id: str
    email: str
    attempt_id: str | None
    label: str
    active_until: int | None
    metadata: dict[str, str]
    policy: InboxPolicy
    rotated_from: str | None = None

    @property
    def pair(self) -> AttemptLabel | None:
        """What makes it the only one of its attempt."""
        return None if self.attempt_id is None else (self.attempt_id, self.label)


def add(tx: Transaction, asker: Requester, new: Iterable[NewInbox], now: int) -> list[Inbox]:
    """Keep new inboxes; return those that were kept.

    The others have an address that was given out before, an attempt that has an inbox of that
    label, or a domain that is not the tenant's.
    """
    # One order for all, so that two who make the same inboxes do not wait for each other.
    ordered = sorted(new, key=lambda each: (each.attempt_id or "", each.label, each.id))
    rows = [_insert_row(each) for each in ordered]
    kept = tx.many(_sql.add, rows, tenant=asker.tenant, owner=asker.key, now=now)
    ids = {row[0] for row in kept}
    return [_new_inbox(asker, each, now) for each in ordered if each.id in ids]


def of_attempts(
    tx: Transaction, tenant: str, pairs: Iterable[AttemptLabel]
) -> dict[AttemptLabel, Inbox]:
    """Return the inboxes that attempts have now."""
    rows = tx.many(_sql.of_attempts, sorted(set(pairs)), tenant=tenant)
    found = map(_to_inbox, rows)
    return {(each.attempt_id or "", each.label): each for each in found}


def get(tx: Transaction, asker: Requester, id_: str) -> Inbox:
    """Return one inbox.

    Raises: NotFound.
    """
    row = tx.one(_sql.one, id=id_, tenant=asker.tenant, owner=asker.owner)
    if row is None:
        raise NotFound("there is no such inbox; list them with: oncebox inbox list")
    return _to_inbox(row)


def newest(
    tx: Transaction,
    asker: Requester,
    *,
    attempt_id: str | None = None,
    state: InboxState | None = None,
    before: str = _AFTER_ALL_IDS,
    most: int = 50,
) -> list[Inbox]:
    """Return inboxes, newest first."""
    where = {"tenant": asker.tenant, "state": state, "before": before, "most": most}
    if attempt_id is not None:
        query, where = _sql.newest_of_attempt, {**where, "attempt_id": attempt_id}
        return [_to_inbox(row) for row in tx.all(query, owner=asker.owner, **where)]
    if asker.owner is not None:
        return [_to_inbox(row) for row in tx.all(_sql.newest_of_owner, owner=asker.owner, **where)]
    return [_to_inbox(row) for row in tx.all(_sql.newest, **where)]


def close(tx: Transaction, asker: Requester, id_: str, until: int, now: int) -> bool:
    """Let an open inbox take mail until a moment and no longer; say whether it ended now."""
    name = {"id": id_, "tenant": asker.tenant, "owner": asker.owner}
    if until > now:
        tx.run(_sql.inboxes_drain, until=until, **name)
        return False
    return bool(tx.run(_sql.close, now=now, **name))


def set_successor(tx: Transaction, asker: Requester, id_: str, successor: str) -> bool:
    """Let another inbox take the place of this one; False if it is not there or has another."""
    return bool(
        tx.run(
            _sql.succeed,
            id=id_,
            tenant=asker.tenant,
            owner=asker.owner,
            successor=successor,
        )
    )


def attempt_stats(tx: Transaction, asker: Requester, attempt_id: str) -> AttemptInboxStats:
    """Return what came of an attempt.

    Raises: NotFound, when it has no inbox.
    """
    rows = tx.all(_sql.totals, tenant=asker.tenant, attempt_id=attempt_id, owner=asker.owner)
    if not rows:
        raise NotFound("there is no such attempt")
    return AttemptInboxStats(
        attempt_id=attempt_id,
        states={InboxState(row[0]): int(row[1]) for row in rows},
        messages=sum(int(row[2]) for row in rows),
        duplicates=sum(int(row[3]) for row in rows),
        matched=sum(int(row[4]) for row in rows),
        created_at=min(row[5] for row in rows),
        first_message_at=min((row[6] for row in rows if row[6] is not None), default=None),
        last_message_at=max((row[7] for row in rows if row[7] is not None), default=None),
        missed=sum(int(row[8]) for row in rows),
    )


def _insert_row(new: NewInbox) -> Row:
    return (
        new.id,
        new.email,
        new.email,
        new.email.rpartition("@")[2],
        new.attempt_id,
        new.label,
        new.active_until,
        msgspec.json.encode(new.metadata),
        msgspec.json.encode(new.policy),
        new.rotated_from,
    )


def _new_inbox(asker: Requester, new: NewInbox, now: int) -> Inbox:
    """Return an inbox as it is when it was just made."""
    return Inbox(
        id=new.id,
        tenant=asker.tenant,
        email=new.email,
        attempt_id=new.attempt_id,
        label=new.label,
        owner=asker.key,
        state=InboxState.ACTIVE,
        created_at=now,
        active_until=new.active_until,
        due_at=new.active_until,
        ended_at=None,
        metadata=new.metadata,
        policy=new.policy,
        cursor=0,
        duplicates=0,
        matched=0,
        first_message_at=None,
        last_message_at=None,
        missed_at=None,
        rotated_from=new.rotated_from,
        rotated_to=None,
    )


def _to_inbox(row: Row) -> Inbox:
    values = dict(zip(Inbox.__struct_fields__, row, strict=True))
    values["state"] = InboxState(values["state"])
    values["metadata"] = msgspec.json.decode(values["metadata"], type=dict[str, str])
    values["policy"] = msgspec.json.decode(values["policy"], type=InboxPolicy)
    return Inbox(**values)


class ExpiryResult(msgspec.Struct, frozen=True):
    """What one look brought."""

    #: inboxes that were looked at; as many as were asked for means that there may be more
    found: int
    #: inboxes whose time was over with nothing matched
    missed: int


def is_expiry_due(tx: Transaction, now: int) -> bool:
    """Say whether there is a step to take."""
    return tx.one(_sql.first_due, now=now) is not None


def expire(
    tx: Transaction, draining: int, now: int, most: int = 500, new_id: ids.NewId = ids.new
) -> ExpiryResult:
    """Take the next step with inboxes of all tenants that are due, at most so many."""
    due = [(row[0],) for row in tx.all(_sql.due, now=now, most=most)]
    if not due:
        return ExpiryResult(0, 0)
    # First what has drained: whatever begins to drain now has its step in the next look.
    late = tx.many(_sql.miss, due, now=now)
    ended = tx.many(_sql.finish, due, now=now)
    drained = tx.many(_sql.expiry_drain, due, now=now, draining=draining)
    missed = [*late, *(row for row in drained if row[3] is not None)]
    event_log.record(
        tx,
        [
            *(_missed_event(row, now, new_id) for row in missed),
            *(_ended_event(row, now, new_id) for row in ended),
        ],
    )
    return ExpiryResult(len(due), len(missed))


def _missed_event(row: Row, now: int, new_id: ids.NewId) -> NewEvent:
    id_, tenant, attempt_id, _, active_until, cursor = row
    return NewEvent(
        id=new_id("evt"),
        tenant=tenant,
        type="inbox.missed",
        inbox_id=id_,
        attempt_id=attempt_id,
        subject_id=id_,
        at=now,
        data={"active_until": active_until, "messages": cursor},
    )


def _ended_event(row: Row, now: int, new_id: ids.NewId) -> NewEvent:
    id_, tenant, attempt_id, state, cursor, matched = row
    return NewEvent(
        id=new_id("evt"),
        tenant=tenant,
        type=f"inbox.{state}",
        inbox_id=id_,
        attempt_id=attempt_id,
        subject_id=id_,
        at=now,
        data={"messages": cursor, "matched": matched},
    )
