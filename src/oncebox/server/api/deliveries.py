"""``/v1/deliveries`` and ``/v1/quarantine``: submission, inspection, replay, hold; rejects."""

import asyncio
from typing import Any

import msgspec
from msgspec import UNSET

from oncebox.core.disk_space import DiskLevel
from oncebox.errors import DiskFull, OnceboxError, SourceUnknown, StoreUnavailable
from oncebox.errors.http import FieldsInvalid, Forbidden, SourcePaused
from oncebox.ledger.deliveries import inspections, operations, quarantine
from oncebox.ledger.notifications import DUE
from oncebox.model.deliveries.delivery import Accepted, ArrivalKind, Headers
from oncebox.model.deliveries.effects import Effect, EffectState, decode_result, encode_result
from oncebox.model.deliveries.inspection import DeliveryInspection, DeliveryRecord
from oncebox.model.webhooks.source import Source
from oncebox.schemas import deliveries as wire
from oncebox.schemas.fields import ReasonBody
from oncebox.server.http import problems
from oncebox.server.http.cursors import make_page, page_start
from oncebox.server.http.routing import (
    OPERATORS,
    SUBMITTERS,
    ApiCall,
    HandlerResponse,
    Routes,
)
from oncebox.webhooks import registry
from oncebox.webhooks.event_parsing import lane_position
from oncebox.webhooks.verification import remove_secrets, secret_header_names, source_options

routes = Routes()


@routes("GET", "/v1/deliveries", "listDeliveries", scopes=OPERATORS, query=wire.DeliveryQuery)
async def list_deliveries(call: ApiCall) -> wire.DeliveryPage:
    """List deliveries, newest first."""
    query: wire.DeliveryQuery = call.query
    found = await call.ledger.read(
        inspections.newest,
        call.tenant,
        state=query.state or None,
        source=query.source or None,
        before=page_start(call),
        most=query.limit + 1,
    )
    return make_page(call, wire.DeliveryPage, found, delivery_schema)


@routes(
    "POST",
    "/v1/deliveries",
    "acceptDelivery",
    scopes=SUBMITTERS,
    body=wire.SubmitDelivery,
    answer=wire.AcceptedDelivery,
    statuses=(201, 200),
)
async def accept_delivery(call: ApiCall) -> HandlerResponse:
    """Store an event once; the answer comes after the commit."""
    _check_disk(call)
    accepted = await _accept(call, call.body)
    status = 201 if accepted.arrival is ArrivalKind.NEW else 200
    return HandlerResponse(
        msgspec.convert(msgspec.to_builtins(accepted), wire.AcceptedDelivery), status
    )


@routes(
    "POST",
    "/v1/deliveries/batch",
    "acceptDeliveries",
    scopes=SUBMITTERS,
    body=wire.SubmitDeliveries,
)
async def accept_deliveries(call: ApiCall) -> wire.AcceptedDeliveries:
    """Store several events, each once and by itself, in their order."""
    _check_disk(call)
    asked: wire.SubmitDeliveries = call.body
    # All at once, so that they share commits.
    tasks = [_accept(call, each, in_order=True) for each in asked.deliveries]
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    return wire.AcceptedDeliveries(data=[_batch_item(each) for each in answers])


async def _accept(call: ApiCall, asked: wire.SubmitDelivery, *, in_order: bool = False) -> Accepted:
    """Store one event.

    Raises: Forbidden, SourceUnknown, SourcePaused, FieldsInvalid, InputRefused, StoreError.
    """
    source = _submittable_source(call, asked.source)
    body = _submitted_body(asked)
    order_key, sequence = lane_position(source, body)
    return await call.components.intake.accept(
        source.name,
        in_order=in_order,
        key=asked.key,
        body=body,
        headers=_without_secrets(source, asked.headers),
        type_=asked.type,
        order_key=order_key if asked.order_key is None else asked.order_key,
        sequence=sequence if asked.order_key is None else None,
        rules=source.lane_rules,
        tenant=call.tenant,
        redelivery=source.redelivery,
    )


def _submittable_source(call: ApiCall, name: str) -> Source:
    if not call.key.may_submit(name):
        raise Forbidden("this key may not submit to this source; it needs the scope accept:SOURCE")
    entry = call.components.sources.find(call.tenant, name)
    if entry is None:
        raise SourceUnknown(
            "there is no source of this name; add it: oncebox source add NAME --scheme SCHEME"
        )
    if entry.source.paused:
        raise SourcePaused
    return entry.source


