"""What stands in the database about mail, read by the driver alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.torture.ledger.books import Rows, ask_once

_MESSAGES = """
SELECT one.id, box.email, one.sender, one.sequence, one.status, one.duplicates
FROM oncebox_messages AS one JOIN oncebox_inboxes AS box ON box.id = one.inbox_id
ORDER BY one.inbox_id, one.sequence
"""
_INBOXES = "SELECT email, cursor FROM oncebox_inboxes"
_EVENTS = """
SELECT subject_id, number FROM oncebox_events WHERE type = 'message.received' ORDER BY number
"""
_NUMBERS = "SELECT tenant, number FROM oncebox_events ORDER BY tenant, number"
_STREAMS = "SELECT tenant, last FROM oncebox_streams"
_COPIES = "SELECT message_id, delivery_id FROM oncebox_copies"
_DELIVERIES = "SELECT id, state FROM oncebox_deliveries WHERE source = '@mail'"
_OPEN = """
SELECT COUNT(*) FROM oncebox_deliveries WHERE state IN ('received', 'processing', 'failed')
UNION ALL SELECT COUNT(*) FROM oncebox_events WHERE number IS NULL
"""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of an inbox."""

    id: str
    inbox: str
    sender: str
    sequence: int
    status: str
    duplicates: int


@dataclass(frozen=True, slots=True)
class PostBooks:
    """Everything in the database that the promises about mail speak of."""

    messages: Sequence[Message]
    #: Address of an inbox, and the number of its last message.
    cursors: dict[str, int]
    #: The message that an event tells of, and the event's number.
    told: Sequence[tuple[str, int | None]]
    #: Numbers of all events, by tenant.
    numbers: dict[str, list[int | None]]
    #: The last number of each tenant.
    lasts: dict[str, int]
    #: A message, and a delivery that brought it.
    copies: Sequence[tuple[str, str]]
    #: Deliveries of mail, and their states.
    deliveries: dict[str, str]


def read_post_books(url: str) -> PostBooks:
    """Read all that is there; nobody writes to it now."""
    numbers: dict[str, list[int | None]] = {}
    for tenant, number in ask_once(url, _NUMBERS):
        numbers.setdefault(tenant, []).append(number)
    return PostBooks(
        messages=[Message(*row) for row in ask_once(url, _MESSAGES)],
        cursors=dict(_pairs(ask_once(url, _INBOXES))),
        told=_pairs(ask_once(url, _EVENTS)),
        numbers=numbers,
        lasts=dict(_pairs(ask_once(url, _STREAMS))),
        copies=_pairs(ask_once(url, _COPIES)),
        deliveries=dict(_pairs(ask_once(url, _DELIVERIES))),
    )


def count_open(url: str) -> int:
    """Return how many mails are still to be read, and events to be numbered."""
    return sum(int(row[0]) for row in ask_once(url, _OPEN))


def _pairs(rows: Rows) -> list[tuple[Any, Any]]:
    return [(first, second) for first, second in rows]
