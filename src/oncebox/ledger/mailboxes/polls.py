"""Mailboxes that a program polls: the lease of its loop, pages, messages, failures.

A message that was listed is a delivery of the source with the mailbox's name. It is stored in the
commit of the cursor after it, and claimed and settled like any other delivery.
See docs/decisions/0055-use-deliveries-and-a-leased-mailbox-for-polling-programs.md.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from oncebox.core import ids
from oncebox.db.database import Transaction
from oncebox.db.queries import load
from oncebox.errors import LeaseLost, StateConflict
from oncebox.ledger.admin import audit
from oncebox.ledger.deliveries import leases, pull
from oncebox.ledger.mailboxes import mailboxes
from oncebox.ledger.mailboxes.mailboxes import (
    MailboxFailed,
    MailToStore,
    PageToStore,
    StoredPage,
)
from oncebox.model.deliveries.delivery import NewDelivery
from oncebox.model.mailboxes.mailbox import MailboxKind, MailboxLease, PageCounts, backoff

_sql = load(__package__, "polls.sql")

#: what a list of mailboxes shows instead of a server
_ACCOUNT = "a program"


class PollRequest(NamedTuple):
    """A program's request for the lease of a mailbox."""

    name: str
    #: unique to one loop: a repeat gets the same lease
    worker: str
    #: milliseconds
    lease: int
    #: this loop was refused, and counted, before
    counted: bool = False


class PollGrant(NamedTuple):
    """The lease of a mailbox, and where its list continues."""

    fence: int
    #: JSON; none before the first page
    cursor: str | None
    cursor_version: int


class PollRefused(NamedTuple):
    """Why a mailbox cannot be polled now."""

    #: another loop has it, the API failed a moment ago, or an operator paused it
    status: Literal["in_use", "backoff", "paused"]
    #: milliseconds until the lease or the wait ends; 0 if nobody knows
    retry_in: int = 0


class PollHolder(NamedTuple):
    """The loop that has a mailbox; every write carries its fence."""

    tenant: str
    name: str
    fence: int


class _Held(NamedTuple):
    """A mailbox whose lease the caller has."""

    lease: MailboxLease
    #: consecutive ones
    failures: int
    #: stored until now
    messages: int
    created_at: int


class PolledPage(NamedTuple):
    """Messages that a program listed, and the cursor after them."""

    #: the version of the cursor that the page continues
    version: int
    #: JSON
    cursor: str
    messages: Sequence[NewDelivery] = ()
    #: messages that the program itself recognised
    repeated: int = 0
    #: 0 for all parts of a page but the last
    polls: int = 1


class PollFailed(NamedTuple):
    """One failure of a program's list function."""

    code: str
    #: what the API asked for, in seconds
    retry_after: float | None = None


def begin(
    tx: Transaction, request: PollRequest, new_id: str, entry: audit.AuditEntry
) -> PollGrant | PollRefused:
    """Lease a mailbox to one loop; the first one makes it.

    Raises: StateConflict, if the service reads this mailbox.
    """
    name = {"tenant": entry.tenant, "name": request.name}
    if tx.run(_sql.create, id=new_id, **name, account=_ACCOUNT, config=b"", now=entry.at):
        audit.record(tx, entry, "mailbox add", f"mailbox:{request.name}", MailboxKind.PROGRAM)
    until = entry.at + request.lease
    row = tx.one(_sql.begin, **name, worker=request.worker, now=entry.at, until=until)
    if row is not None:
        leases.announce_handlers(tx, [(entry.tenant, request.name)], entry.at)
        return PollGrant(*row)
    refused = refusal(tx, entry.tenant, request.name, entry.at) or PollRefused("backoff")
    if refused.status == "in_use" and not request.counted:
        tx.run(_sql.conflict, **name)
    return refused


