"""Handshakes: answers to providers' endpoint registration requests (challenge, ping).

Two providers ask for an HMAC of a text they choose, with the key that signs events. Such an answer
is a signing oracle, so only short plain tokens are hashed: no event is one.
"""

import base64
import hmac
import re
from collections.abc import Callable, Sequence
from typing import TypeVar
from urllib.parse import parse_qsl

import msgspec

from oncebox.errors import SignatureInvalid
from oncebox.webhooks import signing
from oncebox.webhooks.custom import sns
from oncebox.webhooks.http_request import WebhookRequest, header_bytes
from oncebox.webhooks.paths import DECODE_ERRORS
from oncebox.webhooks.scheme import (
    NO_OPTIONS,
    NO_PUBLIC_KEYS,
    HandshakeReply,
    PublicKeys,
    Scheme,
    SchemeOptions,
    SubscriptionConfirmation,
    VerificationContext,
)
from oncebox.webhooks.verification import verify_fresh

T = TypeVar("T")
Verify = Callable[[], object]

#: a token that can be echoed or hashed: no braces, quotes, colons or spaces
_PLAIN_TOKEN = re.compile(r"[A-Za-z0-9_+/=.-]{1,256}")
_MAX_QUERY_LENGTH = 4_096
_TEXT_HEADERS = (
    ("content-type", "text/plain; charset=utf-8"),
    ("x-content-type-options", "nosniff"),
)
_JSON_HEADERS = (("content-type", "application/json"),)


def answer_handshake(
    scheme: Scheme,
    request: WebhookRequest,
    secrets: Sequence[str],
    *,
    now: int | None,
    options: SchemeOptions = NO_OPTIONS,
    keys: PublicKeys = NO_PUBLIC_KEYS,
) -> HandshakeReply | SubscriptionConfirmation | None:
    """Return the answer to a registration request, or None for any other request.

    Raises: KeyFetchRequired.
    """
    if request.method.upper() == "HEAD":
        return HandshakeReply()
    if scheme.handshake is None:
        return None
    context = VerificationContext(
        scheme=scheme, request=request, secrets=secrets, now=now, options=options, keys=keys
    )

    def verified() -> object:
        return verify_fresh(scheme, request, secrets, now=now, options=options, keys=keys)

    try:
        return scheme.handshake(context, verified)
    except SignatureInvalid:
        return None


class _SlackChallenge(msgspec.Struct):
    type: str
    challenge: str


class _ZoomPayload(msgspec.Struct):
    plain: str = msgspec.field(name="plainToken")


class _ZoomChallenge(msgspec.Struct):
    event: str
    payload: _ZoomPayload


class _DiscordPing(msgspec.Struct):
    type: int
    version: int = 0
    application_id: str = ""


class _TwitchChallenge(msgspec.Struct):
    challenge: str


def slack(context: VerificationContext, verified: Verify) -> HandshakeReply | None:
    """Echo the challenge of ``url_verification``; Slack signs it."""
    asked = _decode_body(context, _SlackChallenge)
    if asked is None or asked.type != "url_verification":
        return None
    verified()
    return _echo(asked.challenge)


def zoom(context: VerificationContext, verified: Verify) -> HandshakeReply | None:
    """Hash the plain token of ``endpoint.url_validation``; a signature, if there is one, counts."""
    asked = _decode_body(context, _ZoomChallenge)
    if asked is None or asked.event != "endpoint.url_validation":
        return None
    if "x-zm-signature" in context.request.headers_by_name:
        verified()
    digest = _hmac_of_token(context, asked.payload.plain)
    answer = {"plainToken": asked.payload.plain, "encryptedToken": digest.hex()}
    return HandshakeReply(headers=_JSON_HEADERS, body=msgspec.json.encode(answer))


def x(context: VerificationContext, _verified: Verify) -> HandshakeReply | None:
    """Hash the token of X's challenge-response check."""
    token = _query(context.request, "GET").get("crc_token")
    if token is None:
        return None
    digest = base64.b64encode(_hmac_of_token(context, token)).decode()
    return HandshakeReply(
        headers=_JSON_HEADERS, body=msgspec.json.encode({"response_token": f"sha256={digest}"})
    )


def meta(context: VerificationContext, _verified: Verify) -> HandshakeReply | None:
    """Echo the challenge of a request with the verify token."""
    query = _query(context.request, "GET")
    expected, given = context.options.verify_token, query.get("hub.verify_token", "")
    if query.get("hub.mode") != "subscribe" or not expected.strip():
        return None
    if not hmac.compare_digest(signing.secret_bytes(expected), signing.secret_bytes(given)):
        return None
    return _echo(query.get("hub.challenge", ""))


def nylas(context: VerificationContext, _verified: Verify) -> HandshakeReply | None:
    """Echo the challenge in the address."""
    challenge = _query(context.request, "GET").get("challenge")
    return None if challenge is None else _echo(challenge)


def discord(context: VerificationContext, verified: Verify) -> HandshakeReply | None:
    """Answer a ping of interactions or of webhook events; both are signed, and probed unsigned."""
    asked = _decode_body(context, _DiscordPing)
    if asked is None:
        return None
    if asked.type == 1:
        verified()
        return HandshakeReply(headers=_JSON_HEADERS, body=b'{"type":1}')
    if asked.type == 0 and asked.version and asked.application_id:
        verified()
        return HandshakeReply(status=204)
    return None


def twitch(context: VerificationContext, verified: Verify) -> HandshakeReply | None:
    """Echo the challenge of a signed callback verification."""
    kind = context.request.headers_by_name.get("twitch-eventsub-message-type", "")
    asked = _decode_body(context, _TwitchChallenge)
    if kind != "webhook_callback_verification" or asked is None:
        return None
    verified()
    return _echo(asked.challenge)


def confirm_aws_sns(
    context: VerificationContext, verified: Verify
) -> SubscriptionConfirmation | None:
    """Say where a signed subscription of an allowed topic is confirmed."""
    confirm = sns.subscription_confirmation(context)
    if confirm is not None:
        verified()
    return confirm


def unisender(context: VerificationContext, _verified: Verify) -> HandshakeReply | None:
    """Answer the GET by which Unisender checks a new address."""
    return HandshakeReply() if context.request.method.upper() == "GET" else None


def _decode_body(context: VerificationContext, kind: type[T]) -> T | None:
    if context.request.method.upper() != "POST":
        return None
    try:
        return msgspec.json.decode(context.request.body, type=kind)
    except DECODE_ERRORS:
        return None


def _query(request: WebhookRequest, method: str) -> dict[str, str]:
    query = request.query
    if request.method.upper() != method or len(query) > _MAX_QUERY_LENGTH:
        return {}
    return dict(parse_qsl(query))


def _echo(token: str) -> HandshakeReply | None:
    is_plain = _PLAIN_TOKEN.fullmatch(token)
    return HandshakeReply(headers=_TEXT_HEADERS, body=header_bytes(token)) if is_plain else None


def _hmac_of_token(context: VerificationContext, token: str) -> bytes:
    if not _PLAIN_TOKEN.fullmatch(token):
        raise SignatureInvalid("malformed_body")
    (_, secret), *_ = signing.nonblank_secrets(context.secrets)
    return hmac.digest(signing.secret_bytes(secret), header_bytes(token), "sha256")
