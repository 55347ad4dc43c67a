"""Doctor checks of the database: schema, durability, key, sources, work, sends, mailboxes."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import closing

from oncebox.cli.checks import Check, CheckStatus, fail, ok, warn
from oncebox.cli.checks.machine import (
    check_database_files,
    check_disk,
    check_free_space,
    check_machine,
    check_ports,
)
from oncebox.cli.context import database_file
from oncebox.cli.files import master_key_path
from oncebox.cli.output.times import ago, duration
from oncebox.cli.reader import Reader
from oncebox.core import clock
from oncebox.db import migrate
from oncebox.db.database import Transaction
from oncebox.db.queries import load
from oncebox.errors import OnceboxError, SchemaOutdated
from oncebox.ledger import maintenance, master_key_rotation
from oncebox.ledger.attempts import actions
from oncebox.ledger.deliveries import inspections
from oncebox.ledger.inboxes import quotas
from oncebox.ledger.inboxes.allocation import InboxService
from oncebox.ledger.mailboxes import mailboxes
from oncebox.ledger.sends import sends, transports
from oncebox.mailboxes.failures import REMEDIES
from oncebox.model.attempts import ActionState
from oncebox.model.mailboxes.mailbox import PAUSED_BY_OPERATOR, Mailbox
from oncebox.model.sends.transports import LOG_TRANSPORT, ConfiguredTransport
from oncebox.model.webhooks.source import WEBHOOK_CHANNEL, SourceEntry
from oncebox.settings import Settings

_sql = load(__package__, "database.sql")

#: as many as are worth counting
_MAX_COUNTED = 1_000
#: milliseconds by which work may be overdue
_MAX_OVERDUE = 60_000
#: milliseconds for which a transaction may be open
_MAX_TRANSACTION = 5 * 60_000
#: milliseconds of clock difference from which times in the ledger mislead
_MAX_CLOCK_OFFSET = 2_000
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
        watermark = settings.limits.free_disk
        for check in (*check_disk(path.parent, watermark), *check_database_files(path)):
            yield check
        if not path.exists():
            yield warn("database", "there is none yet", "the first delivery or worker creates it")
            return
    else:
        yield check_free_space(settings.folder, settings.limits.free_disk)
    try:
        reader = Reader(settings, check_schema=False)
    except OnceboxError as error:
        yield _failed("database", error)
        return
    with closing(reader):
        yield ok("database", f"{reader.session.kind}, reachable")
        async for check in _check_contents(reader):
            yield check


async def _check_contents(reader: Reader) -> AsyncIterator[Check]:
    schema = _check_schema(reader)
    yield schema
    for check in reader.read(_check_engine, reader.session.kind, reader.clock()):
        yield check
    yield _check_clock(reader)
    if schema.status is not CheckStatus.OK:
        return  # there is no key to check yet, and no work
    key = _check_master_key(reader)
    yield key
    if key.status is CheckStatus.OK:
        for check in _check_sources(reader):
            yield check
        for check_work in (_check_deliveries, _check_sends, _check_mailboxes):
            for check in reader.read(check_work, reader.settings.tenant, reader.clock()):
                yield check
        yield _check_quotas(reader)
        for check in await _check_dns(reader):
            yield check


def _check_quotas(reader: Reader) -> Check:
    """Check whether a tenant's mail is refused, or soon will be."""
    stored = reader.read(quotas.storage_of_all, reader.settings.limits.tenant_bytes).values()
    full = [each.tenant for each in stored if each.is_full]
    nearly = [each.tenant for each in stored if each.is_nearly_full and not each.is_full]
    remedy = "raise it with: oncebox tenant quota NAME SIZE"
    if full:
        return fail("quotas", f"mail is refused for tenants: {', '.join(full)}", remedy)
    if nearly:
        return warn("quotas", f"nine tenths are used by tenants: {', '.join(nearly)}", remedy)
    return ok("quotas", "no tenant is near its limit")


async def _check_dns(reader: Reader) -> list[Check]:
    from oncebox.cli.checks.dns import check_domains  # noqa: PLC0415 - the resolver is slow to load

    settings = reader.settings
    service = InboxService(settings.inboxes, home=settings.tenant)
    domains = reader.read(service.domains, settings.tenant)
    return await check_domains(settings, [each.name for each in domains])


def _check_schema(reader: Reader) -> Check:
    kind = reader.session.kind
    try:
        reader.read(migrate.require_current_schema, kind)
    except SchemaOutdated as error:
        status = CheckStatus.WARN if kind == "sqlite" else CheckStatus.FAIL
        return Check("schema", status, str(error), "run: oncebox migrate")
    except OnceboxError as error:
        return _failed("schema", error)
    return ok("schema", f"at {migrate.shipped_migrations(kind)[-1].name}")


