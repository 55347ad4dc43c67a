"""What programs on the other side use: importing it does not import the server."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oncebox.artifact_errors import AlreadyClaimed, ArtifactConflict, LinkRefused
    from oncebox.client.action import Action, AsyncAction
    from oncebox.client.asynchronous import AsyncClient
    from oncebox.client.attempt import AsyncAttempt, Attempt
    from oncebox.client.failures import (
        ActionHeld,
        ActionInFlight,
        ActionMisused,
        AnswerUnreadable,
        CallFailed,
        ClientClosed,
        DeadlinePassed,
        InboxClosed,
        NoAnswer,
        ServiceRefused,
        ServiceUnreachable,
        WaitContested,
        WaitEnded,
        WaitTimedOut,
        WorkMisused,
    )
    from oncebox.client.inbox import Inbox
    from oncebox.client.sending import wish
    from oncebox.client.sync import Client
    from oncebox.client.work import AsyncWork, Work

__all__ = [
    "Action",
    "ActionHeld",
    "ActionInFlight",
    "ActionMisused",
    "AlreadyClaimed",
    "AnswerUnreadable",
    "ArtifactConflict",
    "AsyncAction",
    "AsyncAttempt",
    "AsyncClient",
    "AsyncWork",
    "Attempt",
    "CallFailed",
    "Client",
    "ClientClosed",
    "DeadlinePassed",
    "Inbox",
    "InboxClosed",
    "LinkRefused",
    "NoAnswer",
    "ServiceRefused",
    "ServiceUnreachable",
    "WaitContested",
    "WaitEnded",
    "WaitTimedOut",
    "Work",
    "WorkMisused",
    "wish",
]

#: where each name lives, if not among the failures; loaded when first used, because whoever
#: only checks a signature needs no HTTP
_PAGES = {
    "Action": "client.action",
    "AlreadyClaimed": "artifact_errors",
    "ArtifactConflict": "artifact_errors",
    "AsyncAction": "client.action",
    "AsyncAttempt": "client.attempt",
    "AsyncClient": "client.asynchronous",
    "AsyncWork": "client.work",
    "Attempt": "client.attempt",
    "Client": "client.sync",
    "Inbox": "client.inbox",
    "LinkRefused": "artifact_errors",
    "Work": "client.work",
    "wish": "client.sending",
}


def __getattr__(name: str) -> Any:
    """Load a name from its page."""
    if name not in __all__:
        message = f"module 'oncebox.client' has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module(f"oncebox.{_PAGES.get(name, 'client.failures')}"), name)
