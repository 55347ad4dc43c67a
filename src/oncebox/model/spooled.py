"""Spooled sends: mail that was sent past the ledger, because it could not be written."""

import msgspec

from oncebox.model.outcome import Accepted, Outcome, Rejected, Unknown
from oncebox.model.send import NewSend, Send, SendState


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
    return Send(
        id=new.id,
        tenant=new.tenant,
        key=new.key,
        protected=new.protected,
        content=new.content,
        state=state,
        transport=new.transport,
        message_id=new.message_id,
        event_type=new.event_type,
        entity_id=new.entity_id,
        owner=new.owner,
        attempt_id=new.attempt_id,
        delivery_id=new.delivery_id,
        effect=new.effect,
        on_unknown=new.on_unknown,
        again=None,
        created_at=at,
        send_at=new.send_at,
        valid_until=new.valid_until,
        due_at=None,
        fence=1,
        tries=1,
        epoch=0,
        rearms=0,
        worker=None,
        claimed_at=at,
        marked_at=at,
        in_doubt_at=at if doubtful else None,
        replay_until=None,
        code=why.code if why else None,
        phase=outcome.phase if outcome else None,
        reply=why.reply if why else 0,
        provider_id=outcome.provider_id if isinstance(outcome, Accepted) else "",
        retention=new.retention,
        ended_at=None if doubtful else at,
        purged_at=None,
        body_id=new.id,
        size=new.size,
        delivery=None,
        delivery_at=None,
    )
