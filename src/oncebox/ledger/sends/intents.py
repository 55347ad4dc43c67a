"""Intents: has it been asked for before, and what becomes of asking again?

Many callers share a commit, so what is refused is told, not raised.
"""

from collections.abc import Collection, Sequence

from oncebox.ledger.sends import guards, notices, sends
from oncebox.model.send import (
    REARMED,
    Answer,
    Intended,
    NewSend,
    Repeat,
    Send,
    SendReply,
    SendState,
    TurnedDown,
    answer,
    as_added,
)
from oncebox.model.transport import LOG
from oncebox.store.database import Row, Transaction
from oncebox.store.queries import load

_sql = load(__package__, "intents.sql")

#: the transport that sends nothing comes after all others
_LAST = 1_000_000


def intend(tx: Transaction, new: Sequence[NewSend], now: int) -> list[SendReply]:
    """Store intents, or tell how those stand that came before; None where there is no such way.

    The first payload wins. What is proven not sent is armed again, with the payload it has now.
    """
    answers = _intend(tx, new, now)
    unlogged = [n for n, each in enumerate(answers) if _wants_log(new[n], each)]
    if unlogged:
        tenants = sorted({(new[n].tenant,) for n in unlogged})
        tx.run_many(_sql.add_log, tenants, last=_LAST, now=now)
        later = _intend(tx, [new[n] for n in unlogged], now)
        for n, each in zip(unlogged, later, strict=True):
            answers[n] = each
    return answers


def repeat(tx: Transaction, asked: Sequence[Repeat]) -> list[Intended | None]:
    """Tell how intents stand that came before, and write nothing; None where there is to do."""
    known = sends.by_keys(tx, map(_key, asked))
    answers = [_told(each, known.get(_key(each))) for each in asked]
    return [None if each is None or _may_rearm(each) else each for each in answers]


def is_waiting(told: SendReply) -> bool:
    """Say whether a worker has something to do because of this very call."""
    if not isinstance(told, Intended):
        return False
    return told.send.state is SendState.PENDING and (told.created or told.rearmed)


def _intend(tx: Transaction, new: Sequence[NewSend], now: int) -> list[SendReply]:
    # One order for all, so that two with the same intents do not wait for each other.
    ordered = sorted(new, key=lambda each: (each.tenant, each.key, each.id))
    turned = guards.turn_down(tx, ordered, now)
    ordered = [each for each in ordered if each.id not in turned]
    rows = [_values(each, now) for each in ordered]
    fresh: dict[str, str] = dict(tx.many(_sql.add, rows, now=now))
    rearmed = _rearm(tx, [each for each in ordered if each.id not in fresh], now)
    kept = {**{id_: id_ for id_ in fresh}, **rearmed}
    stored = [(kept[each.id], each) for each in ordered if each.id in kept]
    guards.take(tx, stored, now)
    ended = _keep(tx, stored, now)
    # What is new stands as it was written, unless it ended at once.
    known = {
        _key(each): as_added(each, fresh[each.id], _due(each, now), now)
        for each in ordered
        if each.id in fresh and each.id not in ended
    }
    known |= sends.by_keys(tx, {_key(each) for each in new} - known.keys())
    return [
        turned.get(each.id) or _answer(each, known.get(_key(each)), fresh.keys(), rearmed)
        for each in new
    ]


def _wants_log(new: NewSend, told: SendReply) -> bool:
    """Say whether an intent was not taken because its tenant has no ``log`` transport yet."""
    if isinstance(told, TurnedDown):
        return False
    return new.transport in {LOG, ""} and (told is None or _may_rearm(told))


def _may_rearm(told: Intended) -> bool:
    return told.answer is not Answer.CONFLICT and told.send.state in REARMED


def _rearm(tx: Transaction, rest: Sequence[NewSend], now: int) -> dict[str, str]:
    """Arm again what may be; return the sends that new intents became, by the ids of these."""
    if not rest:
        return {}
    rows = tx.many(_sql.rearm, [_values_again(each, now) for each in rest])
    return {new_id: id_ for id_, new_id in rows}


def _keep(tx: Transaction, kept: Sequence[tuple[str, NewSend]], now: int) -> set[str]:
    """Keep what sends say and who they go to; end those that may go to nobody, and name them."""
    if not kept:
        return set()
    tx.run_many(
        _sql.add_body, [(id_, new.id, new.tenant, new.message, new.envelope) for id_, new in kept]
    )
    old = sorted((id_, new.id) for id_, new in kept if id_ != new.id)
    if old:
        tx.run_many(_sql.drop_old_body, old)
    marks = sorted({(id_, mark, new.tenant) for id_, new in kept for mark in new.marks})
    if marks:
        tx.run_many(_sql.add_recipient, marks)
    # Who is put on the list at this moment is seen by the marker at the latest.
    wary = {row[0] for row in tx.many(_sql.wary, sorted({(new.tenant,) for _, new in kept}))}
    places = sorted((new.tenant, id_) for id_, new in kept if new.tenant in wary)
    ended = {row[0] for row in tx.many(_sql.suppress, places, now=now)} if places else set()
    if ended:
        stand = sends.by_ids(tx, (place for place in places if place[1] in ended))
        notices.record(tx, stand.values(), now)
    return ended


def _answer(
    new: NewSend, known: Send | None, fresh: Collection[str], rearmed: dict[str, str]
) -> Intended | None:
    return _told(new, known, created=new.id in fresh, rearmed=new.id in rearmed)


def _told(
    asked: NewSend | Repeat, known: Send | None, *, created: bool = False, rearmed: bool = False
) -> Intended | None:
    if known is None:
        return None
    drift = known.content != asked.content
    if known.protected != asked.protected:
        return Intended(answer=Answer.CONFLICT, send=known, drift=drift)
    told = answer(known.state, repeated=not (created or rearmed))
    return Intended(answer=told, send=known, created=created, rearmed=rearmed, drift=drift)


def _key(asked: NewSend | Repeat) -> tuple[str, bytes]:
    return asked.tenant, asked.key


def _values(new: NewSend, now: int) -> Row:
    return (
        new.id, new.tenant, new.key, new.protected, new.content, new.transport, new.message_id,
        new.event_type, new.entity_id, new.owner, new.attempt_id, new.delivery_id, new.effect,
        str(new.on_unknown), new.send_at, _due(new, now), new.valid_until, str(new.retention),
        new.kept_for, new.size,
    )  # fmt: skip


def _values_again(new: NewSend, now: int) -> Row:
    return (
        new.id, new.tenant, new.key, new.protected, new.content, new.transport, new.message_id,
        new.owner, str(new.on_unknown), new.send_at, _due(new, now), new.valid_until,
        str(new.retention), new.kept_for, new.size,
    )  # fmt: skip


def _due(new: NewSend, now: int) -> int:
    return now if new.send_at is None else max(now, new.send_at)
