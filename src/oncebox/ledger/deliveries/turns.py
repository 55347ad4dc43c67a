"""Turns: whose turn it is in a lane that goes by more than arrival.

The lowest number goes first, and a type that waits for another lets that one go first. What is
missing is waited for, each by the one who waits and only up to its bound: then it is due. A
delivery that was begun keeps its turn until it ends. Whoever calls this holds the lane's row.
"""

import hashlib
from typing import NamedTuple

from oncebox.model.delivery import State
from oncebox.store.database import Transaction
from oncebox.store.queries import load

_sql = load(__package__, "turns.sql")

Lane = tuple[str, str, str]
#: a delivery in these has been begun and is not overtaken
_BEGUN = {State.PROCESSING, State.FAILED}


class _Member(NamedTuple):
    """One of a lane, with what it may wait for."""

    id: str
    state: str
    type: str
    sequence: int | None
    gap_until: int | None
    after: str | None
    after_until: int | None


class _Holder(NamedTuple):
    """Who has the turn, if anybody, and the highest number done in the lane."""

    id: str | None
    state: str | None
    due_at: int | None
    last: int | None


class _Turn(NamedTuple):
    """Who is next, from when on, and what it waits for until then."""

    member: _Member
    due_at: int
    waits_for: str | None


def give(tx: Transaction, lane: Lane, now: int) -> set[str]:
    """Give the turn to whoever is next; return the ids of those skipped as stale."""
    name = _named(lane)
    skipped: set[str] = set()
    while True:
        holder = _holder(tx, name)
        chosen = None if holder.state in _BEGUN else _next(tx, name, holder.last or 0, now)
        if chosen is None:
            return skipped
        member = chosen.member
        if not tx.run(_sql.skip, **name, id=member.id, now=now):
            _hand_over(tx, name, holder, chosen)
            return skipped
        remember(tx, lane, member.type, None)
        skipped.add(member.id)


def remember(tx: Transaction, lane: Lane, type_: str, sequence: int | None) -> None:
    """Remember what is done in a lane."""
    name = _named(lane)
    if sequence is not None:
        tx.run(_sql.remember_number, **name, sequence=sequence)
    tx.run(_sql.remember_type, **name, type=_digest(type_))


def _holder(tx: Transaction, name: dict[str, str]) -> _Holder:
    """Return who has the turn; a lane that only went by arrival did not write it down."""
    id_, state, due_at, last, turn = tx.one(_sql.standing, **name) or (None,) * 5
    if turn is None:
        id_, state, due_at = tx.one(_sql.active, **name) or (None,) * 3
    return _Holder(id_, state, due_at, last)


def _hand_over(tx: Transaction, name: dict[str, str], holder: _Holder, chosen: _Turn) -> None:
    """Let another have the turn, unless the one who has it was begun a moment ago."""
    member = chosen.member
    waits = holder.state == State.RECEIVED and holder.due_at is not None
    if waits and holder.id != member.id and not tx.run(_sql.take, id=holder.id):
        return
    tx.run(
        _sql.give,
        **name,
        id=member.id,
        due_at=chosen.due_at,
        waits_for=chosen.waits_for,
        last=holder.last,
    )
    tx.run(_sql.hand_over, **name, id=member.id)


def _next(tx: Transaction, name: dict[str, str], last: int, now: int) -> _Turn | None:
    """Find who is next: the first, or the lowest number, or what that one waits for."""
    first = tx.one(_sql.first, **name)
    if first is None:
        return None
    member = _Member(*first)
    if member.sequence is not None:
        member = _Member(*(tx.one(_sql.lowest, **name) or first))
    asked: set[str] = set()
    while _waits_after(tx, name, member, now) and member.after not in asked:
        asked.add(str(member.after))  # types that wait for each other in a ring
        before = tx.one(_sql.of_type, **name, type=member.after)
        if before is None:
            break
        member = _Member(*before)
    waits = _gap(member, last, now)
    if _waits_after(tx, name, member, now):
        waits.append((member.after_until or 0, str(member.after)))
    if not waits:
        return _Turn(member, now, None)
    return _Turn(member, max(until for until, _ in waits), " and ".join(what for _, what in waits))


def _gap(member: _Member, last: int, now: int) -> list[tuple[int, str]]:
    """Say for which number a delivery waits; a lane of which nothing is known begins at one."""
    if member.sequence is None or (member.gap_until or 0) <= now or member.sequence <= last + 1:
        return []
    return [(int(member.gap_until or 0), f"number {last + 1}")]


def _waits_after(tx: Transaction, name: dict[str, str], member: _Member, now: int) -> bool:
    """Say whether a delivery waits for a type that was never done in its lane."""
    if member.after is None or (member.after_until or 0) <= now:
        return False
    return tx.one(_sql.is_done, **name, type=_digest(member.after)) is None


def _named(lane: Lane) -> dict[str, str]:
    tenant, source, key = lane
    return {"tenant": tenant, "source": source, "lane": key}


def _digest(type_: str) -> bytes:
    return hashlib.sha256(type_.encode()).digest()
