"""Inbound mail by webhook: routed to inboxes, fetched where needed, on disk before it is answered.

See docs/decisions/0054-use-raw-mime-and-answer-tables-for-inbound-webhooks.md.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from oncebox.core import faults
from oncebox.core.aws_signature import AwsCredentials, object_path, sign_get
from oncebox.core.disk_space import DiskLevel, DiskSpace
from oncebox.core.metrics import Telemetry
from oncebox.errors import EgressError, NotFound, OnceboxError, SignatureInvalid
from oncebox.errors.http import (
    InboundBodyGone,
    InboundInboxFull,
    InboundMailDelayed,
    InboundMailRefused,
    InboundMailTooLarge,
    InboundNotFetched,
    InboundRawMissing,
    MethodNotAllowed,
    SenderNotAllowed,
    SignatureRefused,
)
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.inboxes import inboxes
from oncebox.ledger.inboxes.mail_intake import MailIntake, WebhookMail
from oncebox.ledger.inboxes.recipient_directory import RecipientDirectory, RecipientStatus
from oncebox.ledger.transactions import Ledger
from oncebox.model.deliveries.delivery import ArrivalKind, NewDelivery
from oncebox.model.inboxes.received_mail import Envelope, EnvelopeRecipient, InboundOutcome
from oncebox.server.webhooks.request_verification import CompiledSource
from oncebox.webhooks.http_request import WebhookRequest
from oncebox.webhooks.inbound import (
    InboundAnswers,
    InboundMail,
    MalformedInbound,
    ResendEmail,
    S3Object,
)
from oncebox.webhooks.paths import DECODE_ERRORS
from oncebox.webhooks.scheme import HandshakeReply

if TYPE_CHECKING:
    from oncebox.core.egress import Egress, EgressResponse

#: bytes from which parsing and encrypting go to a thread
_LARGE = 256 * 1024
_RESEND_API = "https://api.resend.com"
#: seconds for each request to a provider
_FETCH_WITHIN = 30.0
#: fetches at the same time, each of one mail in memory
_MOST_FETCHES = 8
_METADATA_BYTES = 16 * 1024 * 1024
_OK, _REFUSED, _GONE = 200, frozenset({401, 403}), frozenset({404, 410})
#: what an error of a mail is in metrics, the more special ones first
_OUTCOMES: tuple[tuple[type[OnceboxError], InboundOutcome], ...] = (
    (InboundRawMissing, InboundOutcome.RAW_MISSING),
    (InboundBodyGone, InboundOutcome.GONE),
    (InboundNotFetched, InboundOutcome.NOT_FETCHED),
    (InboundInboxFull, InboundOutcome.FULL),
    (InboundMailTooLarge, InboundOutcome.TOO_LARGE),
    (InboundMailDelayed, InboundOutcome.FAILED),
    (InboundMailRefused, InboundOutcome.MALFORMED),
    (OnceboxError, InboundOutcome.FAILED),
)


def refusal_status(answers: InboundAnswers, error: type[OnceboxError]) -> int | None:
    """Return the status of an error in the provider's terms; 0 closes, None is the usual one."""
    if issubclass(error, SignatureRefused):
        return answers.unverified
    if issubclass(error, SenderNotAllowed | MethodNotAllowed):
        return None
    is_lasting = issubclass(error, InboundMailRefused) and not error.retry_safe
    return answers.refused if is_lasting else answers.temporary


class _Routes(NamedTuple):
    """The inboxes of a mail that accept it, and whether another one is full."""

    recipients: tuple[EnvelopeRecipient, ...]
    is_full: bool


