"""Leases: work is claimed for a while, and every later write must carry the claim's fence."""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from oncebox import faults
from oncebox.ledger.deliveries import gates, lanes, notices
from oncebox.model.delivery import Delivery, Outcome, State
from oncebox.model.envelope import MAIL
from oncebox.store.database import Row, Transaction
from oncebox.store.queries import load

_sql = load(__package__, "leases.sql")

#: bytes of bodies one claim may bring into memory
_MOST_BYTES = 32 * 1024 * 1024
_MOST_BURIED = 100

#: places in the rows of ``due`` and ``expired``
_ID, _FENCE, _GIVE_UP_AT, _SIZE = 0, 9, 12, 13

#: headers and whole bodies that were fetched apart; the elements of a batch share one
Payloads = dict[str, tuple[bytes, bytes]]


class Claimant(NamedTuple):
    """Who claims, for whom, from where, and for how long."""

    tenant: str
    source: str
    worker: str
    #: milliseconds a lease lasts without renewal
    lease: int
    #: tries and milliseconds before a delivery is given up
    tries: int
    budget: int
    #: deliveries of the source begun per second, and worked on at the same time, by everybody
    rate: int | None = None
    concurrency: int | None = None


def claim(tx: Transaction, who: Claimant, most: int, now: int, floor: int = 0) -> list[Delivery]:
    """Lease up to ``most`` due deliveries of one source, oldest first, within its limits."""
    allowed = limits(who)
    if not allowed.any:
        return _claim(tx, who, most, now, floor)
    most = gates.room(tx, allowed, most, now)
    claimed = _claim(tx, who, most, now, floor) if most else []
    gates.take(tx, allowed, len(claimed))
    return claimed


def limits(who: Claimant) -> gates.Limits:
    """Return what a source allows."""
    return gates.Limits(who.tenant, who.source, who.rate, who.concurrency)


def _claim(tx: Transaction, who: Claimant, most: int, now: int, floor: int) -> list[Delivery]:
    due = tx.all(
        _sql.due,
        tenant=who.tenant,
        source=who.source,
        floor=floor,
        now=now,
        most=most,
        give_up_at=now + who.budget,
    )
    wanted = _within_memory(due)
    leases = sorted((row[_ID], row[_FENCE], row[_GIVE_UP_AT]) for row in wanted)
    count = tx.run_many(_sql.lease, leases, worker=who.worker, now=now, until=now + who.lease)
    if count < len(wanted):
        wanted = _still_ours(tx, who, wanted)
    payloads: Payloads = {}
    return [_delivery(tx, row, payloads) for row in wanted]


def claim_expired(tx: Transaction, who: Claimant, now: int) -> Delivery | None:
    """Lease one delivery whose worker was lost; alone, because it may be what killed it."""
    found = tx.one(_sql.expired, tenant=who.tenant, source=who.source, now=now, tries=who.tries)
    taken = _take_over(tx, who, [found], now) if found else []
    return taken[0] if taken else None


def claim_lost_once(tx: Transaction, who: Claimant, most: int, now: int) -> list[Delivery]:
    """Lease deliveries whose worker was lost for the first time, up to ``most`` together."""
    found = tx.all(
        _sql.lost_once,
        tenant=who.tenant,
        source=who.source,
        now=now,
        tries=who.tries,
        most=most,
    )
    return _take_over(tx, who, _within_memory(found), now) if found else []


def _take_over(tx: Transaction, who: Claimant, found: Sequence[Row], now: int) -> list[Delivery]:
    """Lease what others lost, and write down that they did."""
    tx.run_many(_sql.record_lost, sorted((row[_ID], row[_FENCE]) for row in found), now=now)
    leases = sorted((row[_ID], row[_FENCE], row[_GIVE_UP_AT]) for row in found)
    count = tx.run_many(
        _sql.lease_expired, leases, worker=who.worker, now=now, until=now + who.lease
    )
    ours = found if count == len(found) else _still_ours(tx, who, found)
    payloads: Payloads = {}
    return [_delivery(tx, row, payloads) for row in ours]


def _still_ours(tx: Transaction, who: Claimant, wanted: Sequence[Row]) -> list[Row]:
    """Return what is leased to us now; of the rest, somebody else was faster."""
    held = {row[0]: row[1:] for row in tx.many(_sql.holders, [(row[_ID],) for row in wanted])}
    return [row for row in wanted if held.get(row[_ID]) == (row[_FENCE] + 1, who.worker)]


