"""Provider webhooks about sent mail (accepted, bounced …), recorded on the sends they concern.

A transport may name the source at which its provider's webhooks come in. What they tell is heard
before the user's own handler runs, if there is one for that source; otherwise they are claimed
and settled here, and what they tell is in the same commit.
"""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from oncebox.core import clock
from oncebox.core.metrics import Telemetry
from oncebox.errors import ConfigInvalid, MasterKeyWrong
from oncebox.ledger.ciphers import SendCipher
from oncebox.ledger.deliveries import leases
from oncebox.ledger.deliveries.leases import DeliveryClaimant
from oncebox.ledger.notifications import EVENTS, SENDS
from oncebox.ledger.sends import evidence, transports
from oncebox.ledger.transactions import Ledger
from oncebox.model.deliveries.delivery import (
    CommitHook,
    Delivery,
    DeliveryOutcome,
    DeliveryState,
    Settlement,
)
from oncebox.model.deliveries.retry import RetryRules, failure_from_error, settle_failure
from oncebox.model.sends.send import SendState
from oncebox.model.sends.transports import (
    ConfiguredTransport,
    ProviderEvent,
    ProviderEventRecipient,
    ProviderEventResult,
)
from oncebox.model.webhooks.source import Source
from oncebox.transports import resend, transport_config
from oncebox.transports.resend import ResendConfig
from oncebox.workers.deliveries.delivery_worker import ListTargets
from oncebox.workers.deliveries.middleware import Process

_TRANSPORT_KIND = "resend"
#: seconds after which a change of transports is seen
_REFRESH_EVERY = 1.0
#: seconds between two looks for webhooks, however often something else becomes due
_CLAIM_EVERY = 0.02
#: seconds between two announcements of a program's handlers
_ANNOUNCE_EVERY = 3_600.0
#: milliseconds after which a program that is not seen any more has no handlers
_HANDLERS_EXPIRE_AFTER = 7 * 86_400_000
#: schemes by which nobody but the provider can speak
_SIGNED_SCHEMES = frozenset({"resend", "svix"})
#: what is found about the time of a request whose signature was checked
_VERIFIED = frozenset({"fresh", "late"})

#: a tenant and the name of a source
_SourceRef = tuple[str, str]
#: returns what is written of a tenant's source
FindTenantSource = Callable[[str, str], Source | None]


class SendEvidence:
    """Finds the sources of provider events, and reads and records the events."""

    def __init__(
        self,
        ledger: Ledger,
        cipher: SendCipher,
        telemetry: Telemetry,
        find: FindTenantSource,
    ) -> None:
        """Look for sources with ``find``."""
        self._ledger = ledger
        #: for calls in a try: an unavailable database is not the fault of the delivery
        self._retrying = ledger.retrying()
        self._cipher = cipher
        self._telemetry = telemetry
        self._find = find
        self._refresh_at = 0.0
        self._transports: dict[_SourceRef, list[str]] = {}
        self._handled_sources: set[_SourceRef] = set()
        #: sources that are named and cannot be believed; each is told once
        self._unverifiable: set[_SourceRef] = set()
        #: what a sealed configuration names, so that it is opened once
        self._named_sources: dict[bytes, str] = {}

    async def sources(self) -> dict[_SourceRef, Source]:
        """Return the sources of provider events; only signed ones count."""
        await self._refresh(self._ledger)
        return self._signed_sources()

    def _signed_sources(self) -> dict[_SourceRef, Source]:
        found: dict[_SourceRef, Source] = {}
        for place in self._transports:
            source = self._find(*place)
            if source is not None and source.scheme in _SIGNED_SCHEMES:
                found[place] = source
            elif place not in self._unverifiable:
                self._unverifiable.add(place)
                self._telemetry.log.warning(
                    "evidence_not_heard", source=place[1], missing=source is None
                )
        return found

    async def unhandled(self) -> list[Source]:
        """Return those of them that no program has handlers for, here or elsewhere."""
        found = await self.sources()
        return [found[place] for place in sorted(found) if place not in self._handled_sources]

    async def announce_handled(self, places: Sequence[_SourceRef]) -> None:
        """Let all processes know that this program has handlers for sources."""
        await self._ledger.write(leases.announce_handlers, places, self._ledger.clock())
        self._refresh_at = 0.0

    async def read(self, delivery: Delivery) -> tuple[ProviderEvent, ...]:
        """Return the provider events of a delivery, one for each transport that may be meant."""
        place = (delivery.tenant, delivery.source)
        if delivery.verdict not in _VERIFIED:
            return ()
        await self._refresh(self._retrying)
        if place not in self._transports or place not in self._signed_sources():
            return ()
        report = resend.read_resend_event(delivery.body)
        if report is None:
            return ()
        return tuple(self._evidence(delivery, report, way) for way in self._transports[place])

    async def record_first(self, process: Process, delivery: Delivery) -> Settlement | None:
        """Middleware: record provider events of a delivery before its handler runs."""
        events = await self.read(delivery)
        if events:
            results = await self._retrying.write(
                evidence.record_evidence, events, self._ledger.clock()
            )
            self.after_commit(events, results)
        return await process(delivery)

    def after_commit(
        self, words: Sequence[ProviderEvent], heard: Sequence[ProviderEventResult]
    ) -> None:
        """Notify subscribers of the changes, and count the events by their results."""
        if any(each.proven or each.changed for each in heard):
            self._ledger.notify(EVENTS)
        if any(each.proven for each in heard):
            self._ledger.notify(SENDS)
        for word, each in zip(words, heard, strict=True):
            self._telemetry.send_evidence.labels(word.status, _result_label(each)).inc()
            if each.proven:
                self._telemetry.sends.labels(SendState.SENT).inc()

    def _evidence(self, delivery: Delivery, report: resend.ResendEvent, way: str) -> ProviderEvent:
        tenant, box = delivery.tenant, self._cipher
        return ProviderEvent(
            tenant=tenant,
            transport=way,
            provider_id=report.provider_id,
            send_id=report.send_id,
            status=report.kind,
            at=delivery.received_at if report.at is None else report.at,
            recipients=tuple(
                ProviderEventRecipient(
                    box.address_fingerprint(tenant, each), box.encrypt_address(tenant, each)
                )
                for each in report.addresses
            ),
        )

    async def _refresh(self, ledger: Ledger) -> None:
        """Read which transports name a source, at most once a second."""
        if clock.steady() < self._refresh_at:
            return
        rows = await ledger.read(transports.of_kind, _TRANSPORT_KIND)
        since = ledger.clock() - _HANDLERS_EXPIRE_AFTER
        self._handled_sources = await ledger.read(leases.handled_since, since)
        self._refresh_at = clock.steady() + _REFRESH_EVERY
        ways: dict[_SourceRef, list[str]] = {}
        named: dict[bytes, str] = {}
        for row in rows:
            if row.config is None:
                continue
            known = self._named_sources.get(row.config)
            source = self._source(row, row.config) if known is None else known
            named[row.config] = source
            if source:
                ways.setdefault((row.tenant, source), []).append(row.name)
        self._transports, self._named_sources = ways, named

    def _source(self, row: ConfiguredTransport, sealed: bytes) -> str:
        """Return the source that a transport names; empty if it names none."""
        try:
            found = transport_config.decode_config(
                self._cipher.decrypt_field("config", row.tenant, row.name, sealed)
            )
        except (ConfigInvalid, MasterKeyWrong) as error:
            self._telemetry.log.warning("transport_invalid", transport=row.name, code=error.code)
            return ""
        return found.source if isinstance(found, ResendConfig) else ""


