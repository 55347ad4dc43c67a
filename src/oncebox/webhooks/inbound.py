"""Inbound mail providers as tables: where raw mail and envelope are, and what an answer means.

Pure: a verified request is turned into mails; some are fetched afterwards, by what is named here.
See docs/decisions/0054-use-raw-mime-and-answer-tables-for-inbound-webhooks.md.
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from oncebox.webhooks import http_request
from oncebox.webhooks.custom import postal
from oncebox.webhooks.http_request import FormFields, WebhookRequest
from oncebox.webhooks.paths import DECODE_ERRORS
from oncebox.webhooks.providers import SCHEMES, SVIX
from oncebox.webhooks.scheme import Scheme, signed, unsigned

T = TypeVar("T")

_MOST_RECIPIENTS = 1_000
_MOST_EVENTS = 1_000
_LONGEST_ADDRESS = 1_000
_LONGEST_ID = 500
_ANGLE_ADDRESS = re.compile(r"<([^<>]*)>\s*$")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_TOPIC_REGION = re.compile(r"arn:[a-z-]+:sns:([a-z0-9-]{3,40}):")
#: of an object in S3
_LONGEST_KEY = 1_024
_RESEND_ID = re.compile(r"[A-Za-z0-9-]{1,100}")
_RESEND_KEY = re.compile(r"re_[!-~]{1,500}")
_AWS_KEY = re.compile(r"[A-Z0-9]{16,128}:[A-Za-z0-9/+=]{16,200}(?::[A-Za-z0-9/+=]{1,4000})?")
#: the address a domain that is not forwarded has at Postmark
_POSTMARK_HOST = "@inbound.postmarkapp.com"


class MalformedInbound(ValueError):
    """A request that is authentic, and not of its provider's format."""


class S3Object(msgspec.Struct, frozen=True):
    """A mail that its provider left in S3."""

    bucket: str
    key: str
    #: the region of the topic
    region: str


class ResendEmail(msgspec.Struct, frozen=True):
    """A mail that Resend keeps."""

    id: str


class InboundMail(msgspec.Struct, frozen=True, kw_only=True):
    """One mail of a request. Addresses are as written, with or without a name."""

    #: the mail itself, or where it is; None if the provider was not told to send it
    raw: bytes | S3Object | ResendEmail | None
    #: of the envelope
    recipients: tuple[str, ...] = ()
    #: those in its header, for mail that was forwarded to the provider's own address
    named: tuple[str, ...] = ()
    #: MAIL FROM; empty if it is unknown
    sender: str = ""
    #: the provider's id, if the same one is never given to another mail
    provider_id: str = ""
    #: the SMTP client's address, only where the signature covers it
    client: str = ""


class InboundAnswers(msgspec.Struct, frozen=True, kw_only=True):
    """The status for each outcome that is not 200; 0 closes the connection without an answer."""

    #: no inbox has the recipient
    unrouted: int = 200
    #: it cannot be stored, now or later
    refused: int = 400
    #: again later
    temporary: int = 503
    #: the signature does not match: it may be our secret that is wrong
    unverified: int = 401
    #: what the provider does, in words
    meaning: str


class InboundProvider(msgspec.Struct, frozen=True, kw_only=True):
    """One provider of inbound mail."""

    #: in metrics
    name: str
    title: str
    scheme: Scheme
    #: returns the mails of a verified request; none if it is about something else
    parse: Callable[[WebhookRequest], Sequence[InboundMail]]
    answers: InboundAnswers
    #: what to do if the raw mail is missing
    raw_remedy: str
    #: tells a key for fetching mail from a secret that verifies requests
    fetch_key: re.Pattern[str] | None = None

    def is_fetch_key(self, secret: str) -> bool:
        """Say whether a secret is for fetching mail, not for verifying requests."""
        return self.fetch_key is not None and self.fetch_key.fullmatch(secret) is not None


def bare_address(text: str) -> str:
    """Return an address without name and angle brackets."""
    found = _ANGLE_ADDRESS.search(text)
    return (found[1] if found else text).strip()


# forms


def _form(request: WebhookRequest) -> FormFields:
    fields = http_request.form_fields(request)
    if not fields:
        raise MalformedInbound
    return fields


def _text(fields: FormFields, name: str) -> str:
    value = http_request.last_form_value(fields, name) or b""
    return value.decode("utf-8", "replace").strip()


class _SendgridEnvelope(msgspec.Struct, frozen=True):
    to: list[str] = []
    sender: str = msgspec.field(default="", name="from")


