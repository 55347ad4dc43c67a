"""The vector format: recorded requests with their secrets, one object each, to be judged."""

import base64
import json
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from oncebox.errors import ConfigInvalid, KeyWanted, SignatureInvalid, UnknownScheme
from oncebox.signature import schemes
from oncebox.signature.handshakes import handshake
from oncebox.signature.request import Request
from oncebox.signature.scheme import Options, Scheme
from oncebox.signature.verification import verify_strictly

#: what the scheme of a provider is called here
NAMES: dict[tuple[str, str], str] = {
    ("aws-sns", "aws-sns"): "aws-sns",
    ("basic-auth", "basic-auth"): "basic",
    ("bitbucket-server", "github-legacy"): "bitbucket-server",
    ("calcom", "hmac-hex-header"): "calcom",
    ("discord", "discord"): "discord",
    ("elevenlabs", "elevenlabs"): "elevenlabs",
    ("generic-hmac", "hmac-b64-sha512"): "generic-hmac",
    ("generic-hmac", "hmac-hex-sha1"): "generic-hmac",
    ("generic-hmac", "hmac-hex-sha256"): "generic-hmac",
    ("generic-hmac", "hmac-hex-sha512"): "generic-hmac",
    ("gitea", "hmac-hex-header"): "gitea",
    ("github", "github"): "github",
    ("github", "github-legacy"): "github-legacy",
    ("gitlab", "standard-webhooks"): "gitlab-signing",
    ("gitlab", "token-header"): "gitlab",
    ("gocardless", "hmac-hex-header"): "gocardless",
    ("gogs", "hmac-hex-header"): "gogs",
    ("hook0", "hook0"): "hook0",
    ("hookdeck", "hmac-b64-header"): "hookdeck",
    ("hubspot", "hubspot-v1"): "hubspot-v1",
    ("hubspot", "hubspot-v2"): "hubspot-v2",
    ("hubspot", "hubspot-v3"): "hubspot",
    ("intercom", "github-legacy"): "intercom",
    ("linear", "linear"): "linear",
    ("mailersend", "hmac-hex-header"): "mailersend",
    ("mailgun", "mailgun-json"): "mailgun",
    ("mailgun-inbound", "mailgun-form"): "mailgun-inbound",
    ("mandrill", "mandrill"): "mandrill",
    ("meta", "github"): "meta",
    ("nylas", "hmac-hex-header"): "nylas",
    ("openai", "standard-webhooks"): "openai",
    ("outpost", "outpost"): "outpost",
    ("paddle", "paddle"): "paddle",
    ("pagerduty", "pagerduty"): "pagerduty",
    ("plaid", "plaid"): "plaid",
    ("polar", "standard-webhooks-rawsecret"): "polar",
    ("postmark", "basic-auth"): "postmark",
    ("resend", "standard-webhooks"): "resend",
    ("sendgrid-event", "sendgrid-ecdsa"): "sendgrid",
    ("sendgrid-inbound", "sendgrid-ecdsa"): "sendgrid-inbound",
    ("shopify", "shopify"): "shopify",
    ("shopify", "shopify-events"): "shopify-events",
    ("slack", "slack"): "slack",
    ("square", "square"): "square",
    ("standard-webhooks", "standard-webhooks"): "standard-webhooks",
    ("stripe", "stripe"): "stripe",
    ("svix", "standard-webhooks"): "svix",
    ("twilio", "twilio"): "twilio",
    ("twitch", "twitch"): "twitch",
    ("typeform", "typeform"): "typeform",
    ("unisender-go", "unisender-md5"): "unisender-go",
    ("vercel", "hmac-hex-header-sha1"): "vercel",
    ("webflow", "webflow"): "webflow",
    ("woocommerce", "hmac-b64-header"): "woocommerce",
    ("x-twitter", "twitter"): "x",
    ("zendesk", "zendesk"): "zendesk",
    ("zendesk", "zendesk-legacy-order"): "zendesk-legacy-order",
    ("zoom", "zoom"): "zoom",
    ("zoom", "zoom-crc"): "zoom",
}
#: the general scheme, by the name of its hash and encoding
_TUNED = {
    "hmac-b64-sha512": Options(algorithm="sha512", encoding="base64"),
    "hmac-hex-sha1": Options(algorithm="sha1"),
    "hmac-hex-sha256": Options(algorithm="sha256"),
    "hmac-hex-sha512": Options(algorithm="sha512"),
}


