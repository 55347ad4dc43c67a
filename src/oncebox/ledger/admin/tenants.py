"""Tenants: create, require, list."""

from oncebox.db.database import Transaction
from oncebox.db.queries import load
from oncebox.errors import NotFound, StateConflict
from oncebox.ledger.admin import audit
from oncebox.model.admin.access import DEFAULT_TENANT, Tenant, check_tenant

_sql = load(__package__, "tenants.sql")


def create(tx: Transaction, name: str, deed: audit.AuditEntry) -> Tenant:
    """Make a tenant.

    Raises: KeyInvalid, StateConflict.
    """
    check_tenant(name)
    if name == DEFAULT_TENANT or not tx.run(_sql.add, name=name, now=deed.at):
        raise StateConflict(f"there is a tenant {name} already; choose another name")
    audit.record(tx, deed, "tenant new", f"tenant:{name}")
    return Tenant(name, deed.at)


def require(tx: Transaction, name: str) -> None:
    """Refuse a tenant that nobody made.

    Raises: NotFound.
    """
    if name != DEFAULT_TENANT and tx.one(_sql.one, name=name) is None:
        raise NotFound("there is no such tenant; make it with: oncebox tenant new")


def list_all(tx: Transaction) -> list[Tenant]:
    """Return every tenant, the one that is always there first."""
    return [Tenant(DEFAULT_TENANT, 0), *(Tenant(*row) for row in tx.all(_sql.made))]
