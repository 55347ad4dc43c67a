"""Providers of inbound mail, as their documentation describes them, and what they keep."""

import asyncio
import base64
import datetime as dt
import hashlib
import hmac
import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import unquote, urlencode

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from standardwebhooks import Webhook

from oncebox.testing.loopback import FaultScript, LoopbackServer

SECRET = "canary-of-the-signing-secret"
WHSEC = "whsec_" + base64.b64encode(b"canary of a signing key!").decode()
RESEND_KEY = "re_canary_of_the_api_key"
AWS_KEY = "AKIAIOSFODNN7EXAMPLE:wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
TOPIC = "arn:aws:sns:eu-west-1:123456789012:mail"
BUCKET = "mail-of-example"
CERTIFICATE_URL = "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0123abcd.pem"
SENDER = "bounce@sender.example"
_FORM = {"content-type": "application/x-www-form-urlencoded"}


@cache
def rsa_key() -> rsa.RSAPrivateKey:
    """Return the key of Postal and of SNS."""
    return rsa.generate_private_key(65537, 2048)


@cache
def _p256() -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(0xC0FFEE, ec.SECP256R1())


@cache
def certificate() -> str:
    """Return a certificate such as SNS publishes."""
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "sns.amazonaws.com")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(rsa_key().public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .sign(rsa_key(), hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM).decode()


def _public(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> str:
    return b64(
        key.public_key().public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )


def other_keys() -> tuple[str, str]:
    """Return public keys that are neither SendGrid's nor Postal's."""
    curve = ec.derive_private_key(7, ec.SECP256R1())
    return _public(curve), _public(rsa.generate_private_key(65537, 2048))


def b64(value: bytes) -> str:
    """Return base64."""
    return base64.b64encode(value).decode()


@dataclass(frozen=True)
class Posted:
    """A request of a provider."""

    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True)
class Letter:
    """What a provider received."""

    raw: bytes | None
    to: Sequence[str]
    id: str = "4ef9a417-02e9-4d39-ad75-9611e0fcc33c"
    #: the address that the request goes to
    url: str = ""
    #: where the mail lies, if it is not in the request
    key: str = ""
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Provider:
    """One provider: how its source is configured, and what it posts."""

    name: str
    scheme: str
    secrets: tuple[str, ...]
    post: Callable[[Letter], Posted]
    options: dict[str, Any] = field(default_factory=dict)
    #: statuses: for no inbox, unreadable, again later (0: closes), not verified
    unrouted: int = 200
    refused: int = 400
    temporary: int = 503
    unverified: int = 401
    #: where in the remedy for missing raw mail to look
    remedy: str = ""
    #: whether its ids are never given twice
    has_ids: bool = False


def multipart(fields: Sequence[tuple[str, bytes]], boundary: str = "xYzZY") -> Posted:
    """Return a form."""
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'.encode() + value
        for name, value in fields
    ]
    body = b"\r\n".join(parts) + f"\r\n--{boundary}--\r\n".encode()
    return Posted({"content-type": f"multipart/form-data; boundary={boundary}"}, body)


def sendgrid(letter: Letter) -> Posted:
    """Post a mail as Inbound Parse does with the raw option."""
    envelope = json.dumps({"to": list(letter.to), "from": SENDER}).encode()
    fields = [
        ("headers", b"From: a\n"), ("envelope", envelope), ("to", ", ".join(letter.to).encode()),
        ("sender_ip", b"192.0.2.55"), ("SPF", b"pass"), ("subject", b"hi"),
        *([("email", letter.raw)] if letter.raw is not None else [("text", b"hi")]),
    ]  # fmt: skip
    return sign_sendgrid(multipart(fields))


def sign_sendgrid(form: Posted) -> Posted:
    """Sign a request as SendGrid does."""
    stamp = str(int(time.time()))
    signature = _p256().sign(stamp.encode() + form.body, ec.ECDSA(hashes.SHA256()))
    family = "x-twilio-email-event-webhook-"
    return Posted(
        {**form.headers, f"{family}signature": b64(signature), f"{family}timestamp": stamp},
        form.body,
    )


def mailgun(letter: Letter) -> Posted:
    """Post a mail as a route to an address that ends in mime does."""
    stamp = str(int(time.time()))
    token = hashlib.sha256(letter.id.encode()).hexdigest()[:50]
    signature = hmac.new(SECRET.encode(), f"{stamp}{token}".encode(), "sha256").hexdigest()
    fields = [
        ("recipient", ",".join(letter.to).encode()), ("sender", SENDER.encode()),
        ("from", b"Ann <ann@example.com>"), ("subject", b"hi"), ("timestamp", stamp.encode()),
        ("token", token.encode()), ("signature", signature.encode()),
        *([("body-mime", letter.raw)] if letter.raw is not None else [("body-plain", b"hi")]),
    ]  # fmt: skip
    return multipart(fields)


