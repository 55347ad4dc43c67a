"""Journalled side effects: states, idempotency keys, repeat policy, errors that prove no effect."""

import functools
import hashlib
import inspect
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final

import msgspec

from oncebox.errors import EffectMisused, NotDone


class EffectState(StrEnum):
    """The state of an effect in the journal."""

    #: begun; if its worker is gone, the outcome is unknown
    STARTED = "started"
    #: it happened; repeats get the stored result
    DONE = "done"
    #: proven not to have happened; it may run again
    NOT_DONE = "not_done"
    #: the outcome is unknown; an operator decides
    UNKNOWN = "unknown"


class Safety(StrEnum):
    """What to do with an effect that was started and whose outcome is unknown."""

    #: run it again with the same key, which the other side honours
    IDEMPOTENT = "idempotent"
    #: never run it twice: hold the delivery for an operator
    ONCE = "once"
    #: ask the other side
    VERIFY = "verify"


class Done(msgspec.Struct, frozen=True):
    """A verify function's proof that the effect happened, with its result."""

    result: Any = None


class NoResult:
    """Type of ``NO_RESULT``, which a repeat returns of what is done and has no stored result.

    It could not be stored, or a person recorded the outcome without it. Compare with ``is``; it is
    false.
    """

    __slots__ = ()

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "NO_RESULT"

    def __reduce__(self) -> str:  # copies are the same object
        return "NO_RESULT"


NO_RESULT: Final = NoResult()


class Effect(msgspec.Struct, frozen=True):
    """One row of the journal."""

    name: str
    state: EffectState
    safe: Safety
    fence: int
    first_started_at: int
    started_at: int
    surely_over_at: int
    ended_at: int | None
    result: bytes | None
    error: str | None


class BeginEffect(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's request to begin an effect."""

    delivery_id: str
    tenant: str
    fence: int
    name: str
    safe: Safety
    surely_over_at: int
    #: the fence of the known earlier start; begun again only while that is the last
    known_fence: int = 0


class FinishEffect(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's report on how an effect ended."""

    delivery_id: str
    fence: int
    name: str
    state: EffectState
    result: bytes | None = None
    error: str | None = None
    #: the start it refers to, unless done: its earliest fence, and its time
    from_fence: int = 0
    started_at: int | None = None


def effect_key(tenant: str, source: str, key: str, variant: str, name: str) -> str:
    """Return the key handed to the outside world: the same for every repeat of this effect.

    It depends on what arrived, not on our own ids, so that it survives a lost ledger.
    """
    parts = f"{tenant}\0{source}\0{key}\0{variant}\0{name}"
    return "once_" + hashlib.sha256(parts.encode()).hexdigest()[:40]


#: seconds a call may take unless it says otherwise; less where the lease is short
CALL_TIMEOUT = 20.0
#: seconds within which other services are trusted to remember a key
KEY_WINDOW = 24 * 3600.0
#: bytes of a stored result
LARGEST_RESULT = 1024 * 1024

Function = Callable[..., Any]


def choose_safety(safe: str | Function | None, function: Function) -> Safety:
    """Return what to do with a call whose outcome is unknown."""
    if callable(safe):
        return Safety.VERIFY
    if safe is None:
        return Safety.IDEMPOTENT if takes_key(function) else Safety.ONCE
    if safe not in {Safety.IDEMPOTENT, Safety.ONCE}:
        raise EffectMisused("safe is 'idempotent', 'once' or a function that verifies")
    return Safety(safe)


def takes_key(function: Function) -> bool:
    """Say whether a function takes the key of its effect."""
    try:
        return "idempotency_key" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # some built-in functions have no signature
        return False


def is_async(function: Function) -> bool:
    """Say whether calling a function gives something to await."""
    inner = function.func if isinstance(function, functools.partial) else function
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(
        getattr(inner, "__call__", None)  # noqa: B004 - an object with an async __call__
    )


def encode_result(result: object) -> bytes | None:
    """Return a result as JSON, or None where it cannot or should not be stored."""
    try:
        json = msgspec.json.encode(result)
    except (TypeError, ValueError, NotImplementedError, RecursionError):
        return None
    return json if len(json) <= LARGEST_RESULT else None


def decode_result(stored: bytes | None) -> Any:
    """Return a stored result, ``NO_RESULT`` where there is none."""
    return NO_RESULT if stored is None else msgspec.json.decode(stored)


#: the connection was never made, so nothing was sent
_NEVER_CONNECTED = {
    ("httpx", "ConnectError"),
    ("httpx", "ConnectTimeout"),
    ("httpx2", "ConnectError"),
    ("httpx2", "ConnectTimeout"),
    ("requests", "ConnectTimeout"),
    ("socket", "gaierror"),
}
_HTTP_CLIENTS = {"aiohttp", "httpx", "httpx2", "requests"}
#: refusals after which the call may still be under way or done
_AMBIGUOUS_STATUSES = {408, 409, 423, 425}


def proves_not_done(error: BaseException) -> bool:
    """Say whether an error proves that the call had no effect."""
    if isinstance(error, (NotDone, ConnectionRefusedError)):
        return True
    if any((_package_of(kind), kind.__name__) in _NEVER_CONNECTED for kind in type(error).__mro__):
        return not _is_read_request(error)
    status = _http_status(error)
    refused = status is not None and 400 <= status < 500 and status not in _AMBIGUOUS_STATUSES  # noqa: PLR2004
    return refused and not _was_redirected(error)


def _is_read_request(error: BaseException) -> bool:
    """Say whether what failed was a GET, perhaps the second half of a redirected POST."""
    try:
        request = getattr(error, "request", None)
    except RuntimeError:  # httpx, when it has none
        return False
    return getattr(request, "method", None) in {"GET", "HEAD"}


def _was_redirected(error: BaseException) -> bool:
    """Say whether an earlier answer may have been the effect, and the refusal came after it."""
    response = getattr(error, "response", None)
    return bool(getattr(response, "history", None) or getattr(error, "history", None))


def _http_status(error: BaseException) -> int | None:
    """Return the HTTP status an error of a known client carries."""
    if _package_of(type(error)) not in _HTTP_CLIENTS:
        return None
    response = getattr(error, "response", None)
    for holder, name in ((response, "status_code"), (error, "status"), (error, "code")):
        found = getattr(holder, name, None)
        if isinstance(found, int):
            return found
    return None


def _package_of(kind: type) -> str:
    return kind.__module__.split(".", 1)[0]
