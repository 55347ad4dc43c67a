"""Schema migrations: numbered, forward-only, checksummed, applied in one transaction.

See docs/decisions/0006-use-forward-only-migrations-for-prefixed-tables.md.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from oncebox.core import faults
from oncebox.db.database import Database, Transaction
from oncebox.db.queries import load
from oncebox.errors import MigrationChanged, SchemaOutdated, SchemaTooNew

_sql = load(__package__, "migrate.sql")

_POSTGRES_LOCK = "SET LOCAL lock_timeout = 0; SELECT pg_advisory_xact_lock(8808)"


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema."""

    number: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        """The hash of its text."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def shipped_migrations(kind: str) -> list[Migration]:
    """Return the migrations of this version, in order."""
    folder = files(__package__).joinpath("migrations", kind)
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [
        Migration(
            int(name[:4]), name.removesuffix(".sql"), folder.joinpath(name).read_text("utf-8")
        )
        for name in names
    ]


async def migrate(database: Database) -> list[str]:
    """Migrate the schema to this version; return the names of the applied migrations.

    Raises: SchemaTooNew, MigrationChanged.
    """
    return await database.write(_apply_pending, database.kind, database.clock())


async def check_schema(database: Database) -> None:
    """Refuse a schema that this version does not know.

    Raises: SchemaOutdated, SchemaTooNew, MigrationChanged.
    """
    await database.read(require_current_schema, database.kind)


def require_current_schema(tx: Transaction, kind: str) -> None:
    """Refuse a schema that this version does not know.

    Raises: SchemaOutdated, SchemaTooNew, MigrationChanged.
    """
    if pending := _pending(tx, kind):
        raise SchemaOutdated(
            f"the database needs {len(pending)} migration(s) first; stop older Oncebox processes "
            "that use it, then run: oncebox migrate"
        )


def _apply_pending(tx: Transaction, kind: str, now: int, most: int | None = None) -> list[str]:
    """Apply pending migrations in order, with one sync of the disk."""
    if kind == "postgres":
        tx.execute(_POSTGRES_LOCK)
    tx.run(_sql.create_table)
    due = _not_applied(tx, kind)[:most]
    for step in due:
        tx.execute(step.text)
        tx.run(_sql.record, number=step.number, name=step.name, checksum=step.checksum, now=now)
        faults.point("upkeep.migrating")
    return [step.name for step in due]


def _pending(tx: Transaction, kind: str) -> list[Migration]:
    exists = tx.execute(
        "SELECT 1 WHERE to_regclass('oncebox_migrations') IS NOT NULL"
        if kind == "postgres"
        else "SELECT 1 FROM sqlite_schema WHERE name = 'oncebox_migrations'"
    )
    return _not_applied(tx, kind) if exists else shipped_migrations(kind)


def _not_applied(tx: Transaction, kind: str) -> list[Migration]:
    known = shipped_migrations(kind)
    applied = {int(number): str(checksum) for number, checksum in tx.all(_sql.applied)}
    _refuse_unknown_history(known, applied)
    return [migration for migration in known if migration.number not in applied]


def _refuse_unknown_history(known: Sequence[Migration], applied: dict[int, str]) -> None:
    newest = known[-1].number
    if applied and max(applied) > newest:
        raise SchemaTooNew(
            f"a newer Oncebox migrated the database to schema {max(applied)}, this version knows "
            f"schema {newest}; install the newer version: pip install --upgrade oncebox"
        )
    for migration in known:
        if applied.get(migration.number, migration.checksum) != migration.checksum:
            raise MigrationChanged(
                f"migration {migration.name} was applied with another text; reinstall Oncebox"
            )
