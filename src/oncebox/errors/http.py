"""Errors that reject an HTTP request; each is answered as an RFC 9457 problem.

    OnceboxError
    └── RequestRefused
        ├── RequestMalformed          400
        │   ├── BodyNotJson
        │   ├── CursorInvalid
        │   └── IdempotencyKeyMissing
        ├── Unauthenticated           401
        ├── SignatureRefused          401
        ├── SenderNotAllowed           403
        ├── Forbidden                 403
        ├── OriginRefused             403
        ├── MethodNotAllowed          405
        ├── RequestTimeout                   408
        ├── RequestInProgress              409, come back
        ├── MediaUnsupported          415
        ├── HostRefused               421
        ├── FieldsInvalid             422
        ├── IdempotencyKeyReused      422
        ├── IdempotencyKeyMismatch     422
        ├── TooManyRequests           429, come back
        │   └── KeyLimitReached
        ├── HeadersTooLarge           431
        ├── InternalError             500
        ├── ServerBusy                503, come back
        ├── SourcePaused              503, come back
        ├── SourceNotReady             503, come back
        ├── KeyServiceUnreachable     503, come back
        └── InboundMailRefused         400
            ├── InboundMailTooLarge    413
            └── InboundMailDelayed     503, come back
                ├── InboundRawMissing
                ├── InboundBodyGone
                ├── InboundNotFetched
                └── InboundInboxFull

Each is answered with a problem (RFC 9457) whose ``code`` is the error's.
"""

from oncebox.errors import OnceboxError


class RequestRefused(OnceboxError):
    """A request cannot be served as it is."""

    code = "request_refused"


class RequestMalformed(RequestRefused):
    """The request is not proper HTTP, or is ambiguous."""

    code = "request_malformed"


class BodyNotJson(RequestMalformed):
    """The body is not JSON."""

    code = "body_not_json"


class CursorInvalid(RequestMalformed):
    """The cursor is not one that was given out for this list."""

    code = "cursor_invalid"


class IdempotencyKeyMissing(RequestMalformed):
    """This call creates something and needs an Idempotency-Key."""

    code = "idempotency_key_missing"


class Unauthenticated(RequestRefused):
    """A valid API key is needed."""

    code = "unauthenticated"


class Forbidden(RequestRefused):
    """The API key does not have the scope for this."""

    code = "forbidden"


class OriginRefused(RequestRefused):
    """The request comes from a web page of another origin."""

    code = "origin_refused"


class HostRefused(RequestRefused):
    """The request is for another host name than the service's own."""

    code = "host_refused"


class MethodNotAllowed(RequestRefused):
    """The path does not support this method."""

    code = "method_not_allowed"


class RequestTimeout(RequestRefused):
    """The request did not arrive in time."""

    code = "request_timeout"
    retry_safe = True


class RequestInProgress(RequestRefused):
    """An earlier call with the same Idempotency-Key is still running."""

    code = "request_in_progress"
    retry_safe = True


class MediaUnsupported(RequestRefused):
    """The body's media type or encoding is not supported."""

    code = "media_unsupported"


class FieldsInvalid(RequestRefused):
    """A field of the request is missing, unknown or out of range."""

    code = "fields_invalid"

    def __init__(self, message: str = "", *, pointer: str = "") -> None:
        """Point to the field: a JSON pointer, or the name of a header or parameter."""
        super().__init__(message)
        self.pointer = pointer

    @property
    def field(self) -> str:
        """The field as a path, such as ``sends[0].to``; empty if it is the whole body."""
        steps = self.pointer.replace("~1", "/").replace("~0", "~").split("/")
        path = "".join(
            f"[{each}]" if each.isdecimal() or each == "..." else f".{each}" for each in steps
        )
        return path.lstrip(".")


class IdempotencyKeyReused(RequestRefused):
    """The Idempotency-Key was used with another body."""

    code = "idempotency_key_reused"


class IdempotencyKeyMismatch(RequestRefused):
    """The Idempotency-Key does not match the event type and entity."""

    code = "idempotency_key_mismatch"


class TooManyRequests(RequestRefused):
    """Too many requests came from this address."""

    code = "too_many_requests"
    retry_safe = True

    def __init__(self, message: str = "", *, retry_after: float | None = None) -> None:
        """Take the seconds to wait, if they are known."""
        super().__init__(message)
        self.retry_after = retry_after


class KeyLimitReached(TooManyRequests):
    """As many requests of this API key are in progress as the service allows."""

    code = "key_limit_reached"


class HeadersTooLarge(RequestRefused):
    """The headers are over the limit."""

    code = "headers_too_large"


class InternalError(RequestRefused):
    """An unexpected error occurred."""

    code = "internal_error"


class ServerBusy(RequestRefused):
    """The service is at its limit."""

    code = "server_busy"
    retry_safe = True


class SourcePaused(RequestRefused):
    """The source is paused; send the request again later."""

    code = "source_paused"
    retry_safe = True


class SourceNotReady(RequestRefused):
    """The source cannot verify requests yet: oncebox source show NAME and the log say why."""

    code = "source_not_ready"
    retry_safe = True


class SignatureRefused(RequestRefused):
    """The request is not signed as this source expects."""

    code = "signature_refused"


class SenderNotAllowed(RequestRefused):
    """The request does not come from an address that this source allows."""

    code = "sender_not_allowed"


class KeyServiceUnreachable(RequestRefused):
    """A key service of the provider did not answer; send the request again later."""

    code = "key_service_unreachable"
    retry_safe = True


class InboundMailRefused(RequestRefused):
    """The request is not what this provider sends for a mail; see docs/inbound-webhooks.md."""

    code = "inbound_mail_refused"


class InboundMailTooLarge(InboundMailRefused):
    """The mail is over the limit; see smtp.size."""

    code = "inbound_mail_too_large"


class InboundMailDelayed(InboundMailRefused):
    """The mail cannot be stored now; send the request again later."""

    code = "inbound_mail_delayed"
    retry_safe = True


class InboundRawMissing(InboundMailDelayed):
    """The request does not contain the raw mail."""

    code = "inbound_raw_missing"


class InboundBodyGone(InboundMailDelayed):
    """The provider does not have the mail any more; the request is in the quarantine."""

    code = "inbound_body_gone"


class InboundNotFetched(InboundMailDelayed):
    """The mail could not be fetched from the provider."""

    code = "inbound_not_fetched"


class InboundInboxFull(InboundMailDelayed):
    """An inbox stores as much mail as it may, or the disk is almost full."""

    code = "inbound_inbox_full"
