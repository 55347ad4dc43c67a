"""State changes of a send: claim, mark, settle, sweep; operator resolve, cancel, resend.

Only the worker that holds the lease may report that a send was not sent. A report that it was
sent is proof and is accepted from anyone.
See docs/decisions/0030-use-proof-or-an-operator-to-resolve-unknown-sends.md.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from operator import itemgetter
from typing import NamedTuple

from oncebox.db.database import Row, Transaction, Value
from oncebox.db.group_commit import grouped
from oncebox.db.queries import Query, load
from oncebox.errors import NotFound, StateConflict
from oncebox.ledger.admin import audit
from oncebox.ledger.events import event_log
from oncebox.ledger.notifications import EVENTS, SENDS, STREAM
from oncebox.ledger.sends import sends, transports
from oncebox.model.sends.send import (
    FINAL_STATES,
    REARMABLE_STATES,
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
    ref = (who.tenant, who.transport)
    capacity = transports.capacity(tx, ref, most, now)
    if capacity.most <= 0:
        return []
    due = tx.all(_sql.due, tenant=who.tenant, transport=who.transport, now=now, most=capacity.most)
    # The first sends whose messages fit into the limit, at least one.
    totals = list(accumulate(size for _, _, size in due))
    fitting = due[: max(1, bisect_right(totals, _MOST_BYTES))]
    leases = sorted((who.tenant, id_, fence) for id_, fence, _ in fitting)
    until = now + who.lease
    claimed = tx.many(_sql.lease, leases, worker=who.worker, now=now, until=until)
    transports.count_started(tx, ref, capacity, len(claimed), now, until)
    return sends.with_bodies(tx, map(sends.to_send, claimed))


@grouped()
def renew(tx: Transaction, held: Sequence[SendMarker], now: int) -> list[bool]:
    """Extend leases; return of each whether it is still held."""
    del now  # the marker says until when
    rows = sorted((each.tenant, each.id, each.fence, each.until) for each in held)
    renewed = set(tx.many(_sql.renew, rows))
    return [(each.id, each.fence) in renewed for each in held]


@grouped(in_order=True)
def mark_sending(tx: Transaction, markers: Sequence[SendMarker], now: int) -> list[bool]:
    """Record that sends may be accepted from now on; return of each whether to transmit it.

    Sends that must never be transmitted end here: suppressed recipient, or too late. ``now`` is
    read inside the transaction, because a marker that had to wait may be too late.
    See docs/decisions/0031-use-a-marker-before-the-point-of-no-return.md.
    """
    rows = sorted((m.tenant, m.id, m.fence, m.until, m.replay_until) for m in markers)
    # Compared with the fence: one process may hold a send that it held before.
    marked = set(tx.many(_sql.mark, rows, now=now))
    end_refused(tx, [row[:3] for row in rows if row[1:3] not in marked], now)
    return [(marker.id, marker.fence) in marked for marker in markers]


def end_refused(
    tx: Transaction, refused: Sequence[Row], now: int, *, may_repeat: bool = True
) -> None:
    """End sends that must never be transmitted; a lost lease belongs to another worker."""
    if not refused:
        return
    ended: set[str] = set()
    for query in (_sql.suppress, _sql.leases_expire, _sql.withdraw if may_repeat else _sql.let_be):
        ended |= {row[0] for row in tx.many(query, refused, now=now)}
    places = [(tenant, id_) for tenant, id_, _ in refused if id_ in ended]
    sends.record_events(tx, sends.by_ids(tx, places).values(), now)


_BREAKER_RULES = BreakerRules()
#: columns of a row without the other columns of the send
_FENCE_AND_ID = 2


def _settled_topics(results: Sequence[SendSettled | None]) -> list[str]:
    counted = {each.send.state for each in results if each is not None and each.counted}
    has_events = bool(counted & {*FINAL_STATES, SendState.UNKNOWN})
    numbered = any(each.numbered for each in results if each is not None)
    return [SENDS] * bool(counted) + [STREAM if numbered else EVENTS] * has_events


@grouped(in_order=True, topics=_settled_topics)
def settle(tx: Transaction, reports: Sequence[SendReport], now: int) -> list[SendSettled | None]:
    """Record how tries ended; return the sends, None for one that does not exist."""
    named = [(_outcome_name(each), each) for each in reports]
    rows = _settle_logged(tx, [each for name, each in named if name == "logged"], now)
    _record_tries(tx, named, {(row[1], row[0]) for row in rows}, now)
    for wanted, query in (
        # Proof comes first: a "not sent" in the same commit is about another try.
        ("accepted", _sql.accept),
        ("not_sent", _sql.put_back),
        ("rejected", _sql.reject),
        ("unknown", _sql.settlements_doubt),
    ):
        settled = [(*_held_key(each), *_columns(each)) for name, each in named if name == wanted]
        rows += _run_sorted(tx, query, settled, now)
    counted = {(row[1], row[0]) for row in rows}
    stored = _read_settled(tx, reports, rows)
    changed = {id_ for id_, _ in counted}
    ended = [stored[ref] for ref in sorted(stored) if ref[1] in changed]
    numbered = event_log.record_numbered(tx, sends.end_events(ended, now))
    outcomes = [((each.tenant, each.transport), each.outcome) for each in reports if each.transport]
    transports.record_outcomes(tx, outcomes, _BREAKER_RULES, now)
    found = [stored.get((report.tenant, report.id)) for report in reports]
    return [
        None if send is None else SendSettled(send, (report.id, report.fence) in counted, numbered)
        for report, send in zip(reports, found, strict=True)
    ]


def _settle_logged(tx: Transaction, reports: Sequence[SendReport], now: int) -> list[Row]:
    """Record sends of the log transport, which delivers nothing.

    Sends that must never be transmitted end here, as in ``mark_sending``.
    """
    held = [_held_key(report) for report in reports]
    rows = _run_sorted(tx, _sql.log, held, now)
    taken = {(row[1], row[0]) for row in rows}
    refused = sorted(each for each in held if each[1:] not in taken)
    end_refused(tx, refused, now, may_repeat=False)
    return rows


def _columns(report: SendReport) -> Row:
    outcome = report.outcome
    if isinstance(outcome, SendAccepted):
        return (outcome.provider_id,)
    reason = outcome.code, str(outcome.phase), outcome.reply
    if isinstance(outcome, NotSent):
        return (*reason, report.due_at, report.move_to, int(report.uncounted))
    return reason if isinstance(outcome, SendRejected) else (*reason, report.due_at)


def _record_tries(
    tx: Transaction,
    named: Sequence[tuple[str, SendReport]],
    logged: set[tuple[str, int]],
    now: int,
) -> None:
    """Record how tries ended, except those the log transport did not accept."""
    tries = {}
    for name, each in named:
        outcome = each.outcome
        if each.fence and (name != "logged" or (each.id, each.fence) in logged):
            code = None if isinstance(outcome, SendAccepted) else outcome.code
            reply = 0 if isinstance(outcome, SendAccepted) else outcome.reply
            provider_id = outcome.provider_id if isinstance(outcome, SendAccepted) else ""
            phase = str(outcome.phase)
            tries[_held_key(each)] = (name, code, phase, reply, provider_id, each.transport)
    rows = [(*key, *columns) for key, columns in sorted(tries.items(), key=itemgetter(0))]
    tx.run_many(_sql.record_try, rows, now=now)


def _run_sorted(tx: Transaction, query: Query, rows: Sequence[Row], now: int) -> list[Row]:
    """Return fence and id of each changed send, with its other columns if the query has them."""
    return tx.many(query, sorted(rows, key=itemgetter(0, 1, 2)), now=now) if rows else []


def _read_settled(
    tx: Transaction, reports: Sequence[SendReport], rows: Sequence[Row]
) -> dict[sends.SendRef, Send]:
    """Return the sends: from the changed rows if these have all columns, else from the database."""
    changed = [sends.to_send(row[1:]) for row in rows if len(row) > _FENCE_AND_ID]
    known = {(each.tenant, each.id): each for each in changed}
    return known | sends.by_ids(
        tx, {(report.tenant, report.id) for report in reports} - known.keys()
    )


def _outcome_name(report: SendReport) -> str:
    if isinstance(report.outcome, SendAccepted) and report.logged:
        return "logged"
    return str(report.outcome.__struct_config__.tag)


def _held_key(report: SendReport) -> tuple[str, str, int]:
    return report.tenant, report.id, report.fence


class SweepResult(NamedTuple):
    """Counts of one sweep over all tenants."""

    #: claimable again: nothing was transmitted
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

    A lease lost before the marker costs a try, and after ``tries`` of them the send fails; a lease
    lost after the marker makes the outcome unknown.
    """
    lost = tx.all(_sql.lost, now=now, most=most)
    tx.run_many(_sql.record_lost, sorted(row[:3] for row in lost), now=now)
    claimed = sorted(row[:3] for row in lost if row[3] == SendState.CLAIMED)
    sending = sorted(row[:3] for row in lost if row[3] == SendState.SENDING)
    back = {row[0] for row in tx.many(_sql.give_back, claimed, now=now, tries=tries)}
    unknown = {row[0] for row in tx.many(_sql.sweep_doubt, sending, now=now, tries=tries)}
    late = sorted(tx.all(_sql.late, now=now, most=most))
    expired = {row[0] for row in tx.many(_sql.sweep_expire, late, now=now)}
    over = sorted(tx.all(_sql.lapsed, now=now, most=most))
    lapsed = {row[0] for row in tx.many(_sql.lapse, over, now=now)}
    changed = back | unknown | expired | lapsed
    refs = [(row[0], row[1]) for row in (*lost, *late, *over) if row[1] in changed]
    if refs:
        sends.record_events(tx, sends.by_ids(tx, refs).values(), now)
    has_more = most in {len(lost), len(late), len(over)}
    return SweepResult(len(back), len(unknown), len(expired), len(lapsed), has_more)


