"""Database start-up: connect by URL, migrate or check the schema, check the master key."""

import hashlib
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from oncebox.core import clock, encryption
from oncebox.core.encryption import MasterKey
from oncebox.core.files import create_private_folder
from oncebox.db import data_keys
from oncebox.db import migrate as migrations
from oncebox.db.database import Database, ReadSession, Transaction
from oncebox.db.queries import load
from oncebox.db.sqlite import SqliteDatabase, SqliteReader
from oncebox.errors import (
    ConfigInvalid,
    DatabaseReadOnly,
    DatabaseUnsafe,
    MasterKeyMissing,
    MasterKeyWrong,
    NotFound,
)
from oncebox.settings import Settings

if TYPE_CHECKING:  # commands that only read do not load the metrics
    from oncebox.core.metrics import Telemetry

_sql = load(__package__, "migrate.sql")

#: a fact of this many bytes is written to see whether the disk has room again
_ROOM, _MUCH = "room", 1024 * 1024


def connect(url: str, *, connections: int = 6, now: clock.Clock = clock.system) -> Database:
    """Return the database behind ``sqlite:///path`` or ``postgresql://…``.

    Raises: ConfigInvalid, StoreError.
    """
    if _url_scheme(url) == "sqlite":
        return _connect_sqlite(url, now)
    database: Database = _postgres().PostgresDatabase(url, connections=connections, now=now)
    return database


def open_read_only(url: str, *, check_schema: bool = True) -> ReadSession:
    """Return a connection that only reads: nothing is created, migrated or locked for writing.

    Raises: ConfigInvalid, NotFound, StoreError; a schema of another version is one.
    """
    if _url_scheme(url) == "sqlite":
        path = sqlite_path(url)
        if not path.exists():
            raise NotFound(
                f"there is no database at {path}; check --data-dir, or run: oncebox migrate"
            )
        session: ReadSession = SqliteReader(path)
    else:
        session = _postgres().PostgresReader(url)
    try:
        if check_schema:
            session.read(migrations.require_current_schema, session.kind)
    except BaseException:
        session.close()
        raise
    return session


def _url_scheme(url: str) -> str:
    scheme = url.split(":", 1)[0]
    if scheme in {"postgresql", "postgres"}:
        return "postgresql"
    if scheme == "sqlite":
        return scheme
    raise ConfigInvalid(
        f"the database URL begins with {scheme[:20]!r}; use sqlite:///path/to/file.db "
        "or postgresql://user:password@host/name"
    )


async def prepare(database: Database, telemetry: "Telemetry", *, migrate: bool) -> None:
    """Migrate or check the schema, and check that commits are durable.

    Raises: StoreError.
    """
    if migrate:
        log = telemetry.log
        for name in await migrations.migrate(
            database, lambda done, total: log.info("migrating", rows=done, of=total)
        ):
            log.info("migration_applied", migration=name)
    else:
        await migrations.check_schema(database)
    if database.kind == "postgres":
        await database.read(_check_durability, telemetry)


def load_master_key(settings: Settings, *, may_create: bool) -> MasterKey:
    """Return the configured master key; only a new SQLite installation may create its own.

    Raises: MasterKeyError, DatabaseReadOnly.
    """
    if settings.master_key:
        return encryption.master_key_from_text(settings.master_key)
    if settings.master_key_file:
        return encryption.master_key_from_file(Path(settings.master_key_file))
    if not settings.database.startswith("sqlite:"):
        raise MasterKeyMissing(
            "PostgreSQL needs a master key that all hosts share: set ONCEBOX_MASTER_KEY or "
            "ONCEBOX_MASTER_KEY_FILE; create one with: openssl rand -base64 32"
        )
    path = sqlite_path(settings.database).with_suffix(".key")
    if not may_create:
        return encryption.master_key_from_file(path)
    try:
        return encryption.load_or_create_master_key(path)
    except OSError as error:
        raise DatabaseReadOnly(
            "the folder of the database cannot be written; choose one with ONCEBOX_DATA_DIR"
        ) from error


