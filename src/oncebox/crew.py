"""The crew: whoever works in one process, each made from the rooms of a box."""

import random

import msgspec

from oncebox.assembly import Rooms
from oncebox.config import Settings
from oncebox.ledger.deliveries.rules import by_default
from oncebox.ledger.sends.listening import Listening
from oncebox.ledger.sends.rounds import Rounds
from oncebox.model.source import Source
from oncebox.worker.authenticator import authenticator
from oncebox.worker.claims import Claims, of_handlers
from oncebox.worker.fail_open import FailOpen
from oncebox.worker.handlers import Handlers
from oncebox.worker.loop import Worker
from oncebox.worker.mail import MailReader, Tenants
from oncebox.worker.parsers import Parsers
from oncebox.worker.perform import Performer
from oncebox.worker.send_evidence import EvidenceReader, Hearing, Unhandled
from oncebox.worker.sends import SendWorker
from oncebox.worker.sends_ways import Ways
from oncebox.worker.sequencer import Sequencer
from oncebox.worker.spool import Spool


class Crew:
    """Makes the workers of one box; starting and stopping them is its own affair."""

    def __init__(self, rooms: Rooms, settings: Settings, handlers: Handlers, *, name: str) -> None:
        """Make workers that claim under this name."""
        self._rooms = rooms
        self._handlers = handlers
        self._name = name
        self._settings = settings
        self._telemetry = rooms.telemetry

    def handler_worker(self) -> Worker:
        """Return who runs the handlers."""
        settings, desk = self._settings.worker, self._rooms.desk
        places = of_handlers(
            self._handlers, tenant=self._settings.tenant, worker=self._name, lease=settings.lease
        )
        performer = Performer(
            self._handlers,
            desk,
            self._telemetry,
            lease=settings.lease,
            random=random.random,
            outbox=self._rooms.outbox,
            hear=self.hearing().hear,
        )
        return Worker(desk, Claims(desk, places), performer, self._telemetry, settings=settings)

    def mail_worker(self) -> Worker:
        """Return who reads mail."""
        reading, rooms = self._settings.reading, self._rooms
        settings = msgspec.structs.replace(self._settings.worker, concurrency=reading.concurrency)
        rules = by_default(self._settings.retry)
        tenants = Tenants(rooms.mail, worker=self._name, lease=settings.lease, rules=rules)
        reader = MailReader(
            rooms.mail,
            Parsers(self._settings.parser, self._telemetry),
            authenticator(self._settings.mail).judge,
            rooms.strongbox,
            self._telemetry,
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
            self._telemetry,
            settings=settings,
            most_bytes=reading.in_flight,
            gauge=self._telemetry.mail_in_flight,
            linger=True,
        )

    def send_worker(self) -> SendWorker:
        """Return who hands mail over."""
        rooms = self._rooms
        return SendWorker(
            rooms.sends,
            Rounds(rooms.database),
            rooms.outbox,
            rooms.sendbox,
            self._telemetry,
            name=self._name,
            settings=self._settings.sends,
            worker=self._settings.worker,
            random=random.random,
        )

    def evidence_worker(self) -> Worker:
        """Return who works on webhooks about our mail that have no handler."""
        settings, desk, hearing = self._settings.worker, self._rooms.desk, self.hearing()
        rules = by_default(self._settings.retry)

        def own() -> list[tuple[str, str]]:
            return [(self._settings.tenant, source) for source in self._handlers.sources]

        unhandled = Unhandled(hearing, own, worker=self._name, lease=settings.lease, rules=rules)
        return Worker(
            desk,
            Claims(desk, unhandled.places),
            EvidenceReader(hearing, desk.clock, rules=rules, random=random.random),
            self._telemetry,
            settings=settings,
            gauge=self._telemetry.evidence_in_flight,
        )

    def hearing(self) -> Hearing:
        """Return what hears of our mail from those who took it."""
        rooms = self._rooms

        def find(tenant: str, source: str) -> Source | None:
            entry = rooms.book.find(tenant, source)
            return entry.source if entry else None

        return Hearing(Listening(rooms.database), rooms.sendbox, self._telemetry, find)

    def fail_open(self) -> FailOpen:
        """Return who sends past the ledger while that is away, because it was chosen."""
        rooms = self._rooms
        beside = FailOpen(
            Spool(self._settings.folder / "fail-open.spool", rooms.master_key),
            Rounds(rooms.database),
            rooms.outbox,
            Ways(rooms.sendbox),
            self._telemetry,
            secret=rooms.sendbox.provider_keys,
            within=self._settings.sends.hand_over_within,
        )
        rooms.outbox.fail_open(beside)
        rooms.leaving.push_async_callback(beside.close)
        return beside

    def sequencer(self) -> Sequencer:
        """Return who numbers events."""
        return Sequencer(self._rooms.numbering, self._telemetry, self._settings.events)
