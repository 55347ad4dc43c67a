"""Fail-open spool: records of mail sent while the ledger could not be written."""

import msgspec

from oncebox.model.sends.send import NewSend, Send, SendState, pending_send
from oncebox.model.sends.transports import SendAccepted, SendOutcome, SendRejected, SendUnknown


class SpoolBegun(msgspec.Struct, frozen=True, kw_only=True, tag="begun"):
    """An intent that is about to be handed over, by the way that it names."""

    new: NewSend
    at: int


class SpoolMarked(msgspec.Struct, frozen=True, kw_only=True, tag="marked"):
    """From here on it may be taken."""

    id: str
    at: int


class SpoolEnded(msgspec.Struct, frozen=True, kw_only=True, tag="ended"):
    """What became of it."""

    id: str
    outcome: SendOutcome


SpoolStep = SpoolBegun | SpoolMarked | SpoolEnded


class SpooledSend(msgspec.Struct, frozen=True, kw_only=True):
    """A mail that was, or may have been, handed over past the ledger."""

    new: NewSend
    #: when it was handed over
    at: int
    outcome: SendOutcome


def send_from_spool(
    new: NewSend, at: int, state: SendState, outcome: SendOutcome | None = None
) -> Send:
    """Return a send that was handed over past the ledger, as that will show it."""
    doubtful = state is SendState.UNKNOWN
    why = outcome if isinstance(outcome, SendRejected | SendUnknown) else None
    return msgspec.structs.replace(
        pending_send(new, new.transport, None, at),
        state=state,
        fence=1,
        tries=1,
        claimed_at=at,
        marked_at=at,
        unknown_since=at if doubtful else None,
        code=why.code if why else None,
        phase=outcome.phase if outcome else None,
        reply=why.reply if why else 0,
        provider_id=outcome.provider_id if isinstance(outcome, SendAccepted) else "",
        ended_at=None if doubtful else at,
    )
