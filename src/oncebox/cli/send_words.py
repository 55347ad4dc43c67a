"""What codes and phases of a try mean, said plainly."""

from oncebox.model.outcome import Phase

#: how far a hand-over came when it ended
PHASES = {
    Phase.CONNECT: "before there was a connection",
    Phase.GREETED: "while greeting, securing or logging in",
    Phase.ENVELOPE: "while saying from whom and to whom",
    Phase.BODY: "while the mail was written, before its end",
    Phase.MARKED: "just before the mail was handed over",
    Phase.HANDED_OVER: "after the mail was handed over, before any answer",
    Phase.ANSWERED: "by the answer to the whole mail",
}

_CODES = {
    "connect_failed": "the server could not be reached",
    "host_not_found": "there is no server of that name",
    "certificate_refused": "the server's certificate is not trusted",
    "tls_failed": "the connection could not be secured",
    "starttls_missing": "the server offers no TLS, and nothing is said in the clear",
    "login_missing": "the server offers no login that is known here",
    "login_refused": "the other side refused the user, the password or the key",
    "login_deferred": "the server put the login off",
    "login_required": "the server wants a login or TLS that is not configured",
    "session_refused": "the server does not want to talk to us",
    "session_deferred": "the server has no time for us now",
    "key_refused": "the provider refused the key",
    "key_in_use": "an earlier request under the same key is still under way",
    "key_mismatch": "the provider knows another mail under the same key",
    "rate_limited": "the provider takes no more for now",
    "quota_exceeded": "the provider takes no more: the quota is used up",
    "address_refused": "the address of the provider is not one that is spoken to",
    "server_error": "the provider said that it failed",
    "answer_unreadable": "the answer could not be read",
    "answer_unexpected": "the answer is none that can come there",
    "answered_early": "the provider answered before it had the mail",
    "deadline_passed": "it took longer than it may",
    "connection_lost": "the connection broke",
    "no_answer": "no answer came",
    "reply_unreadable": "the answer could not be read",
    "reply_unexpected": "the answer is none that can come there",
    "sender_refused": "the server refused the sender",
    "sender_deferred": "the server put the sender off",
    "recipient_refused": "the server refused a recipient",
    "recipient_deferred": "the server put a recipient off",
    "message_refused": "the server refused the mail",
    "message_deferred": "the server put the mail off",
    "message_too_large": "the mail is larger than the server takes",
    "signing_invalid": "the mail could not be signed",
    "fence_lost": "another worker had taken it over",
    "cancelled": "it was called off",
    "resolved": "a person said what became of it",
    "suppressed": "a recipient is on the suppression list",
    "expired": "its time was over",
    "lease_lost": "its worker was not heard of again",
}


def plainly(code: str | None, phase: Phase | None, reply: int) -> str:
    """Return what a code means, how far it came, and what was replied."""
    if code is None:
        return ""
    said = _CODES.get(code, code.replace("_", " "))
    where = f" {PHASES[phase]}" if phase is not None else ""
    answered = f", reply {reply}" if reply else ""
    return f"{said}{where} ({code}{answered})"
