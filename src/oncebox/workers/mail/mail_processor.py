"""Received mail: parsed, sender authenticated, codes and links extracted, filed in its inbox.

See docs/decisions/0022-use-a-custom-mime-and-html-parser-in-isolated-processes.md.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from typing import Any, Protocol

import msgspec

from oncebox.core import clock, faults, ids
from oncebox.core.metrics import Telemetry
from oncebox.errors import OnceboxError, Permanent
from oncebox.errors.mail import AddressInvalid, MailDecryptionFailed
from oncebox.ledger import ciphers
from oncebox.ledger.ciphers import LARGE, ArtifactCipher, MailCipher
from oncebox.ledger.deliveries import settlements
from oncebox.ledger.deliveries.leases import DeliveryClaimant
from oncebox.ledger.inboxes import messages
from oncebox.ledger.inboxes.inbox_counts import InboxCounter
from oncebox.ledger.inboxes.longpoll import LongPollHub
from oncebox.ledger.notifications import EVENTS, MAIL, STREAM
from oncebox.ledger.transactions import Ledger
from oncebox.mail.auth.trust import covers_candidate
from oncebox.model.client_address import sender_limit_key
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
    PURPOSE_UNCLEAR,
    SENDER_UNPROVEN,
    TEXT_DOUBTFUL,
    ArtifactValue,
    NewArtifact,
    candidates_to_keep,
    sender_warnings,
    to_thousandths,
)
from oncebox.model.inboxes.inbox import (
    InboxPolicy,
    match_policy,
    requires_authentication,
)
from oncebox.model.inboxes.message import NewMessage, NewMessageResult, new_message, sender_verdict
from oncebox.model.inboxes.purpose import Purpose
from oncebox.model.inboxes.received_mail import (
    MAIL_SOURCE,
    ArtifactKind,
    AuthResult,
    Candidate,
    Envelope,
    ParsedMail,
    ParseStatus,
    SenderVerdict,
)
from oncebox.model.inboxes.replay import Arrival, note_replay_signs
from oncebox.workers.deliveries.handlers import release_settlement
from oncebox.workers.mail.fair_queue import MailFlow, ParsingDeferred
from oncebox.workers.mail.single_flight import SingleFlight

#: the detail of a verdict: the aligned signature covers Date
_DATE_IS_SIGNED = "signed_date"
_NO_RULES = InboxPolicy()


def build_artifacts(
    cipher: ArtifactCipher,
    tenant: str,
    inbox_id: str,
    parsed: ParsedMail,
    verdict: SenderVerdict,
    policy: InboxPolicy = _NO_RULES,
) -> tuple[NewArtifact, ...]:
    """Return the artifacts of a mail for one inbox, each encrypted for its own row."""
    found = candidates_to_keep(parsed.found)
    if not found:
        return ()
    proven = sender_verdict(parsed, verdict) == "pass"
    signed_at = parsed.date if proven and _DATE_IS_SIGNED in verdict.details else None
    try:
        sender = sender_key(parsed.sender.address) if parsed.sender.standing == "single" else ""
    except AddressInvalid:
        sender = ""
    authenticated = requires_authentication(policy, verdict)
    is_unclear = policy.purpose is not Purpose.ANY and not parsed.purposes
    unclear = [PURPOSE_UNCLEAR] if is_unclear else []
    ranks = dict.fromkeys(ArtifactKind, 0)
    made = []
    for candidate, tied in found:
        id_, kind = ids.new("art"), candidate.kind
        vouched = covers_candidate(verdict, parsed, candidate)
        value, shown, target = (
            text.encode("utf-8", "backslashreplace").decode()  # lone surrogates cannot be stored
            for text in (candidate.value, candidate.shown, candidate.target)
        )
        sealed = ArtifactValue(value=value, shown=shown, wrapped=candidate.wrapped, target=target)
        unproven = [] if proven and vouched else [SENDER_UNPROVEN]
        made.append(
            NewArtifact(
                id=id_,
                event_id=ids.new("evt"),
                kind=kind,
                fingerprint=cipher.value_fingerprint(tenant, inbox_id, kind, value),
                value_fingerprint=cipher.unscoped_fingerprint(tenant, kind, value),
                encrypted=cipher.encrypt(tenant, id_, sealed),
                rank=ranks[kind],
                confidence=to_thousandths(candidate.confidence),
                tied=tied,
                purposes=tuple(map(str, parsed.purposes)),
                sender=sender,
                signed_at=signed_at if vouched else None,
                vouched=vouched,
                matched=vouched or not authenticated,
                warnings=(
                    *unproven,
                    *sender_warnings(policy, verdict),
                    *_candidate_warnings(candidate),
                    *unclear,
                ),
            )
        )
        ranks[kind] += 1
    return tuple(made)


def _candidate_warnings(candidate: Candidate) -> list[str]:
    flags = ((candidate.wrapped, LINK_WRAPPED), (candidate.doubtful, TEXT_DOUBTFUL))
    return [warning for applies, warning in flags if applies]


#: seconds between two queries while no mail arrives, however often other work becomes due
_POLL_EVERY = 0.02
#: seconds between the start of the workers and that of the parser, if there is no mail before
_WARM_UP_AFTER = 0.5
#: tries that began, after which a mail is filed unparsed
_MAX_PARSE_TRIES = 3
#: tries of which nobody records that they began: a mail that lost its worker so often runs alone
_UNSUSPECTED_TRIES = 2
#: lost workers after which a mail is dead, although its parsing may never have begun
_MAX_CLAIMS = 1_000
#: milliseconds before the next try if no parser is available
_RETRY_AFTER_MS = 2_000
_UNPARSED = ParsedMail(status=ParseStatus.UNPARSED, warnings=("not_readable",))
_TEMPERROR = SenderVerdict(
    spf=AuthResult.TEMPERROR, dkim=AuthResult.TEMPERROR, dmarc=AuthResult.TEMPERROR
)


class _ParserUnavailable(Exception):
    """The mail parser is not available."""


class MailParser(AbstractAsyncContextManager[Any], Protocol):
    """Parses mail in other processes, so that no mail can crash this one."""

    async def parse(self, raw: bytes, flow: MailFlow) -> ParsedMail:
        """Return the parsed mail.

        Raises: ParsingDeferred.
        """

    async def check(self, raw: bytes, answers: Any, flow: MailFlow) -> Any:
        """Return the results of a mail's DKIM signatures."""


