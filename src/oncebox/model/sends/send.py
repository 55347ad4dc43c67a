"""Sends: states, transitions, limits, ledger requests and results, and the next step.

The outcome of a send is *unknown* if it may have been accepted and no reply proves it. Until
proof or an operator settles that, it is only repeated as configured, and never counts as not sent,
whatever the outcome of a repeat.
See docs/decisions/0030-use-proof-or-an-operator-to-resolve-unknown-sends.md.

The garbage collector ignores these values (``gc=False``): none refers to itself.
"""

from enum import StrEnum

import msgspec

from oncebox.model.sends.transports import ProviderStatus, SendOutcome, SendPhase
from oncebox.model.validation import Timestamp

#: milliseconds
BUDGET_WINDOW = 3_600_000


class SendLimits(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Limits of a new or rearmed intent; 0 is no limit."""

    #: milliseconds in which a recipient gets no other mail of the same event type
    cool_down: int = 0
    #: new sends per hour of the same API key
    per_key: int = 0
    #: new sends per hour to the same recipient
    per_recipient: int = 0


class SendState(StrEnum):
    """State of a send."""

    #: stored; never accepted by a provider
    PENDING = "pending"
    #: leased to a worker; nothing of this try was transmitted yet
    CLAIMED = "claimed"
    #: being transmitted; it may be accepted from now on
    SENDING = "sending"
    #: proven: accepted by the provider
    SENT = "sent"
    #: proven not sent, and given up
    FAILED = "failed"
    #: it may have been accepted; there is no proof
    UNKNOWN = "unknown"
    #: a recipient is on the suppression list; not sent
    SUPPRESSED = "suppressed"
    #: cancelled in time; not sent
    CANCELLED = "cancelled"
    #: `valid_until` passed before it was transmitted; not sent
    EXPIRED = "expired"
    #: stored by the ``log`` transport, which sends nothing
    LOGGED = "logged"


#: states that do not change by themselves
FINAL_STATES = frozenset({
    SendState.SENT,
    SendState.FAILED,
    SendState.SUPPRESSED,
    SendState.CANCELLED,
    SendState.EXPIRED,
    SendState.LOGGED,
})  # fmt: skip
#: proven not sent; the same intent again rearms the send
REARMABLE_STATES = frozenset({SendState.FAILED, SendState.EXPIRED, SendState.CANCELLED})

_UNSENT_STATES = sorted({SendState.PENDING, *FINAL_STATES} - {SendState.SENT})
#: every transition, with its cause; tests and docs come from this table
TRANSITIONS: dict[tuple[SendState, SendState], str] = {
    (SendState.PENDING, SendState.CLAIMED): "claimed by a worker",
    (SendState.PENDING, SendState.CANCELLED): "cancelled",
    (SendState.PENDING, SendState.EXPIRED): "`valid_until` has passed",
    (SendState.CLAIMED, SendState.SENDING): "the marker: it may be accepted from now on",
    (SendState.CLAIMED, SendState.PENDING): "not sent, to be tried again; or the lease expired",
    (SendState.CLAIMED, SendState.FAILED): "rejected, or given up, before anything was transmitted",
    (SendState.CLAIMED, SendState.CANCELLED): "cancelled before anything was transmitted",
    (SendState.CLAIMED, SendState.EXPIRED): "`valid_until` has passed at the marker",
    (SendState.CLAIMED, SendState.SUPPRESSED): "a recipient is on the suppression list",
    (SendState.CLAIMED, SendState.UNKNOWN): "a repeat of an unknown send was not made, or was lost",
    (SendState.CLAIMED, SendState.LOGGED): "stored by the `log` transport",
    (SendState.SENDING, SendState.SENT): "accepted by the provider",
    (SendState.SENDING, SendState.LOGGED): "stored by the `log` transport",
    (SendState.SENDING, SendState.PENDING): "certainly not accepted, to be tried again",
    (SendState.SENDING, SendState.FAILED): "certainly not accepted: rejected, or given up",
    (SendState.SENDING, SendState.UNKNOWN): "no reply, or the lease expired",
    (SendState.UNKNOWN, SendState.CLAIMED): "repeated as configured: `replay` in time, or `resend`",
    (SendState.UNKNOWN, SendState.SENT): "evidence, or an operator",
    (SendState.UNKNOWN, SendState.FAILED): "an operator says that it was not sent",
    (SendState.SUPPRESSED, SendState.PENDING): "an operator",
    **{
        (state, SendState.PENDING): "the same intent again, or an operator"
        for state in sorted(REARMABLE_STATES)
    },
    **{
        (state, SendState.SUPPRESSED): "the same intent again, with a suppressed recipient"
        for state in sorted(REARMABLE_STATES)
    },
    **{
        (state, SendState.SENT): "proof that an earlier try was accepted"
        for state in (SendState.CLAIMED, *_UNSENT_STATES)
    },
    **{
        (state, SendState.UNKNOWN): "sent without the ledger (`fail_open`), without proof"
        for state in _UNSENT_STATES
    },
}


class OnUnknown(StrEnum):
    """What happens to a send of unknown outcome."""

    #: it waits for evidence or an operator: at most once
    HOLD = "hold"
    #: the same key and bytes again, while the provider is known to remember the key; else as hold
    REPLAY = "replay"
    #: the same bytes again: at least once
    RESEND = "resend"


DEFAULT_ON_UNKNOWN = OnUnknown.REPLAY


class Retention(StrEnum):
    """How long the content of a send is kept after its end; its key is kept longer."""

    TRANSACTIONAL = "transactional"
    SCHEDULED = "scheduled"
    NOTIFICATION = "notification"


class AnswerStatus(StrEnum):
    """Answer to a request to send."""

    #: sent, by the first request
    SENT = "sent"
    #: it was sent before; there is no second mail
    DUPLICATE = "duplicate"
    #: stored, or being sent
    IN_FLIGHT = "in_flight"
    #: it may have been sent; do not repeat it under another key
    UNKNOWN = "unknown"
    FAILED = "failed"
    SUPPRESSED = "suppressed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    LOGGED = "logged"
    #: the key belongs to an intent with other protected fields: refused, 422
    CONFLICT = "conflict"
    #: a recipient has just got such a mail under another key: refused, 409
    COOLING_DOWN = "cooling_down"
    #: too many sends of one API key or to one recipient: refused, 429
    OVER_BUDGET = "over_budget"


_IN_FLIGHT_STATES = frozenset({SendState.PENDING, SendState.CLAIMED, SendState.SENDING})


def answer_status(state: SendState, *, repeated: bool = False) -> AnswerStatus:
    """Return the answer for a send, to the first request or to a repeated one."""
    if repeated and state is SendState.SENT:
        return AnswerStatus.DUPLICATE
    return AnswerStatus.IN_FLIGHT if state in _IN_FLIGHT_STATES else AnswerStatus(state.value)


class IntentIdentity(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What an intent and its repeats have in common."""

    tenant: str
    key: bytes
    protected: bytes
    content: bytes


class SendLease(msgspec.Struct, frozen=True, gc=False):
    """A lease that a worker takes in the commit that stores the intent.

    It is granted only if the send is due, and its transport is the one the worker knows and may
    start sends without being counted.
    """

    worker: str
    transport: str
    #: when the transport was last changed, as far as the worker knows
    changed_at: int
    #: milliseconds it lasts without renewal
    duration: int


class NewSend(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An intent as the ledger stores it: composed and encrypted."""

    id: str
    tenant: str
    #: idempotency key
    key: bytes
    #: fingerprint of what a repeat must not change: audience, sender, attachments, template
    protected: bytes
    #: HMAC of the whole content; compared, never shown
    content: bytes
    #: the composed mail, encrypted for this id
    message: bytes
    #: recipients and whatever else a transport needs, encrypted for this id
    envelope: bytes
    message_id: str
    #: HMAC of each recipient's address, to find it on the suppression list
    marks: tuple[bytes, ...]
    #: empty: the first one (of the group, if one is named), or ``log`` if there is none
    transport: str = ""
    failover_group: str = ""
    #: the caller named the transport: no other one is used
    pinned: bool = False
    event_type: str = ""
    entity_id: str = ""
    #: the requesting API key; None: the command line
    owner: str | None = None
    attempt_id: str | None = None
    #: the delivery and the effect of a requesting handler
    delivery_id: str | None = None
    effect: str | None = None
    on_unknown: OnUnknown = DEFAULT_ON_UNKNOWN
    send_at: int | None = None
    valid_until: int | None = None
    retention: Retention = Retention.TRANSACTIONAL
    #: milliseconds for which the content is kept after the end
    kept_for: int = 7 * 86_400_000
    #: not applied to repeats
    guards: SendLimits = SendLimits()
    #: wanted by the worker that will transmit it at once
    lease: SendLease | None = None


class Send(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A stored send, without its content."""

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
    #: how it is repeated although its outcome is unknown; None: not at all
    repeat_mode: OnUnknown | None = None
    created_at: int
    send_at: int | None = None
    valid_until: int | None = None
    #: time of the next try, or end of the lease
    due_at: int | None = None
    #: increases with every claim; a report with an older fence changes nothing unless it is proof
    fence: int = 0
    tries: int = 0
    #: increases with proof that a transmitted mail was not accepted; part of provider keys
    epoch: int = 0
    rearms: int = 0
    worker: str | None = None
    claimed_at: int | None = None
    #: when the marker of the try was committed
    marked_at: int | None = None
    unknown_since: int | None = None
    #: until when the provider certainly remembers the key of the unknown try
    replay_until: int | None = None
    #: stable code of the last try's outcome
    code: str | None = None
    phase: SendPhase | None = None
    #: the reply code of SMTP or HTTP; 0 without a reply
    reply: int = 0
    provider_id: str = ""
    retention: Retention
    ended_at: int | None = None
    #: when the content was deleted; the key stays
    purged_at: int | None = None
    #: the id the content is encrypted for
    body_id: str
    size: int
    #: last delivery status the provider reported, and when that happened
    delivery: ProviderStatus | None = None
    delivery_at: int | None = None
    #: the caller named the transport: no other one is used
    pinned: bool = False
    #: its first transport signs it with DKIM, so it never leaves unsigned
    must_sign: bool = False


def is_settled(send: Send) -> bool:
    """Tell whether waiting changes nothing: a final state, or unknown without a repeat."""
    return send.state in FINAL_STATES or (
        send.state is SendState.UNKNOWN and send.repeat_mode is None
    )


def retry_after(send: Send, now: int) -> int | None:
    """Return the milliseconds until a send may have changed; None if it will not by itself."""
    if is_settled(send):
        return None
    if send.state in {SendState.CLAIMED, SendState.SENDING}:
        return 1_000
    return max(1_000, (send.due_at or now) - now)


class IntentAccepted(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The ledger's answer to an intent, given only after the commit."""

    status: AnswerStatus
    send: Send
    #: this call created or rearmed it
    created: bool = False
    rearmed: bool = False
    #: the content differs from the stored one, which stays
    drift: bool = False

    @property
    def may_rearm(self) -> bool:
        """Whether the send is proven not sent, so that the same intent rearms it."""
        return self.status is not AnswerStatus.CONFLICT and self.send.state in REARMABLE_STATES


class IntentRefused(msgspec.Struct, frozen=True, kw_only=True):
    """The ledger's answer to an intent over its limits; nothing was stored."""

    #: ``cooling_down`` or ``over_budget``
    status: AnswerStatus
    #: milliseconds after which the same intent may be accepted
    retry_after: int
    #: id of the send that started the cool-down
    earlier: str | None = None


#: None: there is no such transport
IntentResult = IntentAccepted | IntentRefused | None


class ClaimedSend(msgspec.Struct, frozen=True, gc=False):
    """A leased send with its encrypted message and envelope."""

    send: Send
    message: bytes
    envelope: bytes


class SendMarker(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Marker of a try: the send may be accepted from now on."""

    tenant: str
    id: str
    fence: int
    #: new end of the lease
    until: int
    #: until when the provider certainly remembers the key; None if it does not
    replay_until: int | None = None


class SendReport(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The outcome of a try; external proof has the fence 0."""

    tenant: str
    id: str
    fence: int
    outcome: SendOutcome
    #: the transport of the try; empty if the outcome does not concern its circuit breaker
    transport: str = ""
    #: time of the next try; None: no more
    due_at: int | None = None
    #: another transport for the next try
    move_to: str | None = None
    #: stored by the log transport, not sent
    logged: bool = False
    #: the try does not count against the limit of tries
    uncounted: bool = False


class SendSettled(msgspec.Struct, frozen=True, gc=False):
    """A send after a report, and whether the report changed it."""

    send: Send
    counted: bool
    #: whether the events of this commit have their numbers
    numbered: bool = False


class SendTry(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded try of a send."""

    fence: int
    transport: str
    worker: str | None
    claimed_at: Timestamp | None
    #: when the marker was committed
    marked_at: Timestamp | None
    ended_at: Timestamp
    #: ``accepted``, ``logged``, ``not_sent``, ``rejected``, ``unknown`` or ``lost``
    outcome: str
    code: str | None
    phase: SendPhase | None
    reply: int
    provider_id: str


_REARM_HINT = "the same intent again rearms it, or an operator: oncebox send resend"
_FINAL_STEPS = {
    SendState.SENT: "nothing: it is sent, and a repeated request is answered duplicate",
    SendState.FAILED: f"nothing by itself: it is proven not sent; {_REARM_HINT}",
    SendState.EXPIRED: f"nothing by itself: valid_until passed before it was sent; {_REARM_HINT}",
    SendState.CANCELLED: f"nothing by itself: it was cancelled in time; {_REARM_HINT}",
    SendState.SUPPRESSED: (
        "nothing by itself: a recipient is on the suppression list; remove the address, then: "
        "oncebox send resend"
    ),
    SendState.LOGGED: "nothing: the log transport stores mail and sends none",
}


def next_step(send: Send, now: int) -> str:
    """Return what may or must happen next, in one sentence."""
    if send.state in _FINAL_STEPS:
        if send.purged_at is None or send.state in {SendState.SENT, SendState.LOGGED}:
            return _FINAL_STEPS[send.state]
        return "nothing by itself: its content is no longer kept; request it again"
    if send.state is SendState.UNKNOWN:
        return _unknown_step(send, now)
    if send.state is SendState.PENDING:
        return _pending_step(send, now)
    return _leased_step(send, is_held=(send.due_at or 0) > now)


def _pending_step(send: Send, now: int) -> str:
    if send.tries:
        return "wait for the next try: nothing was accepted"
    if send.send_at is not None and send.send_at > now:
        return "wait for its time: it is not sent before send_at"
    return "wait for a worker: nothing was transmitted"


def _leased_step(send: Send, *, is_held: bool) -> str:
    if send.state is SendState.SENDING:
        if is_held:
            return "wait: it is being transmitted"
        return "wait: its worker was lost while transmitting it; it becomes unknown"
    if is_held:
        return "wait: a worker holds the lease"
    if send.unknown_since is not None:
        return "wait: the lease of its repeat expired; it becomes unknown again"
    return "wait: the lease expired, and the next worker takes it; nothing was transmitted"


def _unknown_step(send: Send, now: int) -> str:
    if send.repeat_mode is OnUnknown.RESEND:
        return "wait: the same bytes are sent again, as configured"
    if send.repeat_mode is OnUnknown.REPLAY and (send.replay_until or 0) > now:
        return "wait: it is repeated under the same key, while the provider remembers it"
    return (
        "needs a person, or evidence: check whether it arrived, then: "
        f"oncebox send resolve {send.id} --sent --why '…', "
        f"or: oncebox send resolve {send.id} --not-sent --why '…'"
    )
