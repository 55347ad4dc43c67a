"""API calls as data, the steps of plans, and one call from request to answer; no I/O.

A ``Call`` is one request with a typed answer. A ``Plan`` is a generator that yields steps and
receives their results. The two clients differ only in how they run a step.
``call_with_retries`` is the plan of one call: encode, send, retry where safe, decode.
See docs/decisions/0018-use-a-sans-io-core-for-both-clients.md.
"""

import logging
import random
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from math import inf
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from oncebox import errors
from oncebox.client.errors import (
    AnswerUnreadable,
    DeadlinePassed,
    NoAnswer,
    ServiceRefused,
    ServiceUnreachable,
)
from oncebox.core import clock, ids
from oncebox.errors import CommitUnknown, KeyInvalid, OnceboxError
from oncebox.errors import http as http_errors
from oncebox.errors import mail as mail_errors
from oncebox.errors import sends as send_errors
from oncebox.errors.http import FieldsInvalid, RequestTimeout, ServerBusy, TooManyRequests
from oncebox.schemas.problems import Problem

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
E = TypeVar("E", bound=OnceboxError)

_MAX_KEY_LENGTH = 255
_PROBLEM_TYPE = "application/problem+json"
#: answers of a proxy whose service does not answer
_GATEWAY_STATUSES = {
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
}
#: seconds; the largest accepted ``Retry-After``
_MAX_RETRY_AFTER = 3_000_000_000.0
#: seconds; the first wait is random between zero and this, then the bound doubles
_FIRST_BACKOFF = 0.1
_MAX_BACKOFF = 5.0
#: seconds; a poll shorter than this becomes a request that does not wait
_SHORTEST_POLL = 2.0
#: seconds of one long poll at the end of a list
_LONG_POLL = 25.0
#: rejected before anything was done, so any call may be sent again
_REJECTED_UNPROCESSED = (ServerBusy, TooManyRequests, RequestTimeout)
#: seconds of one request at least, if that many are left
_MIN_TRY_TIMEOUT = 0.5

_log = logging.getLogger("oncebox.client")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T_co]):
    """One request to the service and the type of its answer."""

    method: str
    path: str
    answer: type[T_co]
    query: msgspec.Struct | None = None
    body: msgspec.Struct | None = None
    #: identifies repeats of a call that creates something
    idempotency_key: str | None = None
    #: sending it twice has the same effect as sending it once
    repeatable: bool = False
    #: not retried: the plan that makes the call decides how to continue
    no_retry: bool = False
    #: the key was generated for this call, so a new call by the user would get another one
    generated_key: bool = False
    #: seconds that the service may hold the request open before it answers
    wait: float = 0
    #: seconds in all, instead of the client's own deadline
    within: float | None = None


class HttpRequest(NamedTuple):
    """A call as an HTTP request."""

    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes


class HttpReply(NamedTuple):
    """An HTTP response."""

    status: int
    #: by lower-case name
    headers: Mapping[str, str]
    body: bytes


class SendStep(NamedTuple):
    """Send a request once; the result is an ``HttpReply``, or ``NoAnswer`` is raised."""

    request: HttpRequest
    #: seconds
    within: float


class PauseStep(NamedTuple):
    """Sleep."""

    seconds: float


class RunStep(NamedTuple):
    """Call a function of the user."""

    function: Callable[[], Any]
    #: seconds after which the result is no longer awaited, where that is possible
    within: float
    #: run at once if the function outlives its time and cannot be stopped
    on_still_running: "Callable[[], Plan[None]] | None" = None
    #: run if that function succeeds later
    on_late_success: "Callable[[Any], Plan[None]] | None" = None


class OpenStep(NamedTuple):
    """Send a request whose answer may be a stream; the result is an ``OpenedStream``."""

    request: HttpRequest
    #: seconds until the answer begins
    within: float


class OpenedStream(NamedTuple):
    """An answer whose head has arrived."""

    #: without its body if it is a stream
    reply: HttpReply
    #: to read from; None if the answer is complete
    stream: Any


