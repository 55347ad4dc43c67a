"""A send as table row, outline, JSON and plain-English explanation; never its content."""

from collections.abc import Iterator, Sequence

from oncebox.cli.output.printer import Printer
from oncebox.cli.output.times import ago, duration, iso_time
from oncebox.model.deliveries.inspection import AuditRecord
from oncebox.model.sends.send import OnUnknown, Send, SendState, SendTry, next_step
from oncebox.model.sends.transports import ConfiguredTransport, SendPhase

PHASE_TEXTS = {
    SendPhase.CONNECT: "before there was a connection",
    SendPhase.GREETED: "during greeting, TLS or login",
    SendPhase.ENVELOPE: "at the sender or a recipient",
    SendPhase.BODY: "while the mail was written, before its end",
    SendPhase.MARKED: "just before the mail was transmitted",
    SendPhase.HANDED_OVER: "after the mail was transmitted, before any answer",
    SendPhase.ANSWERED: "by the answer to the whole mail",
}

_CODE_TEXTS = {
    "connect_failed": "the transport could not connect",
    "host_not_found": "there is no server of that name",
    "certificate_refused": "the server's certificate is not trusted",
    "tls_failed": "the connection could not be secured",
    "starttls_missing": "the server offers no TLS, and nothing is sent without it",
    "login_missing": "the server offers no supported login method",
    "login_refused": "the user name, password or key was refused",
    "login_deferred": "the server deferred the login",
    "login_required": "the server requires a login or TLS that is not configured",
    "session_refused": "the server refused the session",
    "session_deferred": "the server deferred the session",
    "key_refused": "the provider refused the key",
    "key_in_use": "an earlier request under the same key is still in progress",
    "key_mismatch": "the provider knows another mail under the same key",
    "rate_limited": "the rate limit of the provider is reached",
    "quota_exceeded": "the quota of the provider is used up",
    "address_refused": "the address of the provider is not allowed",
    "server_error": "the provider reported an error of its own",
    "answer_unreadable": "the answer could not be read",
    "answer_unexpected": "the answer is unexpected here",
    "answered_early": "the provider answered before it received the mail",
    "deadline_passed": "the time limit was exceeded",
    "connection_lost": "the connection broke",
    "no_answer": "no answer came",
    "reply_unreadable": "the answer could not be read",
    "reply_unexpected": "the answer is unexpected here",
    "sender_refused": "the server refused the sender",
    "sender_deferred": "the server deferred the sender",
    "recipient_refused": "the server refused a recipient",
    "recipient_deferred": "the server deferred a recipient",
    "message_refused": "the server refused the mail",
    "message_deferred": "the server deferred the mail",
    "message_too_large": "the mail is larger than the server accepts",
    "signing_invalid": "the mail could not be signed",
    "fence_lost": "another worker holds the lease",
    "cancelled": "it was cancelled",
    "resolved": "an operator recorded the outcome",
    "suppressed": "a recipient is on the suppression list",
    "expired": "valid_until has passed",
    "lease_lost": "its worker was lost",
}


#: codes that say themselves that there was no connection
_CONNECT_CODES = {"connect_failed", "host_not_found"}


def describe_outcome(code: str | None, phase: SendPhase | None, reply: int) -> str:
    """Return a code in words, with the phase and the reply."""
    if code is None:
        return ""
    meaning = _CODE_TEXTS.get(code, code.replace("_", " "))
    where = f" {PHASE_TEXTS[phase]}" if phase is not None and code not in _CONNECT_CODES else ""
    answered = f", reply {reply}" if reply else ""
    return f"{meaning}{where} ({code}{answered})"


def explain_send(
    send: Send, tries: Sequence[SendTry], transport: ConfiguredTransport | None, now: int
) -> Iterator[str]:
    """Yield the sentences that explain a send."""
    yield _request_sentence(send, now)
    yield from _tries_sentence(tries, now)
    yield _state_sentence(send, now)
    if send.state is SendState.UNKNOWN:
        yield from _unknown_sentences(send, now)
    elif send.state is SendState.PENDING:
        yield from _waiting_sentence(send, transport, now)
    step = next_step(send, now)
    yield f"Next: {step}" if "oncebox " in step else f"Next: {step}."  # a command ready to copy


