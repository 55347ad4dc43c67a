"""Fail-open sends: merging the spool of mail sent while the ledger was down.

Merging is idempotent: each key counts once.
See docs/decisions/0035-use-an-encrypted-spool-for-fail-open-sends.md.
"""

from collections.abc import Sequence

import msgspec

from oncebox.db.database import Transaction
from oncebox.db.queries import load
from oncebox.ledger.events import event_log
from oncebox.ledger.sends import lifecycle, sends, submission
from oncebox.model.events import EventType
from oncebox.model.sends.send import (
    IntentAccepted,
    NewSend,
    OnUnknown,
    Send,
    SendLimits,
    SendReport,
)
from oncebox.model.sends.transports import SendAccepted, SendOutcome, SendRejected

_sql = load(__package__, "fail_open.sql")


class SpooledSend(msgspec.Struct, frozen=True, kw_only=True):
    """A mail that was, or may have been, sent without the ledger."""

    new: NewSend
    #: when it was sent
    at: int
    outcome: SendOutcome
    #: until when the provider certainly remembers the key
    replay_until: int | None = None


def merge(tx: Transaction, spooled: Sequence[SpooledSend], now: int) -> list[Send]:
    """Record mail sent without the ledger; return the sends."""
    merged = [_merge_one(tx, each, now) for each in spooled]
    fields = ("state", "event_type", "transport")
    events = [sends.send_event(each, EventType.SEND_FAIL_OPEN, now, *fields) for each in merged]
    event_log.record(tx, events)
    return merged


def _merge_one(tx: Transaction, spooled: SpooledSend, now: int) -> Send:
    key = (spooled.new.tenant, spooled.new.key)
    known = submission.sends_by_key(tx, [key]).get(key)
    created = known is None
    send = known or _store_intent(tx, spooled, now)
    # A rejected try without the ledger does not affect the ledger's own tries.
    if isinstance(spooled.outcome, SendRejected) and not created:
        return send
    replay_until = spooled.replay_until if created and _may_replay(spooled, send) else None
    row = tx.one(
        _sql.begin,
        tenant=send.tenant,
        id=send.id,
        worker="fail_open",
        at=spooled.at,
        replay_until=replay_until,
        now=now,
    )
    if row is None and not isinstance(spooled.outcome, SendAccepted):
        tx.run(_sql.doubt_beside, tenant=send.tenant, id=send.id, at=spooled.at)
        return sends.get(tx, send.tenant, send.id)
    fence = 0 if row is None else int(row[0])  # proof needs no fence
    report = SendReport(
        tenant=send.tenant,
        id=send.id,
        fence=fence,
        outcome=spooled.outcome,
        due_at=None if replay_until is None else now,
    )
    (settled,) = lifecycle.settle(tx, [report], now)
    return send if settled is None else settled.send


def _may_replay(spooled: SpooledSend, send: Send) -> bool:
    """Tell whether a repeat would be the same request: same bytes, transport and provider key."""
    is_same = send.id == spooled.new.id and send.transport == spooled.new.transport
    return is_same and send.epoch == 0 and send.on_unknown is OnUnknown.REPLAY


def _store_intent(tx: Transaction, spooled: SpooledSend, now: int) -> Send:
    """Store an intent the ledger has not seen; limits no longer apply."""
    new = msgspec.structs.replace(spooled.new, guards=SendLimits())
    for transport in (new.transport, ""):  # the transport may have been removed
        (result,) = submission.store_intents(
            tx, [msgspec.structs.replace(new, transport=transport)], now
        )
        if isinstance(result, IntentAccepted):
            return result.send
    raise sends.not_found()
