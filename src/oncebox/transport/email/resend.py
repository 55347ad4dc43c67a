"""Resend out: one mail in one request, and an honest word about what became of it.

A mail is in doubt only from the moment its body is pulled until a readable answer. The body is
pulled when the connection stands, TLS and all, and the marker is committed right before it: what
fails until then is not sent. The key and the bytes are the same at every repeat, so that Resend
answers a repeat within a day as it answered the first (docs/decisions/0066).
"""

import asyncio
import base64
import re
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import msgspec

from oncebox import clock, faults
from oncebox.egress import Egress, Reply
from oncebox.errors import ConfigInvalid, EgressFailed, EgressRefused
from oncebox.mail.compose import auto_submitted
from oncebox.model.email import Attachment, Email
from oncebox.model.outcome import (
    KEY_MISMATCH,
    Accepted,
    NotSent,
    Outcome,
    Phase,
    Rejected,
    Unknown,
)
from oncebox.transport.email.capability import ALL, Capability
from oncebox.transport.email.parcel import FENCE_LOST, Marker, Parcel

#: seconds for the answer, from the body on
ANSWER_WITHIN = 60.0
#: the tag by which webhooks tell of our sends
TAG = "oncebox"

_TOKEN = re.compile(r"[!-~]{1,512}")
_ID = re.compile(r"[!-~]{1,256}")
_NAME = re.compile(r"[a-z0-9_]{1,64}")
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_HERE = frozenset({"127.0.0.1", "::1", "localhost"})
_LARGEST_ANSWER = 65_536
#: bytes of a request, with all that is attached
_LARGEST = 40 * 1024 * 1024
_PIECE = 65_536
_DEADLINE_PASSED = "deadline_passed"
_TOO_MANY = 429
_CONFLICT = 409

_REFUSALS = frozenset({400, 404, 405, 413, 422})
_LOGIN = frozenset({401, 403})
#: of 401 and 403: what is about one mail, and says nothing of the key
_OF_THE_MAIL = frozenset({"validation_error", "invalid_from_address"})
_SECURITY = (451, "security_error")
_NO_MAIL = b"{}"


class ResendConfig(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="resend"
):
    """An account at Resend, or whatever speaks as it does."""

    api_key: str
    url: str = "https://api.resend.com"
    #: the name of the webhook source that tells about its mail
    source: str = ""

    def __repr__(self) -> str:
        """Leave out the key."""
        return f"ResendConfig({self.url})"


@dataclass(slots=True)
class _Progress:
    """How far a mail came."""

    phase: Phase = Phase.CONNECT
    #: why the body was kept back, although it was asked for
    kept_back: str = ""
    #: what the marker raised
    raised: Exception | None = None


class _KeptBack(Exception):
    """The body must not be sent."""


class Resend:
    """Hands mails to Resend; never tries twice."""

    capability: Capability = ALL["resend"]

    def __init__(
        self,
        config: ResendConfig,
        *,
        egress: Egress | None = None,
        answer_within: float = ANSWER_WITHIN,
    ) -> None:
        """Connect to nobody yet.

        Raises: ConfigInvalid.
        """
        check(config)
        self._url = f"{config.url.rstrip('/')}/emails"
        self._key = config.api_key
        self._answer_within = answer_within
        self._egress = egress or Egress(local=_local(config.url))

    async def send(self, parcel: Parcel, before_point_of_no_return: Marker) -> Outcome:
        """Hand a mail over; see `Transport.send`."""
        body = written(parcel)
        flaw = _flaw(parcel, body)
        if flaw is not None:
            return Rejected(code=flaw, phase=Phase.CONNECT)
        progress = _Progress()
        try:
            reply = await self._ask(parcel, body, progress, before_point_of_no_return)
        except (_KeptBack, EgressFailed, EgressRefused, TimeoutError) as error:
            if progress.raised is not None:
                raise progress.raised from None
            return _unanswered(error, progress)
        faults.point("sends.reply_read")
        return judged(reply, progress.phase)

    async def probe(self, deadline: float) -> NotSent | None:
        """Ask for a mail that says nothing, which no provider sends; see `probe.Probed`.

        A key that may only send can ask for nothing else.
        """
        headers = self._headers(_NO_MAIL)
        try:
            async with _until(deadline):
                reply = await self._egress.post(self._url, _nothing(), headers=headers)
        except (EgressFailed, EgressRefused, TimeoutError) as error:
            found: Outcome = _unanswered(error, _Progress())
        else:
            found = judged(reply)
        if isinstance(found, Unknown):
            return NotSent(code=found.code, phase=found.phase, reply=found.reply)
        return found if isinstance(found, NotSent) else None

    async def close(self) -> None:
        """Close what is open."""
        await self._egress.close()

    async def _ask(self, parcel: Parcel, body: bytes, progress: _Progress, marker: Marker) -> Reply:
        headers = {**self._headers(body), "idempotency-key": parcel.provider_key}
        async with _until(parcel.deadline) as limit:
            pulled = self._pulled(parcel, body, progress, marker, limit)
            return await self._egress.post(self._url, pulled, headers=headers, most=_LARGEST_ANSWER)

    def _headers(self, body: bytes) -> dict[str, str]:
        return {
            "authorization": f"Bearer {self._key}",
            "content-type": "application/json",
            "content-length": str(len(body)),
        }

    async def _pulled(
        self,
        parcel: Parcel,
        body: bytes,
        progress: _Progress,
        marker: Marker,
        limit: asyncio.Timeout,
    ) -> AsyncIterator[bytes]:
        """Give the body, once the ledger knows that it may be taken."""
        progress.phase = Phase.BODY
        faults.point("sends.connected")
        # A commit is not cut short: nobody would know whether it was one.
        limit.reschedule(None)
        try:
            marked = await marker()
        except Exception as error:
            # Whatever it is, it must not be taken for what the world does.
            progress.raised = error
            raise _KeptBack from error
        if not marked:
            progress.kept_back = FENCE_LOST
            raise _KeptBack
        progress.phase = Phase.MARKED
        if clock.steady() >= parcel.deadline:
            progress.kept_back = _DEADLINE_PASSED
            raise _KeptBack
        limit.reschedule(asyncio.get_running_loop().time() + self._answer_within)
        progress.phase = Phase.HANDED_OVER
        for at in range(0, len(body), _PIECE):
            yield body[at : at + _PIECE]
        faults.point("sends.handed_over")


