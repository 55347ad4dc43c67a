"""Oncebox: the self-hosted inbox, ledger and outbox for AI agents."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oncebox.box import Oncebox
    from oncebox.client.asynchronous import AsyncClient
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
    from oncebox.client.webhooks import verify
    from oncebox.errors import (
        ConfigInvalid,
        CursorTooOld,
        EffectMisused,
        EffectNameReused,
        EffectOutcomeUnknown,
        HandlerRegisteredTwice,
        InputRefused,
        KeyFetchRequired,
        LeaseLost,
        NotDone,
        NotFound,
        OnceboxError,
        Permanent,
        RequestKeyReused,
        SignatureInvalid,
        SourceUnknown,
        StateConflict,
        StoreError,
        StoreUnavailable,
        Transient,
        UnknownScheme,
    )
    from oncebox.errors.http import Forbidden, SourcePaused, TooManyRequests, Unauthenticated
    from oncebox.errors.mail import (
        AlreadyClaimed,
        ArtifactConflict,
        ArtifactInFlight,
        ArtifactSuperseded,
        ArtifactUsed,
        LinkRefused,
        ResendLimitReached,
    )
    from oncebox.model.deliveries.delivery import Accepted, Allow, Delivery, Drop, Hold
    from oncebox.model.deliveries.effects import NO_RESULT, Done
    from oncebox.model.sends.email import Attachment, Email
    from oncebox.schemas.sends import SendAnswer
    from oncebox.workers.deliveries.once import Once, SyncOnce

__all__ = [
    "NO_RESULT",
    "Accepted",
    "ActionHeld",
    "ActionInFlight",
    "ActionMisused",
    "Allow",
    "AlreadyClaimed",
    "AnswerUnreadable",
    "ArtifactConflict",
    "ArtifactInFlight",
    "ArtifactSuperseded",
    "ArtifactUsed",
    "AsyncClient",
    "Attachment",
    "CallFailed",
    "Client",
    "ClientClosed",
    "ConfigInvalid",
    "CursorTooOld",
    "DeadlinePassed",
    "Delivery",
    "Done",
    "Drop",
    "EffectMisused",
    "EffectNameReused",
    "EffectOutcomeUnknown",
    "Email",
    "Forbidden",
    "HandlerRegisteredTwice",
    "Hold",
    "InboxClosed",
    "InputRefused",
    "KeyFetchRequired",
    "LeaseLost",
    "LinkRefused",
    "MailboxInUse",
    "NoAnswer",
    "NotDone",
    "NotFound",
    "Once",
    "Oncebox",
    "OnceboxError",
    "Permanent",
    "PollMisused",
    "Poller",
    "RequestKeyReused",
    "ResendLimitReached",
    "SendAnswer",
    "ServiceRefused",
    "ServiceUnreachable",
    "SignatureInvalid",
    "SourcePaused",
    "SourceUnknown",
    "StateConflict",
    "StoreError",
    "StoreUnavailable",
    "SyncOnce",
    "TooManyRequests",
    "Transient",
    "Unauthenticated",
    "UnknownScheme",
    "WaitContested",
    "WaitEnded",
    "WaitInFlight",
    "WaitTimedOut",
    "WorkMisused",
    "verify",
]

#: where each public name lives; loaded when first used, so that programs that only call
#: the service, and the command line, start fast
_PUBLIC_NAMES = {
    "NO_RESULT": "model.deliveries.effects",
    "Accepted": "model.deliveries.delivery",
    "ActionHeld": "client.errors",
    "ActionInFlight": "client.errors",
    "ActionMisused": "client.errors",
    "Allow": "model.deliveries.delivery",
    "AlreadyClaimed": "errors.mail",
    "AnswerUnreadable": "client.errors",
    "ArtifactConflict": "errors.mail",
    "ArtifactInFlight": "errors.mail",
    "ArtifactSuperseded": "errors.mail",
    "ArtifactUsed": "errors.mail",
    "AsyncClient": "client.asynchronous",
    "Attachment": "model.sends.email",
    "CallFailed": "client.errors",
    "Client": "client.sync",
    "ClientClosed": "client.errors",
    "ConfigInvalid": "errors",
    "CursorTooOld": "errors",
    "DeadlinePassed": "client.errors",
    "Delivery": "model.deliveries.delivery",
    "Done": "model.deliveries.effects",
    "Drop": "model.deliveries.delivery",
    "EffectMisused": "errors",
    "EffectNameReused": "errors",
    "EffectOutcomeUnknown": "errors",
    "Email": "model.sends.email",
    "Forbidden": "errors.http",
    "HandlerRegisteredTwice": "errors",
    "Hold": "model.deliveries.delivery",
    "InboxClosed": "client.errors",
    "InputRefused": "errors",
    "KeyFetchRequired": "errors",
    "LeaseLost": "errors",
    "LinkRefused": "errors.mail",
    "MailboxInUse": "client.errors",
    "NoAnswer": "client.errors",
    "NotDone": "errors",
    "NotFound": "errors",
    "Once": "workers.deliveries.once",
    "Oncebox": "box",
    "OnceboxError": "errors",
    "Permanent": "errors",
    "PollMisused": "client.errors",
    "Poller": "client.poller",
    "RequestKeyReused": "errors",
    "ResendLimitReached": "errors.mail",
    "SendAnswer": "schemas.sends",
    "ServiceRefused": "client.errors",
    "ServiceUnreachable": "client.errors",
    "SignatureInvalid": "errors",
    "SourcePaused": "errors.http",
    "SourceUnknown": "errors",
    "StateConflict": "errors",
    "StoreError": "errors",
    "StoreUnavailable": "errors",
    "SyncOnce": "workers.deliveries.once",
    "TooManyRequests": "errors.http",
    "Transient": "errors",
    "Unauthenticated": "errors.http",
    "UnknownScheme": "errors",
    "WaitContested": "client.errors",
    "WaitEnded": "client.errors",
    "WaitInFlight": "client.errors",
    "WaitTimedOut": "client.errors",
    "WorkMisused": "client.errors",
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
