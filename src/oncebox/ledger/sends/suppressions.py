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
    #: encrypted
    address: bytes
    reason: SuppressionReason
    #: the send that caused the suppression
    send_id: str | None
    created_at: int


def add(tx: Transaction, new: Suppression, entry: audit.AuditEntry) -> bool:
    """Add an address; False if it is on the list, where it keeps its first reason.

    A send that is claimed already is refused at its marker.
    """
    added = bool(
        tx.run(
            _sql.add,
            tenant=entry.tenant,
            mark=new.fingerprint,
            address=new.address,
            reason=new.reason,
            send_id=new.send_id,
            now=new.created_at,
        )
    )
    if added:
        audit.record(tx, entry, "suppression add", _target(new.fingerprint), new.reason)
    return added


def remove(tx: Transaction, fingerprint: bytes, entry: audit.AuditEntry) -> None:
    """Remove an address from the list."""
    if not tx.run(_sql.remove, tenant=entry.tenant, mark=fingerprint):
        raise NotFound("this address is not on the suppression list")
    audit.record(tx, entry, "suppression remove", _target(fingerprint))


def get(tx: Transaction, tenant: str, fingerprint: bytes) -> Suppression | None:
    """Return one address, if it is on the list."""
    row = tx.one(_sql.one, tenant=tenant, mark=fingerprint)
    return None if row is None else _to_suppression(row)


def page(tx: Transaction, tenant: str, *, after: bytes = b"", most: int = 50) -> list[Suppression]:
    """Return addresses in the order of their fingerprints."""
    rows = tx.all(_sql.page, tenant=tenant, mark=after, most=most)
    return [_to_suppression(row) for row in rows]


def _target(fingerprint: bytes) -> str:
    """Return the name of an address in the audit, which does not reveal it."""
    return f"suppression:{fingerprint.hex()[:16]}"


def _to_suppression(row: Row) -> Suppression:
    fingerprint, address, reason, send_id, created_at = row
    return Suppression(
        fingerprint=bytes(fingerprint),
        address=bytes(address),
        reason=SuppressionReason(reason),
        send_id=send_id,
        created_at=created_at,
    )
