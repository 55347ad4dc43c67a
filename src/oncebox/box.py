"""``Oncebox``: the ledger and its worker, embedded in a program of your own."""

import asyncio
import os
import platform
import random
from collections.abc import Callable, Iterable
from typing import Any, Self, TypeVar, Unpack

import msgspec

from oncebox import assembly, config, ids
from oncebox.assembly import Rooms, open_rooms
from oncebox.config import Settings
from oncebox.errors import OnceboxError
from oncebox.ledger.deliveries.rules import by_default
from oncebox.ledger.inboxes.claims import JudgeLink
from oncebox.ledger.sends.listening import Listening
from oncebox.ledger.sends.rounds import Rounds
from oncebox.model.asking import SendOptions
from oncebox.model.delivery import Accepted
from oncebox.model.email import Email
from oncebox.model.intent import Origin
from oncebox.model.source import Source
from oncebox.telemetry import Telemetry
from oncebox.wire.sends import SendAnswer
from oncebox.worker.authenticator import authenticator
from oncebox.worker.claims import Claims, of_handlers
from oncebox.worker.fail_open import FailOpen
from oncebox.worker.handlers import ANY_TYPE, Handlers
from oncebox.worker.loop import Worker
from oncebox.worker.mail import MailReader, Tenants
from oncebox.worker.parsers import Parsers
from oncebox.worker.perform import Performer
from oncebox.worker.postbox import Postbox
from oncebox.worker.send_evidence import EvidenceReader, Hearing, Unhandled
from oncebox.worker.sends import SendWorker
from oncebox.worker.sends_ways import Ways
from oncebox.worker.sequencer import Sequencer
from oncebox.worker.spool import Spool
from oncebox.worker.watchdog import Watchdog

F = TypeVar("F", bound=Callable[..., Any])


