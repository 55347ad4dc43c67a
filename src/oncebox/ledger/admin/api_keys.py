"""API keys: issue, look up through a cache, revoke; requesters; the first key of all."""

import asyncio
import hmac
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from oncebox.core import clock, credentials, ids
from oncebox.core.credentials import Credentials
from oncebox.db.database import Database, Row, Transaction
from oncebox.db.queries import load
from oncebox.errors import KeyInvalid, NotFound, StoreError
from oncebox.ledger.admin import audit, tenants
from oncebox.model.admin import access as texts
from oncebox.model.admin.access import ApiKey, Scope

_sql = load(__package__, "api_keys.sql")


def generate(
    deed: audit.AuditEntry,
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
    texts.check_key_name(name)
    if expires_at is not None and expires_at <= deed.at:
        raise KeyInvalid("the key would have expired already; choose a later time")
    text = texts.make_key_text(random(texts.KEY_RANDOM_BYTES))
    key = ApiKey(
        id=new_id("key"),
        tenant=deed.tenant,
        name=name,
        hint=texts.key_hint(text),
        scopes=texts.check_scopes(scopes),
        created_at=deed.at,
        expires_at=expires_at,
    )
    return key, text


def add(tx: Transaction, key: ApiKey, text: str, deed: audit.AuditEntry) -> None:
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
        digest=texts.key_digest(text),
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
    return _to_key(row[:-1])


def is_active(tx: Transaction, key: ApiKey, now: int) -> bool:
    """Say whether a key that was good a while ago may still be used."""
    row = tx.one(_sql.one, tenant=key.tenant, id=key.id)
    return row is not None and _to_key(row).state(now) == "active"


def list_all(tx: Transaction, tenant: str) -> list[ApiKey]:
    """Return the keys of a tenant, oldest first."""
    return [_to_key(row) for row in tx.all(_sql.of_tenant, tenant=tenant)]


def revoke(tx: Transaction, id_: str, deed: audit.AuditEntry) -> ApiKey:
    """End a key for good; ending it twice changes nothing.

    Raises: NotFound.
    """
    changed = tx.run(_sql.revoke, tenant=deed.tenant, id=id_, now=deed.at)
    row = tx.one(_sql.one, tenant=deed.tenant, id=id_)
    if row is None:
        raise NotFound("there is no such key; list them with: oncebox key list")
    if changed:
        audit.record(tx, deed, "key revoke", f"key:{id_}")
    return _to_key(row)


def discard(tx: Transaction, key: ApiKey) -> None:
    """Take back a key that nobody was shown."""
    tx.run(_sql.discard, tenant=key.tenant, id=key.id)


def record_use(tx: Transaction, key: ApiKey, now: int) -> None:
    """Note that a key was used."""
    tx.run(_sql.used, tenant=key.tenant, id=key.id, now=now)


def any_exist(tx: Transaction) -> bool:
    """Say whether this installation has any key yet."""
    return tx.one(_sql.any) is not None


def _to_key(row: Row) -> ApiKey:
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


#: seconds after which a revocation is seen by every process
KEY_CACHE_SECONDS = 5.0
#: milliseconds between two notes that a key was used
_RECORD_USE_EVERY = 60_000
#: how many good keys are remembered, and how many texts that are none
_MOST_KEYS, _MOST_UNKNOWN = 10_000, 1_000


@dataclass(frozen=True, slots=True)
class _CachedKey:
    """What the database said, and until when that is believed."""

    key: ApiKey | None
    until: float


class ApiKeyCache:
    """Checks keys at the price of one query per key every few seconds."""

    def __init__(self, database: Database, *, steady: Callable[[], float] = clock.steady) -> None:
        """Begin with nothing remembered."""
        self._database = database
        self._steady = steady
        self._known: dict[bytes, _CachedKey] = {}
        #: apart, so that guesses never push a good key out
        self._unknown: dict[bytes, _CachedKey] = {}
        self._fetching: dict[bytes, asyncio.Task[_CachedKey]] = {}
        self._recorded_at: dict[str, int] = {}
        self._background: set[asyncio.Task[None]] = set()

    async def check(self, text: str) -> ApiKey | None:
        """Return the key with this text, if it may be used now.

        Raises: StoreError, when the database must be asked and cannot answer.
        """
        if not texts.is_key_text(text):
            return None
        digest = texts.key_digest(text)
        held = self._known.get(digest) or self._unknown.get(digest)
        if held is None or held.until <= self._steady():
            held = await self._fetch(digest)
        now = self._database.clock()
        if held.key is None or held.key.state(now) != "active":
            return None
        self._record_use_soon(held.key, now)
        return held.key

    def clear(self) -> None:
        """Ask the database anew from now on, as after a revocation in this process."""
        self._known.clear()
        self._unknown.clear()

    async def close(self) -> None:
        """Finish what was begun."""
        await asyncio.gather(*self._background, *self._fetching.values(), return_exceptions=True)

    async def _fetch(self, digest: bytes) -> _CachedKey:
        """Ask the database, once for all who want to know the same."""
        task = self._fetching.get(digest)
        if task is None:
            task = self._fetching[digest] = asyncio.create_task(self._read(digest))
            task.add_done_callback(lambda _: self._fetching.pop(digest, None))
        return await asyncio.shield(task)

    async def _read(self, digest: bytes) -> _CachedKey:
        # The time counts from before the look: what is read may be old when it arrives.
        until = self._steady() + KEY_CACHE_SECONDS
        held = _CachedKey(await self._database.read(by_digest, digest), until)
        known = held.key is not None
        _cache_answer(self._known if known else self._unknown, digest, held,
                  _MOST_KEYS if known else _MOST_UNKNOWN)  # fmt: skip
        (self._unknown if known else self._known).pop(digest, None)
        return held

    def _record_use_soon(self, key: ApiKey, now: int) -> None:
        """Note in the background that a key is used, not on every request."""
        if now - self._recorded_at.get(key.id, key.last_used_at or 0) < _RECORD_USE_EVERY:
            return
        self._recorded_at[key.id] = now
        task = asyncio.create_task(self._write(key, now))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _write(self, key: ApiKey, now: int) -> None:
        try:
            await self._database.write(record_use, key, now)
        except StoreError:
            self._recorded_at.pop(key.id, None)  # the next use notes it


def _cache_answer(held: dict[bytes, _CachedKey], digest: bytes, one: _CachedKey, most: int) -> None:
    """Keep an answer; where there are too many, the oldest goes."""
    held.pop(digest, None)
    while len(held) >= most:
        del held[next(iter(held))]
    held[digest] = one


_FIRST_KEY_NAME = "first key"


class FirstKey(msgspec.Struct, frozen=True):
    """The credentials of this installation, and whether they were made just now."""

    credentials: Credentials
    path: Path
    #: made by this very call, so that it is shown this once
    new: bool
    #: whether the database knows the key; one of another database is never replaced
    known: bool


async def ensure_first_key(database: Database, folder: Path, *, tenant: str, url: str) -> FirstKey:
    """Return the credentials in the data folder, making them and an admin key if there are none.

    A file that is there is never overwritten. Its key is taken into a database that has no key
    yet, as after starting over with an empty one. Any number of processes may call this.

    Raises: ConfigInvalid, NotFound, StoreError.
    """
    found = credentials.read(folder)
    path = credentials.path(folder)
    if found is not None:
        known = await database.write(_adopt_key, found.key, _first_start_entry(database, tenant))
        return FirstKey(found, path, new=False, known=known)
    deed = _first_start_entry(database, tenant)
    key, text = generate(deed, [Scope.ADMIN], name=_FIRST_KEY_NAME)
    # The key first: a crash in between leaves a key that nobody knows, not a file that lies.
    await database.write(add, key, text, deed)
    mine = Credentials(url=url, key=text)
    try:
        kept = credentials.write(folder, mine)
    except BaseException:
        await database.write(discard, key)
        raise
    if kept != mine:  # another process was faster
        await database.write(discard, key)
    return FirstKey(kept, path, new=kept == mine, known=True)


def _first_start_entry(database: Database, tenant: str) -> audit.AuditEntry:
    return audit.AuditEntry(
        id=ids.new("aud"), tenant=tenant, at=database.clock(), who="oncebox", why="first start"
    )


def _adopt_key(tx: Transaction, text: str, deed: audit.AuditEntry) -> bool:
    """Take the file's key into an empty database; say whether the database knows it."""
    if not texts.is_key_text(text):
        return False
    if by_digest(tx, texts.key_digest(text)) is not None:
        return True
    if any_exist(tx):
        return False
    key = ApiKey(
        id=ids.new("key"),
        tenant=deed.tenant,
        name=_FIRST_KEY_NAME,
        hint=texts.key_hint(text),
        scopes=(Scope.ADMIN,),
        created_at=deed.at,
    )
    add(tx, key, text, deed)
    return True


class Requester(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks, and what they may see: everything of the tenant, or what their key made."""

    tenant: str
    #: the key that asks; none: somebody at the terminal
    key: str | None = None
    sees_all: bool = True

    @property
    def owner(self) -> str | None:
        """The only owner whose inboxes may be seen; None is any."""
        return None if self.sees_all else self.key or ""
