"""Oncebox: the self-hosted inbox, ledger and outbox for AI agents."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oncebox.box import Oncebox
    from oncebox.client.asynchronous import AsyncClient
    from oncebox.client.receiver import verify
    from oncebox.client.sync import Client
    from oncebox.errors import NotDone, OnceboxError, Permanent, Transient
    from oncebox.model.delivery import Accepted, Delivery
    from oncebox.model.effect import Done
    from oncebox.model.email import Attachment, Email
    from oncebox.model.policy import Allow, Drop, Hold
    from oncebox.wire.sends import SendAnswer
    from oncebox.worker.once import Once
    from oncebox.worker.sync_once import SyncOnce

__all__ = [
    "Accepted",
    "Allow",
    "AsyncClient",
    "Attachment",
    "Client",
    "Delivery",
    "Done",
    "Drop",
    "Email",
    "Hold",
    "NotDone",
    "Once",
    "Oncebox",
    "OnceboxError",
    "Permanent",
    "SendAnswer",
    "SyncOnce",
    "Transient",
    "verify",
]

#: where each public name lives; loaded when first used, so that programs that only call
#: the service, and the command line, start fast
_ROOMS = {
    "Accepted": "model.delivery",
    "Allow": "model.policy",
    "AsyncClient": "client.asynchronous",
    "Attachment": "model.email",
    "Client": "client.sync",
    "Delivery": "model.delivery",
    "Done": "model.effect",
    "Drop": "model.policy",
    "Email": "model.email",
    "Hold": "model.policy",
    "NotDone": "errors",
    "Once": "worker.once",
    "Oncebox": "box",
    "OnceboxError": "errors",
    "Permanent": "errors",
    "SendAnswer": "wire.sends",
    "SyncOnce": "worker.sync_once",
    "Transient": "errors",
    "verify": "client.receiver",
}


if not TYPE_CHECKING:  # or any name would look like one of ours

    def __getattr__(name: str) -> Any:
        """Load a public name from its room."""
        if name not in _ROOMS:
            message = f"module 'oncebox' has no attribute {name!r}"
            raise AttributeError(message)
        return getattr(import_module(f"oncebox.{_ROOMS[name]}"), name)


def __dir__() -> list[str]:
    """List the public names too, loaded or not."""
    return sorted({*globals(), *__all__})