class ReadStep(NamedTuple):
    """Read from a stream; the result is bytes, empty at the end, or ``NoAnswer`` is raised."""

    stream: Any
    #: seconds
    within: float


class CloseStep(NamedTuple):
    """Close a stream."""

    stream: Any


class TimeoutStep(NamedTuple):
    """Return the client's deadline of one call in seconds."""


Step: TypeAlias = (
    Call[Any] | SendStep | PauseStep | RunStep | OpenStep | ReadStep | CloseStep | TimeoutStep
)
Plan: TypeAlias = Generator[Step, Any, T]


class PageOf(Protocol[T_co]):
    """One page of a list."""

    @property
    def data(self) -> Sequence[T_co]:
        """The items of this page."""

    @property
    def next_cursor(self) -> str | None:
        """Where the next page begins."""

    @property
    def has_more(self) -> bool:
        """Whether there is a next page now."""


def perform(call: Call[T]) -> Plan[T]:
    """Make a call as a part of a plan."""
    answer: T = yield call
    return answer


def api_path(*parts: str) -> str:
    """Return a path below ``/v1``; the parts are quoted, including ``.`` and ``..``."""
    return "/v1/" + "/".join(
        part.replace(".", "%2E") if part in {".", ".."} else quote(part, safe="") for part in parts
    )


def get_call(answer: type[T], *path: str, query: msgspec.Struct | None = None) -> Call[T]:
    """Return a call that only reads."""
    return Call(method="GET", path=api_path(*path), answer=answer, query=query, repeatable=True)


def post_call(
    answer: type[T], body: msgspec.Struct, *path: str, repeatable: bool = False
) -> Call[T]:
    """Return a call that changes something."""
    return Call(
        method="POST", path=api_path(*path), answer=answer, body=body, repeatable=repeatable
    )


def delete_call(answer: type[T], *path: str, repeatable: bool = False) -> Call[T]:
    """Return a call that removes something."""
    return Call(method="DELETE", path=api_path(*path), answer=answer, repeatable=repeatable)


def create_call(
    answer: type[T], body: msgspec.Struct, idempotency_key: str | None, *path: str
) -> Call[T]:
    """Return a call that creates something once, however often it is sent."""
    return Call(
        method="POST",
        path=api_path(*path),
        answer=answer,
        body=body,
        idempotency_key=check_idempotency_key(idempotency_key) or ids.new("idk"),
        repeatable=True,
        generated_key=idempotency_key is None,
    )


def page_call(
    answer: type[T], query: Callable[..., msgspec.Struct], /, *path: str, **filters: Any
) -> Call[T]:
    """Return a call for one page of a list; filters that are None are left out."""
    given = {name: value for name, value in filters.items() if value is not None}
    return get_call(answer, *path, query=query(**given))


@dataclass(slots=True, kw_only=True)
class ListFollower(Generic[T]):
    """Reads a list page by page, and waits at its end for more if ``follow`` is set."""

    call: Call[PageOf[T]]
    #: wait at the end, also while the service is unavailable
    follow: bool = False
    #: seconds without a new item after which following ends; None: never
    idle: float | None = None
    _over: bool = False

    def next(self) -> "Plan[PageOf[T] | None]":
        """Return the next page that has items; None at the end."""
        until = clock.steady() + (inf if self.idle is None else self.idle)
        failures = 0
        while not self._over:
            try:
                page = yield from perform(self.call)
            except OnceboxError as error:
                if not self.follow or not error.retry_safe or clock.steady() >= until:
                    raise
                _log.warning("nothing could be read, trying again: %s: %s", error.code, error)
                failures += 1
                yield PauseStep(backoff(failures))
                continue
            self._advance(page, until)
            if page.data:
                return page
        return None

    def _advance(self, page: PageOf[T], until: float) -> None:
        """Prepare the next call; at the end of a list that is followed it is a long poll."""
        fields: dict[str, Any] = {"cursor": page.next_cursor}
        wait = 0.0
        if not self.follow:
            self._over = not page.has_more or page.next_cursor is None
        else:
            left = max(0.0, min(_LONG_POLL, until - clock.steady()))
            self._over = not page.has_more and not left
            fields["wait"] = wait = 0.0 if page.has_more else left
        query = msgspec.structs.replace(self.call.query, **fields)  # type: ignore[type-var]
        self.call = replace(self.call, query=query, wait=wait)


