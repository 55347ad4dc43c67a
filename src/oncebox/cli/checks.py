"""The doctor's checks: each says ok, warn or fail, and what helps."""

from collections.abc import AsyncIterator
from pathlib import Path

from oncebox import assembly, clock
from oncebox.cli.call import database_file
from oncebox.cli.findings import Check, Status
from oncebox.cli.machine_checks import disk, machine
from oncebox.cli.port_checks import ports
from oncebox.cli.send_checks import sending
from oncebox.cli.words import duration
from oncebox.config import Settings
from oncebox.errors import MasterKeyError, OnceboxError, SchemaOutdated
from oncebox.ledger.attempts import actions
from oncebox.ledger.deliveries import inspections
from oncebox.ledger.inboxes.postmaster import Postmaster
from oncebox.model.action import ActionState
from oncebox.store import migrate, opening
from oncebox.store.database import Database, Transaction
from oncebox.store.queries import load

#: as many as are worth counting
_MANY = 1_000

_sql = load(__package__, "checks.sql")

#: milliseconds a clock may be off before times in the ledger mislead
_CLOCK_OFF = 2_000
#: milliseconds work may be due before somebody should have claimed it
_OVERDUE = 60_000
#: SQLite's number for synchronous = FULL
_FULL = 2


async def examine(settings: Settings) -> AsyncIterator[Check]:
    """Look at everything, in the order in which trouble builds on trouble."""
    for check in machine(settings):
        yield check
    for check in await ports(settings):
        yield check
    path = database_file(settings)
    if path is not None:
        for check in disk(path.parent):
            yield check
    if path is not None and not path.exists():
        yield Check(
            "database", Status.WARN, "there is none yet", "the first delivery or worker makes it"
        )
        return
    try:
        database = opening.connect(settings.database, connections=2)
    except OnceboxError as error:
        yield _failed("database", error)
        return
    try:
        yield Check("database", Status.OK, f"{database.kind}, reachable")
        async for check in _inside(settings, database):
            yield check
    finally:
        await database.close()


async def _inside(settings: Settings, database: Database) -> AsyncIterator[Check]:
    schema = await _schema(database)
    yield schema
    for check in await database.read(_sqlite if database.kind == "sqlite" else _postgres):
        yield check
    yield _clock(database)
    if schema.status is not Status.OK:
        return  # there is nothing yet that a key could fit, and no work
    key = await _master_key(settings)
    yield key
    if key.status is Status.OK:
        for check in await _sources(settings):
            yield check
        for look in (_work, sending):
            for check in await database.read(look, settings.tenant, database.clock()):
                yield check
        for check in await _domains(settings, database):
            yield check


async def _domains(settings: Settings, database: Database) -> list[Check]:
    """Ask the DNS about the domains of this tenant."""
    from oncebox.cli.dns_checks import names  # noqa: PLC0415 - the resolver is slow to load

    own = Postmaster(settings.inboxes, home=settings.tenant)
    found = await database.read(own.domains, settings.tenant)
    return await names(settings, [each.name for each in found])


async def _schema(database: Database) -> Check:
    try:
        await migrate.check(database)
    except SchemaOutdated as error:
        status = Status.WARN if database.kind == "sqlite" else Status.FAIL
        return Check("schema", status, str(error), "run: oncebox migrate")
    except OnceboxError as error:
        return _failed("schema", error)
    return Check("schema", Status.OK, f"at {migrate.shipped(database.kind)[-1].name}")


def _sqlite(tx: Transaction) -> list[Check]:
    """Look at what makes SQLite keep what it acknowledges; an old library cannot even open."""
    (version,) = tx.all(_sql.sqlite_version)[0]
    (journal,) = tx.all(_sql.journal_mode)[0]
    (synchronous,) = tx.all(_sql.synchronous)[0]
    return [
        Check("sqlite version", Status.OK, str(version)),
        _expect("write-ahead log", journal == "wal", f"journal_mode is {journal}", "wal"),
        _expect("sync", synchronous >= _FULL, f"synchronous is {synchronous}", "FULL"),
    ]


