"""Leases: whose is a send now, and may it be handed over?"""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from oncebox.ledger.sends import gates, notices, sends
from oncebox.model.send import ClaimedSend, Marker, Send
from oncebox.store.database import Row, Transaction
from oncebox.store.queries import load

_sql = load(__package__, "leases.sql")

#: bytes of messages one claim may bring into memory
_MOST_BYTES = 32 * 1024 * 1024


class SendClaimant(NamedTuple):
    """Who claims, by which way, and for how long."""

    tenant: str
    transport: str
    worker: str
    #: milliseconds a lease lasts without renewal
    lease: int


def claim(tx: Transaction, who: SendClaimant, most: int, now: int) -> list[ClaimedSend]:
    """Lease up to ``most`` due sends of one way, oldest first, unless it is paused or rests."""
    way = (who.tenant, who.transport)
    room = gates.room(tx, way, most, now)
    if room.most <= 0:
        return []
    due = tx.all(_sql.due, tenant=who.tenant, transport=who.transport, now=now, most=room.most)
    leases = sorted((who.tenant, id_, fence) for id_, fence, _ in _within_memory(due))
    until = now + who.lease
    ours = tx.many(_sql.lease, leases, worker=who.worker, now=now, until=until)
    gates.take(tx, way, room, len(ours), now, until)
    return _claimed(tx, [sends.read(row) for row in ours])


def renew(tx: Transaction, held: Sequence[Marker]) -> list[bool]:
    """Prolong leases; say of each whether it is still held."""
    rows = sorted((each.tenant, each.id, each.fence, each.until) for each in held)
    renewed = set(tx.many(_sql.renew, rows))
    return [(each.id, each.fence) in renewed for each in held]


def begin(tx: Transaction, markers: Sequence[Marker], now: int) -> list[bool]:
    """Commit that sends may be taken from here on; say of each whether it may be handed over.

    What may never be is ended: it goes to somebody on the suppression list, or comes too late.
    """
    rows = sorted((m.tenant, m.id, m.fence, m.until, m.replay_until) for m in markers)
    # By their fences: one process may ask for a send that it holds, and held before.
    marked = set(tx.many(_sql.mark, rows, now=now))
    refused = [row[:3] for row in rows if row[1:3] not in marked]
    refuse(tx, refused, now)
    return [(marker.id, marker.fence) in marked for marker in markers]


def refuse(tx: Transaction, refused: Sequence[Row], now: int, *, may_repeat: bool = True) -> None:
    """End what was refused for good; what was only lost is somebody else's."""
    if not refused:
        return
    ended: set[str] = set()
    for query in (_sql.suppress, _sql.expire, _sql.withdraw if may_repeat else _sql.let_be):
        ended |= {row[0] for row in tx.many(query, refused, now=now)}
    places = [(tenant, id_) for tenant, id_, _ in refused if id_ in ended]
    notices.record(tx, sends.by_ids(tx, places).values(), now)


def _claimed(tx: Transaction, leased: Sequence[Send]) -> list[ClaimedSend]:
    said = sends.bodies(tx, leased)
    ordered = sorted(leased, key=lambda each: each.id)
    return [ClaimedSend(each, *said[each.id]) for each in ordered]


def _within_memory(due: Sequence[Row]) -> list[Row]:
    """Take sends until their messages would fill the memory, but always the first."""
    totals = accumulate(row[2] for row in due)
    fits = [row for row, total in zip(due, totals, strict=True) if total <= _MOST_BYTES]
    return fits or [*due[:1]]