class InboundReceiver:
    """Stores the mails of verified requests; each is committed before it is answered."""

    def __init__(  # noqa: PLR0913 - its collaborators
        self,
        ledger: Ledger,
        recipients: RecipientDirectory,
        intake: MailIntake,
        fetcher: "MailFetcher",
        telemetry: Telemetry,
        *,
        largest: int,
        disk: DiskSpace | None = None,
    ) -> None:
        """Refuse mail of more than ``largest`` bytes."""
        self._ledger = ledger
        self._recipients = recipients
        self._intake = intake
        self._fetcher = fetcher
        self._telemetry = telemetry
        self._largest = largest
        self._disk = disk

    async def receive(self, compiled: CompiledSource, request: WebhookRequest) -> HandshakeReply:
        """Return the answer to a verified request, after the commit of its mails.

        Raises: InboundMailRefused, StoreError.
        """
        try:
            mails = await _parse(compiled, request)
        except InboundMailRefused as error:
            self._count_error(compiled, error)
            raise
        if not mails:
            self._count(compiled, InboundOutcome.IGNORED)
            return _reply(InboundOutcome.IGNORED)
        results = await asyncio.gather(
            *(self._receive_one(compiled, mail) for mail in mails), return_exceptions=True
        )
        return _combined(compiled, results)

    async def draft(self, compiled: CompiledSource, request: WebhookRequest) -> list[NewDelivery]:
        """Return the deliveries of a verified request, which the caller stores.

        Raises: InboundMailRefused.
        """
        drafts = [await self._draft(compiled, mail) for mail in await _parse(compiled, request)]
        found = [one for mail, _ in drafts if mail is not None for one in mail.deliveries]
        if not found:
            raise InboundMailRefused("the mail is for no inbox of this tenant; discard the request")
        return found

    async def _receive_one(self, compiled: CompiledSource, mail: InboundMail) -> InboundOutcome:
        try:
            outcome = await self._store(compiled, mail)
        except OnceboxError as error:
            self._count_error(compiled, error)
            raise
        self._count(compiled, outcome)
        return outcome

    async def _store(self, compiled: CompiledSource, mail: InboundMail) -> InboundOutcome:
        drafted, is_full = await self._draft(compiled, mail)
        if drafted is None:
            return InboundOutcome.UNROUTED
        accepted = await self._intake.store_webhook(drafted)
        faults.point("inbound.committed")
        if is_full:  # the others have it; a repeat is a duplicate there
            raise InboundInboxFull
        self._telemetry.log.debug(
            "inbound_mail_stored",
            source=compiled.source.name,
            deliveries=[each.id for each in accepted],
        )
        is_new = any(each.arrival is ArrivalKind.NEW for each in accepted)
        return InboundOutcome.STORED if is_new else InboundOutcome.DUPLICATE

    async def _draft(
        self, compiled: CompiledSource, mail: InboundMail
    ) -> tuple[WebhookMail | None, bool]:
        """Return a mail with its deliveries, None if it is for nobody; and if an inbox is full."""
        if mail.raw is None:
            raise InboundRawMissing(
                f"the request does not contain the raw mail; {compiled.mail_provider.raw_remedy}"
            )
        routes = await self._routes(compiled, mail)
        if not routes.recipients:
            if routes.is_full:
                raise InboundInboxFull
            return None, False
        raw = mail.raw
        if not isinstance(raw, bytes):
            raw = await self._fetcher.fetch(raw, compiled, self._largest)
            faults.point("inbound.fetched")
        self._check_size(raw)
        return await self._webhook_mail(compiled, mail, routes, raw), routes.is_full

    async def _webhook_mail(
        self, compiled: CompiledSource, mail: InboundMail, routes: _Routes, raw: bytes
    ) -> WebhookMail:
        source = compiled.source
        envelope = Envelope(
            client=mail.client,
            helo="",
            sender=mail.sender,
            recipients=routes.recipients,
            origin=source.name,
            any_recipient=source.inbox is not None,
        )
        make = self._intake.webhook_mail
        arguments = (source.tenant, source.name, envelope, raw, mail.provider_id)
        if len(raw) < _LARGE:
            return make(*arguments)
        return await asyncio.to_thread(make, *arguments)

    def _check_size(self, raw: bytes) -> None:
        if len(raw) > self._largest:
            raise InboundMailTooLarge
        level = DiskLevel.OK if self._disk is None else self._disk.level
        if level >= (DiskLevel.NO_LARGE_MAIL if len(raw) >= _LARGE else DiskLevel.NO_MAIL):
            raise InboundInboxFull("the disk is almost full")

    # routing

    async def _routes(self, compiled: CompiledSource, mail: InboundMail) -> _Routes:
        if compiled.source.inbox is not None:
            return await self._bound(compiled, compiled.source.inbox)
        routes = await self._by_address(compiled, mail.recipients)
        if not (routes.recipients or routes.is_full) and mail.named:
            routes = await self._by_address(compiled, mail.named)
        return routes

    async def _by_address(self, compiled: CompiledSource, addresses: Sequence[str]) -> _Routes:
        """Find the inboxes of addresses; those of other tenants are unknown here."""
        found: dict[str, EnvelopeRecipient] = {}
        is_full = False
        for address in addresses:
            local, _, domain = address.rpartition("@")
            route = await self._recipients.find(local, domain)
            if route.tenant != compiled.source.tenant:
                continue
            is_full = is_full or route.status is RecipientStatus.FULL
            if route.status is RecipientStatus.OPEN and route.inbox_id not in found:
                found[route.inbox_id] = EnvelopeRecipient(
                    inbox_id=route.inbox_id, tenant=route.tenant, address=address
                )
        return _Routes(tuple(found.values()), is_full)

    async def _bound(self, compiled: CompiledSource, inbox_id: str) -> _Routes:
        """Return the inbox of the source, if it accepts mail."""
        requester = Requester(tenant=compiled.source.tenant)
        try:
            inbox = await self._ledger.read(inboxes.get, requester, inbox_id)
        except NotFound as error:
            raise InboundMailDelayed(
                "the inbox of this source does not exist; choose another with: "
                f"oncebox source set {compiled.source.name} --inbox ID"
            ) from error
        return await self._by_address(compiled, [inbox.email])

    # metrics and log: ids only

    def _count(self, compiled: CompiledSource, outcome: InboundOutcome) -> None:
        self._telemetry.inbound_mails.labels(compiled.mail_provider.name, outcome).inc()

    def _count_error(self, compiled: CompiledSource, error: OnceboxError) -> None:
        self._count(compiled, next(end for kind, end in _OUTCOMES if isinstance(error, kind)))
        self._telemetry.log.warning(
            "inbound_mail_refused",
            source=compiled.source.name,
            tenant=compiled.source.tenant,
            provider=compiled.mail_provider.name,
            code=error.code,
        )