class Oncebox:
    """Accepts deliveries, and runs your handlers so that each has its effect once.

    Without an argument it opens the database that ``oncebox`` uses everywhere else.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        settings: Settings | None = None,
        migrate: bool | None = None,
    ) -> None:
        """Prepare; nothing is opened before ``async with``."""
        self.settings = settings or config.load(database_url=url)
        self.telemetry = Telemetry()
        self.handlers = Handlers(by_default(self.settings.retry))
        #: which links are let out, where not by the rules of the house; for tests
        self.judge_link: JudgeLink | None = None
        self._migrate = migrate
        self._rooms: Rooms | None = None
        self._working: list[asyncio.Task[None]] = []
        self._workers: list[Worker] = []
        self._senders: list[SendWorker] = []
        self._numbering: list[asyncio.Task[None]] = []

    def on(
        self,
        source: str,
        type: str = ANY_TYPE,  # noqa: A002 - the word users know
        *,
        limit: float | None = None,
    ) -> Callable[[F], F]:
        """Register a handler for a type of a source, or for all its types.

        Raises: HandlerTwice.
        """

        def register(function: F) -> F:
            self.handlers.add(source, type, function, limit)
            return function

        return register

    def policy(self, source: str) -> Callable[[F], F]:
        """Register what decides, after the claim, whether a delivery runs, is held or dropped.

        Raises: HandlerTwice.
        """

        def register(function: F) -> F:
            self.handlers.add_policy(source, function)
            return function

        return register

    def source(  # noqa: PLR0913 - a source simply has this many sides
        self,
        source: str,
        *,
        tries: int | None = None,
        budget: float | None = None,
        first_wait: float | None = None,
        longest_wait: float | None = None,
        redelivery: str = "rearm",
        rate: int | None = None,
        concurrency: int | None = None,
    ) -> None:
        """Set what is particular to a source; times are in seconds.

        ``rate`` bounds how many are begun per second, ``concurrency`` how many are worked on at
        the same time, by all workers together.

        Raises: ConfigInvalid.
        """
        retry = {
            "tries": tries,
            "budget": _milliseconds(budget),
            "first_wait": _milliseconds(first_wait),
            "longest_wait": _milliseconds(longest_wait),
        }
        self.handlers.set_rules(
            source, redelivery=redelivery, retry=retry, rate=rate, concurrency=concurrency
        )

    async def accept(
        self,
        source: str,
        *,
        key: str | None = None,
        body: bytes | str = b"",
        headers: Iterable[tuple[str, str]] = (),
        type: str = "",  # noqa: A002 - the word users know
        order_key: str | None = None,
    ) -> Accepted:
        """Store an arrival once. When this returns, it is on disk.

        Raises: InputRefused, StoreUnavailable.
        """
        return await self.rooms.intake.accept(
            source,
            key=key,
            body=body.encode() if isinstance(body, str) else body,
            headers=headers,
            type_=type,
            order_key=order_key,
            redelivery=self.handlers.rules(source).redelivery,
        )

    async def send(
        self, email: Email, *, wait: float = 0.0, **options: Unpack[SendOptions]
    ) -> SendAnswer:
        """Send a mail once, by whomever and however often it is asked for.

        What makes it the same mail is ``event_type``, ``entity_id``, ``version`` and who it is
        for, or a ``key`` of your own. When this returns, it is on disk; with ``wait`` it waits up
        to so many seconds for what becomes of it.

        Raises: InputRefused, NotFound, StoreUnavailable.
        """
        rooms = self.rooms
        self._start_sending()
        origin = Origin(tenant=self.settings.tenant)
        return await Postbox(rooms.outbox, origin).send(email, wait=wait, **options)

    @property
    def rooms(self) -> Rooms:
        """The opened rooms.

        Raises: OnceboxError, when the box is not open.
        """
        if self._rooms is None:
            message = "the box is not open; use it inside: async with box"
            raise OnceboxError(message)
        return self._rooms

    def metrics(self) -> str:
        """Return all metrics as Prometheus text."""
        return self.telemetry.scrape()

    async def open(self) -> None:
        """Open the database without starting to work."""
        if self._rooms is None:
            rooms = await open_rooms(
                self.settings,
                self.telemetry,
                migrate=self._migrate,
                judge_link=self.judge_link,
            )
            try:
                await rooms.book.refresh()
            except BaseException:
                await rooms.close()
                raise
            rooms.book.start()
            self._rooms = rooms
            self.handlers.follow(self._written)

    def _written(self, source: str) -> Source | None:
        """Return what is written of a source in the settings or the database."""
        entry = self.rooms.book.find(self.settings.tenant, source) if self._rooms else None
        return entry.source if entry else None

    def asgi(self, stopping: asyncio.Event | None = None) -> Any:
        """Return the opened box as an ASGI application, for a server of your own.

        Such a server must itself end clients that are slow.
        """
        return assembly.front_of(self.rooms, stopping or asyncio.Event())

    def _start_working(self) -> None:
        """Work on mail, on sends, and on what has handlers."""
        name = _name()
        workers = [self._mail_worker(name)]
        if self.handlers.sources:
            workers.append(self._handler_worker(name))
        self._workers += workers
        self._working += [asyncio.create_task(each.run()) for each in workers]
        self._start_sending()

    def _start_sending(self) -> None:
        """Work on sends, if nobody does in this process yet."""
        if self._senders:
            return
        rooms = self.rooms
        sender = SendWorker(
            rooms.sends,
            Rounds(rooms.database),
            rooms.outbox,
            rooms.sendbox,
            self.telemetry,
            name=_name(),
            settings=self.settings.sends,
            worker=self.settings.worker,
            random=random.random,
        )
        listener = self._evidence_worker(_name())
        self._senders.append(sender)
        self._workers.append(listener)
        self._working += [asyncio.create_task(each.run()) for each in (sender, listener)]
        if self.settings.sends.fail_open:
            self._fail_open()
        # Whoever works makes events, and there may be no service beside it that numbers them.
        sequencer = Sequencer(self.rooms.numbering, self.telemetry, self.settings.events)
        self._numbering.append(asyncio.create_task(sequencer.run()))

    def _fail_open(self) -> None:
        """Send past the ledger while that is away, because it was chosen."""
        rooms = self.rooms
        beside = FailOpen(
            Spool(self.settings.folder / "fail-open.spool", rooms.master_key),
            Rounds(rooms.database),
            rooms.outbox,
            Ways(rooms.sendbox),
            self.telemetry,
            secret=rooms.sendbox.provider_keys,
            within=self.settings.sends.hand_over_within,
        )
        rooms.outbox.fail_open(beside)
        rooms.leaving.push_async_callback(beside.close)
        self._numbering.append(asyncio.create_task(beside.run()))

    def _handler_worker(self, name: str) -> Worker:
        settings, desk = self.settings.worker, self.rooms.desk
        places = of_handlers(
            self.handlers, tenant=self.settings.tenant, worker=name, lease=settings.lease
        )
        performer = Performer(
            self.handlers,
            desk,
            self.telemetry,
            lease=settings.lease,
            random=random.random,
            outbox=self.rooms.outbox,
            hear=self._hearing().hear,
        )
        return Worker(desk, Claims(desk, places), performer, self.telemetry, settings=settings)

    def _hearing(self) -> Hearing:
        """Return what hears of our mail from those who took it."""
        rooms = self.rooms

        def find(tenant: str, source: str) -> Source | None:
            entry = rooms.book.find(tenant, source)
            return entry.source if entry else None

        return Hearing(Listening(rooms.database), rooms.sendbox, self.telemetry, find)

    def _evidence_worker(self, name: str) -> Worker:
        """Return who works on webhooks about our mail that have no handler."""
        settings, desk, hearing = self.settings.worker, self.rooms.desk, self._hearing()
        rules = by_default(self.settings.retry)

        def own() -> list[tuple[str, str]]:
            return [(self.settings.tenant, source) for source in self.handlers.sources]

        places = Unhandled(hearing, own, worker=name, lease=settings.lease, rules=rules).places
        reader = EvidenceReader(hearing, desk.clock, rules=rules, random=random.random)
        return Worker(
            desk,
            Claims(desk, places),
            reader,
            self.telemetry,
            settings=settings,
            gauge=self.telemetry.evidence_in_flight,
        )

    def _mail_worker(self, name: str) -> Worker:
        reading, rooms = self.settings.reading, self.rooms
        settings = msgspec.structs.replace(self.settings.worker, concurrency=reading.concurrency)
        rules = by_default(self.settings.retry)
        tenants = Tenants(rooms.mail, worker=name, lease=settings.lease, rules=rules)
        reader = MailReader(
            rooms.mail,
            Parsers(self.settings.parser, self.telemetry),
            authenticator(self.settings.mail).judge,
            rooms.strongbox,
            self.telemetry,
            rooms.vault,
            rules=rules,
            limit=reading.limit,
            random=random.random,
        )
        rooms.leaving.push_async_callback(reader.close)
        return Worker(
            rooms.desk,
            Claims(rooms.desk, tenants.places),
            reader,
            self.telemetry,
            settings=settings,
            most_bytes=reading.in_flight,
            gauge=self.telemetry.mail_in_flight,
            linger=True,
        )

    def stop_working(self) -> None:
        """Ask the workers to finish what they do, or give it back."""
        for worker in self._workers:
            worker.stop()
        for sender in self._senders:
            sender.stop()

    async def work(self) -> None:
        """Work until ``stop_working``, guarded by the watchdog."""
        watching = asyncio.create_task(
            Watchdog(self.telemetry, limit=self.settings.worker.watchdog).watch()
        )
        try:
            self._start_working()
            await self._finished()
        finally:
            watching.cancel()

    async def _finished(self) -> None:
        """Wait until all workers have ended; one that fails ends the others."""
        try:
            await asyncio.gather(*self._working)
        finally:
            self.stop_working()

    async def close(self) -> None:
        """Stop working and let go of the database."""
        self.stop_working()
        await asyncio.gather(*self._working, return_exceptions=True)
        for each in self._numbering:
            each.cancel()
        await asyncio.gather(*self._numbering, return_exceptions=True)
        if self._rooms is not None:
            await self._rooms.close()
        self._rooms = None
        self._workers, self._senders, self._working, self._numbering = [], [], [], []

    async def __aenter__(self) -> Self:
        """Open, and start working if there are handlers."""
        await self.open()
        if self.handlers.sources:
            self._start_working()
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Stop and close."""
        await self.close()


def _name() -> str:
    return f"{platform.node()}:{os.getpid()}:{ids.new('wrk')[-6:]}"


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1000)
