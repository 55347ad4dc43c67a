"""What is promised about sends, checked against the books and what the fake really took."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from tests.torture.checks import Violation, split
from tests.torture.history import Event, Kind
from tests.torture.sends.books import Row, SendBooks

_NOT_SENT = frozenset({"failed", "expired", "cancelled", "suppressed"})
_SETTLED = frozenset({"sent", "unknown", *_NOT_SENT})


class _Mail(Protocol):
    @property
    def message_id(self) -> str: ...


class Fake(Protocol):
    """A server that lists what it really took."""

    @property
    def accepted(self) -> Sequence[_Mail]:
        """Every mail that was taken, whatever the client was told."""


def taken_by(fake: Fake) -> Counter[str]:
    """Return how often each mail was really taken, by its Message-ID."""
    return Counter(mail.message_id for mail in fake.accepted)


def judge(
    wanted: Sequence[str],
    events: Sequence[Event],
    books: SendBooks,
    taken: Mapping[str, int],
    policy: str = "hold",
) -> list[Violation]:
    """Check every promise, after everything was settled."""
    return [
        *_books(wanted, events, books),
        *split(events),
        *_sends(books, taken, policy),
        *_strangers(books, taken),
        *(Violation("corrupt", "database", fault) for fault in books.faults),
    ]


def _books(wanted: Sequence[str], events: Iterable[Event], books: SendBooks) -> Iterator[Violation]:
    """Find intents that nobody knows any more, and answers that name another mail."""
    known = {row.key: row for row in books.rows}
    for key in wanted:
        if key not in known:
            yield Violation("lost", key, "it is not in the ledger")
    for event in events:
        row = known.get(event.key)
        if event.kind is Kind.OK and row is not None and event.id != row.message_id:
            yield Violation("split", event.key, f"told {event.id}, kept {row.message_id}")


def _sends(books: SendBooks, taken: Mapping[str, int], policy: str) -> Iterator[Violation]:
    for row in books.rows:
        count = taken.get(row.message_id, 0)
        if row.state not in _SETTLED or row.again is not None:
            yield Violation("stuck", row.key, row.state)
        if row.state == "sent" and not count:
            yield Violation("invented", row.key, "sent, and nobody took it")
        if row.state in _NOT_SENT and count:
            yield Violation("denied", row.key, f"{row.state}, and it was taken")
        if row.state == "unknown" and row.id not in books.marked:
            yield Violation("timid", row.key, "unknown, and it was never handed over")
        yield from _by_policy(row, count, policy)


def _by_policy(row: Row, count: int, policy: str) -> Iterator[Violation]:
    if policy != "resend" and count > 1:
        yield Violation("doubled", row.key, f"{count} mails")
    if policy == "resend" and not count:
        yield Violation("lost", row.key, f"{row.state}, and nobody took it")
    if policy == "replay" and (row.state, count) != ("sent", 1):
        how = f"{row.state}, {row.code} after {row.tries} tries, taken {count} times"
        yield Violation("lost", row.key, how)


def _strangers(books: SendBooks, taken: Mapping[str, int]) -> Iterator[Violation]:
    known = {row.message_id for row in books.rows}
    for message_id in taken:
        if message_id not in known:
            yield Violation("foreign", message_id, "taken, and not in the ledger")