async def _parse(compiled: CompiledSource, request: WebhookRequest) -> Sequence[InboundMail]:
    provider = compiled.mail_provider
    try:
        if len(request.body) < _LARGE:
            return provider.parse(request)
        return await asyncio.to_thread(provider.parse, request)
    except (MalformedInbound, SignatureInvalid) as error:
        raise InboundMailRefused(
            f"the request cannot be read; compare its format and content type with what "
            f"{provider.title} sends, in docs/inbound-webhooks.md"
        ) from error


def _combined(
    compiled: CompiledSource, results: Sequence[InboundOutcome | BaseException]
) -> HandshakeReply:
    """Return one answer for all mails of a request: again if one of them needs it."""
    failed = [each for each in results if isinstance(each, BaseException)]
    lasting = [each for each in failed if type(each) in {InboundMailRefused, InboundMailTooLarge}]
    if len(lasting) < len(failed) or len(failed) == len(results):
        raise next((each for each in failed if each not in lasting), failed[0])
    outcomes = [each for each in results if isinstance(each, InboundOutcome)]
    if all(each is InboundOutcome.UNROUTED for each in outcomes):
        status = compiled.mail_provider.answers.unrouted
        return _reply(InboundOutcome.UNROUTED, status)
    return _reply(InboundOutcome.STORED)


