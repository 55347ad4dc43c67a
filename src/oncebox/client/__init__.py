"""What programs on the other side use: importing it does not import the server."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oncebox.client.asynchronous import AsyncClient
    from oncebox.client.failures import (
        AnswerUnreadable,
        CallFailed,
        ClientClosed,
        DeadlinePassed,
        NoAnswer,
        ServiceRefused,
        ServiceUnreachable,
        WorkMisused,
    )
    from oncebox.client.sync import Client
    from oncebox.client.work import AsyncWork, Work

__all__ = [
    "AnswerUnreadable",
    "AsyncClient",
    "AsyncWork",
    "CallFailed",
    "Client",
    "ClientClosed",
    "DeadlinePassed",
    "NoAnswer",
    "ServiceRefused",
    "ServiceUnreachable",
    "Work",
    "WorkMisused",
]

#: where each name lives, if not among the failures; loaded when first used, because whoever
#: only checks a signature needs no HTTP
_PAGES = {
    "AsyncClient": "asynchronous",
    "AsyncWork": "work",
    "Client": "sync",
    "Work": "work",
}


def __getattr__(name: str) -> Any:
    """Load a name from its page."""
    if name not in __all__:
        message = f"module 'oncebox.client' has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module(f"oncebox.client.{_PAGES.get(name, 'failures')}"), name)
