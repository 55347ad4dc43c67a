"""Sends: requests, answers, batches and inspection; no address, subject or text.

Nobody is told an address, a subject or a text here: a send is known by its ids.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from oncebox.model.sends import send as model
from oncebox.model.sends.email import Attachment, Email
from oncebox.model.sends.intent import Intent, SendOptions, parse_options
from oncebox.model.sends.send import (
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
#: as much as the longest retention of a schedule: a year between two mails
_LONGEST_INTERVAL = 31_536_000
_LATEST_INSTANT = 2**53

Mailboxes = Annotated[
    str | list[str],
    msgspec.Meta(description="ann@example.com or Ann Lee <ann@example.com>; one, or a list"),
]
#: a part of the key; judged with the rest of it
KeyPart = Annotated[str, msgspec.Meta(extra_json_schema={"maxLength": 512})]
Instant = Annotated[
    int, msgspec.Meta(ge=0, le=_LATEST_INSTANT, description="milliseconds since 1970")
]
TransportName = Annotated[
    str, msgspec.Meta(max_length=100, description="as it was configured; the first one unless set")
]
MessageId = Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern=r"^[!-~]+$")]
ProviderId = Annotated[
    str, msgspec.Meta(max_length=200, pattern=r"^[ -~]*$", description="what the provider calls it")
]


class SendAttachment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that goes with a mail."""

    #: as the reader sees it
    name: str
    #: in base64
    content: bytes
    media_type: str = "application/octet-stream"
    #: by which HTML shows it in place, as ``cid:ID``
    content_id: str = ""

    def __repr__(self) -> str:
        """Say how large it is, not what is in it."""
        return f"SendAttachment({len(self.content)} bytes)"


class SendRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mail to be sent once; the same ``event_type`` and ``entity_id`` are the same mail."""

    #: who it is from; the default sender unless set
    sender: str = ""
    to: Mailboxes = []
    cc: Mailboxes = []
    #: who gets it without the others' knowing
    bcc: Mailboxes = []
    reply_to: Mailboxes = []
    subject: str = ""
    text: str = ""
    html: str = ""
    #: further header fields
    headers: dict[str, str] = {}
    attachments: list[SendAttachment] = []
    #: the name of the template that subject, text and HTML are made by
    template: str = ""
    #: what is filled into it
    variables: dict[str, Any] = {}
    #: where one click ends such mail: an ``https:`` address, or ``mailto:``
    unsubscribe: str = ""
    #: words for providers that report them back
    tags: dict[str, str] = {}
    #: what happened, such as ``order.confirmation``
    event_type: KeyPart = ""
    #: to what it happened, such as ``order_4821``
    entity_id: KeyPart = ""
    #: another one is another mail about the same
    version: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] = 1
    #: what becomes of it when nobody can know whether it was sent
    on_unknown: OnUnknown = OnUnknown.HOLD
    #: not before this moment
    send_at: Instant | None = None
    #: not after this moment
    valid_until: Instant | None = None
    #: how long what it says is kept; its key is kept longer
    retention: Retention = Retention.TRANSACTIONAL
    #: seconds between two of a schedule, for the retention ``scheduled``
    interval: Annotated[float, msgspec.Meta(ge=0, le=_LONGEST_INTERVAL)] = 0
    transport: TransportName = ""
    attempt_id: AttemptId | None = None
    #: the message that this one answers; mail that was sent by a program is not answered
    answers: MessageId | None = None
    #: refuse a repeat that says something else, instead of telling ``drift``
    strict: bool = False

    def __repr__(self) -> str:
        """Show nothing of what it says and whom it is for."""
        return f"SendRequest({self.event_type!r}, {self.entity_id!r})"

    def email(self) -> Email:
        """Return the mail as it was requested."""
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
    """Return the request for a mail with the client's options; a key goes into a header.

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
    """Many mails, each to be sent once; asked for as a whole, and again as a whole."""

    sends: Annotated[list[SendRequest], msgspec.Meta(min_length=1, max_length=1_000)]


class SendAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What everybody is told of a send."""

    id: str
    #: what becomes of this call
    status: AnswerStatus
    #: where the send stands
    state: SendState
    #: the Message-ID, the same for everybody who asks for the same mail
    message_id: str
    #: this very call made it
    created: bool = False
    #: this very call armed it again, after it was proven not sent
    rearmed: bool = False
    #: this call says something else than the first, which stays
    drift: bool = False
    #: seconds after which it is worth asking again; none: not by waiting
    retry_after: float | None = None
    transport: str
    event_type: str = ""
    entity_id: str = ""
    #: what its last try came to, in a stable word
    code: str | None = None
    #: the reply code of SMTP or HTTP; 0 without a reply
    reply: int = 0
    #: what the provider calls it
    provider_id: str = ""
    #: what the provider told of it since: ``delivered``, ``bounced``, ``complained`` and the like
    delivery: str | None = None
    created_at: Timestamp
    ended_at: Timestamp | None = None


def to_answer(
    told: IntentAccepted | Send, now: int, *, later: Send | None = None, repeated: bool = False
) -> SendAnswer:
    """Return what is told of a send, or of an intent and what ``later`` became of it."""
    if isinstance(told, Send):
        return _build_answer(told, model.answer_status(told.state, repeated=repeated), now)
    send = later or told.send
    mine = told.created or told.rearmed
    status = told.status
    if later is not None and status is not AnswerStatus.CONFLICT:
        status = model.answer_status(later.state, repeated=not mine)
    answer = _build_answer(send, status, now)
    return msgspec.structs.replace(
        answer, created=told.created, rearmed=told.rearmed, drift=told.drift
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
    """What is told of a batch: one answer for each send, in the order they were asked for."""

    id: str
    #: this very call made it
    created: bool
    data: list[SendAnswer]
    created_at: Timestamp


class SendPage(ListPage, frozen=True, kw_only=True):
    """Some of the sends, newest first."""

    data: list[SendAnswer]


class SendQuery(ListQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which sends are wanted."""

    state: SendState | UnsetType = UNSET
    transport: Annotated[str, msgspec.Meta(min_length=1, max_length=100)] | UnsetType = UNSET


class SendWait(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long to wait for how a send ends."""

    wait: Wait = 0


class CancelSend(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a send is called off."""

    why: OptionalReason = ""


class ResolveSend(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A person's word on a send in doubt."""

    #: whether the other side took it
    sent: bool
    why: Reason
    provider_id: ProviderId = ""


class ResendSend(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a send is tried again, or one in doubt repeated once."""

    why: Reason


class SendInspection(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of a send, for operators."""

    send: SendAnswer
    #: what makes two intents the same, in hexadecimal
    key: str
    #: the API key that asked
    owner: str | None
    attempt_id: str | None
    #: the delivery and the effect that asked, where a handler did
    delivery_id: str | None
    effect: str | None
    on_unknown: OnUnknown
    #: how it may be repeated although it is in doubt; none: not at all
    repeat_mode: OnUnknown | None
    send_at: Timestamp | None
    valid_until: Timestamp | None
    #: when it is tried next, or until when its lease holds
    due_at: Timestamp | None
    fence: int
    rearms: int
    worker: str | None
    claimed_at: Timestamp | None
    marked_at: Timestamp | None
    #: since when a hand-over may have been taken
    unknown_since: Timestamp | None
    #: until when the provider surely remembers the key
    replay_until: Timestamp | None
    phase: SendPhase | None
    retention: Retention
    #: when what it says went; its key stays
    purged_at: Timestamp | None
    #: bytes that are kept of it
    size: int
    tries: list[SendTry]
    #: what happens next, or what is wanted of whom
    next_action: str


#: fields that an inspection copies from the send
_COPIED_FIELDS = frozenset(SendInspection.__struct_fields__) - {
    "send",
    "key",
    "tries",
    "next_action",
}


def to_inspection(send: Send, tries: Sequence[SendTry], now: int) -> SendInspection:
    """Return everything known of a send but its content."""
    return SendInspection(
        send=to_answer(send, now),
        key=send.key.hex(),
        tries=list(tries),
        next_action=model.next_step(send, now),
        **{name: getattr(send, name) for name in _COPIED_FIELDS},
    )
