"""Leases: claim due deliveries within source limits, renew, dead-letter exhausted ones."""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from oncebox.core import faults
from oncebox.db.database import Row, Transaction
from oncebox.db.queries import load
from oncebox.ledger.deliveries import lanes, settlements
from oncebox.model.deliveries.delivery import Delivery, DeliveryOutcome, DeliveryState
from oncebox.model.inboxes.received_mail import MAIL_SOURCE

_sql = load(__package__, "leases.sql")

#: allowances are stored in thousandths: a rate of n adds n of them per millisecond
_THOUSANDTHS = 1_000


#: bytes of bodies one claim may bring into memory
_MOST_BYTES = 32 * 1024 * 1024
_MOST_DEAD_LETTERED = 100

#: columns of ``due`` and ``expired``
_ID, _FENCE, _GIVE_UP_AT, _SIZE = 0, 9, 12, 13
#: the last column of ``claim``: how many deliveries were due
_DUE = -1

#: headers and bodies that were read separately; the elements of a batch share one
Payloads = dict[str, tuple[bytes, bytes]]


class DeliveryClaimant(NamedTuple):
    """A worker that claims deliveries of one source."""

    tenant: str
    source: str
    worker: str
    #: milliseconds a lease lasts without renewal
    lease: int
    #: tries and milliseconds before a delivery is given up
    tries: int
    budget: int
    #: deliveries of the source begun per second, and in progress, in all workers together
    rate: int | None = None
    concurrency: int | None = None
    #: 1: mail that is large or slow to parse; 0: everything else
    heavy: int = 0

    @property
    def is_limited(self) -> bool:
        """Whether the source has a limit at all."""
        return self.rate is not None or self.concurrency is not None


def lock_limits(tx: Transaction, claimants: Iterable[DeliveryClaimant], now: int) -> None:
    """Lock the limits of several sources, always in the same order."""
    limited = (each for each in claimants if each.is_limited)
    for who in sorted(limited, key=lambda each: each[:2]):
        _refill(tx, who, now)


