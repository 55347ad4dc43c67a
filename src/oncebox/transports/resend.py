"""Resend transport: one mail per API request, and its webhook events about sent mail.

The outcome is unknown only between the moment the body is pulled and a readable response. The
body is pulled once the connection with TLS is up, and the marker is committed right before: a
failure until then means "not sent". Key and bytes are identical at every repeat, so Resend
repeats its first response within a day.
See docs/decisions/0031-use-a-marker-before-the-point-of-no-return.md.

Webhook events arrive through the ledger, signed; it decides which sends they may concern.
"""

import asyncio
import base64
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import msgspec

from oncebox.core import clock, faults
from oncebox.core.connecting import ErrorCodes
from oncebox.core.egress import Egress, EgressResponse
from oncebox.errors import ConfigInvalid, EgressFailed, EgressRefused
from oncebox.errors.sends import MailboxInvalid
from oncebox.mail.compose.mime_writer import auto_submitted
from oncebox.model.inboxes.addresses import parse_mailbox
from oncebox.model.sends.email import Attachment, Email
from oncebox.model.sends.transports import (
    FENCE_LOST,
    KEY_MISMATCH,
    NotSent,
    ProviderStatus,
    SendAccepted,
    SendOutcome,
    SendPhase,
    SendRejected,
    SendUnknown,
)
from oncebox.transports.transport import (
    CAPABILITIES,
    CONNECT_ERROR_CODES,
    DEADLINE_PASSED,
    Capability,
    HandoverMarker,
    OutgoingMail,
    connect_failure,
    deadline_timeout,
    error_chain,
)

#: seconds for the response, counted from the body
RESPONSE_TIMEOUT = 60.0
#: the tag that carries the id of our send
SEND_ID_TAG = "oncebox"

_API_KEY = re.compile(r"[!-~]{1,512}")
_PROVIDER_ID = re.compile(r"[!-~]{1,256}")
_ERROR_NAME = re.compile(r"[a-z0-9_]{1,64}")
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})
_MAX_RESPONSE_BYTES = 65_536
#: bytes of a request, with all that is attached
_MAX_REQUEST_BYTES = 40 * 1024 * 1024
_CHUNK_BYTES = 65_536
_TOO_MANY_REQUESTS = 429
_CONFLICT = 409

_REFUSAL_STATUSES = frozenset({400, 404, 405, 413, 422})
_AUTH_STATUSES = frozenset({401, 403})
#: names of 403 responses that concern one mail and not the API key
_SENDER_ERRORS = frozenset({"validation_error", "invalid_from_address"})
_SECURITY_ERROR = (451, "security_error")
_EMPTY_MAIL = b"{}"


class ResendConfig(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="resend"
):
    """An account at Resend, or at a compatible service."""

    api_key: str
    url: str = "https://api.resend.com"
    #: name of the webhook source that receives its events
    source: str = ""

    def __repr__(self) -> str:
        return f"ResendConfig({self.url})"


@dataclass(slots=True)
class _RequestProgress:
    phase: SendPhase = SendPhase.CONNECT
    #: why the body was withheld
    withheld_code: str = ""
    #: the marker's exception
    marker_error: Exception | None = None


class _BodyWithheld(Exception):
    """The body must not be sent."""