def parse_sendgrid(request: WebhookRequest) -> list[InboundMail]:
    """Read Inbound Parse: a form with the raw mail in ``email``; it is signed as a whole."""
    fields = _form(request)
    envelope = _decode(_SendgridEnvelope, _text(fields, "envelope").encode() or b"{}")
    return [
        InboundMail(
            raw=http_request.last_form_value(fields, "email") or None,
            recipients=_addresses(envelope.to),
            sender=_address(envelope.sender),
            client=_text(fields, "sender_ip")[:100],
        )
    ]


def parse_mailgun(request: WebhookRequest) -> list[InboundMail]:
    """Read a route's form with ``body-mime``; only the token is signed, so it is the id."""
    fields = _form(request)
    return [
        InboundMail(
            raw=http_request.last_form_value(fields, "body-mime") or None,
            recipients=_addresses(_text(fields, "recipient").split(",")),
            sender=_address(_text(fields, "sender")),
            provider_id=_id(_text(fields, "token")),
        )
    ]


class _MandrillMessage(msgspec.Struct, frozen=True):
    raw_msg: str = ""
    email: str = ""
    sender: str | None = ""


class _MandrillEvent(msgspec.Struct, frozen=True):
    event: str = ""
    msg: _MandrillMessage | None = None


def parse_mandrill(request: WebhookRequest) -> list[InboundMail]:
    """Read the ``inbound`` events of a form; they have no id of their own."""
    text = http_request.last_form_value(_form(request), "mandrill_events")
    if text is None:
        raise MalformedInbound
    events = _decode(list[_MandrillEvent], text)
    if len(events) > _MOST_EVENTS:
        raise MalformedInbound
    return [
        InboundMail(
            raw=_encoded(each.msg.raw_msg),
            recipients=_addresses([each.msg.email]),
            sender=_address(each.msg.sender or ""),
        )
        for each in events
        if each.event == "inbound" and each.msg is not None
    ]


# JSON


class _PostmarkAddress(msgspec.Struct, frozen=True):
    email: str = msgspec.field(default="", name="Email")


class _PostmarkMail(msgspec.Struct, frozen=True, rename="pascal"):
    original_recipient: str = ""
    message_id: str = msgspec.field(default="", name="MessageID")
    raw_email: str | None = None
    to_full: list[_PostmarkAddress] = []
    cc_full: list[_PostmarkAddress] = []
    bcc_full: list[_PostmarkAddress] = []


def parse_postmark(request: WebhookRequest) -> list[InboundMail]:
    """Read the JSON of an inbound stream that includes ``RawEmail``."""
    found = _decode(_PostmarkMail, request.body)
    named = _addresses(each.email for each in (*found.to_full, *found.cc_full, *found.bcc_full))
    envelope = _addresses([found.original_recipient])
    return [
        InboundMail(
            raw=_encoded(found.raw_email),
            recipients=envelope or named,
            named=named if found.original_recipient.lower().endswith(_POSTMARK_HOST) else (),
            provider_id=_id(found.message_id),
        )
    ]


class _SnsEnvelope(msgspec.Struct, frozen=True):
    message: str = msgspec.field(default="", name="Message")
    topic: str = msgspec.field(default="", name="TopicArn")


class _SesAction(msgspec.Struct, frozen=True):
    type: str = ""
    encoding: str | None = ""
    bucket: str | None = msgspec.field(default="", name="bucketName")
    key: str | None = msgspec.field(default="", name="objectKey")


class _SesReceipt(msgspec.Struct, frozen=True):
    recipients: list[str] = []
    action: _SesAction = _SesAction()


class _SesMail(msgspec.Struct, frozen=True):
    id: str = msgspec.field(default="", name="messageId")
    source: str = ""


class _SesNotification(msgspec.Struct, frozen=True):
    type: str = msgspec.field(default="", name="notificationType")
    receipt: _SesReceipt = _SesReceipt()
    mail: _SesMail = _SesMail()
    content: str | None = None


def parse_ses(request: WebhookRequest) -> list[InboundMail]:
    """Read a notification about received mail: inline, or in S3; others are about sent mail."""
    sns = _decode(_SnsEnvelope, request.body)
    try:
        found = msgspec.json.decode(sns.message, type=_SesNotification)
    except DECODE_ERRORS:
        return []  # such as the test message of SNS
    action = found.receipt.action
    if found.type != "Received" or (action.type not in {"SNS", "S3"} and found.content is None):
        return []
    return [
        InboundMail(
            raw=_ses_content(found, sns.topic),
            recipients=_addresses(found.receipt.recipients),
            sender=_address(found.mail.source),
            provider_id=_id(found.mail.id),
        )
    ]