def postmark(letter: Letter) -> Posted:
    """Post a mail as an inbound stream with raw content does."""
    said = {
        "FromName": "Ann",
        "MessageStream": "inbound",
        "OriginalRecipient": letter.to[0] if letter.to else "",
        "ToFull": [{"Email": each, "Name": "", "MailboxHash": ""} for each in letter.to],
        "MessageID": letter.id,
        "TextBody": "hi",
        "Attachments": [],
        **({"RawEmail": letter.raw.decode()} if letter.raw is not None else {}),
        **letter.extra,
    }
    login = b64(f"postmark:{SECRET}".encode())
    return Posted(
        {"authorization": f"Basic {login}", "content-type": "application/json"},
        json.dumps(said).encode(),
    )


def sns(message: dict[str, Any], **changes: str) -> Posted:
    """Publish to a topic as SES does."""
    said = {
        "Type": "Notification",
        "MessageId": "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324",
        "TopicArn": TOPIC,
        "Subject": "Amazon SES Email Receipt Notification",
        "Message": json.dumps(message),
        "Timestamp": dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        "SignatureVersion": "2",
        "SigningCertURL": CERTIFICATE_URL,
        **changes,
    }
    names = ["Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"]
    if said["Type"] != "Notification":
        names = ["Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"]
    lines = "".join(f"{name}\n{said[name]}\n" for name in names if name in said)
    signature = rsa_key().sign(lines.encode(), padding.PKCS1v15(), hashes.SHA256())
    body = json.dumps(said | {"Signature": b64(signature)}).encode()
    return Posted({"x-amz-sns-message-type": said["Type"], "content-type": "text/plain"}, body)


def ses(letter: Letter) -> Posted:
    """Post a mail as the SNS action does, in base64; or as the S3 action does."""
    action: dict[str, Any] = {"type": "SNS", "topicArn": TOPIC, "encoding": "BASE64"}
    if letter.key:
        action = {"type": "S3", "topicArn": TOPIC, "bucketName": BUCKET, "objectKey": letter.key}
    message = {
        "notificationType": "Received",
        "receipt": {
            "timestamp": "2026-11-18T12:00:00.000Z",
            "recipients": list(letter.to),
            "spfVerdict": {"status": "PASS"},
            "action": action,
        },
        "mail": {"source": SENDER, "messageId": letter.id, "destination": list(letter.to)},
        **({"content": b64(letter.raw)} if letter.raw is not None and not letter.key else {}),
        **letter.extra,
    }
    return sns(message)


def resend(letter: Letter) -> Posted:
    """Post the notice of a mail; the mail itself stays at Resend."""
    body = json.dumps({
        "type": "email.received",
        "created_at": "2026-02-22T23:41:12.126Z",
        "data": {
            "email_id": letter.id, "from": "Ann <ann@example.com>", "to": list(letter.to),
            "bcc": [], "cc": [], "message_id": "<1@example.com>", "subject": "hi",
            "attachments": [],
        },
        **letter.extra,
    })  # fmt: skip
    now = dt.datetime.now(dt.UTC)
    signature = Webhook(WHSEC).sign("msg_1", now, body)
    headers = {
        "svix-id": "msg_1",
        "svix-timestamp": str(int(now.timestamp())),
        "svix-signature": signature,
        "content-type": "application/json",
    }
    return Posted(headers, body.encode())


def postal(letter: Letter) -> Posted:
    """Post a raw message as JSON."""
    said: dict[str, Any] = {
        "id": 77, "rcpt_to": letter.to[0] if letter.to else "", "mail_from": SENDER, "size": 4,
    }  # fmt: skip
    if letter.raw is not None:
        said |= {"message": base64.encodebytes(letter.raw).decode(), "base64": True}
    body = json.dumps(said).encode()
    signature = rsa_key().sign(body, padding.PKCS1v15(), hashes.SHA256())
    return Posted(
        {"x-postal-signature-256": b64(signature), "content-type": "application/json"}, body
    )


def mandrill(letter: Letter) -> Posted:
    """Post one event for each recipient."""
    events = json.dumps([
        {
            "event": "inbound", "ts": 1,
            "msg": {
                "email": each, "sender": SENDER, "from_email": "ann@example.com",
                **({"raw_msg": letter.raw.decode()} if letter.raw is not None else {}),
            },
        }
        for each in letter.to
    ])  # fmt: skip
    content = f"{letter.url}mandrill_events{events}".encode()
    signature = b64(hmac.new(SECRET.encode(), content, "sha1").digest())
    return Posted(
        {"x-mandrill-signature": signature, **_FORM},
        urlencode({"mandrill_events": events}).encode(),
    )