def _capacity(tx: Transaction, who: DeliveryClaimant, most: int, now: int) -> int:
    """Return how many deliveries may be begun now, at most ``most``; locked until the commit."""
    allowance = _refill(tx, who, now)
    if who.rate is not None:
        most = min(most, allowance // _THOUSANDTHS)
    if who.concurrency is not None:
        working = tx.one(_sql.in_work, tenant=who.tenant, source=who.source)
        most = min(most, who.concurrency - (working[0] if working else 0))
    return max(0, most)


def _refill(tx: Transaction, who: DeliveryClaimant, now: int) -> int:
    """Lock the limits of a source and return its allowance, in thousandths."""
    rate, name = who.rate or 0, {"tenant": who.tenant, "source": who.source}
    row = tx.one(_sql.open, **name, rate=rate, most=rate * _THOUSANDTHS, now=now)
    return int(row[0]) if row else 0


class Claimed(NamedTuple):
    """Claimed deliveries, and whether nothing else was due that nobody else was claiming."""

    deliveries: list[Delivery]
    is_all: bool


def claim(tx: Transaction, who: DeliveryClaimant, most: int, now: int) -> list[Delivery]:
    """Lease up to ``most`` due deliveries of one source, oldest first, within its limits."""
    return claim_from(tx, who, most, now, 0).deliveries


def claim_from(tx: Transaction, who: DeliveryClaimant, most: int, now: int, floor: int) -> Claimed:
    """The same, among those that are due since ``floor``."""
    if not who.is_limited:
        return _claim_due(tx, who, most, now, floor)
    most = _capacity(tx, who, most, now)
    claimed = _claim_due(tx, who, most, now, floor) if most else Claimed([], is_all=False)
    if who.rate is not None and claimed.deliveries:
        taken = len(claimed.deliveries) * _THOUSANDTHS
        tx.run(_sql.take, tenant=who.tenant, source=who.source, taken=taken)
    return claimed


def _claim_due(tx: Transaction, who: DeliveryClaimant, most: int, now: int, floor: int) -> Claimed:
    find = _find_and_lease if tx.is_serial else _lease_at_once
    return find(tx, who, most, now, floor)


def _find_and_lease(
    tx: Transaction, who: DeliveryClaimant, most: int, now: int, floor: int
) -> Claimed:
    due = tx.all(
        _sql.due,
        tenant=who.tenant,
        source=who.source,
        heavy=who.heavy,
        floor=floor,
        now=now,
        most=most,
        give_up_at=now + who.budget,
    )
    wanted = _within_memory(due)
    is_all = len(wanted) == len(due) < most
    leases = sorted((row[_ID], row[_FENCE], row[_GIVE_UP_AT]) for row in wanted)
    count = tx.run_many(_sql.lease, leases, worker=who.worker, now=now, until=now + who.lease)
    if count < len(wanted):
        wanted = _still_ours(tx, who, wanted)
    payloads: Payloads = {}
    return Claimed([_delivery(tx, row, payloads) for row in wanted], is_all)


def _lease_at_once(
    tx: Transaction, who: DeliveryClaimant, most: int, now: int, floor: int
) -> Claimed:
    """The same in one statement, where others may claim at the same time."""
    rows = tx.all(
        _sql.claim,
        tenant=who.tenant,
        source=who.source,
        heavy=who.heavy,
        worker=who.worker,
        floor=floor,
        now=now,
        until=now + who.lease,
        most=most,
        bytes=_MOST_BYTES,
        give_up_at=now + who.budget,
    )
    count = rows[0][_DUE] if rows else 0
    is_all = len(rows) == count < most
    payloads: Payloads = {}
    return Claimed([_delivery(tx, row[:_DUE], payloads, claimed=0) for row in rows], is_all)


def claim_expired(tx: Transaction, who: DeliveryClaimant, now: int) -> Delivery | None:
    """Lease one delivery whose worker was lost; alone, because it may be what killed it."""
    found = _expired(tx, who, now, 0)
    taken = _take_over(tx, who, [found], now) if found else []
    return taken[0] if taken else None


def claim_lost_once(tx: Transaction, who: DeliveryClaimant, most: int, now: int) -> list[Delivery]:
    """Lease deliveries whose worker was lost for the first time, up to ``most`` together."""
    found = tx.all(
        _sql.lost_once,
        tenant=who.tenant,
        source=who.source,
        heavy=who.heavy,
        now=now,
        tries=who.tries,
        most=most,
    )
    return _take_over(tx, who, _within_memory(found), now) if found else []


def _take_over(
    tx: Transaction, who: DeliveryClaimant, found: Sequence[Row], now: int
) -> list[Delivery]:
    """Lease deliveries of lost workers, and record the lost tries."""
    tx.run_many(_sql.record_lost, sorted((row[_ID], row[_FENCE]) for row in found), now=now)
    leases = sorted((row[_ID], row[_FENCE], row[_GIVE_UP_AT]) for row in found)
    count = tx.run_many(
        _sql.lease_expired, leases, worker=who.worker, now=now, until=now + who.lease
    )
    ours = found if count == len(found) else _still_ours(tx, who, found)
    payloads: Payloads = {}
    return [_delivery(tx, row, payloads) for row in ours]


def _still_ours(tx: Transaction, who: DeliveryClaimant, wanted: Sequence[Row]) -> list[Row]:
    """Return the rows that are leased to us now; another worker has the others."""
    held = {row[0]: row[1:] for row in tx.many(_sql.holders, [(row[_ID],) for row in wanted])}
    return [row for row in wanted if held.get(row[_ID]) == (row[_FENCE] + 1, who.worker)]


def leased_to(tx: Transaction, who: DeliveryClaimant) -> list[Delivery]:
    """Return the deliveries leased to this worker now, as its claims returned them."""
    rows = tx.all(
        _sql.leased_to,
        tenant=who.tenant,
        source=who.source,
        heavy=who.heavy,
        worker=who.worker,
    )
    payloads: Payloads = {}
    return [_delivery(tx, row, payloads, claimed=0) for row in rows]


def as_claimed(tx: Transaction, tenant: str, ids: Sequence[str]) -> dict[str, Delivery]:
    """Return deliveries of a tenant as their last claims returned them, by id."""
    rows = tx.many(_sql.as_claimed, [(id_,) for id_ in sorted(set(ids))], tenant=tenant)
    payloads: Payloads = {}
    return {row[_ID]: _delivery(tx, row, payloads, claimed=0) for row in rows}


def has_expired(tx: Transaction, who: DeliveryClaimant, now: int, floor: int = 0) -> bool:
    """Say whether a delivery of a lost worker may be tried again."""
    return _expired(tx, who, now, floor) is not None


def _expired(tx: Transaction, who: DeliveryClaimant, now: int, floor: int) -> Row | None:
    return tx.one(
        _sql.expired,
        tenant=who.tenant,
        source=who.source,
        heavy=who.heavy,
        floor=floor,
        now=now,
        tries=who.tries,
    )


def dead_letter_exhausted(
    tx: Transaction, who: DeliveryClaimant, now: int, floor: int = 0
) -> list[settlements.EndedDelivery]:
    """Give up on deliveries that were lost on their last try; return them."""
    found = tx.all(
        _sql.hopeless,
        tenant=who.tenant,
        source=who.source,
        floor=floor,
        now=now,
        tries=who.tries,
        most=_MOST_DEAD_LETTERED,
    )
    if not found:
        return []
    tx.run_many(_sql.record_lost, [(id_, fence) for id_, fence, *_ in found], now=now)
    rows = [(row[0], row[1], str(_exhausted_outcome(row[5], who.tries))) for row in found]
    buried = tx.many(_sql.bury, rows, now=now)
    gone = {id_ for (id_,) in buried}
    left = [(row[2:5], None) for row in found if row[0] in gone and row[4] is not None]
    lanes.advance(tx, left, now)
    ended = [_dead_lettered(row, who.tries) for row in found if row[0] in gone]
    settlements.record_end_events(tx, ended, now)
    faults.point("worker.dying")
    return ended


def renew(tx: Transaction, held: Sequence[tuple[str, int]], until: int) -> set[str]:
    """Renew leases; return the ids of those that are still held."""
    count = tx.run_many(_sql.renew, sorted(held), until=until)
    faults.point("worker.renewing")
    if count == len(held):
        return {id_ for id_, _ in held}
    now_held = {row[:2] for row in tx.many(_sql.holders, [(id_,) for id_, _ in held])}
    return {id_ for id_, fence in held if (id_, fence) in now_held}


def _within_memory(due: Sequence[Row]) -> list[Row]:
    """Return as many rows as the memory limit allows, but always the first."""
    totals = accumulate(row[_SIZE] for row in due)
    return [row for row, total in zip(due, totals, strict=True) if total <= _MOST_BYTES] or [
        *due[:1]
    ]


def _exhausted_outcome(used: int, tries: int) -> DeliveryOutcome:
    return DeliveryOutcome.TRIES_USED_UP if used >= tries else DeliveryOutcome.TIME_USED_UP


def _dead_lettered(row: Row, tries: int) -> settlements.EndedDelivery:
    id_, _fence, tenant, source, _lane, used = row
    return settlements.EndedDelivery(
        id_, tenant, source, DeliveryState.DEAD, _exhausted_outcome(used, tries), used
    )


def _delivery(tx: Transaction, row: Row, payloads: Payloads, claimed: int = 1) -> Delivery:
    """Build a delivery from its row, with this claim added."""
    id_, tenant, source, key, variant, type_, lane, late, policy, fence, tries, *rest = row
    received_at, give_up_at, size, headers, body, verdict, sequence, payload_id, start = rest
    if body is None:
        if payload_id not in payloads:
            payloads[payload_id] = tx.one(_sql.payload, id=payload_id) or (b"[]", b"")
        headers, whole = payloads[payload_id]
        # A mail is encrypted as a whole; the mail processor decrypts it.
        body = whole if source == MAIL_SOURCE else whole[start : start + size]
    return Delivery(
        id_, tenant, source, key, variant, type_, lane, bool(late), policy, fence + claimed,
        tries + claimed,
        received_at, give_up_at, headers, body, verdict, sequence, payload_id,
    )  # fmt: skip


def has_claimable(tx: Transaction, tenant: str, sources: Iterable[str], now: int) -> bool:
    """Say whether one of these sources has a claimable delivery."""
    rows = [(source,) for source in sorted(set(sources))]
    return bool(tx.many(_sql.any, rows, tenant=tenant, now=now))


#: a tenant and the name of a source
SourceName = tuple[str, str]


def announce_handlers(tx: Transaction, places: Iterable[SourceName], now: int) -> None:
    """Record that a program has handlers for sources, for other processes."""
    tx.run_many(_sql.announce, sorted(set(places)), now=now)


def handled_since(tx: Transaction, at: int) -> set[SourceName]:
    """Return the sources that any program announced handlers for since a time."""
    return {(tenant, source) for tenant, source in tx.all(_sql.since, at=at)}
