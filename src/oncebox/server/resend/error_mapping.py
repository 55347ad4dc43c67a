"""Resend error mapping: our errors and idempotency keys as the Resend API has them."""

import msgspec

from oncebox import errors
from oncebox.errors import KeyInvalid, OnceboxError
from oncebox.errors import http as http_errors
from oncebox.errors import sends as send_errors
from oncebox.errors.http import FieldsInvalid, Unauthenticated
from oncebox.schemas.resend_api import ResendProblem
from oncebox.server.http import problems
from oncebox.server.http.api_endpoint import ApiEndpoint, RawHeaders
from oncebox.server.http.request_context import Scope, Send, request_context

_KEY = b"idempotency-key"
_MAX_KEY = 256


class FieldMissing(FieldsInvalid):
    """A required field is missing."""


class ParameterInvalid(FieldsInvalid):
    """A parameter is not supported."""


#: status and name of errors; an error that is not listed has those of its nearest base class
ERROR_NAMES: dict[type[OnceboxError], tuple[int, str]] = {
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
    send_errors.SendKeyConflict: (409, "invalid_idempotent_request"),
    http_errors.RequestRefused: (422, "validation_error"),
    http_errors.Unauthenticated: (403, "invalid_api_key"),
    http_errors.Forbidden: (401, "restricted_api_key"),
    http_errors.MethodNotAllowed: (405, "method_not_allowed"),
    http_errors.TooManyRequests: (429, "rate_limit_exceeded"),
    FieldMissing: (422, "missing_required_field"),
    ParameterInvalid: (422, "invalid_parameter"),
}
_NO_KEY = ResendProblem(
    status=401, name="missing_api_key", message="Missing API key in the authorization header."
)
_HEADERS = [
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
]


class ResendEndpoint(ApiEndpoint):
    """An endpoint with the errors of Resend."""

    async def send_error(self, scope: Scope, send: Send, error: OnceboxError) -> None:
        """Send an error response in Resend's format."""
        context = request_context(scope)
        context.code = error.code
        given = context.headers.get(b"authorization", b"")
        refused = _to_resend_error(error, has_key=bool(given.partition(b" ")[2].strip()))
        body = msgspec.json.encode(refused)
        headers = [*_HEADERS, (b"content-length", b"%d" % len(body))]
        wait = getattr(error, "retry_after", None) or problems.RETRY_AFTER.get(refused.status)
        if error.retry_safe and wait is not None:
            headers.append((b"retry-after", b"%d" % max(1, round(wait))))
        await send({"type": "http.response.start", "status": refused.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def read_idempotency_key(self, headers: RawHeaders) -> str | None:
        """Return the idempotency key; quotes are part of it."""
        given = [value for name, value in headers if name == _KEY]
        if not given:
            return None
        text = given[0].decode("latin-1").strip()
        if len(given) > 1 or not 1 <= len(text) <= _MAX_KEY:
            raise KeyInvalid(f"The key must be between 1-{_MAX_KEY} chars.")
        return text


def _to_resend_error(error: OnceboxError, *, has_key: bool) -> ResendProblem:
    if isinstance(error, Unauthenticated) and not has_key:
        return _NO_KEY
    status, name = next(ERROR_NAMES[kind] for kind in type(error).__mro__ if kind in ERROR_NAMES)
    return ResendProblem(status=status, name=name, message=problems.describe(error, "").detail)
