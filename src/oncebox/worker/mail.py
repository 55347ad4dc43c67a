"""Mail: what SMTP took is read, its sender judged, and filed into its inbox, of all tenants."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Protocol

import msgspec

from oncebox import clock, faults, ids
from oncebox.errors import OnceboxError, Permanent
from oncebox.ledger import vault as vaults
from oncebox.ledger.deliveries.leases import Claimant
from oncebox.ledger.inboxes import messages
from oncebox.ledger.inboxes.desk import MailDesk
from oncebox.ledger.inboxes.strongbox import Strongbox
from oncebox.ledger.vault import LARGE, Vault
from oncebox.mail_errors import MailNotOpened
from oncebox.model import envelope as envelopes
from oncebox.model.artifact import NewArtifact
from oncebox.model.deed import Deed
from oncebox.model.delivery import Delivery, Outcome, Settlement, State
from oncebox.model.envelope import MAIL, Envelope, Recipient
from oncebox.model.filing import Filed, Filing, filing
from oncebox.model.inbox import matches
from oncebox.model.message import Parsed, Status
from oncebox.model.retry import RetryRules, after_failure, failure_of
from oncebox.model.verdict import Result, Verdict
from oncebox.telemetry import Telemetry
from oncebox.worker.claims import Places
from oncebox.worker.findings import findings
from oncebox.worker.patience import patiently
from oncebox.worker.perform import given_back

#: seconds between two looks while there is no mail, however often something else becomes due
_LOOK_EVERY = 0.02
#: tries after which a mail is filed without being read: whatever it does, it is still a message
_READ_AT_MOST = 3
#: milliseconds after which it is tried again when nobody could read
_TRY_LATER = 2_000
_GAVE_UP = Parsed(status=Status.UNPARSED, warnings=("not_readable",))
_IN_DOUBT = Verdict(spf=Result.TEMPERROR, dkim=Result.TEMPERROR, dmarc=Result.TEMPERROR)


class _NobodyReads(Exception):
    """What reads mail is away."""


class Reads(Protocol):
    """Reads mail somewhere else, so that no mail can hurt this process."""

    async def parse(self, raw: bytes) -> Parsed:
        """Return what a mail says."""

    async def check(self, raw: bytes, answers: Any) -> Any:
        """Return what the signatures of a mail prove."""

    async def __aenter__(self) -> Any:
        """Begin."""

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> Any:
        """End."""


#: judges who sent a mail: its envelope, what it says, its bytes, and what checks signatures
Judge = Callable[[Envelope, Parsed, bytes, Callable[..., Awaitable[Any]]], Awaitable[Verdict]]


class Tenants:
    """Where mail is claimed from: whichever tenants have some."""

    def __init__(self, desk: MailDesk, *, worker: str, lease: float, rules: RetryRules) -> None:
        """Claim for this worker."""
        self._desk = desk
        self._worker = worker
        self._lease = int(lease * 1000)
        self._rules = rules
        self._look_at = 0.0

    @property
    def places(self) -> Places:
        """From where to claim now."""
        return self._places

    async def _places(self) -> list[Claimant]:
        if (wait := self._look_at - clock.steady()) > 0:
            await asyncio.sleep(wait)
        tenants = await self._desk.waiting()
        if not tenants:
            self._look_at = clock.steady() + _LOOK_EVERY
        return [
            Claimant(tenant, MAIL, self._worker, self._lease, self._rules.tries, self._rules.budget)
            for tenant in tenants
        ]


class MailReader:
    """Turns a mail that was claimed into a settlement that files it."""

    def __init__(  # noqa: PLR0913 - it stands between this many rooms
        self,
        desk: MailDesk,
        reads: Reads,
        judge: Judge,
        strongbox: Strongbox,
        telemetry: Telemetry,
        vault: Vault,
        *,
        rules: RetryRules,
        limit: float,
        random: Callable[[], float],
    ) -> None:
        """Prepare; what reads is begun with the first mail."""
        self._desk = desk
        self._reads = reads
        self._judge = judge
        self._strongbox = strongbox
        self._telemetry = telemetry
        self._vault = vault
        #: one for all, because deeds of one kind are done in one call
        self._file = partial(messages.file, vault=vault)
        self._rules = rules
        self._limit = limit
        self._random = random
        self._begun = False
        self._beginning = asyncio.Lock()
        self._leaving = AsyncExitStack()

    async def close(self) -> None:
        """Stop reading."""
        await self._leaving.aclose()
        self._begun = False

    def limit(self, delivery: Delivery) -> float | None:
        """Return the seconds that one mail may take."""
        del delivery
        return self._limit

    async def perform(
        self, delivery: Delivery, permit: Callable[[Delivery], Awaitable[None]]
    ) -> Settlement:
        """Read one mail; whatever goes wrong becomes its settlement.

        Raises: CancelledError.
        """
        del permit
        faults.point("mail.claimed")
        try:
            read = await self._read(delivery)
        except _NobodyReads:
            return self._later(delivery)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is recorded
            return self.failed(delivery, error)
        deed = Deed(self._file, read, self._filed)
        return Settlement(delivery=delivery, state=State.DONE, outcome=Outcome.HANDLED, deed=deed)

    def failed(self, delivery: Delivery, error: BaseException) -> Settlement:
        """Return how a mail that could not be filed goes on: later, or not at all."""
        failure = failure_of(error)
        if not isinstance(error, Permanent):  # those are our own words; others may quote mail
            failure = msgspec.structs.replace(failure, error=_name(error))
        now = self._desk.clock()
        return after_failure(delivery, failure, self._rules, now=now, random=self._random)

    def _later(self, delivery: Delivery) -> Settlement:
        """Give a mail back that nobody could read just now; that is no fault of the mail."""
        return given_back(delivery, self._desk.clock() + _TRY_LATER)

    async def _read(self, delivery: Delivery) -> Filing:
        envelope = envelopes.decode(delivery.headers)
        recipient = _recipient(delivery, envelope)
        policy = await patiently(lambda: self._desk.policy(recipient.inbox_id, delivery.tenant))
        if policy is None:
            message = "there is no such inbox"
            raise Permanent(message)
        delivery = await self._opened(delivery)
        parsed = await self._parsed(delivery)
        faults.point("mail.parsed")
        verdict = await self._judged(envelope, parsed, delivery.body)
        expected, why = matches(policy, parsed, verdict, recipient.address)
        found = findings(
            self._strongbox,
            delivery.tenant,
            recipient.inbox_id,
            parsed,
            verdict,
            authenticated=policy.authenticated,
        )
        faults.point("artifacts.sealed")
        known = _Known(delivery, recipient, envelope, verdict)
        try:
            read = _filing(known, parsed, "" if expected else why, found)
        except ValueError:  # it holds what no JSON can say
            read = _filing(known, _GAVE_UP, "unparsed", ())
        place = vaults.document(delivery.tenant, read.message_id)
        return msgspec.structs.replace(read, encoded=self._vault.seal(read.encoded, place))

    async def _opened(self, delivery: Delivery) -> Delivery:
        """Return a delivery with its mail as it was received.

        Raises: Permanent, when it cannot be opened; no other try would open it.
        """
        place = vaults.mail(delivery.tenant, delivery.payload_id)
        try:
            if len(delivery.body) < LARGE:
                body = self._vault.open(delivery.body, place)
            else:
                body = await asyncio.to_thread(self._vault.open, delivery.body, place)
        except MailNotOpened as error:
            raise Permanent(str(error)) from error
        return msgspec.structs.replace(delivery, body=body)

    async def _parsed(self, delivery: Delivery) -> Parsed:
        """Return what a mail says; nothing of one that was too much for those who tried before."""
        if delivery.tries > _READ_AT_MOST:
            return _GAVE_UP
        try:
            await self._begin()
            parsed = await self._reads.parse(delivery.body)
        except OnceboxError as error:
            if not error.retry_safe:
                raise
            self._telemetry.log.warning("mail_not_read", code=error.code)
            raise _NobodyReads from error
        return msgspec.structs.replace(parsed, identity=self._vault.identity(parsed.identity))

    async def _judged(self, envelope: Envelope, parsed: Parsed, raw: bytes) -> Verdict:
        try:
            return await self._judge(envelope, parsed, raw, self._reads.check)
        except Exception:
            self._telemetry.log.exception("sender_not_judged")
            return _IN_DOUBT

    async def _begin(self) -> None:
        if self._begun:
            return
        async with self._beginning:
            if not self._begun:
                await self._leaving.enter_async_context(self._reads)
                self._begun = True

    def _filed(self, filed: Filed) -> None:
        """Count what is on disk now, and wake who waits for it."""
        faults.point("mail.committed")
        if filed.sequence is not None:
            self._telemetry.messages.labels(filed.status).inc()
            self._count(filed)
            self._desk.ring()
        elif filed.duplicate:
            self._telemetry.duplicates.labels("message", "copy").inc()

    def _count(self, filed: Filed) -> None:
        for kind, end in filed.artifacts:
            self._telemetry.artifacts.labels(kind.value, end).inc()
            if end == "duplicate":
                self._telemetry.artifact_duplicates.labels(kind.value).inc()


def _name(error: BaseException) -> str:
    return error.code if isinstance(error, OnceboxError) else type(error).__name__


def _recipient(delivery: Delivery, envelope: Envelope) -> Recipient:
    """Return for whom this delivery of a mail is: its key begins with the inbox."""
    inbox_id = delivery.key.rpartition(":")[0]
    for each in envelope.recipients:
        if each.inbox_id == inbox_id:
            return each
    message = "the envelope does not name the inbox"
    raise Permanent(message)


class _Known(NamedTuple):
    """What is known of a mail besides what it says."""

    delivery: Delivery
    recipient: Recipient
    envelope: Envelope
    verdict: Verdict


def _filing(
    known: _Known, parsed: Parsed, mismatch: str, artifacts: tuple[NewArtifact, ...]
) -> Filing:
    return filing(
        known.delivery,
        known.recipient,
        known.envelope,
        parsed=parsed,
        verdict=known.verdict,
        mismatch=mismatch,
        ids=(ids.new("msg"), ids.new("evt")),
        artifacts=artifacts,
    )
