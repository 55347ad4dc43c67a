"""``/emails``: the door for programs that speak to Resend; in its shape, and as strict.

A key with another payload is refused, not told as drift; without a key every call is a new mail.
"""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
from starlette.routing import Route as StarletteRoute

from oncebox import ids
from oncebox.edge.http import emails_read, requests
from oncebox.edge.http.answered import Answered
from oncebox.edge.http.auth import Auth
from oncebox.edge.http.call import Call, Rooms
from oncebox.edge.http.door import Door, ParameterInvalid
from oncebox.edge.http.route import AGENT, OPERATOR, Route
from oncebox.edge.http.sends import REPLAYED, found, origin, place_key
from oncebox.errors import InputRefused, OnceboxError
from oncebox.ledger.sends import sends
from oncebox.model.email import Email
from oncebox.model.evidence import Told
from oncebox.model.intent import Intent
from oncebox.model.send import Answer, ClaimedSend, Intended, Send, SendState
from oncebox.refusals import FieldsInvalid
from oncebox.send_errors import SendDiffers
from oncebox.wire import emails as wire

_LIST = "/emails"
_SCOPES = frozenset({AGENT, OPERATOR})
#: emails of one batch, as at Resend
_MOST = 100
_BATCH = msgspec.json.Decoder(list[msgspec.Raw])
_WISH = msgspec.json.Decoder(wire.EmailWish)
_VALIDATION = b"x-batch-validation"
_EVENTS = {
    SendState.SENT: "sent",
    SendState.FAILED: "failed",
    SendState.EXPIRED: "failed",
    SendState.CANCELLED: "canceled",
    SendState.SUPPRESSED: "suppressed",
    #: Resend has no words for these, and none of its own would be true
    SendState.UNKNOWN: "unknown",
    SendState.LOGGED: "logged",
}


#: words that Resend has others for
_DELIVERIES = {Told.DELAYED: "delivery_delayed", Told.SOFT_BOUNCED: "delivery_delayed"}


class _Listed(NamedTuple):
    """An email of a batch, and its place in it."""

    place: int
    intent: Intent


async def send(call: Call) -> Answered:
    """Take an email."""
    intent = _intent(call.body, call.request_key or ids.new("key"))
    told = await call.rooms.outbox.send(origin(call), intent)
    _check_same(told, intent)
    is_new = told.created or told.rearmed
    return Answered(wire.EmailId(id=told.send.id), 200, () if is_new else (REPLAYED,))


async def send_many(call: Call) -> Answered:
    """Take several emails: all, or where that is wished those that can be sent."""
    mode = call.headers.get(_VALIDATION, b"strict").lower()
    if mode not in {b"strict", b"permissive"}:
        raise ParameterInvalid("x-batch-validation is strict or permissive")
    asked: list[msgspec.Raw] = requests.decode_body(_BATCH, bytes(call.body))
    most = min(_MOST, call.rooms.settings.sends.batch)
    if not 1 <= len(asked) <= most:
        raise FieldsInvalid(f"a batch has between 1 and {most} emails")
    key = call.request_key or ids.new("key")
    if mode == b"strict":
        wanted = [_listed(n, each, key) for n, each in enumerate(asked)]
        return await _taken(call, key, wanted, msgspec.UNSET)
    wanted, errors = await _sorted(call, key, asked)
    return await _taken(call, key, wanted, errors)


async def get(call: Call) -> wire.Email:
    """Return an email as it was asked for, to who asked for it and to operators."""
    send = await found(call)
    bodies = await call.rooms.counter.read(sends.bodies, [send])
    email = Email()
    if send.id in bodies:
        email = call.rooms.outbox.letter(ClaimedSend(send, *bodies[send.id]))[1].email
    return wire.Email(
        id=send.id,
        message_id=send.message_id,
        sender=email.sender,
        to=list(email.to),
        cc=list(email.cc),
        bcc=list(email.bcc),
        reply_to=list(email.reply_to),
        subject=email.subject,
        html=email.html or None,
        text=email.text or None,
        tags=[wire.EmailTag(name=name, value=value) for name, value in email.tags.items()],
        created_at=_written(send.created_at),
        scheduled_at=None if send.send_at is None else _written(send.send_at),
        last_event=_last_event(send, call.now),
    )


