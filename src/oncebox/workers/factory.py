"""Worker factory: builds a process's background workers from its components."""

import random

import msgspec

from oncebox.components import Components
from oncebox.ledger.deliveries.settlements import default_retry_rules
from oncebox.model.webhooks.source import Source
from oncebox.settings import Settings
from oncebox.workers.deliveries.delivery_worker import Claimer, DeliveryWorker, handler_targets
from oncebox.workers.deliveries.handlers import HandlerProcessor, Handlers
from oncebox.workers.deliveries.send_evidence import (
    EvidenceProcessor,
    EvidenceTargets,
    SendEvidence,
)
from oncebox.workers.mail.mail_processor import MailProcessor, MailTargets
from oncebox.workers.mail.parser_pool import ParserPool
from oncebox.workers.mail.sender_authentication import make_authenticator
from oncebox.workers.maintenance.sequencer import Sequencer
from oncebox.workers.sends.fail_open import FailOpenSpool, FailOpenWorker
from oncebox.workers.sends.send_worker import SendWorker
from oncebox.workers.sends.transport_pool import TransportPool


class Workers:
    """Makes the workers of one box; starting and stopping them is its own affair."""

    def __init__(
        self, rooms: Components, settings: Settings, handlers: Handlers, *, name: str
    ) -> None:
        """Make workers that claim under this name."""
        self._components = rooms
        self._handlers = handlers
        self._worker_name = name
        self._settings = settings
        self._telemetry = rooms.telemetry

    def handler_worker(self) -> DeliveryWorker:
        """Return who runs the handlers."""
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

    def mail_worker(self) -> DeliveryWorker:
        """Return who reads mail."""
        reading, rooms = self._settings.reading, self._components
        settings = msgspec.structs.replace(self._settings.worker, concurrency=reading.concurrency)
        rules = default_retry_rules(self._settings.retry)
        tenants = MailTargets(
            rooms.ledger, worker=self._worker_name, lease=settings.lease, rules=rules
        )
        reader = MailProcessor(
            rooms.ledger,
            ParserPool(self._settings.parser, self._telemetry),
            make_authenticator(self._settings.mail).authenticate,
            rooms.artifact_cipher,
            self._telemetry,
            rooms.mail_cipher,
            rules=rules,
            limit=reading.limit,
            random=random.random,
        )
        rooms.exit_stack.push_async_callback(reader.close)
        return DeliveryWorker(
            rooms.ledger,
            Claimer(rooms.ledger, tenants.list_targets),
            reader,
            self._telemetry,
            settings=settings,
            most_bytes=reading.in_flight,
            gauge=self._telemetry.mail_in_flight,
            linger=True,
        )

    def send_worker(self) -> SendWorker:
        """Return who hands mail over."""
        rooms = self._components
        return SendWorker(
            rooms.ledger,
            rooms.send_cipher,
            rooms.outbox.outcomes,
            self._telemetry,
            name=self._worker_name,
            settings=self._settings.sends,
            worker=self._settings.worker,
            random=random.random,
        )

    def evidence_worker(self) -> DeliveryWorker:
        """Return who works on webhooks about our mail that have no handler."""
        settings, ledger, evidence = (
            self._settings.worker,
            self._components.ledger,
            self.send_evidence(),
        )
        rules = default_retry_rules(self._settings.retry)

        def own() -> list[tuple[str, str]]:
            return [(self._settings.tenant, source) for source in self._handlers.sources]

        unhandled = EvidenceTargets(
            evidence, own, worker=self._worker_name, lease=settings.lease, rules=rules
        )
        return DeliveryWorker(
            ledger,
            Claimer(ledger, unhandled.list_targets),
            EvidenceProcessor(evidence, ledger.clock, rules=rules, random=random.random),
            self._telemetry,
            settings=settings,
            gauge=self._telemetry.evidence_in_flight,
        )

    def send_evidence(self) -> SendEvidence:
        """Return what hears of our mail from those who took it."""
        rooms = self._components

        def find(tenant: str, source: str) -> Source | None:
            entry = rooms.sources.find(tenant, source)
            return entry.source if entry else None

        return SendEvidence(rooms.ledger, rooms.send_cipher, self._telemetry, find)

    def fail_open(self) -> FailOpenWorker:
        """Return who sends past the ledger while that is away, because it was chosen."""
        rooms = self._components
        beside = FailOpenWorker(
            FailOpenSpool(self._settings.folder / "fail-open.spool", rooms.master_key),
            rooms.ledger,
            rooms.send_cipher,
            TransportPool(rooms.send_cipher),
            self._telemetry,
            timeout=self._settings.sends.transport_timeout,
        )
        rooms.outbox.fail_open_sender = beside
        rooms.exit_stack.push_async_callback(beside.close)
        return beside

    def sequencer(self) -> Sequencer:
        """Return who numbers events."""
        return Sequencer(self._components.ledger, self._telemetry, self._settings.events)