_BODIES = {
    InboundOutcome.STORED: b'{"status":"accepted"}',
    InboundOutcome.IGNORED: b'{"status":"ignored"}',
    InboundOutcome.UNROUTED: b'{"status":"unrouted"}',
}


def _reply(outcome: InboundOutcome, status: int = 200) -> HandshakeReply:
    headers = (("content-type", "application/json"),)
    return HandshakeReply(status=status, headers=headers, body=_BODIES[outcome])


# fetching


class _ResendRaw(msgspec.Struct, frozen=True):
    url: str = msgspec.field(default="", name="download_url")


class _ResendReceived(msgspec.Struct, frozen=True):
    raw: _ResendRaw | None = None


class MailFetcher:
    """Fetches mails that a webhook only names, with the key of its source."""

    def __init__(self, egress: "Callable[[], Egress]", *, clock: Callable[[], int]) -> None:
        """Make the HTTP client when it is first used."""
        self._egress = egress
        self._clock = clock
        self._turns = asyncio.Semaphore(_MOST_FETCHES)

    async def fetch(
        self, where: S3Object | ResendEmail, compiled: CompiledSource, largest: int
    ) -> bytes:
        """Return a raw mail.

        Raises: InboundBodyGone, InboundNotFetched, InboundMailTooLarge.
        """
        if not compiled.fetch_key:
            raise InboundNotFetched(
                "the source has no key to fetch mail with; add one with: "
                f"oncebox source secret add {compiled.source.name} --secret -"
            )
        async with self._turns:
            try:
                if isinstance(where, S3Object):
                    return await self._from_s3(where, compiled, largest)
                return await self._from_resend(where, compiled, largest)
            except EgressError as error:
                raise InboundNotFetched from error

    async def _from_resend(
        self, where: ResendEmail, compiled: CompiledSource, largest: int
    ) -> bytes:
        base = compiled.options.api_url.rstrip("/") or _RESEND_API
        headers = {"authorization": f"Bearer {compiled.fetch_key}", "accept": "application/json"}
        text = await self._get(f"{base}/emails/receiving/{where.id}", headers, _METADATA_BYTES)
        try:
            found = msgspec.json.decode(text, type=_ResendReceived)
        except DECODE_ERRORS as error:
            raise InboundNotFetched from error
        if found.raw is None or not found.raw.url:
            raise InboundBodyGone
        return await self._get(found.raw.url, {}, largest)

    async def _from_s3(self, where: S3Object, compiled: CompiledSource, largest: int) -> bytes:
        options = compiled.options
        if where.bucket not in options.buckets:
            raise InboundNotFetched(
                "the mail is in a bucket that this source does not list; list it with: oncebox "
                f"source set {compiled.source.name} --option 'buckets=[\"NAME\"]'"
            )
        region = options.region or where.region
        ending = ".cn" if region.startswith("cn-") else ""
        base = options.api_url.rstrip("/") or f"https://s3.{region}.amazonaws.com{ending}"
        url = base + object_path(where.bucket, where.key)
        key_id, secret, *session = compiled.fetch_key.split(":", 2)
        credentials = AwsCredentials(key_id, secret, *session)
        headers = sign_get(url, credentials, region=region, service="s3", now=self._clock())
        return await self._get(url, headers, largest)

    async def _get(self, url: str, headers: dict[str, str], most: int) -> bytes:
        answer = await self._egress().fetch(url, headers=headers, most=most, within=_FETCH_WITHIN)
        if answer.status in _GONE:
            raise InboundBodyGone
        if answer.status in _REFUSED:
            raise InboundNotFetched("the provider refuses the key of this source; replace it")
        if answer.status != _OK:
            raise InboundNotFetched
        if answer.body is None:
            if _announced_size(answer) > most:
                raise InboundMailTooLarge
            raise InboundNotFetched
        return answer.body


def _announced_size(answer: "EgressResponse") -> int:
    text = answer.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0  # noqa: PLR2004 - what 64 bits hold
