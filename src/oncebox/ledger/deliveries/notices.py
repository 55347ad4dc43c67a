"""Notices: what the outside is told when a delivery ends badly, in the commit that ends it."""

from collections.abc import Iterable
from typing import NamedTuple

from oncebox import ids
from oncebox.ledger.events import outbox
from oncebox.model.delivery import Outcome, State
from oncebox.model.event import EventType, NewEvent
from oncebox.store.database import Transaction

#: states that somebody should hear of
_TYPES = {State.DEAD: EventType.DELIVERY_DEAD, State.HELD: EventType.DELIVERY_HELD}


class Ended(NamedTuple):
    """A delivery whose try has ended, and how."""

    id: str
    tenant: str
    source: str
    state: State
    outcome: Outcome
    tries: int


def are_due(state: State) -> bool:
    """Say whether the outside is told of this state."""
    return state in _TYPES


def record(tx: Transaction, ended: Iterable[Ended], now: int) -> None:
    """Tell of deliveries that are dead or held now.

    Not of their keys, types and errors: others wrote those.
    """
    outbox.record(tx, [_notice(each, now) for each in ended if are_due(each.state)])


def _notice(ended: Ended, now: int) -> NewEvent:
    return NewEvent(
        id=ids.new("evt"),
        tenant=ended.tenant,
        type=_TYPES[ended.state],
        subject_id=ended.id,
        at=now,
        data={"source": ended.source, "outcome": str(ended.outcome), "tries": ended.tries},
    )