async def _nothing() -> AsyncIterator[bytes]:
    yield _NO_MAIL


def check(config: ResendConfig) -> None:
    """See that an account can be spoken to, and that no key goes out in the clear.

    Raises: ConfigInvalid.
    """
    if not _TOKEN.fullmatch(config.api_key):
        raise ConfigInvalid("Resend needs an API key, such as re_…")
    try:
        parts = urlsplit(config.url)
        port = parts.port
        (parts.hostname or "").encode("idna")
    except ValueError as error:
        raise ConfigInvalid("the address of Resend cannot be read") from error
    secured = parts.scheme == "https" and port in {None, 443}
    here = parts.scheme == "http" and parts.hostname in _HERE
    more = parts.query or parts.fragment or "@" in parts.netloc
    if not parts.hostname or not (secured or here) or more:
        message = "the address of Resend is one such as https://api.resend.com, without a port"
        raise ConfigInvalid(message)


def written(parcel: Parcel) -> bytes:
    """Return the request for a mail: the same bytes at every repeat, for Resend compares them."""
    email = parcel.email
    said: dict[str, Any] = {
        "from": email.sender,
        "to": email.to,
        "cc": email.cc,
        "bcc": email.bcc,
        "reply_to": email.reply_to,
        "subject": email.subject,
        "text": email.text,
        "html": email.html,
        "headers": _headers(email, parcel.message_id),
        "attachments": [_attached(each) for each in email.attachments],
        "tags": _tags(email, parcel.send_id),
    }
    if email.html and not email.text:
        del said["text"]
    needed = {"from", "to", "subject", "text"}
    return msgspec.json.encode({name: at for name, at in said.items() if at or name in needed})


def _tags(email: Email, send_id: str) -> list[dict[str, str]]:
    """Return the sender's tags and ours, by which Resend's word finds its send."""
    tags = {**email.tags, TAG: send_id}
    return [{"name": name, "value": value} for name, value in tags.items()]


def judged(reply: Reply, phase: Phase = Phase.HANDED_OVER) -> Outcome:
    """Say what an answer means; nothing of it is repeated but its status and a name we know."""
    if phase in {Phase.CONNECT, Phase.BODY, Phase.MARKED}:
        # It was answered before the body was on its way; without one there is no mail.
        return _not_taken(reply, phase)
    if 200 <= reply.status < 300:  # noqa: PLR2004 - the class of success
        id_ = _field(reply, "id", _ID)
        if id_ is None:
            return Unknown(code="answer_unreadable", phase=Phase.ANSWERED, reply=reply.status)
        return Accepted(provider_id=id_)
    name = _field(reply, "name", _NAME) or ""
    if reply.status == _TOO_MANY or reply.status in _LOGIN:
        return _not_now(reply, name)
    if reply.status in _REFUSALS or (reply.status, name) == _SECURITY:
        return Rejected(code="message_refused", phase=Phase.ANSWERED, reply=reply.status)
    code = "server_error" if reply.status >= 500 else "answer_unexpected"  # noqa: PLR2004
    if reply.status == _CONFLICT:
        code = _CONFLICTS.get(name, code)
    return Unknown(code=code, phase=Phase.ANSWERED, reply=reply.status)