async def _taken(
    call: Call,
    key: str,
    wanted: Sequence[_Listed],
    errors: list[wire.EmailError] | msgspec.UnsetType,
) -> Answered:
    if not wanted:
        return Answered(wire.EmailIds(data=[], errors=errors), 200)
    intents = [each.intent for each in wanted]
    told = await call.rooms.outbox.send_batch(origin(call), key, intents, strict=True)
    is_new = any(each.created or each.rearmed for each in told.answers)
    shown = [wire.EmailId(id=each.send.id) for each in told.answers]
    return Answered(wire.EmailIds(data=shown, errors=errors), 200, () if is_new else (REPLAYED,))


async def _sorted(
    call: Call, key: str, asked: Sequence[msgspec.Raw]
) -> tuple[list[_Listed], list[wire.EmailError]]:
    """Part emails that can be sent from those that cannot."""
    good: list[_Listed] = []
    errors: list[wire.EmailError] = []
    for place, each in enumerate(asked):
        try:
            listed = _listed(place, each, key)
            await asyncio.to_thread(call.rooms.outbox.frozen, origin(call), listed.intent)
        except (InputRefused, FieldsInvalid) as error:
            errors.append(wire.EmailError(index=place, message=str(error)))
        else:
            good.append(listed)
    return good, errors


def _listed(place: int, raw: msgspec.Raw, key: str) -> _Listed:
    """Read an email of a batch, and say which one it is if it cannot be read."""
    try:
        wish = requests.decode_body(_WISH, bytes(raw))
        return _Listed(place, _intent(wish, place_key(key, place)))
    except OnceboxError as error:
        error.args = (f"email {place + 1} of the batch: {error}", *error.args[1:])
        raise


def _intent(wish: wire.EmailWish, key: str) -> Intent:
    return Intent(
        email=emails_read.email(wish),
        key=key,
        strict=True,
        send_at=emails_read.moment(wish.scheduled_at),
    )


def _check_same(told: Intended, intent: Intent) -> None:
    """Refuse a repeat that says anything else, as Resend does.

    Raises: SendDiffers.
    """
    is_new = told.created or told.rearmed
    is_other = told.drift or told.answer is Answer.CONFLICT or told.send.send_at != intent.send_at
    if is_other and not is_new:
        message = (
            "this idempotency key has been used with another payload; change the key or the payload"
        )
        raise SendDiffers(message)


def _last_event(send: Send, now: int) -> str:
    if send.delivery is not None and send.delivery is not Told.ACCEPTED:
        return _DELIVERIES.get(send.delivery, str(send.delivery))
    if send.state in _EVENTS:
        return _EVENTS[send.state]
    return "scheduled" if send.send_at is not None and send.send_at > now else "queued"


def _written(moment: int) -> str:
    return datetime.fromtimestamp(moment / 1000, UTC).isoformat(timespec="milliseconds")


#: Resend describes them; they are no part of the description of our own API
ROUTES = (
    Route(
        method="POST",
        path=_LIST,
        name="sendEmail",
        summary="Send an email, as at Resend.",
        scopes=_SCOPES,
        body=wire.EmailWish,
        keyed=True,
        handler=send,
    ),
    Route(
        method="POST",
        path=f"{_LIST}/batch",
        name="sendEmails",
        summary="Send up to 100 emails, as at Resend.",
        scopes=_SCOPES,
        body=msgspec.Raw,
        keyed=True,
        handler=send_many,
    ),
    Route(
        method="GET",
        path=f"{_LIST}/{{id}}",
        name="getEmail",
        summary="Show an email, as at Resend.",
        scopes=_SCOPES,
        handler=get,
    ),
)


def endpoints(rooms: Rooms, auth: Auth, stopping: asyncio.Event) -> list[StarletteRoute]:
    """Return the door, path by path."""
    return [
        StarletteRoute(each.path, Door([each], rooms, auth, stopping))
        for each in sorted(ROUTES, key=lambda each: each.path.count("{"))
    ]
