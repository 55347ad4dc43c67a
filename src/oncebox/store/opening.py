"""Opening a database by its URL, after making sure that it will keep what it acknowledges."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from oncebox import clock
from oncebox.errors import ConfigInvalid, DatabaseReadOnly, DatabaseUnsafe, MasterKeyWrong
from oncebox.seal import MasterKey
from oncebox.store import migrate as migrations
from oncebox.store.database import Database, Transaction
from oncebox.store.queries import load
from oncebox.store.sqlite import SqliteDatabase
from oncebox.telemetry import Telemetry

_sql = load(__package__, "migrate.sql")


def connect(url: str, *, connections: int = 6, now: clock.Clock = clock.system) -> Database:
    """Return the database behind ``sqlite:///path`` or ``postgresql://…``.

    Raises: ConfigInvalid, StoreError.
    """
    scheme = url.split(":", 1)[0]
    if scheme == "sqlite":
        return _sqlite(url, now)
    if scheme in {"postgresql", "postgres"}:
        return _postgres(url, connections, now)
    message = (
        f"the database URL begins with {scheme[:20]!r}; use sqlite:///path/to/file.db "
        "or postgresql://user:password@host/name"
    )
    raise ConfigInvalid(message)


async def prepare(database: Database, telemetry: Telemetry, *, migrate: bool) -> None:
    """Migrate or check the schema, and check that the database keeps what it acknowledges.

    Raises: StoreError of the kind that names the trouble.
    """
    if migrate:
        for name in await migrations.migrate(database):
            telemetry.log.info("migrated", migration=name)
    else:
        await migrations.check(database)
    if database.kind == "postgres":
        await database.read(_check_durability, telemetry)


async def master_key_id(database: Database) -> str | None:
    """Return the id of the master key this database belongs to; None for a new one."""
    return await database.read(_key_id)


async def check_key(database: Database, key: MasterKey) -> None:
    """Bind a new database to its key; refuse a key that cannot open what is sealed here.

    Raises: MasterKeyWrong.
    """
    known = await master_key_id(database) or await database.write(_keep_key_id, key.id)
    if known != key.id:
        message = (
            f"this database belongs to master key {known}, not {key.id}; set ONCEBOX_MASTER_KEY "
            "or ONCEBOX_MASTER_KEY_FILE to the key it was created with"
        )
        raise MasterKeyWrong(message)


async def check_writable(database: Database) -> None:
    """Commit a change that changes nothing.

    Raises: StoreError.
    """
    await database.write(_touch)


def _touch(tx: Transaction) -> None:
    tx.run(_sql.touch_fact, name="master_key_id")


def _key_id(tx: Transaction) -> str | None:
    row = tx.one(_sql.fact, name="master_key_id")
    return str(row[0]) if row else None


def _keep_key_id(tx: Transaction, id_: str) -> str | None:
    tx.run(_sql.keep_fact, name="master_key_id", value=id_)
    return _key_id(tx)


def _check_durability(tx: Transaction, telemetry: Telemetry) -> None:
    """Refuse a server that acknowledges before it has written."""
    if tx.execute("SHOW synchronous_commit") == [("off",)]:
        message = (
            "synchronous_commit is off, so the server loses acknowledged work in a crash; "
            "set it to on for this database or user"
        )
        raise DatabaseUnsafe(message)
    if tx.execute("SHOW fsync") == [("off",)]:
        telemetry.log.warning("database_unsafe", remedy="fsync is off on the server: set it to on")


def sqlite_path(url: str) -> Path:
    """Return the file a SQLite URL names.

    Raises: ConfigInvalid.
    """
    parts = urlsplit(url)
    if parts.netloc or len(parts.path) < 2:  # noqa: PLR2004 - a slash and a name
        message = "a SQLite URL has three slashes and a path: sqlite:///path/to/file.db"
        raise ConfigInvalid(message)
    return Path("/" + unquote(parts.path).lstrip("/"))


def _sqlite(url: str, now: clock.Clock) -> Database:
    path = sqlite_path(url)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"the folder {path.parent} cannot be made; choose one with ONCEBOX_DATA_DIR"
        raise DatabaseReadOnly(message) from error
    return SqliteDatabase(path, now=now)


def _postgres(url: str, connections: int, now: clock.Clock) -> Database:
    try:
        from oncebox.store.postgres import PostgresDatabase  # noqa: PLC0415 - an extra
    except ImportError as error:
        message = "PostgreSQL needs an extra; install it with: pip install 'oncebox[postgres]'"
        raise ConfigInvalid(message) from error
    return PostgresDatabase(url, connections=connections, now=now)