def leased_to(tx: Transaction, who: Claimant) -> list[Delivery]:
    """Return what is leased to this worker now, as its claims returned it."""
    rows = tx.all(_sql.leased_to, tenant=who.tenant, source=who.source, worker=who.worker)
    payloads: Payloads = {}
    return [_delivery(tx, row, payloads, claimed=0) for row in rows]


def as_claimed(tx: Transaction, tenant: str, ids: Sequence[str]) -> dict[str, Delivery]:
    """Return deliveries of a tenant as their last claims returned them, by id."""
    rows = tx.many(_sql.as_claimed, [(id_,) for id_ in sorted(set(ids))], tenant=tenant)
    payloads: Payloads = {}
    return {row[_ID]: _delivery(tx, row, payloads, claimed=0) for row in rows}


def has_expired(tx: Transaction, who: Claimant, now: int) -> bool:
    """Say whether there is work whose worker was lost and that may be tried again."""
    found = tx.one(_sql.expired, tenant=who.tenant, source=who.source, now=now, tries=who.tries)
    return found is not None


def bury_hopeless(tx: Transaction, who: Claimant, now: int) -> int:
    """Give up on deliveries that were lost on their last try; return how many."""
    found = tx.all(
        _sql.hopeless,
        tenant=who.tenant,
        source=who.source,
        now=now,
        tries=who.tries,
        most=_MOST_BURIED,
    )
    if not found:
        return 0
    tx.run_many(_sql.record_lost, [(id_, fence) for id_, fence, *_ in found], now=now)
    buried = tx.many(_sql.bury, [_last_words(row, who.tries) for row in found], now=now)
    gone = {id_ for (id_,) in buried}
    left = [(row[2:5], None) for row in found if row[0] in gone and row[4] is not None]
    lanes.move_on(tx, left, now)
    notices.record(tx, (_ended(row, who.tries) for row in found if row[0] in gone), now)
    faults.point("worker.dying")
    return len(buried)


def renew(tx: Transaction, held: Sequence[tuple[str, int]], until: int) -> set[str]:
    """Prolong leases; return the ids of those that are still ours."""
    count = tx.run_many(_sql.renew, sorted(held), until=until)
    faults.point("worker.renewing")
    if count == len(held):
        return {id_ for id_, _ in held}
    now_held = {row[:2] for row in tx.many(_sql.holders, [(id_,) for id_, _ in held])}
    return {id_ for id_, fence in held if (id_, fence) in now_held}


def _within_memory(due: Sequence[Row]) -> list[Row]:
    """Take deliveries until their bodies would fill the memory, but always the first."""
    totals = accumulate(row[_SIZE] for row in due)
    return [row for row, total in zip(due, totals, strict=True) if total <= _MOST_BYTES] or [
        *due[:1]
    ]


def _last_words(row: Row, tries: int) -> Row:
    id_, fence, _tenant, _source, _lane, used = row
    return (id_, fence, str(_why_hopeless(used, tries)))


def _why_hopeless(used: int, tries: int) -> Outcome:
    return Outcome.TRIES_USED_UP if used >= tries else Outcome.TIME_USED_UP


def _ended(row: Row, tries: int) -> notices.Ended:
    id_, _fence, tenant, source, _lane, used = row
    return notices.Ended(id_, tenant, source, State.DEAD, _why_hopeless(used, tries), used)


def _delivery(tx: Transaction, row: Row, payloads: Payloads, claimed: int = 1) -> Delivery:
    """Build what the handler sees: the row as it was found, with this claim added."""
    id_, tenant, source, key, variant, type_, lane, late, policy, fence, tries, *rest = row
    received_at, give_up_at, size, headers, body, verdict, sequence, payload_id, start = rest
    if body is None:
        if payload_id not in payloads:
            payloads[payload_id] = tx.one(_sql.payload, id=payload_id) or (b"[]", b"")
        headers, whole = payloads[payload_id]
        # A mail is one whole, and sealed: whoever reads it opens it.
        body = whole if source == MAIL else whole[start : start + size]
    return Delivery(
        id_, tenant, source, key, variant, type_, lane, bool(late), policy, fence + claimed,
        tries + claimed,
        received_at, give_up_at, headers, body, verdict, sequence, payload_id,
    )  # fmt: skip