class ResendTransport:
    """Sends mail by Resend; never retries."""

    capability: Capability = CAPABILITIES["resend"]

    def __init__(
        self,
        config: ResendConfig,
        *,
        egress: Egress | None = None,
        answer_within: float = RESPONSE_TIMEOUT,
    ) -> None:
        """Configure only; nothing is opened."""
        check_resend_config(config)
        self._url = f"{config.url.rstrip('/')}/emails"
        self._key = config.api_key
        self._answer_within = answer_within
        self._egress = egress or Egress(local=_loopback_addresses(config.url))

    async def send(
        self, mail: OutgoingMail, before_point_of_no_return: HandoverMarker
    ) -> SendOutcome:
        """Send a mail; see `MailTransport.send`."""
        body = request_body(mail)
        flaw = _find_request_flaw(mail, body)
        if flaw is not None:
            return SendRejected(code=flaw, phase=SendPhase.CONNECT)
        progress = _RequestProgress()
        try:
            reply = await self._post(mail, body, progress, before_point_of_no_return)
        except (_BodyWithheld, EgressFailed, EgressRefused, TimeoutError) as error:
            if progress.marker_error is not None:
                raise progress.marker_error from None
            return _outcome_without_answer(error, progress)
        faults.point("sends.reply_read")
        return judge_response(reply, progress.phase)

    async def probe(self, deadline: float) -> NotSent | None:
        """Post an empty mail, which no provider accepts; see `MailTransport.probe`.

        An API key with sending access only allows no other request.
        """
        headers = self._headers(_EMPTY_MAIL)
        try:
            async with deadline_timeout(deadline):
                reply = await self._egress.post(self._url, _empty_mail_body(), headers=headers)
        except (EgressFailed, EgressRefused, TimeoutError) as error:
            found: SendOutcome = _outcome_without_answer(error, _RequestProgress())
        else:
            found = judge_response(reply)
        if isinstance(found, SendUnknown):
            return NotSent(code=found.code, phase=found.phase, reply=found.reply)
        return found if isinstance(found, NotSent) else None

    async def close(self) -> None:
        """Close open connections."""
        await self._egress.close()

    async def _post(
        self, mail: OutgoingMail, body: bytes, progress: _RequestProgress, marker: HandoverMarker
    ) -> EgressResponse:
        headers = {**self._headers(body), "idempotency-key": mail.provider_key}
        async with deadline_timeout(mail.deadline) as limit:
            pulled = self._body_after_marker(mail, body, progress, marker, limit)
            return await self._egress.post(
                self._url, pulled, headers=headers, most=_MAX_RESPONSE_BYTES
            )

    def _headers(self, body: bytes) -> dict[str, str]:
        return {
            "authorization": f"Bearer {self._key}",
            "content-type": "application/json",
            "content-length": str(len(body)),
        }

    async def _body_after_marker(
        self,
        mail: OutgoingMail,
        body: bytes,
        progress: _RequestProgress,
        marker: HandoverMarker,
        limit: asyncio.Timeout,
    ) -> AsyncIterator[bytes]:
        progress.phase = SendPhase.BODY
        faults.point("sends.connected")
        # A commit is never interrupted: its outcome would be unknown.
        limit.reschedule(None)
        try:
            marked = await marker()
        except Exception as error:
            # Any exception: it must not be mistaken for a network failure.
            progress.marker_error = error
            raise _BodyWithheld from error
        if not marked:
            progress.withheld_code = FENCE_LOST
            raise _BodyWithheld
        progress.phase = SendPhase.MARKED
        if clock.steady() >= mail.deadline:
            progress.withheld_code = DEADLINE_PASSED
            raise _BodyWithheld
        limit.reschedule(asyncio.get_running_loop().time() + self._answer_within)
        progress.phase = SendPhase.HANDED_OVER
        for at in range(0, len(body), _CHUNK_BYTES):
            yield body[at : at + _CHUNK_BYTES]
        faults.point("sends.handed_over")


async def _empty_mail_body() -> AsyncIterator[bytes]:
    yield _EMPTY_MAIL


def check_resend_config(config: ResendConfig) -> None:
    """Check the configuration of an account; the key is never sent in the clear."""
    if not _API_KEY.fullmatch(config.api_key):
        raise ConfigInvalid("Resend needs an API key, such as re_…")
    try:
        parts = urlsplit(config.url)
        port = parts.port
        (parts.hostname or "").encode("idna")
    except ValueError as error:
        raise ConfigInvalid(
            "the URL of Resend is invalid; write one such as https://api.resend.com"
        ) from error
    secured = parts.scheme == "https" and port in {None, 443}
    here = parts.scheme == "http" and parts.hostname in _LOOPBACK_HOSTS
    more = parts.query or parts.fragment or "@" in parts.netloc
    if not parts.hostname or not (secured or here) or more:
        raise ConfigInvalid(
            "the URL of Resend is one such as https://api.resend.com, without a port"
        )


def request_body(mail: OutgoingMail) -> bytes:
    """Return the request body: identical at every repeat, because Resend compares it."""
    email = mail.email
    fields: dict[str, Any] = {
        "from": email.sender,
        "to": email.to,
        "cc": email.cc,
        "bcc": email.bcc,
        "reply_to": email.reply_to,
        "subject": email.subject,
        "text": email.text,
        "html": email.html,
        "headers": _headers(email, mail.message_id),
        "attachments": [_attachment_json(each) for each in email.attachments],
        # The last tag identifies our send in events.
        "tags": [
            {"name": name, "value": value}
            for name, value in {**email.tags, SEND_ID_TAG: mail.send_id}.items()
        ],
    }
    if email.html and not email.text:
        del fields["text"]
    required = {"from", "to", "subject", "text"}
    return msgspec.json.encode(
        {name: value for name, value in fields.items() if value or name in required}
    )


