"""What stands in the database about sends, read by the driver alone."""

from collections.abc import Sequence
from dataclasses import dataclass

from oncebox.db.database import Transaction
from tests.torture.ledger.books import ask_once

_SENDS = """
SELECT id, entity_id, state, message_id, again, fence, tries, in_doubt_at, code FROM oncebox_sends
ORDER BY id
"""
_MARKED = "SELECT DISTINCT send_id FROM oncebox_send_tries WHERE marked_at IS NOT NULL"
_OPEN = """
SELECT COUNT(*) FROM oncebox_sends WHERE state IN ('pending', 'claimed', 'sending')
    OR (state = 'unknown' AND again IS NOT NULL)
"""
#: Questions to which a sound ledger has no answer.
_STRANGE = {
    "a send without its words": """
        SELECT id FROM oncebox_sends WHERE purged_at IS NULL AND id NOT IN
            (SELECT send_id FROM oncebox_send_bodies)""",
    "words without their send": """
        SELECT send_id FROM oncebox_send_bodies WHERE send_id NOT IN
            (SELECT id FROM oncebox_sends)""",
    "an end without its time": """
        SELECT id FROM oncebox_sends
        WHERE state IN ('sent', 'failed') AND (ended_at IS NULL OR due_at IS NOT NULL)""",
    "a key twice": """
        SELECT MIN(id) FROM oncebox_sends GROUP BY tenant, key HAVING COUNT(*) > 1""",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One send."""

    id: str
    key: str
    state: str
    message_id: str
    again: str | None
    fence: int
    tries: int
    in_doubt_at: int | None
    #: what its last try came to
    code: str | None = None


@dataclass(frozen=True, slots=True)
class SendBooks:
    """Everything in the database that the promises about sends speak of."""

    rows: Sequence[Row]
    #: Sends of which a hand-over was marked that may have been taken.
    marked: frozenset[str]
    faults: Sequence[str] = ()


def read_send_books(url: str) -> SendBooks:
    """Read all that is there; nobody writes to it now."""
    return SendBooks(
        rows=[Row(*row) for row in ask_once(url, _SENDS)],
        marked=frozenset(row[0] for row in ask_once(url, _MARKED)),
        faults=[
            f"{what}: {row[0]}"
            for what, question in _STRANGE.items()
            for row in ask_once(url, question)
        ],
    )


def count_open(url: str) -> int:
    """Return how many sends are not settled yet."""
    return int(ask_once(url, _OPEN)[0][0])


def open_sends(tx: Transaction) -> int:
    """Return the same, from inside a box."""
    return int(tx.execute(_OPEN)[0][0])
