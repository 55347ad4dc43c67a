"""Resend-compatible ``/emails``: strict requests, responses in Resend's format.

A repeated key with another payload is refused; without a key every call is a new mail.
See docs/decisions/0036-use-resends-semantics-for-the-compatible-endpoint.md.
"""

import asyncio
import base64
import binascii
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
from starlette.routing import Route as StarletteRoute

from oncebox.components import Components
from oncebox.core import ids
from oncebox.errors import InputRefused, OnceboxError
from oncebox.errors.http import FieldsInvalid
from oncebox.errors.sends import AttachmentInvalid, SendKeyConflict
from oncebox.ledger.sends import sends
from oncebox.mail.compose import media_types
from oncebox.model.sends.email import Attachment, Email
from oncebox.model.sends.intent import Intent
from oncebox.model.sends.send import AnswerStatus, IntentAccepted, Send, SendState
from oncebox.model.sends.transports import ProviderStatus
from oncebox.schemas import resend_api as wire
from oncebox.server.api.sends import REPLAYED_HEADER, batch_item_key, find_send, send_origin
from oncebox.server.http import api_endpoint
from oncebox.server.http.api_endpoint import ApiKeyAuth
from oncebox.server.http.routing import AGENTS, ApiCall, HandlerResponse, Routes
from oncebox.server.resend.error_mapping import FieldMissing, ParameterInvalid, ResendEndpoint


def read_email(request: wire.EmailRequest) -> Email:
    """Return the requested email."""
    _check_fields(request)
    template = request.template
    return Email(
        sender=request.sender or "",
        to=request.to or (),
        cc=request.cc or (),
        bcc=request.bcc or (),
        reply_to=request.reply_to or (),
        subject=request.subject or "",
        text=request.text or "",
        html=request.html or "",
        headers=request.headers or {},
        attachments=[_read_attachment(each) for each in request.attachments or ()],
        template="" if template is None else template.id,
        variables=(template.variables or {}) if template is not None else {},
        tags=_read_tags(request.tags or ()),
    )


def read_time(text: str | None) -> int | None:
    """Return when an email is to be sent."""
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise FieldsInvalid(
            "`scheduled_at` is a time in ISO 8601 with its offset: 2026-08-05T11:52:01Z",
            pointer="/scheduled_at",
        )
    return max(0, round(at.timestamp() * 1000))


def _check_fields(request: wire.EmailRequest) -> None:
    if not request.to:
        raise FieldMissing("Missing `to` field.")
    if request.topic_id is not None:
        raise ParameterInvalid("`topic_id` is not supported; omit it")
    if request.template is not None:
        if request.html is not None or request.text is not None:
            raise FieldsInvalid("`template` renders html and text; omit them")
        return
    if not request.subject:
        raise FieldMissing("Missing `subject` field.")
    if not (request.html or request.text):
        raise FieldsInvalid("Missing `html` or `text` field.")


def _read_attachment(given: wire.EmailAttachment) -> Attachment:
    if given.path is not None:
        raise AttachmentInvalid("`path` of an attachment is not supported; send its `content`")
    if given.content is None or not given.filename:
        raise AttachmentInvalid("an attachment needs `filename` and `content`")
    return Attachment(
        name=given.filename,
        content=_attachment_content(given.content),
        media_type=given.content_type or media_types.media_type_of(given.filename),
        content_id=given.content_id or given.inline_content_id or "",
    )


def _attachment_content(given: str | list[int] | wire.JavaScriptBuffer) -> bytes:
    if isinstance(given, wire.JavaScriptBuffer):
        given = given.data
    try:
        if isinstance(given, list):
            return bytes(given)
        return base64.b64decode(given, validate=True)
    except (binascii.Error, ValueError) as error:
        raise AttachmentInvalid(
            "`content` of an attachment is base64, or numbers from 0 to 255"
        ) from error


def _read_tags(given: Sequence[wire.EmailTag]) -> dict[str, str]:
    tags = {each.name: each.value for each in given}
    if len(tags) < len(given):
        raise FieldsInvalid("`tags` has a name twice; give each its own", pointer="/tags")
    return tags


#: documented by Resend; not part of our own API description
routes = Routes()
#: emails of one batch, as at Resend
_MAX_BATCH = 100
_BATCH_DECODER = msgspec.json.Decoder(list[msgspec.Raw])
_EMAIL_DECODER = msgspec.json.Decoder(wire.EmailRequest)
_VALIDATION = b"x-batch-validation"
_EVENT_BY_STATE = {
    SendState.SENT: "sent",
    SendState.FAILED: "failed",
    SendState.EXPIRED: "failed",
    SendState.CANCELLED: "canceled",
    SendState.SUPPRESSED: "suppressed",
    # Resend has no such events; none of its own would be correct.
    SendState.UNKNOWN: "unknown",
    SendState.LOGGED: "logged",
}
#: statuses with another name at Resend
_EVENT_BY_DELIVERY = {
    ProviderStatus.DELAYED: "delivery_delayed",
    ProviderStatus.SOFT_BOUNCED: "delivery_delayed",
}


@routes("POST", "/emails", "sendEmail", scopes=AGENTS, body=wire.EmailRequest, keyed=True)
async def send_email(call: ApiCall) -> HandlerResponse:
    """Send an email."""
    intent = _to_intent(call.body, call.idempotency_key or ids.new("key"))
    answer = await call.components.outbox.send(send_origin(call), intent)
    _check_same_payload(answer, intent)
    is_new = answer.created or answer.rearmed
    return HandlerResponse(
        wire.EmailId(id=answer.send.id), 200, () if is_new else (REPLAYED_HEADER,)
    )


