"""Senders: one per scheme, signing as the provider's documentation says, apart from our tables."""

import base64
import datetime as dt
import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any
from urllib.parse import urlencode

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from oncebox.webhooks import registry
from oncebox.webhooks.http_request import WebhookRequest
from oncebox.webhooks.scheme import NO_OPTIONS, Scheme, SchemeOptions
from oncebox.webhooks.verification import Verdict, verify, verify_fresh

NOW = 1_700_000_000_000
SECONDS = str(NOW // 1000)
ISO = "2023-11-14T22:13:20Z"
SECRET = "s3cret-väl"
BODY = b'{"id":"evt_1","type":"thing.done","data":{"text":"h\\u00e9 / \xc3\xa9"}}'
URL = "https://hooks.example.com/in/abc?tenant=1"
TOPIC = "arn:aws:sns:us-east-1:123456789012:orders"
CERTIFICATE_URL = "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-0123abcd.pem"
WHSEC = "whsec_" + base64.b64encode(b"a key of twenty-four by.").decode()


@dataclass(frozen=True)
class Sent:
    """A request as a provider would send it, and what its receiver has configured."""

    scheme: str
    headers: dict[str, str]
    body: bytes = BODY
    secrets: tuple[str, ...] = (SECRET,)
    url: str = URL
    method: str = "POST"
    options: SchemeOptions = NO_OPTIONS
    #: the header with the signature; empty if it stands in the body
    signature: str = ""
    #: whether a change of the body must be noticed
    covers_body: bool = True
    keys: dict[str, str] = field(default_factory=dict)

    @property
    def table(self) -> Scheme:
        """The scheme itself."""
        return registry.find_scheme(self.scheme)

    @property
    def request(self) -> WebhookRequest:
        """The request as it arrives."""
        headers = tuple(self.headers.items())
        return WebhookRequest(method=self.method, url=self.url, headers=headers, body=self.body)

    def but(self, **changes: Any) -> "Sent":
        """Return it with something changed."""
        return replace(self, **changes)

    def signed_as(self, value: str) -> "Sent":
        """Return it with another value in the header of the signature."""
        return self.but(headers=self.headers | {self.signature: value})

    def verify(self, *, now: int | None = NOW) -> Verdict:
        """Verify it as the intake does."""
        return verify(
            self.table,
            self.request,
            self.secrets,
            now=now,
            options=self.options,
            keys=self.keys,
        )

    def verify_strictly(self, *, now: int | None = NOW) -> Verdict:
        """Verify it as a receiver does."""
        return verify_fresh(
            self.table,
            self.request,
            self.secrets,
            now=now,
            options=self.options,
            keys=self.keys,
        )


def mac(message: bytes, algorithm: str = "sha256", key: bytes = SECRET.encode()) -> bytes:
    """Return an HMAC."""
    return hmac.new(key, message, algorithm).digest()


def b64(value: bytes) -> str:
    """Return base64."""
    return base64.b64encode(value).decode()


def plain(name: str, header: str, *, prefix: str = "", algorithm: str = "sha256") -> Sent:
    """Sign the body, in hexadecimal."""
    return Sent(name, {header: prefix + mac(BODY, algorithm).hex()}, signature=header)


def plain64(name: str, header: str, *, prefix: str = "") -> Sent:
    """Sign the body, in base64."""
    return Sent(name, {header: prefix + b64(mac(BODY))}, signature=header)


def standard(name: str, family: str = "webhook-", secret: str = WHSEC) -> Sent:
    """Sign as Standard Webhooks does."""
    key = base64.b64decode(secret[6:]) if secret.startswith("whsec_") else secret.encode()
    message = b"msg_1." + SECONDS.encode() + b"." + BODY
    return Sent(
        name,
        {
            f"{family}id": "msg_1",
            f"{family}timestamp": SECONDS,
            f"{family}signature": f"v1,{b64(mac(message, key=key))}",
        },
        secrets=(secret,),
        signature=f"{family}signature",
    )


def timed(name: str, header: str, joint: str, mark: str, stamp: str, between: str) -> Sent:
    """Sign a time and the body, both in one header."""
    signature = mac(f"{SECONDS}{between}".encode() + BODY).hex()
    value = f"{stamp}={SECONDS}{joint}{mark}={signature}"
    return Sent(name, {header: value}, signature=header)


def versioned(name: str, header: str, time: str) -> Sent:
    """Sign as Slack and Zoom do."""
    signature = mac(b"v0:" + SECONDS.encode() + b":" + BODY).hex()
    return Sent(name, {header: f"v0={signature}", time: SECONDS}, signature=header)


@cache
def _ed25519() -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


@cache
def _p256() -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(0xC0FFEE, ec.SECP256R1())


@cache
def _rsa() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


@cache
def certificate() -> str:
    """Return a certificate such as SNS publishes, valid around NOW."""
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "sns.amazonaws.com")])
    when = dt.datetime.fromtimestamp(NOW / 1000, dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(_rsa().public_key())
        .serial_number(1)
        .not_valid_before(when - dt.timedelta(days=100))
        .not_valid_after(when + dt.timedelta(days=100))
        .sign(_rsa(), hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM).decode()


def standard_public() -> Sent:
    """Sign as Standard Webhooks does with a private key."""
    message = b"msg_1." + SECONDS.encode() + b"." + BODY
    public = _ed25519().public_key().public_bytes_raw()
    sent = standard("standard-webhooks")
    return sent.but(
        headers=sent.headers | {"webhook-signature": f"v1a,{b64(_ed25519().sign(message))}"},
        secrets=("whpk_" + b64(public),),
    )


def discord() -> Sent:
    """Sign as Discord does."""
    return Sent(
        "discord",
        {
            "X-Signature-Ed25519": _ed25519().sign(SECONDS.encode() + BODY).hex(),
            "X-Signature-Timestamp": SECONDS,
        },
        secrets=(_ed25519().public_key().public_bytes_raw().hex(),),
        signature="X-Signature-Ed25519",
    )


def sendgrid(name: str, body: bytes = BODY, content_type: str = "application/json") -> Sent:
    """Sign as SendGrid does."""
    header = "X-Twilio-Email-Event-Webhook-Signature"
    signature = _p256().sign(SECONDS.encode() + body, ec.ECDSA(hashes.SHA256()))
    public = _p256().public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )  # fmt: skip
    return Sent(
        name,
        {
            header: b64(signature),
            "X-Twilio-Email-Event-Webhook-Timestamp": SECONDS,
            "Content-Type": content_type,
        },
        body=body,
        secrets=(b64(public),),
        signature=header,
    )


