"""How an inbox is told: as a line, as an outline, as JSON."""

from collections.abc import Iterator
from typing import Any

import msgspec

from oncebox.cli.escape import to_json
from oncebox.cli.words import duration, moment
from oncebox.model.inbox import Inbox
from oncebox.model.inbox_stats import time_to_first_message

COLUMNS = ("inbox", "state", "address", "attempt", "label", "messages", "matched", "until")
_TIMES = {
    "made": "created_at",
    "active until": "active_until",
    "ended": "ended_at",
    "missed": "missed_at",
    "first message": "first_message_at",
    "last message": "last_message_at",
}


def record(inbox: Inbox) -> dict[str, Any]:
    """Return an inbox for JSON; the policy with all its fields."""
    found = msgspec.structs.asdict(inbox)
    found["policy"] = msgspec.structs.asdict(inbox.policy)
    found["messages"] = inbox.cursor
    return found


def told(inbox: Inbox) -> tuple[object, ...]:
    """Return an inbox as the cells of a line."""
    return (
        inbox.id,
        inbox.state,
        inbox.email,
        inbox.attempt_id,
        inbox.label,
        inbox.cursor,
        inbox.matched,
        None if inbox.due_at is None else moment(inbox.due_at),
    )


def lines(inbox: Inbox) -> Iterator[tuple[object, ...]]:
    """Tell an inbox line by line, each beginning with what it is about."""
    yield ("inbox", inbox.id)
    yield ("address", inbox.email)
    yield ("tenant", inbox.tenant)
    yield ("state", inbox.state)
    for name in ("attempt_id", "label", "owner", "rotated_from", "rotated_to"):
        if getattr(inbox, name):
            yield (name.removesuffix("_id").replace("_", " "), getattr(inbox, name))
    for name, field in _TIMES.items():
        at = getattr(inbox, field)
        if at is not None:
            yield (name, moment(at))
    yield ("messages", inbox.cursor, f"{inbox.matched} matched, {inbox.duplicates} copies")
    first = time_to_first_message(inbox)
    if first is not None:
        yield ("first after", duration(first))
    yield from _wanted(inbox)


def _wanted(inbox: Inbox) -> Iterator[tuple[object, ...]]:
    """Tell what its maker wrote of it."""
    for name, value in inbox.metadata.items():
        yield ("metadata", name, value)
    for name, value in msgspec.structs.asdict(inbox.policy).items():
        if value:
            yield (name.replace("_", " "), value if isinstance(value, str) else to_json(value))
