"""``/v1/sends``: mail to be sent once, and what became of it."""

import asyncio
from math import ceil

import msgspec
from msgspec import UNSET

from oncebox.edge.http.answered import Answered
from oncebox.edge.http.call import Call
from oncebox.edge.http.pages import END, page, place
from oncebox.edge.http.route import AGENT, OPERATOR, Route
from oncebox.ledger.events.outbox import EVENTS
from oncebox.ledger.sends import interventions, sends
from oncebox.ledger.sends.sends import SENDS
from oncebox.model import intent as intents
from oncebox.model.delivery import Headers
from oncebox.model.email import check_count
from oncebox.model.intent import Intent, Origin
from oncebox.model.send import Answer, Intended, Send
from oncebox.refusals import FieldsInvalid, IdempotencyKeyDiffers, IdempotencyKeyMissing
from oncebox.wire import sends as wire

_LIST = "/v1/sends"
_ONE = "/v1/sends/{id}"
_SCOPES = frozenset({AGENT, OPERATOR})
_SECOND = 1_000
REPLAYED = ("idempotency-replayed", "true")


def origin(call: Call) -> Origin:
    """Return who asks for mail."""
    return Origin(tenant=call.tenant, key=call.key.id, is_agent=not call.key.may(OPERATOR))


def owner(call: Call) -> str | None:
    """Return whose sends may be seen; None: everybody's, for operators."""
    return None if call.key.may(OPERATOR) else call.key.id


async def send(call: Call) -> Answered:
    """Take a mail to be sent, once; wait for what becomes of it if that is wanted."""
    wish: wire.SendWish = call.body
    told = await call.rooms.outbox.send(origin(call), _intent(wish, _key(call, wish)))
    later = await outcome(call, told.send, call.query.wait)
    return _answered(call, told, later)


async def send_many(call: Call) -> Answered:
    """Take several mails, each to be sent once, all in one commit."""
    wish: wire.BatchWish = call.body
    most = call.rooms.settings.sends.batch
    if len(wish.sends) > most:
        message = f"send at most {most} at once (ONCEBOX_SENDS__BATCH)"
        raise FieldsInvalid(message, pointer="/sends")
    wanted = [_intent(each, _key_in_batch(call, n, each)) for n, each in enumerate(wish.sends)]
    told = await call.rooms.outbox.send_batch(origin(call), call.request_key, wanted)
    created = any(each.created or each.rearmed for each in told.answers)
    answers = [_judged(*each) for each in zip(told.answers, wanted, strict=True)]
    shown = wire.BatchAnswer(
        id=told.batch.id,
        created=created,
        data=[wire.answer_of(each, call.now) for each in answers],
        created_at=told.batch.created_at,
    )
    return Answered(shown, 201 if created else 200, () if created else (REPLAYED,))


async def list_(call: Call) -> wire.SendPage:
    """Return sends, newest first."""
    query: wire.SendQuery = call.query
    wanted = sends.Wanted(
        tenant=call.tenant,
        state=None if query.state is UNSET else query.state,
        transport=None if query.transport is UNSET else query.transport,
        owner=owner(call),
    )
    found = await call.rooms.counter.read(
        sends.newest, wanted, before=place(call, _LIST, END), most=query.limit + 1
    )
    return page(
        call, _LIST, wire.SendPage, found, lambda each: shown(call, each), lambda each: each.id
    )


async def get(call: Call) -> wire.SendAnswer:
    """Return how a send stands, or how it ended if that is waited for."""
    return shown(call, await outcome(call, await found(call), call.query.wait))


async def cancel(call: Call) -> wire.SendAnswer:
    """Call a send off, as long as nothing of it was on the wire."""
    deed = call.deed(call.body.why)
    cancelled = await call.rooms.counter.write(
        interventions.cancel, call.path["id"], deed, owner=owner(call)
    )
    return changed(call, cancelled)


async def found(call: Call) -> Send:
    """Return the send that a path names.

    Raises: NotFound.
    """
    return await call.rooms.counter.read(sends.get, call.tenant, call.path["id"], owner=owner(call))


def shown(call: Call, send: Send) -> wire.SendAnswer:
    """Return a send as everybody sees it."""
    return wire.answer_of(send, call.now)


def changed(call: Call, send: Send) -> wire.SendAnswer:
    """Let those know who wait for a send, or for work."""
    call.rooms.counter.ring(SENDS)
    call.rooms.counter.ring(EVENTS)
    return shown(call, send)


async def outcome(call: Call, send: Send, within: float) -> Send:
    """Wait for how a send ends; the client's going and the service's end the wait."""
    if not within:
        return send
    waiting = asyncio.ensure_future(call.rooms.outbox.outcome(send, within))
    ending = [asyncio.ensure_future(each) for each in (call.left(), call.stopping.wait())]
    try:
        await asyncio.wait((waiting, *ending), return_when=asyncio.FIRST_COMPLETED)
        return await waiting if waiting.done() else send
    finally:
        for each in (waiting, *ending):
            each.cancel()


