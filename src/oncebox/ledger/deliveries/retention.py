"""Retention: bodies go after their time; keys, journals and everything unsettled stay."""

from collections.abc import Mapping
from itertools import groupby
from typing import NamedTuple

from oncebox.model.delivery import State
from oncebox.store.database import Row, Transaction
from oncebox.store.queries import load

_sql = load(__package__, "retention.sql")

#: stands for the sources of that name of all tenants
ANY_TENANT = "*"
#: by tenant and source: bodies of what ended before this moment may go
Cutoffs = Mapping[tuple[str, str], int]


class Purged(NamedTuple):
    """How many rows went, and where the next look goes on; None when all was looked at."""

    bodies: int
    after: str | None


def purge(tx: Transaction, cutoffs: Cutoffs, now: int, after: str = "", most: int = 500) -> Purged:
    """Let the bodies go whose time has passed, looking at the next ``most`` requests."""
    rows = tx.all(_sql.kept, after=after, most=most)
    if not rows:
        return Purged(0, None)
    over: list[Row] = []
    requests: list[Row] = []
    for id_, deliveries in groupby(rows, key=lambda row: row[0]):
        found = list(deliveries)
        if all(_is_over(row, cutoffs) for row in found):
            over += [(row[1], _cutoff(row, cutoffs)) for row in found]
            requests.append((id_,))
    count = 0
    if over:
        tx.run_many(_sql.purge, sorted(over), now=now)
        count = tx.run_many(_sql.empty, requests)
    return Purged(count, rows[-1][0])


def purge_journals(tx: Transaction, before: int, after: str = "", most: int = 500) -> Purged:
    """Let the tries and effects go of deliveries whose bodies are gone and that ended long ago.

    A journal is never gone before its body: there is no replay without one.
    """
    ids = tx.all(_sql.journalled, after=after, most=most)
    if not ids:
        return Purged(0, None)
    count = tx.run_many(_sql.forget_effects, ids, before=before)
    count += tx.run_many(_sql.forget_tries, ids, before=before)
    return Purged(count, str(ids[-1][0]))


def _is_over(row: Row, cutoffs: Cutoffs) -> bool:
    """Say whether a delivery no longer needs its body; the statement that purges decides."""
    _request, _id, _tenant, _source, state, ended_at, seen_at = row
    ended = state == State.DONE or (state == State.DEAD and seen_at is not None)
    return ended and ended_at <= _cutoff(row, cutoffs)


def _cutoff(row: Row, cutoffs: Cutoffs) -> int:
    tenant, source = row[2:4]
    own = cutoffs.get((tenant, source))
    return cutoffs.get((ANY_TENANT, source), 0) if own is None else own
