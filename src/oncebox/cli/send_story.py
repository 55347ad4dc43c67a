"""Why a send stands where it stands, and what may happen next, in plain sentences."""

from collections.abc import Iterator, Sequence

from oncebox.cli.send_words import plainly
from oncebox.cli.words import ago
from oncebox.model.send import OnUnknown, Send, SendState, SendTry
from oncebox.model.send_prospects import next_action
from oncebox.model.transport import Transport

_TAKEN = {"accepted", "logged"}


def story(
    send: Send, tries: Sequence[SendTry], transport: Transport | None, now: int
) -> Iterator[str]:
    """Tell of a send, sentence by sentence."""
    yield _asked(send, now)
    yield from _tried(tries, now)
    yield _stands(send, now)
    if send.state is SendState.UNKNOWN:
        yield from _doubt(send, now)
    elif send.state is SendState.PENDING:
        yield from _waits(send, transport, now)
    yield f"Next: {next_action(send, now)}."


def _asked(send: Send, now: int) -> str:
    about = f" about {send.event_type} of {send.entity_id}" if send.event_type else ""
    by = f" by {send.owner}" if send.owner else ""
    if send.delivery_id:
        by += f" while delivery {send.delivery_id} was handled"
    again = f", and armed again {send.rearms} times since" if send.rearms else ""
    return f"The mail{about} was asked for {ago(send.created_at, now)}{by}{again}."


def _tried(tries: Sequence[SendTry], now: int) -> Iterator[str]:
    if not tries:
        yield "No try at it has ended yet."
        return
    last = tries[-1]
    count = f"{len(tries)} tries" if len(tries) > 1 else "One try"
    if last.outcome in _TAKEN:
        yield f"{count} ended; the last by {last.transport}, {ago(last.ended_at, now)}."
        return
    how = plainly(last.code, last.phase, last.reply)
    ended = f"the last by {last.transport}, {ago(last.ended_at, now)}"
    yield f"{count} ended; {ended}: {last.outcome.replace('_', ' ')}, because {how}."


def _stands(send: Send, now: int) -> str:
    ended = f" {ago(send.ended_at, now)}" if send.ended_at is not None else ""
    name = f" as {send.provider_id}" if send.provider_id else ""
    return {
        SendState.PENDING: "It is stored, and nothing of it was taken by anybody.",
        SendState.CLAIMED: f"The worker {send.worker} has it; nothing of this try is on the wire.",
        SendState.SENDING: f"The worker {send.worker} hands it over: it may be taken now.",
        SendState.SENT: f"It was sent{ended}: {send.transport} took it{name}.",
        SendState.FAILED: f"It was given up{ended}, and it is proven that it was not sent.",
        SendState.UNKNOWN: "Nobody can know from here whether it was sent.",
        SendState.SUPPRESSED: f"It was not sent{ended}: a recipient is on the suppression list.",
        SendState.CANCELLED: f"It was called off{ended}, before anything was on the wire.",
        SendState.EXPIRED: f"Its time was over{ended}, before anything was on the wire.",
        SendState.LOGGED: f"It was stored{ended} by log, which sends nothing.",
    }[send.state]


def _doubt(send: Send, now: int) -> Iterator[str]:
    since = f"since {ago(send.in_doubt_at, now)}" if send.in_doubt_at is not None else ""
    yield (
        f"It is in doubt {since}: it was handed over, and no answer that can be trusted came. "
        "It is not sent again by itself, because the first one may have arrived."
        if send.again is None
        else f"It is in doubt {since}, and is repeated as was chosen."
    )
    if send.on_unknown is OnUnknown.REPLAY and send.again is None:
        yield "The time in which the provider remembers the key is over, so it is held."
    yield "A report of the provider, or a person, ends the doubt for good."


def _waits(send: Send, transport: Transport | None, now: int) -> Iterator[str]:
    """Say what keeps a send that is stored from being sent."""
    if transport is None:
        yield f"Its transport {send.transport} is not there."
    elif transport.paused:
        yield f"Its transport {transport.name} is paused: oncebox transport resume."
    elif transport.state(now) == "resting" and transport.rests_until is not None:
        yield (
            f"Its transport {transport.name} rests after {transport.failures} failures and is "
            f"tried again {ago(transport.rests_until, now)}."
        )
    elif send.due_at is not None and send.due_at > now:
        yield f"It is due {ago(send.due_at, now)}."
    else:
        yield f"It is due since {ago(send.due_at or send.created_at, now)}; a worker must run."