def _without_secrets(source: Source, headers: list[tuple[str, str]]) -> Headers:
    """Return headers, perhaps passed on from a provider, without the secrets of the source."""
    if not headers:
        return ()
    scheme = registry.find_scheme(source.scheme)
    names = secret_header_names(scheme, source_options(scheme, source.options))
    return remove_secrets(headers, names, [each.value for each in source.secrets])


def _submitted_body(asked: wire.SubmitDelivery) -> bytes:
    if asked.body is not UNSET and asked.text is not UNSET:
        raise FieldsInvalid("give body or text, not both", pointer="/body")
    if asked.text is not UNSET:
        return asked.text.encode()
    return b"" if asked.body is UNSET else asked.body


def _check_disk(call: ApiCall) -> None:
    """Refuse events when webhooks are refused too."""
    if call.components.disk_space.level >= DiskLevel.NO_WEBHOOKS:
        raise DiskFull("the disk is almost full")


def _batch_item(answer: Accepted | BaseException) -> wire.BatchItem:
    """Return the answer to one event of a batch.

    Raises: StoreUnavailable, and what nobody expected; the whole batch may be repeated.
    """
    if isinstance(answer, Accepted):
        return msgspec.convert(msgspec.to_builtins(answer), wire.BatchItem)
    if isinstance(answer, StoreUnavailable) or not isinstance(answer, OnceboxError):
        raise answer
    problem = problems.describe(answer, "")
    error = wire.ItemError(code=problem.code, detail=problem.detail, retry_safe=problem.retry_safe)
    return wire.BatchItem(error=error)


@routes("GET", "/v1/deliveries/{id}", "inspectDelivery", scopes=OPERATORS, query=wire.InspectQuery)
async def inspect_delivery(call: ApiCall) -> wire.DeliveryInspection:
    """Show everything known about a delivery, and what to do next."""
    id_ = call.path["id"]
    found = await call.ledger.read(inspections.inspect, call.tenant, id_, call.ledger.clock())
    payload = None
    if call.query.payload:
        payload = await call.ledger.read(
            inspections.payload, call.components.mail_cipher, call.tenant, id_
        )
    return _inspection_schema(found, payload)


@routes(
    "POST",
    "/v1/deliveries/{id}/replay",
    "replayDelivery",
    scopes=OPERATORS,
    body=wire.ReplayDelivery,
)
async def replay_delivery(call: ApiCall) -> wire.ReplayResult:
    """Run a done or dead delivery again; completed effects are not repeated."""
    return await _resolve(call, operations.replay)


@routes(
    "POST", "/v1/deliveries/{id}/hold", "holdDelivery", scopes=OPERATORS, body=wire.HoldDelivery
)
async def hold_delivery(call: ApiCall) -> wire.Delivery:
    """Hold a waiting delivery, so that it does not run."""
    entry = call.audit_entry(call.body.why)
    found = await call.ledger.write(
        operations.change_and_inspect, operations.hold, call.path["id"], entry
    )
    return delivery_schema(found.delivery)


@routes(
    "POST",
    "/v1/deliveries/{id}/release",
    "releaseDelivery",
    scopes=OPERATORS,
    body=wire.ReplayDelivery,
)
async def release_delivery(call: ApiCall) -> wire.ReplayResult:
    """Release a held delivery, so that it runs."""
    return await _resolve(call, operations.release)


@routes(
    "POST",
    "/v1/deliveries/{id}/drop",
    "dropDelivery",
    scopes=OPERATORS,
    body=wire.ReplayDelivery,
)
async def drop_delivery(call: ApiCall) -> wire.ReplayResult:
    """End a held delivery without running it; it can be replayed later."""
    return await _resolve(call, operations.drop)


@routes("GET", "/v1/quarantine", "listQuarantine", scopes=OPERATORS, query=wire.QuarantineQuery)
async def list_quarantine(call: ApiCall) -> wire.RejectedRequestPage:
    """List rejected requests, newest first."""
    query: wire.QuarantineQuery = call.query
    found = await call.ledger.read(
        quarantine.newest,
        call.tenant,
        source=query.source or None,
        before=page_start(call),
        most=query.limit + 1,
    )
    return make_page(
        call,
        wire.RejectedRequestPage,
        found,
        lambda each: msgspec.convert(msgspec.to_builtins(each), wire.RejectedRequest),
    )