def _ses_content(found: _SesNotification, topic: str) -> bytes | S3Object | None:
    action = found.receipt.action
    if found.content is not None:
        is_base64 = (action.encoding or "").replace("-", "").upper() == "BASE64"
        return _from_base64(found.content) if is_base64 else _encoded(found.content)
    if action.type != "S3" or not action.key:
        return None
    region = _TOPIC_REGION.match(topic)
    bucket = action.bucket or ""
    if region is None or not _BUCKET.fullmatch(bucket) or len(action.key) > _LONGEST_KEY:
        raise MalformedInbound
    return S3Object(bucket, action.key, region[1])


class _ResendData(msgspec.Struct, frozen=True):
    id: str = msgspec.field(default="", name="email_id")
    to: list[str] = []
    cc: list[str] | None = None
    bcc: list[str] | None = None


class _ResendEvent(msgspec.Struct, frozen=True):
    type: str = ""
    data: _ResendData = _ResendData()


def parse_resend(request: WebhookRequest) -> list[InboundMail]:
    """Read ``email.received``: it has no body, which is fetched; other events are none of mail."""
    found = _decode(_ResendEvent, request.body)
    if found.type != "email.received":
        return []
    data = found.data
    if not _RESEND_ID.fullmatch(data.id):
        raise MalformedInbound
    return [
        InboundMail(
            raw=ResendEmail(data.id),
            recipients=_addresses((*data.to, *(data.cc or ()), *(data.bcc or ()))),
            provider_id=data.id,
        )
    ]


class _PostalMail(msgspec.Struct, frozen=True):
    message: str | None = None
    base64: bool = False
    rcpt_to: str = ""
    mail_from: str | None = ""


def parse_postal(request: WebhookRequest) -> list[InboundMail]:
    """Read a raw message as JSON or as a form. Its number begins anew with a new mail server."""
    if request.content_type == "application/json":
        found = _decode(_PostalMail, request.body)
    else:
        fields = _form(request)
        found = _PostalMail(
            message=_text(fields, "message") or None,
            base64=_text(fields, "base64") in {"true", "1"},
            rcpt_to=_text(fields, "rcpt_to"),
            mail_from=_text(fields, "mail_from"),
        )
    text = found.message
    raw = _from_base64(text) if text is not None and found.base64 else _encoded(text)
    return [
        InboundMail(
            raw=raw,
            recipients=_addresses([found.rcpt_to]),
            sender=_address(found.mail_from or ""),
        )
    ]


def parse_cloudflare(request: WebhookRequest) -> list[InboundMail]:
    """Read a raw mail whose envelope is in signed headers; see examples/cloudflare-email-worker."""
    headers = request.headers_by_name
    if request.content_type != "message/rfc822":
        raise MalformedInbound
    return [
        InboundMail(
            raw=request.body or None,
            recipients=_addresses([headers.get("x-oncebox-rcpt-to", "")]),
            sender=_address(headers.get("x-oncebox-mail-from", "")),
        )
    ]


def _decode(type_: type[T], text: bytes) -> T:
    try:
        return msgspec.json.decode(text, type=type_)
    except DECODE_ERRORS as error:
        raise MalformedInbound from error


def _encoded(text: str | None) -> bytes | None:
    return text.encode("utf-8", "surrogatepass") if text else None


def _from_base64(text: str) -> bytes | None:
    """Return the bytes of base64, which may have line breaks."""
    try:
        return base64.b64decode("".join(text.split()), validate=True) or None
    except (binascii.Error, ValueError) as error:
        raise MalformedInbound from error


def _addresses(texts: Iterable[str]) -> tuple[str, ...]:
    """Return addresses, each once; too many are no mail."""
    found = tuple(dict.fromkeys(each for text in texts if (each := _address(text))))
    if len(found) > _MOST_RECIPIENTS:
        raise MalformedInbound
    return found


def _address(text: str) -> str:
    """Return an address; empty if it cannot be one."""
    address = bare_address(text)
    return address if len(address) <= _LONGEST_ADDRESS and address.isprintable() else ""


def _id(text: str) -> str:
    if len(text) > _LONGEST_ID:
        raise MalformedInbound
    return text


# tables

_BY_NAME = {scheme.name: scheme for scheme in SCHEMES}
_TYPE = (signed("=inbound"),)

