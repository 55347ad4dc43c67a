"""API keys: issue, look up through a cache, revoke; requesters; the first key.

See docs/decisions/0017-use-short-lived-caches-for-api-keys-and-sources.md.
"""

import asyncio
import hmac
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from oncebox.core import clock, credentials, ids
from oncebox.core.credentials import Credentials
from oncebox.db.database import Database, Row, SentStatement, Transaction
from oncebox.db.queries import load
from oncebox.errors import KeyInvalid, NotFound, StoreError
from oncebox.ledger.admin import audit, tenants
from oncebox.model.admin import access as texts
from oncebox.model.admin.access import ApiKey, Scope

_sql = load(__package__, "api_keys.sql")


def generate(
    entry: audit.AuditEntry,
    scopes: Sequence[str],
    *,
    expires_at: int | None = None,
    name: str = "",
    new_id: ids.NewId = ids.new,
    random: Callable[[int], bytes] = os.urandom,
) -> tuple[ApiKey, str]:
    """Return a new key and its text; neither is stored yet.

    Raises: KeyInvalid.
    """
    texts.check_key_name(name)
    if expires_at is not None and expires_at <= entry.at:
        raise KeyInvalid("the key would have expired already; choose a later time")
    text = texts.make_key_text(random(texts.KEY_RANDOM_BYTES))
    key = ApiKey(
        id=new_id("key"),
        tenant=entry.tenant,
        name=name,
        hint=texts.key_hint(text),
        scopes=texts.check_scopes(scopes),
        created_at=entry.at,
        expires_at=expires_at,
    )
    return key, text


def add(tx: Transaction, key: ApiKey, text: str, entry: audit.AuditEntry) -> None:
    """Store a key that ``generate`` made, with the hash of its text.

    Raises: NotFound, if there is no such tenant.
    """
    tenants.require(tx, key.tenant)
    values = msgspec.structs.asdict(key) | {"scopes": " ".join(key.scopes)}
    tx.run(_sql.add, **values, digest=texts.key_digest(text))
    audit.record(tx, entry, "key new", f"key:{key.id}", " ".join(key.scopes))


def by_digest(tx: Transaction, digest: bytes) -> ApiKey | None:
    """Return the key whose text has this hash, in any state."""
    row = tx.one(_sql.by_digest, digest=digest)
    if row is None or not hmac.compare_digest(bytes(row[-1]), digest):
        return None
    return _to_key(row[:-1])


def is_active(tx: Transaction, key: ApiKey, now: int) -> bool:
    """Say whether a key that was active is so still."""
    return found_active(send_get(tx, key), now)


def send_get(tx: Transaction, key: ApiKey) -> SentStatement:
    """Send the query for a key as it is now."""
    return tx.send(_sql.one, tenant=key.tenant, id=key.id)


def found_active(sent: SentStatement, now: int) -> bool:
    """Say whether the query found an active key."""
    rows = sent.rows()
    return bool(rows) and _to_key(rows[0]).state(now) == "active"


def list_all(tx: Transaction, tenant: str) -> list[ApiKey]:
    """Return the keys of a tenant, oldest first."""
    return [_to_key(row) for row in tx.all(_sql.of_tenant, tenant=tenant)]


def revoke(tx: Transaction, id_: str, entry: audit.AuditEntry) -> ApiKey:
    """Revoke a key; repeating it changes nothing.

    Raises: NotFound.
    """
    changed = tx.run(_sql.revoke, tenant=entry.tenant, id=id_, now=entry.at)
    row = tx.one(_sql.one, tenant=entry.tenant, id=id_)
    if row is None:
        raise NotFound("there is no such key; list them with: oncebox key list")
    if changed:
        audit.record(tx, entry, "key revoke", f"key:{id_}")
    return _to_key(row)


def discard(tx: Transaction, key: ApiKey) -> None:
    """Delete a key that was never shown."""
    tx.run(_sql.discard, tenant=key.tenant, id=key.id)


def record_use(tx: Transaction, key: ApiKey, now: int) -> None:
    """Record that a key was used."""
    tx.run(_sql.used, tenant=key.tenant, id=key.id, now=now)


def any_exist(tx: Transaction) -> bool:
    """Say whether this installation has any key."""
    return tx.one(_sql.any) is not None


def _to_key(row: Row) -> ApiKey:
    values = dict(zip(ApiKey.__struct_fields__, row, strict=True))
    return ApiKey(**values | {"scopes": tuple(values["scopes"].split())})


#: seconds after which a revocation is seen by every process
KEY_CACHE_SECONDS = 5.0
#: milliseconds between two records that a key was used
_RECORD_USE_EVERY = 60_000
#: how many keys are cached, and how many texts that belong to none
_MOST_KEYS, _MOST_UNKNOWN = 10_000, 1_000


class _CachedKey(NamedTuple):
    """The database's answer, and until when it is valid."""

    key: ApiKey | None
    until: float


