"""Audit log: who did what to which object and why, committed with the change."""

import msgspec

from oncebox.db.database import Transaction
from oncebox.db.queries import load
from oncebox.model.deliveries.inspection import AuditRecord

_sql = load(__package__, "audit.sql")


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Who does what, and why."""

    id: str
    tenant: str
    at: int
    who: str
    why: str


def record(tx: Transaction, deed: AuditEntry, action: str, target: str, detail: str = "") -> None:
    """Write a deed down."""
    tx.run(
        _sql.record,
        id=deed.id,
        tenant=deed.tenant,
        at=deed.at,
        who=deed.who,
        action=action,
        target=target,
        why=deed.why,
        detail=detail,
    )


def for_target(tx: Transaction, tenant: str, target: str) -> list[AuditRecord]:
    """Return what people did to one thing."""
    return [AuditRecord(*row) for row in tx.all(_sql.of, tenant=tenant, target=target)]