def _check_engine(tx: Transaction, kind: str, now: int) -> list[Check]:
    if kind == "sqlite":
        return _check_sqlite(tx)
    return [*_check_postgres(tx), _check_old_transactions(tx, now), _check_statistics(tx)]


def _check_sqlite(tx: Transaction) -> list[Check]:
    """Check the durability settings of SQLite; an old library cannot even open the file."""
    (version,) = tx.all(_sql.sqlite_version)[0]
    (journal,) = tx.all(_sql.journal_mode)[0]
    (synchronous,) = tx.all(_sql.synchronous)[0]
    later = "" if journal == "wal" else "; the service changes it to wal when it starts"
    return [
        ok("sqlite version", str(version)),
        ok("write-ahead log", f"journal_mode is {journal}{later}"),
        _expect("sync", synchronous >= _FULL, f"synchronous is {synchronous}", "FULL"),
    ]


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


def _check_old_transactions(tx: Transaction, now: int) -> Check:
    """Find a transaction that keeps the server from cleaning up."""
    holder, began = tx.one(_sql.oldest_transaction) or ("", now)
    if now - began < _MAX_TRANSACTION:
        return ok("old transactions", "none")
    message = f"{holder} has a transaction open since {duration(now - began)}"
    remedy = "end it: until then PostgreSQL keeps every deleted row, and claims get slower"
    return warn("old transactions", message, remedy)


def _check_statistics(tx: Transaction) -> Check:
    """Find tables that the planner knows nothing of."""
    names = maintenance.tables_without_statistics(tx)
    if not names:
        return ok("statistics", "up to date")
    message = f"missing or outdated for {', '.join(names)}"
    return warn("statistics", message, "run in psql: ANALYZE; a running service does it itself")


def _expect(name: str, fine: object, message: str, wanted: str) -> Check:
    if fine:
        return ok(name, message)
    return fail(name, message, f"set it to {wanted}, or a power cut loses acknowledged work")


def _check_clock(reader: Reader) -> Check:
    offset = abs(reader.clock() - clock.system())
    message = f"{duration(offset)} between this host and the database"
    if offset <= _MAX_CLOCK_OFFSET:
        return ok("clock", message)
    return warn("clock", message, "turn on time synchronisation on both")


def _check_master_key(reader: Reader) -> Check:
    settings = reader.settings
    if not settings.master_key_file and (path := master_key_path(settings)) and not path.exists():
        remedy = "put your copy of it back; a backup has it only with --with-key"
        return fail("master key", f"there is no key file {path}", remedy)
    try:
        key, rotation = reader.master_key, reader.read(master_key_rotation.current)
    except OnceboxError as error:
        return _failed("master key", error)
    if rotation is not None:
        message = f"{rotation.old_key_id} is being rotated to {rotation.new_key_id}"
        return warn("master key", message, "go on with: oncebox key rotate-master")
    return ok("master key", f"{key.id} fits this database")


def _check_sources(reader: Reader) -> list[Check]:
    """Find sources that accept no requests; variables are those of this environment."""
    try:
        entries = reader.sources().all(reader.settings.tenant)
    except OnceboxError as error:
        return [_failed("sources", error)]
    checks = [_check_source(reader, entry) for entry in entries if entry.troubles]
    return checks or [ok("sources", f"{len(entries)} without trouble")]


def _check_source(reader: Reader, entry: SourceEntry) -> Check:
    name = entry.source.name
    if all(each.is_missing_secret for each in entry.troubles) and _is_submitted(reader, name):
        return ok("source", f"{name} has no secret: it takes submitted events only")
    message = f"{name} is {entry.state}"
    if entry.ready:
        message = f"{message}, but not all of its secrets are known"
    return warn("source", message, entry.note)


def _is_submitted(reader: Reader, source: str) -> bool:
    """Say whether the newest delivery of a source was submitted, and did not come as a webhook."""
    newest = reader.read(inspections.newest, reader.settings.tenant, source=source, most=1)
    return bool(newest) and newest[0].road != WEBHOOK_CHANNEL


def _check_deliveries(tx: Transaction, tenant: str, now: int) -> list[Check]:
    """Find overdue work and work that needs an operator."""
    overdue = [
        (source, *inspections.overdue(tx, tenant, source, now - _MAX_OVERDUE))
        for source in inspections.sources(tx, tenant)
    ]
    checks = [
        warn(
            "waiting work",
            f"{count} of source {source} overdue by up to {duration(now - since)}",
            f"run a worker with a handler for {source}: oncebox worker module:box",
        )
        for source, count, since in overdue
        if since is not None
    ]
    counts = inspections.count_dead_and_held(tx, tenant)
    unknown = actions.newest(tx, tenant, state=ActionState.UNKNOWN, most=_MAX_COUNTED)
    held = "oncebox delivery list --state held"
    return [
        *(checks or [ok("waiting work", "none is overdue")]),
        _expect_none("dead deliveries", counts.get("dead", 0), "oncebox dead list"),
        _expect_none("held deliveries", counts.get("held", 0), held),
        _expect_none("held actions", len(unknown), "oncebox action list"),
    ]