class Vector(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded request, and what is needed to judge it."""

    id: str
    scheme: str
    provider: str | None = None
    #: one secret, several, or a key: PEM, certificate or JWK
    secret_or_key: Any = None
    method: str | None = None
    headers: dict[str, str | list[str]] | list[tuple[str, str]] = {}
    content_type: str | None = None
    body_base64: str | None = None
    #: seconds since 1970; without, no time is judged
    now_epoch_if_needed: float | None = None
    #: seconds; without, the scheme's own
    tolerance_seconds: float | None = None
    url_if_needed: str | None = None
    signature_header: str | None = None
    topic_arn_allowlist: list[str] | None = None


class Judgement(msgspec.Struct, frozen=True):
    """What became of a vector."""

    id: str
    #: ``valid``, ``invalid`` or ``challenge``
    verdict: str
    reason: str | None


def load(path: Path) -> list[Vector]:
    """Return the vectors of a file: a JSON list, or an object a line.

    Raises: ConfigInvalid.
    """
    text = path.read_bytes()
    try:
        if text.lstrip().startswith(b"["):
            return msgspec.json.decode(text, type=list[Vector])
        lines = (line for line in text.splitlines() if line.strip())
        return [msgspec.json.decode(line, type=Vector) for line in lines]
    except msgspec.DecodeError as error:
        message = f"{path} is not a list of vectors: {error}"
        raise ConfigInvalid(message) from error


def judge(vector: Vector) -> Judgement:
    """Return what a vector is: valid and fresh, a handshake that would be answered, or neither.

    Raises: UnknownScheme, if nothing here is called so; ConfigInvalid, if it is no request.
    """
    scheme, options = _scheme(vector)
    request, secrets = _request(vector), _secrets(vector)
    now = None if vector.now_epoch_if_needed is None else int(vector.now_epoch_if_needed * 1000)
    try:
        if handshake(scheme, request, secrets, now=now, options=options) is not None:
            return Judgement(vector.id, "challenge", None)
        verify_strictly(scheme, request, secrets, now=now, options=options)
    except SignatureInvalid as error:
        return Judgement(vector.id, "invalid", error.reason)
    except KeyWanted as error:
        return Judgement(vector.id, "invalid", error.code)
    return Judgement(vector.id, "valid", None)


def _scheme(vector: Vector) -> tuple[Scheme, Options]:
    known = NAMES.get((vector.provider or "", vector.scheme))
    if known is None and vector.provider not in {None, vector.scheme}:
        message = f"{vector.id}: nothing is called {vector.provider} / {vector.scheme}"
        raise UnknownScheme(message)
    scheme = schemes.find(known or vector.scheme)
    if vector.signature_header and scheme.header:
        scheme = replace(scheme, header=vector.signature_header)
    window = vector.tolerance_seconds
    return scheme, replace(
        _TUNED.get(vector.scheme, Options()),
        window=None if window is None else int(window),
        topics=tuple(vector.topic_arn_allowlist or ()),
    )


def _request(vector: Vector) -> Request:
    headers = vector.headers
    if isinstance(headers, dict):
        headers = [
            (name, value)
            for name, values in headers.items()
            for value in ([values] if isinstance(values, str) else values)
        ]
    if vector.content_type and all(name.lower() != "content-type" for name, _ in headers):
        headers = [*headers, ("Content-Type", vector.content_type)]
    try:
        body = base64.b64decode(vector.body_base64 or "", validate=True)
    except ValueError as error:
        message = f"{vector.id}: the body is not base64"
        raise ConfigInvalid(message) from error
    return Request(
        method=vector.method or "POST",
        url=vector.url_if_needed or "",
        headers=tuple(headers),
        body=body,
    )


def _secrets(vector: Vector) -> list[str]:
    given = vector.secret_or_key
    several = given if isinstance(given, list) else [given]
    return [
        each if isinstance(each, str) else json.dumps(each) for each in several if each is not None
    ]
