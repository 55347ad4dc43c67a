"""Fake Resend API for the scripted provider: validation, errors, idempotency keys, webhooks.

Written after https://resend.com/docs/api-reference (emails, batch, errors, rate limit),
https://resend.com/docs/dashboard/emails/idempotency-keys and …/webhooks.
"""

import binascii
import re
import uuid
from base64 import b64decode
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from oncebox.core import clock
from oncebox.schemas.resend_api import EmailAttachment, EmailRequest
from oncebox.testing.provider_protocol import (
    Now,
    ProviderFault,
    ProviderFaultAction,
    ProviderMail,
    ProviderRequest,
    ProviderResponse,
    ProviderWebhook,
)
from oncebox.webhooks.signing import sign

_ADDRESS = re.compile(r"[^\s<>@,;]+@[^\s<>@,;]+\.[^\s<>@,;]+")
_MAILBOX = re.compile(r"[^<>\r\n]*<(?P<address>[^<>]*)>")
_TAG_TEXT = re.compile(r"[A-Za-z0-9_-]{1,256}")
_HEADER_NAME = re.compile(r"[!-9;-~]+")
_MAX_RECIPIENTS = 50
#: bytes of all attachments together, as base64
_MAX_ATTACHED_BYTES = 40 * 1024 * 1024
_ADDRESS_HINT = (
    "The email address needs to follow the `email@example.com` or "
    "`Name <email@example.com>` format."
)


