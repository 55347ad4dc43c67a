"""The outbox: events are recorded in the commit that makes them true, without a number yet."""

from collections.abc import Sequence

import msgspec

from oncebox.model.event import NewEvent
from oncebox.store.database import Transaction
from oncebox.store.queries import load

_sql = load(__package__, "outbox.sql")

#: rings when events were recorded: there is something to number
EVENTS = "events"
#: rings when events were numbered: there is something to read
STREAM = "stream"


def record(tx: Transaction, events: Sequence[NewEvent]) -> None:
    """Record events; whoever does rings ``EVENTS`` after the commit."""
    rows = [
        (
            each.id, each.tenant, each.type, each.inbox_id, each.attempt_id, each.subject_id,
            each.at, msgspec.json.encode(each.data),
        )
        for each in events
    ]  # fmt: skip
    if rows:
        tx.run_many(_sql.record, rows)
