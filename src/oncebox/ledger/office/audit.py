"""The audit: what people did, who and why, committed with the deed."""

import msgspec

from oncebox.model.inspection import Audited
from oncebox.store.database import Transaction
from oncebox.store.queries import load

_sql = load(__package__, "audit.sql")


class Deed(msgspec.Struct, frozen=True, kw_only=True):
    """Who does what, and why."""

    id: str
    tenant: str
    at: int
    who: str
    why: str


def record(tx: Transaction, deed: Deed, action: str, target: str, detail: str = "") -> None:
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


def of(tx: Transaction, tenant: str, target: str) -> list[Audited]:
    """Return what people did to one thing."""
    return [Audited(*row) for row in tx.all(_sql.of, tenant=tenant, target=target)]
