"""Mailboxes: configuration, leases, failures; pages of mail stored together with their cursor.

See docs/decisions/0052-use-leased-mailboxes-and-cursors-that-commit-with-their-mail.md.
"""

import hashlib
from collections.abc import Collection, Sequence
from typing import NamedTuple

import msgspec

from oncebox.core import faults
from oncebox.db.database import Row, Transaction, Value
from oncebox.db.queries import Query, load
from oncebox.errors import LeaseLost, NotFound, StateConflict
from oncebox.ledger.admin import audit
from oncebox.ledger.deliveries.deduplication import accept
from oncebox.ledger.events import event_log
from oncebox.model.deliveries.delivery import ArrivalKind, NewDelivery
from oncebox.model.events import EventType, NewEvent
from oncebox.model.mailboxes.mailbox import (
    TRIES_BEFORE_PAUSE,
    Mailbox,
    MailboxFigures,
    MailboxKind,
    MailboxLease,
    MailboxOrigin,
    MailboxProgress,
    NewMailbox,
    PageCounts,
)

_sql = load(__package__, "mailboxes.sql")

_DIGEST_BYTES = 16
_FIELDS = tuple(name for name in Mailbox.__struct_fields__ if name != "figures")


# configuration


def add(tx: Transaction, id_: str, new: NewMailbox, entry: audit.AuditEntry) -> Mailbox:
    """Store a new mailbox; it is read at once.

    Raises: StateConflict.
    """
    if not tx.run(_sql.add, id=id_, now=entry.at, **_params(new, entry)):
        raise StateConflict(
            "there is a mailbox of that name; choose another, or change it with: "
            "oncebox mailbox change"
        )
    audit.record(tx, entry, "mailbox add", f"mailbox:{new.name}", new.kind)
    return get(tx, entry.tenant, new.name)


def change(
    tx: Transaction,
    new: NewMailbox,
    entry: audit.AuditEntry,
    *,
    seen: int,
    moved: bool = False,
) -> Mailbox:
    """Replace the configuration; ``seen`` is the time of the last change the caller knows.

    ``moved`` says that it is another account: its mail is read from the beginning.

    Raises: NotFound, StateConflict, if it was changed since.
    """
    params = {**_params(new, entry), "moved": int(moved)}
    if not tx.run(_sql.change, now=entry.at, seen=seen, **params):
        get(tx, entry.tenant, new.name)
        raise StateConflict("this mailbox has just been changed by somebody else; try again")
    audit.record(tx, entry, "mailbox change", f"mailbox:{new.name}", new.kind)
    changed = get(tx, entry.tenant, new.name)
    if moved:
        tx.run(_sql.forget_mails, mailbox_id=changed.id)
    return changed


def pause(tx: Transaction, name: str, entry: audit.AuditEntry) -> Mailbox:
    """Stop reading a mailbox; a page that is being read is not stored.

    Raises: NotFound.
    """
    return _operate(tx, _sql.pause, "mailbox pause", name, entry)


def resume(tx: Transaction, name: str, entry: audit.AuditEntry) -> Mailbox:
    """Read a mailbox at once, after a pause or a failure.

    Raises: NotFound.
    """
    return _operate(tx, _sql.resume, "mailbox resume", name, entry)


def resync(tx: Transaction, name: str, entry: audit.AuditEntry) -> Mailbox:
    """Read a mailbox from its beginning; mails that were stored are recognised.

    Raises: NotFound.
    """
    return _operate(tx, _sql.resync, "mailbox resync", name, entry)


def remove(tx: Transaction, name: str, entry: audit.AuditEntry) -> None:
    """Forget a mailbox; its messages stay.

    Raises: NotFound.
    """
    row = tx.one(_sql.remove, tenant=entry.tenant, name=name)
    if row is None:
        raise _missing()
    tx.run(_sql.forget_mails, mailbox_id=row[0])
    audit.record(tx, entry, "mailbox remove", f"mailbox:{name}")


def get(tx: Transaction, tenant: str, name: str) -> Mailbox:
    """Return one mailbox.

    Raises: NotFound.
    """
    found = find(tx, tenant, name)
    if found is None:
        raise _missing()
    return found


def find(tx: Transaction, tenant: str, name: str) -> Mailbox | None:
    """Return one mailbox, if there is one of that name."""
    row = tx.one(_sql.one, tenant=tenant, name=name)
    return None if row is None else _to_mailbox(row)


def require_inbox(tx: Transaction, tenant: str, inbox_id: str) -> None:
    """Check that a tenant has an inbox.

    Raises: NotFound.
    """
    if tx.one(_sql.inbox, tenant=tenant, inbox_id=inbox_id) is None:
        raise NotFound("there is no such inbox; list them with: oncebox inbox list")