def judge_response(reply: EgressResponse, phase: SendPhase = SendPhase.HANDED_OVER) -> SendOutcome:
    """Classify a response; only its status and a known error name are kept."""
    if phase in {SendPhase.CONNECT, SendPhase.BODY, SendPhase.MARKED}:
        # A response before the body: without a body there is no mail.
        return _answered_before_body(reply, phase)
    if 200 <= reply.status < 300:  # noqa: PLR2004 - the class of success
        id_ = _response_field(reply, "id", _PROVIDER_ID)
        if id_ is None:
            return SendUnknown(
                code="answer_unreadable", phase=SendPhase.ANSWERED, reply=reply.status
            )
        return SendAccepted(provider_id=id_)
    name = _response_field(reply, "name", _ERROR_NAME) or ""
    if reply.status == _TOO_MANY_REQUESTS or reply.status in _AUTH_STATUSES:
        return _account_refusal(reply, name)
    if reply.status in _REFUSAL_STATUSES or (reply.status, name) == _SECURITY_ERROR:
        return SendRejected(code="message_refused", phase=SendPhase.ANSWERED, reply=reply.status)
    code = "server_error" if reply.status >= 500 else "answer_unexpected"  # noqa: PLR2004
    if reply.status == _CONFLICT:
        code = _CONFLICT_CODES.get(name, code)
    return SendUnknown(code=code, phase=SendPhase.ANSWERED, reply=reply.status)


#: an earlier request with this key is in progress or had another body; a new key is never tried,
#: because the earlier request may have been accepted
_CONFLICT_CODES = {
    "concurrent_idempotent_requests": "key_in_use",
    "invalid_idempotent_request": KEY_MISMATCH,
}


def _account_refusal(reply: EgressResponse, name: str) -> NotSent | SendRejected:
    """Classify a refusal that concerns the account, so the mail is not rejected."""
    if reply.status == _TOO_MANY_REQUESTS:
        code = "quota_exceeded" if name.endswith("quota_exceeded") else "rate_limited"
        wait = _retry_after(reply)
        return NotSent(code=code, phase=SendPhase.ANSWERED, reply=reply.status, retry_after=wait)
    if reply.status == 403 and name in _SENDER_ERRORS:  # noqa: PLR2004 - forbidden
        return SendRejected(code="sender_refused", phase=SendPhase.ANSWERED, reply=reply.status)
    code = "login_refused"
    return NotSent(code=code, phase=SendPhase.ANSWERED, reply=reply.status, opens_circuit=True)


def _answered_before_body(reply: EgressResponse, phase: SendPhase) -> NotSent:
    found = _retry_after(reply) if reply.status == _TOO_MANY_REQUESTS else None
    refused = reply.status in _AUTH_STATUSES
    return NotSent(
        code="login_refused" if refused else "answered_early",
        phase=phase,
        reply=reply.status,
        retry_after=found,
        opens_circuit=refused,
    )


def _outcome_without_answer(error: Exception, progress: _RequestProgress) -> NotSent | SendUnknown:
    if progress.withheld_code:
        return NotSent(code=progress.withheld_code, phase=progress.phase)
    if progress.phase is SendPhase.HANDED_OVER:
        code = "no_answer" if isinstance(error, TimeoutError) else "connection_lost"
        return SendUnknown(code=code, phase=SendPhase.HANDED_OVER)
    causes = error_chain(error, with_context=True)
    return connect_failure(causes, progress.phase, _ERROR_CODES)


_ERROR_CODES: ErrorCodes = ((EgressRefused, "address_refused"), *CONNECT_ERROR_CODES)


def _response_field(reply: EgressResponse, name: str, form: re.Pattern[str]) -> str | None:
    """Return a text field of a JSON response, if it has the expected form."""
    try:
        said = msgspec.json.decode(reply.body or b"")
    except (msgspec.DecodeError, RecursionError):
        return None
    found = said.get(name) if isinstance(said, dict) else None
    return found if isinstance(found, str) and form.fullmatch(found) else None


def _retry_after(reply: EgressResponse) -> int | None:
    found = reply.headers.get("retry-after", "").strip()
    return round(float(found) * 1000) if _SECONDS.fullmatch(found) else None


def _find_request_flaw(mail: OutgoingMail, body: bytes) -> str | None:
    email = mail.email
    if not email.to:
        return "to_missing"
    if len(email.to) + len(email.cc) + len(email.bcc) > ResendTransport.capability.max_recipients:
        return "too_many_recipients"
    if not re.fullmatch(ResendTransport.capability.key_pattern, mail.provider_key):
        return "provider_key_invalid"
    return "message_too_large" if len(body) > _MAX_REQUEST_BYTES else None


