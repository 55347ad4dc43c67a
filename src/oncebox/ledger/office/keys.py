"""Keys: who may call, what for and until when; their texts are shown once and never kept."""

import hmac
import os
from collections.abc import Callable, Sequence

from oncebox import ids
from oncebox.errors import KeyInvalid, NotFound
from oncebox.ledger.office import audit, tenants
from oncebox.model import key as texts
from oncebox.model.key import ApiKey
from oncebox.store.database import Row, Transaction
from oncebox.store.queries import load

_sql = load(__package__, "keys.sql")


def make(
    deed: audit.Deed,
    scopes: Sequence[str],
    *,
    expires_at: int | None = None,
    name: str = "",
    new_id: ids.NewId = ids.new,
    random: Callable[[int], bytes] = os.urandom,
) -> tuple[ApiKey, str]:
    """Return a new key and its text, neither of them kept yet.

    Raises: KeyInvalid.
    """
    texts.check_name(name)
    if expires_at is not None and expires_at <= deed.at:
        message = "the key would have expired already; choose a later time"
        raise KeyInvalid(message)
    text = texts.make_text(random(texts.RANDOM_BYTES))
    key = ApiKey(
        id=new_id("key"),
        tenant=deed.tenant,
        name=name,
        hint=texts.hint(text),
        scopes=texts.check_scopes(scopes),
        created_at=deed.at,
        expires_at=expires_at,
    )
    return key, text


def add(tx: Transaction, key: ApiKey, text: str, deed: audit.Deed) -> None:
    """Keep a key that ``make`` made, as the hash of its text.

    Raises: NotFound, when there is no such tenant.
    """
    tenants.require(tx, key.tenant)
    tx.run(
        _sql.add,
        id=key.id,
        tenant=key.tenant,
        name=key.name,
        hint=key.hint,
        digest=texts.digest(text),
        scopes=" ".join(key.scopes),
        created_at=key.created_at,
        expires_at=key.expires_at,
    )
    audit.record(tx, deed, "key new", f"key:{key.id}", " ".join(key.scopes))


def by_digest(tx: Transaction, digest: bytes) -> ApiKey | None:
    """Return the key whose text hashes to this, in whatever state."""
    row = tx.one(_sql.by_digest, digest=digest)
    if row is None or not hmac.compare_digest(bytes(row[-1]), digest):
        return None
    return _key(row[:-1])


def is_active(tx: Transaction, key: ApiKey, now: int) -> bool:
    """Say whether a key that was good a while ago may still be used."""
    row = tx.one(_sql.one, tenant=key.tenant, id=key.id)
    return row is not None and _key(row).state(now) == "active"


def all_(tx: Transaction, tenant: str) -> list[ApiKey]:
    """Return the keys of a tenant, oldest first."""
    return [_key(row) for row in tx.all(_sql.of_tenant, tenant=tenant)]


def revoke(tx: Transaction, id_: str, deed: audit.Deed) -> ApiKey:
    """End a key for good; ending it twice changes nothing.

    Raises: NotFound.
    """
    changed = tx.run(_sql.revoke, tenant=deed.tenant, id=id_, now=deed.at)
    row = tx.one(_sql.one, tenant=deed.tenant, id=id_)
    if row is None:
        message = "there is no such key; list them with: oncebox key list"
        raise NotFound(message)
    if changed:
        audit.record(tx, deed, "key revoke", f"key:{id_}")
    return _key(row)


def discard(tx: Transaction, key: ApiKey) -> None:
    """Take back a key that nobody was shown."""
    tx.run(_sql.discard, tenant=key.tenant, id=key.id)


def used(tx: Transaction, key: ApiKey, now: int) -> None:
    """Note that a key was used."""
    tx.run(_sql.used, tenant=key.tenant, id=key.id, now=now)


def is_any(tx: Transaction) -> bool:
    """Say whether this installation has any key yet."""
    return tx.one(_sql.any) is not None


def _key(row: Row) -> ApiKey:
    id_, tenant, name, hint, scopes, created_at, expires_at, revoked_at, last_used_at = row
    return ApiKey(
        id=id_,
        tenant=tenant,
        name=name,
        hint=hint,
        scopes=tuple(scopes.split()),
        created_at=created_at,
        expires_at=expires_at,
        revoked_at=revoked_at,
        last_used_at=last_used_at,
    )
