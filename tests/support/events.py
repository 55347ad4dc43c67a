"""Events and inboxes by hand, for tests that only need them to be there."""

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec

from oncebox.core import ids
from oncebox.db.database import Transaction
from oncebox.ledger.events import event_log
from oncebox.model.events import Event, EventFilter, NewEvent
from tests.support.clerk import START, TENANT

LEASE = 5_000
_numbers = itertools.count(1)


def new(
    subject: str = "", *, tenant: str = TENANT, type_: str = "test.happened", **rest: Any
) -> NewEvent:
    """Return an event that was not recorded yet."""
    number = next(_numbers)
    values = {"at": START, "data": {"count": number}, **rest}
    return NewEvent(
        id=ids.new("evt"),
        tenant=tenant,
        type=type_,
        subject_id=subject or f"sub_{number}",
        **values,
    )


def record(tx: Transaction, *events: NewEvent) -> None:
    """Record events."""
    event_log.record(tx, events)


def number(
    tx: Transaction, holder: str = "ann", fence: int = 0, *, now: int = START, most: int = 500
) -> event_log.Numbered:
    """Number events as one who takes the duty, or has it."""
    return event_log.number_events(tx, holder, fence, now=now, until=now + LEASE, most=most)


def number_all(tx: Transaction) -> None:
    """Number everything, whoever has the duty."""
    tx.execute("UPDATE oncebox_duties SET until = 0")
    number(tx, most=100_000)


def read(tx: Transaction, /, after: int | None = None, **wanted: Any) -> list[Event]:
    """Read a whole stream from a number on."""
    found: list[Event] = []
    selection = EventFilter(**{"tenant": TENANT, **wanted})
    while True:
        part = event_log.read(tx, selection, after, 7)
        found += part.events
        after = part.up_to
        if not part.has_more:
            return found


def subjects(events: Sequence[NewEvent]) -> list[str]:
    """Return what events are about."""
    return [each.subject_id for each in events]


def put_inbox(
    tx: Transaction,
    id_: str,
    *,
    tenant: str = TENANT,
    owner: str | None = None,
    metadata: dict[str, str] | None = None,
) -> None:
    """Write the row of an inbox."""
    place = "?" if "sqlite" in type(tx).__name__.lower() else "%s"
    tx.execute(
        "INSERT INTO oncebox_inboxes (id, tenant, email, address, owner, state, created_at, "  # noqa: S608 - placeholders only
        f"metadata, policy) VALUES ({', '.join([place] * 9)})",
        (
            id_, tenant, f"{id_}@oncebox.test", f"{id_}@oncebox.test", owner, "active", START,
            msgspec.json.encode(metadata or {}), b"{}",
        ),
    )  # fmt: skip
