"""``/v1/deliveries`` and ``/v1/quarantine``: inspection, replay, hold; rejected requests."""

from typing import Any

import msgspec

from oncebox.ledger.deliveries import inspections, operations, quarantine
from oncebox.ledger.notifications import DUE
from oncebox.model.deliveries.delivery import Headers
from oncebox.model.deliveries.effects import Effect, EffectState
from oncebox.model.deliveries.inspection import DeliveryInspection, DeliveryRecord
from oncebox.schemas import deliveries as wire
from oncebox.schemas.fields import ReasonBody
from oncebox.server.http.cursors import make_page, page_start
from oncebox.server.http.routing import OPERATORS, ApiCall, Routes

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
    return await _rerun(call, operations.replay)


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
    return await _rerun(call, operations.release)


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


async def _rerun(call: ApiCall, change: Any) -> wire.ReplayResult:
    asked: wire.ReplayDelivery = call.body
    words = {name: EffectState(word) for name, word in asked.effects.items()}
    run = call.ledger.dry_run if asked.dry_run else call.ledger.write
    found: DeliveryInspection = await run(
        operations.rerun_and_inspect, change, call.path["id"], call.audit_entry(asked.why), words
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


def delivery_schema(facts: DeliveryRecord) -> wire.Delivery:
    """Return a delivery as the API shows it."""
    return msgspec.convert(facts, wire.Delivery, from_attributes=True)


def effect_schema(effect: Effect) -> wire.Effect:
    """Return an effect as the API shows it, with its result as JSON."""
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
