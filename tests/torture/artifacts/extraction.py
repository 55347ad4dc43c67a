"""A kill at every point where codes are found and filed: each is there once, with its event."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from oncebox.core import faults
from tests.torture.artifacts import points as claiming
from tests.torture.checks import Violation
from tests.torture.history import Event
from tests.torture.ledger.books import ask_once
from tests.torture.mail import crashes
from tests.torture.mail.crashes import Course
from tests.torture.mail.letters import Letter, letters
from tests.torture.mail.post_books import read_post_books
from tests.torture.mail.promises import judge
from tests.torture.scenario import Outcome, Plan

#: Each point, and at one of how many passes it strikes; what is done for many at once is passed
#: once or twice only.
CASES = {"artifacts.sealed": 6, "artifacts.filed": 2}
_ARTIFACTS = """
SELECT one.id, box.email, one.sender, one.state, one.matched, LENGTH(one.sealed)
FROM oncebox_artifacts AS one JOIN oncebox_inboxes AS box ON box.id = one.inbox_id
WHERE one.kind = 'code'
"""
_TOLD = "SELECT subject_id FROM oncebox_events WHERE type = 'artifact.available'"


@dataclass(frozen=True, slots=True)
class CodeLetter(Letter):
    """A mail with a code in it."""

    def data(self, relay: int) -> bytes:
        """Return its bytes; the code is the same over every relay."""
        head, _, body = Letter.data(self, relay).partition(b"\r\n\r\n")
        number = 100_000 + sum(self.key.encode()) * 7_919 % 900_000
        code = f"Your verification code is {number}.\r\n\r\n".encode()
        return head + b"\r\n\r\n" + code + body


def points() -> list[str]:
    """Return the points at which codes are filed; together with those of claims, all."""
    known = {point for point in faults.POINTS if point.startswith("artifacts.")}
    if unknown := known ^ (CASES.keys() | claiming.CASES.keys()):
        raise LookupError(f"no case, or no point: {', '.join(sorted(unknown))}")
    return sorted(CASES)


def crash_points(plan: Plan) -> Outcome:
    """Kill a service that finds codes, at every point in turn."""
    return crashes.play(plan, points(), Course(CASES, _draw, _judge))


def _draw(seed: str, count: int, inboxes: Sequence[str]) -> list[Letter]:
    return [
        CodeLetter(each.key, each.recipients, each.copies, each.relays, each.size, each.named)
        for each in letters(seed, count, inboxes)
    ]


def _judge(drawn: Sequence[Letter], events: Sequence[Event], url: str) -> list[Violation]:
    books = read_post_books(url)
    return [*judge(drawn, events, books), *_artifacts(drawn, url)]


def _artifacts(drawn: Sequence[Letter], url: str) -> Iterator[Violation]:
    """Find codes that an inbox has not once, and those that were not told of once."""
    rows: list[Any] = list(ask_once(url, _ARTIFACTS))
    found = Counter((row[2], row[1]) for row in rows)
    for letter in drawn:
        for inbox in letter.recipients:
            if (count := found.pop((letter.sender, inbox), 0)) != 1:
                rule = "doubled" if count else "lost"
                yield Violation(rule, letter.key, f"{count} artifacts in {inbox}")
    for sender, inbox in found:
        yield Violation("foreign", sender, inbox)
    told = Counter(row[0] for row in ask_once(url, _TOLD))
    for id_, _inbox, _sender, state, matched, size in rows:
        if (state, matched, told[id_]) != ("available", 1, 1) or not size:
            yield Violation("missing", id_, f"{state}, told of {told[id_]} times")
