"""Spooled sends: mail that was sent past the ledger, because it could not be written."""

import msgspec

from oncebox.model.outcome import Accepted, Outcome, Rejected, Unknown
from oncebox.model.send import NewSend, Send, SendState, as_added


class Begun(msgspec.Struct, frozen=True, kw_only=True, tag="begun"):
    """An intent that is about to be handed over, by the way that it names."""

    new: NewSend
    at: int


class Marked(msgspec.Struct, frozen=True, kw_only=True, tag="marked"):
    """From here on it may be taken."""

    id: str
    at: int


class Ended(msgspec.Struct, frozen=True, kw_only=True, tag="ended"):
    """What became of it."""

    id: str
    outcome: Outcome


Step = Begun | Marked | Ended


class Spooled(msgspec.Struct, frozen=True, kw_only=True):
    """A mail that was, or may have been, handed over past the ledger."""

    new: NewSend
    #: when it was handed over
    at: int
    outcome: Outcome


def as_send(new: NewSend, at: int, state: SendState, outcome: Outcome | None = None) -> Send:
    """Return a send that was handed over past the ledger, as that will show it."""
    doubtful = state is SendState.UNKNOWN
    why = outcome if isinstance(outcome, Rejected | Unknown) else None
    return msgspec.structs.replace(
        as_added(new, new.transport, None, at),
        state=state,
        fence=1,
        tries=1,
        claimed_at=at,
        marked_at=at,
        in_doubt_at=at if doubtful else None,
        code=why.code if why else None,
        phase=outcome.phase if outcome else None,
        reply=why.reply if why else 0,
        provider_id=outcome.provider_id if isinstance(outcome, Accepted) else "",
        ended_at=None if doubtful else at,
    )
