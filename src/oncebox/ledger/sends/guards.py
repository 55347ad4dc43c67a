"""Guards: may so much be sent, and does somebody get such a mail for the second time?

An agent that plans anew makes a new key for the same mail. What its key, its recipients and their
event types have had is kept in rows that are also locks: who wants to take from them holds them
first, decides, and takes only for what was stored.

Nobody gives anything back. A cool-down counts as long as the send that began it is not proven
unsent, and that is looked up (docs/decisions/0068).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from oncebox.ledger.sends import sends
from oncebox.model.guards import BUDGET_SPAN
from oncebox.model.send import REARMED, Answer, NewSend, Send, TurnedDown
from oncebox.model.transport import LOG
from oncebox.send_errors import SendBudgetSpent, SendCoolingDown
from oncebox.store.database import Transaction
from oncebox.store.queries import load

_sql = load(__package__, "guards.sql")

#: a tenant, a kind and a name
_Place = tuple[str, str, bytes]
_COOL_DOWN = "cool_down"
_KEY = "key"
_RECIPIENT = "recipient"


class _Guard(msgspec.Struct):
    """A guard as it will stand when all who were let in have taken."""

    until: int = 0
    used: int = 0
    #: the send whose cool-down it is, unless that one is proven unsent
    holder: str | None = None


class _Budget(NamedTuple):
    """How many sends an hour may have."""

    place: _Place
    most: int


def turn_down(tx: Transaction, new: Sequence[NewSend], now: int) -> dict[str, TurnedDown]:
    """Return those that are not let in, by id, in the order in which they ask.

    What asks again for a send that is there is let in, and costs nothing.
    """
    guarded = [each for each in new if _is_guarded(each)]
    if not guarded:
        return {}
    asking = _with_a_way(tx, _asking(guarded, sends.by_keys(tx, _keys(guarded))))
    if not asking:
        return {}
    guards = _held(tx, asking, now)
    # Who waited for the locks may have waited for the same key.
    known = sends.by_keys(tx, _keys(asking))
    turned: dict[str, TurnedDown] = {}
    let_in: set[tuple[str, bytes]] = set()
    for each in _asking(asking, known):
        if _key(each) in let_in:
            continue
        earlier = known.get(_key(each))
        id_ = each.id if earlier is None else earlier.id
        refusal = _cooling(guards, each, id_, now) or _spent(guards, each, now)
        if refusal is None:
            let_in.add(_key(each))
            _count(guards, each, id_, now)
        else:
            turned[each.id] = refusal
    return turned


def take(tx: Transaction, stored: Sequence[tuple[str, NewSend]], now: int) -> None:
    """Take for intents that were stored as new or armed again; each with the id of its send."""
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
        tx.run_many(_sql.spend, rows, now=now, span=BUDGET_SPAN)


def forget(tx: Transaction, now: int, most: int = 1_000) -> int:
    """Forget guards that guard nothing any more; return how many."""
    return tx.run(_sql.forget, now=now, most=most)


def refusal(told: TurnedDown) -> SendCoolingDown | SendBudgetSpent:
    """Return the error of an intent that was not let in."""
    wait = told.retry_after / 1000
    if told.answer is Answer.COOLING_DOWN:
        return SendCoolingDown(send_id=told.earlier or "", wait=wait)
    return SendBudgetSpent(wait=wait)


def _is_guarded(new: NewSend) -> bool:
    return bool(_cool_downs(new) or _budgets(new))


def _asking(new: Iterable[NewSend], known: Mapping[tuple[str, bytes], Send]) -> list[NewSend]:
    """Return those that are not the repeat of a send that stays as it is."""
    return [each for each in new if _is_new(each, known.get(_key(each)))]


def _is_new(new: NewSend, known: Send | None) -> bool:
    return known is None or (known.state in REARMED and known.protected == new.protected)


def _with_a_way(tx: Transaction, new: Sequence[NewSend]) -> list[NewSend]:
    """Leave out those that will not be stored, so that they keep nobody out."""
    named = {(each.tenant, each.transport) for each in new} - {(each.tenant, LOG) for each in new}
    wanted = sorted(way for way in named if way[1])
    missing = set(wanted) - set(tx.many(_sql.ways, wanted))
    return [each for each in new if (each.tenant, each.transport) not in missing]


def _held(tx: Transaction, asking: Sequence[NewSend], now: int) -> dict[_Place, _Guard]:
    """Lock what these would take from, in one order for all, and return how it stands."""
    cool_downs = {place for each in asking for place in _cool_downs(each)}
    budgets = {budget.place for each in asking for budget in _budgets(each)}
    rows = tx.many(_sql.hold, sorted(cool_downs | budgets))
    begun = sorted({(row[0], row[5]) for row in rows if row[5] is not None and row[3] > now})
    live = set(tx.many(_sql.live, begun))
    found: dict[_Place, _Guard] = {}
    for tenant, kind, name, until, used, holder in rows:
        counts = (tenant, holder) in live
        found[tenant, kind, bytes(name)] = _Guard(until, used, holder if counts else None)
    return found


def _cooling(
    guards: Mapping[_Place, _Guard], new: NewSend, id_: str, now: int
) -> TurnedDown | None:
    """Return that a recipient has just been meant to get such a mail, under another key."""
    held = [guards[place] for place in _cool_downs(new)]
    others = [each for each in held if each.holder not in {None, id_} and each.until > now]
    if not others:
        return None
    last = max(others, key=lambda each: each.until)
    wait = last.until - now
    return TurnedDown(answer=Answer.COOLING_DOWN, retry_after=wait, earlier=last.holder)


def _spent(guards: Mapping[_Place, _Guard], new: NewSend, now: int) -> TurnedDown | None:
    """Return that too much was asked for in this hour."""
    spent = [
        guards[budget.place].until - now
        for budget in _budgets(new)
        if guards[budget.place].until > now and guards[budget.place].used >= budget.most
    ]
    return TurnedDown(answer=Answer.OVER_BUDGET, retry_after=max(spent)) if spent else None


def _count(guards: Mapping[_Place, _Guard], new: NewSend, id_: str, now: int) -> None:
    """Let those who ask after this one find what it takes."""
    for place in _cool_downs(new):
        guards[place].until, guards[place].holder = _cool_until(new, now), id_
    for budget in _budgets(new):
        guard = guards[budget.place]
        if guard.until <= now:
            guard.until, guard.used = now + BUDGET_SPAN, 0
        guard.used += 1


def _cool_downs(new: NewSend) -> list[_Place]:
    """Return what cools down: each recipient with the event type; no type is one, too."""
    if not new.guards.cool_down:
        return []
    type_ = new.event_type.encode()
    return [(new.tenant, _COOL_DOWN, mark + type_) for mark in new.marks]


def _cool_until(new: NewSend, now: int) -> int:
    """Return the end of a cool-down, which begins when the mail is to be sent."""
    return max(now, new.send_at or now) + new.guards.cool_down


def _budgets(new: NewSend) -> list[_Budget]:
    found = []
    if new.guards.per_key and new.owner is not None:
        found.append(_Budget((new.tenant, _KEY, new.owner.encode()), new.guards.per_key))
    if new.guards.per_recipient:
        most = new.guards.per_recipient
        found += [_Budget((new.tenant, _RECIPIENT, mark), most) for mark in new.marks]
    return found


def _keys(new: Iterable[NewSend]) -> Iterable[tuple[str, bytes]]:
    return map(_key, new)


def _key(new: NewSend) -> tuple[str, bytes]:
    return new.tenant, new.key
