"""Provider webhooks about sent mail (accepted, bounced …), recorded on the sends they concern.

A transport may name the source of its provider's webhooks. If the user has a handler for that
source, the events are recorded before it runs; otherwise the webhooks are claimed and settled here,
and the events are recorded in the same commit.
See docs/decisions/0033-use-signed-provider-webhooks-as-delivery-evidence.md.
"""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from oncebox.core import clock
from oncebox.core.logging import Log
from oncebox.core.metrics import Telemetry
from oncebox.errors import ConfigInvalid, MasterKeyWrong
from oncebox.ledger.ciphers import SendCipher
from oncebox.ledger.deliveries import leases, settlements
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
from oncebox.workers.deliveries.middleware import Process

_TRANSPORT_KIND = "resend"
#: seconds after which a change of transports is seen
_REFRESH_EVERY = 1.0
#: seconds between two claims, however often other deliveries become due
_CLAIM_EVERY = 0.02
#: seconds between two announcements of a program's handlers
_ANNOUNCE_EVERY = 3_600.0
#: milliseconds after which the announcement of handlers expires
_HANDLERS_EXPIRE_AFTER = 7 * 86_400_000
#: schemes by which the provider signs
_SIGNED_SCHEMES = frozenset({"resend", "svix"})
#: verdicts on requests whose signature was verified
_VERIFIED = frozenset({"fresh", "late"})

#: a tenant and the name of a source
_SourceRef = tuple[str, str]
#: returns a tenant's source
FindTenantSource = Callable[[str, str], Source | None]


