"""Intercepts the calls of one ledger function."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from oncebox.ledger.transactions import Ledger

#: gets the call that would be made, and its arguments
Interception = Callable[..., Awaitable[Any]]


def intercept(
    monkeypatch: pytest.MonkeyPatch, method: str, function: object, interception: Interception
) -> None:
    """Let ``interception(call, *args)`` answer ``ledger.<method>(function, *args)``."""
    for kind in (Ledger, *Ledger.__subclasses__()):
        monkeypatch.setattr(
            kind, method, _intercepted(getattr(kind, method), function, interception)
        )


def _intercepted(original: Any, function: object, interception: Interception) -> Any:
    async def called(ledger: Ledger, wanted: object, /, *args: Any, **kwargs: Any) -> Any:
        async def call(*args: Any, **kwargs: Any) -> Any:
            return await original(ledger, wanted, *args, **kwargs)

        if wanted is function:
            return await interception(call, *args, **kwargs)
        return await call(*args, **kwargs)

    return called
