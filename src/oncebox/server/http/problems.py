"""Error responses as RFC 9457 problem JSON: status, title and headers per error class."""

import inspect
from http import HTTPStatus
from math import ceil

import msgspec

from oncebox import errors
from oncebox.errors import OnceboxError
from oncebox.errors import http as http_errors
from oncebox.errors import mail as mail_errors
from oncebox.errors import sends as send_errors
from oncebox.schemas.problems import FieldError, Problem

CONTENT_TYPE = b"application/problem+json"

#: HTTP status by error class; the nearest listed base class decides
STATUS: dict[type[OnceboxError], int] = {
    OnceboxError: 500,
    errors.StoreError: 503,
    errors.RowRefused: 422,
    errors.InputRefused: 422,
    errors.BodyTooLarge: 413,
    errors.NotFound: 404,
    errors.StateConflict: 409,
    errors.CursorTooOld: 410,
    errors.LeaseLost: 409,
    errors.EffectError: 409,
    errors.RequestKeyReused: 422,
    errors.SecretUnavailable: 409,
    errors.ConfigInvalid: 422,
    errors.ExtraMissing: 501,
    send_errors.SendBudgetSpent: 429,
    mail_errors.QuotaExceeded: 507,
    http_errors.SignatureRefused: 401,
    http_errors.SenderNotAllowed: 403,
    errors.KeyFetchRequired: 503,
    http_errors.KeyServiceUnreachable: 503,
    http_errors.SourcePaused: 503,
    http_errors.SourceNotReady: 503,
    http_errors.RequestRefused: 400,
    http_errors.Unauthenticated: 401,
    http_errors.Forbidden: 403,
    http_errors.OriginRefused: 403,
    http_errors.MethodNotAllowed: 405,
    http_errors.RequestTimeout: 408,
    http_errors.RequestInProgress: 409,
    http_errors.MediaUnsupported: 415,
    http_errors.HostRefused: 421,
    http_errors.FieldsInvalid: 422,
    http_errors.IdempotencyKeyReused: 422,
    http_errors.IdempotencyKeyMismatch: 422,
    http_errors.TooManyRequests: 429,
    http_errors.HeadersTooLarge: 431,
    http_errors.InternalError: 500,
    http_errors.ServerBusy: 503,
    http_errors.InboundMailRefused: 400,
    http_errors.InboundMailTooLarge: 413,
    http_errors.InboundMailDelayed: 503,
}
#: seconds to wait before the same request may succeed
RETRY_AFTER = {409: 1, 429: 1, 503: 2}
#: errors whose message is meant for the caller; others show the text of their class
_OWN_DETAIL = (
    errors.ConfigInvalid,
    errors.CursorMismatch,
    errors.CursorTooOld,
    errors.EffectError,
    errors.InputRefused,
    http_errors.RequestRefused,
    errors.RequestKeyReused,
    errors.SecretUnavailable,
    errors.SourceUnknown,
    errors.StateConflict,
    send_errors.SendBudgetSpent,
)

Headers = list[tuple[bytes, bytes]]


def status(kind: type[OnceboxError]) -> int:
    """Return the HTTP status of an error."""
    return next(STATUS[each] for each in kind.__mro__ if each in STATUS)


def describe(error: OnceboxError | type[OnceboxError], request_id: str) -> Problem:
    """Return the problem of an error; a class is described by its docstring."""
    kind = error if isinstance(error, type) else type(error)
    title = error_title(kind)
    detail = str(error) if isinstance(error, _OWN_DETAIL) else ""
    field = error.field if isinstance(error, http_errors.FieldsInvalid) else ""
    if field and f"'{field}'" not in detail:
        detail = f"{field}: {detail or title}"
    return Problem(
        type=f"/problems/{kind.code}",
        title=title,
        status=status(kind),
        detail=detail or title,
        instance=f"urn:oncebox:request:{request_id}",
        code=kind.code,
        retry_safe=kind.retry_safe,
        request_id=request_id,
        field=field,
        errors=_field_errors(error),
    )


def _field_errors(error: object) -> list[FieldError]:
    if not isinstance(error, http_errors.FieldsInvalid):
        return []
    return [FieldError(error.pointer, str(error))]


def error_title(kind: type[OnceboxError]) -> str:
    """Return the meaning of an error class, in one sentence."""
    return (inspect.getdoc(kind) or "").partition("\n")[0]


def response(problem: Problem, retry_after: float | None = None) -> tuple[Headers, bytes]:
    """Return headers and body of a problem."""
    body = msgspec.json.encode(problem)
    headers: Headers = [
        (b"content-type", CONTENT_TYPE),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
    ]
    if problem.code == http_errors.Unauthenticated.code:
        headers.append((b"www-authenticate", b'Bearer realm="oncebox"'))
    wait = retry_after if retry_after is not None else RETRY_AFTER.get(problem.status)
    if problem.retry_safe and wait is not None:
        headers.append((b"retry-after", b"%d" % ceil(wait)))
    return headers, body


def raw_response(error: OnceboxError | type[OnceboxError], request_id: str) -> bytes:
    """Return a whole HTTP response that ends its connection."""
    problem = describe(error, request_id)
    headers, body = response(problem)
    lines = [b"%s: %s\r\n" % header for header in (*headers, (b"connection", b"close"))]
    phrase = HTTPStatus(problem.status).phrase.encode()
    head = b"HTTP/1.1 %d %s\r\n" % (problem.status, phrase)
    return b"".join((head, *lines, b"x-request-id: %s\r\n" % request_id.encode(), b"\r\n", body))
