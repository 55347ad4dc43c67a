"""Schema migrations: numbered, forward-only, checksummed.

All due migrations share one transaction. One that converts the rows of a table has steps in its
text: it converts them in batches, with a commit each, and goes on after an interruption.
See docs/decisions/0006-use-forward-only-migrations-for-prefixed-tables.md.
"""

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files

from oncebox.core import faults
from oncebox.db.database import Database, Transaction
from oncebox.db.queries import load
from oncebox.errors import MigrationChanged, SchemaOutdated, SchemaTooNew

_sql = load(__package__, "migrate.sql")

#: rows that one transaction converts
BATCH_ROWS = 5_000
#: before the checksum of a migration that has converted some rows, but not all; no process of an
#: older version starts after this
_BEGUN = "begun:"
_STEP = re.compile(r"^-- step: (\w+)$", re.MULTILINE)

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

    def step(self, name: str) -> str:
        """The text of one of its steps; without any, all of it is to ``begin``."""
        _, *named = _STEP.split(self.text.replace("{rows}", str(BATCH_ROWS)))
        steps = dict(zip(named[::2], named[1::2], strict=True)) or {"begin": self.text}
        return steps.get(name, "")


@dataclass(frozen=True, slots=True)
class Applied:
    """What one transaction has applied."""

    #: the migrations that are finished now
    names: list[str]
    #: the rows that were converted for one that is not finished; None: all are
    rows: int | None = None


#: called with how many rows are converted, of how many, whenever it is a percent more
ReportRows = Callable[[int, int], None]


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


async def migrate(database: Database, report: ReportRows = lambda _done, _all: None) -> list[str]:
    """Migrate the schema to this version; return the names of the applied migrations.

    Raises: SchemaTooNew, MigrationChanged, StoreError; the next call goes on from there.
    """
    names: list[str] = []
    done = total = percent = 0
    while True:
        applied = await database.write(_apply_pending, database.kind, database.clock())
        names += applied.names
        if applied.rows is None:
            return names
        faults.point("migrate.batch-committed")
        done += applied.rows
        total = max(total or done + await database.read(_rows_left, database.kind), done)
        if done * 100 // total > percent:
            percent = done * 100 // total
            report(done, total)


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


def _apply_pending(tx: Transaction, kind: str, now: int, most: int | None = None) -> Applied:
    """Apply pending migrations in order, with one sync of the disk, or a batch of one."""
    if kind == "postgres":
        tx.execute(_POSTGRES_LOCK)
    tx.run(_sql.create_table)
    names: list[str] = []
    for each in _not_applied(tx, kind)[:most]:
        rows = _convert(tx, each, begun=_is_begun(tx, each))
        finished = rows < BATCH_ROWS
        if finished:
            tx.execute(each.step("finish"))
        checksum = each.checksum if finished else _BEGUN + each.checksum
        tx.run(_sql.record, number=each.number, name=each.name, checksum=checksum, now=now)
        faults.point("upkeep.migrating")
        if not finished:
            return Applied(names, rows)
        names.append(each.name)
    return Applied(names)


def _convert(tx: Transaction, migration: Migration, *, begun: bool) -> int:
    """Begin a migration, if it has not begun, and convert a batch of rows; return how many."""
    if not begun:
        tx.execute(migration.step("begin"))
    ((rows,),) = tx.execute(migration.step("next")) or [(0,)]
    if rows:
        tx.execute(migration.step("batch"))
    return int(rows)


def _is_begun(tx: Transaction, migration: Migration) -> bool:
    return (migration.number, _BEGUN + migration.checksum) in tx.all(_sql.applied)


def _rows_left(tx: Transaction, kind: str) -> int:
    """Return how many rows the migration that has begun has not converted yet."""
    begun = [each for each in _pending(tx, kind) if _is_begun(tx, each)]
    return sum(int(tx.execute(each.step("left"))[0][0]) for each in begun)


def _pending(tx: Transaction, kind: str) -> list[Migration]:
    exists = tx.execute(
        "SELECT 1 WHERE to_regclass('oncebox_migrations') IS NOT NULL"
        if kind == "postgres"
        else "SELECT 1 FROM sqlite_schema WHERE name = 'oncebox_migrations'"
    )
    return _not_applied(tx, kind) if exists else shipped_migrations(kind)


def _not_applied(tx: Transaction, kind: str) -> list[Migration]:
    known = shipped_migrations(kind)
    rows = tx.all(_sql.applied)
    applied = {int(number): str(checksum) for number, checksum in rows}
    _refuse_unknown_history(known, applied)
    return [each for each in known if applied.get(each.number) != each.checksum]


def _refuse_unknown_history(known: Sequence[Migration], applied: dict[int, str]) -> None:
    newest = known[-1].number
    if applied and max(applied) > newest:
        raise SchemaTooNew(
            f"a newer Oncebox migrated the database to schema {max(applied)}, this version knows "
            f"schema {newest}; install the newer version: pip install --upgrade oncebox"
        )
    for migration in known:
        found = applied.get(migration.number, migration.checksum)
        if found.removeprefix(_BEGUN) != migration.checksum:
            raise MigrationChanged(
                f"migration {migration.name} was applied with another text; reinstall Oncebox"
            )
