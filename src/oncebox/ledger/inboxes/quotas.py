"""Quotas: bytes of raw mail that inboxes and tenants have, and how many they may have.

Mail is counted when it is filed, in the commit that numbers its message, and no longer when its
raw bytes are deleted. A quota is checked when a recipient is named, so it is exceeded by what
arrives meanwhile, which the rate limits bound.
See docs/decisions/0047-use-counted-bytes-and-free-space-for-storage-limits.md.
"""

from collections import Counter
from collections.abc import Iterable

from oncebox.db.database import Transaction
from oncebox.db.queries import load
from oncebox.errors.mail import QuotaExceeded
from oncebox.ledger.admin import audit, tenants
from oncebox.model.admin.access import TenantStorage

_sql = load(__package__, "quotas.sql")


def add_stored(tx: Transaction, stored: Iterable[tuple[str, int]]) -> None:
    """Count raw mail of tenants; the locks of its inboxes are held."""
    if rows := _sums(stored):
        tx.send_many(_sql.add, rows)  # its count does not matter: no round trip of its own


def remove_stored(tx: Transaction, deleted: Iterable[tuple[str, str, int]]) -> None:
    """Count raw mail that was deleted: of which tenant and inbox, and how many bytes."""
    found = list(deleted)
    if not found:
        return
    # Inboxes before tenants, as when mail is filed.
    tx.run_many(_sql.remove_from_inboxes, _sums((inbox, size) for _, inbox, size in found))
    tx.run_many(_sql.remove, _sums((tenant, size) for tenant, _, size in found))


def storage(tx: Transaction, tenant: str, default: int) -> TenantStorage:
    """Return how much a tenant has, and may have; ``default`` is the limit without its own."""
    stored, quota = tx.one(_sql.one, tenant=tenant) or (0, None)
    return TenantStorage(tenant, int(stored), default if quota is None else int(quota))


def storage_of_all(tx: Transaction, default: int) -> dict[str, TenantStorage]:
    """Return the same of every tenant that has mail or a limit, by name."""
    return {
        str(name): TenantStorage(str(name), int(stored), default if quota is None else int(quota))
        for name, stored, quota in tx.all(_sql.every)
    }


def set_quota(tx: Transaction, size: int | None, entry: audit.AuditEntry) -> None:
    """Give a tenant a limit of its own, or none.

    Raises: NotFound.
    """
    tenants.require(tx, entry.tenant)
    tx.run(_sql.set, tenant=entry.tenant, bytes=size)
    shown = "default" if size is None else str(size)
    audit.record(tx, entry, "tenant quota", f"tenant:{entry.tenant}", f"bytes: {shown}")


def require_storage(tx: Transaction, tenant: str, default: int) -> None:
    """Refuse a tenant that has as much as it may have.

    Raises: QuotaExceeded.
    """
    found = storage(tx, tenant, default)
    if found.is_full:
        raise QuotaExceeded(
            f"tenant {tenant} stores {found.stored_bytes} of {found.quota_bytes} bytes of mail; "
            f"raise its limit with: oncebox tenant quota {tenant} BYTES"
        )


def _sums(counted: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    sums: Counter[str] = Counter()
    for name, size in counted:
        sums[name] += size
    return sorted(sums.items())
