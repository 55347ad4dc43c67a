"""Transports: by which ways may mail leave?"""

from oncebox.errors import NotFound, StateConflict
from oncebox.ledger.office import audit
from oncebox.ledger.sends.gates import Way
from oncebox.model.transport import NewTransport, Rate, Transport
from oncebox.store.database import Row, Transaction, Value
from oncebox.store.queries import load

_sql = load(__package__, "transports.sql")


def add(tx: Transaction, new: NewTransport, deed: audit.Deed) -> Transport:
    """Keep a new transport.

    Raises: StateConflict, when its name is taken.
    """
    if not tx.run(_sql.add, **_values(new, deed)):
        raise StateConflict("there is a transport of that name")
    audit.record(tx, deed, "transport add", _target(new.name), new.kind)
    return get(tx, deed.tenant, new.name)


def change(
    tx: Transaction, new: NewTransport, deed: audit.Deed, *, seen: int | None = None
) -> Transport:
    """Write a transport anew; if it rested, it is tried at once.

    ``seen`` is when it was changed last, for who keeps a part of what was there.

    Raises: NotFound, StateConflict, when somebody else has changed it since.
    """
    if not tx.run(_sql.change, **_values(new, deed), seen=seen):
        get(tx, deed.tenant, new.name)
        raise StateConflict("somebody else has changed this transport just now; try again")
    audit.record(tx, deed, "transport change", _target(new.name), new.kind)
    return get(tx, deed.tenant, new.name)


def pause(tx: Transaction, name: str, deed: audit.Deed, *, paused: bool = True) -> Transport:
    """Let nothing more be claimed by this way, or let it again; what is on its way goes on.

    Raises: NotFound.
    """
    where: dict[str, Value] = {"tenant": deed.tenant, "name": name, "now": deed.at}
    if not tx.run(_sql.pause, **where, paused=int(paused)):
        raise _missing()
    audit.record(tx, deed, "transport pause" if paused else "transport resume", _target(name))
    return get(tx, deed.tenant, name)


def get(tx: Transaction, tenant: str, name: str) -> Transport:
    """Return one transport.

    Raises: NotFound.
    """
    row = tx.one(_sql.one, tenant=tenant, name=name)
    if row is None:
        raise _missing()
    return _transport(row)


def all_(tx: Transaction, tenant: str) -> list[Transport]:
    """Return the transports of a tenant, those that are taken first first."""
    return [_transport(row) for row in tx.all(_sql.in_order, tenant=tenant)]


def of_kind(tx: Transaction, kind: str) -> list[Transport]:
    """Return the transports of one kind, of all tenants."""
    return [_transport(row) for row in tx.all(_sql.of_kind, kind=kind)]


def every(tx: Transaction) -> list[Transport]:
    """Return the transports of all tenants, those that are taken first first."""
    return [_transport(row) for row in tx.all(_sql.every)]


def waited_for(tx: Transaction, now: int) -> list[Way]:
    """Return the ways of all tenants by which something could be claimed now."""
    return [(tenant, name) for tenant, name in tx.all(_sql.waited_for, now=now)]


def _values(new: NewTransport, deed: audit.Deed) -> dict[str, Value]:
    rate = new.rate
    return {
        "tenant": deed.tenant,
        "name": new.name,
        "kind": new.kind,
        "config": new.config,
        "position": new.position,
        "rate": None if rate is None else rate.sends,
        "rate_within": None if rate is None else rate.within,
        "allowance": rate.sends * rate.within if rate else 0,
        "now": deed.at,
    }


def _target(name: str) -> str:
    return f"transport:{name}"


def _missing() -> NotFound:
    return NotFound("there is no such transport; list them with: oncebox transport list")


def _transport(row: Row) -> Transport:
    tenant, name, kind, config, position, rate, within, paused, *rest = row
    failures, rests, rests_until, created_at, changed_at = rest
    return Transport(
        tenant=tenant,
        name=name,
        kind=kind,
        config=None if config is None else bytes(config),
        position=position,
        rate=None if rate is None else Rate(rate, within),
        paused=bool(paused),
        failures=failures,
        rests=rests,
        rests_until=rests_until,
        created_at=created_at,
        changed_at=changed_at,
    )
