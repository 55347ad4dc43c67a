"""Answers: what came back, as what was asked for or as the error that the service raised."""

from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TypeVar

import msgspec

from oncebox import artifact_errors, clock, errors, mail_errors, refusals, send_errors
from oncebox.client.call import Call, Reply
from oncebox.client.failures import AnswerUnreadable, ServiceRefused, ServiceUnreachable
from oncebox.errors import OnceboxError
from oncebox.refusals import FieldsInvalid
from oncebox.wire.problem import Problem

T = TypeVar("T")
E = TypeVar("E", bound=OnceboxError)

_PROBLEM = "application/problem+json"
#: what a proxy says when the service behind it does not answer
_GATEWAY = {HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT}
#: seconds; nobody waits for a century
_LONGEST = 3_000_000_000.0


def read(call: Call[T], reply: Reply) -> T:
    """Return the answer to a call.

    Raises: OnceboxError, of the class that the service raised.
    """
    if not HTTPStatus.OK <= reply.status < HTTPStatus.MULTIPLE_CHOICES:
        raise _error(reply)
    if call.answer is type(None):
        return None
    if call.answer is bytes:
        return reply.body  # type: ignore[return-value]
    try:
        return msgspec.json.decode(reply.body, type=call.answer)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = (
            f"the answer to {call.method} {call.path} is not one of Oncebox; "
            "check the address, and the versions of both sides"
        )
        raise _told(AnswerUnreadable(message), reply) from error


def _error(reply: Reply) -> OnceboxError:
    """Return the error that an answer tells of."""
    problem = _problem(reply)
    if problem is None:
        return _told(_foreign(reply.status), reply)
    kind = _KINDS.get(problem.code, ServiceRefused)
    error = kind.__new__(kind)
    # Past the constructors, which make their own messages out of what was known at the time.
    Exception.__init__(error, problem.detail)
    error.code = problem.code
    error.retry_safe = problem.retry_safe
    if isinstance(error, FieldsInvalid):
        error.pointer = problem.errors[0].pointer if problem.errors else ""
    return _told(error, reply, problem.request_id)


def _problem(reply: Reply) -> Problem | None:
    if reply.headers.get("content-type", "").partition(";")[0].strip().lower() != _PROBLEM:
        return None
    try:
        return msgspec.json.decode(reply.body, type=Problem)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _foreign(status: int) -> OnceboxError:
    """Return the error for an answer that is not the service's own."""
    if status in _GATEWAY:
        return ServiceUnreachable(f"a proxy says {status}: the service behind it did not answer")
    return AnswerUnreadable(
        f"the answer, of status {status}, is not one of Oncebox; check the address"
    )


def _told(error: E, reply: Reply, request_id: str | None = None) -> E:
    """Add what the answer carries besides its words."""
    error.status = reply.status
    error.request_id = request_id or reply.headers.get("x-request-id")
    error.retry_after = retry_after(reply.headers.get("retry-after"))
    return error


def retry_after(text: str | None) -> float | None:
    """Return the seconds that a service asks to be left alone; nonsense is no wish."""
    if text is None:
        return None
    try:
        seconds = float(text) if text.strip().isdigit() else _seconds_until(text)
    except (ValueError, OverflowError):
        return None
    return min(max(0.0, seconds), _LONGEST)


def _seconds_until(date: str) -> float:
    return parsedate_to_datetime(date).timestamp() - clock.system() / 1000


def _below(kind: type[OnceboxError]) -> Iterator[type[OnceboxError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _below(each)


_TREE = {each.__name__ for each in (errors, mail_errors, artifact_errors, send_errors, refusals)}
#: the errors that a service can answer with, by code
_KINDS = {kind.code: kind for kind in _below(OnceboxError) if kind.__module__ in _TREE}
