"""``/v1/sends``: mail sent once, its outcome, and operator actions on it."""

import asyncio
from math import ceil

import msgspec
from msgspec import UNSET

from oncebox.errors.http import FieldsInvalid, IdempotencyKeyMismatch, IdempotencyKeyMissing
from oncebox.ledger.notifications import EVENTS, SENDS
from oncebox.ledger.sends import lifecycle, sends
from oncebox.model.deliveries.delivery import Headers
from oncebox.model.sends import intent as intents
from oncebox.model.sends.email import check_recipient_count
from oncebox.model.sends.intent import Intent, SendOrigin
from oncebox.model.sends.send import AnswerStatus, IntentAccepted, Send
from oncebox.schemas import sends as wire
from oncebox.server.http.cursors import AFTER_ALL_IDS, make_page, page_start
from oncebox.server.http.routing import AGENT, OPERATOR, ApiCall, HandlerResponse, Route

_SENDS_PATH = "/v1/sends"
_SEND_PATH = "/v1/sends/{id}"
_SEND_SCOPES = frozenset({AGENT, OPERATOR})
REPLAYED_HEADER = ("idempotency-replayed", "true")


def send_origin(call: ApiCall) -> SendOrigin:
    """Return on whose behalf a send is requested."""
    return SendOrigin(tenant=call.tenant, key=call.key.id, is_agent=not call.key.may(OPERATOR))


def visible_owner(call: ApiCall) -> str | None:
    """Return the key whose sends are visible; None: all, for operators."""
    return None if call.key.may(OPERATOR) else call.key.id


async def create_send(call: ApiCall) -> HandlerResponse:
    """Store a mail to be sent once; wait for its outcome if requested."""
    request: wire.SendRequest = call.body
    origin, key = send_origin(call), _send_key(call, request)
    accepted = await call.components.outbox.send(origin, request.to_intent(key))
    later = await wait_for_outcome(call, accepted.send, call.query.wait)
    return _send_response(call, accepted, later)


async def create_sends(call: ApiCall) -> HandlerResponse:
    """Store several mails, each to be sent once, in one commit."""
    request: wire.BatchRequest = call.body
    most = call.components.settings.sends.batch
    if len(request.sends) > most:
        raise FieldsInvalid(f"send at most {most} at once (ONCEBOX_SENDS__BATCH)", pointer="/sends")
    wanted = [
        each.to_intent(_batch_send_key(call, n, each)) for n, each in enumerate(request.sends)
    ]
    accepted = await call.components.outbox.send_batch(
        send_origin(call), call.idempotency_key, wanted
    )
    created = any(each.created or each.rearmed for each in accepted.answers)
    answers = [_apply_strict(*each) for each in zip(accepted.answers, wanted, strict=True)]
    shown = wire.BatchAnswer(
        id=accepted.batch.id,
        created=created,
        data=[wire.to_answer(each, call.now) for each in answers],
        created_at=accepted.batch.created_at,
    )
    return HandlerResponse(shown, 201 if created else 200, () if created else (REPLAYED_HEADER,))


async def list_sends(call: ApiCall) -> wire.SendPage:
    """Return sends, newest first."""
    query: wire.SendQuery = call.query
    wanted = sends.SendFilter(
        tenant=call.tenant,
        state=None if query.state is UNSET else query.state,
        transport=None if query.transport is UNSET else query.transport,
        owner=visible_owner(call),
    )
    found = await call.components.ledger.read(
        sends.newest,
        wanted,
        before=page_start(call, _SENDS_PATH, AFTER_ALL_IDS),
        most=query.limit + 1,
    )
    return make_page(
        call,
        _SENDS_PATH,
        wire.SendPage,
        found,
        lambda each: send_schema(call, each),
        lambda each: each.id,
    )


async def get_send(call: ApiCall) -> wire.SendAnswer:
    """Return a send, after waiting for its outcome if requested."""
    return send_schema(call, await wait_for_outcome(call, await find_send(call), call.query.wait))