def _postgres(tx: Transaction) -> list[Check]:
    """Look at what makes the server keep what it acknowledges."""
    (commit,) = tx.all(_sql.synchronous_commit)[0]
    (fsync,) = tx.all(_sql.fsync)[0]
    (pages,) = tx.all(_sql.full_page_writes)[0]
    return [
        _expect("synchronous_commit", commit != "off", f"it is {commit}", "on"),
        _expect("fsync", fsync == "on", f"it is {fsync}", "on"),
        _expect("full_page_writes", pages == "on", f"it is {pages}", "on"),
    ]


def _expect(name: str, fine: object, message: str, wanted: str) -> Check:
    if fine:
        return Check(name, Status.OK, message)
    remedy = f"set it to {wanted}, or a power cut loses acknowledged work"
    return Check(name, Status.FAIL, message, remedy)


def _clock(database: Database) -> Check:
    offset = abs(database.clock() - clock.system())
    message = f"{duration(offset)} between this host and the database"
    if offset <= _CLOCK_OFF:
        return Check("clock", Status.OK, message)
    return Check("clock", Status.WARN, message, "switch on time synchronisation on both")


async def _master_key(settings: Settings) -> Check:
    """Open everything as a worker would; a lost key file is told before a new one is made."""
    missing = _lost_key_file(settings)
    if missing is not None:
        remedy = "restore it from the backup; what it sealed cannot be opened without it"
        return Check("master key", Status.FAIL, f"there is no key file {missing}", remedy)
    try:
        rooms = await assembly.open_rooms(settings, migrate=False)
    except MasterKeyError as error:
        return _failed("master key", error)
    except OnceboxError as error:
        return _failed("start", error)
    await rooms.close()
    return Check("master key", Status.OK, f"{rooms.master_key.id} fits this database")


async def _sources(settings: Settings) -> list[Check]:
    """Look for sources that take no requests; variables are judged by this environment."""
    rooms = await assembly.open_rooms(settings, migrate=False)
    try:
        await rooms.book.refresh()
        entries = rooms.book.all(settings.tenant)
    finally:
        await rooms.close()
    troubled = [
        Check("source", Status.WARN, f"{entry.source.name} is {entry.state}", entry.note)
        for entry in entries
        if entry.troubles
    ]
    return troubled or [Check("sources", Status.OK, f"{len(entries)} without trouble")]


def _lost_key_file(settings: Settings) -> Path | None:
    if settings.master_key or settings.master_key_file:
        return None
    path = database_file(settings)
    if path is None or path.with_suffix(".key").exists():
        return None
    return path.with_suffix(".key")


def _work(tx: Transaction, tenant: str, now: int) -> list[Check]:
    """Look for work that nobody does and for work that needs a person."""
    checks = [
        found
        for source in inspections.sources(tx, tenant)
        if (found := _overdue(tx, tenant, source, now))
    ]
    checks = checks or [Check("waiting work", Status.OK, "none is overdue")]
    counts = inspections.attention(tx, tenant)
    for state, remedy in (
        ("dead", "look: oncebox dead list"),
        ("held", "look: oncebox delivery list --state held"),
    ):
        count = counts.get(state, 0)
        status = Status.WARN if count else Status.OK
        checks.append(Check(f"{state} deliveries", status, str(count), remedy if count else ""))
    doubtful = len(actions.newest(tx, tenant, state=ActionState.UNKNOWN, most=_MANY))
    status = Status.WARN if doubtful else Status.OK
    remedy = "look: oncebox action list" if doubtful else ""
    return [*checks, Check("held actions", status, str(doubtful), remedy)]


def _overdue(tx: Transaction, tenant: str, source: str, now: int) -> Check | None:
    count, since = inspections.overdue(tx, tenant, source, now - _OVERDUE)
    if since is None:
        return None
    return Check(
        "waiting work",
        Status.WARN,
        f"{count} of source {source} wait since {duration(now - since)} and nobody claims them",
        f"run a worker with a handler for {source}: oncebox worker module:box",
    )


def _failed(name: str, error: OnceboxError) -> Check:
    return Check(name, Status.FAIL, error.code, str(error))
