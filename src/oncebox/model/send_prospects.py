"""Prospects of a send: what happens next, or what is wanted of whom, in one sentence."""

from oncebox.model.send import OnUnknown, Send, SendState

_NOTHING = "nothing by itself: "
_AGAIN = "the same intent again arms it, or a person: oncebox send resend"

_ENDED = {
    SendState.SENT: "nothing: it is sent, and asking again is answered duplicate",
    SendState.FAILED: f"{_NOTHING}it is proven not sent; {_AGAIN}",
    SendState.EXPIRED: f"{_NOTHING}its time was over before it was on the wire; {_AGAIN}",
    SendState.CANCELLED: f"{_NOTHING}it was called off in time; {_AGAIN}",
    SendState.SUPPRESSED: (
        f"{_NOTHING}a recipient is on the suppression list; take them off it, then: "
        "oncebox send resend"
    ),
    SendState.LOGGED: "nothing: the log transport stores mail and sends none",
}
_PURGED = f"{_NOTHING}what it says is no longer kept; ask for it anew"


def next_action(send: Send, now: int) -> str:
    """Say in one sentence what may or must happen next."""
    if send.state in _ENDED:
        is_sent = send.state in {SendState.SENT, SendState.LOGGED}
        return _ENDED[send.state] if is_sent or send.purged_at is None else _PURGED
    if send.state is SendState.UNKNOWN:
        return _in_doubt(send, now)
    if send.state is SendState.PENDING:
        return _pending(send, now)
    return _held(send, is_held=(send.due_at or 0) > now)


def _pending(send: Send, now: int) -> str:
    if send.tries:
        return "wait for the next try: nothing of it was taken"
    if send.send_at is not None and send.send_at > now:
        return "wait for its time: it is not sent before send_at"
    return "wait for a worker: nothing of it was ever on the wire"


def _held(send: Send, *, is_held: bool) -> str:
    if send.state is SendState.SENDING:
        if is_held:
            return "wait: it is being handed over"
        return "wait: its worker was lost while handing it over; it becomes unknown"
    if is_held:
        return "wait: a worker holds the lease"
    if send.in_doubt_at is not None:
        return "wait: the lease of its repeat expired; it becomes unknown again"
    return "wait: the lease expired, and the next worker takes it; nothing was on the wire"


def _in_doubt(send: Send, now: int) -> str:
    if send.again is OnUnknown.RESEND:
        return "wait: the same bytes are sent again, as was chosen"
    if send.again is OnUnknown.REPLAY and (send.replay_until or 0) > now:
        return "wait: it is repeated under the same key, while the provider remembers it"
    return (
        "needs a person, or evidence: look whether it arrived, then: "
        "oncebox send resolve --sent, or --not-sent"
    )
