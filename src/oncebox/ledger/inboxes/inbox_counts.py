"""Counts per inbox that no row records by itself: polls, timeouts, duplicates, replays, conflicts.

They are collected in memory and added up in one statement every few seconds, so that a poll
writes nothing. A crash loses the last seconds; what is promised does not depend on them.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import msgspec

from oncebox.core.metrics import Telemetry
from oncebox.db.database import Row, Transaction
from oncebox.db.queries import load
from oncebox.errors import OnceboxError
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.inboxes import inboxes
from oncebox.ledger.transactions import Ledger
from oncebox.model.attempts import AttemptIds
from oncebox.model.inboxes.inbox import AttemptInboxStats, Inbox, InboxCounts

_sql = load(__package__, "inbox_counts.sql")

#: seconds between two additions
_ADD_EVERY = 5.0
#: inboxes with counts in memory, above which further ones are not counted
_MOST_INBOXES = 20_000

CountName = Literal["polls", "timeouts", "artifact_duplicates", "cursor_replays", "lease_conflicts"]
#: an inbox and its tenant
InboxRef = tuple[str, str]


_NAMES = InboxCounts.__struct_fields__


def add(tx: Transaction, rows: list[Row]) -> None:
    """Add counts to those that are stored."""
    tx.run_many(_sql.add, rows)


def inbox_stats(tx: Transaction, requester: Requester, inbox_id: str) -> tuple[Inbox, InboxCounts]:
    """Return an inbox with all copies of its mail counted, and what else was counted for it.

    Raises: NotFound.
    """
    inbox = inboxes.get(tx, requester, inbox_id)
    counted = tx.all(_sql.of_inbox, inbox_id=inbox_id, tenant=requester.tenant)
    copies = inbox.duplicates + _number(
        tx.one(
            _sql.smtp_copies,
            tenant=requester.tenant,
            lowest=f"{inbox_id}:",
            highest=f"{inbox_id};",
        )
    )
    return msgspec.structs.replace(inbox, duplicates=copies), _totals(counted)


def attempt_stats(tx: Transaction, requester: Requester, ids: AttemptIds) -> AttemptInboxStats:
    """Return the statistics of the inboxes of an attempt or a batch.

    Raises: NotFound, when it has no inbox.
    """
    stats = inboxes.attempt_stats(tx, requester, ids)
    of = {
        "tenant": requester.tenant,
        "owner": requester.owner,
        "lowest": ids.lowest,
        "highest": ids.highest,
    }
    return msgspec.structs.replace(
        stats,
        duplicates=stats.duplicates + _number(tx.one(_sql.smtp_copies_of_attempt, **of)),
        counts=_totals(tx.all(_sql.of_attempt, **of)),
    )


def _totals(rows: Sequence[Row]) -> InboxCounts:
    totals = [sum(map(int, column)) for column in zip(*rows, strict=True)] or [0] * len(_NAMES)
    return InboxCounts(**dict(zip(_NAMES, totals, strict=True)))


def _number(row: Row | None) -> int:
    return 0 if row is None else int(row[0])


class InboxCounter:
    """Collects counts and stores them every few seconds."""

    def __init__(self, ledger: Ledger, telemetry: Telemetry) -> None:
        """Count nothing yet."""
        self._ledger = ledger
        self._telemetry = telemetry
        self._counts: dict[InboxRef, Counter[str]] = {}
        self._adding: asyncio.Task[None] | None = None

    def count(self, inbox_id: str, tenant: str, name: CountName, by: int = 1) -> None:
        """Count something that happened to an inbox."""
        inbox = (inbox_id, tenant)
        if inbox not in self._counts and len(self._counts) >= _MOST_INBOXES:
            return
        self._counts.setdefault(inbox, Counter())[name] += by
        if self._adding is None or self._adding.done():
            self._adding = asyncio.create_task(self._add_later())

    async def store(self) -> None:
        """Store what was counted; if that fails, it is tried again later."""
        counted, self._counts = self._counts, {}
        rows = [(*inbox, *(each[name] for name in _NAMES)) for inbox, each in counted.items()]
        if not rows:
            return
        try:
            await self._ledger.write(add, sorted(rows))
        except OnceboxError as error:
            self._telemetry.log.warning("inbox_counts_not_stored", code=error.code)
            for inbox, each in counted.items():
                self._counts.setdefault(inbox, Counter()).update(each)

    async def close(self) -> None:
        """Store the rest."""
        if self._adding is not None:
            self._adding.cancel()
        await self.store()

    async def _add_later(self) -> None:
        while self._counts:
            await asyncio.sleep(_ADD_EVERY)
            await self.store()
