"""Transports: configuration, pause, removal, rate limit, circuit breaker, diverting sends.

Lock order: sends before transports. A claim takes only sends that are not locked.
See docs/decisions/0032-use-circuit-breakers-and-failover-for-transports.md.
"""

import shlex
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from oncebox.db.database import Row, Transaction, Value
from oncebox.db.queries import load
from oncebox.errors import NotFound, StateConflict
from oncebox.ledger.admin import audit
from oncebox.model.sends.transports import (
    BreakerRules,
    ConfiguredTransport,
    NewTransport,
    NotSent,
    SendOutcome,
    TransportRate,
    counts_as_failure,
    proves_working,
)

_sql = load(__package__, "transports.sql")

#: sends are counted up to this number when a transport is needed by them
_MOST_COUNTED = 10_000
#: a tenant and the name of its transport
TransportRef = tuple[str, str]


class TransportCapacity(NamedTuple):
    """How many sends a transport may start."""

    most: int
    #: they count against a rate limit
    rated: bool = False
    #: one send tests whether the transport works again
    probe: bool = False


def capacity(tx: Transaction, ref: TransportRef, most: int, now: int) -> TransportCapacity:
    """Return how many sends may start, at most ``most``; locks a transport with a limit."""
    tenant, name = ref
    row = tx.one(_sql.look, tenant=tenant, name=name)
    if row is None:
        return TransportCapacity(0)
    if row == (None, None):
        return TransportCapacity(most)
    opened = tx.one(_sql.open, tenant=tenant, name=name, now=now)
    if opened is None:
        return TransportCapacity(0)
    rate, within, allowance, paused, rests_until = opened
    if paused or (rests_until is not None and rests_until > now):
        return TransportCapacity(0)
    probe = rests_until is not None
    allowed = most if rate is None else min(most, allowance // within)
    return TransportCapacity(
        min(allowed, 1) if probe else allowed, rated=rate is not None, probe=probe
    )


def count_started(
    tx: Transaction, ref: TransportRef, found: TransportCapacity, begun: int, now: int, until: int
) -> None:
    """Count started sends; a probe blocks others until its lease ends."""
    tenant, name = ref
    if begun and found.rated:
        tx.run(_sql.take, tenant=tenant, name=name, taken=begun)
    if begun and found.probe:
        tx.run(_sql.probe, tenant=tenant, name=name, now=now, until=until)


def record_outcomes(
    tx: Transaction,
    outcomes: Sequence[tuple[TransportRef, SendOutcome]],
    rules: BreakerRules,
    now: int,
) -> None:
    """Update the circuit breakers of transports from outcomes."""
    working = sorted({ref for ref, outcome in outcomes if proves_working(outcome)})
    if working:
        tx.run_many(_sql.succeed, working)
    failing = [(ref, outcome) for ref, outcome in outcomes if counts_as_failure(outcome)]
    if not failing:
        return
    failures = Counter(ref for ref, _ in failing)
    broken = {
        ref for ref, outcome in failing if isinstance(outcome, NotSent) and outcome.opens_circuit
    }
    tx.run_many(_sql.fail, sorted((*ref, count) for ref, count in failures.items()))
    tx.run_many(
        _sql.rest,
        sorted((*ref, int(ref in broken)) for ref in failures),
        threshold=rules.failures,
        first=rules.first_rest,
        longest=rules.longest_rest,
        now=now,
    )


def divert_stranded(tx: Transaction, now: int, most: int = 500) -> int:
    """Move sends from transports with an open breaker to working ones; return how many."""
    rows = sorted(tx.all(_sql.stranded, now=now, most=most), reverse=True)
    # Of each send the entry that comes last stays: its first transport.
    found = {(tenant, id_): name for tenant, id_, _, name in rows}
    diverted = sorted((tenant, id_, name) for (tenant, id_), name in found.items())
    return tx.run_many(_sql.divert, diverted) if diverted else 0


def failover_target(tx: Transaction, tenant: str, id_: str, now: int) -> str | None:
    """Return the transport that a send may move to; None: it stays where it is.

    It moves only within the failover group of its transport, never if its caller named the
    transport, and one that must be signed only to a transport that signs it.
    """
    row = tx.one(_sql.failover, tenant=tenant, id=id_, now=now)
    return None if row is None else str(row[0])


def signing_domains(tx: Transaction, tenant: str) -> dict[str, list[str]]:
    """Return the domains that each transport of a tenant signs for."""
    found: dict[str, list[str]] = {}
    for name, domain in tx.all(_sql.signing, tenant=tenant):
        found.setdefault(name, []).append(domain)
    return found


def _store_signing(tx: Transaction, new: NewTransport, tenant: str) -> None:
    place: dict[str, Value] = {"tenant": tenant, "name": new.name}
    tx.run(_sql.forget_signing, **place)
    if new.signs:
        tx.run_many(_sql.add_signing, [(each,) for each in sorted(set(new.signs))], **place)
        tx.run(_sql.require_signature, **place)


def add(tx: Transaction, new: NewTransport, entry: audit.AuditEntry) -> ConfiguredTransport:
    """Store a new transport."""
    if not tx.run(_sql.add, **_params(new, entry)):
        raise StateConflict(
            "there is a transport of that name; change it with: oncebox transport change"
        )
    _store_signing(tx, new, entry.tenant)
    audit.record(tx, entry, "transport add", f"transport:{new.name}", new.kind)
    return get(tx, entry.tenant, new.name)


def change(
    tx: Transaction, new: NewTransport, entry: audit.AuditEntry, *, seen: int | None = None
) -> ConfiguredTransport:
    """Replace the configuration of a transport and close its circuit breaker.

    ``seen`` is the time of the last change the caller knows.

    Raises: NotFound, StateConflict, if it was changed since.
    """
    if not tx.run(_sql.change, **_params(new, entry), seen=seen):
        get(tx, entry.tenant, new.name)
        raise StateConflict("this transport has just been changed by somebody else; try again")
    _store_signing(tx, new, entry.tenant)
    audit.record(tx, entry, "transport change", f"transport:{new.name}", new.kind)
    return get(tx, entry.tenant, new.name)


def pause(
    tx: Transaction, name: str, entry: audit.AuditEntry, *, paused: bool = True
) -> ConfiguredTransport:
    """Pause or resume claims for a transport; tries in progress continue."""
    where: dict[str, Value] = {"tenant": entry.tenant, "name": name, "now": entry.at}
    if not tx.run(_sql.pause, **where, paused=int(paused)):
        raise _missing()
    audit.record(
        tx, entry, "transport pause" if paused else "transport resume", f"transport:{name}"
    )
    return get(tx, entry.tenant, name)


def remove(tx: Transaction, name: str, entry: audit.AuditEntry) -> ConfiguredTransport:
    """Remove a transport with its secrets and signing keys; return what it was.

    Raises: NotFound, StateConflict, while a send needs it.
    """
    where: dict[str, Value] = {"tenant": entry.tenant, "name": name}
    if not tx.is_serial:
        tx.run(_sql.lock_sends)
    found = get(tx, entry.tenant, name)
    if not tx.run(_sql.remove, **where):
        raise StateConflict(_needed(name, tx.one(_sql.count_needing, **where, most=_MOST_COUNTED)))
    tx.run(_sql.forget_signing, **where)
    audit.record(tx, entry, "transport remove", f"transport:{name}", found.kind)
    return found


def _needed(name: str, counts: Row | None) -> str:
    """Say how many sends need a transport, and what to do about them."""
    waiting, leased, unknown = counts or (0, 0, 0)
    parts = [
        _counted(waiting, "waits", "wait"),
        _counted(leased, "is on its way", "are on their way"),
        _counted(unknown, "has an unknown outcome", "have an unknown outcome"),
    ]
    return (
        f"this transport is needed by sends: {', '.join(filter(None, parts))}; let new mail use "
        f"another with: oncebox transport change {shlex.quote(name)} --position 100; then wait "
        "until these have left (resume it if it is paused; if it fails, --failover-group moves "
        "them), or end them with: oncebox send cancel, oncebox send resolve"
    )


def _counted(count: int, one: str, several: str) -> str:
    if not count:
        return ""
    more = " or more" if count == _MOST_COUNTED else ""
    return f"{count}{more} {one if count == 1 else several}"


def get(tx: Transaction, tenant: str, name: str) -> ConfiguredTransport:
    """Return one transport.

    Raises: NotFound.
    """
    row = tx.one(_sql.one, tenant=tenant, name=name)
    if row is None:
        raise _missing()
    return _to_transport(row)


def of_tenant(tx: Transaction, tenant: str) -> list[ConfiguredTransport]:
    """Return the transports of a tenant, in order of preference."""
    return [_to_transport(row) for row in tx.all(_sql.in_order, tenant=tenant)]


def of_tenants(tx: Transaction, tenants: Sequence[str]) -> list[list[ConfiguredTransport]]:
    """Return the transports of several tenants."""
    found = {tenant: of_tenant(tx, tenant) for tenant in set(tenants)}
    return [found[tenant] for tenant in tenants]


def of_kind(tx: Transaction, kind: str) -> list[ConfiguredTransport]:
    """Return the transports of one kind, of all tenants."""
    return [_to_transport(row) for row in tx.all(_sql.of_kind, kind=kind)]


def of_all_tenants(tx: Transaction) -> list[ConfiguredTransport]:
    """Return the transports of all tenants, in order of preference."""
    return [_to_transport(row) for row in tx.all(_sql.every)]


def with_due_sends(tx: Transaction, now: int) -> list[ConfiguredTransport]:
    """Return the transports of all tenants that have sends to claim now."""
    return [get(tx, tenant, name) for tenant, name in tx.all(_sql.waited_for, now=now)]


def _params(new: NewTransport, entry: audit.AuditEntry) -> dict[str, Value]:
    rate = new.rate
    return {
        "tenant": entry.tenant,
        "name": new.name,
        "kind": new.kind,
        "config": new.config,
        "position": new.position,
        "rate": None if rate is None else rate.sends,
        "rate_within": None if rate is None else rate.within,
        "allowance": rate.sends * rate.within if rate else 0,
        "failover_group": new.failover_group,
        "now": entry.at,
    }


def _missing() -> NotFound:
    return NotFound("there is no such transport; list them with: oncebox transport list")


def _to_transport(row: Row) -> ConfiguredTransport:
    tenant, name, kind, config, position, rate, within, paused, *breaker = row
    limit = None if rate is None else TransportRate(rate, within)
    encrypted = None if config is None else bytes(config)
    values = (tenant, name, kind, encrypted, position, limit, bool(paused), *breaker)
    return ConfiguredTransport(
        **dict(zip(ConfiguredTransport.__struct_fields__, values, strict=True))
    )