def form(fields: dict[str, Any]) -> bytes:
    """Return an URL-encoded body."""
    return urlencode(fields, doseq=True).encode()


FORM = {"MessageSid": "SM1", "MessageStatus": "sent", "Empty": "", "Body": "It's + é, then"}


def twilio() -> Sent:
    """Sign as Twilio does: the address and the sorted fields."""
    content = URL + "".join(f"{name}{value}" for name, value in sorted(FORM.items()))
    return Sent(
        "twilio",
        {
            "X-Twilio-Signature": b64(mac(content.encode(), "sha1")),
            "Content-Type": "application/x-www-form-urlencoded",
        },
        body=form(FORM),
        signature="X-Twilio-Signature",
    )


def mandrill() -> Sent:
    """Sign as Mandrill does."""
    events = json.dumps([
        {"event": "send", "_id": "m1", "ts": 1, "msg": {"email": "a@x.test"}},
        {"event": "open", "_id": "m2", "ts": 2, "msg": {"email": "b@x.test"}},
    ])  # fmt: skip
    content = f"{URL}mandrill_events{events}"
    return Sent(
        "mandrill",
        {
            "X-Mandrill-Signature": b64(mac(content.encode(), "sha1")),
            "Content-Type": "application/x-www-form-urlencoded",
        },
        body=form({"mandrill_events": events}),
        signature="X-Mandrill-Signature",
    )


def mailgun() -> Sent:
    """Sign as Mailgun does: not the body."""
    token = "50charsofrandomness"
    signature = mac(f"{SECONDS}{token}".encode()).hex()
    block = {"timestamp": SECONDS, "token": token, "signature": signature}
    body = json.dumps({"signature": block, "event-data": {"event": "opened", "id": "e1"}})
    return Sent("mailgun", {}, body=body.encode(), covers_body=False)


