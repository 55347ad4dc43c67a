"""Mail: what SMTP took is read, its sender judged, and filed into its inbox, of all tenants."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Protocol

from oncebox import clock, faults, ids
from oncebox.errors import OnceboxError, Permanent
from oncebox.ledger.deliveries.leases import Claimant
from oncebox.ledger.inboxes import messages
from oncebox.ledger.inboxes.desk import MailDesk
from oncebox.model import envelope as envelopes
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
        telemetry: Telemetry,
        *,
        rules: RetryRules,
        limit: float,
        random: Callable[[], float],
    ) -> None:
        """Prepare; what reads is begun with the first mail."""
        self._desk = desk
        self._reads = reads
        self._judge = judge
        self._telemetry = telemetry
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
        deed = Deed(messages.file, read, self._filed)
        return Settlement(delivery=delivery, state=State.DONE, outcome=Outcome.HANDLED, deed=deed)

    def failed(self, delivery: Delivery, error: BaseException) -> Settlement:
        """Return how a mail that could not be filed goes on: later, or not at all."""
        failure = failure_of(error)
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
        parsed = await self._parsed(delivery)
        faults.point("mail.parsed")
        verdict = await self._judged(envelope, parsed, delivery.body)
        expected, why = matches(policy, parsed, verdict, recipient.address)
        try:
            return _filing(delivery, recipient, envelope, parsed, verdict, "" if expected else why)
        except ValueError:  # it holds what no JSON can say
            return _filing(delivery, recipient, envelope, _GAVE_UP, verdict, "unparsed")

    async def _parsed(self, delivery: Delivery) -> Parsed:
        """Return what a mail says; nothing of one that was too much for those who tried before."""
        if delivery.tries > _READ_AT_MOST:
            return _GAVE_UP
        try:
            await self._begin()
            return await self._reads.parse(delivery.body)
        except OnceboxError as error:
            if not error.retry_safe:
                raise
            self._telemetry.log.warning("mail_not_read", code=error.code)
            raise _NobodyReads from error

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
            self._desk.ring()
        elif filed.duplicate:
            self._telemetry.duplicates.labels("message", "copy").inc()


def _recipient(delivery: Delivery, envelope: Envelope) -> Recipient:
    """Return for whom this delivery of a mail is: its key begins with the inbox."""
    inbox_id = delivery.key.rpartition(":")[0]
    for each in envelope.recipients:
        if each.inbox_id == inbox_id:
            return each
    message = "the envelope does not name the inbox"
    raise Permanent(message)


def _filing(
    delivery: Delivery,
    recipient: Recipient,
    envelope: Envelope,
    parsed: Parsed,
    verdict: Verdict,
    mismatch: str,
) -> Filing:
    return filing(
        delivery,
        recipient,
        envelope,
        parsed=parsed,
        verdict=verdict,
        mismatch=mismatch,
        ids=(ids.new("msg"), ids.new("evt")),
    )
