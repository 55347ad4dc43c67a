"""Tenants: create, require, list."""

from oncebox.db.database import Transaction
from oncebox.db.queries import load
from oncebox.errors import NotFound, StateConflict
from oncebox.ledger.admin import audit
from oncebox.model.admin.access import DEFAULT_TENANT, Tenant, check_tenant

_sql = load(__package__, "tenants.sql")


def create(tx: Transaction, name: str, entry: audit.AuditEntry) -> Tenant:
    """Create a tenant.

    Raises: KeyInvalid, StateConflict.
    """
    check_tenant(name)
    if name == DEFAULT_TENANT or not tx.run(_sql.add, name=name, now=entry.at):
        raise StateConflict(f"there is a tenant {name} already; choose another name")
    audit.record(tx, entry, "tenant new", f"tenant:{name}")
    return Tenant(name, entry.at)


def require(tx: Transaction, name: str) -> None:
    """Refuse an unknown tenant.

    Raises: NotFound.
    """
    if name != DEFAULT_TENANT and tx.one(_sql.one, name=name) is None:
        raise NotFound("there is no such tenant; create it with: oncebox tenant new")


def list_all(tx: Transaction) -> list[Tenant]:
    """Return every tenant, the default one first."""
    return [Tenant(DEFAULT_TENANT, 0), *(Tenant(*row) for row in tx.all(_sql.made))]