async def master_key_id(database: Database) -> str | None:
    """Return the id of the master key this database belongs to; None for a new one."""
    return await database.read(stored_key_id)


async def check_master_key(database: Database, key: MasterKey) -> None:
    """Bind a new database to its key; refuse a key that cannot decrypt its contents.

    Raises: MasterKeyWrong.
    """
    if await master_key_id(database) is None:
        await database.write(_store_key_id, key.id)
    await database.read(read_data_keys, key, database.clock())


def read_data_keys(tx: Transaction, key: MasterKey, now: int) -> None:
    """Let a master key use the data keys of the database; refuse a key that cannot open it.

    Raises: MasterKeyWrong.
    """
    if wrapped := data_keys.read(tx, key.id):
        data_keys.use(key, wrapped, now)
    elif (known := stored_key_id(tx)) != key.id:
        raise MasterKeyWrong(
            f"this database belongs to master key {known}, not {key.id}; set ONCEBOX_MASTER_KEY "
            "or ONCEBOX_MASTER_KEY_FILE to the key it was created with, or last rotated to"
        )


async def check_writable(database: Database) -> None:
    """Commit an update without effect; after a full disk, as much as a large mail needs.

    A full disk often has room for a small change, in files that are there already.

    Raises: StoreError.
    """
    if database.disk_full:
        await database.write(_put_fact, _ROOM, hashlib.shake_256().hexdigest(_MUCH // 2))
        await database.write(_remove_fact, _ROOM)
        database.disk_full = False
    await database.write(_write_unchanged)


def _put_fact(tx: Transaction, name: str, value: str) -> None:
    tx.run(_sql.put_fact, name=name, value=value)


def _remove_fact(tx: Transaction, name: str) -> None:
    tx.run(_sql.remove_fact, name=name)


def _write_unchanged(tx: Transaction) -> None:
    tx.run(_sql.touch_fact, name="master_key_id")


def stored_key_id(tx: Transaction) -> str | None:
    """Return the id of the master key this database belongs to; None for a new one."""
    row = tx.one(_sql.fact, name="master_key_id")
    return str(row[0]) if row else None


def _store_key_id(tx: Transaction, id_: str) -> None:
    tx.run(_sql.keep_fact, name="master_key_id", value=id_)


def _check_durability(tx: Transaction, telemetry: "Telemetry") -> None:
    """Refuse a server that acknowledges commits before they are on disk."""
    if tx.execute("SHOW synchronous_commit") == [("off",)]:
        raise DatabaseUnsafe(
            "synchronous_commit is off, so the server loses acknowledged work in a crash; "
            "set it to on for this database or user"
        )
    if tx.execute("SHOW fsync") == [("off",)]:
        telemetry.log.warning("database_unsafe", remedy="fsync is off on the server: set it to on")


def sqlite_path(url: str) -> Path:
    """Return the file a SQLite URL names.

    Raises: ConfigInvalid.
    """
    parts = urlsplit(url)
    if parts.netloc or len(parts.path) < 2:  # noqa: PLR2004 - a slash and a name
        raise ConfigInvalid("a SQLite URL has three slashes and a path: sqlite:///path/to/file.db")
    return Path("/" + unquote(parts.path).lstrip("/"))


def _connect_sqlite(url: str, now: clock.Clock) -> Database:
    path = sqlite_path(url)
    try:
        create_private_folder(path.parent)
    except OSError as error:
        raise DatabaseReadOnly(
            f"the folder {path.parent} cannot be created; choose one with ONCEBOX_DATA_DIR"
        ) from error
    return SqliteDatabase(path, now=now)


def _postgres() -> ModuleType:
    try:
        from oncebox.db import postgres  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ConfigInvalid(
            "PostgreSQL needs an extra; install it with: pip install 'oncebox[postgres]'"
        ) from error
    return postgres
