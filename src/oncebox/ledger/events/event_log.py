"""Event log: record events, number them in the order of commits, read them, delete the oldest.

See docs/decisions/0007-use-commit-order-for-message-and-event-numbers.md.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import count, repeat, takewhile
from typing import NamedTuple

import msgspec

from oncebox.core import faults
from oncebox.db.database import Row, Transaction
from oncebox.db.queries import load
from oncebox.errors import CursorTooOld, LeaseLost
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
    tx.send_many(_sql.record, rows)


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


# numbering: one process at a time, under a fenced lease
#
# Every numbering transaction writes the row of the lease first and so locks it until the commit: no
# other process numbers meanwhile, and one that lost the lease finds another fence there.

_DUTY = "sequencer"


class SequencerStatus(NamedTuple):
    """Whether there are events to number, and which process holds the lease."""

    work: bool
    holder: str
    fence: int
    until: int
    #: since when the oldest transaction writes, by the server's clock; 0 if none does
    writing_since: int


class Numbered(NamedTuple):
    """How many events were numbered, and the fence of the lease."""

    events: int
    fence: int


def sequencer_status(tx: Transaction, floor: str = "") -> SequencerStatus:
    """Return the state of the sequencer; ``floor`` is the lowest event id to look for."""
    row = tx.one(_sql.look, name=_DUTY, floor=floor)
    assert row is not None  # noqa: S101 - it has no condition
    return SequencerStatus(bool(row[0]), *row[1:])


def number_events(  # noqa: PLR0913 - the lease has four
    tx: Transaction,
    holder: str,
    fence: int,
    *,
    now: int,
    until: int,
    most: int = 500,
    floor: str = "",
) -> Numbered:
    """Number the next events from the id ``floor`` on, and hold the lease until ``until``.

    Fence 0 means that the caller does not hold the lease; it is acquired if it has expired.

    Raises: LeaseLost, if another process holds the lease; nothing was numbered.
    """
    fence = _acquire_sequencer(tx, holder, fence, now=now, until=until)
    fresh = _in_message_order(tx.all(_sql.fresh, most=most, floor=floor))
    numbers = _reserve_numbers(tx, [tenant for _, tenant in fresh])
    rows = [(id_, number) for (id_, _), number in zip(fresh, numbers, strict=True)]
    if tx.run_many(_sql.number, rows) != len(rows):
        # Rolled back, because a number without its event would be a gap.
        raise LeaseLost("another process numbered the same events")
    faults.point("sequencer.numbered")
    return Numbered(len(rows), fence)


def record_numbered(tx: Transaction, events: Sequence[NewEvent]) -> bool:
    """Record events with their numbers, if commits run one after the other; return whether.

    Else, and if other events wait for their numbers, the sequencer numbers them all. A serial
    transaction needs no lease: no other process can number before its commit.
    """
    if not tx.is_serial or not events or tx.one(_sql.waiting) != (0,):
        record(tx, events)
        return False
    numbers = _reserve_numbers(tx, [each.tenant for each in events])
    record(tx, events, numbers)
    return True


def _reserve_numbers(tx: Transaction, tenants: Sequence[str]) -> list[int]:
    """Return the next number for each of these tenants, in their order."""
    lengths = Counter(tenants)
    ends = tx.many(_sql.advance, sorted(lengths.items()))
    numbers = {str(tenant): count(last - lengths[tenant] + 1) for tenant, last in ends}
    return [next(numbers[tenant]) for tenant in tenants]


def release_sequencer(tx: Transaction, holder: str, fence: int) -> None:
    """Release the lease, so that another process need not wait until it expires."""
    tx.run(_sql.keep, name=_DUTY, holder=holder, fence=fence, until=0)


def _in_message_order(rows: list[Row]) -> list[tuple[str, str]]:
    """Return events and their tenants, message events of one inbox in the order of the messages.

    Their ids were made before the messages were numbered, perhaps by several clocks.
    """
    waiting: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for id_, _tenant, inbox, sequence in rows:
        if sequence is not None:
            waiting[str(inbox)].append((int(sequence), str(id_)))
    turns = {inbox: iter(sorted(several)) for inbox, several in waiting.items()}
    return [
        (str(id_) if sequence is None else next(turns[str(inbox)])[1], str(tenant))
        for id_, tenant, inbox, sequence in rows
    ]


def _acquire_sequencer(tx: Transaction, holder: str, fence: int, *, now: int, until: int) -> int:
    """Renew or acquire the lease; return its fence, with its row locked."""
    if fence:
        if tx.run(_sql.keep, name=_DUTY, holder=holder, fence=fence, until=until):
            return fence
    elif taken := tx.one(_sql.take, name=_DUTY, holder=holder, now=now, until=until):
        return int(taken[0])
    raise LeaseLost("another process numbers the events now")
