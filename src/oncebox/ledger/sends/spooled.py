"""Spooled sends: what was sent past the ledger is written down, as soon as it can be.

Doing so twice changes nothing: a key counts once, and what is known of it stays known.
"""

from collections.abc import Sequence

import msgspec

from oncebox import ids
from oncebox.ledger.events import outbox
from oncebox.ledger.sends import intents, sends, settlements
from oncebox.model.event import EventType, NewEvent
from oncebox.model.guards import Guards
from oncebox.model.outcome import Accepted, Rejected
from oncebox.model.send import Intended, Send, SendWord
from oncebox.model.spooled import Spooled
from oncebox.store.database import Transaction
from oncebox.store.queries import load

_sql = load(__package__, "spooled.sql")

#: who has handed over, as its tries tell
_WORKER = "fail_open"
_NO_GUARDS = Guards()


def merge(
    tx: Transaction, spooled: Sequence[Spooled], now: int, new_id: ids.NewId = ids.new
) -> list[Send]:
    """Write down what was sent past the ledger; return how those sends stand."""
    merged = [_merge(tx, each, now) for each in spooled]
    outbox.record(tx, [_event(each, now, new_id) for each in merged])
    return merged


def _merge(tx: Transaction, spooled: Spooled, now: int) -> Send:
    key = (spooled.new.tenant, spooled.new.key)
    known = sends.by_keys(tx, [key]).get(key)
    created = known is None
    stands = known or _stored(tx, spooled, now)
    # What the ledger has tried, or will try, is no less worth because another try was rejected.
    if isinstance(spooled.outcome, Rejected) and not created:
        return stands
    row = tx.one(
        _sql.begin, tenant=stands.tenant, id=stands.id, worker=_WORKER, at=spooled.at, now=now
    )
    if row is None and not isinstance(spooled.outcome, Accepted):
        tx.run(_sql.doubt_beside, tenant=stands.tenant, id=stands.id, at=spooled.at)
        return sends.get(tx, stands.tenant, stands.id)
    fence = 0 if row is None else int(row[0])  # proof needs none
    word = SendWord(tenant=stands.tenant, id=stands.id, fence=fence, outcome=spooled.outcome)
    (settled,) = settlements.settle(tx, [word], now)
    return stands if settled is None else settled.send


def _stored(tx: Transaction, spooled: Spooled, now: int) -> Send:
    """Store an intent that nobody has asked the ledger for; its guards are too late."""
    new = msgspec.structs.replace(spooled.new, guards=_NO_GUARDS)
    for transport in (new.transport, ""):  # the way may be gone meanwhile
        (told,) = intents.intend(tx, [msgspec.structs.replace(new, transport=transport)], now)
        if isinstance(told, Intended):
            return told.send
    raise sends.missing()


def _event(send: Send, now: int, new_id: ids.NewId) -> NewEvent:
    return NewEvent(
        id=new_id("evt"),
        tenant=send.tenant,
        type=EventType.SEND_FAIL_OPEN,
        attempt_id=send.attempt_id,
        subject_id=send.id,
        at=now,
        data={"state": send.state, "event_type": send.event_type, "transport": send.transport},
    )
