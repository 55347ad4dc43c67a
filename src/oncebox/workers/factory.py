"""Worker factory: builds a process's background workers from its components."""

import random
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from prometheus_client import Gauge

from oncebox.components import Components
from oncebox.ledger.deliveries.settlements import default_retry_rules
from oncebox.model.public_internet import parse_allowed_hosts
from oncebox.model.webhooks.source import Source
from oncebox.settings import Settings
from oncebox.workers.deliveries.delivery_worker import Claimer, DeliveryWorker, handler_targets
from oncebox.workers.deliveries.handlers import HandlerProcessor, Handlers
from oncebox.workers.deliveries.send_evidence import (
    EvidenceProcessor,
    EvidenceTargets,
    SendEvidence,
)
from oncebox.workers.endpoints.endpoint_processor import EndpointProcessor, EndpointTargets
from oncebox.workers.endpoints.fan_out import FanOut
from oncebox.workers.mail.mail_processor import MailProcessor, MailTargets
from oncebox.workers.mail.parser_pool import ParserPool
from oncebox.workers.mail.sender_authentication import make_authenticator
from oncebox.workers.mailboxes.declaration import MailboxDeclarer
from oncebox.workers.mailboxes.mailbox_worker import MailboxWorker
from oncebox.workers.mailboxes.routing import MailboxRouter, open_mailbox
from oncebox.workers.maintenance.backlog_gauges import BacklogGauges
from oncebox.workers.maintenance.mailbox_gauges import MailboxGauges
from oncebox.workers.maintenance.sequencer import Sequencer
from oncebox.workers.sends.fail_open import FailOpenSpool, FailOpenWorker
from oncebox.workers.sends.send_worker import SendWorker
from oncebox.workers.sends.transport_pool import TransportPool

if TYPE_CHECKING:
    from oncebox.core.egress import Egress

#: by how much the priority of the parser of heavy mail is lowered
_HEAVY_NICE = 10