def refusal(tx: Transaction, tenant: str, name: str, now: int) -> PollRefused | None:
    """Return why a mailbox cannot be polled now; None if it can.

    Raises: StateConflict, if the service reads this mailbox.
    """
    row = tx.one(_sql.standing, tenant=tenant, name=name)
    if row is None:
        return None
    kind, paused, worker, due_at = row
    if kind != MailboxKind.PROGRAM:
        raise StateConflict(
            "the service reads this mailbox itself; choose another name for what your program polls"
        )
    if paused is not None:
        return PollRefused("paused")
    if due_at <= now:
        return None
    return PollRefused("backoff" if worker is None else "in_use", due_at - now)


def store(tx: Transaction, holder: PollHolder, page: PolledPage, now: int) -> StoredPage:
    """Store the messages of a page and its cursor in one commit; a repeat changes nothing.

    Raises: LeaseLost, NotFound.
    """
    held = _held(tx, holder)
    mails = [MailToStore(each.key, (each,)) for each in page.messages]
    counts = PageCounts(polls=page.polls, repeated=page.repeated)
    to_store = PageToStore(page.version, page.cursor, mails, counts)
    stored = mailboxes.store_page(tx, held.lease, to_store, now)
    if stored.new and not held.messages:
        stored = stored._replace(first_after=now - held.created_at)
    if stored.new:
        # In the past, so that each is due; rows that were known are not there, or not new.
        begins = now - len(page.messages)
        order = [(each.id, begins + place) for place, each in enumerate(page.messages)]
        tx.run_many(_sql.arrange, sorted(order))
    return stored


def claim(
    tx: Transaction, holder: PollHolder, request: pull.ClaimRequest, lease: int, now: int
) -> pull.PulledDeliveries:
    """Lease the next message, and the mailbox for as long; a repeat gets the same message.

    Raises: LeaseLost, NotFound, RequestKeyReused.
    """
    _renew(tx, holder, now + lease)
    return pull.claim(tx, request, now)


def renew(tx: Transaction, holder: PollHolder, message: pull.LeaseRef | None, until: int) -> None:
    """Extend the lease of a mailbox, and that of the message that is being handled.

    Raises: LeaseLost, NotFound, if the mailbox is no longer held.
    """
    _renew(tx, holder, until)
    if message is not None:
        leases.renew(tx, [(message.id, message.fence)], until)


def fail(
    tx: Transaction, holder: PollHolder, failed: PollFailed, random: Callable[[], float], now: int
) -> int:
    """Count a failure and give the lease back; return when the mailbox may be polled again.

    Raises: LeaseLost, NotFound.
    """
    held = _held(tx, holder)
    due_at = now + backoff(held.failures + 1, failed.retry_after, random)
    happened = MailboxFailed(failed.code, due_at, refused=False, event_id=ids.new("evt"))
    mailboxes.fail(tx, held.lease, happened, now)
    return due_at


def end(tx: Transaction, holder: PollHolder, *, timed_out: bool, now: int) -> None:
    """Give a lease back at the end of a loop; one that was lost or given back needs nothing.

    Raises: NotFound.
    """
    if not tx.run(_sql.end, **holder._asdict(), now=now, timeouts=int(timed_out)):
        mailboxes.get(tx, holder.tenant, holder.name)


def _renew(tx: Transaction, holder: PollHolder, until: int) -> None:
    if not tx.run(_sql.renew, **holder._asdict(), until=until):
        raise _lost(tx, holder)


def _held(tx: Transaction, holder: PollHolder) -> _Held:
    row = tx.one(_sql.holder, **holder._asdict())
    if row is None:
        raise _lost(tx, holder)
    lease = MailboxLease(id=row[0], tenant=holder.tenant, fence=holder.fence)
    return _Held(lease, *row[1:])


def _lost(tx: Transaction, holder: PollHolder) -> LeaseLost:
    """Return the error of a loop that has no lease.

    Raises: NotFound, if there is no such mailbox.
    """
    mailboxes.get(tx, holder.tenant, holder.name)
    return LeaseLost()