def _answered(call: Call, told: Intended, later: Send) -> Answered:
    """Say by the status whether there is something new, and whether it is over."""
    answer = wire.answer_of(told, call.now, later=later)
    is_new = told.created or told.rearmed
    headers: Headers = () if is_new else (REPLAYED,)
    if answer.retry_after is not None:
        headers = (*headers, ("retry-after", str(ceil(answer.retry_after))))
    if answer.status is Answer.IN_FLIGHT:
        return Answered(answer, 202, headers)
    return Answered(answer, 201 if is_new else 200, headers)


def _judged(told: Intended, intent: Intent) -> Intended:
    """Tell of a send in a batch that is strict, and was asked for with other words, as refused."""
    if told.drift and intent.strict:
        return msgspec.structs.replace(told, answer=Answer.CONFLICT)
    return told


def _key(call: Call, wish: wire.SendWish) -> str | None:
    """Return the key that the caller chose; None: the one of event type and entity.

    Raises: IdempotencyKeyMissing, IdempotencyKeyDiffers, EmailInvalid, KeyInvalid.
    """
    is_named = bool(wish.event_type and wish.entity_id)
    if call.request_key is None and not is_named:
        message = "say event_type and entity_id, or send an Idempotency-Key"
        raise IdempotencyKeyMissing(message)
    if call.request_key is not None and is_named:
        email = wish.email()
        check_count(email, call.rooms.settings.sends.recipients)
        named = intents.addressed(email)
        published = intents.key(wish.event_type, wish.entity_id, named, wish.version)
        if call.request_key != published:
            message = (
                "event_type and entity_id make another key than the Idempotency-Key; "
                "leave out one or the other"
            )
            raise IdempotencyKeyDiffers(message)
    return call.request_key


def _key_in_batch(call: Call, number: int, wish: wire.SendWish) -> str | None:
    """Return the key of a send that has only its place in a batch; None: it has its own.

    Raises: IdempotencyKeyMissing.
    """
    if wish.event_type and wish.entity_id:
        return None
    if call.request_key is None:
        message = "every send needs event_type and entity_id, or the batch an Idempotency-Key"
        raise IdempotencyKeyMissing(message)
    return place_key(call.request_key, number)


def place_key(key: str, number: int) -> str:
    """Return the key of a place in a batch, with a sign that no header can have."""
    return f"{key} \N{NUMERO SIGN}{number}"


def _intent(wish: wire.SendWish, key: str | None) -> Intent:
    return Intent(
        email=wish.email(),
        event_type=wish.event_type,
        entity_id=wish.entity_id,
        version=wish.version,
        key=key,
        strict=wish.strict,
        transport=wish.transport,
        on_unknown=wish.on_unknown,
        send_at=wish.send_at,
        valid_until=wish.valid_until,
        retention=wish.retention,
        interval=round(wish.interval * _SECOND),
        attempt_id=wish.attempt_id,
        answers=wish.answers,
    )


ROUTES = (
    Route(
        method="GET",
        path=_LIST,
        name="listSends",
        summary="Show sends, newest first; an agent sees those that its key asked for.",
        scopes=_SCOPES,
        query=wire.SendQuery,
        answer=wire.SendPage,
        handler=list_,
    ),
    Route(
        method="POST",
        path=_LIST,
        name="sendMail",
        summary="Send a mail once, however often it is asked for.",
        scopes=_SCOPES,
        query=wire.SendWait,
        body=wire.SendWish,
        answer=wire.SendAnswer,
        status=201,
        statuses=(200, 202),
        keyed=True,
        handler=send,
    ),
    Route(
        method="POST",
        path=f"{_LIST}/batch",
        name="sendMails",
        summary="Send several mails, each once; ask again with all of them.",
        scopes=_SCOPES,
        body=wire.BatchWish,
        answer=wire.BatchAnswer,
        status=201,
        statuses=(200,),
        keyed=True,
        handler=send_many,
    ),
    Route(
        method="GET",
        path=_ONE,
        name="getSend",
        summary="Show how a send stands, or wait up to 55 seconds for its end.",
        scopes=_SCOPES,
        query=wire.SendWait,
        answer=wire.SendAnswer,
        handler=get,
    ),
    Route(
        method="POST",
        path=f"{_ONE}/cancel",
        name="cancelSend",
        summary="Call a send off, as long as nothing of it was on the wire.",
        scopes=_SCOPES,
        body=wire.CancelSend,
        answer=wire.SendAnswer,
        handler=cancel,
    ),
)
