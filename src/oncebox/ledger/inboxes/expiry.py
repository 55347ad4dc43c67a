"""Expiry: inboxes whose time is over drain, and those that have drained end."""

import msgspec

from oncebox import ids
from oncebox.ledger.events import outbox
from oncebox.model.event import NewEvent
from oncebox.store.database import Row, Transaction
from oncebox.store.queries import load

_sql = load(__package__, "expiry.sql")


class Turned(msgspec.Struct, frozen=True):
    """What one look brought."""

    #: inboxes that were looked at; as many as were asked for means that there may be more
    found: int
    #: inboxes whose time was over with nothing matched
    missed: int


def is_due(tx: Transaction, now: int) -> bool:
    """Say whether there is a step to take."""
    return tx.one(_sql.first_due, now=now) is not None


def turn(
    tx: Transaction, draining: int, now: int, most: int = 500, new_id: ids.NewId = ids.new
) -> Turned:
    """Take the next step with inboxes of all tenants that are due, at most so many."""
    due = [(row[0],) for row in tx.all(_sql.due, now=now, most=most)]
    if not due:
        return Turned(0, 0)
    # First what has drained: whatever begins to drain now has its step in the next look.
    late = tx.many(_sql.miss, due, now=now)
    ended = tx.many(_sql.finish, due, now=now)
    drained = tx.many(_sql.drain, due, now=now, draining=draining)
    missed = [*late, *(row for row in drained if row[3] is not None)]
    outbox.record(
        tx,
        [
            *(_missed(row, now, new_id) for row in missed),
            *(_ended(row, now, new_id) for row in ended),
        ],
    )
    return Turned(len(due), len(missed))


def _missed(row: Row, now: int, new_id: ids.NewId) -> NewEvent:
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


def _ended(row: Row, now: int, new_id: ids.NewId) -> NewEvent:
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
