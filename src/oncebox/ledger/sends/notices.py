"""Notices: what the outside is told of sends; typed fields only, and no address."""

from collections.abc import Iterable

from oncebox import ids
from oncebox.ledger.events import outbox
from oncebox.model.event import EventType, NewEvent
from oncebox.model.send import Send, SendState
from oncebox.store.database import Transaction

_TYPES = {
    SendState.SENT: EventType.SEND_SENT,
    SendState.FAILED: EventType.SEND_FAILED,
    SendState.UNKNOWN: EventType.SEND_UNKNOWN,
    SendState.SUPPRESSED: EventType.SEND_SUPPRESSED,
    SendState.CANCELLED: EventType.SEND_CANCELLED,
    SendState.EXPIRED: EventType.SEND_EXPIRED,
    SendState.LOGGED: EventType.SEND_LOGGED,
}


def record(tx: Transaction, sends: Iterable[Send], now: int, new_id: ids.NewId = ids.new) -> None:
    """Record how sends stand that have just ended, or wait for evidence or a person."""
    outbox.record(tx, [_event(each, now, new_id) for each in sends if _is_told(each)])


def _is_told(send: Send) -> bool:
    # What is repeated by itself, as was chosen, waits for nobody.
    return send.state in _TYPES and send.again is None


def _event(send: Send, now: int, new_id: ids.NewId) -> NewEvent:
    return NewEvent(
        id=new_id("evt"),
        tenant=send.tenant,
        type=_TYPES[send.state],
        attempt_id=send.attempt_id,
        subject_id=send.id,
        at=now,
        data={
            "state": send.state,
            "event_type": send.event_type,
            "transport": send.transport,
            "message_id": send.message_id,
            "provider_id": send.provider_id,
            "tries": send.tries,
            "code": send.code,
        },
    )