@routes("GET", "/v1/quarantine/{id}", "getQuarantined", scopes=OPERATORS)
async def get_rejected(call: ApiCall) -> wire.RejectedRequestDetail:
    """Get a rejected request with its headers and body; possible secrets are left out."""
    rejected = await call.ledger.read(quarantine.get, call.tenant, call.path["id"])
    return wire.RejectedRequestDetail(
        id=rejected.id,
        source=rejected.source,
        reason=rejected.reason,
        sighting=rejected.duplicate_class,
        received_at=rejected.received_at,
        method=rejected.method,
        url=rejected.url,
        size=rejected.size,
        headers=list(rejected.headers),
        body=rejected.body,
    )


@routes("POST", "/v1/quarantine/{id}/retry", "retryQuarantined", scopes=OPERATORS, body=ReasonBody)
async def recheck_rejected(call: ApiCall) -> wire.AdmitResult:
    """Verify a rejected request again with the current secrets, and accept it if it passes."""
    components, id_ = call.components, call.path["id"]
    rejected = await call.ledger.read(quarantine.get, call.tenant, id_)
    verified = await components.recheck_rejected(
        quarantine.restore(rejected, components.master_key)
    )
    entry = call.audit_entry(call.body.why)
    accepted = await call.ledger.write(quarantine.admit, id_, verified, entry)
    call.ledger.notify(DUE)
    return wire.AdmitResult(
        deliveries=msgspec.convert(accepted, list[wire.AdmittedDelivery], from_attributes=True)
    )


@routes("DELETE", "/v1/quarantine/{id}", "forgetQuarantined", scopes=OPERATORS)
async def delete_rejected(call: ApiCall) -> None:
    """Delete a rejected request."""
    await call.ledger.write(quarantine.discard, call.path["id"], call.audit_entry())


async def _resolve(call: ApiCall, change: Any) -> wire.ReplayResult:
    asked: wire.ReplayDelivery = call.body
    words = _effect_resolutions(asked)
    run = call.ledger.dry_run if asked.dry_run else call.ledger.write
    found: DeliveryInspection = await run(
        operations.resolve_and_inspect, change, call.path["id"], call.audit_entry(asked.why), words
    )
    if not asked.dry_run:
        call.ledger.notify(DUE)
    done = [each.name for each in found.effects if each.state is EffectState.DONE]
    return wire.ReplayResult(
        delivery=delivery_schema(found.delivery),
        dry_run=asked.dry_run,
        done=done,
        may_run=[each.name for each in found.effects if each.name not in done],
    )


def _effect_resolutions(asked: wire.ReplayDelivery) -> dict[str, operations.EffectResolution]:
    """Return the operator's decisions on effects.

    Raises: FieldsInvalid.
    """
    if any(asked.effects.get(name) != "done" for name in asked.results):
        raise FieldsInvalid(
            'only a done effect has a result; say in effects that it is "done", or omit the result',
            pointer="/results",
        )
    results = {name: encode_result(result) for name, result in asked.results.items()}
    if None in results.values():
        raise FieldsInvalid("a result has at most 1 MiB of JSON", pointer="/results")
    return {
        name: operations.EffectResolution(EffectState(word), results.get(name))
        for name, word in asked.effects.items()
    }


def delivery_schema(facts: DeliveryRecord) -> wire.Delivery:
    """Return a delivery as the API shows it."""
    return msgspec.convert(facts, wire.Delivery, from_attributes=True)


def effect_schema(effect: Effect) -> wire.Effect:
    """Return an effect as the API shows it, with its result as JSON."""
    values = msgspec.structs.asdict(effect)
    has_result = effect.result is not None
    result = decode_result(effect.result) if has_result else None
    return msgspec.convert(values | {"result": result, "has_result": has_result}, wire.Effect)


def encode_given(result: Any) -> bytes | None:
    """Return a result of a request as JSON; None if the request has none."""
    return None if result is msgspec.UNSET else msgspec.json.encode(result)


def _inspection_schema(
    found: DeliveryInspection, payload: tuple[Headers, bytes] | None
) -> wire.DeliveryInspection:
    return wire.DeliveryInspection(
        delivery=delivery_schema(found.delivery),
        tries=msgspec.convert(found.tries, list[wire.DeliveryTry], from_attributes=True),
        effects=[effect_schema(each) for each in found.effects],
        sightings=msgspec.convert(msgspec.to_builtins(found.duplicates), list[wire.DuplicateCount]),
        audit=msgspec.convert(found.audit, list[wire.AuditRecord], from_attributes=True),
        next_action=found.next_action,
        payload=payload and wire.Payload(headers=list(payload[0]), body=payload[1]),
    )
