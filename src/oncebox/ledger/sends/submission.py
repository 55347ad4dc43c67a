"""Submission of sends: idempotent insert, cool-downs and budgets, batches.

An agent that replans makes a new key for the same mail. Cool-downs per recipient and event type,
and budgets per key and recipient, are rows that also serve as locks: a caller locks them, decides,
and charges them only for stored intents.

Nothing is refunded. A cool-down applies as long as the send that started it is not proven unsent,
which is looked up. See docs/decisions/0034-use-guards-against-repeated-and-automatic-mail.md.

Many callers share a commit, so a refusal is a result, not an exception.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from oncebox.db.database import Row, Transaction
from oncebox.db.group_commit import grouped
from oncebox.db.queries import load
from oncebox.errors import NotFound, OnceboxError
from oncebox.errors.sends import SendBudgetSpent, SendCoolingDown, SendKeyConflict
from oncebox.ledger.notifications import EVENTS, SENDS
from oncebox.ledger.sends import sends
from oncebox.model.sends.send import (
    BUDGET_WINDOW,
    REARMABLE_STATES,
    AnswerStatus,
    IntentAccepted,
    IntentIdentity,
    IntentRefused,
    IntentResult,
    NewSend,
    Send,
    SendLease,
    SendLimits,
    SendState,
    answer_status,
)
from oncebox.model.sends.transports import LOG_TRANSPORT

_sql = load(__package__, "submission.sql")

_NO_LIMITS = SendLimits()
#: a tenant and the key of its send
_SendKey = tuple[str, bytes]
#: a tenant, a kind and a name
_GuardKey = tuple[str, str, bytes]
_COOL_DOWN = "cool_down"
_KEY = "key"
_RECIPIENT = "recipient"


class _Guard(msgspec.Struct):
    """State of a limit, including the intents accepted in this batch."""

    until: int = 0
    used: int = 0
    #: the send that started the cool-down, unless it is proven unsent
    holder: str | None = None


class _Budget(NamedTuple):
    place: _GuardKey
    most: int


def _refuse_guarded(tx: Transaction, new: Sequence[NewSend], now: int) -> dict[str, IntentRefused]:
    """Return the refused intents by id, in the order of submission.

    A repeat of an existing send is never refused and costs nothing.
    """
    guarded = [each for each in new if each.guards != _NO_LIMITS]
    if not guarded:
        return {}
    fresh = _with_transport(tx, _not_repeats(guarded, sends_by_key(tx, map(_send_key, guarded))))
    if not fresh:
        return {}
    guards = _lock_guards(tx, fresh, now)
    # The same key may have been stored while this transaction waited for the locks.
    known = sends_by_key(tx, map(_send_key, fresh))
    refused: dict[str, IntentRefused] = {}
    accepted: set[_SendKey] = set()
    for each in _not_repeats(fresh, known):
        if _send_key(each) in accepted:
            continue
        earlier = known.get(_send_key(each))
        id_ = each.id if earlier is None else earlier.id
        refusal = _cooling_down(guards, each, id_, now) or _over_budget(guards, each, now)
        if refusal is None:
            accepted.add(_send_key(each))
            _count_guards(guards, each, id_, now)
        else:
            refused[each.id] = refusal
    return refused


def _charge_guards(tx: Transaction, stored: Sequence[tuple[str, NewSend]], now: int) -> None:
    """Charge stored and rearmed intents; each comes with the id of its send."""
    stored = [(id_, each) for id_, each in stored if each.guards != _NO_LIMITS]
    cooled = {
        place: (place[0], place[2], _cool_until(each, now), id_)
        for id_, each in stored
        for place in _cool_downs(each)
    }
    if cooled:
        tx.run_many(_sql.cool, [cooled[place] for place in sorted(cooled)], now=now)
    spent = Counter(budget.place for _, each in stored for budget in _budgets(each))
    if spent:
        rows = [(*place, spent[place]) for place in sorted(spent)]
        tx.run_many(_sql.spend, rows, now=now, span=BUDGET_WINDOW)


def forget_guards(tx: Transaction, now: int, most: int = 1_000) -> int:
    """Delete expired cool-downs and budgets; return how many."""
    return tx.run(_sql.forget, now=now, most=most)


def _not_repeats(new: Iterable[NewSend], known: Mapping[_SendKey, Send]) -> list[NewSend]:
    """Return intents that are not repeats of a send that stays as it is."""
    return [each for each in new if _is_new(each, known.get(_send_key(each)))]


def _is_new(new: NewSend, known: Send | None) -> bool:
    return known is None or (known.state in REARMABLE_STATES and known.protected == new.protected)


def _with_transport(tx: Transaction, new: Sequence[NewSend]) -> list[NewSend]:
    """Drop intents of missing transports: they are not stored and must not use up limits."""
    named = {_chosen_way(each) for each in new if not _may_be_logged(each)}
    missing = named - set(tx.many(_sql.ways, sorted(named)))
    return [each for each in new if _chosen_way(each) not in missing]


def _chosen_way(new: NewSend) -> tuple[str, str, str]:
    return new.tenant, new.transport, new.failover_group


def _may_be_logged(new: NewSend) -> bool:
    """Tell whether the log transport is named, or used if there is no other."""
    return new.transport == LOG_TRANSPORT or not (new.transport or new.failover_group)


def _lock_guards(tx: Transaction, new: Sequence[NewSend], now: int) -> dict[_GuardKey, _Guard]:
    """Lock the limits of these intents, always in the same order, and return their state."""
    cool_downs = {place for each in new for place in _cool_downs(each)}
    budgets = {budget.place for each in new for budget in _budgets(each)}
    rows = tx.many(_sql.hold, sorted(cool_downs | budgets))
    begun = sorted({(row[0], row[5]) for row in rows if row[5] is not None and row[3] > now})
    live = set(tx.many(_sql.live, begun))
    found: dict[_GuardKey, _Guard] = {}
    for tenant, kind, name, until, used, holder in rows:
        counts = (tenant, holder) in live
        found[tenant, kind, bytes(name)] = _Guard(until, used, holder if counts else None)
    return found


def _cooling_down(
    guards: Mapping[_GuardKey, _Guard], new: NewSend, id_: str, now: int
) -> IntentRefused | None:
    held = [guards[place] for place in _cool_downs(new)]
    others = [each for each in held if each.holder not in {None, id_} and each.until > now]
    if not others:
        return None
    last = max(others, key=lambda each: each.until)
    wait = last.until - now
    return IntentRefused(status=AnswerStatus.COOLING_DOWN, retry_after=wait, earlier=last.holder)


def _over_budget(
    guards: Mapping[_GuardKey, _Guard], new: NewSend, now: int
) -> IntentRefused | None:
    spent = [
        guards[budget.place].until - now
        for budget in _budgets(new)
        if guards[budget.place].until > now and guards[budget.place].used >= budget.most
    ]
    return IntentRefused(status=AnswerStatus.OVER_BUDGET, retry_after=max(spent)) if spent else None


def _count_guards(guards: Mapping[_GuardKey, _Guard], new: NewSend, id_: str, now: int) -> None:
    """Count an accepted intent against the limits for the next ones of the batch."""
    for place in _cool_downs(new):
        guards[place].until, guards[place].holder = _cool_until(new, now), id_
    for budget in _budgets(new):
        guard = guards[budget.place]
        if guard.until <= now:
            guard.until, guard.used = now + BUDGET_WINDOW, 0
        guard.used += 1


def _cool_downs(new: NewSend) -> list[_GuardKey]:
    """Return the cool-downs: one per recipient and event type, also without a type."""
    if not new.guards.cool_down:
        return []
    type_ = new.event_type.encode()
    return [(new.tenant, _COOL_DOWN, mark + type_) for mark in new.marks]


def _cool_until(new: NewSend, now: int) -> int:
    """Return the end of a cool-down, which starts at the time of sending."""
    return max(now, new.send_at or now) + new.guards.cool_down


def _budgets(new: NewSend) -> list[_Budget]:
    found = []
    if new.guards.per_key and new.owner is not None:
        found.append(_Budget((new.tenant, _KEY, new.owner.encode()), new.guards.per_key))
    if new.guards.per_recipient:
        most = new.guards.per_recipient
        found += [_Budget((new.tenant, _RECIPIENT, mark), most) for mark in new.marks]
    return found


#: the log transport comes after all others
_LOG_POSITION = 1_000_000


def intent_topics(results: Sequence[IntentResult]) -> list[str]:
    """Return the topics to notify after intents with these results were stored."""
    accepted = [each for each in results if isinstance(each, IntentAccepted)]
    work = any(
        each.send.state is SendState.PENDING and (each.created or each.rearmed) for each in accepted
    )
    suppressed = any(each.send.state is SendState.SUPPRESSED for each in accepted)
    return [SENDS] * work + [EVENTS] * suppressed


def _size(new: NewSend) -> int:
    return len(new.message) + len(new.envelope)


def store_new(tx: Transaction, new: Sequence[NewSend], now: int) -> list[IntentResult] | None:
    """Store new intents in one statement; None if some need more, with the others stored."""
    if any(each.guards != _NO_LIMITS for each in new):
        return None
    rows = [
        (*_insert_row(each, now), each.message, each.envelope, b"".join(each.marks))
        for each in sorted(new, key=_lock_order)
    ]
    added = tx.many(_sql.store_whole, rows, now=now)
    if len(added) < len(new):
        return None
    found = {id_: way for id_, *way in added}
    return [answer_intent(each, _created(each, found[each.id], now), created=True) for each in new]


def _lock_order(new: NewSend) -> tuple[str, bytes, str]:
    """Always the same, to avoid deadlocks."""
    return new.tenant, new.key, new.id


def _created(new: NewSend, stored: Sequence[Any], now: int) -> Send:
    """Return a new send as it was written: its transport, its fence, and whether it is signed."""
    transport, fence, must_sign = stored
    return new_send(new, transport, now, fence=fence, must_sign=bool(must_sign))


@grouped(fast=store_new, size=_size, topics=intent_topics)
def store_intents(tx: Transaction, new: Sequence[NewSend], now: int) -> list[IntentResult]:
    """Store intents, or return the sends of repeated ones; None if the transport is missing.

    The first payload wins. A send that is proven not sent is rearmed with the new payload.
    """
    answers = _store_intents(tx, new, now)
    # Not stored, because the tenant has no ``log`` transport yet.
    unlogged = [
        n
        for n, each in enumerate(answers)
        if _may_be_logged(new[n])
        and (each is None or (isinstance(each, IntentAccepted) and each.may_rearm))
    ]
    if unlogged:
        tenants = sorted({(new[n].tenant,) for n in unlogged})
        tx.run_many(_sql.add_log, tenants, last=_LOG_POSITION, now=now)
        later = _store_intents(tx, [new[n] for n in unlogged], now)
        for n, each in zip(unlogged, later, strict=True):
            answers[n] = each
    return answers


def find_existing(tx: Transaction, asked: Sequence[IntentIdentity]) -> list[IntentAccepted | None]:
    """Return the sends of repeated intents without writing; None if one must be stored."""
    known = sends_by_key(tx, map(_send_key, asked))
    found = [(each, known.get(_send_key(each))) for each in asked]
    answers = [None if send is None else answer_intent(each, send) for each, send in found]
    return [None if each is None or each.may_rearm else each for each in answers]


def sends_by_key(tx: Transaction, keys: Iterable[_SendKey]) -> dict[_SendKey, Send]:
    """Return sends by tenant and key; missing ones are left out."""
    found = map(sends.to_send, tx.many(_sql.by_keys, sorted(set(keys))))
    return {_send_key(send): send for send in found}


def _store_intents(tx: Transaction, new: Sequence[NewSend], now: int) -> list[IntentResult]:
    ordered = sorted(new, key=_lock_order)
    refused = _refuse_guarded(tx, ordered, now)
    ordered = [each for each in ordered if each.id not in refused]
    rows = [_insert_row(each, now) for each in ordered]
    added = tx.many(_sql.intents_add, rows, now=now)
    fresh = {id_: way for id_, *way in added}
    rearmed = _rearm(tx, [each for each in ordered if each.id not in fresh], now)
    send_ids = {**{id_: id_ for id_ in fresh}, **rearmed}
    stored = [(send_ids[each.id], each) for each in ordered if each.id in send_ids]
    _charge_guards(tx, stored, now)
    ended = _store_bodies(tx, stored, now)
    # A new send is known as written, unless it ended at once.
    known = {
        _send_key(each): _created(each, fresh[each.id], now)
        for each in ordered
        if each.id in fresh and each.id not in ended
    }
    known |= sends_by_key(tx, {_send_key(each) for each in new} - known.keys())
    results: dict[str, IntentResult] = {**refused}
    for each in new:
        if each.id not in refused and (send := known.get(_send_key(each))) is not None:
            # ``store_new`` may have stored it just before.
            created, again = send.id == each.id, each.id in rearmed
            results[each.id] = answer_intent(each, send, created=created, rearmed=again)
    return [results.get(each.id) for each in new]


def _rearm(tx: Transaction, rest: Sequence[NewSend], now: int) -> dict[str, str]:
    """Rearm sends where possible; return their ids by the ids of the new intents."""
    if not rest:
        return {}
    rows = tx.many(_sql.rearm, [_rearm_row(each, now) for each in rest])
    return {new_id: id_ for id_, new_id in rows}


def _store_bodies(tx: Transaction, stored: Sequence[tuple[str, NewSend]], now: int) -> set[str]:
    """Store bodies and recipients; end suppressed sends and return their ids."""
    if not stored:
        return set()
    tx.run_many(
        _sql.add_body, [(id_, new.id, new.tenant, new.message, new.envelope) for id_, new in stored]
    )
    old = sorted((id_, new.id) for id_, new in stored if id_ != new.id)
    if old:
        tx.run_many(_sql.drop_old_body, old)
    marks = sorted({(id_, mark, new.tenant) for id_, new in stored for mark in new.marks})
    if marks:
        tx.run_many(_sql.add_recipient, marks)
    # A recipient suppressed at this moment is found by the marker at the latest.
    suppressing = {
        row[0] for row in tx.many(_sql.wary, sorted({(new.tenant,) for _, new in stored}))
    }
    refs = sorted((new.tenant, id_) for id_, new in stored if new.tenant in suppressing)
    ended = {row[0] for row in tx.many(_sql.suppress, refs, now=now)} if refs else set()
    if ended:
        suppressed = sends.by_ids(tx, (ref for ref in refs if ref[1] in ended))
        sends.record_events(tx, suppressed.values(), now)
    return ended


def new_send(
    new: NewSend, transport: str, now: int, *, fence: int = 0, must_sign: bool = False
) -> Send:
    """Return a send as it is right after its intent was stored; with a fence, it is leased."""
    lease = new.lease if fence else None
    return Send(
        id=new.id,
        tenant=new.tenant,
        key=new.key,
        protected=new.protected,
        content=new.content,
        message_id=new.message_id,
        event_type=new.event_type,
        entity_id=new.entity_id,
        owner=new.owner,
        attempt_id=new.attempt_id,
        delivery_id=new.delivery_id,
        effect=new.effect,
        on_unknown=new.on_unknown,
        send_at=new.send_at,
        valid_until=new.valid_until,
        retention=new.retention,
        state=SendState.CLAIMED if lease else SendState.PENDING,
        transport=transport,
        created_at=now,
        due_at=now + lease.duration if lease else _due_at(new, now),
        body_id=new.id,
        size=_size(new),
        fence=fence,
        tries=fence,
        worker=lease.worker if lease else None,
        claimed_at=now if lease else None,
        pinned=new.pinned,
        must_sign=must_sign,
    )


def answer_intent(
    asked: NewSend | IntentIdentity, known: Send, *, created: bool = False, rearmed: bool = False
) -> IntentAccepted:
    """Return the answer to an intent whose key belongs to this send."""
    drift = known.content != asked.content
    if known.protected != asked.protected:
        return IntentAccepted(status=AnswerStatus.CONFLICT, send=known, drift=drift)
    status = answer_status(known.state, repeated=not (created or rearmed))
    return IntentAccepted(status=status, send=known, created=created, rearmed=rearmed, drift=drift)


def _send_key(send: NewSend | Send | IntentIdentity) -> _SendKey:
    return send.tenant, send.key


def _insert_row(new: NewSend, now: int) -> Row:
    return (
        new.id, new.tenant, new.key, new.protected, new.content, new.transport, new.message_id,
        new.event_type, new.entity_id, new.owner, new.attempt_id, new.delivery_id, new.effect,
        str(new.on_unknown), new.send_at, _due_at(new, now), new.valid_until, str(new.retention),
        new.kept_for, _size(new), new.failover_group, int(new.pinned),
        *_lease_columns(new.lease, now),
    )  # fmt: skip


def _lease_columns(lease: SendLease | None, now: int) -> Row:
    if lease is None:
        return (None, None, None, None)
    return lease.worker, lease.transport, lease.changed_at, now + lease.duration


def _rearm_row(new: NewSend, now: int) -> Row:
    return (
        new.id, new.tenant, new.key, new.protected, new.content, new.transport, new.message_id,
        new.owner, str(new.on_unknown), new.send_at, _due_at(new, now), new.valid_until,
        str(new.retention), new.kept_for, _size(new), new.failover_group, int(new.pinned),
    )  # fmt: skip


def _due_at(new: NewSend, now: int) -> int:
    return now if new.send_at is None else max(now, new.send_at)


class NewBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A batch to store."""

    id: str
    tenant: str
    #: idempotency key
    key: bytes
    owner: str | None = None


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """A stored batch."""

    id: str
    tenant: str
    #: fingerprint of the keys of its sends, in order
    members: bytes
    owner: str | None
    size: int
    created_at: int


