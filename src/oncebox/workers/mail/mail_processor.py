"""Received mail: parsed, sender authenticated, codes and links extracted, filed in its inbox."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Protocol

import msgspec

from oncebox.core import clock, faults, ids
from oncebox.core.metrics import Telemetry
from oncebox.errors import OnceboxError, Permanent
from oncebox.errors.mail import AddressInvalid, MailDecryptionFailed
from oncebox.ledger import ciphers as vaults
from oncebox.ledger.ciphers import LARGE, ArtifactCipher, MailCipher
from oncebox.ledger.deliveries.leases import DeliveryClaimant
from oncebox.ledger.inboxes import messages
from oncebox.ledger.notifications import EVENTS, MESSAGES
from oncebox.ledger.transactions import Ledger
from oncebox.mail.auth.trust import covers_candidate
from oncebox.model.deliveries.delivery import (
    CommitHook,
    Delivery,
    DeliveryOutcome,
    DeliveryState,
    Settlement,
)
from oncebox.model.deliveries.retry import RetryRules, failure_from_error, settle_failure
from oncebox.model.inboxes import received_mail
from oncebox.model.inboxes.addresses import sender_key
from oncebox.model.inboxes.artifact import (
    LINK_WRAPPED,
    SENDER_UNPROVEN,
    ArtifactValue,
    NewArtifact,
    candidates_to_keep,
    to_thousandths,
)
from oncebox.model.inboxes.inbox import match_policy
from oncebox.model.inboxes.message import NewMessage, NewMessageResult, new_message, sender_verdict
from oncebox.model.inboxes.received_mail import (
    MAIL_SOURCE,
    ArtifactKind,
    AuthResult,
    Candidate,
    Envelope,
    EnvelopeRecipient,
    ParsedMail,
    ParsedSender,
    ParseStatus,
    SenderVerdict,
    is_sender_proven,
)
from oncebox.workers.deliveries.delivery_worker import ListTargets
from oncebox.workers.deliveries.handlers import release_settlement

#: the detail of a verdict: the aligned signature covers Date
_DATE_IS_SIGNED = "signed_date"


def build_artifacts(  # noqa: PLR0913 - whose mail it is, what it says, and what is known of it
    strongbox: ArtifactCipher,
    tenant: str,
    inbox_id: str,
    parsed: ParsedMail,
    verdict: SenderVerdict,
    new_id: ids.NewId = ids.new,
    *,
    authenticated: bool = False,
) -> tuple[NewArtifact, ...]:
    """Return the artifacts of a mail for one inbox, each sealed for its own row.

    ``authenticated`` says that the inbox expects only what its sender vouches for.
    """
    found = candidates_to_keep(parsed.found)
    if not found:
        return ()
    proven = sender_verdict(parsed, verdict) == "pass"
    ranks = dict.fromkeys(ArtifactKind, 0)
    made = []
    for candidate, tied in found:
        id_, kind = new_id("art"), candidate.kind
        vouched = covers_candidate(verdict, parsed, candidate)
        value = ArtifactValue(
            value=_storable_text(candidate.value),
            shown=_storable_text(candidate.shown),
            wrapped=candidate.wrapped,
            target=_storable_text(candidate.target),
        )
        made.append(
            NewArtifact(
                id=id_,
                event_id=new_id("evt"),
                kind=kind,
                fingerprint=strongbox.value_fingerprint(tenant, inbox_id, kind, value.value),
                encrypted=strongbox.encrypt(tenant, id_, value),
                rank=ranks[kind],
                confidence=to_thousandths(candidate.confidence),
                tied=tied,
                purposes=tuple(map(str, parsed.purposes)),
                sender=_sender_key(parsed.sender),
                signed_at=_signed_at(parsed, verdict) if vouched else None,
                vouched=vouched,
                matched=vouched or not authenticated,
                warnings=_artifact_warnings(candidate, proven=proven and vouched),
            )
        )
        ranks[kind] += 1
    return tuple(made)


def _sender_key(sender: ParsedSender) -> str:
    """Return an address as it is compared; nothing where there is not exactly one."""
    if sender.standing != "single":
        return ""
    try:
        return sender_key(sender.address)
    except AddressInvalid:
        return ""


def _signed_at(parsed: ParsedMail, verdict: SenderVerdict) -> int | None:
    """Return the date of a mail, if the one who sent it has signed it."""
    signed = _DATE_IS_SIGNED in verdict.details and is_sender_proven(verdict, parsed.sender.domain)
    return parsed.date if signed else None


def _artifact_warnings(candidate: Candidate, *, proven: bool) -> tuple[str, ...]:
    told = ((SENDER_UNPROVEN, not proven), (LINK_WRAPPED, bool(candidate.wrapped)))
    return tuple(code for code, holds in told if holds)


def _storable_text(text: str) -> str:
    """Return a text that can be written down: lone surrogates are spelled out."""
    return text.encode("utf-8", "backslashreplace").decode()


#: seconds between two looks while there is no mail, however often something else becomes due
_POLL_EVERY = 0.02
#: tries after which a mail is filed without being read: whatever it does, it is still a message
_MAX_PARSE_TRIES = 3
#: milliseconds after which it is tried again when nobody could read
_RETRY_AFTER_MS = 2_000
_UNPARSED = ParsedMail(status=ParseStatus.UNPARSED, warnings=("not_readable",))
_TEMPERROR = SenderVerdict(
    spf=AuthResult.TEMPERROR, dkim=AuthResult.TEMPERROR, dmarc=AuthResult.TEMPERROR
)


class _NoParser(Exception):
    """The mail parser is not available."""


class MailParser(Protocol):
    """Parses mail in other processes, so that no mail can crash this one."""

    async def parse(self, raw: bytes) -> ParsedMail:
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
AuthenticateSender = Callable[
    [Envelope, ParsedMail, bytes, Callable[..., Awaitable[Any]]], Awaitable[SenderVerdict]
]


class MailTargets:
    """The claim targets of mail: the tenants that have some."""

    def __init__(self, ledger: Ledger, *, worker: str, lease: float, rules: RetryRules) -> None:
        """Claim for this worker."""
        self._ledger = ledger
        self._worker = worker
        self._lease = int(lease * 1000)
        self._rules = rules
        self._poll_at = 0.0

    @property
    def list_targets(self) -> ListTargets:
        """Returns the targets to claim from now."""
        return self._list_targets

    async def _list_targets(self) -> list[DeliveryClaimant]:
        if (wait := self._poll_at - clock.steady()) > 0:
            await asyncio.sleep(wait)
        tenants = await self._ledger.read(messages.tenants_with_mail, self._ledger.clock())
        if not tenants:
            self._poll_at = clock.steady() + _POLL_EVERY
        return [
            DeliveryClaimant(
                tenant,
                MAIL_SOURCE,
                self._worker,
                self._lease,
                self._rules.tries,
                self._rules.budget,
            )
            for tenant in tenants
        ]


class MailProcessor:
    """Turns a claimed mail into a settlement that files it."""

    def __init__(  # noqa: PLR0913 - its collaborators
        self,
        ledger: Ledger,
        parser: MailParser,
        authenticate: AuthenticateSender,
        artifact_cipher: ArtifactCipher,
        telemetry: Telemetry,
        mail_cipher: MailCipher,
        *,
        rules: RetryRules,
        limit: float,
        random: Callable[[], float],
    ) -> None:
        """Prepare; the parser starts with the first mail."""
        self._ledger = ledger
        self._policies = ledger.retrying().shared(messages.inbox_policies)
        self._parser = parser
        self._authenticate = authenticate
        self._artifact_cipher = artifact_cipher
        self._telemetry = telemetry
        self._mail_cipher = mail_cipher
        #: one function for all mails: commit hooks with the same function share one call
        self._file = partial(messages.file, cipher=mail_cipher)
        self._rules = rules
        self._limit = limit
        self._random = random
        self._parser_started = False
        self._parser_starting = asyncio.Lock()
        self._exit_stack = AsyncExitStack()

    async def close(self) -> None:
        """Stop the parser."""
        await self._exit_stack.aclose()
        self._parser_started = False

    def time_limit(self, delivery: Delivery) -> float | None:
        """Return the seconds that one mail may take."""
        del delivery
        return self._limit

    async def process(self, delivery: Delivery) -> Settlement:
        """Parse one mail and return a settlement that files it."""
        faults.point("mail.claimed")
        message = await self._build_filing(delivery)
        return Settlement(
            delivery=delivery,
            state=DeliveryState.DONE,
            outcome=DeliveryOutcome.HANDLED,
            commit_hook=CommitHook(self._file, message, self._on_filed),
        )

    def settle_failure(self, delivery: Delivery, error: BaseException) -> Settlement:
        """Return how a mail that could not be filed goes on: later, or not at all."""
        now = self._ledger.clock()
        if isinstance(error, _NoParser):  # not the fault of the mail
            return release_settlement(delivery, now + _RETRY_AFTER_MS)
        failure = failure_from_error(error)
        if not isinstance(error, Permanent):  # our own text; that of others may quote the mail
            failure = msgspec.structs.replace(failure, error=_error_name(error))
        return settle_failure(delivery, failure, self._rules, now=now, random=self._random)

    async def _build_filing(self, delivery: Delivery) -> NewMessage:
        envelope = received_mail.decode_envelope(delivery.headers)
        recipient = _recipient(delivery, envelope)
        policy = await self._policies.read((recipient.inbox_id, delivery.tenant))
        if policy is None:
            raise Permanent("there is no such inbox")
        delivery = await self._decrypt(delivery)
        parsed = await self._parse(delivery)
        faults.point("mail.parsed")
        verdict = await self._sender_verdict(envelope, parsed, delivery.body)
        expected, why = match_policy(policy, parsed, verdict, recipient.address)
        found = build_artifacts(
            self._artifact_cipher,
            delivery.tenant,
            recipient.inbox_id,
            parsed,
            verdict,
            authenticated=policy.authenticated,
        )
        faults.point("artifacts.sealed")
        known = _MailFacts(delivery, recipient, envelope, verdict)
        try:
            read = _filing(known, parsed, "" if expected else why, found)
        except ValueError:  # it holds what no JSON can say
            read = _filing(known, _UNPARSED, "unparsed", ())
        place = vaults.document_aad(delivery.tenant, read.message_id)
        return msgspec.structs.replace(read, encoded=self._mail_cipher.encrypt(read.encoded, place))

    async def _decrypt(self, delivery: Delivery) -> Delivery:
        """Return a delivery with its mail as it was received.

        Raises: Permanent, when it cannot be opened; no other try would open it.
        """
        place = vaults.mail_aad(delivery.tenant, delivery.payload_id)
        try:
            if len(delivery.body) < LARGE:
                body = self._mail_cipher.decrypt(delivery.body, place)
            else:
                body = await asyncio.to_thread(self._mail_cipher.decrypt, delivery.body, place)
        except MailDecryptionFailed as error:
            raise Permanent(str(error)) from error
        return msgspec.structs.replace(delivery, body=body)

    async def _parse(self, delivery: Delivery) -> ParsedMail:
        """Return what a mail says; nothing of one that was too much for those who tried before."""
        if delivery.tries > _MAX_PARSE_TRIES:
            return _UNPARSED
        try:
            await self._start_parser()
            parsed = await self._parser.parse(delivery.body)
        except OnceboxError as error:
            if not error.retry_safe:
                raise
            self._telemetry.log.warning("mail_not_read", code=error.code)
            raise _NoParser from error
        return msgspec.structs.replace(
            parsed, identity=self._mail_cipher.message_fingerprint(parsed.identity)
        )

    async def _sender_verdict(
        self, envelope: Envelope, parsed: ParsedMail, raw: bytes
    ) -> SenderVerdict:
        try:
            return await self._authenticate(envelope, parsed, raw, self._parser.check)
        except Exception:
            self._telemetry.log.exception("sender_not_judged")
            return _TEMPERROR

    async def _start_parser(self) -> None:
        if self._parser_started:
            return
        async with self._parser_starting:
            if not self._parser_started:
                await self._exit_stack.enter_async_context(self._parser)
                self._parser_started = True

    def _on_filed(self, filed: NewMessageResult) -> None:
        """Count a filed message, and wake those waiting for it."""
        faults.point("mail.committed")
        if filed.sequence is not None:
            self._telemetry.messages.labels(filed.status).inc()
            self._count_artifacts(filed)
            self._ledger.notify(MESSAGES, EVENTS)
        elif filed.duplicate:
            self._telemetry.duplicates.labels("message", "copy").inc()

    def _count_artifacts(self, filed: NewMessageResult) -> None:
        for kind, end in filed.artifacts:
            self._telemetry.artifacts.labels(kind.value, end).inc()
            if end == "duplicate":
                self._telemetry.artifact_duplicates.labels(kind.value).inc()


def _error_name(error: BaseException) -> str:
    return error.code if isinstance(error, OnceboxError) else type(error).__name__


def _recipient(delivery: Delivery, envelope: Envelope) -> EnvelopeRecipient:
    """Return for whom this delivery of a mail is: its key begins with the inbox."""
    inbox_id = delivery.key.rpartition(":")[0]
    for each in envelope.recipients:
        if each.inbox_id == inbox_id:
            return each
    raise Permanent("the envelope does not name the inbox")


class _MailFacts(NamedTuple):
    """What is known of a mail besides what it says."""

    delivery: Delivery
    recipient: EnvelopeRecipient
    envelope: Envelope
    verdict: SenderVerdict


def _filing(
    known: _MailFacts, parsed: ParsedMail, mismatch: str, artifacts: tuple[NewArtifact, ...]
) -> NewMessage:
    return new_message(
        known.delivery,
        known.recipient,
        known.envelope,
        parsed=parsed,
        verdict=known.verdict,
        mismatch=mismatch,
        ids=(ids.new("msg"), ids.new("evt")),
        artifacts=artifacts,
    )