@routes("POST", "/emails/batch", "sendEmails", scopes=AGENTS, body=msgspec.Raw, keyed=True)
async def send_emails(call: ApiCall) -> HandlerResponse:
    """Send several emails: all, or with permissive validation the valid ones."""
    mode = call.headers.get(_VALIDATION, b"strict").lower()
    if mode not in {b"strict", b"permissive"}:
        raise ParameterInvalid("x-batch-validation must be strict or permissive")
    asked: list[msgspec.Raw] = api_endpoint.decode_body(_BATCH_DECODER, bytes(call.body))
    most = min(_MAX_BATCH, call.components.settings.sends.batch)
    if not 1 <= len(asked) <= most:
        raise FieldsInvalid(f"a batch has between 1 and {most} emails")
    key = call.idempotency_key or ids.new("key")
    if mode == b"strict":
        wanted = [_read_item(n, each, key) for n, each in enumerate(asked)]
        return await _send_batch(call, key, wanted, msgspec.UNSET)
    wanted, errors = await _split_valid(call, key, asked)
    return await _send_batch(call, key, wanted, errors)


@routes("GET", "/emails/{id}", "getEmail", scopes=AGENTS)
async def get_email(call: ApiCall) -> wire.ResendEmail:
    """Return an email to its API key and to operators."""
    send = await find_send(call)
    stored = await call.components.ledger.read(sends.with_bodies, [send])
    email = call.components.send_cipher.decrypt(stored[0])[1].email if stored else Email()
    return wire.ResendEmail(
        id=send.id,
        message_id=send.message_id,
        sender=email.sender,
        to=list(email.to),
        cc=list(email.cc),
        bcc=list(email.bcc),
        reply_to=list(email.reply_to),
        subject=email.subject,
        html=email.html or None,
        text=email.text or None,
        tags=[wire.EmailTag(name=name, value=value) for name, value in email.tags.items()],
        created_at=_iso_time(send.created_at),
        scheduled_at=None if send.send_at is None else _iso_time(send.send_at),
        last_event=_last_event(send, call.ledger.clock()),
    )


async def _send_batch(
    call: ApiCall,
    key: str,
    wanted: Sequence[Intent],
    errors: list[wire.EmailError] | msgspec.UnsetType,
) -> HandlerResponse:
    if not wanted:
        return HandlerResponse(wire.EmailIds(data=[], errors=errors), 200)
    answer = await call.components.outbox.send_batch(send_origin(call), key, wanted, strict=True)
    is_new = any(each.created or each.rearmed for each in answer.answers)
    sent = [wire.EmailId(id=each.send.id) for each in answer.answers]
    return HandlerResponse(
        wire.EmailIds(data=sent, errors=errors), 200, () if is_new else (REPLAYED_HEADER,)
    )


async def _split_valid(
    call: ApiCall, key: str, asked: Sequence[msgspec.Raw]
) -> tuple[list[Intent], list[wire.EmailError]]:
    """Return the valid emails, and the errors of the others."""
    valid: list[Intent] = []
    errors: list[wire.EmailError] = []
    for place, each in enumerate(asked):
        try:
            intent = _read_item(place, each, key)
            await asyncio.to_thread(call.components.outbox.compose, send_origin(call), intent)
        except (InputRefused, FieldsInvalid) as error:
            errors.append(wire.EmailError(index=place, message=str(error)))
        else:
            valid.append(intent)
    return valid, errors


def _read_item(place: int, raw: msgspec.Raw, key: str) -> Intent:
    """Return an email of a batch; an error names its place."""
    try:
        request = api_endpoint.decode_body(_EMAIL_DECODER, bytes(raw))
        return _to_intent(request, batch_item_key(key, place))
    except OnceboxError as error:
        error.args = (f"email {place + 1} of the batch: {error}", *error.args[1:])
        raise


def _to_intent(request: wire.EmailRequest, key: str) -> Intent:
    return Intent(
        email=read_email(request),
        key=key,
        strict=True,
        send_at=read_time(request.scheduled_at),
    )


def _check_same_payload(answer: IntentAccepted, intent: Intent) -> None:
    """Refuse a repeat with any other content, as Resend does."""
    is_new = answer.created or answer.rearmed
    is_other = (
        answer.drift
        or answer.status is AnswerStatus.CONFLICT
        or answer.send.send_at != intent.send_at
    )
    if is_other and not is_new:
        raise SendKeyConflict(
            "this idempotency key has been used with another payload; change the key or the payload"
        )


def _last_event(send: Send, now: int) -> str:
    if send.delivery is not None and send.delivery is not ProviderStatus.ACCEPTED:
        return _EVENT_BY_DELIVERY.get(send.delivery, str(send.delivery))
    if send.state in _EVENT_BY_STATE:
        return _EVENT_BY_STATE[send.state]
    return "scheduled" if send.send_at is not None and send.send_at > now else "queued"


def _iso_time(moment: int) -> str:
    return datetime.fromtimestamp(moment / 1000, UTC).isoformat(timespec="milliseconds")


def endpoints(
    components: Components, auth: ApiKeyAuth, stopping: asyncio.Event
) -> list[StarletteRoute]:
    """Return the routes of the Resend-compatible API."""
    return [
        StarletteRoute(each.path, ResendEndpoint([each], components, auth, stopping))
        for each in sorted(routes, key=lambda each: each.path.count("{"))
    ]