def check_idempotency_key(key: str | None) -> str | None:
    """Return a key that fits into a header; raise ``KeyInvalid`` if it does not."""
    if key is None or (0 < len(key) <= _MAX_KEY_LENGTH and key.isascii() and key.isprintable()):
        return key
    raise KeyInvalid(f"a key is 1 to {_MAX_KEY_LENGTH} printable ASCII characters; choose another")


def call_with_retries(
    call: Call[T],
    *,
    within: float,
    now: Callable[[], float] = clock.steady,
    jitter: Callable[[], float] = random.random,
) -> Plan[T]:
    """Send a call and return its answer; retry where that is safe and may help.

    ``retry_safe`` of the error that it raises says whether the caller may make the call again.
    """
    allowed = call.wait + (within if call.within is None else call.within)
    until = now() + allowed
    request, tries, unknown = to_request(call), 0, False
    while True:
        tries += 1
        try:
            reply = yield SendStep(request, _try_timeout(call, until - now()))
            return decode_answer(call, reply)
        except OnceboxError as error:
            last = error
        unknown |= is_outcome_unknown(last)
        wait = backoff(tries, jitter) + (last.retry_after or 0)
        if _may_repeat(call, last) and now() + wait < until:
            yield PauseStep(wait)
            if now() < until:
                continue
        _set_retry_safe(call, last, unknown=unknown, allowed=allowed)
        raise last


def backoff(tries: int, jitter: Callable[[], float] = random.random) -> float:
    """Return the pause after that many tries: random between zero and a doubling bound."""
    return min(_MAX_BACKOFF, _FIRST_BACKOFF * 2.0 ** min(tries - 1, 30)) * jitter()


@dataclass(slots=True, kw_only=True)
class PollSchedule:
    """The deadline that all polls of one wait share, and the failures in a row; in seconds."""

    within: float
    #: of one poll
    longest: float
    now: Callable[[], float] = clock.steady
    jitter: Callable[[], float] = random.random
    _until: float = field(init=False)
    _failures: int = 0

    def __post_init__(self) -> None:
        self._until = self.now() + self.within

    @property
    def left(self) -> float:
        """Seconds until the deadline."""
        return self._until - self.now()

    def next_poll(self, reserve: float = 0.0) -> float:
        """Return the seconds of the next poll; it ends ``reserve`` seconds before the deadline."""
        return max(0.0, min(self.longest, self.left - reserve))

    def shorten(self) -> None:
        """Halve the polls; the shortest are requests that do not wait."""
        self.longest = self.longest / 2 if self.longest / 2 >= _SHORTEST_POLL else 0.0

    def pause_after_error(self, error: OnceboxError) -> float:
        """Return the pause after a poll that failed."""
        return self._backoff() + (error.retry_after or 0)

    def pause_after(self, began: float, poll: float) -> float:
        """Return the pause after an answer; an early one comes from a service that is stopping."""
        if self.now() - began < poll / 2:
            return self._backoff()
        self._failures = 0
        return 0.0

    def _backoff(self) -> float:
        self._failures += 1
        return backoff(self._failures + 1, self.jitter)


def is_outcome_unknown(error: OnceboxError) -> bool:
    """Return whether the service may have processed the call despite the error."""
    return error.sent if isinstance(error, NoAnswer) else isinstance(error, CommitUnknown)


def is_transient(error: OnceboxError) -> bool:
    """Return whether a retry may succeed."""
    return isinstance(error, NoAnswer) or error.retry_safe


def to_request(call: Call[Any]) -> HttpRequest:
    """Return the HTTP request of a call; its URL is relative to the service."""
    headers = {"accept": "application/json"}
    content = b""
    if call.body is not None:
        content = msgspec.json.encode(call.body)
        headers["content-type"] = "application/json"
    if call.idempotency_key is not None:
        escaped = call.idempotency_key.replace("\\", "\\\\").replace('"', '\\"')
        headers["idempotency-key"] = f'"{escaped}"'
    fields = {} if call.query is None else msgspec.to_builtins(call.query)
    pairs = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in fields.items()
        if value is not None
    }
    query = f"?{urlencode(pairs)}" if pairs else ""
    return HttpRequest(call.method, call.path + query, headers, content)


