"""Problems: every refusal as one shape of JSON, with texts that quote nothing a stranger sent."""

import inspect
from http import HTTPStatus
from math import ceil

import msgspec

from oncebox import errors, refusals, send_errors
from oncebox.errors import OnceboxError
from oncebox.wire.problem import FieldError, Problem

CONTENT_TYPE = b"application/problem+json"

#: how errors are answered; the nearest class above decides for those that are not listed
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
    refusals.SignatureRefused: 401,
    refusals.SenderNotWanted: 403,
    errors.KeyWanted: 503,
    refusals.KeyServiceUnreachable: 503,
    refusals.SourcePaused: 503,
    refusals.SourceUnready: 503,
    refusals.RequestRefused: 400,
    refusals.Unauthenticated: 401,
    refusals.Forbidden: 403,
    refusals.OriginRefused: 403,
    refusals.MethodNotAllowed: 405,
    refusals.TooSlow: 408,
    refusals.StillRunning: 409,
    refusals.MediaUnsupported: 415,
    refusals.HostRefused: 421,
    refusals.FieldsInvalid: 422,
    refusals.IdempotencyKeyReused: 422,
    refusals.IdempotencyKeyDiffers: 422,
    refusals.TooManyRequests: 429,
    refusals.HeadersTooLarge: 431,
    refusals.Unforeseen: 500,
    refusals.ServerBusy: 503,
}
#: seconds to wait before the same request may succeed
RETRY_AFTER = {409: 1, 429: 1, 503: 2}
#: errors whose own words are meant for the caller; the others are told by what they are
_SPEAKS = (
    errors.ConfigInvalid,
    errors.CursorForeign,
    errors.CursorTooOld,
    errors.EffectError,
    errors.InputRefused,
    refusals.RequestRefused,
    errors.RequestKeyReused,
    errors.SecretUnavailable,
    errors.StateConflict,
    send_errors.SendBudgetSpent,
)

Headers = list[tuple[bytes, bytes]]


def status(kind: type[OnceboxError]) -> int:
    """Return the HTTP status of an error."""
    return next(STATUS[each] for each in kind.__mro__ if each in STATUS)


def describe(error: OnceboxError | type[OnceboxError], request_id: str) -> Problem:
    """Return an error as the outside sees it; a class is told by its own constant text."""
    kind = error if isinstance(error, type) else type(error)
    title = meaning(kind)
    detail = str(error) if isinstance(error, _SPEAKS) else ""
    return Problem(
        type=f"/problems/{kind.code}",
        title=title,
        status=status(kind),
        detail=detail or title,
        instance=f"urn:oncebox:request:{request_id}",
        code=kind.code,
        retry_safe=kind.retry_safe,
        request_id=request_id,
        errors=_fields(error),
    )


def _fields(error: object) -> list[FieldError]:
    if not isinstance(error, refusals.FieldsInvalid):
        return []
    return [FieldError(error.pointer, str(error))]


def meaning(kind: type[OnceboxError]) -> str:
    """Return what a kind of error means, in one sentence."""
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
    if problem.code == refusals.Unauthenticated.code:
        headers.append((b"www-authenticate", b'Bearer realm="oncebox"'))
    wait = retry_after if retry_after is not None else RETRY_AFTER.get(problem.status)
    if problem.retry_safe and wait is not None:
        headers.append((b"retry-after", b"%d" % ceil(wait)))
    return headers, body


def raw(error: OnceboxError | type[OnceboxError], request_id: str) -> bytes:
    """Return a whole HTTP response that ends its connection."""
    problem = describe(error, request_id)
    headers, body = response(problem)
    lines = [b"%s: %s\r\n" % header for header in (*headers, (b"connection", b"close"))]
    phrase = HTTPStatus(problem.status).phrase.encode()
    head = b"HTTP/1.1 %d %s\r\n" % (problem.status, phrase)
    return b"".join((head, *lines, b"x-request-id: %s\r\n" % request_id.encode(), b"\r\n", body))
