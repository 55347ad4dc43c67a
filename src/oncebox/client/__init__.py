"""Python client of the HTTP API: Client, AsyncClient, handles, errors; imports no server code."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oncebox.client.asynchronous import AsyncClient
    from oncebox.client.asynchronous.attempts import AsyncAction, AsyncAttempt
    from oncebox.client.asynchronous.deliveries import AsyncWork
    from oncebox.client.asynchronous.inboxes import AsyncGrant, AsyncInbox, AsyncMessageGrant
    from oncebox.client.asynchronous.polls import AsyncPolledMessage
    from oncebox.client.core.send_plans import ManyProgress, ManyResult, send_request
    from oncebox.client.core.work import submission
    from oncebox.client.errors import (
        ActionHeld,
        ActionInFlight,
        ActionMisused,
        AnswerUnreadable,
        CallFailed,
        ClientClosed,
        DeadlinePassed,
        InboxClosed,
        MailboxInUse,
        NoAnswer,
        PollMisused,
        ServiceRefused,
        ServiceUnreachable,
        WaitContested,
        WaitEnded,
        WaitInFlight,
        WaitTimedOut,
        WorkMisused,
    )
    from oncebox.client.poller import Poller
    from oncebox.client.sync import Client
    from oncebox.client.sync.attempts import Action, Attempt
    from oncebox.client.sync.deliveries import Work
    from oncebox.client.sync.inboxes import Grant, Inbox, MessageGrant
    from oncebox.client.sync.polls import PolledMessage
    from oncebox.errors.mail import (
        AlreadyClaimed,
        ArtifactConflict,
        ArtifactInFlight,
        ArtifactUsed,
        LinkRefused,
    )

__all__ = [
    "Action",
    "ActionHeld",
    "ActionInFlight",
    "ActionMisused",
    "AlreadyClaimed",
    "AnswerUnreadable",
    "ArtifactConflict",
    "ArtifactInFlight",
    "ArtifactUsed",
    "AsyncAction",
    "AsyncAttempt",
    "AsyncClient",
    "AsyncGrant",
    "AsyncInbox",
    "AsyncMessageGrant",
    "AsyncPolledMessage",
    "AsyncWork",
    "Attempt",
    "CallFailed",
    "Client",
    "ClientClosed",
    "DeadlinePassed",
    "Grant",
    "Inbox",
    "InboxClosed",
    "LinkRefused",
    "MailboxInUse",
    "ManyProgress",
    "ManyResult",
    "MessageGrant",
    "NoAnswer",
    "PollMisused",
    "PolledMessage",
    "Poller",
    "ServiceRefused",
    "ServiceUnreachable",
    "WaitContested",
    "WaitEnded",
    "WaitInFlight",
    "WaitTimedOut",
    "Work",
    "WorkMisused",
    "send_request",
    "submission",
]

#: the module of each name that is not in ``client.errors``; loaded on first use
_MODULES = {
    "Action": "client.sync.attempts",
    "AlreadyClaimed": "errors.mail",
    "ArtifactConflict": "errors.mail",
    "ArtifactInFlight": "errors.mail",
    "ArtifactUsed": "errors.mail",
    "AsyncAction": "client.asynchronous.attempts",
    "AsyncAttempt": "client.asynchronous.attempts",
    "AsyncClient": "client.asynchronous",
    "AsyncGrant": "client.asynchronous.inboxes",
    "AsyncInbox": "client.asynchronous.inboxes",
    "AsyncMessageGrant": "client.asynchronous.inboxes",
    "AsyncPolledMessage": "client.asynchronous.polls",
    "AsyncWork": "client.asynchronous.deliveries",
    "Attempt": "client.sync.attempts",
    "Client": "client.sync",
    "Grant": "client.sync.inboxes",
    "Inbox": "client.sync.inboxes",
    "MessageGrant": "client.sync.inboxes",
    "LinkRefused": "errors.mail",
    "ManyProgress": "client.core.send_plans",
    "ManyResult": "client.core.send_plans",
    "PolledMessage": "client.sync.polls",
    "Poller": "client.poller",
    "Work": "client.sync.deliveries",
    "send_request": "client.core.send_plans",
    "submission": "client.core.work",
}


def __getattr__(name: str) -> Any:
    """Load a public name from its module."""
    if name not in __all__:
        raise AttributeError(f"module 'oncebox.client' has no attribute {name!r}")
    return getattr(import_module(f"oncebox.{_MODULES.get(name, 'client.errors')}"), name)
