"""Event log: record events without a number, read numbered ones, delete the oldest."""

from collections.abc import Iterable, Sequence
from itertools import repeat, takewhile

import msgspec

from oncebox.db.database import Row, Transaction
from oncebox.db.queries import load
from oncebox.errors import CursorTooOld
from oncebox.model.events import Event, EventBatch, EventData, EventFilter, NewEvent

_sql = load(__package__, "event_log.sql")


def record(
    tx: Transaction, events: Sequence[NewEvent], numbers: Iterable[int | None] = repeat(None)
) -> None:
    """Record events; the caller notifies ``EVENTS`` after the commit, if they have no numbers."""
    rows = [
        (
            each.id, each.tenant, each.type, each.inbox_id, each.attempt_id, each.subject_id,
            each.at, msgspec.json.encode(each.data), number,
        )
        for each, number in zip(events, numbers, strict=False)
    ]  # fmt: skip
    if rows:
        tx.run_many(_sql.record, rows)


#: numbers scanned for one batch if a filter may exclude most events
_WINDOW = 2_000
_DATA = msgspec.json.Decoder(EventData)
_METADATA = msgspec.json.Decoder(dict[str, str])


class StreamBounds(msgspec.Struct, frozen=True):
    """The last and the first number of a stream."""

    last: int = 0
    first: int = 1


def bounds(tx: Transaction, tenant: str) -> StreamBounds:
    """Return the bounds of a stream."""
    row = tx.one(_sql.ends, tenant=tenant)
    return StreamBounds(*row) if row else StreamBounds()


def read(tx: Transaction, wanted: EventFilter, after: int | None, most: int) -> EventBatch:
    """Return the wanted events after a number, or from the beginning of the stream.

    The batch may be empty although there are more: ``up_to`` says how far was scanned.

    Raises: CursorTooOld, if events after that number were deleted.
    """
    begin = bounds(tx, wanted.tenant).first - 1 if after is None else after
    # Numbers have no gaps, so an unfiltered read scans exactly as many as it returns.
    upto = begin + (most if wanted.is_unfiltered else _WINDOW)
    rows = tx.all(
        _sql.read,
        tenant=wanted.tenant,
        after=begin,
        upto=upto,
        types=_listed(wanted.types),
        inbox_id=wanted.inbox_id,
        attempt_id=wanted.attempt_id,
        owner=wanted.owner,
        most=most,
    )
    # The bounds are read in the same statement as the events.
    last, first = rows[0][:2] if rows else (0, 1)
    if after is not None:
        _refuse_gap(after, StreamBounds(last, first))
    events = tuple(_event(wanted.tenant, row[2:]) for row in rows if row[2] is not None)
    reached = events[-1].number if len(events) == most else max(begin, min(upto, last))
    return EventBatch(events=events, up_to=reached, last=last)


def advanced(tx: Transaction, seen: Sequence[tuple[str, int]]) -> dict[str, int]:
    """Return the streams with events after these numbers, with their last numbers."""
    return dict(tx.many(_sql.moved, sorted(seen)))


def forget(tx: Transaction, before: int, most: int = 1_000) -> int:
    """Delete the oldest events of every stream, up to the first recent one; return how many.

    Never one from the middle: a cursor must show whether its reader missed events.
    """
    gone = 0
    for (tenant,) in tx.all(_sql.tenants):
        oldest = tx.all(_sql.oldest, tenant=tenant, most=most - gone)
        old = [number for number, _ in takewhile(lambda row: row[1] <= before, oldest)]
        if old:
            gone += tx.run(_sql.forget, tenant=tenant, upto=old[-1])
        if gone >= most:
            break
    return gone


def _refuse_gap(after: int, found: StreamBounds) -> None:
    if found.first > after + 1:
        raise CursorTooOld(
            "events after this cursor were deleted; read the current state, then continue without "
            "a cursor"
        )
    if found.last < after:
        raise CursorTooOld(
            "the stream ends before this cursor: was a backup restored? read the current state, "
            "then continue without a cursor"
        )


def _listed(types: frozenset[str]) -> str | None:
    return f",{','.join(sorted(types))}," if types else None


def _event(tenant: str, row: Row) -> Event:
    number, id_, type_, inbox_id, attempt_id, subject_id, at, data, metadata, owner = row
    return Event(
        id=id_,
        tenant=tenant,
        type=type_,
        inbox_id=inbox_id,
        attempt_id=attempt_id,
        subject_id=subject_id,
        at=at,
        data=_DATA.decode(data),
        number=number,
        metadata=_METADATA.decode(metadata) if metadata else {},
        owner=owner,
    )
