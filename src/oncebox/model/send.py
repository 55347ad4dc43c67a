"""A send: one intent to mail, its states, and the values that move it between them.

A send is *in doubt* from the moment a hand-over may have been taken and nobody can know. Until
proof or a person ends the doubt it can only be repeated as was chosen, and it never counts as
not sent, whatever becomes of a repeat.
"""

from enum import StrEnum

import msgspec

from oncebox.model.evidence import Told
from oncebox.model.guards import Guards
from oncebox.model.outcome import Outcome, Phase


class SendState(StrEnum):
    """Where a send stands."""

    #: on disk; nothing of it was ever taken by anybody
    PENDING = "pending"
    #: leased to a worker; nothing of this try is on the wire yet
    CLAIMED = "claimed"
    #: from here on it may be taken
    SENDING = "sending"
    #: proven: the other side took it
    SENT = "sent"
    #: proven not sent, and given up
    FAILED = "failed"
    #: it may have been taken, and nobody here can know
    UNKNOWN = "unknown"
    #: a recipient is on the suppression list; not sent
    SUPPRESSED = "suppressed"
    #: called off in time; not sent
    CANCELLED = "cancelled"
    #: its time was over before it was on the wire; not sent
    EXPIRED = "expired"
    #: stored by the ``log`` transport, which sends nothing
    LOGGED = "logged"


#: nothing more happens with these by itself
ENDED = frozenset({
    SendState.SENT,
    SendState.FAILED,
    SendState.SUPPRESSED,
    SendState.CANCELLED,
    SendState.EXPIRED,
    SendState.LOGGED,
})  # fmt: skip
#: ends that are proven not sent, after which a repeat arms the send again
REARMED = frozenset({SendState.FAILED, SendState.EXPIRED, SendState.CANCELLED})

_PROOF = "proof that an earlier hand-over was taken after all"
_AGAIN = "the same intent again, or a person"
_BESIDE = "a hand-over past the ledger (`fail_open`) that nobody can know of"
_LISTED = "the same intent again, and a recipient is on the suppression list now"

#: every change of state that exists, with what causes it; tests and docs come from this table
TRANSITIONS: dict[tuple[SendState, SendState], str] = {
    (SendState.PENDING, SendState.CLAIMED): "claimed by a worker",
    (SendState.PENDING, SendState.CANCELLED): "called off",
    (SendState.PENDING, SendState.EXPIRED): "`valid_until` is over",
    (SendState.PENDING, SendState.SENT): _PROOF,
    (SendState.CLAIMED, SendState.SENDING): "the marker: from here on it may be taken",
    (SendState.CLAIMED, SendState.PENDING): "not sent, to be tried again; or its lease ran out",
    (SendState.CLAIMED, SendState.FAILED): "rejected, or given up, before anything was on the wire",
    (SendState.CLAIMED, SendState.CANCELLED): "called off before anything was on the wire",
    (SendState.CLAIMED, SendState.EXPIRED): "`valid_until` is over when the marker is asked for",
    (SendState.CLAIMED, SendState.SUPPRESSED): "a recipient is on the suppression list",
    (SendState.CLAIMED, SendState.UNKNOWN): "a repeat in doubt that was not made, or was lost",
    (SendState.CLAIMED, SendState.SENT): _PROOF,
    (SendState.CLAIMED, SendState.LOGGED): "stored by the `log` transport",
    (SendState.SENDING, SendState.SENT): "the other side took it",
    (SendState.SENDING, SendState.LOGGED): "stored by the `log` transport",
    (SendState.SENDING, SendState.PENDING): "certainly not taken, to be tried again",
    (SendState.SENDING, SendState.FAILED): "certainly not taken: rejected, or given up",
    (SendState.SENDING, SendState.UNKNOWN): "no answer, or its lease ran out",
    (SendState.UNKNOWN, SendState.CLAIMED): "repeated as was chosen: `replay` in time, or `resend`",
    (SendState.UNKNOWN, SendState.SENT): "evidence, or a person",
    (SendState.UNKNOWN, SendState.FAILED): "a person says that it was not sent",
    (SendState.FAILED, SendState.PENDING): _AGAIN,
    (SendState.EXPIRED, SendState.PENDING): _AGAIN,
    (SendState.CANCELLED, SendState.PENDING): _AGAIN,
    (SendState.SUPPRESSED, SendState.PENDING): "a person",
    (SendState.FAILED, SendState.SUPPRESSED): _LISTED,
    (SendState.EXPIRED, SendState.SUPPRESSED): _LISTED,
    (SendState.CANCELLED, SendState.SUPPRESSED): _LISTED,
    (SendState.FAILED, SendState.SENT): _PROOF,
    (SendState.EXPIRED, SendState.SENT): _PROOF,
    (SendState.CANCELLED, SendState.SENT): _PROOF,
    (SendState.SUPPRESSED, SendState.SENT): _PROOF,
    (SendState.LOGGED, SendState.SENT): _PROOF,
    (SendState.PENDING, SendState.UNKNOWN): _BESIDE,
    (SendState.FAILED, SendState.UNKNOWN): _BESIDE,
    (SendState.EXPIRED, SendState.UNKNOWN): _BESIDE,
    (SendState.CANCELLED, SendState.UNKNOWN): _BESIDE,
    (SendState.SUPPRESSED, SendState.UNKNOWN): _BESIDE,
    (SendState.LOGGED, SendState.UNKNOWN): _BESIDE,
}


