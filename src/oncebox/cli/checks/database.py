"""Doctor checks of the database: schema, durability, key, sources, overdue work, sends."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from oncebox.cli.checks import Check, CheckStatus
from oncebox.cli.checks.machine import check_disk, check_machine, check_ports
from oncebox.cli.context import database_file
from oncebox.cli.output.times import ago, duration
from oncebox.cli.reader import Reader
from oncebox.core import clock
from oncebox.db import migrate
from oncebox.db.database import Transaction
from oncebox.db.queries import load
from oncebox.errors import OnceboxError, SchemaOutdated
from oncebox.ledger.attempts import actions
from oncebox.ledger.deliveries import inspections
from oncebox.ledger.inboxes.allocation import InboxService
from oncebox.ledger.sends import sends, transports
from oncebox.model.attempts import ActionState
from oncebox.model.sends.transports import LOG_TRANSPORT, ConfiguredTransport
from oncebox.settings import Settings

_sql = load(__package__, "database.sql")

#: as many as are worth counting
_MAX_COUNTED = 1_000
#: milliseconds a send may be due before somebody should have claimed it
_OVERDUE = 60_000


def check_sends(tx: Transaction, tenant: str, now: int) -> list[Check]:
    """Find sends that need an operator, and transports that do not send."""
    ways = transports.of_tenant(tx, tenant)
    checks = [*_check_transports(ways, now), *_overdue_sends(tx, tenant, now)]
    doubtful = len(sends.list_unknown(tx, tenant, most=_MAX_COUNTED))
    remedy = "see: oncebox send list --state unknown" if doubtful else ""
    status = CheckStatus.WARN if doubtful else CheckStatus.OK
    return [*checks, Check("unknown sends", status, str(doubtful), remedy)]


def _check_transports(ways: Sequence[ConfiguredTransport], now: int) -> list[Check]:
    if not ways:
        return [Check("transports", CheckStatus.OK, "none: mail would be stored and not sent")]
    if all(each.kind == LOG_TRANSPORT for each in ways):
        message = "there is only log: mail is stored and not sent"
        return [Check("transports", CheckStatus.WARN, message, "add one: oncebox transport add")]
    return [found for each in ways if (found := _check_transport(each, now))] or [
        Check("transports", CheckStatus.OK, f"{len(ways)} without trouble")
    ]


def _check_transport(way: ConfiguredTransport, now: int) -> Check | None:
    if way.paused:
        return Check(
            "transport", CheckStatus.WARN, f"{way.name} is paused", "oncebox transport resume"
        )
    if way.state(now) != "resting" or way.rests_until is None:
        return None
    again = ago(way.rests_until, now)
    message = f"{way.name} is suspended after {way.failures} failures and tried again {again}"
    return Check("transport", CheckStatus.WARN, message, f"see: oncebox transport test {way.name}")


def _overdue_sends(tx: Transaction, tenant: str, now: int) -> list[Check]:
    return [
        Check(
            "waiting sends",
            CheckStatus.WARN,
            f"mail of transport {each.name} is overdue by more than a minute",
            "run: oncebox serve, or oncebox worker",
        )
        for each in transports.with_due_sends(tx, now - _OVERDUE)
        if each.tenant == tenant
    ]


#: milliseconds a clock may be off before times in the ledger mislead
_CLOCK_OFF = 2_000
#: SQLite's number for synchronous = FULL
_FULL = 2


async def run_all(settings: Settings) -> AsyncIterator[Check]:
    """Run all checks; later ones depend on earlier ones."""
    for check in check_machine(settings):
        yield check
    for check in await check_ports(settings):
        yield check
    path = database_file(settings)
    if path is not None:
        for check in check_disk(path.parent):
            yield check
    if path is not None and not path.exists():
        yield Check(
            "database",
            CheckStatus.WARN,
            "there is none yet",
            "the first delivery or worker creates it",
        )
        return
    try:
        reader = Reader(settings, check_schema=False)
    except OnceboxError as error:
        yield _failed_check("database", error)
        return
    try:
        yield Check("database", CheckStatus.OK, f"{reader.session.kind}, reachable")
        async for check in _check_contents(reader):
            yield check
    finally:
        reader.close()


async def _check_contents(reader: Reader) -> AsyncIterator[Check]:
    schema = _check_schema(reader)
    yield schema
    for check in reader.read(_check_sqlite if reader.session.kind == "sqlite" else _check_postgres):
        yield check
    yield _check_clock(reader)
    if schema.status is not CheckStatus.OK:
        return  # there is nothing yet that a key could fit, and no work
    key = _check_master_key(reader)
    yield key
    if key.status is CheckStatus.OK:
        for check in _check_sources(reader):
            yield check
        for check_work in (_check_deliveries, check_sends):
            for check in reader.read(check_work, reader.settings.tenant, reader.clock()):
                yield check
        for check in await _check_dns(reader):
            yield check


async def _check_dns(reader: Reader) -> list[Check]:
    """Look the domains of this tenant up in the DNS."""
    from oncebox.cli.checks.dns import check_domains  # noqa: PLC0415 - the resolver is slow to load

    settings = reader.settings
    service = InboxService(settings.inboxes, home=settings.tenant)
    found = reader.read(service.domains, settings.tenant)
    return await check_domains(settings, [each.name for each in found])


def _check_schema(reader: Reader) -> Check:
    kind = reader.session.kind
    try:
        reader.read(migrate.require_current_schema, kind)
    except SchemaOutdated as error:
        status = CheckStatus.WARN if kind == "sqlite" else CheckStatus.FAIL
        return Check("schema", status, str(error), "run: oncebox migrate")
    except OnceboxError as error:
        return _failed_check("schema", error)
    return Check("schema", CheckStatus.OK, f"at {migrate.shipped_migrations(kind)[-1].name}")


def _check_sqlite(tx: Transaction) -> list[Check]:
    """Check the durability settings of SQLite; an old library cannot even open the file."""
    (version,) = tx.all(_sql.sqlite_version)[0]
    (journal,) = tx.all(_sql.journal_mode)[0]
    (synchronous,) = tx.all(_sql.synchronous)[0]
    return [
        Check("sqlite version", CheckStatus.OK, str(version)),
        Check("write-ahead log", CheckStatus.OK, _journal_text(str(journal))),
        _expect("sync", synchronous >= _FULL, f"synchronous is {synchronous}", "FULL"),
    ]


def _journal_text(mode: str) -> str:
    later = "" if mode == "wal" else "; the service changes it to wal when it starts"
    return f"journal_mode is {mode}{later}"


def _check_postgres(tx: Transaction) -> list[Check]:
    """Check the durability settings of the server."""
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
        return Check(name, CheckStatus.OK, message)
    remedy = f"set it to {wanted}, or a power cut loses acknowledged work"
    return Check(name, CheckStatus.FAIL, message, remedy)


def _check_clock(reader: Reader) -> Check:
    offset = abs(reader.clock() - clock.system())
    message = f"{duration(offset)} between this host and the database"
    if offset <= _CLOCK_OFF:
        return Check("clock", CheckStatus.OK, message)
    return Check("clock", CheckStatus.WARN, message, "switch on time synchronisation on both")


def _check_master_key(reader: Reader) -> Check:
    missing = _lost_key_file(reader.settings)
    if missing is not None:
        remedy = "restore it from the backup; what it encrypted cannot be read without it"
        return Check("master key", CheckStatus.FAIL, f"there is no key file {missing}", remedy)
    try:
        key = reader.master_key
    except OnceboxError as error:
        return _failed_check("master key", error)
    return Check("master key", CheckStatus.OK, f"{key.id} fits this database")


def _check_sources(reader: Reader) -> list[Check]:
    """Find sources that accept no requests; variables are those of this environment."""
    try:
        entries = reader.sources().all(reader.settings.tenant)
    except OnceboxError as error:
        return [_failed_check("sources", error)]
    troubled = [
        Check("source", CheckStatus.WARN, f"{entry.source.name} is {entry.state}", entry.note)
        for entry in entries
        if entry.troubles
    ]
    return troubled or [Check("sources", CheckStatus.OK, f"{len(entries)} without trouble")]


def _lost_key_file(settings: Settings) -> Path | None:
    if settings.master_key or settings.master_key_file:
        return None
    path = database_file(settings)
    if path is None or path.with_suffix(".key").exists():
        return None
    return path.with_suffix(".key")


def _check_deliveries(tx: Transaction, tenant: str, now: int) -> list[Check]:
    """Find overdue work and work that needs an operator."""
    checks = [
        found
        for source in inspections.sources(tx, tenant)
        if (found := _overdue_deliveries(tx, tenant, source, now))
    ]
    checks = checks or [Check("waiting work", CheckStatus.OK, "none is overdue")]
    counts = inspections.count_dead_and_held(tx, tenant)
    for state, remedy in (
        ("dead", "see: oncebox dead list"),
        ("held", "see: oncebox delivery list --state held"),
    ):
        count = counts.get(state, 0)
        status = CheckStatus.WARN if count else CheckStatus.OK
        checks.append(Check(f"{state} deliveries", status, str(count), remedy if count else ""))
    doubtful = len(actions.newest(tx, tenant, state=ActionState.UNKNOWN, most=_MAX_COUNTED))
    status = CheckStatus.WARN if doubtful else CheckStatus.OK
    remedy = "see: oncebox action list" if doubtful else ""
    return [*checks, Check("held actions", status, str(doubtful), remedy)]


def _overdue_deliveries(tx: Transaction, tenant: str, source: str, now: int) -> Check | None:
    count, since = inspections.overdue(tx, tenant, source, now - _OVERDUE)
    if since is None:
        return None
    return Check(
        "waiting work",
        CheckStatus.WARN,
        f"{count} of source {source} overdue by up to {duration(now - since)}",
        f"run a worker with a handler for {source}: oncebox worker module:box",
    )


def _failed_check(name: str, error: OnceboxError) -> Check:
    return Check(name, CheckStatus.FAIL, error.code, str(error))
