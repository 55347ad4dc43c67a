"""Sequencer: one process at a time, under a fenced lease, numbers recorded events.

The duty's row is written first in every transaction that numbers, so it is locked until the
commit: nobody else numbers meanwhile, and who lost the duty finds another fence there.
"""

from collections import Counter, defaultdict
from itertools import count
from typing import NamedTuple

from oncebox.core import faults
from oncebox.db.database import Row, Transaction
from oncebox.db.queries import load
from oncebox.errors import LeaseLost

_sql = load(__package__, "sequencer.sql")

_DUTY = "sequencer"


class SequencerStatus(NamedTuple):
    """How things stand: whether there is anything to number, and whose duty that is."""

    work: bool
    holder: str
    fence: int
    until: int


class Numbered(NamedTuple):
    """How many events got their numbers, and the fence under which they did."""

    events: int
    fence: int


def status(tx: Transaction) -> SequencerStatus:
    """Say how things stand."""
    row = tx.one(_sql.look, name=_DUTY)
    assert row is not None  # noqa: S101 - it has no condition
    return SequencerStatus(bool(row[0]), *row[1:])


def number_events(
    tx: Transaction, holder: str, fence: int, *, now: int, until: int, most: int = 500
) -> Numbered:
    """Give the next events their numbers, under a duty that is kept until then.

    Fence 0 is for one who does not have the duty yet; it is taken where its time is over.

    Raises: LeaseLost, when the duty is somebody else's; nothing was numbered.
    """
    fence = _acquire_duty(tx, holder, fence, now=now, until=until)
    fresh = _in_message_order(tx.all(_sql.fresh, most=most))
    lengths = Counter(tenant for _, tenant in fresh)
    ends = tx.many(_sql.advance, sorted(lengths.items()))
    numbers = {str(tenant): count(last - lengths[tenant] + 1) for tenant, last in ends}
    rows = [(id_, next(numbers[tenant])) for id_, tenant in fresh]
    if tx.run_many(_sql.number, rows) != len(rows):
        raise LeaseLost(
            "somebody else numbered the same events"
        )  # which undoes it all: a number without its event is a gap
    faults.point("sequencer.numbered")
    return Numbered(len(rows), fence)


def release_duty(tx: Transaction, holder: str, fence: int) -> None:
    """Leave the duty to whoever wants it, without a wait."""
    tx.run(_sql.keep, name=_DUTY, holder=holder, fence=fence, until=0)


def _in_message_order(rows: list[Row]) -> list[tuple[str, str]]:
    """Return events and their tenants, those of one inbox's messages in the messages' order.

    Their ids were drawn before the messages had their numbers, perhaps by several clocks.
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


def _acquire_duty(tx: Transaction, holder: str, fence: int, *, now: int, until: int) -> int:
    """Keep the duty, or take it; return its fence, with its row locked."""
    if fence:
        if tx.run(_sql.keep, name=_DUTY, holder=holder, fence=fence, until=until):
            return fence
    elif taken := tx.one(_sql.take, name=_DUTY, holder=holder, now=now, until=until):
        return int(taken[0])
    raise LeaseLost("another process numbers the events now")