def mailgun_inbound() -> Sent:
    """Sign as Mailgun's routes do."""
    token = "50charsofrandomness"
    signature = mac(f"{SECONDS}{token}".encode()).hex()
    fields = {"subject": "hi", "timestamp": SECONDS, "token": token, "signature": signature}
    return Sent(
        "mailgun-inbound",
        {"Content-Type": "application/x-www-form-urlencoded"},
        body=form(fields),
        covers_body=False,
    )


def unisender() -> Sent:
    """Sign as Unisender Go does."""
    body = json.dumps({"auth": SECRET, "events_by_user": []}, separators=(",", ":"))
    body = body.replace(json.dumps(SECRET), f'"{SECRET}"')
    auth = hashlib.md5(body.encode(), usedforsecurity=False).hexdigest()
    return Sent("unisender-go", {}, body=body.replace(SECRET, auth).encode())


def hook0() -> Sent:
    """Sign as Hook0 does: the headers it names too."""
    headers = {"X-Event-Id": "evt_1", "X-Event-Type": "thing.done"}
    message = f"{SECONDS}.x-event-id x-event-type.evt_1.thing.done.".encode() + BODY
    value = f"t={SECONDS},h=x-event-id x-event-type,v1={mac(message).hex()}"
    return Sent("hook0", headers | {"X-Hook0-Signature": value}, signature="X-Hook0-Signature")


