"""What happens next with a send, or what is wanted of whom; for people."""

from oncebox.model.send import OnUnknown, Send, SendState

_NEXT = {
    SendState.CLAIMED: "a worker has it; nothing of it is on the wire yet",
    SendState.SENDING: "it is being handed over; the answer is waited for",
    SendState.SENT: "none: the other side took it",
    SendState.LOGGED: "none: the log transport stores and sends nothing; add a transport",
    SendState.FAILED: "ask again or resend, once what the code names is mended",
    SendState.EXPIRED: "ask again with a later valid_until, if it should still be sent",
    SendState.CANCELLED: "ask again or resend, if it should be sent after all",
    SendState.SUPPRESSED: "take the address off the suppression list and resend, if it may be sent",
}
_AGAIN = {
    OnUnknown.REPLAY: "in doubt: repeated with the same key while the provider remembers it",
    OnUnknown.RESEND: "in doubt: repeated, at the risk of a second mail, as was chosen",
    None: "needs a person: look whether it arrived, then resolve it as sent or not sent",
}


def next_action(send: Send, now: int) -> str:
    """Return what happens next with a send."""
    if send.state is SendState.UNKNOWN:
        return _AGAIN[send.again if send.again in _AGAIN else None]
    if send.state is not SendState.PENDING:
        return _NEXT[send.state]
    if send.due_at is not None and send.due_at > now:
        return "waits for its time; may still be cancelled"
    return "waits for a worker, or for its transport to take mail"