class OnUnknown(StrEnum):
    """What becomes of a send that is in doubt."""

    #: it waits for evidence or a person: at most one hand-over
    HOLD = "hold"
    #: the same key and bytes again, as long as the provider remembers the key
    REPLAY = "replay"
    #: the same bytes again: at least once
    RESEND = "resend"


class Retention(StrEnum):
    """How long what a send says is kept after its end; its key is kept longer."""

    TRANSACTIONAL = "transactional"
    SCHEDULED = "scheduled"
    NOTIFICATION = "notification"


_DAY = 86_400_000
_KEPT = {Retention.TRANSACTIONAL: 7 * _DAY, Retention.NOTIFICATION: _DAY}


def kept_for(retention: Retention, interval: int = 0) -> int:
    """Return the milliseconds for which a class is kept: twice its interval where it has one."""
    if retention is Retention.SCHEDULED:
        return 2 * interval
    return _KEPT[retention]


class Answer(StrEnum):
    """What somebody is told who wants to send."""

    #: it was sent, and this call is the one that asked first
    SENT = "sent"
    #: it was sent before; there is no second mail
    DUPLICATE = "duplicate"
    #: it is stored and will be sent, or somebody is at it
    IN_FLIGHT = "in_flight"
    #: it may have been sent; do not ask again with another key
    UNKNOWN = "unknown"
    FAILED = "failed"
    SUPPRESSED = "suppressed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    LOGGED = "logged"
    #: the key is taken by an intent with other protected fields: refused, 422
    CONFLICT = "conflict"
    #: a recipient was just meant to get such a mail, under another key: refused, 409
    COOLING_DOWN = "cooling_down"
    #: too many sends were asked for, or for one recipient: refused, 429
    OVER_BUDGET = "over_budget"


_ANSWERS = {
    SendState.PENDING: Answer.IN_FLIGHT,
    SendState.CLAIMED: Answer.IN_FLIGHT,
    SendState.SENDING: Answer.IN_FLIGHT,
    SendState.SENT: Answer.SENT,
    SendState.FAILED: Answer.FAILED,
    SendState.UNKNOWN: Answer.UNKNOWN,
    SendState.SUPPRESSED: Answer.SUPPRESSED,
    SendState.CANCELLED: Answer.CANCELLED,
    SendState.EXPIRED: Answer.EXPIRED,
    SendState.LOGGED: Answer.LOGGED,
}


def answer(state: SendState, *, repeated: bool = False) -> Answer:
    """Return what is told of a send, to the first who asked for it or to somebody later."""
    if repeated and state is SendState.SENT:
        return Answer.DUPLICATE
    return _ANSWERS[state]


class Repeat(msgspec.Struct, frozen=True, kw_only=True):
    """By what an intent is known that may have come before."""

    tenant: str
    key: bytes
    protected: bytes
    content: bytes


class NewSend(msgspec.Struct, frozen=True, kw_only=True):
    """An intent as it is handed to the ledger: frozen, sealed, and known by its key."""

    id: str
    tenant: str
    #: what makes two intents the same
    key: bytes
    #: fingerprint of what a repeat may not change: audience, sender, attachments, template
    protected: bytes
    #: fingerprint of all that it says, made with a secret: it is compared, never shown
    content: bytes
    #: the frozen bytes, sealed for this id
    message: bytes
    #: who it goes to and whatever else a transport needs, sealed for this id
    envelope: bytes
    message_id: str
    #: HMAC of each address it goes to, to know those on the suppression list
    marks: tuple[bytes, ...]
    #: empty: the first that there is, and ``log`` where there is none
    transport: str = ""
    event_type: str = ""
    entity_id: str = ""
    #: the key that asked; none: somebody at the terminal
    owner: str | None = None
    attempt_id: str | None = None
    #: the delivery and the effect that asked, where a handler did
    delivery_id: str | None = None
    effect: str | None = None
    on_unknown: OnUnknown = OnUnknown.HOLD
    #: not before this moment
    send_at: int | None = None
    #: and not after this one
    valid_until: int | None = None
    retention: Retention = Retention.TRANSACTIONAL
    #: milliseconds for which it is kept after its end
    kept_for: int = 7 * _DAY
    #: what limits it, unless it is a repeat
    guards: Guards = Guards()

    @property
    def size(self) -> int:
        """How much memory it takes, about."""
        return len(self.message) + len(self.envelope)