class IntendedBatch(msgspec.Struct, frozen=True, kw_only=True):
    """The ledger's answer to a batch, given only after the commit."""

    batch: Batch
    #: one per send; empty in a conflict
    answers: tuple[IntentAccepted, ...] = ()
    #: the key belongs to a batch of other sends: refused, 422
    conflict: bool = False


def store_batch(
    tx: Transaction, new: NewBatch, wanted: Sequence[NewSend], now: int, *, strict: bool = False
) -> IntendedBatch:
    """Store a batch and its sends in one commit, or return the sends of a repeated one.

    All sends are stored, or none. ``strict`` refuses repeats with other content.

    Raises: NotFound, SendCoolingDown, SendBudgetSpent, SendKeyConflict.
    """
    members = hashlib.sha256(msgspec.msgpack.encode([each.key for each in wanted])).digest()
    tx.run(
        _sql.batches_add,
        id=new.id,
        tenant=new.tenant,
        key=new.key,
        members=members,
        owner=new.owner,
        size=len(wanted),
        now=now,
    )
    row = tx.one(_sql.of_key, tenant=new.tenant, key=new.key)
    if row is None:  # it was deleted between the two statements
        raise NotFound("there is no such batch")
    batch = _to_batch(row)
    if batch.members != members:
        return IntendedBatch(batch=batch, conflict=True)
    answers: list[IntentAccepted] = []
    for result in store_intents(tx, wanted, now):
        if not isinstance(result, IntentAccepted):
            raise refusal_error(result)
        answers.append(result)
    if strict and any(map(_differs, answers, wanted)):
        raise batch_conflict()
    rows = [(n, result.send.id) for n, result in enumerate(answers)]
    tx.run_many(_sql.join, rows, batch_id=batch.id, tenant=new.tenant)
    return IntendedBatch(batch=batch, answers=tuple(answers))


def _differs(result: IntentAccepted, wanted: NewSend) -> bool:
    """Tell whether a repeated intent differs from its stored send."""
    if result.created or result.rearmed:
        return False
    is_conflict = result.status is AnswerStatus.CONFLICT
    return is_conflict or result.drift or result.send.send_at != wanted.send_at


def batch_conflict() -> SendKeyConflict:
    """Return the error for a key of another batch."""
    return SendKeyConflict("this key belongs to a batch of other sends; give a new one")


def refusal_error(result: IntentRefused | None) -> OnceboxError:
    """Return the error of an intent that was not stored."""
    if result is None:
        return NotFound(
            "there is no such transport or failover group; list them with: oncebox transport list"
        )
    wait = result.retry_after / 1000
    if result.status is AnswerStatus.COOLING_DOWN:
        return SendCoolingDown(send_id=result.earlier or "", wait=wait)
    return SendBudgetSpent(wait=wait)


def _to_batch(row: Row) -> Batch:
    values = dict(zip(Batch.__struct_fields__, row, strict=True))
    return Batch(**{**values, "members": bytes(values["members"])})
