"""Sends: states, transitions, limits, ledger requests and results, and the next step.

A send is *in doubt* from the moment a hand-over may have been taken and nobody can know. Until
proof or a person ends the doubt it can only be repeated as was chosen, and it never counts as
not sent, whatever becomes of a repeat.
"""

from enum import StrEnum

import msgspec

from oncebox.model.sends.transports import ProviderStatus, SendOutcome, SendPhase
from oncebox.model.validation import Timestamp

#: milliseconds for which a budget is given
BUDGET_WINDOW = 3_600_000


class SendLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What limits one intent, if it is new or armed again; 0 is no limit."""

    #: milliseconds in which nobody gets a second mail of its event type under another key
    cool_down: int = 0
    #: new sends in an hour that the key which asks may ask for
    per_key: int = 0
    #: new sends in an hour that may go to each of its recipients
    per_recipient: int = 0


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
FINAL_STATES = frozenset({
    SendState.SENT,
    SendState.FAILED,
    SendState.SUPPRESSED,
    SendState.CANCELLED,
    SendState.EXPIRED,
    SendState.LOGGED,
})  # fmt: skip
#: ends that are proven not sent, after which a repeat arms the send again
REARMABLE_STATES = frozenset({SendState.FAILED, SendState.EXPIRED, SendState.CANCELLED})

_PROOF_CAUSE = "proof that an earlier hand-over was taken after all"
_REARM_CAUSE = "the same intent again, or a person"
_FAIL_OPEN_CAUSE = "a hand-over past the ledger (`fail_open`) that nobody can know of"
_SUPPRESSED_CAUSE = "the same intent again, and a recipient is on the suppression list now"

#: every change of state that exists, with what causes it; tests and docs come from this table
TRANSITIONS: dict[tuple[SendState, SendState], str] = {
    (SendState.PENDING, SendState.CLAIMED): "claimed by a worker",
    (SendState.PENDING, SendState.CANCELLED): "called off",
    (SendState.PENDING, SendState.EXPIRED): "`valid_until` is over",
    (SendState.PENDING, SendState.SENT): _PROOF_CAUSE,
    (SendState.CLAIMED, SendState.SENDING): "the marker: from here on it may be taken",
    (SendState.CLAIMED, SendState.PENDING): "not sent, to be tried again; or its lease ran out",
    (SendState.CLAIMED, SendState.FAILED): "rejected, or given up, before anything was on the wire",
    (SendState.CLAIMED, SendState.CANCELLED): "called off before anything was on the wire",
    (SendState.CLAIMED, SendState.EXPIRED): "`valid_until` is over when the marker is asked for",
    (SendState.CLAIMED, SendState.SUPPRESSED): "a recipient is on the suppression list",
    (SendState.CLAIMED, SendState.UNKNOWN): "a repeat in doubt that was not made, or was lost",
    (SendState.CLAIMED, SendState.SENT): _PROOF_CAUSE,
    (SendState.CLAIMED, SendState.LOGGED): "stored by the `log` transport",
    (SendState.SENDING, SendState.SENT): "the other side took it",
    (SendState.SENDING, SendState.LOGGED): "stored by the `log` transport",
    (SendState.SENDING, SendState.PENDING): "certainly not taken, to be tried again",
    (SendState.SENDING, SendState.FAILED): "certainly not taken: rejected, or given up",
    (SendState.SENDING, SendState.UNKNOWN): "no answer, or its lease ran out",
    (SendState.UNKNOWN, SendState.CLAIMED): "repeated as was chosen: `replay` in time, or `resend`",
    (SendState.UNKNOWN, SendState.SENT): "evidence, or a person",
    (SendState.UNKNOWN, SendState.FAILED): "a person says that it was not sent",
    (SendState.FAILED, SendState.PENDING): _REARM_CAUSE,
    (SendState.EXPIRED, SendState.PENDING): _REARM_CAUSE,
    (SendState.CANCELLED, SendState.PENDING): _REARM_CAUSE,
    (SendState.SUPPRESSED, SendState.PENDING): "a person",
    (SendState.FAILED, SendState.SUPPRESSED): _SUPPRESSED_CAUSE,
    (SendState.EXPIRED, SendState.SUPPRESSED): _SUPPRESSED_CAUSE,
    (SendState.CANCELLED, SendState.SUPPRESSED): _SUPPRESSED_CAUSE,
    (SendState.FAILED, SendState.SENT): _PROOF_CAUSE,
    (SendState.EXPIRED, SendState.SENT): _PROOF_CAUSE,
    (SendState.CANCELLED, SendState.SENT): _PROOF_CAUSE,
    (SendState.SUPPRESSED, SendState.SENT): _PROOF_CAUSE,
    (SendState.LOGGED, SendState.SENT): _PROOF_CAUSE,
    (SendState.PENDING, SendState.UNKNOWN): _FAIL_OPEN_CAUSE,
    (SendState.FAILED, SendState.UNKNOWN): _FAIL_OPEN_CAUSE,
    (SendState.EXPIRED, SendState.UNKNOWN): _FAIL_OPEN_CAUSE,
    (SendState.CANCELLED, SendState.UNKNOWN): _FAIL_OPEN_CAUSE,
    (SendState.SUPPRESSED, SendState.UNKNOWN): _FAIL_OPEN_CAUSE,
    (SendState.LOGGED, SendState.UNKNOWN): _FAIL_OPEN_CAUSE,
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
_RETENTION_PERIODS = {Retention.TRANSACTIONAL: 7 * _DAY, Retention.NOTIFICATION: _DAY}


def retention_period(retention: Retention, interval: int = 0) -> int:
    """Return the milliseconds for which a class is kept: twice its interval where it has one."""
    if retention is Retention.SCHEDULED:
        return 2 * interval
    return _RETENTION_PERIODS[retention]


class AnswerStatus(StrEnum):
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


_STATUSES = {
    SendState.PENDING: AnswerStatus.IN_FLIGHT,
    SendState.CLAIMED: AnswerStatus.IN_FLIGHT,
    SendState.SENDING: AnswerStatus.IN_FLIGHT,
    SendState.SENT: AnswerStatus.SENT,
    SendState.FAILED: AnswerStatus.FAILED,
    SendState.UNKNOWN: AnswerStatus.UNKNOWN,
    SendState.SUPPRESSED: AnswerStatus.SUPPRESSED,
    SendState.CANCELLED: AnswerStatus.CANCELLED,
    SendState.EXPIRED: AnswerStatus.EXPIRED,
    SendState.LOGGED: AnswerStatus.LOGGED,
}


def answer_status(state: SendState, *, repeated: bool = False) -> AnswerStatus:
    """Return what is told of a send, to the first who asked for it or to somebody later."""
    if repeated and state is SendState.SENT:
        return AnswerStatus.DUPLICATE
    return _STATUSES[state]


class IntentIdentity(msgspec.Struct, frozen=True, kw_only=True):
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
    guards: SendLimits = SendLimits()

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
    repeat_mode: OnUnknown | None = None
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
    unknown_since: int | None = None
    #: until when the provider surely remembers the key of the hand-over in doubt
    replay_until: int | None = None
    #: what its last try came to, in a stable word of ours
    code: str | None = None
    phase: SendPhase | None = None
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
    delivery: ProviderStatus | None = None
    delivery_at: int | None = None


def pending_send(new: NewSend, transport: str, due_at: int | None, now: int) -> Send:
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
_SHORTEST_RETRY = 1_000


def is_settled(send: Send) -> bool:
    """Tell whether waiting changes nothing: a final state, or unknown without a repeat."""
    return send.state in FINAL_STATES or (
        send.state is SendState.UNKNOWN and send.repeat_mode is None
    )


def retry_after(send: Send, now: int) -> int | None:
    """Return the milliseconds until a send may have changed; None if it will not by itself."""
    if is_settled(send):
        return None
    return max(_SHORTEST_RETRY, (send.due_at or now) - now)


class IntentAccepted(msgspec.Struct, frozen=True, kw_only=True):
    """The ledger's answer to an intent, given only after the commit."""

    status: AnswerStatus
    send: Send
    #: this very call made it, or armed it again
    created: bool = False
    rearmed: bool = False
    #: it says something else than what was stored first, which stays
    drift: bool = False