def of_tenant(tx: Transaction, tenant: str, *, after: str = "", most: int = 1_000) -> list[Mailbox]:
    """Return the mailboxes of a tenant, by name."""
    return [
        _to_mailbox(row) for row in tx.all(_sql.of_tenant, tenant=tenant, after=after, most=most)
    ]


def read_progress(tx: Transaction, most: int = 10_000) -> list[MailboxProgress]:
    """Return how far the reading of the mailboxes of all tenants is."""
    names = MailboxProgress.__struct_fields__
    rows = tx.all(_sql.progress, most=most)
    found = [dict(zip(names, row, strict=True)) for row in rows]
    return msgspec.convert(found, list[MailboxProgress])


def _operate(
    tx: Transaction, query: Query, action: str, name: str, entry: audit.AuditEntry
) -> Mailbox:
    if not tx.run(query, tenant=entry.tenant, name=name, now=entry.at):
        raise _missing()
    audit.record(tx, entry, action, f"mailbox:{name}")
    return get(tx, entry.tenant, name)


def _params(new: NewMailbox, entry: audit.AuditEntry) -> dict[str, Value]:
    values: dict[str, Value] = msgspec.structs.asdict(new)
    return {**values, "kind": new.kind.value, "origin": new.origin.value, "tenant": entry.tenant}


def _missing() -> NotFound:
    return NotFound("there is no such mailbox; list them with: oncebox mailbox list")


def _to_mailbox(row: Row) -> Mailbox:
    count = len(_FIELDS)
    values = dict(zip(_FIELDS, row[:count], strict=True))
    values |= {
        "kind": MailboxKind(values["kind"]),
        "config": bytes(values["config"]),
        "origin": MailboxOrigin(values["origin"]),
    }
    figures = dict(zip(MailboxFigures.__struct_fields__, row[count:], strict=True))
    return Mailbox(**values, figures=MailboxFigures(**figures))


# leases


def claim(
    tx: Transaction,
    worker: str,
    lease: int,
    most: int,
    now: int,
    declared: Collection[tuple[str, str]] = (),
) -> list[Mailbox]:
    """Lease up to ``most`` due mailboxes of all tenants to a worker, for so many milliseconds.

    Of those that settings declare, only ``declared`` ones, by tenant and name: a mailbox that was
    taken out of the settings is read no more.
    """
    due = tx.all(_sql.due, now=now, most=most)
    if declared:
        due = [*due, *tx.many(_sql.due_declared, sorted(declared), now=now)]
    rows = tx.many(_sql.lease, sorted(due[:most]), worker=worker, now=now, until=now + lease)
    return [_to_mailbox(row) for row in rows]


def renew(tx: Transaction, held: Sequence[MailboxLease], until: int) -> set[MailboxLease]:
    """Extend leases; return those that are still held."""
    rows = sorted((each.id, each.tenant, each.fence) for each in held)
    renewed = set(tx.many(_sql.renew, rows, until=until))
    return {each for each in held if (each.id, each.fence) in renewed}


def release(tx: Transaction, held: Sequence[tuple[MailboxLease, int]]) -> None:
    """Give leases back; each mailbox is due at its time."""
    rows = sorted((each.id, each.tenant, each.fence, due_at) for each, due_at in held)
    tx.run_many(_sql.release, rows)


class MailboxFailed(NamedTuple):
    """One failure of a server, and what follows."""

    code: str
    #: when to try again
    due_at: int
    #: an operator must fix it: the mailbox is paused after a few in a row
    refused: bool
    event_id: str


def fail(tx: Transaction, lease: MailboxLease, failed: MailboxFailed, now: int) -> bool:
    """Count a failure and give the lease back; return whether the mailbox is paused now.

    A pause is an event.

    Raises: LeaseLost.
    """
    row = tx.one(
        _sql.fail,
        id=lease.id,
        tenant=lease.tenant,
        fence=lease.fence,
        code=failed.code,
        due_at=failed.due_at,
        refused=int(failed.refused),
        most=TRIES_BEFORE_PAUSE,
        now=now,
    )
    if row is None:
        raise LeaseLost
    name, kind, inbox_id, paused = row
    if paused is not None:
        event = NewEvent(
            id=failed.event_id,
            tenant=lease.tenant,
            type=EventType.MAILBOX_PAUSED,
            inbox_id=inbox_id,
            subject_id=lease.id,
            at=now,
            data={"mailbox": name, "kind": kind, "code": failed.code},
        )
        event_log.record(tx, [event])
    return paused is not None


# tokens


def store_config(tx: Transaction, lease: MailboxLease, config: bytes, now: int) -> None:
    """Store the encrypted configuration with a new token; only the holder of the lease may.

    Raises: LeaseLost.
    """
    holder = {"id": lease.id, "tenant": lease.tenant}
    if not tx.run(_sql.store_config, **holder, fence=lease.fence, config=config, now=now):
        raise LeaseLost