async def cancel_send(call: ApiCall) -> wire.SendAnswer:
    """Cancel a send, as long as nothing was handed over."""
    entry = call.audit_entry(call.body.why)
    cancelled = await call.components.ledger.write(
        lifecycle.cancel, call.path["id"], entry, owner=visible_owner(call)
    )
    return notify_changed(call, cancelled)


async def find_send(call: ApiCall) -> Send:
    """Return the send named in the path.

    Raises: NotFound.
    """
    return await call.components.ledger.read(
        sends.get, call.tenant, call.path["id"], owner=visible_owner(call)
    )


def send_schema(call: ApiCall, send: Send) -> wire.SendAnswer:
    """Return a send as the API shows it."""
    return wire.to_answer(send, call.now)


def notify_changed(call: ApiCall, send: Send) -> wire.SendAnswer:
    """Wake workers and waiting callers; return the changed send."""
    call.components.ledger.notify(SENDS)
    call.components.ledger.notify(EVENTS)
    return send_schema(call, send)


async def wait_for_outcome(call: ApiCall, send: Send, within: float) -> Send:
    """Wait for the outcome of a send, until the client disconnects or the service stops."""
    if not within:
        return send
    waiting = asyncio.ensure_future(call.components.outbox.outcomes.wait(send, within))
    ending = [asyncio.ensure_future(each) for each in (call.client_gone(), call.stopping.wait())]
    try:
        await asyncio.wait((waiting, *ending), return_when=asyncio.FIRST_COMPLETED)
        return await waiting if waiting.done() else send
    finally:
        for each in (waiting, *ending):
            each.cancel()


def _send_response(call: ApiCall, accepted: IntentAccepted, later: Send) -> HandlerResponse:
    """Return the answer: 201 for a new send, 200 for a repeat, 202 while it is in flight."""
    answer = wire.to_answer(accepted, call.now, later=later)
    is_new = accepted.created or accepted.rearmed
    headers: Headers = () if is_new else (REPLAYED_HEADER,)
    if answer.retry_after is not None:
        headers = (*headers, ("retry-after", str(ceil(answer.retry_after))))
    if answer.status is AnswerStatus.IN_FLIGHT:
        return HandlerResponse(answer, 202, headers)
    return HandlerResponse(answer, 201 if is_new else 200, headers)


def _apply_strict(accepted: IntentAccepted, intent: Intent) -> IntentAccepted:
    """Report a strict repeat with other content as a conflict."""
    if accepted.drift and intent.strict:
        return msgspec.structs.replace(accepted, status=AnswerStatus.CONFLICT)
    return accepted


def _send_key(call: ApiCall, request: wire.SendRequest) -> str | None:
    """Return the caller's key; None: it is made from event type and entity.

    Raises: IdempotencyKeyMissing, IdempotencyKeyMismatch, EmailInvalid, KeyInvalid.
    """
    is_named = bool(request.event_type and request.entity_id)
    if call.idempotency_key is None and not is_named:
        raise IdempotencyKeyMissing("say event_type and entity_id, or send an Idempotency-Key")
    if call.idempotency_key is not None and is_named:
        email = request.email()
        check_recipient_count(email, call.components.settings.sends.recipients)
        named = intents.key_audience(email)
        published = intents.intent_key(
            request.event_type, request.entity_id, named, request.version
        )
        if call.idempotency_key != published:
            raise IdempotencyKeyMismatch(
                "event_type and entity_id make another key than the Idempotency-Key; "
                "leave out one or the other"
            )
    return call.idempotency_key


def _batch_send_key(call: ApiCall, number: int, request: wire.SendRequest) -> str | None:
    """Return the key of a send identified by its position in a batch; None: it has its own.

    Raises: IdempotencyKeyMissing.
    """
    if request.event_type and request.entity_id:
        return None
    if call.idempotency_key is None:
        raise IdempotencyKeyMissing(
            "every send needs event_type and entity_id, or the batch an Idempotency-Key"
        )
    return batch_item_key(call.idempotency_key, number)