class IntentRefused(msgspec.Struct, frozen=True, kw_only=True):
    """The ledger's answer to an intent that its guards do not let in: nothing was stored."""

    #: ``cooling_down`` or ``over_budget``
    status: AnswerStatus
    #: milliseconds after which the same intent may be let in
    retry_after: int
    #: the id of the send that a recipient gets, or got, instead
    earlier: str | None = None


#: what the ledger says to an intent; None: there is no such transport
IntentResult = IntentAccepted | IntentRefused | None


class ClaimedSend(msgspec.Struct, frozen=True):
    """One try at a send, with all that a transport needs; sealed."""

    send: Send
    message: bytes
    envelope: bytes


class SendMarker(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's wish to hand over: from here on the send may be taken."""

    tenant: str
    id: str
    fence: int
    #: until when the lease holds from now on
    until: int
    #: until when the provider surely remembers the key; None if it does not
    replay_until: int | None = None


class SendReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is said about how a try ended; proof from outside has the fence 0."""

    tenant: str
    id: str
    fence: int
    outcome: SendOutcome
    #: the way it was tried by; empty if the word says nothing of the way
    transport: str = ""
    #: when to try again; None: no more
    due_at: int | None = None
    #: another transport for the next try, where nothing is in doubt
    move_to: str | None = None
    #: it was stored and not sent
    logged: bool = False
    #: the try is not counted: it says nothing of the send
    uncounted: bool = False


class SendSettled(msgspec.Struct, frozen=True):
    """How a send stands after a word on it, and whether the word changed that."""

    send: Send
    counted: bool


class SendTry(msgspec.Struct, frozen=True, kw_only=True):
    """One try at a send."""

    fence: int
    transport: str
    worker: str | None
    claimed_at: Timestamp | None
    #: when the ledger knew that from here on it may be taken
    marked_at: Timestamp | None
    ended_at: Timestamp
    #: ``accepted``, ``logged``, ``not_sent``, ``rejected``, ``unknown`` or ``lost``
    outcome: str
    code: str | None
    #: how far it came
    phase: SendPhase | None
    reply: int
    provider_id: str


_NO_STEP = "nothing by itself: "
_REARM_HINT = "the same intent again arms it, or a person: oncebox send resend"

_FINAL_STEPS = {
    SendState.SENT: "nothing: it is sent, and asking again is answered duplicate",
    SendState.FAILED: f"{_NO_STEP}it is proven not sent; {_REARM_HINT}",
    SendState.EXPIRED: f"{_NO_STEP}its time was over before it was on the wire; {_REARM_HINT}",
    SendState.CANCELLED: f"{_NO_STEP}it was called off in time; {_REARM_HINT}",
    SendState.SUPPRESSED: (
        f"{_NO_STEP}a recipient is on the suppression list; take them off it, then: "
        "oncebox send resend"
    ),
    SendState.LOGGED: "nothing: the log transport stores mail and sends none",
}
_PURGED_STEP = f"{_NO_STEP}what it says is no longer kept; ask for it anew"


def next_step(send: Send, now: int) -> str:
    """Say in one sentence what may or must happen next."""
    if send.state in _FINAL_STEPS:
        is_sent = send.state in {SendState.SENT, SendState.LOGGED}
        return _FINAL_STEPS[send.state] if is_sent or send.purged_at is None else _PURGED_STEP
    if send.state is SendState.UNKNOWN:
        return _unknown_step(send, now)
    if send.state is SendState.PENDING:
        return _pending_step(send, now)
    return _leased_step(send, is_held=(send.due_at or 0) > now)


def _pending_step(send: Send, now: int) -> str:
    if send.tries:
        return "wait for the next try: nothing of it was taken"
    if send.send_at is not None and send.send_at > now:
        return "wait for its time: it is not sent before send_at"
    return "wait for a worker: nothing of it was ever on the wire"


def _leased_step(send: Send, *, is_held: bool) -> str:
    if send.state is SendState.SENDING:
        if is_held:
            return "wait: it is being handed over"
        return "wait: its worker was lost while handing it over; it becomes unknown"
    if is_held:
        return "wait: a worker holds the lease"
    if send.unknown_since is not None:
        return "wait: the lease of its repeat expired; it becomes unknown again"
    return "wait: the lease expired, and the next worker takes it; nothing was on the wire"


def _unknown_step(send: Send, now: int) -> str:
    if send.repeat_mode is OnUnknown.RESEND:
        return "wait: the same bytes are sent again, as was chosen"
    if send.repeat_mode is OnUnknown.REPLAY and (send.replay_until or 0) > now:
        return "wait: it is repeated under the same key, while the provider remembers it"
    return (
        "needs a person, or evidence: look whether it arrived, then: "
        "oncebox send resolve --sent, or --not-sent"
    )