def sweep_and_divert(tx: Transaction, now: int, tries: int) -> tuple[SweepResult, int]:
    """Sweep, and move sends away from broken transports; also return how many were moved."""
    return sweep(tx, now, tries=tries), transports.divert_stranded(tx, now)


def resolve(
    tx: Transaction, id_: str, entry: audit.AuditEntry, *, sent: bool, provider_id: str = ""
) -> Send:
    """Record an operator's decision on an unknown outcome: sent or not sent.

    Raises: NotFound, StateConflict.
    """
    where: dict[str, Value] = {"tenant": entry.tenant, "id": id_, "now": entry.at}
    # A late provider event is matched by its try, so that must be recorded before the sweep.
    lost = sends.by_ids(tx, [(entry.tenant, id_)]).values()
    tx.run_many(_sql.record_lost, [(entry.tenant, id_, each.fence) for each in lost], now=entry.at)
    if sent:
        changed = tx.run(_sql.resolve_sent, **where, provider_id=provider_id)
    else:
        changed = tx.run(_sql.resolve_not_sent, **where)
    if not changed:
        raise _operation_error(
            tx, entry.tenant, id_, "only a send of unknown outcome can be resolved"
        )
    return _audited(tx, id_, entry, "send resolve", "sent" if sent else "not_sent")