def replace_config(tx: Transaction, known: Mailbox, config: bytes, now: int) -> None:
    """Store the encrypted configuration with a new token, unless it was changed since.

    Whoever reads the mailbox begins again with the new token.

    Raises: StateConflict.
    """
    row = {"tenant": known.tenant, "name": known.name}
    if not tx.run(_sql.replace_config, **row, seen=known.changed_at, config=config, now=now):
        raise StateConflict("this mailbox has just been changed by somebody else; try again")


# pushes


def note_push(tx: Transaction, tenant: str, source: str, now: int) -> None:
    """Note that a webhook source brought mail, so that its mailboxes are not polled meanwhile."""
    tx.run(_sql.push, tenant=tenant, source=source, now=now)


def pushed_at(tx: Transaction, lease: MailboxLease) -> int | None:
    """Return when a webhook last brought mail of a mailbox.

    Raises: LeaseLost.
    """
    row = tx.one(_sql.pushed, id=lease.id, tenant=lease.tenant, fence=lease.fence)
    if row is None:
        raise LeaseLost
    found: int | None = row[0]
    return found


# pages


class MailToStore(NamedTuple):
    """One mail of a page, with a delivery for each of its inboxes."""

    #: the server's id
    provider_id: str
    deliveries: tuple[NewDelivery, ...]


class PageToStore(NamedTuple):
    """The mails after a cursor, and the cursor after them."""

    #: the version of the cursor that the page continues
    version: int
    cursor: str
    mails: Sequence[MailToStore] = ()
    counts: PageCounts = PageCounts()


class StoredPage(NamedTuple):
    """What became of a page."""

    cursor_version: int
    #: mails that are new in at least one inbox
    new: int = 0
    #: mails that all their inboxes have, by another channel
    duplicates: int = 0
    #: mails that this mailbox gave before
    replays: int = 0
    #: milliseconds from the first poll of a program to its first message, if that is among these
    first_after: int | None = None


def store_page(tx: Transaction, lease: MailboxLease, page: PageToStore, now: int) -> StoredPage:
    """Store the mails of a page and its cursor in one commit; only the holder of the lease may.

    A repeat, after a commit whose answer was lost, changes nothing.

    Raises: LeaseLost.
    """
    counts = page.counts
    advanced = tx.one(
        _sql.advance,
        id=lease.id,
        tenant=lease.tenant,
        fence=lease.fence,
        version=page.version,
        cursor=page.cursor,
        now=now,
        remaining=counts.remaining,
        skipped=counts.skipped,
        unrouted=counts.unrouted,
        resyncs=int(counts.resync),
        polls=counts.polls,
        repeated=counts.repeated,
    )
    if advanced is None:
        return _stored_before(tx, lease, page)
    faults.point("mailboxes.cursor-written")
    stored = _store_mails(tx, lease, page.mails, now)
    faults.point("mailboxes.mails-written")
    return stored._replace(cursor_version=int(advanced[0]))


def _stored_before(tx: Transaction, lease: MailboxLease, page: PageToStore) -> StoredPage:
    row = tx.one(_sql.position, id=lease.id, tenant=lease.tenant)
    if row != (lease.fence, page.version + 1, page.cursor):
        raise LeaseLost
    return StoredPage(page.version + 1)


def _store_mails(
    tx: Transaction, lease: MailboxLease, mails: Sequence[MailToStore], now: int
) -> StoredPage:
    by_digest = {_digest(each.provider_id): each for each in mails}
    keys = sorted((lease.id, digest) for digest in by_digest)
    known = {bytes(row[0]) for row in tx.many(_sql.known, keys)} if keys else set()
    unknown = {digest: each for digest, each in by_digest.items() if digest not in known}
    every = [delivery for each in unknown.values() for delivery in each.deliveries]
    arrivals = (
        {
            delivery.id: answer.arrival
            for delivery, answer in zip(every, accept(tx, every, now, look_first=True), strict=True)
        }
        if every
        else {}
    )
    # Mail for nobody is left alone: a resync reads it when it has an inbox.
    kept = sorted((lease.id, digest, now) for digest, each in unknown.items() if each.deliveries)
    tx.run_many(_sql.record, kept)
    routed = [each.deliveries for each in unknown.values() if each.deliveries]
    new = sum(any(arrivals[one.id] is ArrivalKind.NEW for one in each) for each in routed)
    stored = StoredPage(0, new=new, duplicates=len(routed) - new, replays=len(mails) - len(unknown))
    if mails:
        tx.run(
            _sql.count,
            id=lease.id,
            tenant=lease.tenant,
            messages=stored.new,
            duplicates=stored.duplicates,
            replays=stored.replays,
            now=now,
        )
    return stored


def _digest(provider_id: str) -> bytes:
    text = provider_id.encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).digest()[:_DIGEST_BYTES]
