"""Oncebox: the self-hosted inbox, ledger and outbox for AI agents."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oncebox.box import Oncebox
    from oncebox.client.asynchronous import AsyncClient
    from oncebox.client.sync import Client
    from oncebox.client.webhooks import verify
    from oncebox.errors import NotDone, OnceboxError, Permanent, Transient
    from oncebox.model.deliveries.delivery import Accepted, Allow, Delivery, Drop, Hold
    from oncebox.model.deliveries.effects import Done
    from oncebox.model.sends.email import Attachment, Email
    from oncebox.schemas.sends import SendAnswer
    from oncebox.workers.deliveries.once import Once, SyncOnce

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
_PUBLIC_NAMES = {
    "Accepted": "model.deliveries.delivery",
    "Allow": "model.deliveries.delivery",
    "AsyncClient": "client.asynchronous",
    "Attachment": "model.sends.email",
    "Client": "client.sync",
    "Delivery": "model.deliveries.delivery",
    "Done": "model.deliveries.effects",
    "Drop": "model.deliveries.delivery",
    "Email": "model.sends.email",
    "Hold": "model.deliveries.delivery",
    "NotDone": "errors",
    "Once": "workers.deliveries.once",
    "Oncebox": "box",
    "OnceboxError": "errors",
    "Permanent": "errors",
    "SendAnswer": "schemas.sends",
    "SyncOnce": "workers.deliveries.once",
    "Transient": "errors",
    "verify": "client.webhooks",
}


if not TYPE_CHECKING:  # or any name would look like one of ours

    def __getattr__(name: str) -> Any:
        """Import a public name from its module on first use."""
        if name not in _PUBLIC_NAMES:
            raise AttributeError(f"module 'oncebox' has no attribute {name!r}")
        return getattr(import_module(f"oncebox.{_PUBLIC_NAMES[name]}"), name)


def __dir__() -> list[str]:
    """List the public names too, loaded or not."""
    return sorted({*globals(), *__all__})
