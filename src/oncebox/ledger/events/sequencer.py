"""Sequencer: one process at a time, under a fenced lease, numbers recorded events.

Every numbering transaction writes the row of the lease first and so locks it until the commit: no
other process numbers meanwhile, and one that lost the lease finds another fence there.
See docs/decisions/0007-use-commit-order-for-message-and-event-numbers.md.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

from oncebox.core import faults
from oncebox.db.database import Row, Transaction
from oncebox.db.queries import load
from oncebox.errors import LeaseLost
from oncebox.ledger.events import event_log
from oncebox.model.events import NewEvent

_sql = load(__package__, "sequencer.sql")

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


def status(tx: Transaction, floor: str = "") -> SequencerStatus:
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
        event_log.record(tx, events)
        return False
    numbers = _reserve_numbers(tx, [each.tenant for each in events])
    event_log.record(tx, events, numbers)
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
