"""Event log: record events without a number, read numbered ones, delete the oldest."""

from collections.abc import Sequence
from itertools import takewhile

import msgspec

from oncebox.db.database import Row, Transaction
from oncebox.db.queries import load
from oncebox.errors import CursorTooOld
from oncebox.model.events import Event, EventBatch, EventData, EventFilter, NewEvent

_sql = load(__package__, "event_log.sql")


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


#: numbers that are looked at for one part, where most of the events may not be wanted
_WINDOW = 2_000
_DATA = msgspec.json.Decoder(EventData)
_METADATA = msgspec.json.Decoder(dict[str, str])


class StreamBounds(msgspec.Struct, frozen=True):
    """The last number of a stream, and the first that is still there."""

    last: int = 0
    first: int = 1


def bounds(tx: Transaction, tenant: str) -> StreamBounds:
    """Return where a stream ends, and where it begins by now."""
    row = tx.one(_sql.ends, tenant=tenant)
    return StreamBounds(*row) if row else StreamBounds()


def read(tx: Transaction, wanted: EventFilter, after: int | None, most: int) -> EventBatch:
    """Return the wanted events after a number, or from the first one that is still there.

    It may be none of them although there are more: ``upto`` says how far was looked.

    Raises: CursorTooOld, when events after that number are gone.
    """
    begin = bounds(tx, wanted.tenant).first - 1 if after is None else after
    # Numbers have no gaps, so that of a whole stream exactly as many are looked at.
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
    # The ends come with the events, as they were at the very same moment.
    last, first = rows[0][:2] if rows else (0, 1)
    if after is not None:
        _refuse_gap(after, StreamBounds(last, first))
    events = tuple(_event(wanted.tenant, row[2:]) for row in rows if row[2] is not None)
    reached = events[-1].number if len(events) == most else max(begin, min(upto, last))
    return EventBatch(events=events, up_to=reached, last=last)


def advanced(tx: Transaction, seen: Sequence[tuple[str, int]]) -> dict[str, int]:
    """Return the streams that go on after these numbers, with their last ones."""
    return dict(tx.many(_sql.moved, sorted(seen)))


def forget(tx: Transaction, before: int, most: int = 1_000) -> int:
    """Let the oldest events of every stream go, up to the first that is not old; say how many.

    Never one from the middle: a reader's cursor must tell whether it missed something.
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
    """Refuse to go on where something was missed."""
    if found.first > after + 1:
        raise CursorTooOld(
            "events after this cursor are no longer kept; look at the present state, then go on "
            "without a cursor"
        )
    if found.last < after:
        raise CursorTooOld(
            "the stream does not reach to this cursor any more: was a backup restored? look at "
            "the present state, then go on without a cursor"
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
