"""State changes of a send: claim, mark, settle, sweep; operator resolve, cancel, resend.

Only the worker that holds the lease may report that a send was not sent. A report that it was
sent is proof and is accepted from anyone.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple

from oncebox.db.database import Row, Transaction, Value
from oncebox.db.group_commit import grouped
from oncebox.db.queries import Query, load
from oncebox.errors import NotFound, StateConflict
from oncebox.ledger.admin import audit
from oncebox.ledger.notifications import EVENTS, SENDS
from oncebox.ledger.sends import sends, transports
from oncebox.model.sends.send import (
    FINAL_STATES,
    ClaimedSend,
    Send,
    SendMarker,
    SendReport,
    SendSettled,
    SendState,
)
from oncebox.model.sends.transports import (
    BreakerRules,
    NotSent,
    SendAccepted,
    SendOutcome,
    SendRejected,
)

_sql = load(__package__, "lifecycle.sql")

#: bytes of messages one claim may load
_MOST_BYTES = 32 * 1024 * 1024


class SendClaimant(NamedTuple):
    """The worker that claims, its transport, and the lease."""

    tenant: str
    transport: str
    worker: str
    #: milliseconds a lease lasts without renewal
    lease: int


def claim(tx: Transaction, who: SendClaimant, most: int, now: int) -> list[ClaimedSend]:
    """Lease up to ``most`` due sends of one transport, oldest first.

    A paused transport, or one with an open circuit breaker, yields none.
    """
    way = (who.tenant, who.transport)
    room = transports.capacity(tx, way, most, now)
    if room.most <= 0:
        return []
    due = tx.all(_sql.due, tenant=who.tenant, transport=who.transport, now=now, most=room.most)
    leases = sorted((who.tenant, id_, fence) for id_, fence, _ in _within_memory(due))
    until = now + who.lease
    ours = tx.many(_sql.lease, leases, worker=who.worker, now=now, until=until)
    transports.count_started(tx, way, room, len(ours), now, until)
    return sends.with_bodies(tx, [sends.to_send(row) for row in ours])


@grouped()
def renew(tx: Transaction, held: Sequence[SendMarker], now: int) -> list[bool]:
    """Extend leases; return of each whether it is still held."""
    del now  # the marker says until when
    rows = sorted((each.tenant, each.id, each.fence, each.until) for each in held)
    renewed = set(tx.many(_sql.renew, rows))
    return [(each.id, each.fence) in renewed for each in held]


@grouped(in_order=True)
def mark_sending(tx: Transaction, markers: Sequence[SendMarker], now: int) -> list[bool]:
    """Record that sends may be accepted from now on; return of each whether to hand it over.

    Sends that may never be handed over end here: suppressed recipient, or too late. ``now`` is
    read inside the transaction, because a marker that had to wait may be too late.
    """
    rows = sorted((m.tenant, m.id, m.fence, m.until, m.replay_until) for m in markers)
    # Compared with the fence: one process may hold a send that it held before.
    marked = set(tx.many(_sql.mark, rows, now=now))
    refused = [row[:3] for row in rows if row[1:3] not in marked]
    end_refused(tx, refused, now)
    return [(marker.id, marker.fence) in marked for marker in markers]


def end_refused(
    tx: Transaction, refused: Sequence[Row], now: int, *, may_repeat: bool = True
) -> None:
    """End sends that may never be handed over; a lost lease belongs to another worker."""
    if not refused:
        return
    ended: set[str] = set()
    for query in (_sql.suppress, _sql.leases_expire, _sql.withdraw if may_repeat else _sql.let_be):
        ended |= {row[0] for row in tx.many(query, refused, now=now)}
    places = [(tenant, id_) for tenant, id_, _ in refused if id_ in ended]
    sends.record_events(tx, sends.by_ids(tx, places).values(), now)


def _within_memory(due: Sequence[Row]) -> list[Row]:
    """Return the first sends whose messages fit into the limit, at least one."""
    totals = accumulate(row[2] for row in due)
    fits = [row for row, total in zip(due, totals, strict=True) if total <= _MOST_BYTES]
    return fits or [*due[:1]]


_BREAKER_RULES = BreakerRules()

#: columns of a row without the other columns of the send
_FENCE_AND_ID = 2


#: states that are announced by an event
_ANNOUNCED = FINAL_STATES | {SendState.UNKNOWN}


def _settled_topics(results: Sequence[SendSettled | None]) -> list[str]:
    counted = [each.send.state for each in results if each is not None and each.counted]
    topics = [SENDS] if counted else []
    return [*topics, EVENTS] if any(state in _ANNOUNCED for state in counted) else topics


@grouped(in_order=True, topics=_settled_topics)
def settle(tx: Transaction, reports: Sequence[SendReport], now: int) -> list[SendSettled | None]:
    """Record how tries ended; return the sends, None for one that does not exist."""
    spoken = defaultdict(list)
    for report in reports:
        spoken[_outcome_name(report)].append(report)
    kept = settle_logged(tx, spoken.pop("logged", ()), now)
    _record_tries(tx, reports, kept, now)
    # Proof comes first: a "not sent" in the same commit is about another try.
    rows = kept + [row for kind, verb in _SETTLERS.items() for row in verb(tx, spoken[kind], now)]
    counted = {(row[1], row[0]) for row in rows}
    stand = _read_settled(tx, reports, rows)
    changed = {id_ for id_, _ in counted}
    sends.record_events(tx, [stand[place] for place in sorted(stand) if place[1] in changed], now)
    ways = [
        ((report.tenant, report.transport), report.outcome)
        for report in reports
        if report.transport
    ]
    transports.record_outcomes(tx, ways, _BREAKER_RULES, now)
    found = [stand.get((report.tenant, report.id)) for report in reports]
    return [
        None if send is None else SendSettled(send, (report.id, report.fence) in counted)
        for report, send in zip(reports, found, strict=True)
    ]


def settle_accepted(tx: Transaction, reports: Sequence[SendReport], now: int) -> list[Row]:
    """Record proof of acceptance; return the sends it changed."""
    rows = [(*_held_key(report), _provider_id(report.outcome)) for report in reports]
    return _run_sorted(tx, _sql.accept, rows, now)


def settle_logged(tx: Transaction, reports: Sequence[SendReport], now: int) -> list[Row]:
    """Record sends of the log transport, which delivers nothing.

    Sends that may never be handed over end here, as in ``mark_sending``.
    """
    held = [_held_key(report) for report in reports]
    rows = _run_sorted(tx, _sql.log, held, now)
    taken = {(row[1], row[0]) for row in rows}
    refused = sorted(each for each in held if each[1:] not in taken)
    end_refused(tx, refused, now, may_repeat=False)
    return rows


def settle_not_sent(tx: Transaction, reports: Sequence[SendReport], now: int) -> list[Row]:
    """Record tries that were certainly not accepted; they are repeated when due."""
    rows = [
        (*_held_key(w), *_reason_columns(w.outcome), w.due_at, w.move_to, int(w.uncounted))
        for w in reports
    ]
    return _run_sorted(tx, _sql.put_back, rows, now)


def settle_rejected(tx: Transaction, reports: Sequence[SendReport], now: int) -> list[Row]:
    """Record tries that were rejected for good."""
    return _run_sorted(
        tx,
        _sql.reject,
        [(*_held_key(report), *_reason_columns(report.outcome)) for report in reports],
        now,
    )


def settle_unknown(tx: Transaction, reports: Sequence[SendReport], now: int) -> list[Row]:
    """Record tries whose outcome is unknown."""
    rows = [
        (*_held_key(report), *_reason_columns(report.outcome), report.due_at) for report in reports
    ]
    return _run_sorted(tx, _sql.settlements_doubt, rows, now)


_SETTLERS: dict[str, Callable[[Transaction, Sequence[SendReport], int], list[Row]]] = {
    "accepted": settle_accepted,
    "not_sent": settle_not_sent,
    "rejected": settle_rejected,
    "unknown": settle_unknown,
}


def _record_tries(
    tx: Transaction, reports: Sequence[SendReport], kept: Sequence[Row], now: int
) -> None:
    """Record how tries ended, except those the log transport did not accept."""
    taken = {(row[1], row[0]) for row in kept}
    said = [
        w for w in reports if w.fence and (_outcome_name(w) != "logged" or (w.id, w.fence) in taken)
    ]
    tries = {_held_key(report): _try_row(report) for report in said}
    tx.run_many(_sql.record_try, sorted(tries.values(), key=_sort_key), now=now)


def _run_sorted(tx: Transaction, query: Query, rows: Sequence[Row], now: int) -> list[Row]:
    """Return fence and id of each changed send, with its other columns if the query has them."""
    return tx.many(query, sorted(rows, key=_sort_key), now=now) if rows else []


def _read_settled(
    tx: Transaction, reports: Sequence[SendReport], rows: Sequence[Row]
) -> dict[sends.SendRef, Send]:
    """Return the sends: from the changed rows, others from the database."""
    told = [sends.to_send(row[1:]) for row in rows if len(row) > _FENCE_AND_ID]
    stand = {(each.tenant, each.id): each for each in told}
    return stand | sends.by_ids(
        tx, {(report.tenant, report.id) for report in reports} - stand.keys()
    )


def _outcome_name(report: SendReport) -> str:
    """Return the name under which a try is recorded."""
    if isinstance(report.outcome, SendAccepted):
        return "logged" if report.logged else "accepted"
    if isinstance(report.outcome, NotSent):
        return "not_sent"
    return "rejected" if isinstance(report.outcome, SendRejected) else "unknown"


def _try_row(report: SendReport) -> Row:
    provider_id = _provider_id(report.outcome)
    return (
        *_held_key(report),
        _outcome_name(report),
        *_reason_columns(report.outcome),
        provider_id,
        report.transport,
    )


def _reason_columns(outcome: SendOutcome) -> tuple[str | None, str, int]:
    if isinstance(outcome, SendAccepted):
        return None, str(outcome.phase), 0
    return outcome.code, str(outcome.phase), outcome.reply


def _provider_id(outcome: SendOutcome) -> str:
    return outcome.provider_id if isinstance(outcome, SendAccepted) else ""


def _held_key(report: SendReport) -> tuple[str, str, int]:
    return report.tenant, report.id, report.fence


def _sort_key(row: Row) -> Row:
    return row[:3]


class SweepResult(NamedTuple):
    """Counts of one sweep over all tenants."""

    #: claimable again: nothing was handed over
    given_back: int
    #: outcome unknown from now on
    unknown: int
    #: too late
    expired: int
    #: outcome unknown, and no longer repeated
    lapsed: int
    #: there may be more
    has_more: bool


def sweep(tx: Transaction, now: int, *, tries: int = 8, most: int = 100) -> SweepResult:
    """Move on sends whose lease or time has expired, at most ``most`` of each kind.

    A lease lost before the handover costs a try, and after ``tries`` of them the send fails; a
    lease lost during the handover makes the outcome unknown.
    """
    lost = tx.all(_sql.lost, now=now, most=most)
    tx.run_many(_sql.record_lost, sorted(row[:3] for row in lost), now=now)
    claimed = sorted(row[:3] for row in lost if row[3] == SendState.CLAIMED)
    sending = sorted(row[:3] for row in lost if row[3] == SendState.SENDING)
    back = {row[0] for row in tx.many(_sql.give_back, claimed, now=now, tries=tries)}
    doubtful = {row[0] for row in tx.many(_sql.sweep_doubt, sending, now=now, tries=tries)}
    late = sorted(tx.all(_sql.late, now=now, most=most))
    expired = {row[0] for row in tx.many(_sql.sweep_expire, late, now=now)}
    over = sorted(tx.all(_sql.lapsed, now=now, most=most))
    lapsed = {row[0] for row in tx.many(_sql.lapse, over, now=now)}
    _record_swept_events(tx, [*lost, *late, *over], back | doubtful | expired | lapsed, now)
    full = most in {len(lost), len(late), len(over)}
    return SweepResult(len(back), len(doubtful), len(expired), len(lapsed), full)


def sweep_and_divert(tx: Transaction, now: int, tries: int) -> tuple[SweepResult, int]:
    """Sweep, and move sends away from broken transports; also return how many were moved."""
    return sweep(tx, now, tries=tries), transports.divert_stranded(tx, now)


def record_lost_try(tx: Transaction, tenant: str, id_: str, now: int) -> None:
    """Record the try of a send with an expired lease, if it is settled before the sweep."""
    found = sends.by_ids(tx, [(tenant, id_)]).values()
    tx.run_many(_sql.record_lost, [(tenant, id_, send.fence) for send in found], now=now)


def _record_swept_events(
    tx: Transaction, found: Sequence[Row], changed: set[str], now: int
) -> None:
    places = [(row[0], row[1]) for row in found if row[1] in changed]
    if places:
        sends.record_events(tx, sends.by_ids(tx, places).values(), now)


def resolve(
    tx: Transaction, id_: str, entry: audit.AuditEntry, *, sent: bool, provider_id: str = ""
) -> Send:
    """Record an operator's decision on an unknown outcome: sent or not sent.

    Raises: NotFound, StateConflict.
    """
    where: dict[str, Value] = {"tenant": entry.tenant, "id": id_, "now": entry.at}
    # A late provider event is matched by the try it is about.
    record_lost_try(tx, entry.tenant, id_, entry.at)
    if sent:
        changed = tx.run(_sql.resolve_sent, **where, provider_id=provider_id)
    else:
        changed = tx.run(_sql.resolve_not_sent, **where)
    if not changed:
        raise _operation_error(tx, entry.tenant, id_, "only one in doubt can be resolved")
    return _audited(tx, id_, entry, "send resolve", "sent" if sent else "not_sent")


def cancel(tx: Transaction, id_: str, entry: audit.AuditEntry, *, owner: str | None = None) -> Send:
    """Cancel a send, as long as nothing was handed over.

    Raises: NotFound, StateConflict.
    """
    if not tx.run(_sql.cancel, tenant=entry.tenant, id=id_, owner=owner, now=entry.at):
        sends.get(tx, entry.tenant, id_, owner=owner)
        raise _operation_error(
            tx, entry.tenant, id_, "only what is not on the wire can be called off"
        )
    return _audited(tx, id_, entry, "send cancel")


def resend(tx: Transaction, id_: str, entry: audit.AuditEntry) -> Send:
    """Retry a send that is proven not sent, or repeat one of unknown outcome once.

    Raises: NotFound, StateConflict.
    """
    where: dict[str, Value] = {"tenant": entry.tenant, "id": id_, "now": entry.at}
    if not (tx.run(_sql.rearm, **where) or tx.run(_sql.repeat, **where)):
        raise _operation_error(
            tx, entry.tenant, id_, "what was sent, or is under way, is not sent again"
        )
    return _audited(tx, id_, entry, "send resend")


def _audited(
    tx: Transaction, id_: str, entry: audit.AuditEntry, action: str, detail: str = ""
) -> Send:
    send = sends.get(tx, entry.tenant, id_)
    audit.record(tx, entry, action, f"send:{id_}", detail)
    sends.record_events(tx, [send], entry.at)
    return send


def _operation_error(tx: Transaction, tenant: str, id_: str, rule: str) -> NotFound | StateConflict:
    try:
        send = sends.get(tx, tenant, id_)
    except NotFound as error:
        return error
    if send.purged_at is not None and send.state is SendState.UNKNOWN:
        return StateConflict("what this send says is no longer kept; resolve it, and ask anew")
    if send.purged_at is not None and send.state is not SendState.SENT:
        return StateConflict("what this send says is no longer kept; ask for it anew")
    return StateConflict(f"this send is {send.state}; {rule}")
