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
from oncebox.server.http.cursors import make_page, page_start
from oncebox.server.http.routing import (
    AGENTS,
    OPERATORS,
    ApiCall,
    HandlerResponse,
    Routes,
)

routes = Routes()
REPLAYED_HEADER = ("idempotency-replayed", "true")


def send_origin(call: ApiCall) -> SendOrigin:
    """Return on whose behalf a send is requested."""
    return SendOrigin(tenant=call.tenant, key=call.key.id, is_agent=not call.requester.sees_all)


def visible_owner(call: ApiCall) -> str | None:
    """Return the key whose sends are visible; None: all, for operators."""
    return call.requester.owner


@routes("GET", "/v1/sends", "listSends", scopes=AGENTS, query=wire.SendQuery)
async def list_sends(call: ApiCall) -> wire.SendPage:
    """List sends, newest first; an agent sees those its key requested."""
    query: wire.SendQuery = call.query
    wanted = sends.SendFilter(
        tenant=call.tenant,
        state=None if query.state is UNSET else query.state,
        transport=None if query.transport is UNSET else query.transport,
        owner=visible_owner(call),
    )
    found = await call.ledger.read(
        sends.newest, wanted, before=page_start(call), most=query.limit + 1
    )
    now = call.ledger.clock()
    return make_page(call, wire.SendPage, found, lambda send: wire.to_answer(send, now))


@routes(
    "POST",
    "/v1/sends",
    "sendMail",
    scopes=AGENTS,
    query=wire.SendWait,
    body=wire.SendRequest,
    answer=wire.SendAnswer,
    statuses=(201, 200, 202),
    keyed=True,
)
async def create_send(call: ApiCall) -> HandlerResponse:
    """Send a mail once, however often it is requested."""
    request: wire.SendRequest = call.body
    origin, key = send_origin(call), _send_key(call, request)
    accepted = await call.components.outbox.send(origin, request.to_intent(key))
    later = await wait_for_outcome(call, accepted.send, call.query.wait)
    return _send_response(call, accepted, later)


@routes(
    "POST",
    "/v1/sends/batch",
    "sendMails",
    scopes=AGENTS,
    body=wire.BatchRequest,
    answer=wire.BatchAnswer,
    statuses=(201, 200),
    keyed=True,
)
async def create_sends(call: ApiCall) -> HandlerResponse:
    """Send several mails, each once; retry with the whole batch."""
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
        data=[wire.to_answer(each, call.ledger.clock()) for each in answers],
        created_at=accepted.batch.created_at,
    )
    return HandlerResponse(shown, 201 if created else 200, () if created else (REPLAYED_HEADER,))


@routes("GET", "/v1/sends/{id}", "getSend", scopes=AGENTS, query=wire.SendWait)
async def get_send(call: ApiCall) -> wire.SendAnswer:
    """Get a send; wait up to 55 seconds for its outcome if requested."""
    send = await wait_for_outcome(call, await find_send(call), call.query.wait)
    return wire.to_answer(send, call.ledger.clock())


@routes("POST", "/v1/sends/{id}/cancel", "cancelSend", scopes=AGENTS, body=wire.CancelSend)
async def cancel_send(call: ApiCall) -> wire.SendAnswer:
    """Cancel a send that has not been handed to its transport."""
    entry = call.audit_entry(call.body.why)
    cancelled = await call.ledger.write(
        lifecycle.cancel, call.path["id"], entry, owner=visible_owner(call)
    )
    return _changed(call, cancelled)


@routes("GET", "/v1/sends/{id}/inspect", "inspectSend", scopes=OPERATORS)
async def inspect_send(call: ApiCall) -> wire.SendInspection:
    """Show everything known about a send but its content, and what happens next."""
    send = await find_send(call)
    tries = await call.ledger.read(sends.tries, call.tenant, send.id)
    return wire.to_inspection(send, tries, call.ledger.clock())


@routes("POST", "/v1/sends/{id}/resolve", "resolveSend", scopes=OPERATORS, body=wire.ResolveSend)
async def resolve_send(call: ApiCall) -> wire.SendAnswer:
    """Record whether a send of unknown outcome was sent."""
    asked: wire.ResolveSend = call.body
    resolved = await call.ledger.write(
        lifecycle.resolve,
        call.path["id"],
        call.audit_entry(asked.why),
        sent=asked.sent,
        provider_id=asked.provider_id,
    )
    return _changed(call, resolved)


@routes("POST", "/v1/sends/{id}/resend", "resendSend", scopes=OPERATORS, body=wire.ResendSend)
async def retry_send(call: ApiCall) -> wire.SendAnswer:
    """Retry a send that was not sent, or repeat one of unknown outcome once."""
    again = await call.ledger.write(
        lifecycle.resend, call.path["id"], call.audit_entry(call.body.why)
    )
    return _changed(call, again)


async def find_send(call: ApiCall) -> Send:
    """Return the send named in the path.

    Raises: NotFound.
    """
    return await call.ledger.read(
        sends.get, call.tenant, call.path["id"], owner=visible_owner(call)
    )


def _changed(call: ApiCall, send: Send) -> wire.SendAnswer:
    """Wake workers and waiting callers; return the changed send."""
    call.ledger.notify(SENDS, EVENTS)
    return wire.to_answer(send, call.ledger.clock())


async def wait_for_outcome(call: ApiCall, send: Send, within: float) -> Send:
    """Wait for the outcome of a send, until the client disconnects or the service stops."""
    if not within:
        return send
    ending = [asyncio.ensure_future(each) for each in (call.client_gone(), call.stopping.wait())]
    waiting = asyncio.ensure_future(call.components.outbox.outcomes.wait(send, within))
    try:
        await asyncio.wait((waiting, *ending), return_when=asyncio.FIRST_COMPLETED)
        return await waiting if waiting.done() else send
    finally:
        for each in (waiting, *ending):
            each.cancel()


def _send_response(call: ApiCall, accepted: IntentAccepted, later: Send) -> HandlerResponse:
    """Return the answer: 201 for a new send, 200 for a repeat, 202 while it is in flight."""
    answer = wire.to_answer(accepted, call.ledger.clock(), later=later)
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
