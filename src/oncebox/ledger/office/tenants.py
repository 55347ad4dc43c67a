"""Tenants: who shares this installation."""

from oncebox.errors import NotFound, StateConflict
from oncebox.ledger.office import audit
from oncebox.model.tenant import DEFAULT, Tenant, check_tenant
from oncebox.store.database import Transaction
from oncebox.store.queries import load

_sql = load(__package__, "tenants.sql")


def new(tx: Transaction, name: str, deed: audit.Deed) -> Tenant:
    """Make a tenant.

    Raises: KeyInvalid, StateConflict.
    """
    check_tenant(name)
    if name == DEFAULT or not tx.run(_sql.add, name=name, now=deed.at):
        message = f"there is a tenant {name} already; choose another name"
        raise StateConflict(message)
    audit.record(tx, deed, "tenant new", f"tenant:{name}")
    return Tenant(name, deed.at)


def require(tx: Transaction, name: str) -> None:
    """Refuse a tenant that nobody made.

    Raises: NotFound.
    """
    if name != DEFAULT and tx.one(_sql.one, name=name) is None:
        message = "there is no such tenant; make it with: oncebox tenant new"
        raise NotFound(message)


def all_(tx: Transaction) -> list[Tenant]:
    """Return every tenant, the one that is always there first."""
    return [Tenant(DEFAULT, 0), *(Tenant(*row) for row in tx.all(_sql.made))]