class ApiKeyCache:
    """Checks keys at the cost of one query per key every few seconds."""

    def __init__(self, database: Database, *, steady: Callable[[], float] = clock.steady) -> None:
        """Start with an empty cache."""
        self._database = database
        self._steady = steady
        self._known: dict[bytes, _CachedKey] = {}
        #: separate, so that guesses never evict a valid key
        self._unknown: dict[bytes, _CachedKey] = {}
        #: made by ``add_own``
        self._own: dict[bytes, ApiKey] = {}
        self._fetching: dict[bytes, asyncio.Task[_CachedKey]] = {}
        self._recorded_at: dict[str, int] = {}
        self._background: set[asyncio.Task[None]] = set()

    async def check(self, text: str) -> ApiKey | None:
        """Return the key with this text, if it may be used now.

        Raises: StoreError, if the key is not cached and the database cannot answer.
        """
        if not texts.is_key_text(text):
            return None
        digest = texts.key_digest(text)
        if (own := self._own.get(digest)) is not None:
            return own
        held = self._known.get(digest) or self._unknown.get(digest)
        if held is None or held.until <= self._steady():
            held = await self._fetch(digest)
        now = self._database.clock()
        if held.key is None or held.key.state(now) != "active":
            return None
        recorded_at = self._recorded_at.get(held.key.id, held.key.last_used_at or 0)
        if now - recorded_at >= _RECORD_USE_EVERY:
            self._record_use_soon(held.key, now)
        return held.key

    def add_own(self, key: ApiKey, text: str) -> None:
        """Accept a key of this process, which is not stored and ends with it."""
        self._own[texts.key_digest(text)] = key

    def is_own(self, key: ApiKey) -> bool:
        """Say whether a key is one of this process."""
        return key in self._own.values()

    def clear(self) -> None:
        """Forget all keys of the database, as after a revocation in this process."""
        self._known.clear()
        self._unknown.clear()

    async def close(self) -> None:
        """Finish pending reads and writes."""
        await asyncio.gather(*self._background, *self._fetching.values(), return_exceptions=True)

    async def _fetch(self, digest: bytes) -> _CachedKey:
        """Read a key; concurrent callers share one query."""
        task = self._fetching.get(digest)
        if task is None:
            task = self._fetching[digest] = asyncio.create_task(self._read(digest))
            task.add_done_callback(lambda _: self._fetching.pop(digest, None))
        return await asyncio.shield(task)

    async def _read(self, digest: bytes) -> _CachedKey:
        # The time counts from before the read: its answer may be old when it arrives.
        until = self._steady() + KEY_CACHE_SECONDS
        held = _CachedKey(await self._database.read(by_digest, digest), until)
        cache, most = (
            (self._unknown, _MOST_UNKNOWN) if held.key is None else (self._known, _MOST_KEYS)
        )
        self._known.pop(digest, None)
        self._unknown.pop(digest, None)
        while len(cache) >= most:
            del cache[next(iter(cache))]
        cache[digest] = held
        return held

    def _record_use_soon(self, key: ApiKey, now: int) -> None:
        """Record in the background that a key is used."""
        self._recorded_at[key.id] = now
        task = asyncio.create_task(self._write(key, now))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _write(self, key: ApiKey, now: int) -> None:
        try:
            await self._database.write(record_use, key, now)
        except StoreError:
            self._recorded_at.pop(key.id, None)  # the next use records it


_FIRST_KEY_NAME = "first key"


class FirstKey(msgspec.Struct, frozen=True):
    """The credentials of this installation, and whether they are new."""

    credentials: Credentials
    path: Path
    #: created by this call, so that it is shown this once
    new: bool
    #: whether the database has the key; the key of another database is never replaced
    known: bool


async def ensure_first_key(database: Database, folder: Path, *, tenant: str, url: str) -> FirstKey:
    """Return the credentials in the data folder; create them and an admin key if there are none.

    An existing file is never overwritten; its key is added to a database without any key, as
    after a fresh start with an empty one. Any number of processes may call this at once.

    Raises: ConfigInvalid, NotFound, StoreError.
    """
    found = credentials.read(folder)
    path = credentials.path(folder)
    if found is not None:
        known = await database.write(_adopt_key, found.key, _first_start_entry(database, tenant))
        return FirstKey(found, path, new=False, known=known)
    entry = _first_start_entry(database, tenant)
    key, text = generate(entry, [Scope.ADMIN], name=_FIRST_KEY_NAME)
    # The key first: a crash in between leaves an unknown key, not a file with an invalid one.
    await database.write(add, key, text, entry)
    mine = Credentials(url=url, key=text)
    try:
        stored = credentials.write(folder, mine)
    except BaseException:
        await database.write(discard, key)
        raise
    if stored != mine:  # another process was faster
        await database.write(discard, key)
    return FirstKey(stored, path, new=stored == mine, known=True)


def _first_start_entry(database: Database, tenant: str) -> audit.AuditEntry:
    return audit.AuditEntry(
        id=ids.new("aud"), tenant=tenant, at=database.clock(), who="oncebox", why="first start"
    )


def _adopt_key(tx: Transaction, text: str, entry: audit.AuditEntry) -> bool:
    """Add the file's key to a database without keys; say whether the database has it."""
    if not texts.is_key_text(text):
        return False
    if by_digest(tx, texts.key_digest(text)) is not None:
        return True
    if any_exist(tx):
        return False
    key = ApiKey(
        id=ids.new("key"),
        tenant=entry.tenant,
        name=_FIRST_KEY_NAME,
        hint=texts.key_hint(text),
        scopes=(Scope.ADMIN,),
        created_at=entry.at,
    )
    add(tx, key, text, entry)
    return True


class Requester(msgspec.Struct, frozen=True, kw_only=True):
    """A caller and what it may see: everything of the tenant, or what its key created."""

    tenant: str
    #: the API key; none: an operator at the terminal
    key: str | None = None
    sees_all: bool = True

    @property
    def owner(self) -> str | None:
        """The key whose inboxes are visible; None: all."""
        return None if self.sees_all else self.key or ""
