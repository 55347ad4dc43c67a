"""Audit log: who did what to which object and why, committed with the change."""

import msgspec

from oncebox.db.database import Transaction
from oncebox.db.queries import load
from oncebox.model.deliveries.inspection import AuditRecord

_sql = load(__package__, "audit.sql")


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Who changes something, when and why."""

    id: str
    tenant: str
    at: int
    who: str
    why: str


def record(tx: Transaction, entry: AuditEntry, action: str, target: str, detail: str = "") -> None:
    """Record an entry."""
    values = msgspec.structs.asdict(entry)
    tx.run(_sql.record, **values, action=action, target=target, detail=detail)


def for_target(tx: Transaction, tenant: str, target: str) -> list[AuditRecord]:
    """Return the audit records of one object."""
    return [AuditRecord(*row) for row in tx.all(_sql.of, tenant=tenant, target=target)]