class EvidenceProcessor:
    """Turns a webhook that was claimed into a settlement which records what it tells."""

    def __init__(
        self,
        hearing: SendEvidence,
        now: clock.Clock,
        *,
        rules: RetryRules,
        random: Callable[[], float],
    ) -> None:
        """Prepare; what fails is tried again by these rules."""
        self._evidence = hearing
        self._now = now
        self._rules = rules
        self._random = random

    def time_limit(self, delivery: Delivery) -> float | None:
        """Return nothing: it takes no time."""
        del delivery
        return None

    async def process(self, delivery: Delivery) -> Settlement:
        """Read one webhook."""
        words = await self._evidence.read(delivery)
        if not words:
            return Settlement(
                delivery=delivery, state=DeliveryState.DONE, outcome=DeliveryOutcome.IGNORED
            )
        deed = CommitHook(
            evidence.record_evidence_batches,
            words,
            lambda heard: self._evidence.after_commit(words, heard),
        )
        return Settlement(
            delivery=delivery,
            state=DeliveryState.DONE,
            outcome=DeliveryOutcome.HANDLED,
            commit_hook=deed,
        )

    def settle_failure(self, delivery: Delivery, error: BaseException) -> Settlement:
        """Return how a webhook goes on that could not be read just now."""
        # What went wrong may quote the webhook.
        failure = msgspec.structs.replace(failure_from_error(error), error=type(error).__name__)
        now = self._now()
        return settle_failure(delivery, failure, self._rules, now=now, random=self._random)


class EvidenceTargets:
    """Where evidence is claimed from: sources that tell of mail and that nobody else works on."""

    def __init__(
        self,
        hearing: SendEvidence,
        own: Callable[[], Sequence[_SourceRef]],
        *,
        worker: str,
        lease: float,
        rules: RetryRules,
    ) -> None:
        """Claim for this worker; ``own`` says for which sources this program has handlers."""
        self._evidence = hearing
        self._own_sources = own
        self._worker = worker
        self._lease = int(lease * 1000)
        self._rules = rules
        self._poll_at = 0.0
        self._announce_at = 0.0

    @property
    def list_targets(self) -> ListTargets:
        """From where to claim now."""
        return self._list_targets

    async def _list_targets(self) -> list[DeliveryClaimant]:
        # It rings for every delivery there is, and hardly one of them is ours.
        if (wait := self._poll_at - clock.steady()) > 0:
            await asyncio.sleep(wait)
        self._poll_at = clock.steady() + _CLAIM_EVERY
        await self._announce()
        return [
            self._claimant(source)
            for source in await self._evidence.unhandled()
            if not source.paused and source.mode == "handler"
        ]

    async def _announce(self) -> None:
        """Say now and then which sources are not for others to settle."""
        own = self._own_sources()
        if own and clock.steady() >= self._announce_at:
            await self._evidence.announce_handled(own)
            self._announce_at = clock.steady() + _ANNOUNCE_EVERY

    def _claimant(self, source: Source) -> DeliveryClaimant:
        retry = source.retry_rules(self._rules)
        return DeliveryClaimant(
            source.tenant, source.name, self._worker, self._lease, retry.tries, retry.budget,
            source.rate, source.concurrency,
        )  # fmt: skip


def _result_label(heard: ProviderEventResult) -> str:
    if heard.send_id is None:
        return "unknown"
    if heard.proven:
        return "proof"
    return "news" if heard.changed else "repeat"
