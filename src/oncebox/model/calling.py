"""How a user's function is called so that its effect is journalled: its choice, key and result."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import msgspec

from oncebox.errors import EffectMisused
from oncebox.model.effect import Safe

#: seconds a call may take unless it says otherwise; less where the lease is short
CALL_TIMEOUT = 20.0
#: seconds within which other services are trusted to remember a key
WINDOW = 24 * 3600.0
_LARGEST_RESULT = 1024 * 1024

Function = Callable[..., Any]


def choice(safe: str | Function | None, function: Function) -> Safe:
    """Return what to do with a call that was begun and never heard of again.

    Raises: EffectMisused.
    """
    if callable(safe):
        return Safe.VERIFY
    if safe is None:
        return Safe.IDEMPOTENT if takes_key(function) else Safe.ONCE
    if safe not in {Safe.IDEMPOTENT, Safe.ONCE}:
        message = "safe is 'idempotent', 'once' or a function that verifies"
        raise EffectMisused(message)
    return Safe(safe)


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


def encoded(result: object) -> bytes | None:
    """Return a result as JSON, or None where it cannot or should not be stored."""
    try:
        json = msgspec.json.encode(result)
    except (TypeError, ValueError, NotImplementedError, RecursionError):
        return None
    return json if len(json) <= _LARGEST_RESULT else None