def _check_sends(tx: Transaction, tenant: str, now: int) -> list[Check]:
    """Find sends that need an operator, and transports that do not send."""
    overdue = [
        warn(
            "waiting sends",
            f"mail of transport {each.name} is overdue by more than a minute",
            "run: oncebox serve, or oncebox worker",
        )
        for each in transports.with_due_sends(tx, now - _MAX_OVERDUE)
        if each.tenant == tenant
    ]
    unknown = sends.list_unknown(tx, tenant, most=_MAX_COUNTED)
    return [
        *_check_transports(transports.of_tenant(tx, tenant), now),
        *_check_failover(transports.of_tenant(tx, tenant), transports.signing_domains(tx, tenant)),
        *overdue,
        _expect_none("unknown sends", len(unknown), "oncebox send list --state unknown"),
    ]


def _check_mailboxes(tx: Transaction, tenant: str, now: int) -> list[Check]:
    """Find mailboxes that are not read."""
    found = mailboxes.of_tenant(tx, tenant)
    checks = [check for each in found if (check := _check_mailbox(each, now))]
    return checks or [ok("mailboxes", f"{len(found)} without trouble")]


def _check_mailbox(mailbox: Mailbox, now: int) -> Check | None:
    state, failure = mailbox.state(now), mailbox.failure
    if state not in {"failing", "paused"}:
        return None
    resume = f"oncebox mailbox resume {mailbox.name}"
    if mailbox.paused == PAUSED_BY_OPERATOR:
        return warn("mailbox", f"{mailbox.name} is paused by an operator", resume)
    code = mailbox.paused or failure or ""
    helps = REMEDIES.get(code, f"see: oncebox mailbox test {mailbox.name}").replace("`", "")
    return warn("mailbox", f"{mailbox.name} is {state}: {code}", f"{helps}; then: {resume}")


def _check_transports(configured: Sequence[ConfiguredTransport], now: int) -> list[Check]:
    if not configured:
        return [ok("transports", "none: mail would be stored and not sent")]
    if all(each.kind == LOG_TRANSPORT for each in configured):
        message = "there is only log: mail is stored and not sent"
        return [warn("transports", message, "add one: oncebox transport add")]
    checks = [check for each in configured if (check := _check_transport(each, now))]
    return checks or [ok("transports", f"{len(configured)} without trouble")]


def _check_failover(
    configured: Sequence[ConfiguredTransport], signs: Mapping[str, Sequence[str]]
) -> list[Check]:
    """Find transports that nothing takes over from, and keys that others of a group lack."""
    sending = [each for each in configured if each.kind != LOG_TRANSPORT]
    groups: dict[str, list[ConfiguredTransport]] = {}
    for each in sending:
        groups.setdefault(each.failover_group, []).append(each)
    checks: list[Check] = []
    alone = groups.pop("", [])
    if len(sending) > 1 and alone:
        names = ", ".join(each.name for each in alone)
        checks.append(ok("failover", f"none for {names}: their mail waits if they fail"))
    for group, members in groups.items():
        if len(members) == 1:
            message = f"group {group} has only {members[0].name}: nothing takes over from it"
            checks.append(warn("failover", message, _ADD_TO_GROUP.format(group)))
        else:
            names = ", ".join(each.name for each in members)
            message = f"group {group}: {names}; the next takes over from one that fails"
            checks.append(ok("failover", message))
        checks += [
            warn(
                "failover",
                f"{each.name} has no DKIM key for {domain}, so it does not take over its mail",
                f"oncebox transport change {each.name} --dkim {domain}/SELECTOR=file:PATH",
            )
            for each in members
            if each.kind == "smtp"
            for domain in sorted({d for one in members for d in signs.get(one.name, ())})
            if domain not in signs.get(each.name, ())
        ]
    return checks


_ADD_TO_GROUP = "oncebox transport change NAME --failover-group {}"


def _check_transport(transport: ConfiguredTransport, now: int) -> Check | None:
    name = transport.name
    if transport.paused:
        return warn("transport", f"{name} is paused", "oncebox transport resume")
    if transport.state(now) != "resting" or transport.rests_until is None:
        return None
    again = ago(transport.rests_until, now)
    message = f"{name} is suspended after {transport.failures} failures and tried again {again}"
    return warn("transport", message, f"see: oncebox transport test {name}")


def _expect_none(name: str, count: int, command: str) -> Check:
    return warn(name, str(count), f"see: {command}") if count else ok(name, "0")


def _failed(name: str, error: OnceboxError) -> Check:
    return fail(name, error.code, str(error))
