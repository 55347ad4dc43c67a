"""The door's manners: keys and refusals as Resend has them, over the same routes and rooms."""

import msgspec

from oncebox import errors, refusals, send_errors
from oncebox.edge import problem
from oncebox.edge.guard import Scope, Send, visit
from oncebox.edge.http.endpoint import Endpoint
from oncebox.edge.http.requests import Headers
from oncebox.errors import KeyInvalid, OnceboxError
from oncebox.refusals import FieldsInvalid, Unauthenticated
from oncebox.wire.emails import EmailRefusal

_KEY = b"idempotency-key"
_LONGEST_KEY = 256


class FieldMissing(FieldsInvalid):
    """A field is missing that every email has."""


class ParameterInvalid(FieldsInvalid):
    """Something is asked for that there is not."""


#: status and name of refusals; the nearest class above decides for those that are not listed
NAMES: dict[type[OnceboxError], tuple[int, str]] = {
    OnceboxError: (500, "application_error"),
    errors.StoreError: (503, "application_error"),
    errors.RowRefused: (422, "validation_error"),
    errors.InputRefused: (422, "validation_error"),
    errors.KeyInvalid: (400, "invalid_idempotency_key"),
    errors.NotFound: (404, "not_found"),
    send_errors.SenderMissing: (422, "missing_required_field"),
    send_errors.RecipientMissing: (422, "missing_required_field"),
    send_errors.AttachmentInvalid: (422, "invalid_attachment"),
    send_errors.SendBudgetSpent: (429, "rate_limit_exceeded"),
    send_errors.SendCoolingDown: (429, "rate_limit_exceeded"),
    send_errors.SendDiffers: (409, "invalid_idempotent_request"),
    refusals.RequestRefused: (422, "validation_error"),
    refusals.Unauthenticated: (403, "invalid_api_key"),
    refusals.Forbidden: (401, "restricted_api_key"),
    refusals.MethodNotAllowed: (405, "method_not_allowed"),
    refusals.TooManyRequests: (429, "rate_limit_exceeded"),
    FieldMissing: (422, "missing_required_field"),
    ParameterInvalid: (422, "invalid_parameter"),
}
_NO_KEY = EmailRefusal(
    status=401, name="missing_api_key", message="Missing API key in the authorization header."
)
_HEADERS = [
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
]


class Door(Endpoint):
    """An endpoint that says no as Resend does."""

    async def refuse(self, scope: Scope, send: Send, error: OnceboxError) -> None:
        """Answer with a refusal in Resend's shape."""
        given = visit(scope).headers.get(b"authorization", b"")
        refused = _refusal(error, has_key=bool(given.partition(b" ")[2].strip()))
        body = msgspec.json.encode(refused)
        headers = [*_HEADERS, (b"content-length", b"%d" % len(body))]
        wait = getattr(error, "retry_after", None) or problem.RETRY_AFTER.get(refused.status)
        if error.retry_safe and wait is not None:
            headers.append((b"retry-after", b"%d" % max(1, round(wait))))
        await send({"type": "http.response.start", "status": refused.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def request_key(self, headers: Headers) -> str | None:
        """Return the caller's key, as it is; quotes are a part of it.

        Raises: KeyInvalid.
        """
        given = [value for name, value in headers if name == _KEY]
        if not given:
            return None
        text = given[0].decode("latin-1").strip()
        if len(given) > 1 or not 1 <= len(text) <= _LONGEST_KEY:
            raise KeyInvalid(f"The key must be between 1-{_LONGEST_KEY} chars.")
        return text


def _refusal(error: OnceboxError, *, has_key: bool) -> EmailRefusal:
    if isinstance(error, Unauthenticated) and not has_key:
        return _NO_KEY
    status, name = next(NAMES[kind] for kind in type(error).__mro__ if kind in NAMES)
    return EmailRefusal(status=status, name=name, message=problem.describe(error, "").detail)
