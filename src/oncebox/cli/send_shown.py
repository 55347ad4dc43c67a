"""How a send is told: as a line, as an outline, as JSON; whom it is for and what it says never."""

from collections.abc import Iterator, Sequence

from oncebox.cli.printout import Printout
from oncebox.cli.send_words import plainly
from oncebox.cli.words import ago, duration, moment
from oncebox.model.inspection import Audited
from oncebox.model.send import Send, SendState, SendTry
from oncebox.model.send_prospects import next_action
from oncebox.wire.sends import SendInspection, answer_of, tries_of

Lines = Iterator[tuple[object, ...]]

COLUMNS = ("send", "state", "transport", "event type", "entity", "tries", "age", "note")


def told(send: Send, now: int, out: Printout) -> tuple[object, ...]:
    """Return a send as the cells of a line."""
    age = max(0, now - send.created_at)
    created = duration(age) if out.on_terminal else moment(send.created_at)
    return (
        send.id, send.state, send.transport, send.event_type, send.entity_id, send.tries, created,
        send.code or "",
    )  # fmt: skip


def record(send: Send, tries: Sequence[SendTry], now: int) -> SendInspection:
    """Return all that is known of a send, for JSON: the same that the API tells operators."""
    return SendInspection(
        send=answer_of(send, now),
        key=send.key.hex(),
        owner=send.owner,
        attempt_id=send.attempt_id,
        delivery_id=send.delivery_id,
        effect=send.effect,
        on_unknown=send.on_unknown,
        again=send.again,
        send_at=send.send_at,
        valid_until=send.valid_until,
        due_at=send.due_at,
        fence=send.fence,
        rearms=send.rearms,
        worker=send.worker,
        claimed_at=send.claimed_at,
        marked_at=send.marked_at,
        in_doubt_at=send.in_doubt_at,
        replay_until=send.replay_until,
        phase=send.phase,
        retention=send.retention,
        purged_at=send.purged_at,
        size=send.size,
        tries=tries_of(tries),
        next_action=next_action(send, now),
    )


def lines(send: Send, tries: Sequence[SendTry], audit: Sequence[Audited], now: int) -> Lines:
    """Tell a send line by line, each beginning with what it is about."""
    yield ("send", send.id)
    yield ("state", send.state)
    yield ("about", send.event_type, send.entity_id)
    yield ("key", send.key.hex())
    yield ("message-id", send.message_id)
    yield ("transport", send.transport)
    yield from _origin(send)
    yield ("asked for", when(send.created_at, now), f"{send.size} bytes")
    if send.rearms:
        yield ("armed again", f"{send.rearms} times")
    yield from _times(send, now)
    yield from _standing(send, now)
    yield from _ended(send, now)
    for each in tries:
        yield _try(each, now)
    for deed in audit:
        yield ("audit", deed.action, when(deed.at, now), deed.who, deed.why, deed.detail)
    yield ("next action", next_action(send, now))


def _origin(send: Send) -> Lines:
    if send.owner is not None:
        yield ("asked by", send.owner)
    if send.attempt_id is not None:
        yield ("attempt", send.attempt_id)
    if send.delivery_id is not None:
        yield ("delivery", send.delivery_id, send.effect)


def _times(send: Send, now: int) -> Lines:
    if send.send_at is not None:
        yield ("not before", when(send.send_at, now))
    if send.valid_until is not None:
        yield ("not after", when(send.valid_until, now))


def _standing(send: Send, now: int) -> Lines:
    """Tell what a send waits for, and whether it is in doubt."""
    if send.in_doubt_at is not None:
        yield ("in doubt", f"since {when(send.in_doubt_at, now)}", f"on unknown: {send.on_unknown}")
        if send.replay_until is not None:
            yield ("replay until", when(send.replay_until, now))
    if send.due_at is None:
        return
    if send.state in {SendState.CLAIMED, SendState.SENDING}:
        word = "expires" if send.due_at > now else "expired"
        yield ("lease", f"{word} {ago(send.due_at, now)}", send.worker, f"fence {send.fence}")
    else:
        yield ("due", when(send.due_at, now))


def _ended(send: Send, now: int) -> Lines:
    if send.code is not None:
        yield ("last word", plainly(send.code, send.phase, send.reply))
    if send.provider_id:
        yield ("provider id", send.provider_id)
    if send.delivery is not None:
        yield ("delivery status", send.delivery)
    if send.ended_at is not None:
        yield ("ended", when(send.ended_at, now))
    if send.purged_at is not None:
        yield ("mail", "no longer kept", when(send.purged_at, now))


def _try(each: SendTry, now: int) -> tuple[object, ...]:
    marked = "may have been taken" if each.marked_at is not None else "never on the wire"
    reply = f"reply {each.reply}" if each.reply else ""
    return (
        "try", each.fence, each.outcome, when(each.ended_at, now), each.transport, each.worker,
        each.phase, marked, each.code, reply,
    )  # fmt: skip


def when(then: int, now: int) -> str:
    """Return a time, and how long ago that is."""
    return f"{moment(then)} ({ago(then, now)})"
