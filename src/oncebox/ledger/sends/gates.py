"""Gates: how much may leave by a transport, and whether it rests; for all processes together.

Whoever holds sends may wait for a transport, and never the other way round: a claim takes only
what nobody holds.
"""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from oncebox.model.outcome import NotSent, Outcome
from oncebox.model.transport import BreakerRules, strains, works
from oncebox.store.database import Transaction
from oncebox.store.queries import load

_sql = load(__package__, "gates.sql")

#: a tenant and the name of its transport
Way = tuple[str, str]


class Room(NamedTuple):
    """How many sends may begin by a way."""

    most: int
    #: they are counted against a rate
    rated: bool = False
    #: one send tries whether the way works again
    probe: bool = False


def room(tx: Transaction, way: Way, most: int, now: int) -> Room:
    """Return how many may begin, at most ``most``; where there is a limit, others wait for us."""
    tenant, name = way
    row = tx.one(_sql.look, tenant=tenant, name=name)
    if row is None:
        return Room(0)
    if row == (None, None):
        return Room(most)
    opened = tx.one(_sql.open, tenant=tenant, name=name, now=now)
    if opened is None:
        return Room(0)
    rate, within, allowance, paused, rests_until = opened
    if paused or (rests_until is not None and rests_until > now):
        return Room(0)
    probe = rests_until is not None
    allowed = most if rate is None else min(most, allowance // within)
    return Room(min(allowed, 1) if probe else allowed, rated=rate is not None, probe=probe)


def take(tx: Transaction, way: Way, found: Room, begun: int, now: int, until: int) -> None:
    """Count what was begun; a probe keeps all others waiting until its lease is over."""
    tenant, name = way
    if begun and found.rated:
        tx.run(_sql.take, tenant=tenant, name=name, taken=begun)
    if begun and found.probe:
        tx.run(_sql.probe, tenant=tenant, name=name, now=now, until=until)


def hear(
    tx: Transaction, outcomes: Iterable[tuple[Way, Outcome]], rules: BreakerRules, now: int
) -> None:
    """Learn from outcomes whether ways work."""
    heard = list(outcomes)
    well = sorted({way for way, outcome in heard if works(outcome)})
    if well:
        tx.run_many(_sql.succeed, well)
    badly = Counter(way for way, outcome in heard if strains(outcome))
    if not badly:
        return
    broken = {way for way, outcome in heard if isinstance(outcome, NotSent) and _opens(outcome)}
    tx.run_many(_sql.fail, sorted((*way, count) for way, count in badly.items()))
    tx.run_many(
        _sql.rest,
        sorted((*way, int(way in broken)) for way in badly),
        threshold=rules.failures,
        first=rules.first_rest,
        longest=rules.longest_rest,
        now=now,
    )


def divert(tx: Transaction, now: int, most: int = 500) -> int:
    """Let sends that wait for a way which rests go by one that works; return how many."""
    stranded = sorted(tx.all(_sql.stranded, now=now, most=most))
    return tx.run_many(_sql.divert, stranded) if stranded else 0


def _opens(outcome: NotSent) -> bool:
    return outcome.opens_circuit and strains(outcome)