def _try_timeout(call: Call[Any], left: float) -> float:
    """Return the seconds of one request: half of what is left if it can be repeated."""
    if left <= 0:
        raise DeadlinePassed(
            "the time for the call was up before it was sent; allow more with within(…)", sent=False
        )
    if call.no_retry or not call.repeatable:
        return left
    return min(left, max(_MIN_TRY_TIMEOUT, call.wait + (left - call.wait) / 2))


def _may_repeat(call: Call[Any], error: OnceboxError) -> bool:
    is_unsent = isinstance(error, NoAnswer) and not error.sent
    if is_unsent or isinstance(error, _REJECTED_UNPROCESSED):
        return True
    return call.repeatable and not call.no_retry and is_transient(error)


def _set_retry_safe(call: Call[Any], error: OnceboxError, *, unknown: bool, allowed: float) -> None:
    """Set whether the caller may safely make the call again."""
    safe = not unknown or (call.repeatable and not call.generated_key)
    error.retry_safe = safe and is_transient(error)
    if isinstance(error, DeadlinePassed):
        error.args = (f"no answer to {call.method} {call.path} within {allowed:.1f} s",)


def decode_answer(call: Call[T], reply: HttpReply) -> T:
    """Return the answer to a call, or raise an error of the class that the service raised."""
    if not HTTPStatus.OK <= reply.status < HTTPStatus.MULTIPLE_CHOICES:
        raise _error_from_reply(reply)
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
        raise _with_reply_details(AnswerUnreadable(message), reply) from error


def _error_from_reply(reply: HttpReply) -> OnceboxError:
    """Return the error of an answer, of the class that the service raised."""
    problem = _problem(reply)
    if problem is None:
        return _with_reply_details(_foreign_reply_error(reply.status), reply)
    kind = _ERRORS_BY_CODE.get(problem.code, ServiceRefused)
    error = kind.__new__(kind)
    # Not by the constructor, which would make another message.
    Exception.__init__(error, problem.detail)
    error.code = problem.code
    error.retry_safe = problem.retry_safe
    if isinstance(error, FieldsInvalid):
        error.pointer = problem.errors[0].pointer if problem.errors else ""
    return _with_reply_details(error, reply, problem.request_id)


def _problem(reply: HttpReply) -> Problem | None:
    if reply.headers.get("content-type", "").partition(";")[0].strip().lower() != _PROBLEM_TYPE:
        return None
    try:
        return msgspec.json.decode(reply.body, type=Problem)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _foreign_reply_error(status: int) -> OnceboxError:
    """Return the error for an answer that is not from Oncebox."""
    if status in _GATEWAY_STATUSES:
        return ServiceUnreachable(f"a proxy answered {status}: its service does not answer")
    return AnswerUnreadable(
        f"the answer, of status {status}, is not one of Oncebox; check the address"
    )


def _with_reply_details(error: E, reply: HttpReply, request_id: str | None = None) -> E:
    """Add the status and the headers of the answer to the error."""
    error.status = reply.status
    error.request_id = request_id or reply.headers.get("x-request-id")
    error.retry_after = parse_retry_after(reply.headers.get("retry-after"))
    return error


def parse_retry_after(text: str | None) -> float | None:
    """Return the seconds of a ``Retry-After`` header; None if it is invalid."""
    if text is None:
        return None
    try:
        if text.strip().isdigit():
            seconds = float(text)
        else:
            seconds = parsedate_to_datetime(text).timestamp() - clock.system() / 1000
    except (ValueError, OverflowError):
        return None
    return min(max(0.0, seconds), _MAX_RETRY_AFTER)


#: the errors of the service, by code
_ERRORS_BY_CODE: dict[str, type[OnceboxError]] = {
    kind.code: kind
    for module in (errors, mail_errors, send_errors, http_errors)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, OnceboxError)
}