class Send(msgspec.Struct, frozen=True, kw_only=True):
    """A send as it stands; what it says is kept apart."""

    id: str
    tenant: str
    key: bytes
    protected: bytes
    content: bytes
    state: SendState
    transport: str
    message_id: str
    event_type: str
    entity_id: str
    owner: str | None = None
    attempt_id: str | None = None
    delivery_id: str | None = None
    effect: str | None = None
    on_unknown: OnUnknown
    #: how it may be repeated although it is in doubt; None: not at all
    again: OnUnknown | None = None
    created_at: int
    send_at: int | None = None
    valid_until: int | None = None
    #: when it is tried next, or until when its lease holds
    due_at: int | None = None
    #: raised with every claim; no later word of an earlier one changes the state, but proof
    fence: int = 0
    tries: int = 0
    #: raised when it is proven that what was handed over was not taken; a part of provider keys
    epoch: int = 0
    rearms: int = 0
    worker: str | None = None
    claimed_at: int | None = None
    #: when the try's marker was committed
    marked_at: int | None = None
    #: since when a hand-over may have been taken
    in_doubt_at: int | None = None
    #: until when the provider surely remembers the key of the hand-over in doubt
    replay_until: int | None = None
    #: what its last try came to, in a stable word of ours
    code: str | None = None
    phase: Phase | None = None
    #: the reply code of SMTP or HTTP; 0 without a reply
    reply: int = 0
    provider_id: str = ""
    retention: Retention
    ended_at: int | None = None
    #: when what it says went; its key stays
    purged_at: int | None = None
    #: what it says is sealed for this id
    body_id: str
    size: int
    #: what became of it after it was taken, as far as its provider told, and when that was
    delivery: Told | None = None
    delivery_at: int | None = None


def as_added(new: NewSend, transport: str, due_at: int | None, now: int) -> Send:
    """Return an intent as it stands right after it was added, by the way it goes."""
    return Send(
        id=new.id,
        tenant=new.tenant,
        key=new.key,
        protected=new.protected,
        content=new.content,
        state=SendState.PENDING,
        transport=transport,
        message_id=new.message_id,
        event_type=new.event_type,
        entity_id=new.entity_id,
        owner=new.owner,
        attempt_id=new.attempt_id,
        delivery_id=new.delivery_id,
        effect=new.effect,
        on_unknown=new.on_unknown,
        created_at=now,
        send_at=new.send_at,
        valid_until=new.valid_until,
        due_at=due_at,
        retention=new.retention,
        body_id=new.id,
        size=new.size,
    )


#: milliseconds after which it is worth asking again, at least
_SOON = 1_000


def retry_after(send: Send, now: int) -> int | None:
    """Return the milliseconds after which more may be known of a send; None: not by waiting."""
    if send.state in ENDED or (send.state is SendState.UNKNOWN and send.again is None):
        return None
    return max(_SOON, (send.due_at or now) - now)


class Intended(msgspec.Struct, frozen=True, kw_only=True):
    """The ledger's answer to an intent, given only after the commit."""

    answer: Answer
    send: Send
    #: this very call made it, or armed it again
    created: bool = False
    rearmed: bool = False
    #: it says something else than what was stored first, which stays
    drift: bool = False


class TurnedDown(msgspec.Struct, frozen=True, kw_only=True):
    """The ledger's answer to an intent that its guards do not let in: nothing was stored."""

    #: ``cooling_down`` or ``over_budget``
    answer: Answer
    #: milliseconds after which the same intent may be let in
    retry_after: int
    #: the id of the send that a recipient gets, or got, instead
    earlier: str | None = None


#: what the ledger says to an intent; None: there is no such transport
SendReply = Intended | TurnedDown | None


class ClaimedSend(msgspec.Struct, frozen=True):
    """One try at a send, with all that a transport needs; sealed."""

    send: Send
    message: bytes
    envelope: bytes


class Marker(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's wish to hand over: from here on the send may be taken."""

    tenant: str
    id: str
    fence: int
    #: until when the lease holds from now on
    until: int
    #: until when the provider surely remembers the key; None if it does not
    replay_until: int | None = None


class SendWord(msgspec.Struct, frozen=True, kw_only=True):
    """What is said about how a try ended; proof from outside has the fence 0."""

    tenant: str
    id: str
    fence: int
    outcome: Outcome
    #: the way it was tried by; empty if the word says nothing of the way
    transport: str = ""
    #: when to try again; None: no more
    due_at: int | None = None
    #: another transport for the next try, where nothing is in doubt
    move_to: str | None = None
    #: it was stored and not sent
    logged: bool = False
    #: the try is not counted: it says nothing of the send
    free: bool = False


class Settled(msgspec.Struct, frozen=True):
    """How a send stands after a word on it, and whether the word changed that."""

    send: Send
    counted: bool


class SendTry(msgspec.Struct, frozen=True, kw_only=True):
    """One try at a send, for people to see."""

    fence: int
    transport: str
    worker: str | None
    claimed_at: int | None
    marked_at: int | None
    ended_at: int
    #: ``accepted``, ``logged``, ``not_sent``, ``rejected``, ``unknown`` or ``lost``
    outcome: str
    code: str | None
    phase: Phase | None
    reply: int
    provider_id: str
