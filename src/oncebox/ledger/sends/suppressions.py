"""Suppression list: addresses that get no mail, stored as HMAC and ciphertext."""

from enum import StrEnum

import msgspec

from oncebox.db.database import Row, Transaction
from oncebox.db.queries import load
from oncebox.errors import NotFound
from oncebox.ledger.admin import audit

_sql = load(__package__, "suppressions.sql")


class SuppressionReason(StrEnum):
    """Why an address gets no mail."""

    MANUAL = "manual"
    HARD_BOUNCE = "hard_bounce"
    COMPLAINT = "complaint"
    UNSUBSCRIBE = "unsubscribe"


class Suppression(msgspec.Struct, frozen=True, kw_only=True):
    """An address that gets no mail."""

    fingerprint: bytes
    #: sealed
    address: bytes
    reason: SuppressionReason
    #: the send that brought it on the list
    send_id: str | None
    created_at: int


def add(tx: Transaction, new: Suppression, deed: audit.AuditEntry) -> bool:
    """Put an address on the list; False if it is there, and stays there for its first reason.

    What is claimed already gets no marker any more.
    """
    added = bool(_insert(tx, deed.tenant, new))
    if added:
        audit.record(tx, deed, "suppression add", _target(new.fingerprint), new.reason)
    return added


def add_reported(tx: Transaction, tenant: str, new: Suppression) -> bool:
    """Put an address on the list because of what its provider reports."""
    return bool(_insert(tx, tenant, new))


def remove(tx: Transaction, mark: bytes, deed: audit.AuditEntry) -> None:
    """Take an address off the list.

    Raises: NotFound.
    """
    if not tx.run(_sql.remove, tenant=deed.tenant, mark=mark):
        raise NotFound("this address is not on the suppression list")
    audit.record(tx, deed, "suppression remove", _target(mark))


def get(tx: Transaction, tenant: str, mark: bytes) -> Suppression | None:
    """Return one address on the list, if it is there."""
    row = tx.one(_sql.one, tenant=tenant, mark=mark)
    return None if row is None else _to_suppression(row)


def page(tx: Transaction, tenant: str, *, after: bytes = b"", most: int = 50) -> list[Suppression]:
    """Return addresses on the list, those after a mark."""
    rows = tx.all(_sql.page, tenant=tenant, mark=after, most=most)
    return [_to_suppression(row) for row in rows]


def _insert(tx: Transaction, tenant: str, new: Suppression) -> int:
    return tx.run(
        _sql.add,
        tenant=tenant,
        mark=new.fingerprint,
        address=new.address,
        reason=new.reason,
        send_id=new.send_id,
        now=new.created_at,
    )


def _target(mark: bytes) -> str:
    """Name an address in the audit, without telling it."""
    return f"suppression:{mark.hex()[:16]}"


def _to_suppression(row: Row) -> Suppression:
    mark, address, reason, send_id, created_at = row
    return Suppression(
        fingerprint=bytes(mark),
        address=bytes(address),
        reason=SuppressionReason(reason),
        send_id=send_id,
        created_at=created_at,
    )