def _request_sentence(send: Send, now: int) -> str:
    about = f" about {send.event_type} of {send.entity_id}" if send.event_type else ""
    by = f" by {send.owner}" if send.owner else ""
    if send.delivery_id:
        by += f" while delivery {send.delivery_id} was handled"
    again = f", and rearmed {send.rearms} times since" if send.rearms else ""
    return f"The mail{about} was requested {ago(send.created_at, now)}{by}{again}."


def _tries_sentence(tries: Sequence[SendTry], now: int) -> Iterator[str]:
    if not tries:
        yield "No attempt has ended yet."
        return
    last = tries[-1]
    count = f"{len(tries)} attempts, the last" if len(tries) > 1 else "1 attempt,"
    how = last.outcome.replace("_", " ")
    if last.outcome not in {"accepted", "logged"}:
        how += f", because {describe_outcome(last.code, last.phase, last.reply)}"
    yield f"{count} through {last.transport}, {ago(last.ended_at, now)}: {how}."


def _state_sentence(send: Send, now: int) -> str:
    ended = f" {ago(send.ended_at, now)}" if send.ended_at is not None else ""
    name = f" as {send.provider_id}" if send.provider_id else ""
    return {
        SendState.PENDING: "It is stored, and was never accepted by a server.",
        SendState.CLAIMED: f"The worker {send.worker} has claimed it; nothing was transmitted yet.",
        SendState.SENDING: f"The worker {send.worker} is transmitting it: it may be accepted now.",
        SendState.SENT: f"It was sent{ended}: {send.transport} accepted it{name}.",
        SendState.FAILED: f"It was given up{ended}, and it is proven that it was not sent.",
        SendState.UNKNOWN: "It is not known whether it was sent.",
        SendState.SUPPRESSED: f"It was not sent{ended}: a recipient is on the suppression list.",
        SendState.CANCELLED: f"It was cancelled{ended}, before anything was transmitted.",
        SendState.EXPIRED: f"It expired{ended}, before anything was transmitted.",
        SendState.LOGGED: f"It was stored{ended} by log, which sends nothing.",
    }[send.state]


def _unknown_sentences(send: Send, now: int) -> Iterator[str]:
    unknown = "is unknown"
    if send.unknown_since is not None:
        unknown = f"has been unknown for {duration(max(0, now - send.unknown_since))}"
    yield (
        f"Its outcome {unknown}: it was transmitted and no reliable answer came. "
        "It is not sent again by itself, because the first one may have arrived."
        if send.repeat_mode is None
        else f"Its outcome {unknown}, and it is repeated as configured."
    )
    if send.on_unknown is OnUnknown.REPLAY and send.repeat_mode is None:
        yield (
            "The provider is not known to honour idempotency keys, so it is held."
            if send.replay_until is None
            else "The provider may have forgotten the key, or too many tries failed, so it is held."
        )
    yield "A report from the provider, or an operator, settles it for good."


def _waiting_sentence(send: Send, transport: ConfiguredTransport | None, now: int) -> Iterator[str]:
    if transport is None:
        yield f"Its transport {send.transport} does not exist."
    elif transport.paused:
        yield f"Its transport {transport.name} is paused: oncebox transport resume."
    elif transport.state(now) == "resting" and transport.rests_until is not None:
        yield (
            f"Its transport {transport.name} rests after {transport.failures} failures and is "
            f"tried again {ago(transport.rests_until, now)}. {_why_it_stays(send, transport)}"
        )
    elif send.due_at is not None and send.due_at > now:
        yield f"It is due {ago(send.due_at, now)}."
    else:
        waited = duration(max(0, now - (send.due_at or send.created_at)))
        yield f"It has been due for {waited}; a worker must run."


def _why_it_stays(send: Send, transport: ConfiguredTransport) -> str:
    """Return why no other transport has taken a send over, or may not."""
    if send.pinned:
        return "The request named this transport, so no other one is used."
    if not transport.failover_group:
        return (
            "It has no failover group, so no other one takes over: "
            "oncebox transport change NAME --failover-group GROUP."
        )
    signs = ", and signs mail of its sender's domain" if send.must_sign else ""
    return f"Another one of the group {transport.failover_group} takes over if it works{signs}."