class SendEvidence:
    """Finds the sources of provider events, and reads and records the events."""

    def __init__(
        self, ledger: Ledger, cipher: SendCipher, telemetry: Telemetry, find: FindTenantSource
    ) -> None:
        self._ledger = ledger
        #: for calls in a try: an unavailable database is not the fault of the delivery
        self._retrying = ledger.retrying()
        self._cipher = cipher
        self._telemetry = telemetry
        self._find = find
        self._refresh_at = 0.0
        self._transports: dict[_SourceRef, list[str]] = {}
        self._handled_sources: set[_SourceRef] = set()
        #: named sources that are missing or not signed; each is logged once
        self._unverifiable: set[_SourceRef] = set()
        #: the source in each encrypted configuration, so that it is decrypted once
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
                    "evidence_source_unusable", source=place[1], missing=source is None
                )
        return found

    async def unhandled(self) -> list[Source]:
        """Return those of them that no program has handlers for, here or elsewhere."""
        found = await self.sources()
        return [found[place] for place in sorted(found) if place not in self._handled_sources]

    async def announce_handled(self, places: Sequence[_SourceRef]) -> None:
        """Announce to all processes that this program has handlers for sources."""
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
        return tuple(self._evidence(delivery, report, each) for each in self._transports[place])

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
        self, events: Sequence[ProviderEvent], results: Sequence[ProviderEventResult]
    ) -> None:
        """Notify subscribers of the changes, and count the events by their results."""
        if any(each.proven or each.changed for each in results):
            self._ledger.notify(EVENTS)
        if any(each.proven for each in results):
            self._ledger.notify(SENDS)
        for event, result in zip(events, results, strict=True):
            self._telemetry.send_evidence.labels(event.status, _result_label(result)).inc()
            if result.proven:
                self._telemetry.sends.labels(SendState.SENT).inc()

    def _evidence(
        self, delivery: Delivery, report: resend.ResendEvent, transport: str
    ) -> ProviderEvent:
        tenant, cipher = delivery.tenant, self._cipher
        return ProviderEvent(
            tenant=tenant,
            transport=transport,
            provider_id=report.provider_id,
            send_id=report.send_id,
            status=report.kind,
            at=delivery.received_at if report.at is None else report.at,
            recipients=tuple(
                ProviderEventRecipient(
                    cipher.address_fingerprint(tenant, each), cipher.encrypt_address(tenant, each)
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
        by_source: dict[_SourceRef, list[str]] = {}
        named: dict[bytes, str] = {}
        for row in rows:
            if row.config is None:
                continue
            known = self._named_sources.get(row.config)
            source = self._source(row, row.config) if known is None else known
            named[row.config] = source
            if source:
                by_source.setdefault((row.tenant, source), []).append(row.name)
        self._transports, self._named_sources = by_source, named

    def _source(self, row: ConfiguredTransport, encrypted: bytes) -> str:
        """Return the source that a transport names; empty if it names none."""
        try:
            found = transport_config.decode_config(
                self._cipher.decrypt_field("config", row.tenant, row.name, encrypted)
            )
        except (ConfigInvalid, MasterKeyWrong) as error:
            self._telemetry.log.warning("transport_invalid", transport=row.name, code=error.code)
            return ""
        return found.source if isinstance(found, ResendConfig) else ""


class EvidenceProcessor:
    """Turns a claimed webhook into a settlement that records its events."""

    def __init__(
        self,
        evidence: SendEvidence,
        now: clock.Clock,
        log: Log,
        *,
        rules: RetryRules,
        random: Callable[[], float],
    ) -> None:
        self._evidence = evidence
        self._now = now
        self._log = log
        self._rules = rules
        self._random = random

    def time_limit(self, delivery: Delivery) -> float | None:
        """Return None: the worker's own limit applies."""
        del delivery
        return None

    async def process(self, delivery: Delivery) -> Settlement:
        """Read one webhook."""
        events = await self._evidence.read(delivery)
        hook = CommitHook(
            evidence.record_evidence_batches,
            events,
            lambda results: self._evidence.after_commit(events, results),
        )
        return Settlement(
            delivery=delivery,
            state=DeliveryState.DONE,
            outcome=DeliveryOutcome.HANDLED if events else DeliveryOutcome.IGNORED,
            commit_hook=hook if events else None,
        )

    def settle_failure(self, delivery: Delivery, error: BaseException) -> Settlement:
        """Return the settlement of a webhook that could not be read."""
        # The message of the error may quote the webhook.
        failure = msgspec.structs.replace(failure_from_error(error), error=type(error).__name__)
        now = self._now()
        settled = settle_failure(delivery, failure, self._rules, now=now, random=self._random)
        return settlements.with_traceback(self._log, settled, error)


class EvidenceTargets:
    """Sources of provider events that no program has handlers for."""

    def __init__(
        self,
        evidence: SendEvidence,
        own: Callable[[], Sequence[_SourceRef]],
        *,
        worker: str,
        lease: float,
        rules: RetryRules,
    ) -> None:
        """Claim for this worker; ``own`` returns the sources this program has handlers for."""
        self._evidence = evidence
        self._own_sources = own
        self._worker = worker
        self._lease = int(lease * 1000)
        self._rules = rules
        self._poll_at = 0.0
        self._announce_at = 0.0

    async def list_targets(self) -> list[DeliveryClaimant]:
        """Return the sources to claim from now."""
        # Every delivery notifies this worker, and hardly one of them is evidence.
        if (wait := self._poll_at - clock.steady()) > 0:
            await asyncio.sleep(wait)
        self._poll_at = clock.steady() + _CLAIM_EVERY
        own = self._own_sources()
        if own and clock.steady() >= self._announce_at:
            await self._evidence.announce_handled(own)
            self._announce_at = clock.steady() + _ANNOUNCE_EVERY
        return [
            self._claimant(source)
            for source in await self._evidence.unhandled()
            if not source.paused and source.mode == "handler"
        ]

    def _claimant(self, source: Source) -> DeliveryClaimant:
        retry = source.retry_rules(self._rules)
        return DeliveryClaimant(
            source.tenant, source.name, self._worker, self._lease, retry.tries, retry.budget,
            source.rate, source.concurrency,
        )  # fmt: skip


def _result_label(result: ProviderEventResult) -> str:
    if result.send_id is None:
        return "unknown"
    if result.proven:
        return "proof"
    return "news" if result.changed else "repeat"
