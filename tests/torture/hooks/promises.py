"""What the webhook inbox promises, checked against its books and what the senders were told."""

from collections import Counter
from collections.abc import Sequence

from tests.torture.checks import Violation, lost, repeated, stuck
from tests.torture.history import Effect, Event, Kind
from tests.torture.ledger.books import Books


def judge(events: Sequence[Event], books: Books) -> list[Violation]:
    """Check a run of many events, after everything was worked."""
    return [
        *lost(events, books.keys),
        *repeated(books.keys),
        *_unasked(events, books),
        *_refused(events),
        *_miscounted(events, books),
        *judge_ends(books),
    ]


def judge_storm(copies: int, runs: Sequence[Effect], books: Books) -> list[Violation]:
    """Check that so many copies of one event were one delivery, one run and one effect."""
    found = [] if len(books.rows) == 1 else [_odd("deliveries", len(books.rows), 1)]
    if len(runs) != 1:
        found.append(_odd("runs of the handler", len(runs), 1))
    seen = sum(sum(classes.values()) for classes in books.sightings.values())
    if seen != copies - 1:
        found.append(Violation("miscounted", "storm", f"{seen} repeats of {copies} copies"))
    return [*found, *judge_ends(books)]


def judge_ends(books: Books) -> list[Violation]:
    """Check that everything is done, and had its effect once."""
    return [
        *stuck({row.id: row.state for row in books.rows}, {"done"}),
        *(
            Violation("missing" if books.marks[row.id] < 1 else "doubled", row.id, "effects")
            for row in books.rows
            if row.state == "done" and books.marks[row.id] != 1
        ),
        *(Violation("corrupt", "database", fault) for fault in books.faults),
    ]


def disturbed(events: Sequence[Event]) -> list[Violation]:
    """Find requests that were not simply answered with 2xx, where nothing was to stop them."""
    return [
        Violation("refused", event.key, event.note or "")
        for event in events
        if event.kind is Kind.INFO
    ]


def _refused(events: Sequence[Event]) -> list[Violation]:
    """Find answers after which a provider would not have sent again."""
    return [
        Violation("refused", event.key, event.note or "")
        for event in events
        if event.kind is Kind.FAIL
    ]


def _unasked(events: Sequence[Event], books: Books) -> list[Violation]:
    """Find deliveries that nobody sent."""
    sent = {event.key for event in events}
    return [Violation("foreign", row.id, row.key) for row in books.rows if row.key not in sent]


def _miscounted(events: Sequence[Event], books: Books) -> list[Violation]:
    """Find keys that were seen more often than sent, or less often than acknowledged."""
    sent = Counter(event.key for event in events if event.kind is Kind.INVOKE)
    heard = Counter(event.key for event in events if event.kind is Kind.OK)
    found = []
    for row in books.rows:
        seen = 1 + sum(books.sightings.get(row.id, Counter[str]()).values())
        if not heard[row.key] <= seen <= sent[row.key]:
            detail = f"sent {sent[row.key]}, acknowledged {heard[row.key]}, seen {seen} times"
            found.append(Violation("miscounted", row.key, detail))
    return found


def _odd(what: str, count: int, wanted: int) -> Violation:
    return Violation("doubled" if count > wanted else "lost", "storm", f"{count} {what}")
