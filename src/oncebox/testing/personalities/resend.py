"""Resend: its shapes, its strictness, and its memory for keys.

Written after https://resend.com/docs/api-reference (emails, batch, errors, rate limit),
https://resend.com/docs/dashboard/emails/idempotency-keys and …/webhooks.
"""

import uuid
from collections import deque
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from oncebox import clock
from oncebox.signature.signing import sign
from oncebox.testing.personalities import resend_checks
from oncebox.testing.personalities.personality import Hook, Now, Request, Response, Taken
from oncebox.testing.personalities.resend_checks import Wrong
from oncebox.testing.provider_script import Fault, Turn

#: seconds for which a key is remembered
REMEMBERED = 86_400
_LONGEST_KEY = 256
_BATCH = 100
_EMAILS = "/emails"
_BATCHES = "/emails/batch"
#: the error that a status stands for, where a script names none
_USUAL = {
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
_NAMED = {
    "concurrent": "concurrent_idempotent_requests",
    "mismatch": "invalid_idempotent_request",
}
_SERVER = 500


class _Known(msgspec.Struct):
    """A key that was used."""

    #: the request that used it first
    by: Request
    said: bytes
    at: float
    answer: Response
    is_over: bool = False


class Resend:
    """Takes mail as Resend does. One thread at a time."""

    name = "resend"

    def __init__(
        self,
        *,
        keys: Iterable[str] = (),
        rate: int = 0,
        domains: Iterable[str] = (),
    ) -> None:
        """Let in these API keys, or any that begins with ``re_``.

        ``rate`` requests are taken in a second (0: any number). Where there are ``domains``, mail
        must be from one of them.
        """
        self.accepted: list[Taken] = []
        self.keys = set(keys)
        #: keys that are known and no good any more
        self.revoked: set[str] = set()
        self.rate = rate
        self.domains = frozenset(domains)
        self._known: dict[tuple[str, str], _Known] = {}
        self._asked: deque[float] = deque()
        self._events: dict[str, str] = {}

    def brings_mail(self, request: Request) -> bool:
        """Say whether a request is one that the script is about."""
        return request.method == "POST" and request.path in {_EMAILS, _BATCHES}

    def answer(self, request: Request, fault: Fault, now: Now) -> Response:
        """Take, replay or refuse, and say so."""
        try:
            self._admit(request)
            self._pace(now())
            if not self.brings_mail(request):
                return self._read(request)
            return self._send(request, fault, now())
        except Wrong as wrong:
            return _error(wrong.status, wrong.name, str(wrong), wrong.headers)

    def over(self, request: Request) -> None:
        """Hear that a request is not under way any more."""
        known = self._known.get(self._place(request))
        if known is not None and known.by is request:
            known.is_over = True

    def refusal(self, fault: Fault) -> Response:
        """Return the error that a script asks for."""
        name = _NAMED.get(fault.name) or fault.name or _USUAL.get(fault.code)
        if name is None:
            name = "internal_server_error" if fault.code >= _SERVER else "validation_error"
        headers = {"retry-after": f"{fault.seconds:g}"} if fault.seconds else {}
        return _error(fault.code, name, "as the script says", headers)

    def hook(self, event: str, taken: Taken, secret: str, **details: Any) -> Hook:
        """Return a webhook about a mail, such as ``email.bounced``; details go into its data.

        ``svix_id`` and ``at`` (milliseconds) may be given, so that it can be sent again.
        """
        at = details.pop("at", clock.system())
        id_ = details.pop("svix_id", f"msg_{uuid.uuid4().hex}")
        data = {
            "created_at": _moment(at),
            "email_id": taken.id,
            "from": taken.payload["from"],
            "to": list(taken.recipients),
            "subject": taken.payload.get("subject", ""),
            "tags": dict(taken.tags),
            **details,
        }
        said = {"type": event, "created_at": _moment(at), "data": data}
        body = msgspec.json.encode(said)
        self._events[taken.id] = event.removeprefix("email.")
        signed = sign(secret, id_, at, body)
        headers = {name.replace("webhook-", "svix-"): value for name, value in signed.items()}
        return Hook(headers={"content-type": "application/json", **headers}, body=body)

    # Who may ask, and how often

    def _admit(self, request: Request) -> None:
        kind, _, key = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not key:
            raise Wrong(401, "missing_api_key", "Missing API key in the authorization header.")
        if key in self.revoked or not (key in self.keys if self.keys else key.startswith("re_")):
            raise Wrong(403, "invalid_api_key", "API key is invalid")

    def _pace(self, now: float) -> None:
        while self._asked and self._asked[0] <= now - 1:
            self._asked.popleft()
        if self.rate and len(self._asked) >= self.rate:
            headers = {
                "ratelimit-limit": str(self.rate),
                "ratelimit-remaining": "0",
                "ratelimit-reset": "1",
                "retry-after": "1",
            }
            message = "Too many requests. You can only make so many requests per second."
            raise Wrong(429, "rate_limit_exceeded", message, headers)
        self._asked.append(now)

    # Mail

    def _send(self, request: Request, fault: Fault, now: float) -> Response:
        key = request.headers.get("idempotency-key")
        if key is not None and not 1 <= len(key) <= _LONGEST_KEY:
            raise Wrong(400, "invalid_idempotency_key", "The key must be between 1-256 chars.")
        wanted = resend_checks.read(request.body)
        said = request.path.encode() + b" " + msgspec.json.encode(wanted, order="deterministic")
        if key is not None and (known := self._remembered(request, now)) is not None:
            return _again(known, said)
        if request.path == _BATCHES:
            answer = self._batch(request, wanted, fault)
        else:
            answer = _json({"id": self._take(request, resend_checks.email(wanted, self.domains))})
        if key is not None:
            self._known[self._place(request)] = _Known(request, said, now, answer)
        return answer

    def _remembered(self, request: Request, now: float) -> _Known | None:
        known = self._known.get(self._place(request))
        return None if known is None or known.at <= now - REMEMBERED else known

    def _place(self, request: Request) -> tuple[str, str]:
        headers = request.headers
        return headers.get("authorization", ""), headers.get("idempotency-key", "")

    def _batch(self, request: Request, wanted: Any, fault: Fault) -> Response:
        if not isinstance(wanted, list) or not 1 <= len(wanted) <= _BATCH:
            raise Wrong(422, "validation_error", f"A batch has between 1 and {_BATCH} emails.")
        permissive = request.headers.get("x-batch-validation", "strict") == "permissive"
        sound: list[dict[str, Any]] = []
        errors: list[dict[str, Any]] = []
        for index, each in enumerate(wanted):
            try:
                sound.append(resend_checks.email(each, self.domains, in_batch=True))
            except Wrong as wrong:
                if not permissive:
                    raise
                errors.append({"index": index, "message": str(wrong)})
        if fault.turn is Turn.PARTIAL:
            half = len(sound) // 2
            errors += [{"index": at, "message": "not now"} for at in range(half, len(sound))]
            sound, permissive = sound[:half], True
        data = [{"id": self._take(request, each)} for each in sound]
        return _json({"data": data, "errors": errors} if permissive else {"data": data})

    def _take(self, request: Request, payload: dict[str, Any]) -> str:
        taken = Taken(
            id=str(uuid.uuid4()),
            key=request.headers.get("idempotency-key", ""),
            payload=payload,
            body=request.body,
            recipients=tuple(resend_checks.recipients(payload)),
            message_id=resend_checks.header(payload, "message-id"),
            tags={each["name"]: each["value"] for each in payload.get("tags") or ()},
        )
        self.accepted.append(taken)
        self._events[taken.id] = "sent"
        return taken.id

    def _read(self, request: Request) -> Response:
        """Answer what is not about new mail."""
        area, _, id_ = request.path.removeprefix("/").partition("/")
        if area != "emails" or "/" in id_:
            raise Wrong(404, "not_found", "The requested endpoint does not exist")
        if request.method != "GET" or not id_:
            raise Wrong(405, "method_not_allowed", "Method is not allowed for this endpoint")
        for taken in self.accepted:
            if taken.id == id_:
                shown = {"object": "email", "id": id_, "last_event": self._events[id_]}
                return _json({**shown, **taken.payload})
        raise Wrong(404, "not_found", "Email not found")


def _again(known: _Known, said: bytes) -> Response:
    """Answer a key that was used before."""
    if known.said != said:
        message = "Same idempotency key used with a different request payload."
        raise Wrong(409, _NAMED["mismatch"], message)
    if not known.is_over:
        message = "Same idempotency key used while original request is still in progress."
        raise Wrong(409, _NAMED["concurrent"], message)
    return known.answer


def _json(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    given = {"content-type": "application/json", **(headers or {})}
    return Response(status=status, body=msgspec.json.encode(value), headers=given)


def _error(status: int, name: str, message: str, headers: dict[str, str]) -> Response:
    return _json({"statusCode": status, "name": name, "message": message}, status, headers)


def _moment(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat().replace("+00:00", "Z")
