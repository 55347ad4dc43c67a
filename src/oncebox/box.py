"""``Oncebox``: the ledger and its worker, embedded in a program of your own."""

import asyncio
import os
import platform
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from oncebox import assembly, config, ids
from oncebox.assembly import Rooms, open_rooms
from oncebox.config import Settings
from oncebox.errors import OnceboxError
from oncebox.ledger.deliveries.rules import by_default
from oncebox.ledger.inboxes.claims import JudgeLink
from oncebox.model.asking import SendOptions
from oncebox.model.delivery import Accepted
from oncebox.model.email import Email
from oncebox.model.intent import Origin
from oncebox.model.source import Source
from oncebox.telemetry import Telemetry
from oncebox.wire.sends import SendAnswer
from oncebox.worker.handlers import ANY_TYPE, Handlers
from oncebox.worker.postbox import Postbox
from oncebox.worker.watchdog import Watchdog

if TYPE_CHECKING:  # loaded by those who work; see Oncebox.hire
    from oncebox.crew import Crew
    from oncebox.worker.loop import Worker
    from oncebox.worker.sends import SendWorker

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
        self._stops = 0

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
        if not self._senders:
            await self.hire()
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

    async def hire(self) -> None:
        """Load whoever works: reading and sending mail needs much that answering does not.

        In a thread, so that requests are answered meanwhile.
        """
        await asyncio.to_thread(import_module, "oncebox.crew")

    def _crew(self) -> "Crew":
        from oncebox.crew import Crew  # noqa: PLC0415 - see hire

        return Crew(self.rooms, self.settings, self.handlers, name=_name())

    def _start_working(self) -> None:
        """Work on mail, on sends, and on what has handlers."""
        crew = self._crew()
        workers = [crew.mail_worker()]
        if self.handlers.sources:
            workers.append(crew.handler_worker())
        self._workers += workers
        self._working += [asyncio.create_task(each.run()) for each in workers]
        self._start_sending()

    def _start_sending(self) -> None:
        """Work on sends, if nobody does in this process yet."""
        if self._senders:
            return
        crew = self._crew()
        sender, listener = crew.send_worker(), crew.evidence_worker()
        self._senders.append(sender)
        self._workers.append(listener)
        self._working += [asyncio.create_task(each.run()) for each in (sender, listener)]
        if self.settings.sends.fail_open:
            self._numbering.append(asyncio.create_task(crew.fail_open().run()))
        # Whoever works makes events, and there may be no service beside it that numbers them.
        self._numbering.append(asyncio.create_task(crew.sequencer().run()))

    def stop_working(self) -> None:
        """Ask the workers to finish what they do, or give it back."""
        self._stops += 1
        for worker in self._workers:
            worker.stop()
        for sender in self._senders:
            sender.stop()

    async def work(self) -> None:
        """Work until ``stop_working``, guarded by the watchdog."""
        watching = asyncio.create_task(
            Watchdog(self.telemetry, limit=self.settings.worker.watchdog).watch()
        )
        stops = self._stops
        try:
            await self.hire()
            if stops == self._stops:  # nobody has asked to stop meanwhile
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
        try:
            if self.handlers.sources:
                await self.hire()
                self._start_working()
        except BaseException:  # whoever is cancelled while entering never leaves
            await self.close()
            raise
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Stop and close."""
        await self.close()


def _name() -> str:
    return f"{platform.node()}:{os.getpid()}:{ids.new('wrk')[-6:]}"


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1000)
