"""An exchange: one call sent until it is answered, as often as is safe, before one deadline."""

import random
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec

from oncebox import clock
from oncebox.client import answers
from oncebox.client.call import Call, Pause, Plan, Request, Send
from oncebox.client.failures import DeadlinePassed, NoAnswer
from oncebox.errors import CommitUnknown, OnceboxError
from oncebox.refusals import ServerBusy, TooManyRequests, TooSlow

T = TypeVar("T")

#: seconds; the first wait is drawn between zero and this, then it doubles
_FIRST_WAIT = 0.1
_LONGEST_WAIT = 5.0
#: turned away before anything was done, so that any call may be sent again
_AT_THE_DOOR = (ServerBusy, TooManyRequests, TooSlow)
#: seconds that an attempt gets at least, where there are so many
_SHORTEST = 0.5


def exchange(
    call: Call[T],
    *,
    within: float,
    now: Callable[[], float] = clock.steady,
    dice: Callable[[], float] = random.random,
) -> Plan[T]:
    """Send a call and return its answer, sending it again where that is safe and may help.

    Raises: OnceboxError; its ``retry_safe`` then says whether making the call anew is safe.
    """
    allowed = call.wait + (within if call.within is None else call.within)
    until = now() + allowed
    request, tries, unclear = as_request(call), 0, False
    while True:
        tries += 1
        try:
            reply = yield Send(request, _share(call, until - now()))
            return answers.read(call, reply)
        except OnceboxError as error:
            last = error
        unclear |= is_unclear(last)
        wait = backoff(tries, dice) + (last.retry_after or 0)
        if _may_repeat(call, last) and now() + wait < until:
            yield Pause(wait)
            if now() < until:
                continue
        _judge(call, last, unclear=unclear, allowed=allowed)
        raise last


def backoff(tries: int, dice: Callable[[], float] = random.random) -> float:
    """Return the wait after that many tries: anything from zero to the doubled bound."""
    return min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** min(tries - 1, 30)) * dice()


def is_unclear(error: OnceboxError) -> bool:
    """Say whether, after an error, the service may have done what it was asked for."""
    if isinstance(error, NoAnswer):
        return error.sent
    return isinstance(error, CommitUnknown)


def may_pass(error: OnceboxError) -> bool:
    """Say whether an error may be gone in a moment."""
    return isinstance(error, NoAnswer) or error.retry_safe


def as_request(call: Call[Any]) -> Request:
    """Return a call as it is sent; the address of the service comes before its path."""
    headers = {"accept": "application/json"}
    content = b""
    if call.body is not None:
        content = msgspec.json.encode(call.body)
        headers["content-type"] = "application/json"
    if call.idempotency_key is not None:
        escaped = call.idempotency_key.replace("\\", "\\\\").replace('"', '\\"')
        headers["idempotency-key"] = f'"{escaped}"'
    return Request(call.method, call.path + _query(call.query), headers, content)


def _share(call: Call[Any], left: float) -> float:
    """Return how long one attempt may take: half of what is left, if it can be repeated."""
    if left <= 0:
        message = "the time for the call was up before it was sent; allow more with within(…)"
        raise DeadlinePassed(message, sent=False)
    if call.alone or not call.repeatable:
        return left
    return min(left, max(_SHORTEST, call.wait + (left - call.wait) / 2))


def _may_repeat(call: Call[Any], error: OnceboxError) -> bool:
    if isinstance(error, _AT_THE_DOOR):
        return True
    if isinstance(error, NoAnswer) and not error.sent:
        return True
    return call.repeatable and not call.alone and may_pass(error)


def _judge(call: Call[Any], error: OnceboxError, *, unclear: bool, allowed: float) -> None:
    """Make the last error say whether the caller may safely make the call anew."""
    safe = not unclear or (call.repeatable and not call.private_key)
    error.retry_safe = safe and may_pass(error)
    if isinstance(error, DeadlinePassed):
        error.args = (f"no answer to {call.method} {call.path} within {allowed:.1f} s",)


def _query(query: msgspec.Struct | None) -> str:
    named = {} if query is None else msgspec.to_builtins(query)
    pairs = {name: _text(value) for name, value in named.items() if value is not None}
    return f"?{urlencode(pairs)}" if pairs else ""


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