#: authenticates a sender: envelope, parsed mail, raw mail, and the check of signatures
AuthenticateSender = Callable[
    [Envelope, ParsedMail, bytes, Callable[..., Awaitable[Any]]], Awaitable[SenderVerdict]
]


class MailTargets:
    """The claim targets of mail: the tenants that have some, of the heavy or of the other queue."""

    def __init__(
        self, ledger: Ledger, *, worker: str, lease: float, rules: RetryRules, heavy: bool = False
    ) -> None:
        self._ledger = ledger
        self._heavy = int(heavy)
        self._worker = worker
        self._lease = int(lease * 1000)
        self._rules = rules
        self._poll_at = 0.0
        self._arrivals = ledger.subscribe(MAIL)

    async def list_targets(self) -> list[DeliveryClaimant]:
        """Return the targets to claim from now."""
        if (wait := self._poll_at - clock.steady()) > 0:
            await self._arrivals.wait(wait)
        now, heavy = self._ledger.clock(), self._heavy
        tenants = await self._ledger.read(messages.tenants_with_mail, now, heavy)
        if not tenants:
            self._poll_at = clock.steady() + _POLL_EVERY
        budget = self._rules.budget
        return [
            DeliveryClaimant(
                tenant, MAIL_SOURCE, self._worker, self._lease, _MAX_CLAIMS, budget, heavy=heavy
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
        longpoll: LongPollHub,
        inbox_counter: InboxCounter,
        rules: RetryRules,
        limit: float,
        signature_age: float,
        random: Callable[[], float],
    ) -> None:
        self._ledger = ledger
        self._retrying = ledger.retrying()
        self._inbox_rules = self._retrying.shared(messages.inbox_rules)
        self._parser = parser
        self._authenticate = authenticate
        self._artifact_cipher = artifact_cipher
        self._telemetry = telemetry
        self._mail_cipher = mail_cipher
        self._longpoll = longpoll
        self._inbox_counter = inbox_counter
        #: one function for all mails: commit hooks with the same function share one call
        self._file = partial(messages.file, cipher=mail_cipher)
        self._rules = rules
        self._limit = limit
        self._signature_age = round(signature_age * 1000)
        self._random = random
        self._parsed: SingleFlight[ParsedMail] = SingleFlight(ParsingDeferred)
        self._judged: SingleFlight[SenderVerdict] = SingleFlight()
        self._parser_started = False
        self._parser_starting = asyncio.Lock()
        self._exit_stack = AsyncExitStack()

    async def close(self) -> None:
        """Stop the parser."""
        await self._exit_stack.aclose()
        self._parser_started = False

    async def warm_up(self) -> None:
        """Start the parser before the first mail, once the service had time for its first answers.

        It takes half a second of processor time.
        """
        await asyncio.sleep(_WARM_UP_AFTER)
        await self._start_parser()

    async def _start_parser(self) -> None:
        async with self._parser_starting:
            if not self._parser_started:
                await self._exit_stack.enter_async_context(self._parser)
                self._parser_started = True

    def time_limit(self, delivery: Delivery) -> float | None:
        """Return the seconds that one mail may take."""
        del delivery
        return self._limit

    async def process(self, delivery: Delivery) -> Settlement:
        """Parse one mail and return a settlement that files it."""
        faults.point("mail.claimed")
        try:
            message = await self._new_message(delivery)
        except ParsingDeferred as deferred:
            self._telemetry.mail_deferred.labels(deferred.reason).inc()
            released = release_settlement(delivery, self._ledger.clock())
            return msgspec.structs.replace(released, heavy=True)
        return Settlement(
            delivery=delivery,
            state=DeliveryState.DONE,
            outcome=DeliveryOutcome.HANDLED,
            commit_hook=CommitHook(self._file, message, partial(self._on_filed, message)),
        )

    def settle_failure(self, delivery: Delivery, error: BaseException) -> Settlement:
        """Return whether a mail that could not be filed is tried again, and when."""
        now = self._ledger.clock()
        if isinstance(error, _ParserUnavailable):  # not the fault of the mail
            return release_settlement(delivery, now + _RETRY_AFTER_MS)
        failure = failure_from_error(error)
        if not isinstance(error, Permanent):  # the text of other errors may quote the mail
            name = error.code if isinstance(error, OnceboxError) else type(error).__name__
            failure = msgspec.structs.replace(failure, error=name)
        settled = settle_failure(delivery, failure, self._rules, now=now, random=self._random)
        return settlements.with_traceback(self._telemetry.log, settled, error)

    async def _new_message(self, delivery: Delivery) -> NewMessage:
        envelope = received_mail.decode_envelope(delivery.headers)
        inbox_id = delivery.key.rpartition(":")[0]
        recipient = next((each for each in envelope.recipients if each.inbox_id == inbox_id), None)
        if recipient is None:
            raise Permanent("the envelope does not name the inbox")
        flow = MailFlow(delivery.tenant, inbox_id, sender_limit_key(envelope.client))
        rules, (delivery, parsed) = await asyncio.gather(
            self._inbox_rules.read((inbox_id, delivery.tenant)),
            self._decrypt_and_parse(delivery, flow, shared=len(envelope.recipients) > 1),
        )
        if rules is None:
            raise Permanent("there is no such inbox")
        faults.point("mail.parsed")
        arrival = Arrival(
            recipient=recipient.address,
            received_at=delivery.received_at,
            inbox_created_at=rules.created_at,
            forwards=rules.policy.forwards or envelope.any_recipient,
        )
        verdict = await self._judge_sender(envelope, parsed, delivery, arrival, flow)
        found = build_artifacts(
            self._artifact_cipher, delivery.tenant, inbox_id, parsed, verdict, rules.policy
        )
        expected, why = match_policy(
            rules.policy, parsed, verdict, recipient.address, has_artifact=bool(found)
        )
        faults.point("artifacts.sealed")
        make = partial(
            new_message,
            delivery,
            recipient,
            envelope,
            verdict=verdict,
            ids=(ids.new("msg"), ids.new("evt")),
        )
        try:
            message = make(parsed=parsed, mismatch="" if expected else why, artifacts=found)
        except ValueError:  # it contains text that cannot be encoded as JSON
            message = make(parsed=_UNPARSED, mismatch="unparsed")
        aad = ciphers.document_aad(delivery.tenant, message.message_id)
        encoded = self._mail_cipher.encrypt(message.encoded, aad)
        return msgspec.structs.replace(message, encoded=encoded)

    async def _judge_sender(
        self,
        envelope: Envelope,
        parsed: ParsedMail,
        delivery: Delivery,
        arrival: Arrival,
        flow: MailFlow,
    ) -> SenderVerdict:
        raw, payload_id = delivery.body, delivery.payload_id
        check = partial(self._parser.check, flow=flow)
        judge = partial(self._authenticate, envelope, parsed, raw, check)
        try:
            if len(envelope.recipients) > 1:
                verdict = await self._judged.result(payload_id, len(raw), judge)
            else:
                verdict = await judge()
        except Exception:
            self._telemetry.log.exception("sender_authentication_failed")
            verdict = _TEMPERROR
        return note_replay_signs(verdict, parsed, arrival, self._signature_age)

    async def _decrypt_and_parse(
        self, delivery: Delivery, flow: MailFlow, *, shared: bool
    ) -> tuple[Delivery, ParsedMail]:
        """Return a delivery with its raw mail, and the parsed mail; a ``shared`` one only once.

        Raises: Permanent, if it cannot be decrypted; another try would fail too.
        """
        decrypt, aad = (
            self._mail_cipher.decrypt,
            ciphers.mail_aad(delivery.tenant, delivery.payload_id),
        )
        try:
            if len(delivery.body) < LARGE:
                raw = decrypt(delivery.body, aad)
            else:
                raw = await asyncio.to_thread(decrypt, delivery.body, aad)
        except MailDecryptionFailed as error:
            raise Permanent(str(error)) from error
        delivery = msgspec.structs.replace(delivery, body=raw)
        if await self._killed_its_workers(delivery):
            return delivery, _UNPARSED
        try:
            await self._start_parser()
            read = partial(self._parser.parse, raw, flow)
            if shared:
                parsed = await self._parsed.result(delivery.payload_id, len(raw), read)
            else:
                parsed = await read()
        except OnceboxError as error:
            if not error.retry_safe:
                raise
            self._telemetry.log.warning("mail_not_parsed", code=error.code)
            raise _ParserUnavailable from error
        identity = self._mail_cipher.message_fingerprint(parsed.identity)
        return delivery, msgspec.structs.replace(parsed, identity=identity)

    async def _killed_its_workers(self, delivery: Delivery) -> bool:
        """Record that the parsing of a suspect begins; return whether it began too often before."""
        if delivery.tries <= _UNSUSPECTED_TRIES:
            return False
        begun = await self._retrying.submit(settlements.begin, delivery)
        return begun >= _MAX_PARSE_TRIES

    def _on_filed(self, message: NewMessage, filed: NewMessageResult) -> None:
        """Count a filed message, and wake the long polls that wait for it."""
        faults.point("mail.committed")
        if filed.sequence is not None:
            self._longpoll.message_filed(
                (message.inbox_id, message.delivery.tenant), filed.sequence
            )
            self._ledger.notify(STREAM if filed.numbered else EVENTS)
            self._telemetry.messages.labels(filed.status).inc()
            if filed.since_inbox is not None:
                self._telemetry.time_to_first_message.observe(filed.since_inbox / 1000)
            for kind, end in filed.artifacts:
                self._telemetry.artifacts.labels(kind.value, end).inc()
                if end == "duplicate":
                    self._telemetry.artifact_duplicates.labels(kind.value).inc()
                    self._inbox_counter.count(
                        message.inbox_id, message.delivery.tenant, "artifact_duplicates"
                    )
        elif filed.duplicate:
            self._telemetry.duplicates.labels("message", "copy").inc()
