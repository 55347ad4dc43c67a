"""``/v1/deliveries`` and ``/v1/quarantine``: inspection, replay, hold; rejected requests."""

from typing import Any

import msgspec

from oncebox.ledger.deliveries import inspections, operations, quarantine
from oncebox.ledger.notifications import DUE
from oncebox.model.deliveries.delivery import Headers
from oncebox.model.deliveries.effects import Effect, EffectState
from oncebox.model.deliveries.inspection import DeliveryInspection, DeliveryRecord
from oncebox.model.webhooks.quarantine import QuarantinedRequest, QuarantineEntry
from oncebox.schemas import deliveries as wire
from oncebox.schemas.fields import ReasonBody
from oncebox.server.http.cursors import AFTER_ALL_IDS, make_page, page_start
from oncebox.server.http.routing import OPERATOR, ApiCall, Route

_DELIVERIES_PATH = "/v1/deliveries"
_DELIVERY_PATH = "/v1/deliveries/{id}"
_DELIVERY_SCOPES = frozenset({OPERATOR})


async def list_deliveries(call: ApiCall) -> wire.DeliveryPage:
    """Return deliveries, newest first."""
    query: wire.DeliveryQuery = call.query
    found = await call.components.ledger.read(
        inspections.newest,
        call.tenant,
        state=query.state or None,
        source=query.source or None,
        before=page_start(call, _DELIVERIES_PATH, AFTER_ALL_IDS),
        most=query.limit + 1,
    )
    return make_page(
        call, _DELIVERIES_PATH, wire.DeliveryPage, found, delivery_schema, lambda each: each.id
    )


async def inspect_delivery(call: ApiCall) -> wire.DeliveryInspection:
    """Return everything known of one delivery."""
    id_ = call.path["id"]
    found = await call.components.ledger.read(inspections.inspect, call.tenant, id_, call.now)
    payload = None
    if call.query.payload:
        payload = await call.components.ledger.read(
            inspections.payload, call.components.mail_cipher, call.tenant, id_
        )
    return _inspection_schema(found, payload)


async def replay_delivery(call: ApiCall) -> wire.ReplayResult:
    """Run a done or dead delivery again."""
    return await _rerun(call, operations.replay)


async def release_delivery(call: ApiCall) -> wire.ReplayResult:
    """Let a held delivery run."""
    return await _rerun(call, operations.release)


async def hold_delivery(call: ApiCall) -> wire.Delivery:
    """Keep a waiting delivery from running."""
    found = await call.components.ledger.write(
        operations.change_and_inspect,
        operations.hold,
        call.path["id"],
        call.audit_entry(call.body.why),
    )
    return delivery_schema(found.delivery)


async def _rerun(call: ApiCall, change: Any) -> wire.ReplayResult:
    asked: wire.ReplayDelivery = call.body
    words = {name: EffectState(word) for name, word in asked.effects.items()}
    run = call.components.ledger.dry_run if asked.dry_run else call.components.ledger.write
    found: DeliveryInspection = await run(
        operations.rerun_and_inspect, change, call.path["id"], call.audit_entry(asked.why), words
    )
    if not asked.dry_run:
        call.components.ledger.notify(DUE)
    done = [each.name for each in found.effects if each.state is EffectState.DONE]
    return wire.ReplayResult(
        delivery=delivery_schema(found.delivery),
        dry_run=asked.dry_run,
        done=done,
        may_run=[each.name for each in found.effects if each.name not in done],
    )


def delivery_schema(facts: DeliveryRecord) -> wire.Delivery:
    """Return a delivery as the outside sees it."""
    return msgspec.convert(facts, wire.Delivery, from_attributes=True)


def effect_schema(effect: Effect) -> wire.Effect:
    """Return an effect as the outside sees it, its result as the JSON it is."""
    values = msgspec.structs.asdict(effect)
    result = None if effect.result is None else msgspec.json.decode(effect.result)
    return msgspec.convert(values | {"result": result}, wire.Effect)


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