def batch_item_key(key: str, number: int) -> str:
    """Return the key of a position in a batch, with a character no header can have."""
    return f"{key} \N{NUMERO SIGN}{number}"


SEND_ROUTES = (
    Route(
        method="GET",
        path=_SENDS_PATH,
        name="listSends",
        summary="Show sends, newest first; an agent sees those that its key asked for.",
        scopes=_SEND_SCOPES,
        query=wire.SendQuery,
        answer=wire.SendPage,
        handler=list_sends,
    ),
    Route(
        method="POST",
        path=_SENDS_PATH,
        name="sendMail",
        summary="Send a mail once, however often it is asked for.",
        scopes=_SEND_SCOPES,
        query=wire.SendWait,
        body=wire.SendRequest,
        answer=wire.SendAnswer,
        status=201,
        statuses=(200, 202),
        keyed=True,
        handler=create_send,
    ),
    Route(
        method="POST",
        path=f"{_SENDS_PATH}/batch",
        name="sendMails",
        summary="Send several mails, each once; ask again with all of them.",
        scopes=_SEND_SCOPES,
        body=wire.BatchRequest,
        answer=wire.BatchAnswer,
        status=201,
        statuses=(200,),
        keyed=True,
        handler=create_sends,
    ),
    Route(
        method="GET",
        path=_SEND_PATH,
        name="getSend",
        summary="Show how a send stands, or wait up to 55 seconds for its end.",
        scopes=_SEND_SCOPES,
        query=wire.SendWait,
        answer=wire.SendAnswer,
        handler=get_send,
    ),
    Route(
        method="POST",
        path=f"{_SEND_PATH}/cancel",
        name="cancelSend",
        summary="Call a send off, as long as nothing of it was on the wire.",
        scopes=_SEND_SCOPES,
        body=wire.CancelSend,
        answer=wire.SendAnswer,
        handler=cancel_send,
    ),
)


_SEND_OPERATIONS_PATH = "/v1/sends/{id}"
_OPERATOR_SCOPES = frozenset({OPERATOR})


async def inspect_send(call: ApiCall) -> wire.SendInspection:
    """Return everything known of a send but its content."""
    send = await find_send(call)
    tries = await call.components.ledger.read(sends.tries, call.tenant, send.id)
    return wire.to_inspection(send, tries, call.now)


async def resolve_send(call: ApiCall) -> wire.SendAnswer:
    """Record an operator's decision on a send of unknown outcome."""
    asked: wire.ResolveSend = call.body
    resolved = await call.components.ledger.write(
        lifecycle.resolve,
        call.path["id"],
        call.audit_entry(asked.why),
        sent=asked.sent,
        provider_id=asked.provider_id,
    )
    return notify_changed(call, resolved)


async def retry_send(call: ApiCall) -> wire.SendAnswer:
    """Retry a send, or repeat one of unknown outcome once."""
    again = await call.components.ledger.write(
        lifecycle.resend, call.path["id"], call.audit_entry(call.body.why)
    )
    return notify_changed(call, again)


SEND_OPERATION_ROUTES = (
    Route(
        method="GET",
        path=f"{_SEND_OPERATIONS_PATH}/inspect",
        name="inspectSend",
        summary="Show everything known of a send, its tries, and what happens next.",
        scopes=_OPERATOR_SCOPES,
        answer=wire.SendInspection,
        handler=inspect_send,
    ),
    Route(
        method="POST",
        path=f"{_SEND_OPERATIONS_PATH}/resolve",
        name="resolveSend",
        summary="Say of a send in doubt whether it was sent.",
        scopes=_OPERATOR_SCOPES,
        body=wire.ResolveSend,
        answer=wire.SendAnswer,
        handler=resolve_send,
    ),
    Route(
        method="POST",
        path=f"{_SEND_OPERATIONS_PATH}/resend",
        name="resendSend",
        summary="Let a send that was not sent be tried again, or repeat one in doubt once.",
        scopes=_OPERATOR_SCOPES,
        body=wire.ResendSend,
        answer=wire.SendAnswer,
        handler=retry_send,
    ),
)
