"""What the ledger promises, checked against its books, the clients' history and the world."""

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from tests.torture.checks import (
    Violation,
    foreign,
    lost,
    missing,
    repeated,
    split,
    stale,
    stuck,
)
from tests.torture.history import Effect, Event
from tests.torture.history import Kind as Said
from tests.torture.ledger.books import Books, Row
from tests.torture.ledger.errands import AT_MOST_ONCE, FRAIL, MAY_BE_HELD, WORLDLY, Kind


def judge(events: Sequence[Event], effects: Sequence[Effect], books: Books) -> list[Violation]:
    """Check every promise after a quiet phase in which no process was paused."""
    return [
        *judge_storage(events, books),
        *judge_world(effects, books),
        *judge_ends(effects, books),
        *stale(effects),
        *_out_of_order(effects, books),
    ]


def judge_storage(events: Sequence[Event], books: Books) -> list[Violation]:
    """Check what may be checked at any moment: what was acknowledged is there, once."""
    return [
        *lost(events, books.keys),
        *split(events),
        *repeated(books.keys),
        *refusals(events),
        *(Violation("corrupt", "database", fault) for fault in books.faults),
    ]


def refusals(events: Iterable[Event]) -> list[Violation]:
    """Find answers other than "not now": a client would not have sent again."""
    return [
        Violation("refused", event.key, event.note or "")
        for event in events
        if event.kind is Said.FAIL
    ]


def judge_calm(books: Books) -> list[Violation]:
    """Check that nobody has to look at anything where no process was lost."""
    return [
        Violation("needless", row.id, f"held: {row.hold_reason}")
        for row in books.rows
        if row.state == "held"
    ]


def judge_world(effects: Sequence[Effect], books: Books) -> list[Violation]:
    """Check that no effect happened twice, and none for a delivery that is not there."""
    kinds = {row.id: row.type for row in books.rows}
    calls = Counter(effect.delivery for effect in effects)
    keys: defaultdict[str, set[str]] = defaultdict(set)
    for effect in effects:
        keys[effect.delivery].add(effect.key)
    shared = Counter(key for found in keys.values() for key in found)
    return [
        *foreign(effects, kinds),
        *(
            Violation("doubled", id_, f"{count} calls of kind {kinds[id_]}")
            for id_, count in calls.items()
            if count > 1 and kinds.get(id_) in AT_MOST_ONCE
        ),
        *(
            Violation("doubled", id_, f"{len(found)} keys for one effect")
            for id_, found in keys.items()
            if len(found) > 1
        ),
        *(Violation("doubled", key, "one key for two") for key, n in shared.items() if n > 1),
        *(
            Violation("doubled", id_, f"{count} marks in our own database")
            for id_, count in books.marks.items()
            if count > 1
        ),
    ]


def judge_ends(effects: Sequence[Effect], books: Books) -> list[Violation]:
    """Check that everything has come to the right end, and a visible one."""
    states = {row.id: row.state for row in books.rows if row.id not in _waiting(books.rows)}
    done = [row for row in books.rows if row.state == "done"]
    return [
        *stuck(states),
        *missing(effects, [row.id for row in done if row.type in WORLDLY]),
        *(
            Violation("missing", row.id, "no mark in our own database")
            for row in done
            if row.type == Kind.OWN and not books.marks[row.id]
        ),
        *_needless(books),
    ]


def _needless(books: Books) -> list[Violation]:
    """Find deliveries held or dead although nothing was in doubt and tries were left."""
    doubtful = {one.delivery for one in books.journal if one.state in {"unknown", "done"}}
    found = []
    for row in books.rows:
        reason = f"{row.state}, {row.hold_reason or row.outcome}"
        if row.state == "held" and not (row.type in MAY_BE_HELD and row.id in doubtful):
            found.append(Violation("needless", row.id, reason))
        if row.state == "dead" and row.type != Kind.FATAL and row.source not in FRAIL:
            found.append(Violation("needless", row.id, reason))
    return found


def _waiting(rows: Sequence[Row]) -> set[str]:
    """Find those who wait in their lane behind a delivery that a person must see."""
    held = {
        (row.source, row.lane): row.lane_position or 0
        for row in rows
        if row.state == "held" and row.lane_position is not None
    }
    return {
        row.id
        for row in rows
        if row.state == "received"
        and (row.lane_position or 0) > held.get((row.source, row.lane), sys.maxsize)
    }


def _out_of_order(effects: Iterable[Effect], books: Books) -> list[Violation]:
    """Find deliveries whose first call came before that of an earlier one in their lane."""
    places = {
        row.id: (row.source, row.lane, row.lane_position)
        for row in books.rows
        if row.lane_position is not None and row.rearms == 0
    }
    seen: set[str] = set()
    latest: dict[tuple[str, str | None], int] = {}
    found = []
    for effect in effects:
        place = places.get(effect.delivery)
        if place is None or effect.delivery in seen:
            continue
        seen.add(effect.delivery)
        source, lane, position = place
        if position < latest.get((source, lane), 0):
            found.append(Violation("overtaken", effect.delivery, f"position {position} of {lane}"))
        latest[source, lane] = max(position, latest.get((source, lane), 0))
    return found