DELIVERY_ROUTES = (
    Route(
        method="GET",
        path=_DELIVERIES_PATH,
        name="listDeliveries",
        summary="Show deliveries, newest first.",
        scopes=_DELIVERY_SCOPES,
        query=wire.DeliveryQuery,
        answer=wire.DeliveryPage,
        handler=list_deliveries,
    ),
    Route(
        method="GET",
        path=_DELIVERY_PATH,
        name="inspectDelivery",
        summary="Show everything known of a delivery, and what to do next.",
        scopes=_DELIVERY_SCOPES,
        query=wire.InspectQuery,
        answer=wire.DeliveryInspection,
        handler=inspect_delivery,
    ),
    Route(
        method="POST",
        path=f"{_DELIVERY_PATH}/replay",
        name="replayDelivery",
        summary="Run a done or dead delivery again; effects that are done stay done.",
        scopes=_DELIVERY_SCOPES,
        body=wire.ReplayDelivery,
        answer=wire.ReplayResult,
        handler=replay_delivery,
    ),
    Route(
        method="POST",
        path=f"{_DELIVERY_PATH}/hold",
        name="holdDelivery",
        summary="Keep a waiting delivery from running.",
        scopes=_DELIVERY_SCOPES,
        body=wire.HoldDelivery,
        answer=wire.Delivery,
        handler=hold_delivery,
    ),
    Route(
        method="POST",
        path=f"{_DELIVERY_PATH}/release",
        name="releaseDelivery",
        summary="Let a held delivery run.",
        scopes=_DELIVERY_SCOPES,
        body=wire.ReplayDelivery,
        answer=wire.ReplayResult,
        handler=release_delivery,
    ),
)


_QUARANTINE_PATH = "/v1/quarantine"
_REJECTED_PATH = "/v1/quarantine/{id}"
_QUARANTINE_SCOPES = frozenset({OPERATOR})


async def list_quarantine(call: ApiCall) -> wire.RejectedRequestPage:
    """Return rejected requests, newest first."""
    query: wire.QuarantineQuery = call.query
    found = await call.components.ledger.read(
        quarantine.newest,
        call.tenant,
        source=query.source or None,
        before=page_start(call, _QUARANTINE_PATH, AFTER_ALL_IDS),
        most=query.limit + 1,
    )
    return make_page(
        call,
        _QUARANTINE_PATH,
        wire.RejectedRequestPage,
        found,
        _rejected_schema,
        lambda each: each.id,
    )


async def get_rejected(call: ApiCall) -> wire.RejectedRequestDetail:
    """Return one rejected request with its headers and body."""
    kept = await call.components.ledger.read(quarantine.get, call.tenant, call.path["id"])
    return _rejected_detail_schema(kept)


async def recheck_rejected(call: ApiCall) -> wire.AdmitResult:
    """Check a rejected request again, with the secrets of today."""
    rooms, id_ = call.components, call.path["id"]
    kept = await rooms.ledger.read(quarantine.get, call.tenant, id_)
    verified = await rooms.recheck_rejected(quarantine.restore(kept, rooms.master_key))
    deed = call.audit_entry(call.body.why)
    accepted = await rooms.ledger.write(quarantine.admit, id_, verified, deed)
    rooms.ledger.notify(DUE)
    return wire.AdmitResult(
        deliveries=msgspec.convert(accepted, list[wire.AdmittedDelivery], from_attributes=True)
    )


async def delete_rejected(call: ApiCall) -> None:
    """Throw a rejected request away."""
    await call.components.ledger.write(quarantine.discard, call.path["id"], call.audit_entry())


def _rejected_schema(listed: QuarantineEntry) -> wire.RejectedRequest:
    return msgspec.convert(msgspec.to_builtins(listed), wire.RejectedRequest)


def _rejected_detail_schema(kept: QuarantinedRequest) -> wire.RejectedRequestDetail:
    return wire.RejectedRequestDetail(
        id=kept.id,
        source=kept.source,
        reason=kept.reason,
        sighting=kept.duplicate_class,
        received_at=kept.received_at,
        method=kept.method,
        url=kept.url,
        size=kept.size,
        headers=list(kept.headers),
        body=kept.body,
    )


QUARANTINE_ROUTES = (
    Route(
        method="GET",
        path=_QUARANTINE_PATH,
        name="listQuarantine",
        summary="Show requests that were not believed, newest first.",
        scopes=_QUARANTINE_SCOPES,
        query=wire.QuarantineQuery,
        answer=wire.RejectedRequestPage,
        handler=list_quarantine,
    ),
    Route(
        method="GET",
        path=_REJECTED_PATH,
        name="getQuarantined",
        summary="Show one with its headers and body; what may be a secret is left out.",
        scopes=_QUARANTINE_SCOPES,
        answer=wire.RejectedRequestDetail,
        handler=get_rejected,
    ),
    Route(
        method="POST",
        path=f"{_REJECTED_PATH}/retry",
        name="retryQuarantined",
        summary="Check one again with the secrets of today, and take it in if it is good.",
        scopes=_QUARANTINE_SCOPES,
        body=ReasonBody,
        answer=wire.AdmitResult,
        handler=recheck_rejected,
    ),
    Route(
        method="DELETE",
        path=_REJECTED_PATH,
        name="forgetQuarantined",
        summary="Throw one away.",
        scopes=_QUARANTINE_SCOPES,
        status=204,
        handler=delete_rejected,
    ),
)