#: by the name of their scheme
PROVIDERS: dict[str, InboundProvider] = {
    provider.scheme.name: provider
    for provider in (
        InboundProvider(
            name="cloudflare",
            title="Cloudflare Email Workers",
            scheme=Scheme(
                name="cloudflare-email",
                title="Cloudflare Email Workers, by the worker in examples",
                header="X-Oncebox-Signature",
                timestamp="header:x-oncebox-timestamp",
                content="{timestamp}.{header:x-oncebox-mail-from}.{header:x-oncebox-rcpt-to}.{body}",
                window=300,
                covers=("time", "envelope", "body"),
                type=_TYPE,
                note="the worker throws unless the mail is stored, so that its sender tries again",
            ),
            parse=parse_cloudflare,
            answers=InboundAnswers(
                unrouted=406,
                refused=406,
                meaning="406: the worker rejects the mail; any other: it throws, and the sending "
                "server tries again",
            ),
            raw_remedy="deploy the worker of examples/cloudflare-email-worker",
        ),
        InboundProvider(
            name="mailgun",
            title="Mailgun routes",
            scheme=_BY_NAME["mailgun-inbound"],
            parse=parse_mailgun,
            answers=InboundAnswers(
                unrouted=406,
                refused=406,
                meaning="200 and 406 end; any other is tried again for 8 hours",
            ),
            raw_remedy="forward to an address that ends in mime, such as …/in/mail-mime: "
            "Mailgun sends the raw mail only there",
        ),
        InboundProvider(
            name="mandrill",
            title="Mandrill inbound",
            scheme=replace(
                _BY_NAME["mandrill"],
                name="mandrill-inbound",
                title="Mandrill inbound",
                id=(),
                type=(signed("$.event"),),
            ),
            parse=parse_mandrill,
            answers=InboundAnswers(meaning="2xx ends; any other is tried again"),
            raw_remedy="add an inbound route at Mandrill; its events contain raw_msg",
        ),
        InboundProvider(
            name="postal",
            title="Postal HTTP endpoints",
            scheme=Scheme(
                name="postal-inbound",
                title="Postal HTTP endpoints",
                header="X-Postal-Signature",
                extra_headers=("X-Postal-Signature-256",),
                algorithm="RSA SHA-1 or SHA-256",
                encoding="base64",
                type=_TYPE,
                verifier=postal.verify_postal,
                note="the secret is the public key: p= of postal default-dkim-record, or PEM",
            ),
            parse=parse_postal,
            answers=InboundAnswers(
                temporary=0,
                unverified=0,
                meaning="2xx ends. Its manual says that 5xx bounces at once, its code that every "
                "other status does; a closed connection is tried again in both",
            ),
            raw_remedy="set the format of the HTTP endpoint at Postal to: raw message",
        ),
        InboundProvider(
            name="postmark",
            title="Postmark inbound",
            scheme=replace(
                _BY_NAME["postmark"],
                name="postmark-inbound",
                title="Postmark inbound",
                id=(unsigned("$.MessageID"),),
                type=_TYPE,
            ),
            parse=parse_postmark,
            answers=InboundAnswers(
                unrouted=403,
                refused=403,
                meaning="200 and 403 end; any other is tried 10 times within 10.5 hours",
            ),
            raw_remedy="tick 'Include raw email content in JSON payload' in the settings of the "
            "inbound stream at Postmark",
        ),
        InboundProvider(
            name="resend",
            title="Resend receiving",
            scheme=replace(
                SVIX,
                name="resend-inbound",
                title="Resend receiving",
                accepted_options=("api_url",),
                note="needs two secrets: whsec_… of the webhook, and an API key re_… that fetches "
                "the mail, which the webhook does not contain",
            ),
            parse=parse_resend,
            answers=InboundAnswers(meaning="2xx ends; any other is tried again for 10 hours"),
            raw_remedy="the mail is no longer at Resend",
            fetch_key=_RESEND_KEY,
        ),
        InboundProvider(
            name="sendgrid",
            title="SendGrid Inbound Parse",
            scheme=_BY_NAME["sendgrid-inbound"],
            parse=parse_sendgrid,
            answers=InboundAnswers(
                unverified=503,
                meaning="2xx and 4xx end; 5xx is tried again for 3 days",
            ),
            raw_remedy="tick 'POST the raw, full MIME message' in the settings of Inbound Parse",
        ),
        InboundProvider(
            name="ses",
            title="Amazon SES receiving, by SNS",
            scheme=replace(
                _BY_NAME["aws-sns"],
                name="ses-inbound",
                title="Amazon SES receiving, by SNS",
                id=(signed("$.Message@.mail.messageId"), signed("$.MessageId")),
                accepted_options=("topics", "buckets", "region", "api_url"),
                note="only listed topics are accepted; mail in S3 also needs buckets, and the "
                "secret ACCESS_KEY_ID:SECRET_ACCESS_KEY",
            ),
            parse=parse_ses,
            answers=InboundAnswers(
                unverified=503,
                meaning="2xx and 4xx but 429 end; 5xx is tried again for an hour, or as the "
                "delivery policy of the topic says",
            ),
            raw_remedy="let the receipt rule publish to SNS, or store in S3 with this topic",
            fetch_key=_AWS_KEY,
        ),
    )
}
#: the schemes that are not among those of other webhooks
INBOUND_SCHEMES = tuple(
    each.scheme for each in PROVIDERS.values() if each.scheme.name not in _BY_NAME
)
