"""Inboxes as stored: insert, get, list, close, expire, statistics per attempt."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from oncebox.core import ids
from oncebox.db.database import Row, SentStatement, Transaction, Value
from oncebox.db.queries import load
from oncebox.errors import DatabaseBusy, NotFound
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.events import event_log
from oncebox.ledger.inboxes import retention
from oncebox.model.attempts import AttemptIds
from oncebox.model.events import NewEvent
from oncebox.model.inboxes.inbox import AttemptInboxStats, Inbox, InboxPolicy, InboxState

_sql = load(__package__, "inboxes.sql")

#: an attempt and a label, which together name one inbox
AttemptLabel = tuple[str, str]
#: sorts after every id
_AFTER_ALL_IDS = "~"


def add(tx: Transaction, requester: Requester, new: Iterable[Inbox], now: int) -> set[str]:
    """Insert new inboxes; return the ids of those that were inserted.

    The others have an address that was assigned before, an attempt that has an inbox with that
    label, or a domain that is not the tenant's.
    """
    # One order for all, so that two callers who add the same inboxes do not deadlock.
    ordered = sorted(new, key=lambda each: (each.attempt_id or "", each.label, each.id))
    rows = [
        (
            each.id, each.email, each.email, each.email.rpartition("@")[2], each.attempt_id,
            each.label, each.active_until, msgspec.json.encode(each.metadata),
            msgspec.json.encode(each.policy), each.rotated_from,
        )
        for each in ordered
    ]  # fmt: skip
    inserted = tx.many(_sql.add, rows, tenant=requester.tenant, owner=requester.key, now=now)
    added = {str(id_) for (id_,) in inserted}
    added -= retention.refuse_retired(
        tx, ((each.id, each.email) for each in ordered if each.id in added)
    )
    names = ("email", "label", "active_until", "rotated_from")
    event_log.record(
        tx,
        [
            _event(
                "inbox.created",
                (each.id, each.tenant, each.attempt_id),
                now,
                **{name: getattr(each, name) for name in names},
            )
            for each in ordered
            if each.id in added
        ],
    )
    return added


def of_attempts(
    tx: Transaction, tenant: str, pairs: Iterable[AttemptLabel]
) -> dict[AttemptLabel, Inbox]:
    """Return the current inboxes of attempts."""
    rows = tx.many(_sql.of_attempts, [(tenant, *pair) for pair in sorted(set(pairs))])
    found = map(_to_inbox, rows)
    return {(each.attempt_id or "", each.label): each for each in found}


def get(tx: Transaction, requester: Requester, id_: str) -> Inbox:
    """Return one inbox.

    Raises: NotFound.
    """
    row = tx.one(_sql.one, id=id_, tenant=requester.tenant, owner=requester.owner)
    if row is None:
        raise not_found()
    return _to_inbox(row)


def send_get(tx: Transaction, requester: Requester, id_: str) -> SentStatement:
    """Send the query for one inbox."""
    return tx.send(_sql.one, id=id_, tenant=requester.tenant, owner=requester.owner)


def found(sent: SentStatement) -> Inbox | NotFound:
    """Return the inbox that the query found, or the error."""
    rows = sent.rows()
    return _to_inbox(rows[0]) if rows else not_found()


def not_found() -> NotFound:
    """Return the error of a request for an inbox that the requester has not."""
    return NotFound("there is no such inbox; list them with: oncebox inbox list")


def newest(
    tx: Transaction,
    requester: Requester,
    *,
    attempt_id: str | None = None,
    state: InboxState | None = None,
    before: str = _AFTER_ALL_IDS,
    most: int = 50,
) -> list[Inbox]:
    """Return inboxes, newest first."""
    where: dict[str, Value] = {"tenant": requester.tenant, "before": before, "most": most}
    if attempt_id is not None:
        where |= {"attempt_id": attempt_id, "owner": requester.owner}
        rows = tx.all(_sql.newest_of_attempt, state=state, **where)
    elif requester.owner is not None:
        rows = tx.all(_sql.newest_of_owner, owner=requester.owner, state=state, **where)
    elif state is not None:
        rows = tx.all(_sql.newest_in_state, state=state, **where)
    else:
        rows = tx.all(_sql.newest, **where)
    return [_to_inbox(row) for row in rows]


def close(tx: Transaction, requester: Requester, id_: str, until: int, now: int) -> None:
    """Let an open inbox accept mail until a moment; if that is over, close it now."""
    name = {"id": id_, "tenant": requester.tenant, "owner": requester.owner}
    if until > now:
        tx.run(_sql.inboxes_drain, until=until, **name)
    elif tx.run(_sql.close, now=now, **name):
        # Read again: only now, under the lock of its row, are the counters final.
        last = get(tx, requester, id_)
        inbox = (last.id, last.tenant, last.attempt_id)
        data = {"messages": last.cursor, "matched": last.matched}
        event_log.record(tx, [_event("inbox.closed", inbox, now, **data)])


def set_successor(tx: Transaction, requester: Requester, id_: str, successor: str) -> bool:
    """Replace an inbox by another; return False if it is missing or has a successor."""
    name = {"id": id_, "tenant": requester.tenant, "owner": requester.owner}
    return bool(tx.run(_sql.succeed, successor=successor, **name))


def stored_policy(tx: Transaction, requester: Requester, id_: str) -> bytes:
    """Return the policy of an inbox, encoded as it is stored.

    Raises: NotFound.
    """
    name = {"id": id_, "tenant": requester.tenant, "owner": requester.owner}
    row = tx.one(_sql.policy, **name)
    if row is None:
        raise not_found()
    return bytes(row[0])


def set_policy(
    tx: Transaction, requester: Requester, id_: str, policy: InboxPolicy, *, stored: bytes
) -> None:
    """Replace the stored policy of an open inbox, provided nobody has changed it since.

    Raises: DatabaseBusy.
    """
    name = {"id": id_, "tenant": requester.tenant, "owner": requester.owner}
    encoded = msgspec.json.encode(policy)
    if not tx.run(_sql.set_policy, policy=encoded, stored=stored, **name):
        raise DatabaseBusy("the inbox was changed at the same time; try again")


def keep_original_policy(tx: Transaction, rotated: Inbox) -> None:
    """Let an inbox remember with which policy the one before it was created."""
    name = {"id": rotated.id, "tenant": rotated.tenant}
    tx.run(_sql.keep_original, rotated_from=rotated.rotated_from, **name)


def original_policies(tx: Transaction, inboxes: Iterable[Inbox]) -> dict[str, InboxPolicy]:
    """Return the policies with which inboxes were created, by id, where they were changed."""
    rows = tx.many(_sql.originals, sorted((each.id, each.tenant) for each in inboxes))
    return {str(id_): msgspec.json.decode(policy, type=InboxPolicy) for id_, policy in rows}


def attempt_stats(tx: Transaction, requester: Requester, ids: AttemptIds) -> AttemptInboxStats:
    """Return the statistics of the inboxes of an attempt or a batch.

    Raises: NotFound, when it has no inbox.
    """
    rows = tx.all(
        _sql.totals,
        tenant=requester.tenant,
        owner=requester.owner,
        lowest=ids.lowest,
        highest=ids.highest,
    )
    if not rows:
        raise NotFound("there is no such attempt")
    return AttemptInboxStats(
        attempt_id=ids.name,
        states={InboxState(row[0]): int(row[1]) for row in rows},
        messages=sum(int(row[2]) for row in rows),
        duplicates=sum(int(row[3]) for row in rows),
        matched=sum(int(row[4]) for row in rows),
        created_at=min(row[5] for row in rows),
        first_message_at=min((row[6] for row in rows if row[6] is not None), default=None),
        last_message_at=max((row[7] for row in rows if row[7] is not None), default=None),
        missed=sum(int(row[8]) for row in rows),
        reached=sum(int(row[9]) for row in rows),
        waited=sum(int(row[10] or 0) for row in rows),
        longest_wait=max((int(row[11]) for row in rows if row[11] is not None), default=None),
    )


def _to_inbox(row: Row) -> Inbox:
    values = dict(zip(Inbox.__struct_fields__, row, strict=True))
    values["state"] = InboxState(values["state"])
    values["metadata"] = msgspec.json.decode(values["metadata"], type=dict[str, str])
    values["policy"] = msgspec.json.decode(values["policy"], type=InboxPolicy)
    return Inbox(**values)


class ExpiryResult(msgspec.Struct, frozen=True):
    """The result of one expiry step."""

    #: due inboxes; as many as the limit means that there may be more
    found: int
    #: inboxes that ended without a matching message
    missed: int


def is_expiry_due(tx: Transaction, now: int) -> bool:
    """Return whether an inbox is due."""
    return tx.one(_sql.first_due, now=now) is not None


def expire(tx: Transaction, draining: int, now: int, most: int = 500) -> ExpiryResult:
    """Drain or end the inboxes of all tenants that are due, up to a limit."""
    due = [(row[0],) for row in tx.all(_sql.due, now=now, most=most)]
    if not due:
        return ExpiryResult(0, 0)
    # Drained ones first: an inbox that begins to drain now ends in a later step.
    late = tx.many(_sql.miss, due, now=now)
    ended = tx.many(_sql.finish, due, now=now)
    drained = tx.many(_sql.expiry_drain, due, now=now, draining=draining)
    missed = [*late, *(row for row in drained if row[3] is not None)]
    events = [
        _event("inbox.missed", inbox, now, active_until=active_until, messages=cursor)
        for *inbox, _, active_until, cursor in missed
    ]
    events += [
        _event(f"inbox.{state}", inbox, now, messages=cursor, matched=matched)
        for *inbox, state, cursor, matched in ended
    ]
    event_log.record(tx, events)
    return ExpiryResult(len(due), len(missed))


def _event(type_: str, inbox: Sequence[Any], now: int, **data: str | int | None) -> NewEvent:
    id_, tenant, attempt_id = inbox
    return NewEvent(
        id=ids.new("evt"),
        tenant=tenant,
        type=type_,
        inbox_id=id_,
        attempt_id=attempt_id,
        subject_id=id_,
        at=now,
        data=data,
    )