def cancel(tx: Transaction, id_: str, entry: audit.AuditEntry, *, owner: str | None = None) -> Send:
    """Cancel a send, as long as nothing was transmitted.

    Raises: NotFound, StateConflict.
    """
    if not tx.run(_sql.cancel, tenant=entry.tenant, id=id_, owner=owner, now=entry.at):
        sends.get(tx, entry.tenant, id_, owner=owner)
        raise _operation_error(
            tx, entry.tenant, id_, "only a send that is not transmitted yet can be cancelled"
        )
    return _audited(tx, id_, entry, "send cancel")


#: what a person can have tried again
_UNSENT = {*REARMABLE_STATES, SendState.SUPPRESSED}
_TRANSPORT_GONE = "its transport was removed; request it again, by another transport"
_SENT_OR_IN_PROGRESS = "a send that was sent, or is in progress, cannot be sent again"


def resend(tx: Transaction, id_: str, entry: audit.AuditEntry) -> Send:
    """Retry a send that is proven not sent, or repeat one of unknown outcome once.

    Raises: NotFound, StateConflict.
    """
    where: dict[str, Value] = {"tenant": entry.tenant, "id": id_, "now": entry.at}
    if not (tx.run(_sql.rearm, **where) or tx.run(_sql.repeat, **where)):
        unsent = sends.get(tx, entry.tenant, id_).state in _UNSENT
        raise _operation_error(
            tx, entry.tenant, id_, _TRANSPORT_GONE if unsent else _SENT_OR_IN_PROGRESS
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
        return StateConflict(
            "the content of this send is no longer kept; resolve the send, then request it again"
        )
    if send.purged_at is not None and send.state is not SendState.SENT:
        return StateConflict("the content of this send is no longer kept; request it again")
    return StateConflict(f"this send is {send.state}; {rule}")
