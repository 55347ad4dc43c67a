"""Mailbox worker: leases mailboxes, reads each in a task of its own, stores pages with cursors.

See docs/decisions/0052-use-leased-mailboxes-and-cursors-that-commit-with-their-mail.md.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from oncebox.core import faults, ids
from oncebox.core.metrics import Telemetry
from oncebox.errors import LeaseLost, OnceboxError, StoreError
from oncebox.ledger.mailboxes import mailboxes
from oncebox.ledger.mailboxes.mailboxes import (
    MailboxFailed,
    MailToStore,
    PageToStore,
    StoredPage,
)
from oncebox.ledger.notifications import DUE, EVENTS, MAIL, MAILBOXES
from oncebox.ledger.transactions import Ledger
from oncebox.mailboxes.reader import (
    FetchedMail,
    MailboxFailure,
    MailboxPage,
    MailboxReader,
    PageLimits,
)
from oncebox.model.deliveries.delivery import NewDelivery
from oncebox.model.mailboxes.mailbox import (
    Mailbox,
    MailboxLease,
    PageCounts,
    backoff,
)
from oncebox.settings import MailboxWorkerSettings
from oncebox.workers.lease_renewal import RELEASE_WITHIN, renew_periodically

#: mailboxes that one claim takes, so that other processes get some too
_MOST_PER_CLAIM = 20
#: pages without mail and without progress after which a server is not believed
_MOST_EMPTY_PAGES = 3
#: milliseconds after which a mailbox is polled although its webhook brings mail
_LONGEST_WITHOUT_POLL = 900_000


class OpenReader(Protocol):
    """Opens the reader of a mailbox from its encrypted configuration."""

    def __call__(self, mailbox: Mailbox) -> MailboxReader:
        """Return a reader, which connects when it is first used.

        Raises: ConfigInvalid, MasterKeyWrong.
        """


class RouteMails(Protocol):
    """Finds the inboxes of mails."""

    async def __call__(
        self, mailbox: Mailbox, mails: Sequence[FetchedMail]
    ) -> list[tuple[NewDelivery, ...]]:
        """Return the deliveries of each mail; none if it is for no inbox of ours.

        Raises: MailboxFailure, StoreUnavailable.
        """


#: stores the mailboxes of the settings; returns tenant and name of those that may be claimed;
#: raises StoreError
DeclareMailboxes = Callable[[], Awaitable[Collection[tuple[str, str]]]]


async def _declare_nothing() -> Collection[tuple[str, str]]:
    return ()


@dataclass(slots=True, eq=False)
class _Reading:
    """A mailbox that this process reads."""

    mailbox: Mailbox
    lease: MailboxLease
    #: consecutive ones
    failures: int
    task: asyncio.Task[None] | None = field(default=None, repr=False)


class _Pages:
    """The pages of a reader; while one is stored, the next one is fetched.

    A page that is not stored is dropped: its cursor gives it again.
    """

    def __init__(self, reader: MailboxReader, limits: PageLimits) -> None:
        self.reader = reader
        self._limits = limits
        self._ahead: asyncio.Task[MailboxPage] | None = None

    async def fetch(self, cursor: str | None) -> MailboxPage:
        """Return the page after a cursor; it may be the one that is fetched ahead.

        Raises: MailboxFailure.
        """
        ahead, self._ahead = self._ahead, None
        return await (ahead or self.reader.fetch(cursor, self._limits))

    def fetch_ahead(self, cursor: str) -> None:
        """Begin to fetch the page after a cursor, for the next ``fetch``."""
        self._ahead = asyncio.ensure_future(self.reader.fetch(cursor, self._limits))

    async def close(self) -> None:
        """Drop the page that is fetched ahead; calls of a reader never overlap."""
        if self._ahead is not None:
            self._ahead.cancel()
            await asyncio.gather(self._ahead, return_exceptions=True)


class MailboxWorker:
    """Reads the mailboxes that it has leased, any number at the same time."""

    def __init__(  # noqa: PLR0913 - its collaborators
        self,
        ledger: Ledger,
        open_reader: OpenReader,
        route: RouteMails,
        telemetry: Telemetry,
        settings: MailboxWorkerSettings,
        *,
        name: str,
        random: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        declare: DeclareMailboxes | None = None,
    ) -> None:
        """Claim under ``name``; ``random`` returns a number between 0 and 1."""
        self._ledger = ledger
        self._open_reader = open_reader
        self._route = route
        self._telemetry = telemetry
        self._settings = settings
        self._name = name
        self._random = random
        self._sleep = sleep
        self._declare = declare or _declare_nothing
        self._lease = int(settings.lease * 1000)
        self._limits = PageLimits(
            mails=settings.page, mail_bytes=settings.mail_bytes, within=settings.within
        )
        self._reading: dict[str, _Reading] = {}
        self._stopping = asyncio.Event()
        self._due = ledger.subscribe(MAILBOXES)

    def stop(self) -> None:
        """Ask to give the mailboxes back and end."""
        self._stopping.set()

    async def run(self) -> None:
        """Read mailboxes until ``stop``."""
        renewing = asyncio.create_task(
            renew_periodically(self._renew, self._settings.lease, self._telemetry)
        )
        stopped = asyncio.create_task(self._stopping.wait())
        try:
            while not self._stopping.is_set():
                await self._claim()
                due = asyncio.create_task(self._due.wait(self._settings.poll))
                await asyncio.wait({stopped, due}, return_when=asyncio.FIRST_COMPLETED)
                due.cancel()
        finally:
            stopped.cancel()
            await self._give_back()
            renewing.cancel()

    # leases

    async def _claim(self) -> None:
        room = self._settings.most - len(self._reading)
        while room > 0:
            most = min(room, _MOST_PER_CLAIM)
            try:
                declared, now = await self._declare(), self._ledger.clock()
                found = await self._ledger.write(
                    mailboxes.claim, self._name, self._lease, most, now, declared
                )
            except StoreError as error:
                self._telemetry.count_store_error("mailboxes", error)
                return
            for mailbox in found:
                self._begin(mailbox)
            room -= len(found)
            if len(found) < most:
                return

    def _begin(self, mailbox: Mailbox) -> None:
        lease = MailboxLease(id=mailbox.id, tenant=mailbox.tenant, fence=mailbox.fence)
        before = self._reading.get(mailbox.id)
        if before is not None and before.task is not None:  # its lease ended here before
            before.task.cancel()
        reading = _Reading(mailbox, lease, mailbox.failures)
        self._reading[mailbox.id] = reading
        reading.task = asyncio.create_task(self._read(reading))
        self._telemetry.mailboxes_reading.set(len(self._reading))

    async def _renew(self) -> None:
        """Extend all leases in one statement; stop reading what is no longer ours."""
        held = {each.lease: each for each in self._reading.values()}
        if not held:
            return
        until = self._ledger.clock() + self._lease
        kept = await self._ledger.write(mailboxes.renew, list(held), until)
        for lease, reading in held.items():
            if lease not in kept and self._reading.get(lease.id) is reading:
                self._telemetry.mailbox_lease_conflicts.inc()
                if reading.task is not None:
                    reading.task.cancel()

    async def _give_back(self) -> None:
        every = list(self._reading.values())
        for each in every:
            if each.task is not None:
                each.task.cancel()
        await asyncio.gather(*(each.task for each in every if each.task), return_exceptions=True)
        now = self._ledger.clock()
        try:
            async with asyncio.timeout(RELEASE_WITHIN):
                await self._ledger.write(mailboxes.release, [(each.lease, now) for each in every])
        except (StoreError, TimeoutError):  # the leases expire
            pass
        self._ledger.notify(MAILBOXES)

    # reading

    async def _read(self, reading: _Reading) -> None:
        """Read one mailbox until its lease is lost or its server fails; others are not affected."""
        mailbox = reading.mailbox
        reader: MailboxReader | None = None
        try:
            reader = self._open_reader(mailbox)
            await self._read_pages(reader, reading)
        except LeaseLost:
            self._telemetry.mailbox_lease_conflicts.inc()
        except Exception as error:  # noqa: BLE001 - reported, and tried again
            await self._fail(reading, self._failure_of(error, mailbox))
        finally:
            if reader is not None:
                await _close_quietly(reader)
            if self._reading.get(mailbox.id) is reading:
                del self._reading[mailbox.id]
                self._telemetry.mailboxes_reading.set(len(self._reading))

    def _failure_of(self, error: Exception, mailbox: Mailbox) -> MailboxFailure:
        if isinstance(error, MailboxFailure):
            return error
        if isinstance(error, StoreError):
            self._telemetry.count_store_error("mailboxes", error)
            return MailboxFailure("store_unavailable")
        if isinstance(error, OnceboxError):  # the configuration cannot be used
            return MailboxFailure(error.code, needs_operator=True)
        self._telemetry.log.error(
            "mailbox_reader_failed", mailbox=mailbox.name, error=type(error).__name__
        )
        return MailboxFailure("reader_failed")

    async def _read_pages(self, reader: MailboxReader, reading: _Reading) -> None:
        pages = _Pages(reader, self._limits)
        try:
            await self._store_pages(pages, reading)
        finally:
            await pages.close()

    async def _store_pages(self, pages: "_Pages", reading: _Reading) -> None:
        mailbox, lease = reading.mailbox, reading.lease
        cursor, version = mailbox.cursor, mailbox.cursor_version
        empty = 0
        while True:
            if mailbox.push_source is not None:
                await self._wait_for_silence(mailbox, lease)
            self._telemetry.mailbox_polls.labels(mailbox.kind).inc()
            page = await pages.fetch(cursor)
            faults.point("mailboxes.fetched")
            empty = empty + 1 if _is_stuck(page, cursor) else 0
            if empty >= _MOST_EMPTY_PAGES:
                raise MailboxFailure("no_progress")
            if page.has_more and mailbox.push_source is None:
                pages.fetch_ahead(page.cursor)
            stored = await self._store(mailbox, lease, version, page)
            faults.point("mailboxes.stored")
            reading.failures = 0
            cursor, version = page.cursor, stored.cursor_version
            if not page.has_more:
                await pages.reader.wait(mailbox.poll_every / 1000)

    async def _store(
        self, mailbox: Mailbox, lease: MailboxLease, version: int, page: MailboxPage
    ) -> StoredPage:
        mails, unrouted = await self._routed(mailbox, page.mails)
        counts = PageCounts(
            skipped=len(page.skipped),
            unrouted=unrouted,
            # The first page of all is none; the first one after a resync is.
            resync=page.resync is not None and (page.resync != "first" or version > 0),
            remaining=page.remaining,
        )
        to_store = PageToStore(version, page.cursor, mails, counts)
        now = self._ledger.clock()
        stored = await self._ledger.retrying().write(mailboxes.store_page, lease, to_store, now)
        if stored.new:
            self._ledger.notify(MAIL, DUE)
        self._count(mailbox, page, stored, unrouted)
        return stored

    async def _routed(
        self, mailbox: Mailbox, mails: Sequence[FetchedMail]
    ) -> tuple[list[MailToStore], int]:
        """Return the mails with their deliveries, and how many are for no inbox of ours."""
        routed = await self._route(mailbox, mails)
        stored = [
            MailToStore(mail.provider_id, deliveries)
            for mail, deliveries in zip(mails, routed, strict=True)
        ]
        return stored, sum(not each for each in routed)

    async def _wait_for_silence(self, mailbox: Mailbox, lease: MailboxLease) -> None:
        """Wait until the webhook source has been silent for ``poll_after``, but not for ever.

        A webhook that is busy may have lost some mail all the same.
        """
        longest = self._ledger.clock() + max(mailbox.poll_after, _LONGEST_WITHOUT_POLL)
        while True:
            last = await self._ledger.retrying().read(mailboxes.pushed_at, lease)
            silent = 0 if last is None else last + mailbox.poll_after
            waits = min(silent, longest) - self._ledger.clock()
            if waits <= 0:
                return
            await self._sleep(waits / 1000)

    async def _fail(self, reading: _Reading, failure: MailboxFailure) -> None:
        now, failures = self._ledger.clock(), reading.failures + 1
        mailbox, lease = reading.mailbox, reading.lease
        waits = backoff(failures, failure.retry_after, self._random)
        failed = MailboxFailed(failure.code, now + waits, failure.needs_operator, ids.new("evt"))
        self._telemetry.mailbox_failures.labels(mailbox.kind).inc()
        if failure.code.endswith("timed_out"):
            self._telemetry.mailbox_timeouts.labels(mailbox.kind).inc()
        try:
            paused = await self._ledger.write(mailboxes.fail, lease, failed, now)
        except LeaseLost:
            self._telemetry.mailbox_lease_conflicts.inc()
            return
        except StoreError as error:  # the lease expires
            self._telemetry.count_store_error("mailboxes", error)
            return
        if paused:
            self._ledger.notify(EVENTS)
        self._telemetry.log.warning(
            "mailbox_paused" if paused else "mailbox_failed",
            mailbox=mailbox.name,
            tenant=mailbox.tenant,
            kind=str(mailbox.kind),
            code=failure.code,
            failures=failures,
            next_try_in=None if paused else waits / 1000,
            cursor_version=mailbox.cursor_version,
        )

    def _count(
        self, mailbox: Mailbox, page: MailboxPage, stored: StoredPage, unrouted: int
    ) -> None:
        telemetry, kind = self._telemetry, mailbox.kind
        telemetry.mailbox_mails.labels(kind, "new").inc(stored.new)
        telemetry.mailbox_mails.labels(kind, "duplicate").inc(stored.duplicates)
        telemetry.mailbox_mails.labels(kind, "skipped").inc(len(page.skipped))
        telemetry.mailbox_mails.labels(kind, "unrouted").inc(unrouted)
        if stored.replays:
            telemetry.cursor_replays.labels("mailboxes").inc(stored.replays)
        if mailbox.failures and stored.cursor_version == mailbox.cursor_version + 1:
            telemetry.log.info(
                "mailbox_recovered",
                mailbox=mailbox.name,
                tenant=mailbox.tenant,
                failures=mailbox.failures,
                cursor_version=stored.cursor_version,
            )
        if page.resync is not None:
            telemetry.log.info(
                "mailbox_resync",
                mailbox=mailbox.name,
                reason=str(page.resync),
                cursor_version=stored.cursor_version,
            )


def _is_stuck(page: MailboxPage, cursor: str | None) -> bool:
    """Say whether a page promises more and leads nowhere."""
    return page.has_more and (page.cursor == cursor or not (page.mails or page.skipped))


async def _close_quietly(reader: MailboxReader) -> None:
    try:
        await reader.close()
    except (MailboxFailure, OSError):
        return
