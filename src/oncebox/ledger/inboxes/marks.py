"""Marks: how far an inbox is, in numbers that only grow."""

from collections.abc import Iterable
from typing import NamedTuple

from oncebox.model.inbox import InboxState
from oncebox.store.database import Row, Transaction
from oncebox.store.queries import load

_sql = load(__package__, "marks.sql")

#: an inbox and its tenant
Named = tuple[str, str]

#: states in the order in which an inbox has them
_STAGES = {
    InboxState.ACTIVE: 0,
    InboxState.DRAINING: 1,
    InboxState.CLOSED: 3,
    InboxState.EXPIRED: 3,
}
#: it has ended, but mail for it is not read yet
_WINDING_UP = 2


class Mark(NamedTuple):
    """How far an inbox is; whatever makes a wait worth another look moves one of these."""

    #: the number of its last message
    cursor: int
    #: how often one of its artifacts was taken back
    releases: int
    #: how near its end it is
    stage: int

    def is_beyond(self, other: "Mark") -> bool:
        """Say whether anything has happened since another mark."""
        return any(mine > its for mine, its in zip(self, other, strict=True))


def read(tx: Transaction, inboxes: Iterable[Named]) -> dict[Named, Mark]:
    """Return how far inboxes are; those that are not there are left out."""
    return dict(map(_mark, tx.many(_sql.read, sorted(inboxes))))


def _mark(row: Row) -> tuple[Named, Mark]:
    id_, tenant, cursor, releases, state, unread = row
    stage = _WINDING_UP if unread else _STAGES[InboxState(state)]
    return (str(id_), str(tenant)), Mark(int(cursor), int(releases), stage)
