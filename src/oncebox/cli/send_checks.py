"""The doctor's checks of what goes out: doubt, ways that rest, mail that nobody takes."""

from collections.abc import Sequence

from oncebox.cli.findings import Check, Status
from oncebox.cli.words import ago
from oncebox.ledger.sends import sends, transports
from oncebox.model.transport import LOG, Transport
from oncebox.store.database import Transaction

#: as many as are worth counting
_MANY = 1_000
#: milliseconds a send may be due before somebody should have claimed it
_OVERDUE = 60_000


def sending(tx: Transaction, tenant: str, now: int) -> list[Check]:
    """Look for sends that need a person, and for ways by which nothing leaves."""
    ways = transports.all_(tx, tenant)
    checks = [*_ways(ways, now), *_overdue(tx, tenant, now)]
    doubtful = len(sends.doubtful(tx, tenant, most=_MANY))
    remedy = "look: oncebox send list --state unknown" if doubtful else ""
    status = Status.WARN if doubtful else Status.OK
    return [*checks, Check("unknown sends", status, str(doubtful), remedy)]


def _ways(ways: Sequence[Transport], now: int) -> list[Check]:
    if not ways:
        return [Check("transports", Status.OK, "none: mail would be stored and not sent")]
    if all(each.kind == LOG for each in ways):
        message = "there is only log: mail is stored and not sent"
        return [Check("transports", Status.WARN, message, "add one: oncebox transport add")]
    return [found for each in ways if (found := _way(each, now))] or [
        Check("transports", Status.OK, f"{len(ways)} without trouble")
    ]


def _way(way: Transport, now: int) -> Check | None:
    if way.paused:
        return Check("transport", Status.WARN, f"{way.name} is paused", "oncebox transport resume")
    if way.state(now) != "resting" or way.rests_until is None:
        return None
    again = ago(way.rests_until, now)
    message = f"{way.name} rests after {way.failures} failures and is tried again {again}"
    return Check("transport", Status.WARN, message, f"look: oncebox transport test {way.name}")


def _overdue(tx: Transaction, tenant: str, now: int) -> list[Check]:
    return [
        Check(
            "waiting sends",
            Status.WARN,
            f"mail by {name} is due since over a minute and nobody takes it",
            "run: oncebox serve, or oncebox worker",
        )
        for owner, name in transports.waited_for(tx, now - _OVERDUE)
        if owner == tenant
    ]