class ResendError(Exception):
    """An error as Resend names it."""

    def __init__(
        self, status: int, name: str, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.name = name
        self.headers = dict(headers or {})


def decode_body(body: bytes) -> Any:
    """Return the decoded JSON of a request."""
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise ResendError(400, "validation_error", "The request body is not valid JSON.") from error


def validated_email(
    wanted: Any, domains: frozenset[str] = frozenset(), *, in_batch: bool = False
) -> dict[str, Any]:
    """Return an email that can be sent."""
    try:
        email = msgspec.convert(wanted, EmailRequest)
    except msgspec.ValidationError as error:
        raise _invalid(str(error)) from error
    required = {"from": email.sender, "to": email.to, "subject": email.subject or email.template}
    for field, value in required.items():
        if not value:
            raise ResendError(422, "missing_required_field", f"Missing `{field}` field.")
    if email.html is None and email.text is None and email.template is None:
        raise _invalid("Missing `html` or `text` field.")
    _check_mailboxes(wanted, domains)
    _check_headers_and_tags(email)
    _check_attachments(email.attachments or [])
    if in_batch and (email.attachments or email.scheduled_at):
        raise _invalid("`attachments` and `scheduled_at` are not supported in batches.")
    return dict(wanted)


def email_recipients(payload: Mapping[str, Any]) -> Iterator[str]:
    """Yield the addresses of all recipients."""
    for field in ("to", "cc", "bcc"):
        yield from map(_address, _mailboxes(payload, field))


def email_header(payload: Mapping[str, Any], name: str) -> str:
    """Return a header field of an email; empty without one."""
    given: Mapping[str, str] = payload.get("headers") or {}
    return next((value for field, value in given.items() if field.lower() == name), "")


def _check_mailboxes(wanted: dict[str, Any], domains: frozenset[str]) -> None:
    for field in ("from", "to", "cc", "bcc", "reply_to"):
        given = _mailboxes(wanted, field)
        if len(given) > _MAX_RECIPIENTS:
            raise _invalid(f"The `{field}` field takes {_MAX_RECIPIENTS} addresses at most.")
        if not all(_ADDRESS.fullmatch(_address(each)) for each in given):
            raise _invalid(f"Invalid `{field}` field. {_ADDRESS_HINT}")
    domain = _address(wanted["from"]).rpartition("@")[2].lower()
    if domains and domain not in domains:
        raise ResendError(403, "validation_error", f"The {domain} domain is not verified.")


def _check_headers_and_tags(email: EmailRequest) -> None:
    for name, value in (email.headers or {}).items():
        if not _HEADER_NAME.fullmatch(name) or re.search("[\r\n\0]", value):
            raise _invalid("Invalid `headers` field.")
    for tag in email.tags or ():
        if not (_TAG_TEXT.fullmatch(tag.name) and _TAG_TEXT.fullmatch(tag.value)):
            raise _invalid(
                "Tags should only contain ASCII letters, numbers, underscores, or dashes."
            )


def _check_attachments(attachments: list[EmailAttachment]) -> None:
    size = 0
    for each in attachments:
        try:
            valid = each.path is not None
            if isinstance(each.content, str):
                size += len(each.content)
                b64decode(each.content, validate=True)
                valid = each.filename is not None
        except binascii.Error:
            valid = False
        if not valid:
            message = "Attachment must have either a content or path."
            raise ResendError(422, "invalid_attachment", message)
    if size > _MAX_ATTACHED_BYTES:
        raise _invalid("Attachments exceed the maximum of 40 MB.")


def _mailboxes(wanted: Mapping[str, Any], field: str) -> list[str]:
    given = wanted.get(field) or []
    return given if isinstance(given, list) else [given]


def _address(text: str) -> str:
    found = _MAILBOX.fullmatch(text)
    return (found["address"] if found else text).strip()


def _invalid(message: str) -> ResendError:
    return ResendError(422, "validation_error", message)


#: seconds for which a key is remembered
KEY_LIFETIME = 86_400
_MAX_KEY_LENGTH = 256
_MAX_BATCH = 100
_EMAILS_PATH = "/emails"
_BATCH_PATH = "/emails/batch"
#: the error of a status, if the script names none
_DEFAULT_ERRORS = {
    400: "validation_error",
    401: "missing_api_key",
    403: "invalid_api_key",
    404: "not_found",
    405: "method_not_allowed",
    409: "concurrent_idempotent_requests",
    422: "validation_error",
    429: "rate_limit_exceeded",
    451: "security_error",
    500: "application_error",
}
_ERROR_NAMES = {
    "concurrent": "concurrent_idempotent_requests",
    "mismatch": "invalid_idempotent_request",
}
_SERVER_ERROR = 500


class _UsedKey(msgspec.Struct):
    #: the first request with it
    request: ProviderRequest
    payload: bytes
    at: float
    answer: ProviderResponse
    is_finished: bool = False


class Resend:
    """Behaves as Resend does; not thread-safe."""

    def __init__(
        self, *, keys: Iterable[str] = (), rate: int = 0, domains: Iterable[str] = ()
    ) -> None:
        """Accept these API keys, or any that begins with ``re_``.

        ``rate`` limits requests per second (0: no limit). With ``domains``, mail must be from one
        of them.
        """
        self.accepted: list[ProviderMail] = []
        self.keys = set(keys)
        self.revoked: set[str] = set()
        self.rate = rate
        self.domains = frozenset(domains)
        self._used_keys: dict[tuple[str, str], _UsedKey] = {}
        self._request_times: deque[float] = deque()
        self._events: dict[str, str] = {}

    def is_send_request(self, request: ProviderRequest) -> bool:
        """Tell whether a request sends mail; only such requests are scripted."""
        return request.method == "POST" and request.path in {_EMAILS_PATH, _BATCH_PATH}

    def answer(self, request: ProviderRequest, fault: ProviderFault, now: Now) -> ProviderResponse:
        """Accept, replay or refuse a request; an accepted mail is on the list from now on."""
        try:
            self._authenticate(request)
            self._check_rate(now())
            if not self.is_send_request(request):
                return self._read(request)
            return self._send(request, fault, now())
        except ResendError as error:
            return _error(error.status, error.name, str(error), error.headers)

    def finish(self, request: ProviderRequest) -> None:
        """Record that a request was answered, or its connection lost."""
        known = self._used_keys.get(self._key_of(request))
        if known is not None and known.request is request:
            known.is_finished = True

    def error_response(self, fault: ProviderFault) -> ProviderResponse:
        """Return the error response of a scripted fault."""
        name = _ERROR_NAMES.get(fault.name) or fault.name or _DEFAULT_ERRORS.get(fault.code)
        if name is None:
            name = "internal_server_error" if fault.code >= _SERVER_ERROR else "validation_error"
        headers = {"retry-after": f"{fault.seconds:g}"} if fault.seconds else {}
        return _error(fault.code, name, "as the script says", headers)

    def webhook(
        self, event: str, mail: ProviderMail, secret: str, **details: Any
    ) -> ProviderWebhook:
        """Return a webhook about a mail, such as ``email.bounced``; details go into its data.

        ``svix_id`` and ``at`` (milliseconds) may be given, so that it can be sent again.
        """
        at = details.pop("at", clock.system())
        id_ = details.pop("svix_id", f"msg_{uuid.uuid4().hex}")
        data = {
            "created_at": _iso_time(at),
            "email_id": mail.id,
            "from": mail.payload["from"],
            "to": list(mail.recipients),
            "subject": mail.payload.get("subject", ""),
            "tags": dict(mail.tags),
            **details,
        }
        said = {"type": event, "created_at": _iso_time(at), "data": data}
        body = msgspec.json.encode(said)
        self._events[mail.id] = event.removeprefix("email.")
        signed = sign(secret, id_, at, body)
        headers = {name.replace("webhook-", "svix-"): value for name, value in signed.items()}
        return ProviderWebhook(headers={"content-type": "application/json", **headers}, body=body)

    def _authenticate(self, request: ProviderRequest) -> None:
        kind, _, key = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not key:
            raise ResendError(
                401, "missing_api_key", "Missing API key in the authorization header."
            )
        if key in self.revoked or not (key in self.keys if self.keys else key.startswith("re_")):
            raise ResendError(403, "invalid_api_key", "API key is invalid")

    def _check_rate(self, now: float) -> None:
        while self._request_times and self._request_times[0] <= now - 1:
            self._request_times.popleft()
        if self.rate and len(self._request_times) >= self.rate:
            headers = {
                "ratelimit-limit": str(self.rate),
                "ratelimit-remaining": "0",
                "ratelimit-reset": "1",
                "retry-after": "1",
            }
            message = "Too many requests. You can only make so many requests per second."
            raise ResendError(429, "rate_limit_exceeded", message, headers)
        self._request_times.append(now)

    def _send(self, request: ProviderRequest, fault: ProviderFault, now: float) -> ProviderResponse:
        key = request.headers.get("idempotency-key")
        if key is not None and not 1 <= len(key) <= _MAX_KEY_LENGTH:
            raise ResendError(
                400, "invalid_idempotency_key", "The key must be between 1-256 chars."
            )
        wanted = decode_body(request.body)
        said = request.path.encode() + b" " + msgspec.json.encode(wanted, order="deterministic")
        if key is not None and (known := self._used_key(request, now)) is not None:
            return _replay_response(known, said)
        if request.path == _BATCH_PATH:
            answer = self._batch(request, wanted, fault)
        else:
            answer = _json({"id": self._accept(request, validated_email(wanted, self.domains))})
        if key is not None:
            self._used_keys[self._key_of(request)] = _UsedKey(request, said, now, answer)
        return answer

    def _used_key(self, request: ProviderRequest, now: float) -> _UsedKey | None:
        known = self._used_keys.get(self._key_of(request))
        return None if known is None or known.at <= now - KEY_LIFETIME else known

    def _key_of(self, request: ProviderRequest) -> tuple[str, str]:
        headers = request.headers
        return headers.get("authorization", ""), headers.get("idempotency-key", "")

    def _batch(
        self, request: ProviderRequest, wanted: Any, fault: ProviderFault
    ) -> ProviderResponse:
        if not isinstance(wanted, list) or not 1 <= len(wanted) <= _MAX_BATCH:
            raise ResendError(
                422, "validation_error", f"A batch has between 1 and {_MAX_BATCH} emails."
            )
        permissive = request.headers.get("x-batch-validation", "strict") == "permissive"
        sound: list[dict[str, Any]] = []
        errors: list[dict[str, Any]] = []
        for index, each in enumerate(wanted):
            try:
                sound.append(validated_email(each, self.domains, in_batch=True))
            except ResendError as error:
                if not permissive:
                    raise
                errors.append({"index": index, "message": str(error)})
        if fault.action is ProviderFaultAction.PARTIAL:
            half = len(sound) // 2
            errors += [{"index": at, "message": "not now"} for at in range(half, len(sound))]
            sound, permissive = sound[:half], True
        data = [{"id": self._accept(request, each)} for each in sound]
        return _json({"data": data, "errors": errors} if permissive else {"data": data})

    def _accept(self, request: ProviderRequest, payload: dict[str, Any]) -> str:
        mail = ProviderMail(
            id=str(uuid.uuid4()),
            key=request.headers.get("idempotency-key", ""),
            payload=payload,
            body=request.body,
            recipients=tuple(email_recipients(payload)),
            message_id=email_header(payload, "message-id"),
            tags={each["name"]: each["value"] for each in payload.get("tags") or ()},
        )
        self.accepted.append(mail)
        self._events[mail.id] = "sent"
        return mail.id

    def _read(self, request: ProviderRequest) -> ProviderResponse:
        area, _, id_ = request.path.removeprefix("/").partition("/")
        if area != "emails" or "/" in id_:
            raise ResendError(404, "not_found", "The requested endpoint does not exist")
        if request.method != "GET" or not id_:
            raise ResendError(405, "method_not_allowed", "Method is not allowed for this endpoint")
        for mail in self.accepted:
            if mail.id == id_:
                shown = {"object": "email", "id": id_, "last_event": self._events[id_]}
                return _json({**shown, **mail.payload})
        raise ResendError(404, "not_found", "Email not found")


def _replay_response(known: _UsedKey, said: bytes) -> ProviderResponse:
    if known.payload != said:
        message = "Same idempotency key used with a different request payload."
        raise ResendError(409, _ERROR_NAMES["mismatch"], message)
    if not known.is_finished:
        message = "Same idempotency key used while original request is still in progress."
        raise ResendError(409, _ERROR_NAMES["concurrent"], message)
    return known.answer


def _json(
    value: object, status: int = 200, headers: dict[str, str] | None = None
) -> ProviderResponse:
    given = {"content-type": "application/json", **(headers or {})}
    return ProviderResponse(status=status, body=msgspec.json.encode(value), headers=given)


def _error(status: int, name: str, message: str, headers: dict[str, str]) -> ProviderResponse:
    return _json({"statusCode": status, "name": name, "message": message}, status, headers)


def _iso_time(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat().replace("+00:00", "Z")
