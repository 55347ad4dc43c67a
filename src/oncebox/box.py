"""``Oncebox``: the ledger and its workers, embedded in your own program."""

import asyncio
import os
import platform
import random
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from oncebox import wiring
from oncebox.components import Components
from oncebox.core import ids
from oncebox.core.metrics import Telemetry
from oncebox.errors import LeaseLost, OnceboxError, StoreError
from oncebox.ledger.admin import api_keys
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.artifacts.claims import JudgeLink
from oncebox.ledger.deliveries.settlements import default_retry_rules
from oncebox.model.admin.access import Scope
from oncebox.model.deliveries.delivery import Accepted, Delivery, Settlement
from oncebox.model.inboxes.received_mail import MAIL_SOURCE
from oncebox.model.sends.email import Email
from oncebox.model.sends.intent import SendOptions, SendOrigin
from oncebox.model.webhooks.source import Source
from oncebox.schemas.sends import SendAnswer
from oncebox.settings import Settings
from oncebox.settings_loading import load_settings
from oncebox.workers.deliveries.handlers import ANY_TYPE, Handlers
from oncebox.workers.deliveries.once import SendApi
from oncebox.workers.deliveries.policies import PolicyCheck, settle_error
from oncebox.workers.process.child_control import Watchdog

if TYPE_CHECKING:  # loaded by ``load_workers``
    from oncebox.client.asynchronous import AsyncClient
    from oncebox.workers.deliveries.delivery_worker import DeliveryWorker
    from oncebox.workers.factory import Workers
    from oncebox.workers.mailboxes.mailbox_worker import MailboxWorker
    from oncebox.workers.sends.send_worker import SendWorker

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
        """Open nothing before ``async with``."""
        self.settings = settings or load_settings(database_url=url)
        self.telemetry = Telemetry()
        self.handlers = Handlers(default_retry_rules(self.settings.retry))
        #: decides which links may be claimed, instead of the built-in rules; for tests
        self.judge_link: JudgeLink | None = None
        self._migrate = migrate
        self._components: Components | None = None
        self._client: AsyncClient | None = None
        self._worker_tasks: list[asyncio.Task[None]] = []
        self._workers: list[DeliveryWorker] = []
        self._mailbox_workers: list[MailboxWorker] = []
        self._send_workers: list[SendWorker] = []
        self._background_tasks: list[asyncio.Task[None]] = []
        self._stop_requests = 0

    def on(
        self,
        source: str,
        type: str = ANY_TYPE,  # noqa: A002 - the word users know
        *,
        limit: float | None = None,
    ) -> Callable[[F], F]:
        """Register a handler for a type of a source, or for all its types.

        Raises: HandlerRegisteredTwice.
        """

        def register(function: F) -> F:
            self.handlers.add(source, type, function, limit)
            return function

        return register

    def policy(self, source: str) -> Callable[[F], F]:
        """Register a function that decides whether a delivery runs, is held or dropped.

        Raises: HandlerRegisteredTwice.
        """

        def register(function: F) -> F:
            self.handlers.add_policy(source, function)
            return function

        return register

    def source(  # noqa: PLR0913 - a source has this many rules
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
        """Set the rules of a source; times are in seconds.

        ``rate`` limits how many deliveries are begun per second, ``concurrency`` how many run at
        the same time, in all workers together.

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
        try:
            return await self.components.intake.accept(
                source,
                key=key,
                body=body.encode() if isinstance(body, str) else body,
                headers=headers,
                type_=type,
                order_key=order_key,
                redelivery=self.handlers.rules(source).redelivery,
            )
        except StoreError as error:
            self.telemetry.count_store_error("accept", error)
            raise

    async def send(
        self, email: Email, *, wait: float = 0.0, **options: Unpack[SendOptions]
    ) -> SendAnswer:
        """Send a mail once, however often this is called.

        The same ``event_type``, ``entity_id``, ``version`` and recipients, or the same ``key``,
        mean the same mail. When this returns, it is on disk; with ``wait``, wait up to so many
        seconds for its outcome.

        Raises: InputRefused, NotFound, StoreUnavailable.
        """
        outbox = self.components.outbox
        if not self._send_workers:
            await self.load_workers()
            self._start_send_workers()
        origin = SendOrigin(tenant=self.settings.tenant)
        return await SendApi(outbox, origin).send(email, wait=wait, **options)

    def client(self) -> "AsyncClient":
        """Return a client of the opened box, without a network; it is closed with the box."""
        import httpx2  # noqa: PLC0415 - few boxes need a client

        from oncebox.client.asynchronous import AsyncClient  # noqa: PLC0415

        if self._client is None:
            key = self._own_key()
            transport = httpx2.ASGITransport(self.asgi())
            self._client = AsyncClient("http://127.0.0.1", key, transport=transport)
        return self._client

    def _own_key(self) -> str:
        """Return the text of a key of this process."""
        clock = self.components.ledger.clock
        entry = AuditEntry(
            id=ids.new("aud"), tenant=self.settings.tenant, at=clock(), who="box", why=""
        )
        key, text = api_keys.generate(entry, [Scope.ADMIN], name="box")
        self.components.api_keys.add_own(key, text)
        return text

    @property
    def components(self) -> Components:
        """The components of the open box.

        Raises: OnceboxError, when the box is not open.
        """
        if self._components is None:
            raise OnceboxError("the box is not open; use it inside: async with box")
        return self._components

    def metrics(self) -> str:
        """Return all metrics as Prometheus text."""
        return self.telemetry.scrape()

    async def open(self) -> None:
        """Open the database without starting workers."""
        if self._components is not None:
            return
        components = await wiring.open_components(
            self.settings,
            self.telemetry,
            migrate=self._migrate,
            judge_link=self.judge_link,
            deadline=self.settings.database_within,
        )
        try:
            await components.sources.refresh()
        except BaseException:
            await components.close()
            raise
        components.sources.start()
        components.data_key_refresher.start()
        for source in (MAIL_SOURCE, *self.handlers.sources):
            self.telemetry.expect_source(source)
        self._components = components
        components.ask_policy = self._ask_policy
        self.handlers.use_configured_sources(self._configured_source)

    def _configured_source(self, source: str) -> Source | None:
        opened = self._components
        entry = opened.sources.find(self.settings.tenant, source) if opened else None
        return entry.source if entry else None

    async def _ask_policy(self, delivery: Delivery) -> Settlement | None:
        """Ask the policy of a delivery that a pull worker claimed; None: it may have it."""
        if delivery.tenant != self.settings.tenant:
            return None
        ledger = self.components.ledger
        check = PolicyCheck(self.handlers.policy, ledger, self.telemetry)
        try:
            async with asyncio.timeout(self.settings.worker.lease / 2):
                return await check.refusal(delivery)
        except (LeaseLost, StoreError):
            raise
        except Exception as error:  # noqa: BLE001 - a policy may raise anything
            rules, log = self.handlers.rules(delivery.source).retry, self.telemetry.log
            return settle_error(
                delivery, error, rules, now=ledger.clock(), random=random.random, log=log
            )

    def asgi(self, stopping: asyncio.Event | None = None) -> Any:
        """Return the opened box as an ASGI application, for a server of your own.

        Such a server must disconnect slow clients itself.
        """
        return wiring.build_asgi_app(self.components, stopping or asyncio.Event())

    async def load_workers(self) -> None:
        """Import the workers in a thread, so that requests are answered meanwhile."""
        await asyncio.to_thread(import_module, "oncebox.workers.factory")

    def _make_workers(self) -> "Workers":
        from oncebox.workers.factory import Workers  # noqa: PLC0415 - see load_workers

        return Workers(self.components, self.settings, self.handlers, name=_worker_name())

    def _start_workers(self, *, warm_up: bool = False) -> None:
        """Start the workers for mail, sends and handlers; ``warm_up`` starts the parser too."""
        factory = self._make_workers()
        mail_worker, heavy_mail_worker, mail_processor = factory.mail_workers()
        if warm_up:
            self._background_tasks.append(asyncio.create_task(mail_processor.warm_up()))
        workers = [mail_worker, heavy_mail_worker, factory.endpoint_worker()]
        if self.handlers.sources:
            workers.append(factory.handler_worker())
        self._workers += workers
        self._worker_tasks += [asyncio.create_task(each.run()) for each in workers]
        self._start_mailbox_worker(factory)
        self._start_send_workers()
        self._background_tasks.append(asyncio.create_task(factory.fan_out().run()))

    def _start_mailbox_worker(self, factory: "Workers") -> None:
        reader = factory.mailbox_worker()
        self._mailbox_workers.append(reader)
        self._worker_tasks.append(asyncio.create_task(reader.run()))

    def _start_send_workers(self) -> None:
        """Start the workers for sends, unless this process has them already."""
        if self._send_workers:
            return
        factory = self._make_workers()
        sender, evidence = factory.send_worker(), factory.evidence_worker()
        self._send_workers.append(sender)
        self._workers.append(evidence)
        self._worker_tasks += [asyncio.create_task(each.run()) for each in (sender, evidence)]
        if self.settings.sends.fail_open:
            self._background_tasks.append(asyncio.create_task(factory.fail_open().run()))
        # Workers record events, and there may be no service that numbers them.
        self._background_tasks.append(asyncio.create_task(factory.sequencer().run()))

    def stop_working(self) -> None:
        """Ask the workers to finish or release their work."""
        self._stop_requests += 1
        for worker in self._workers:
            worker.stop()
        for reader in self._mailbox_workers:
            reader.stop()
        for sender in self._send_workers:
            sender.stop()

    async def work(self) -> None:
        """Work until ``stop_working``, guarded by the watchdog."""
        watching = asyncio.create_task(
            Watchdog(self.telemetry, limit=self.settings.worker.watchdog).watch()
        )
        stops = self._stop_requests
        try:
            await self.load_workers()
            if stops == self._stop_requests:  # not stopped meanwhile
                self._start_workers(warm_up=True)
                factory = self._make_workers()
                for gauges in (factory.backlog_gauges(), factory.mailbox_gauges()):
                    self._background_tasks.append(asyncio.create_task(gauges.run()))
            try:
                await asyncio.gather(*self._worker_tasks)
            finally:
                self.stop_working()  # a worker that fails stops the others
        finally:
            watching.cancel()

    async def close(self) -> None:
        """Stop the workers and close the database."""
        self.stop_working()
        await asyncio.gather(*self._worker_tasks, return_exceptions=True)
        for each in self._background_tasks:
            each.cancel()
        await asyncio.gather(*self._background_tasks, return_exceptions=True)
        if self._client is not None:
            await self._client.close()
        if self._components is not None:
            await self._components.close()
        self._components = self._client = None
        self._workers, self._send_workers, self._mailbox_workers = [], [], []
        self._worker_tasks, self._background_tasks = [], []

    async def __aenter__(self) -> Self:
        """Open, and start the workers if there are handlers."""
        await self.open()
        try:
            if self.handlers.sources:
                await self.load_workers()
                self._start_workers()
        except BaseException:  # also a cancellation: ``__aexit__`` is not called then
            await self.close()
            raise
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Stop and close."""
        await self.close()


def _worker_name() -> str:
    return f"{platform.node()}:{os.getpid()}:{ids.new('wrk')[-6:]}"


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1000)