def _url64(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def jwk() -> dict[str, Any]:
    """Return the public key as Plaid publishes it."""
    numbers = _p256().public_key().public_numbers()
    x, y = (_url64(each.to_bytes(32, "big")) for each in (numbers.x, numbers.y))
    return {"alg": "ES256", "crv": "P-256", "kty": "EC", "use": "sig", "kid": "k1", "x": x, "y": y}


def jwt(head: dict[str, Any], claims: dict[str, Any]) -> str:
    """Return a signed token."""
    signed = ".".join(_url64(json.dumps(each).encode()) for each in (head, claims))
    r, s = decode_dss_signature(_p256().sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{signed}.{_url64(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def plaid() -> Sent:
    """Sign as Plaid does."""
    claims = {"iat": NOW // 1000, "request_body_sha256": hashlib.sha256(BODY).hexdigest()}
    return Sent(
        "plaid",
        {"Plaid-Verification": jwt({"alg": "ES256", "kid": "k1", "typ": "JWT"}, claims)},
        secrets=(json.dumps(jwk()),),
        signature="Plaid-Verification",
    )


def sns(signature_version: str = "2", /, **changes: str | None) -> Sent:
    """Sign as SNS does."""
    message: dict[str, str | None] = {
        "Type": "Notification",
        "MessageId": "m-1",
        "TopicArn": TOPIC,
        "Subject": "hello",
        "Message": '{"eventType":"Bounce"}',
        "Timestamp": "2023-11-14T22:13:20.123Z",
        "SignatureVersion": signature_version,
        "SigningCertURL": CERTIFICATE_URL,
    }
    message |= changes
    names = ["Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"]
    if message["Type"] != "Notification":
        names = ["Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"]
    lines = "".join(f"{name}\n{message[name]}\n" for name in names if message.get(name) is not None)
    hash_ = hashes.SHA1() if signature_version == "1" else hashes.SHA256()  # noqa: S303 - as SNS does
    signature = _rsa().sign(lines.encode(), padding.PKCS1v15(), hash_)
    body = json.dumps(message | {"Signature": b64(signature)}).encode()
    return Sent(
        "aws-sns",
        {"x-amz-sns-message-type": str(message["Type"])},
        body=body,
        secrets=(certificate(),),
        options=SchemeOptions(topics=(TOPIC,)),
        covers_body=False,
    )


def postal() -> Sent:
    """Sign as Postal does."""
    public = _rsa().public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )  # fmt: skip
    signature = _rsa().sign(BODY, padding.PKCS1v15(), hashes.SHA256())
    header = "X-Postal-Signature-256"
    record = f"v=DKIM1; t=s; h=sha256; p={b64(public)};"
    return Sent("postal-inbound", {header: b64(signature)}, secrets=(record,), signature=header)


def postal_older() -> Sent:
    """Sign as older versions of Postal do."""
    header = "X-Postal-Signature"
    signature = _rsa().sign(BODY, padding.PKCS1v15(), hashes.SHA1())  # noqa: S303 - as Postal does
    return postal().but(headers={header: b64(signature)}, signature=header)


def cloudflare() -> Sent:
    """Sign as the worker of the examples does."""
    header = "X-Oncebox-Signature"
    message = f"{SECONDS}.<ann@example.com>.<box@oncebox.test>.".encode() + BODY
    return Sent(
        "cloudflare-email",
        {
            header: mac(message).hex(),
            "X-Oncebox-Timestamp": SECONDS,
            "X-Oncebox-Mail-From": "<ann@example.com>",
            "X-Oncebox-Rcpt-To": "<box@oncebox.test>",
        },
        signature=header,
    )


def twitch() -> Sent:
    """Sign as Twitch does."""
    header = "Twitch-Eventsub-Message-Signature"
    time = "2023-11-14T22:13:20.123456789Z"
    return Sent(
        "twitch",
        {
            "Twitch-Eventsub-Message-Id": "e76c6bd4",
            "Twitch-Eventsub-Message-Timestamp": time,
            header: f"sha256={mac(b'e76c6bd4' + time.encode() + BODY).hex()}",
        },
        signature=header,
    )


def zendesk(name: str) -> Sent:
    """Sign as Zendesk does, or did."""
    header = "X-Zendesk-Webhook-Signature"
    content = ISO.encode() + BODY if name == "zendesk" else BODY + ISO.encode()
    return Sent(
        name,
        {header: b64(mac(content)), "X-Zendesk-Webhook-Signature-Timestamp": ISO},
        signature=header,
    )


def hubspot() -> Sent:
    """Sign as HubSpot's third version does."""
    time = str(NOW)
    content = f"POST{URL}".encode() + BODY + time.encode()
    return Sent(
        "hubspot",
        {"X-HubSpot-Signature-v3": b64(mac(content)), "X-HubSpot-Request-Timestamp": time},
        signature="X-HubSpot-Signature-v3",
    )


def hubspot_older(name: str, content: bytes) -> Sent:
    """Sign as HubSpot's first versions do: a plain hash."""
    digest = hashlib.sha256(SECRET.encode() + content + BODY).hexdigest()
    header = "X-HubSpot-Signature"
    return Sent(name, {header: digest}, signature=header)


def linear() -> Sent:
    """Sign as Linear does, with the time in the body."""
    body = json.dumps({"type": "Issue", "action": "create", "webhookTimestamp": NOW}).encode()
    header = "Linear-Signature"
    headers = {header: mac(body).hex(), "Linear-Delivery": "d-1"}
    return Sent("linear", headers, body=body, signature=header)


def webflow() -> Sent:
    """Sign as Webflow does."""
    header = "x-webflow-signature"
    signature = mac(f"{NOW}:".encode() + BODY).hex()
    return Sent("webflow", {header: signature, "x-webflow-timestamp": str(NOW)}, signature=header)


def square() -> Sent:
    """Sign as Square does."""
    header = "x-square-hmacsha256-signature"
    return Sent("square", {header: b64(mac(URL.encode() + BODY))}, signature=header)


def basic(name: str) -> Sent:
    """Send a password."""
    return Sent(
        name,
        {"Authorization": f"Basic {b64(b'user:pass:word')}"},
        secrets=("user:pass:word",),
        signature="Authorization",
        covers_body=False,
    )


def token(name: str, header: str, value: str = "token-1") -> Sent:
    """Send a token."""
    return Sent(
        name, {header: value}, secrets=("token-1",), signature=header, covers_body=False
    )  # fmt: skip


SENDERS: dict[str, Callable[[], Sent]] = {
    "stripe": lambda: timed("stripe", "Stripe-Signature", ",", "v1", "t", "."),
    "paddle": lambda: timed("paddle", "Paddle-Signature", ";", "h1", "ts", ":"),
    "square": square,
    "gocardless": lambda: plain("gocardless", "Webhook-Signature"),
    "plaid": plaid,
    "polar": lambda: standard("polar", secret=SECRET),
    "shopify": lambda: plain64("shopify", "X-Shopify-Hmac-Sha256"),
    "shopify-events": lambda: plain64("shopify-events", "shopify-hmac-sha256"),
    "woocommerce": lambda: plain64("woocommerce", "X-WC-Webhook-Signature"),
    "github": lambda: plain("github", "X-Hub-Signature-256", prefix="sha256="),
    "github-legacy": lambda: plain(
        "github-legacy", "X-Hub-Signature", prefix="sha1=", algorithm="sha1"
    ),
    "gitlab": lambda: token("gitlab", "X-Gitlab-Token"),
    "gitlab-signing": lambda: standard("gitlab-signing"),
    "bitbucket": lambda: plain("bitbucket", "X-Hub-Signature", prefix="sha256="),
    "bitbucket-server": lambda: plain("bitbucket-server", "X-Hub-Signature", prefix="sha256="),
    "gitea": lambda: plain("gitea", "X-Gitea-Signature"),
    "gogs": lambda: plain("gogs", "X-Gogs-Signature"),
    "linear": linear,
    "vercel": lambda: plain("vercel", "x-vercel-signature", algorithm="sha1"),
    "pagerduty": lambda: plain("pagerduty", "X-PagerDuty-Signature", prefix="v1="),
    "slack": lambda: versioned("slack", "X-Slack-Signature", "X-Slack-Request-Timestamp"),
    "discord": discord,
    "zoom": lambda: versioned("zoom", "x-zm-signature", "x-zm-request-timestamp"),
    "twilio": twilio,
    "meta": lambda: plain("meta", "X-Hub-Signature-256", prefix="sha256="),
    "twitch": twitch,
    "x": lambda: plain64("x", "X-Twitter-Webhooks-Signature", prefix="sha256="),
    "intercom": lambda: plain("intercom", "X-Hub-Signature", prefix="sha1=", algorithm="sha1"),
    "zendesk": lambda: zendesk("zendesk"),
    "zendesk-legacy-order": lambda: zendesk("zendesk-legacy-order"),
    "hubspot": hubspot,
    "hubspot-v2": lambda: hubspot_older("hubspot-v2", b"POST" + URL.encode()),
    "hubspot-v1": lambda: hubspot_older("hubspot-v1", b""),
    "resend": lambda: standard("resend", "svix-"),
    "agentmail": lambda: standard("agentmail", "svix-"),
    "sendgrid": lambda: sendgrid("sendgrid"),
    "sendgrid-inbound": lambda: sendgrid("sendgrid-inbound", b"--b\r\n", "multipart/form-data"),
    "mailgun": mailgun,
    "mailgun-inbound": mailgun_inbound,
    "postmark": lambda: basic("postmark"),
    "aws-sns": sns,
    "mandrill": mandrill,
    "mailersend": lambda: plain("mailersend", "Signature"),
    "unisender-go": unisender,
    "cloudflare-email": cloudflare,
    "mandrill-inbound": lambda: mandrill().but(scheme="mandrill-inbound"),
    "postal-inbound": postal,
    "postmark-inbound": lambda: basic("postmark-inbound"),
    "resend-inbound": lambda: standard("resend-inbound", "svix-"),
    "ses-inbound": lambda: sns().but(scheme="ses-inbound"),
    "nylas": lambda: plain("nylas", "X-Nylas-Signature"),
    "calcom": lambda: plain("calcom", "X-Cal-Signature-256"),
    "typeform": lambda: plain64("typeform", "Typeform-Signature", prefix="sha256="),
    "webflow": webflow,
    "standard-webhooks": lambda: standard("standard-webhooks"),
    "svix": lambda: standard("svix", "svix-"),
    "clerk": lambda: standard("clerk", "svix-"),
    "replicate": lambda: standard("replicate"),
    "openai": lambda: standard("openai"),
    "elevenlabs": lambda: timed("elevenlabs", "ElevenLabs-Signature", ",", "v0", "t", "."),
    "hookdeck": lambda: plain64("hookdeck", "x-hookdeck-signature"),
    "outpost": lambda: plain("outpost", "x-outpost-signature", prefix="v0="),
    "hook0": hook0,
    "generic-hmac": lambda: plain("generic-hmac", "X-Signature", prefix="sha256="),
    "basic": lambda: basic("basic"),
    "token": lambda: token("token", "Authorization", "Bearer token-1"),
}
#: the one scheme that has nothing to check
UNCHECKED = {"none"}
