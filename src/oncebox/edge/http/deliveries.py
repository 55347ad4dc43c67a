"""``/v1/deliveries``: what came in, what became of it, and what a person may do about it."""

from typing import Any

import msgspec

from oncebox.edge.http.call import Call
from oncebox.edge.http.pages import END, page, place
from oncebox.edge.http.route import OPERATOR, Route
from oncebox.ledger.deliveries import inspections, rehearsals
from oncebox.model.delivery import Headers
from oncebox.model.effect import Effect, EffectState
from oncebox.model.inspection import Facts, Inspection
from oncebox.wire import deliveries as wire

_LIST = "/v1/deliveries"
_ONE = "/v1/deliveries/{id}"
_SCOPES = frozenset({OPERATOR})


async def list_(call: Call) -> wire.DeliveryPage:
    """Return deliveries, newest first."""
    query: wire.DeliveryQuery = call.query
    found = await call.rooms.counter.read(
        inspections.newest,
        call.tenant,
        state=query.state or None,
        source=query.source or None,
        before=place(call, _LIST, END),
        most=query.limit + 1,
    )
    return page(call, _LIST, wire.DeliveryPage, found, shown, lambda each: each.id)


async def inspect(call: Call) -> wire.Inspection:
    """Return everything known of one delivery."""
    id_ = call.path["id"]
    found = await call.rooms.counter.read(inspections.inspect, call.tenant, id_, call.now)
    payload = None
    if call.query.payload:
        payload = await call.rooms.counter.read(
            inspections.payload, call.rooms.vault, call.tenant, id_
        )
    return _inspected(found, payload)


async def replay(call: Call) -> wire.Replayed:
    """Run a done or dead delivery again."""
    return await _bring_back(call, rehearsals.replay)


async def release(call: Call) -> wire.Replayed:
    """Let a held delivery run."""
    return await _bring_back(call, rehearsals.release)


async def hold(call: Call) -> wire.Delivery:
    """Keep a waiting delivery from running."""
    deed = call.deed(call.body.why)
    found = await call.rooms.counter.write(rehearsals.hold, call.path["id"], deed)
    return shown(found.delivery)


async def _bring_back(call: Call, change: Any) -> wire.Replayed:
    asked: wire.Replay = call.body
    words = {name: EffectState(word) for name, word in asked.effects.items()}
    run = call.rooms.counter.rehearse if asked.dry_run else call.rooms.counter.write
    found: Inspection = await run(change, call.path["id"], call.deed(asked.why), words)
    if not asked.dry_run:
        call.rooms.desk.ring()
    done = [each.name for each in found.effects if each.state is EffectState.DONE]
    return wire.Replayed(
        delivery=shown(found.delivery),
        dry_run=asked.dry_run,
        done=done,
        may_run=[each.name for each in found.effects if each.name not in done],
    )


def shown(facts: Facts) -> wire.Delivery:
    """Return a delivery as the outside sees it."""
    return msgspec.convert(facts, wire.Delivery, from_attributes=True)


def shown_effect(effect: Effect) -> wire.Effect:
    """Return an effect as the outside sees it, its result as the JSON it is."""
    values = msgspec.structs.asdict(effect)
    result = None if effect.result is None else msgspec.json.decode(effect.result)
    return msgspec.convert(values | {"result": result}, wire.Effect)


def _inspected(found: Inspection, payload: tuple[Headers, bytes] | None) -> wire.Inspection:
    return wire.Inspection(
        delivery=shown(found.delivery),
        tries=msgspec.convert(found.tries, list[wire.Try], from_attributes=True),
        effects=[shown_effect(each) for each in found.effects],
        sightings=msgspec.convert(found.sightings, list[wire.Seen], from_attributes=True),
        audit=msgspec.convert(found.audit, list[wire.Audited], from_attributes=True),
        next_action=found.next_action,
        payload=payload and wire.Payload(headers=list(payload[0]), body=payload[1]),
    )


ROUTES = (
    Route(
        method="GET",
        path=_LIST,
        name="listDeliveries",
        summary="Show deliveries, newest first.",
        scopes=_SCOPES,
        query=wire.DeliveryQuery,
        answer=wire.DeliveryPage,
        handler=list_,
    ),
    Route(
        method="GET",
        path=_ONE,
        name="inspectDelivery",
        summary="Show everything known of a delivery, and what to do next.",
        scopes=_SCOPES,
        query=wire.InspectQuery,
        answer=wire.Inspection,
        handler=inspect,
    ),
    Route(
        method="POST",
        path=f"{_ONE}/replay",
        name="replayDelivery",
        summary="Run a done or dead delivery again; effects that are done stay done.",
        scopes=_SCOPES,
        body=wire.Replay,
        answer=wire.Replayed,
        handler=replay,
    ),
    Route(
        method="POST",
        path=f"{_ONE}/hold",
        name="holdDelivery",
        summary="Keep a waiting delivery from running.",
        scopes=_SCOPES,
        body=wire.Hold,
        answer=wire.Delivery,
        handler=hold,
    ),
    Route(
        method="POST",
        path=f"{_ONE}/release",
        name="releaseDelivery",
        summary="Let a held delivery run.",
        scopes=_SCOPES,
        body=wire.Replay,
        answer=wire.Replayed,
        handler=release,
    ),
)
