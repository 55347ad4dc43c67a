"""Settlements: how did a try end, and who may say so?

Only the holder of a send may say that it was not sent. That it was sent is proof, and is taken
from whoever brings it.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence

from oncebox.ledger.sends import gates, leases, notices, sends
from oncebox.model.outcome import Accepted, NotSent, Outcome, Rejected
from oncebox.model.send import Send, SendWord, Settled
from oncebox.model.transport import BreakerRules
from oncebox.store.database import Row, Transaction
from oncebox.store.queries import Query, load

_sql = load(__package__, "settlements.sql")

_RULES = BreakerRules()

#: columns of a row that tells of a change and not how the send stands
_FENCE_AND_ID = 2


def settle(
    tx: Transaction, words: Sequence[SendWord], now: int, rules: BreakerRules = _RULES
) -> list[Settled | None]:
    """Record how tries ended; tell how the sends stand. None where there is no such send."""
    spoken = defaultdict(list)
    for word in words:
        spoken[_kind(word)].append(word)
    kept = logged(tx, spoken.pop("logged", ()), now)
    _record_tries(tx, words, kept, now)
    # Proof comes first: who says in the same commit that it was not sent speaks of another try.
    rows = kept + [row for kind, verb in _VERBS.items() for row in verb(tx, spoken[kind], now)]
    counted = {(row[1], row[0]) for row in rows}
    stand = _stand(tx, words, rows)
    changed = {id_ for id_, _ in counted}
    notices.record(tx, [stand[place] for place in sorted(stand) if place[1] in changed], now)
    ways = [((word.tenant, word.transport), word.outcome) for word in words if word.transport]
    gates.hear(tx, ways, rules, now)
    found = [stand.get((word.tenant, word.id)) for word in words]
    return [
        None if send is None else Settled(send, (word.id, word.fence) in counted)
        for word, send in zip(words, found, strict=True)
    ]


def accepted(tx: Transaction, words: Sequence[SendWord], now: int) -> list[Row]:
    """Record proof that the other side took sends; return what was news."""
    rows = [(*_held(word), _provider_id(word.outcome)) for word in words]
    return _run(tx, _sql.accept, rows, now)


def logged(tx: Transaction, words: Sequence[SendWord], now: int) -> list[Row]:
    """Record that sends were stored by a transport that sends nothing.

    What may never be is ended, as by the marker (``leases.begin``).
    """
    held = [_held(word) for word in words]
    rows = _run(tx, _sql.log, held, now)
    taken = {(row[1], row[0]) for row in rows}
    refused = sorted(each for each in held if each[1:] not in taken)
    leases.refuse(tx, refused, now, may_repeat=False)
    return rows


def not_sent(tx: Transaction, words: Sequence[SendWord], now: int) -> list[Row]:
    """Record that tries were certainly not taken; they are tried again when they are due."""
    rows = [(*_held(w), *_why(w.outcome), w.due_at, w.move_to, int(w.free)) for w in words]
    return _run(tx, _sql.put_back, rows, now)


def rejected(tx: Transaction, words: Sequence[SendWord], now: int) -> list[Row]:
    """Record that tries were not taken and never will be."""
    return _run(tx, _sql.reject, [(*_held(word), *_why(word.outcome)) for word in words], now)


def unknown(tx: Transaction, words: Sequence[SendWord], now: int) -> list[Row]:
    """Record that nobody can know whether tries were taken."""
    rows = [(*_held(word), *_why(word.outcome), word.due_at) for word in words]
    return _run(tx, _sql.doubt, rows, now)


_VERBS: dict[str, Callable[[Transaction, Sequence[SendWord], int], list[Row]]] = {
    "accepted": accepted,
    "not_sent": not_sent,
    "rejected": rejected,
    "unknown": unknown,
}


def _record_tries(
    tx: Transaction, words: Sequence[SendWord], kept: Sequence[Row], now: int
) -> None:
    """Write down how tries ended, except those whose mail the log was not to take."""
    taken = {(row[1], row[0]) for row in kept}
    said = [w for w in words if w.fence and (_kind(w) != "logged" or (w.id, w.fence) in taken)]
    tries = {_held(word): _tried(word) for word in said}
    tx.run_many(_sql.record_try, sorted(tries.values(), key=_place), now=now)


def _run(tx: Transaction, query: Query, rows: Sequence[Row], now: int) -> list[Row]:
    """Return of each that changed the fence, its id and perhaps the rest of how it stands."""
    return tx.many(query, sorted(rows, key=_place), now=now) if rows else []


def _stand(
    tx: Transaction, words: Sequence[SendWord], rows: Sequence[Row]
) -> dict[sends.Place, Send]:
    """Return how sends stand: as they were returned, else as they are read."""
    told = [sends.read(row[1:]) for row in rows if len(row) > _FENCE_AND_ID]
    stand = {(each.tenant, each.id): each for each in told}
    return stand | sends.by_ids(tx, {(word.tenant, word.id) for word in words} - stand.keys())


def _kind(word: SendWord) -> str:
    """Return the word under which a try is written down."""
    if isinstance(word.outcome, Accepted):
        return "logged" if word.logged else "accepted"
    if isinstance(word.outcome, NotSent):
        return "not_sent"
    return "rejected" if isinstance(word.outcome, Rejected) else "unknown"


def _tried(word: SendWord) -> Row:
    provider_id = _provider_id(word.outcome)
    return (*_held(word), _kind(word), *_why(word.outcome), provider_id, word.transport)


def _why(outcome: Outcome) -> tuple[str | None, str, int]:
    if isinstance(outcome, Accepted):
        return None, str(outcome.phase), 0
    return outcome.code, str(outcome.phase), outcome.reply


def _provider_id(outcome: Outcome) -> str:
    return outcome.provider_id if isinstance(outcome, Accepted) else ""


def _held(word: SendWord) -> tuple[str, str, int]:
    return word.tenant, word.id, word.fence


def _place(row: Row) -> Row:
    return row[:3]