Lines = Iterator[tuple[object, ...]]

SEND_COLUMNS = ("send", "state", "transport", "event type", "entity", "tries", "age", "note")


def send_row(send: Send, now: int, out: Printer) -> tuple[object, ...]:
    """Return a send as a table row."""
    age = max(0, now - send.created_at)
    created = duration(age) if out.on_terminal else iso_time(send.created_at)
    return (
        send.id, send.state, send.transport, send.event_type, send.entity_id, send.tries, created,
        send.code or "",
    )  # fmt: skip


def send_lines(
    send: Send, tries: Sequence[SendTry], audit: Sequence[AuditRecord], now: int
) -> Lines:
    """Yield label and values of each line about a send."""
    yield ("send", send.id)
    yield ("state", send.state)
    yield ("about", send.event_type, send.entity_id)
    yield ("key", send.key.hex())
    yield ("message-id", send.message_id)
    named = "named by the request" if send.pinned else ""
    yield ("transport", send.transport, named, "must be signed" if send.must_sign else "")
    yield from _origin_lines(send)
    yield ("requested", time_and_age(send.created_at, now), f"{send.size} bytes")
    if send.rearms:
        yield ("rearmed", f"{send.rearms} times")
    yield from _time_limit_lines(send, now)
    yield from _schedule_lines(send, now)
    yield from _outcome_lines(send, now)
    for each in tries:
        yield _try_line(each, now)
    for entry in audit:
        yield (
            "audit",
            entry.action,
            time_and_age(entry.at, now),
            entry.who,
            entry.why,
            entry.detail,
        )
    yield ("next action", next_step(send, now))


def _origin_lines(send: Send) -> Lines:
    if send.owner is not None:
        yield ("requested by", send.owner)
    if send.attempt_id is not None:
        yield ("attempt", send.attempt_id)
    if send.delivery_id is not None:
        yield ("delivery", send.delivery_id, send.effect)


def _time_limit_lines(send: Send, now: int) -> Lines:
    if send.send_at is not None:
        yield ("not before", time_and_age(send.send_at, now))
    if send.valid_until is not None:
        yield ("not after", time_and_age(send.valid_until, now))


def _schedule_lines(send: Send, now: int) -> Lines:
    if send.unknown_since is not None:
        yield (
            "unknown",
            f"since {time_and_age(send.unknown_since, now)}",
            f"on unknown: {send.on_unknown}",
        )
        if send.replay_until is not None:
            yield ("replay until", time_and_age(send.replay_until, now))
    if send.due_at is None:
        return
    if send.state in {SendState.CLAIMED, SendState.SENDING}:
        word = "expires" if send.due_at > now else "expired"
        yield ("lease", f"{word} {ago(send.due_at, now)}", send.worker, f"fence {send.fence}")
    else:
        yield ("due", time_and_age(send.due_at, now))


def _outcome_lines(send: Send, now: int) -> Lines:
    if send.code is not None:
        yield ("last outcome", describe_outcome(send.code, send.phase, send.reply))
    if send.provider_id:
        yield ("provider id", send.provider_id)
    if send.delivery is not None:
        yield ("delivery status", send.delivery)
    if send.ended_at is not None:
        yield ("ended", time_and_age(send.ended_at, now))
    if send.purged_at is not None:
        yield ("mail", "no longer kept", time_and_age(send.purged_at, now))


def _try_line(each: SendTry, now: int) -> tuple[object, ...]:
    marked = "may have been accepted" if each.marked_at is not None else "never transmitted"
    reply = f"reply {each.reply}" if each.reply else ""
    return (
        "try", each.fence, each.outcome, time_and_age(each.ended_at, now),
        each.transport, each.worker,
        each.phase, marked, each.code, reply,
    )  # fmt: skip


def time_and_age(then: int, now: int) -> str:
    """Return a time and its age."""
    return f"{iso_time(then)} ({ago(then, now)})"