#: an earlier request with this key is under way, or said something else: neither is ever answered
#: by another key, for the earlier one may have been taken
_CONFLICTS = {
    "concurrent_idempotent_requests": "key_in_use",
    "invalid_idempotent_request": KEY_MISMATCH,
}


def _not_now(reply: Reply, name: str) -> NotSent | Rejected:
    """Judge a refusal that is about the account, and condemns no mail."""
    if reply.status == _TOO_MANY:
        code = "quota_exceeded" if name.endswith("quota_exceeded") else "rate_limited"
        wait = _retry_after(reply)
        return NotSent(code=code, phase=Phase.ANSWERED, reply=reply.status, retry_after=wait)
    if reply.status == 403 and name in _OF_THE_MAIL:  # noqa: PLR2004 - forbidden
        return Rejected(code="sender_refused", phase=Phase.ANSWERED, reply=reply.status)
    code = "login_refused"
    return NotSent(code=code, phase=Phase.ANSWERED, reply=reply.status, opens_circuit=True)


def _not_taken(reply: Reply, phase: Phase) -> NotSent:
    found = _retry_after(reply) if reply.status == _TOO_MANY else None
    refused = reply.status in _LOGIN
    return NotSent(
        code="login_refused" if refused else "answered_early",
        phase=phase,
        reply=reply.status,
        retry_after=found,
        opens_circuit=refused,
    )


def _unanswered(error: Exception, progress: _Progress) -> NotSent | Unknown:
    """Say what became of a mail without an answer."""
    if progress.kept_back:
        return NotSent(code=progress.kept_back, phase=progress.phase)
    if progress.phase is Phase.HANDED_OVER:
        code = "no_answer" if isinstance(error, TimeoutError) else "connection_lost"
        return Unknown(code=code, phase=Phase.HANDED_OVER)
    for kind, code in _TROUBLES:
        if _was_caused_by(error, kind):
            return NotSent(code=code, phase=progress.phase, opens_circuit=kind in _FOR_GOOD)
    return NotSent(code="connect_failed", phase=progress.phase)


_TROUBLES: tuple[tuple[type[BaseException], str], ...] = (
    (EgressRefused, "address_refused"),
    (ssl.SSLCertVerificationError, "certificate_refused"),
    (ssl.SSLError, "tls_failed"),
    (socket.gaierror, "host_not_found"),
    (TimeoutError, _DEADLINE_PASSED),
)
_FOR_GOOD = frozenset({EgressRefused, ssl.SSLCertVerificationError})


def _was_caused_by(error: BaseException | None, kind: type[BaseException]) -> bool:
    while error is not None:
        if isinstance(error, kind):
            return True
        error = error.__cause__ or error.__context__
    return False


def _field(reply: Reply, name: str, form: re.Pattern[str]) -> str | None:
    """Return a word of an answer, if it is one."""
    try:
        said = msgspec.json.decode(reply.body or b"")
    except (msgspec.DecodeError, RecursionError):
        return None
    found = said.get(name) if isinstance(said, dict) else None
    return found if isinstance(found, str) and form.fullmatch(found) else None


def _retry_after(reply: Reply) -> int | None:
    """Return the milliseconds that the other side asks to wait."""
    found = reply.headers.get("retry-after", "").strip()
    return round(float(found) * 1000) if _SECONDS.fullmatch(found) else None


def _flaw(parcel: Parcel, body: bytes) -> str | None:
    """Return the code of what Resend would refuse in any case."""
    email = parcel.email
    if not email.to:
        return "to_missing"
    if len(email.to) + len(email.cc) + len(email.bcc) > Resend.capability.most_recipients:
        return "too_many_recipients"
    if not re.fullmatch(Resend.capability.key_pattern, parcel.provider_key):
        return "provider_key_invalid"
    return "message_too_large" if len(body) > _LARGEST else None


def _headers(email: Email, message_id: str) -> dict[str, str]:
    found = {"Message-ID": message_id, "Auto-Submitted": auto_submitted(email)}
    if email.unsubscribe:
        found["List-Unsubscribe"] = f"<{email.unsubscribe}>"
        if email.unsubscribe.startswith("https:"):
            found["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    return {**found, **email.headers}


def _attached(attachment: Attachment) -> dict[str, str]:
    found = {
        "filename": attachment.name,
        "content": base64.b64encode(attachment.content).decode("ascii"),
        "content_type": attachment.media_type,
    }
    if attachment.content_id:
        found["content_id"] = attachment.content_id
    return found


def _local(url: str) -> tuple[str, ...]:
    """Name this machine, where it is what the address says."""
    parts = urlsplit(url)
    return (f"{parts.hostname}:{parts.port or 80}",) if parts.scheme == "http" else ()


def _until(deadline: float) -> asyncio.Timeout:
    return asyncio.timeout(max(0.0, deadline - clock.steady()))
