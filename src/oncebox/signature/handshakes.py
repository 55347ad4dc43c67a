"""Handshakes: what a provider asks before it sends anything, answered without giving secrets away.

Two providers ask for a keyed hash of a text they choose, with the very key that signs events. Such
an answer is an oracle for whoever asks, so only short plain words are hashed: no event is one.
"""

import base64
import hmac
import re
from collections.abc import Callable, Sequence
from typing import TypeVar
from urllib.parse import parse_qsl

import msgspec

from oncebox.errors import SignatureInvalid
from oncebox.signature import keyring
from oncebox.signature.field import UNREADABLE
from oncebox.signature.odd import sns
from oncebox.signature.request import Request, octets
from oncebox.signature.scheme import (
    NO_KEYS,
    NO_OPTIONS,
    Attempt,
    Confirm,
    Keys,
    Options,
    Reply,
    Scheme,
)
from oncebox.signature.verification import verify_strictly

T = TypeVar("T")
Verified = Callable[[], object]

#: a word that can be echoed or hashed: no braces, quotes, colons or spaces
_WORD = re.compile(r"[A-Za-z0-9_+/=.-]{1,256}")
_LONGEST_QUERY = 4_096
_PLAIN = (("content-type", "text/plain; charset=utf-8"), ("x-content-type-options", "nosniff"))
_JSON = (("content-type", "application/json"),)


def handshake(
    scheme: Scheme,
    request: Request,
    secrets: Sequence[str],
    *,
    now: int | None,
    options: Options = NO_OPTIONS,
    keys: Keys = NO_KEYS,
) -> Reply | Confirm | None:
    """Return the answer to a registration request, or None if it is none that may be answered.

    Raises: KeyWanted.
    """
    if request.method.upper() == "HEAD":
        return Reply()
    if scheme.handshake is None:
        return None
    attempt = Attempt(
        scheme=scheme, request=request, secrets=secrets, now=now, options=options, keys=keys
    )

    def verified() -> object:
        return verify_strictly(scheme, request, secrets, now=now, options=options, keys=keys)

    try:
        return scheme.handshake(attempt, verified)
    except SignatureInvalid:
        return None


class _Slack(msgspec.Struct):
    type: str
    challenge: str


class _ZoomPayload(msgspec.Struct):
    plain: str = msgspec.field(name="plainToken")


class _Zoom(msgspec.Struct):
    event: str
    payload: _ZoomPayload


class _Discord(msgspec.Struct):
    type: int
    version: int = 0
    application_id: str = ""


class _Twitch(msgspec.Struct):
    challenge: str


def slack(attempt: Attempt, verified: Verified) -> Reply | None:
    """Echo the challenge of ``url_verification``; Slack signs it."""
    asked = _decoded(attempt, _Slack)
    if asked is None or asked.type != "url_verification":
        return None
    verified()
    return _echo(asked.challenge)


def zoom(attempt: Attempt, verified: Verified) -> Reply | None:
    """Hash the plain token of ``endpoint.url_validation``; a signature, if there is one, counts."""
    asked = _decoded(attempt, _Zoom)
    if asked is None or asked.event != "endpoint.url_validation":
        return None
    if "x-zm-signature" in attempt.request.table:
        verified()
    digest = _hashed(attempt, asked.payload.plain)
    answer = {"plainToken": asked.payload.plain, "encryptedToken": digest.hex()}
    return Reply(headers=_JSON, body=msgspec.json.encode(answer))


def x(attempt: Attempt, _verified: Verified) -> Reply | None:
    """Hash the token of X's challenge-response check."""
    token = _query(attempt.request, "GET").get("crc_token")
    if token is None:
        return None
    digest = base64.b64encode(_hashed(attempt, token)).decode()
    return Reply(headers=_JSON, body=msgspec.json.encode({"response_token": f"sha256={digest}"}))


def meta(attempt: Attempt, _verified: Verified) -> Reply | None:
    """Echo the challenge to whoever knows the verify token."""
    query = _query(attempt.request, "GET")
    expected, given = attempt.options.verify_token, query.get("hub.verify_token", "")
    if query.get("hub.mode") != "subscribe" or not expected.strip():
        return None
    if not hmac.compare_digest(keyring.encoded(expected), keyring.encoded(given)):
        return None
    return _echo(query.get("hub.challenge", ""))


def nylas(attempt: Attempt, _verified: Verified) -> Reply | None:
    """Echo the challenge in the address."""
    challenge = _query(attempt.request, "GET").get("challenge")
    return None if challenge is None else _echo(challenge)


def discord(attempt: Attempt, verified: Verified) -> Reply | None:
    """Answer a ping of interactions or of webhook events; both are signed, and probed unsigned."""
    asked = _decoded(attempt, _Discord)
    if asked is None:
        return None
    if asked.type == 1:
        verified()
        return Reply(headers=_JSON, body=b'{"type":1}')
    if asked.type == 0 and asked.version and asked.application_id:
        verified()
        return Reply(status=204)
    return None


def twitch(attempt: Attempt, verified: Verified) -> Reply | None:
    """Echo the challenge of a signed callback verification."""
    kind = attempt.request.table.get("twitch-eventsub-message-type", "")
    asked = _decoded(attempt, _Twitch)
    if kind != "webhook_callback_verification" or asked is None:
        return None
    verified()
    return _echo(asked.challenge)


def aws_sns(attempt: Attempt, verified: Verified) -> Confirm | None:
    """Say where a signed subscription of an allowed topic is confirmed."""
    confirm = sns.confirmation(attempt)
    if confirm is not None:
        verified()
    return confirm


def unisender(attempt: Attempt, _verified: Verified) -> Reply | None:
    """Answer the look that Unisender takes at a new address."""
    return Reply() if attempt.request.method.upper() == "GET" else None


def _decoded(attempt: Attempt, kind: type[T]) -> T | None:
    if attempt.request.method.upper() != "POST":
        return None
    try:
        return msgspec.json.decode(attempt.request.body, type=kind)
    except UNREADABLE:
        return None


def _query(request: Request, method: str) -> dict[str, str]:
    query = request.query
    if request.method.upper() != method or len(query) > _LONGEST_QUERY:
        return {}
    return dict(parse_qsl(query))


def _echo(word: str) -> Reply | None:
    return Reply(headers=_PLAIN, body=octets(word)) if _WORD.fullmatch(word) else None


def _hashed(attempt: Attempt, word: str) -> bytes:
    if not _WORD.fullmatch(word):
        raise SignatureInvalid("malformed_body")
    (_, secret), *_ = keyring.present(attempt.secrets)
    return hmac.digest(keyring.encoded(secret), octets(word), "sha256")
