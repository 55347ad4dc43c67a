"""Evidence: webhooks by which providers tell of our mail are read into the ledger of sends.

A transport may name the source at which its provider's webhooks come in. What they tell is heard
before the user's own handler runs, if there is one for that source; otherwise they are claimed
and settled here, and what they tell is in the same commit.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence

import msgspec

from oncebox import clock
from oncebox.errors import ConfigInvalid, MasterKeyWrong
from oncebox.ledger.deliveries.leases import Claimant
from oncebox.ledger.sends import evidence
from oncebox.ledger.sends.listening import Listening
from oncebox.ledger.sends.strongbox import SendBox
from oncebox.model.deed import Deed
from oncebox.model.delivery import Delivery, Outcome, Settlement, State
from oncebox.model.evidence import Addressee, Evidence, Heard
from oncebox.model.retry import RetryRules, after_failure, failure_of
from oncebox.model.send import SendState
from oncebox.model.source import Source
from oncebox.model.transport import Transport
from oncebox.telemetry import Telemetry
from oncebox.transport.email import config, resend_events
from oncebox.transport.email.config import ResendConfig
from oncebox.worker.claims import Places
from oncebox.worker.patience import patiently
from oncebox.worker.perform import Permit

_KIND = "resend"
#: seconds after which a change of transports is seen
_LOOK_EVERY = 1.0
#: seconds between two looks for webhooks, however often something else becomes due
_CLAIM_EVERY = 0.02
#: seconds between two announcements of a program's handlers
_ANNOUNCE_EVERY = 3_600.0
#: milliseconds after which a program that is not seen any more has no handlers
_GONE_AFTER = 7 * 86_400_000
#: schemes by which nobody but the provider can speak
_SIGNED = frozenset({"resend", "svix"})
#: what is found about the time of a request whose signature was checked
_JUDGED = frozenset({"fresh", "late"})

#: a tenant and the name of a source
_Place = tuple[str, str]
#: returns what is written of a tenant's source
FindSource = Callable[[str, str], Source | None]


class Hearing:
    """Knows which sources tell of mail by which ways, and hears what they tell."""

    def __init__(
        self, listening: Listening, sendbox: SendBox, telemetry: Telemetry, find: FindSource
    ) -> None:
        """Look for sources with ``find``."""
        self._listening = listening
        self._sendbox = sendbox
        self._telemetry = telemetry
        self._find = find
        self._look_at = 0.0
        self._ways: dict[_Place, list[str]] = {}
        self._handled: set[_Place] = set()
        #: what a sealed configuration names, so that it is opened once
        self._named: dict[bytes, str] = {}

    async def sources(self) -> dict[_Place, Source]:
        """Return the sources that tell of mail; only a signed one can."""
        await self._look()
        found = {place: self._find(*place) for place in self._ways}
        return {
            place: source
            for place, source in found.items()
            if source is not None and source.scheme in _SIGNED
        }

    async def unhandled(self) -> list[Source]:
        """Return those of them that no program has handlers for, here or elsewhere."""
        found = await self.sources()
        return [found[place] for place in sorted(found) if place not in self._handled]

    async def announce(self, places: Sequence[_Place]) -> None:
        """Let all processes know that this program has handlers for sources."""
        await self._listening.announce(places)
        self._look_at = 0.0

    async def words(self, delivery: Delivery) -> tuple[Evidence, ...]:
        """Return what a delivery tells of our mail, for each way that may be meant."""
        place = (delivery.tenant, delivery.source)
        if delivery.verdict not in _JUDGED or place not in await self.sources():
            return ()
        report = resend_events.read(delivery.body)
        if report is None:
            return ()
        return tuple(self._word(delivery, report, way) for way in self._ways[place])

    async def hear(self, delivery: Delivery) -> None:
        """Record what a delivery tells, in a commit of its own; again changes nothing."""
        words = await self.words(delivery)
        if words:
            heard = await patiently(lambda: self._listening.hear(words))
            self.count(words, heard)

    def heard(self, words: Sequence[Evidence], heard: Sequence[Heard]) -> None:
        """Count what is on disk now, and wake who waits for it."""
        self._listening.ring(heard)
        self.count(words, heard)

    def count(self, words: Iterable[Evidence], heard: Iterable[Heard]) -> None:
        """Count words by what came of them."""
        for word, each in zip(words, heard, strict=True):
            self._telemetry.send_evidence.labels(word.what, _result(each)).inc()
            if each.proven:
                self._telemetry.sends.labels(SendState.SENT).inc()

    def _word(self, delivery: Delivery, report: resend_events.Report, way: str) -> Evidence:
        tenant, box = delivery.tenant, self._sendbox
        return Evidence(
            tenant=tenant,
            transport=way,
            provider_id=report.provider_id,
            send_id=report.send_id,
            what=report.what,
            at=delivery.received_at if report.at is None else report.at,
            addressees=tuple(
                Addressee(box.mark(tenant, each), box.seal_address(tenant, each))
                for each in report.addresses
            ),
        )

    async def _look(self) -> None:
        """Now and then look which transports name a source."""
        if clock.steady() < self._look_at:
            return
        rows = await self._listening.transports(_KIND)
        self._handled = await self._listening.handled(_GONE_AFTER)
        self._look_at = clock.steady() + _LOOK_EVERY
        ways: dict[_Place, list[str]] = {}
        named: dict[bytes, str] = {}
        for row in rows:
            if row.config is None:
                continue
            known = self._named.get(row.config)
            source = self._source(row, row.config) if known is None else known
            named[row.config] = source
            if source:
                ways.setdefault((row.tenant, source), []).append(row.name)
        self._ways, self._named = ways, named

    def _source(self, row: Transport, sealed: bytes) -> str:
        """Return the source that a transport names; empty if it names none."""
        try:
            found = config.read(self._sendbox.open_config(row.tenant, row.name, sealed))
        except (ConfigInvalid, MasterKeyWrong) as error:
            self._telemetry.log.warning("transport_invalid", transport=row.name, code=error.code)
            return ""
        return found.source if isinstance(found, ResendConfig) else ""


class EvidenceReader:
    """Turns a webhook that was claimed into a settlement which records what it tells."""

    def __init__(
        self, hearing: Hearing, now: clock.Clock, *, rules: RetryRules, random: Callable[[], float]
    ) -> None:
        """Prepare; what fails is tried again by these rules."""
        self._hearing = hearing
        self._now = now
        self._rules = rules
        self._random = random

    def limit(self, delivery: Delivery) -> float | None:
        """Return nothing: it takes no time."""
        del delivery
        return None

    async def perform(self, delivery: Delivery, permit: Permit) -> Settlement:
        """Read one webhook."""
        del permit
        words = await self._hearing.words(delivery)
        if not words:
            return Settlement(delivery=delivery, state=State.DONE, outcome=Outcome.IGNORED)
        deed = Deed(evidence.hear_all, words, lambda heard: self._hearing.heard(words, heard))
        return Settlement(delivery=delivery, state=State.DONE, outcome=Outcome.HANDLED, deed=deed)

    def failed(self, delivery: Delivery, error: BaseException) -> Settlement:
        """Return how a webhook goes on that could not be read just now."""
        # What went wrong may quote the webhook.
        failure = msgspec.structs.replace(failure_of(error), error=type(error).__name__)
        now = self._now()
        return after_failure(delivery, failure, self._rules, now=now, random=self._random)


class Unhandled:
    """Where evidence is claimed from: sources that tell of mail and that nobody else works on."""

    def __init__(
        self,
        hearing: Hearing,
        own: Callable[[], Sequence[_Place]],
        *,
        worker: str,
        lease: float,
        rules: RetryRules,
    ) -> None:
        """Claim for this worker; ``own`` says for which sources this program has handlers."""
        self._hearing = hearing
        self._own = own
        self._worker = worker
        self._lease = int(lease * 1000)
        self._rules = rules
        self._look_at = 0.0
        self._announce_at = 0.0

    @property
    def places(self) -> Places:
        """From where to claim now."""
        return self._places

    async def _places(self) -> list[Claimant]:
        # It rings for every delivery there is, and hardly one of them is ours.
        if (wait := self._look_at - clock.steady()) > 0:
            await asyncio.sleep(wait)
        self._look_at = clock.steady() + _CLAIM_EVERY
        await self._announce()
        return [
            self._claimant(source)
            for source in await self._hearing.unhandled()
            if not source.paused and source.mode == "handler"
        ]

    async def _announce(self) -> None:
        """Say now and then which sources are not for others to settle."""
        own = self._own()
        if own and clock.steady() >= self._announce_at:
            await self._hearing.announce(own)
            self._announce_at = clock.steady() + _ANNOUNCE_EVERY

    def _claimant(self, source: Source) -> Claimant:
        retry = source.retry(self._rules)
        return Claimant(
            source.tenant, source.name, self._worker, self._lease, retry.tries, retry.budget,
            source.rate, source.concurrency,
        )  # fmt: skip


def _result(heard: Heard) -> str:
    if heard.send_id is None:
        return "unknown"
    if heard.proven:
        return "proof"
    return "news" if heard.news else "repeat"