class Workers:
    """Makes the workers of one box, which claim under one name; the box starts and stops them."""

    def __init__(
        self, components: Components, settings: Settings, handlers: Handlers, *, name: str
    ) -> None:
        self._components = components
        self._handlers = handlers
        self._worker_name = name
        self._settings = settings
        self._telemetry = components.telemetry

    def handler_worker(self) -> DeliveryWorker:
        """Return the worker that runs the handlers."""
        settings, ledger = self._settings.worker, self._components.ledger
        targets = handler_targets(
            self._handlers,
            tenant=self._settings.tenant,
            worker=self._worker_name,
            lease=settings.lease,
        )
        processor = HandlerProcessor(
            self._handlers,
            ledger,
            self._telemetry,
            lease=settings.lease,
            random=random.random,
            outbox=self._components.outbox,
            middleware=[self.send_evidence().record_first],
        )
        return DeliveryWorker(
            ledger, Claimer(ledger, targets), processor, self._telemetry, settings=settings
        )

    def mail_workers(self) -> tuple[DeliveryWorker, DeliveryWorker, MailProcessor]:
        """Return the worker that parses mail, the one for heavy mail, and the former's processor.

        Heavy mail has a parser of its own, with less priority.
        """
        reading, parser = self._settings.reading, self._settings.parser
        quick_pool = ParserPool(parser, self._telemetry, quick=parser.quick)
        heavy_pool = ParserPool(
            msgspec.structs.replace(parser, children=1), self._telemetry, nice=_HEAVY_NICE
        )
        processor, heavy = self._mail_processor(quick_pool), self._mail_processor(heavy_pool)
        gauges = self._telemetry.mail_in_flight, self._telemetry.heavy_mail_in_flight
        return (
            self._mail_worker(processor, reading.concurrency, gauges[0], heavy=False),
            self._mail_worker(heavy, reading.heavy_concurrency, gauges[1], heavy=True),
            processor,
        )

    def _mail_worker(
        self, processor: MailProcessor, concurrency: int, gauge: Gauge, *, heavy: bool
    ) -> DeliveryWorker:
        components = self._components
        settings = msgspec.structs.replace(self._settings.worker, concurrency=concurrency)
        tenants = MailTargets(
            components.ledger,
            worker=self._worker_name,
            lease=settings.lease,
            rules=default_retry_rules(self._settings.retry),
            heavy=heavy,
        )
        return DeliveryWorker(
            components.ledger,
            Claimer(components.ledger, tenants.list_targets),
            processor,
            self._telemetry,
            settings=settings,
            most_bytes=self._settings.reading.in_flight,
            gauge=gauge,
            linger=True,
        )

    def _mail_processor(self, parser: ParserPool) -> MailProcessor:
        components = self._components
        processor = MailProcessor(
            components.ledger,
            parser,
            make_authenticator(self._settings.mail).authenticate,
            components.artifact_cipher,
            self._telemetry,
            components.mail_cipher,
            longpoll=components.longpoll,
            inbox_counter=components.inbox_counter,
            rules=default_retry_rules(self._settings.retry),
            limit=self._settings.reading.limit,
            signature_age=self._settings.mail.signature_age,
            random=random.random,
        )
        components.exit_stack.push_async_callback(processor.close)
        return processor

    def endpoint_worker(self) -> DeliveryWorker:
        """Return the worker that delivers events to endpoints."""
        components, options = self._components, self._settings.endpoints
        targets = EndpointTargets(
            components.ledger, worker=self._worker_name, lease=self._settings.worker.lease
        )
        processor = EndpointProcessor(
            components.ledger,
            self._lazy_egress(),
            components.endpoint_cipher,
            targets,
            self._telemetry,
            within=options.within,
            random=random.random,
        )
        return DeliveryWorker(
            components.ledger,
            Claimer(components.ledger, targets.list_targets),
            processor,
            self._telemetry,
            settings=msgspec.structs.replace(
                self._settings.worker, concurrency=options.concurrency
            ),
            gauge=self._telemetry.endpoints_in_flight,
        )

    def _lazy_egress(self) -> Callable[[], "Egress"]:
        """Return a function that makes the egress to endpoints when there is something to send.

        Importing it and loading certificates takes longer than the rest of a start.
        """
        made: list[Egress] = []

        def egress() -> "Egress":
            from oncebox.core.egress import Egress  # noqa: PLC0415 - see above

            if not made:
                allowed = parse_allowed_hosts(self._settings.egress.allow)
                connections = self._settings.endpoints.concurrency
                made.append(Egress(allowed=allowed, any_port=True, connections=connections))
                self._components.exit_stack.push_async_callback(made[0].close)
            return made[0]

        return egress

    def fan_out(self) -> FanOut:
        """Return what stores the deliveries of events to endpoints."""
        return FanOut(self._components.ledger, self._telemetry)

    def mailbox_worker(self) -> MailboxWorker:
        """Return the worker that reads mailboxes on other servers."""
        components = self._components
        router = MailboxRouter(
            components.ledger, components.recipients, components.mail_intake, self._telemetry
        )
        declarer = MailboxDeclarer(
            components.ledger,
            components.mailbox_service,
            components.declared_mailboxes,
            self._telemetry,
            tenant=self._settings.tenant,
        )
        return MailboxWorker(
            components.ledger,
            partial(open_mailbox, components.ledger, components.mailbox_cipher),
            router,
            self._telemetry,
            self._settings.mailbox_worker,
            name=self._worker_name,
            random=random.random,
            declare=declarer,
        )

    def send_worker(self) -> SendWorker:
        """Return the worker that sends mail."""
        components = self._components
        worker = SendWorker(
            components.ledger,
            components.send_cipher,
            components.outbox.outcomes,
            self._telemetry,
            name=self._worker_name,
            settings=self._settings.sends,
            worker=self._settings.worker,
            random=random.random,
        )
        components.outbox.local_sender = worker
        return worker

    def evidence_worker(self) -> DeliveryWorker:
        """Return the worker for provider webhooks that have no handler."""
        settings, ledger = self._settings.worker, self._components.ledger
        evidence = self.send_evidence()
        rules = default_retry_rules(self._settings.retry)

        def own() -> list[tuple[str, str]]:
            return [(self._settings.tenant, source) for source in self._handlers.sources]

        unhandled = EvidenceTargets(
            evidence, own, worker=self._worker_name, lease=settings.lease, rules=rules
        )
        return DeliveryWorker(
            ledger,
            Claimer(ledger, unhandled.list_targets),
            EvidenceProcessor(
                evidence, ledger.clock, self._telemetry.log, rules=rules, random=random.random
            ),
            self._telemetry,
            settings=settings,
            gauge=self._telemetry.evidence_in_flight,
        )

    def send_evidence(self) -> SendEvidence:
        """Return the recorder of provider events."""
        components = self._components

        def find(tenant: str, source: str) -> Source | None:
            entry = components.sources.find(tenant, source)
            return entry.source if entry else None

        return SendEvidence(components.ledger, components.send_cipher, self._telemetry, find)

    def fail_open(self) -> FailOpenWorker:
        """Return the worker that sends without the ledger while that is unavailable."""
        components = self._components
        worker = FailOpenWorker(
            FailOpenSpool(self._settings.folder / "fail-open.spool", components.master_key),
            components.ledger,
            components.send_cipher,
            TransportPool(components.send_cipher),
            self._telemetry,
            timeout=self._settings.sends.transport_timeout,
        )
        components.outbox.fail_open_sender = worker
        components.exit_stack.push_async_callback(worker.close)
        return worker

    def mailbox_gauges(self) -> MailboxGauges:
        """Return the gauges of mailboxes."""
        components = self._components
        return MailboxGauges(components.ledger, self._telemetry, components.mailbox_service.written)

    def backlog_gauges(self) -> BacklogGauges:
        """Return what counts the deliveries that are not done."""
        return BacklogGauges(self._components.ledger, self._telemetry)

    def sequencer(self) -> Sequencer:
        """Return the worker that numbers events."""
        return Sequencer(self._components.ledger, self._telemetry, self._settings.events)