def cloudflare(letter: Letter) -> Posted:
    """Post a mail as the worker of the examples does."""
    stamp = str(int(time.time()))
    to = f"<{letter.to[0] if letter.to else ''}>"
    body = letter.raw or b""
    message = f"{stamp}.<{SENDER}>.{to}.".encode() + body
    return Posted(
        {
            "content-type": "message/rfc822",
            "x-oncebox-timestamp": stamp,
            "x-oncebox-mail-from": f"<{SENDER}>",
            "x-oncebox-rcpt-to": to,
            "x-oncebox-signature": hmac.new(SECRET.encode(), message, "sha256").hexdigest(),
        },
        body,
    )


PROVIDERS = {
    each.name: each
    for each in (
        Provider(
            "cloudflare", "cloudflare-email", (SECRET,), cloudflare, unrouted=406, refused=406
        ),
        Provider(
            "mailgun", "mailgun-inbound", (SECRET,), mailgun, unrouted=406, refused=406,
            remedy="ends in mime", has_ids=True,
        ),
        Provider("mandrill", "mandrill-inbound", (SECRET,), mandrill, remedy="raw_msg"),
        Provider(
            "postal", "postal-inbound", (_public(rsa_key()),), postal, temporary=0, unverified=0,
            remedy="raw message",
        ),
        Provider(
            "postmark", "postmark-inbound", (f"postmark:{SECRET}",), postmark, unrouted=403,
            refused=403, remedy="Include raw email content in JSON payload", has_ids=True,
        ),
        Provider("resend", "resend-inbound", (WHSEC, RESEND_KEY), resend, has_ids=True),
        Provider(
            "sendgrid", "sendgrid-inbound", (_public(_p256()),), sendgrid, unverified=503,
            remedy="POST the raw, full MIME message",
        ),
        Provider(
            "ses", "ses-inbound", (certificate(), AWS_KEY), ses,
            {"topics": [TOPIC], "buckets": [BUCKET]}, unverified=503, remedy="publish to SNS",
            has_ids=True,
        ),
    )
}  # fmt: skip


class MailKeeper(LoopbackServer):
    """Resend's API for received mail, and S3; with faults, one for each answer.

    A fault is a status, ``html``, ``cut``, ``huge``, ``null`` (no raw mail) or ``redirect``.
    """

    def __init__(self) -> None:
        super().__init__("127.0.0.1", 0)
        self.mails: dict[str, bytes] = {}
        self.script: FaultScript[str] = FaultScript(str)
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{self.address}"

    @property
    def address(self) -> str:
        """Host and port."""
        return f"{self.host}:{self.port}"

    async def handle_client(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer one request after the other."""
        while True:
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
            except asyncio.IncompleteReadError:
                writer.close()
                return
            path = head.split(" ")[1]
            self.asked.append(path)
            fault = self.script.take()
            if fault == "cut":
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")
                await writer.drain()
                writer.close()
                return
            status, body, more = self._answer(path, head.lower(), fault)
            writer.write(
                f"HTTP/1.1 {status} X\r\ncontent-length: {len(body)}\r\n{more}\r\n".encode() + body
            )
            await writer.drain()

    def _answer(self, path: str, head: str, fault: str | None) -> tuple[int, bytes, str]:
        scripted = {
            "html": (200, b"<html>maintenance</html>", ""),
            "huge": (200, b"x" * (1024 * 1024), ""),
            "redirect": (302, b"", f"location: {self.url}/elsewhere\r\n"),
        }
        if fault in scripted:
            return scripted[fault]
        if fault is not None and fault.isdigit():
            return int(fault), b"{}", ""
        if path.startswith("/emails/receiving/"):
            return self._resend(path.rpartition("/")[2], head, fault)
        if path.startswith("/raw/"):
            leaks = "authorization:" in head  # the key must not be sent to the CDN
            return self._mail("" if leaks else path.rpartition("/")[2])
        scope = rf"credential={AWS_KEY.partition(':')[0].lower()}/\d{{8}}/eu-west-1/s3/aws4_request"
        if not re.search(scope, head):
            return 403, b"", ""
        return self._mail(unquote(path.removeprefix(f"/{BUCKET}/")))

    def _resend(self, id_: str, head: str, fault: str | None) -> tuple[int, bytes, str]:
        if f"authorization: bearer {RESEND_KEY}".lower() not in head:
            return 401, b"{}", ""
        if id_ not in self.mails:
            return 404, b"{}", ""
        raw = None if fault == "null" else {"download_url": f"{self.url}/raw/{id_}"}
        return 200, json.dumps({"object": "email", "id": id_, "raw": raw}).encode(), ""

    def _mail(self, name: str) -> tuple[int, bytes, str]:
        found = self.mails.get(name)
        return (404, b"", "") if found is None else (200, found, "")
