"""Sends: requests, answers, batches and inspection.

Answers contain no address, subject or text; ids identify a send.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from oncebox.model.sends import send as model
from oncebox.model.sends.email import Attachment, Email
from oncebox.model.sends.intent import Intent, SendOptions, parse_options
from oncebox.model.sends.send import (
    DEFAULT_ON_UNKNOWN,
    AnswerStatus,
    IntentAccepted,
    OnUnknown,
    Retention,
    Send,
    SendState,
    SendTry,
)
from oncebox.model.sends.transports import SendPhase
from oncebox.schemas.fields import ListPage, ListQuery, OptionalReason, Reason, Timestamp
from oncebox.schemas.inboxes import AttemptId
from oncebox.schemas.messages import Wait

_SECOND = 1_000
#: a year: the longest retention of a schedule
_LONGEST_INTERVAL = 31_536_000
_LATEST_INSTANT = 2**53

Mailboxes = Annotated[
    str | list[str],
    msgspec.Meta(description="one mailbox or a list: ann@example.com or Ann Lee <ann@example.com>"),
]
#: a part of the key; validated together with the other parts
KeyPart = Annotated[str, msgspec.Meta(extra_json_schema={"maxLength": 512})]
Instant = Annotated[
    int, msgspec.Meta(ge=0, le=_LATEST_INSTANT, description="milliseconds since 1970")
]
TransportName = Annotated[
    str, msgspec.Meta(max_length=100, description="a configured transport; default: the first one")
]
MessageId = Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^[!-~]+$")]
ProviderId = Annotated[
    str,
    msgspec.Meta(max_length=200, pattern=r"^[ -~]*$", description="the provider's id for the mail"),
]


class SendAttachment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An attachment of a mail."""

    #: the file name shown to the reader
    name: str
    #: base64
    content: bytes
    media_type: str = "application/octet-stream"
    #: for inline images in HTML: ``cid:ID``
    content_id: str = ""

    def __repr__(self) -> str:
        """Show the size, not the content."""
        return f"SendAttachment({len(self.content)} bytes)"


class SendRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mail to send once; the same ``event_type`` and ``entity_id`` mean the same mail."""

    #: the From address; default: the configured sender
    sender: str = ""
    to: Mailboxes = []
    cc: Mailboxes = []
    #: recipients hidden from the others
    bcc: Mailboxes = []
    reply_to: Mailboxes = []
    subject: str = ""
    text: str = ""
    html: str = ""
    #: additional header fields
    headers: dict[str, str] = {}
    attachments: list[SendAttachment] = []
    #: the template that renders subject, text and HTML
    template: str = ""
    #: values for the template
    variables: dict[str, Any] = {}
    #: one-click unsubscribe address: ``https:`` or ``mailto:``
    unsubscribe: str = ""
    #: labels that the provider reports back
    tags: dict[str, str] = {}
    #: what happened, such as ``order.confirmation``
    event_type: KeyPart = ""
    #: what it happened to, such as ``order_4821``
    entity_id: KeyPart = ""
    #: a new version is a new mail about the same entity
    version: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] = 1
    #: what to do if the outcome is unknown
    on_unknown: OnUnknown = DEFAULT_ON_UNKNOWN
    #: do not send before this time
    send_at: Instant | None = None
    #: do not send after this time
    valid_until: Instant | None = None
    #: how long the content is kept; the key is kept longer
    retention: Retention = Retention.TRANSACTIONAL
    #: seconds between two mails of a schedule, for the retention ``scheduled``
    interval: Annotated[float, msgspec.Meta(ge=0, le=_LONGEST_INTERVAL)] = 0
    #: no other one is used; default: the first one, or one of its failover group
    transport: TransportName = ""
    #: the first transport of this group, or another of it
    failover_group: TransportName = ""
    attempt_id: AttemptId | None = None
    #: the received message that this mail replies to; automatic mail gets no reply
    answers: MessageId | None = None
    #: reject a repeat with different content instead of reporting ``drift``
    strict: bool = False

    def __repr__(self) -> str:
        """Show no content and no recipients."""
        return f"SendRequest({self.event_type!r}, {self.entity_id!r})"

    def email(self) -> Email:
        """Return the requested mail."""
        fields = {name: getattr(self, name) for name in Email.__struct_fields__}
        attachments = [
            msgspec.convert(each, Attachment, from_attributes=True) for each in self.attachments
        ]
        return Email(**{**fields, "attachments": attachments})

    def to_intent(self, key: str | None) -> Intent:
        """Return the intent of this request; ``key`` is the caller's idempotency key."""
        options = {name: getattr(self, name) for name in _INTENT_OPTIONS}
        interval = round(self.interval * _SECOND)
        return Intent(email=self.email(), key=key, interval=interval, **options)


#: fields of a request that an intent has under the same name and in the same unit
_INTENT_OPTIONS = frozenset(Intent.__struct_fields__) - {"email", "key", "interval"}


def request_from_options(email: Email, options: SendOptions) -> SendRequest:
    """Return the request for a mail with the client's options; the key is sent in a header.

    Raises: KeyInvalid.
    """
    parsed = parse_options(options)
    parsed.pop("key", None)
    if "interval" in parsed:
        parsed["interval"] /= _SECOND
    fields = {name: getattr(email, name) for name in Email.__struct_fields__}
    attachments = [
        msgspec.convert(each, SendAttachment, from_attributes=True) for each in email.attachments
    ]
    return SendRequest(**{**fields, "attachments": attachments, **parsed})


class BatchRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Several mails, each sent once; a repeat must contain the whole batch."""

    sends: Annotated[list[SendRequest], msgspec.Meta(min_length=1, max_length=1_000)]


class SendAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a send."""

    id: str
    #: the result of this call
    status: AnswerStatus
    #: the state of the send
    state: SendState
    #: the Message-ID; the same in every answer about this mail
    message_id: str
    #: whether this call created it
    created: bool = False
    #: whether this call rearmed it, after it was proven not sent
    rearmed: bool = False
    #: whether the content differs from the first call, whose content is used
    drift: bool = False
    #: seconds after which to ask again; null if waiting does not help
    retry_after: float | None = None
    transport: str
    event_type: str = ""
    entity_id: str = ""
    #: stable code for the outcome of the last try
    code: str | None = None
    #: the SMTP or HTTP reply code; 0 without a reply
    reply: int = 0
    #: the provider's id for the mail
    provider_id: str = ""
    #: the last provider event: ``delivered``, ``bounced``, ``complained`` and so on
    delivery: str | None = None
    created_at: Timestamp
    ended_at: Timestamp | None = None


def to_answer(
    result: IntentAccepted | Send, now: int, *, later: Send | None = None, repeated: bool = False
) -> SendAnswer:
    """Return the answer about a send, or about an accepted intent and its ``later`` state."""
    if isinstance(result, Send):
        return _build_answer(result, model.answer_status(result.state, repeated=repeated), now)
    send = later or result.send
    mine = result.created or result.rearmed
    status = result.status
    if later is not None and status is not AnswerStatus.CONFLICT:
        status = model.answer_status(later.state, repeated=not mine)
    answer = _build_answer(send, status, now)
    return msgspec.structs.replace(
        answer, created=result.created, rearmed=result.rearmed, drift=result.drift
    )


def _build_answer(send: Send, status: AnswerStatus, now: int) -> SendAnswer:
    wait = model.retry_after(send, now)
    return SendAnswer(
        id=send.id,
        status=status,
        state=send.state,
        message_id=send.message_id,
        retry_after=None if wait is None else wait / _SECOND,
        transport=send.transport,
        event_type=send.event_type,
        entity_id=send.entity_id,
        code=send.code,
        reply=send.reply,
        provider_id=send.provider_id,
        delivery=send.delivery,
        created_at=send.created_at,
        ended_at=send.ended_at,
    )


class BatchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A batch: one answer per send, in request order."""

    id: str
    #: whether this call created it
    created: bool
    data: list[SendAnswer]
    created_at: Timestamp


class SendPage(ListPage, frozen=True, kw_only=True):
    """A page of sends, newest first."""

    data: list[SendAnswer]


class SendQuery(ListQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters for a list of sends."""

    state: SendState | UnsetType = UNSET
    transport: Annotated[str, msgspec.Meta(min_length=1, max_length=100)] | UnsetType = UNSET


class SendWait(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long to wait for the send to end."""

    wait: Wait = 0


class CancelSend(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request to cancel a send."""

    why: OptionalReason = ""


class ResolveSend(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An operator's decision on a send of unknown outcome."""

    #: whether the mail was accepted
    sent: bool
    why: Reason
    provider_id: ProviderId = ""


class ResendSend(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request to retry a send, or to repeat one of unknown outcome once."""

    why: Reason


class SendInspection(msgspec.Struct, frozen=True, kw_only=True):
    """A send in full, without its content, for operators."""

    send: SendAnswer
    #: the key that identifies the intent, in hexadecimal
    key: str
    #: the API key that requested it
    owner: str | None
    attempt_id: str | None
    #: the delivery and the effect that requested it, if a handler did
    delivery_id: str | None
    effect: str | None
    on_unknown: OnUnknown
    #: how it may be repeated although its outcome is unknown; null: not at all
    repeat_mode: OnUnknown | None
    #: the request named the transport, so no other one is used
    pinned: bool
    #: its first transport signs it with DKIM, so it never leaves unsigned
    must_sign: bool
    send_at: Timestamp | None
    valid_until: Timestamp | None
    #: when the next try is due, or when the lease expires
    due_at: Timestamp | None
    fence: int
    rearms: int
    worker: str | None
    claimed_at: Timestamp | None
    marked_at: Timestamp | None
    #: since when a transmission may have been accepted
    unknown_since: Timestamp | None
    #: until when the provider is guaranteed to remember the key
    replay_until: Timestamp | None
    phase: SendPhase | None
    retention: Retention
    #: when the content was deleted; the key stays
    purged_at: Timestamp | None
    #: stored size in bytes
    size: int
    tries: list[SendTry]
    #: what happens next, or what an operator can do
    next_action: str


#: fields that an inspection copies from the send
_COPIED_FIELDS = frozenset(SendInspection.__struct_fields__) - {
    "send",
    "key",
    "tries",
    "next_action",
}


def to_inspection(send: Send, tries: Sequence[SendTry], now: int) -> SendInspection:
    """Return everything about a send except its content."""
    return SendInspection(
        send=to_answer(send, now),
        key=send.key.hex(),
        tries=list(tries),
        next_action=model.next_step(send, now),
        **{name: getattr(send, name) for name in _COPIED_FIELDS},
    )