def _headers(email: Email, message_id: str) -> dict[str, str]:
    found = {"Message-ID": message_id, "Auto-Submitted": auto_submitted(email)}
    if email.unsubscribe:
        found["List-Unsubscribe"] = f"<{email.unsubscribe}>"
        if email.unsubscribe.startswith("https:"):
            found["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    return {**found, **email.headers}


def _attachment_json(attachment: Attachment) -> dict[str, str]:
    found = {
        "filename": attachment.name,
        "content": base64.b64encode(attachment.content).decode("ascii"),
        "content_type": attachment.media_type,
    }
    if attachment.content_id:
        found["content_id"] = attachment.content_id
    return found


def _loopback_addresses(url: str) -> tuple[str, ...]:
    """Return host and port of a loopback URL, which the egress must allow."""
    parts = urlsplit(url)
    return (f"{parts.hostname}:{parts.port or 80}",) if parts.scheme == "http" else ()


_EVENT_TYPES = {
    "email.sent": ProviderStatus.ACCEPTED,
    "email.delivered": ProviderStatus.DELIVERED,
    "email.delivery_delayed": ProviderStatus.DELAYED,
    "email.bounced": ProviderStatus.SOFT_BOUNCED,
    "email.complained": ProviderStatus.COMPLAINED,
    "email.failed": ProviderStatus.FAILED,
    "email.suppressed": ProviderStatus.SUPPRESSED,
    "email.opened": ProviderStatus.OPENED,
    "email.clicked": ProviderStatus.CLICKED,
}
#: the bounce type of permanent failures; a full mailbox is another one
_PERMANENT_BOUNCE = "permanent"
_SEND_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
#: more than any mail has
_MAX_ADDRESSES = 200


class ResendEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One webhook event of Resend about one mail."""

    provider_id: str
    #: the send named by our tag; empty without one
    send_id: str
    kind: ProviderStatus
    #: milliseconds since 1970; None if missing
    at: int | None
    #: the address it concerns, normalised; empty if there are several, because the event does not
    #: say which one is meant
    addresses: tuple[str, ...]

    def __repr__(self) -> str:
        return f"ResendEvent({self.kind}, {len(self.addresses)} addresses)"


def read_resend_event(body: bytes) -> ResendEvent | None:
    """Return the event in a webhook body; None if it is none we know."""
    try:
        said = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    kind, data = (said.get("type"), said.get("data")) if isinstance(said, dict) else (None, None)
    what = _EVENT_TYPES.get(kind) if isinstance(kind, str) else None
    if what is None or not isinstance(data, dict):
        return None
    provider_id = _matching_text(data.get("email_id"), _PROVIDER_ID)
    if not provider_id:
        return None
    return ResendEvent(
        provider_id=provider_id,
        send_id=_matching_text(dict(_tags_by_name(data.get("tags"))).get(SEND_ID_TAG), _SEND_ID),
        kind=_bounce_kind(data) if what is ProviderStatus.SOFT_BOUNCED else what,
        at=_parse_time(said.get("created_at")),
        addresses=_only_address(data.get("to")),
    )


def _bounce_kind(data: dict[str, Any]) -> ProviderStatus:
    """Tell permanent from temporary bounces; without a type it is temporary."""
    bounce = data.get("bounce")
    kind = bounce.get("type") if isinstance(bounce, dict) else None
    is_hard = isinstance(kind, str) and kind.lower() == _PERMANENT_BOUNCE
    return ProviderStatus.BOUNCED if is_hard else ProviderStatus.SOFT_BOUNCED


def _tags_by_name(tags: Any) -> Iterator[tuple[str, Any]]:
    """Yield tags by name: sent as an object, documented as a list."""
    if isinstance(tags, dict):
        yield from tags.items()
    elif isinstance(tags, list):
        for each in tags:
            if isinstance(each, dict) and isinstance(each.get("name"), str):
                yield each["name"], each.get("value")


def _only_address(given: Any) -> tuple[str, ...]:
    """Return the address if there is exactly one; others must not be suppressed with it."""
    found = tuple(dict.fromkeys(_addresses(given)))
    return found if len(found) == 1 else ()


def _addresses(given: Any) -> Iterator[str]:
    texts = given if isinstance(given, list) else [given]
    for text in texts[:_MAX_ADDRESSES]:
        if isinstance(text, str):
            try:
                yield parse_mailbox(text).key
            except MailboxInvalid:
                continue


def _parse_time(text: Any) -> int | None:
    try:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        at = round(moment.timestamp() * 1000)
    except (TypeError, ValueError, OverflowError):
        return None
    return at if at >= 0 else None


def _matching_text(value: Any, form: re.Pattern[str]) -> str:
    return value if isinstance(value, str) and form.fullmatch(value) else ""
