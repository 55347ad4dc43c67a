"""``/v1/transports``: the ways by which mail leaves, for operators."""

from oncebox.edge.http.call import Call
from oncebox.edge.http.route import OPERATOR, Route
from oncebox.ledger.sends import transports
from oncebox.ledger.sends.sends import SENDS
from oncebox.model.transport import Transport
from oncebox.wire import transports as wire
from oncebox.wire.fields import Because

_LIST = "/v1/transports"
_ONE = "/v1/transports/{name}"
_SCOPES = frozenset({OPERATOR})


async def list_(call: Call) -> wire.TransportList:
    """Return all transports, those that are taken first first."""
    found = await call.rooms.counter.read(transports.all_, call.tenant)
    return wire.TransportList(data=[_shown(each, call.now) for each in found])


async def pause(call: Call) -> wire.Transport:
    """Let nothing more leave by a transport."""
    return await _paused(call, paused=True)


async def resume(call: Call) -> wire.Transport:
    """Let mail leave by a transport again."""
    return await _paused(call, paused=False)


async def _paused(call: Call, *, paused: bool) -> wire.Transport:
    deed = call.deed(call.body.why)
    found = await call.rooms.counter.write(transports.pause, call.path["name"], deed, paused=paused)
    call.rooms.counter.ring(SENDS)
    return _shown(found, call.now)


def _shown(transport: Transport, now: int) -> wire.Transport:
    rate = transport.rate
    return wire.Transport(
        name=transport.name,
        kind=transport.kind,
        position=transport.position,
        rate=None
        if rate is None
        else wire.TransportRate(sends=rate.sends, within=rate.within / 1000),
        state=transport.state(now),
        failures=transport.failures,
        rests_until=transport.rests_until,
        created_at=transport.created_at,
        changed_at=transport.changed_at,
    )


ROUTES = (
    Route(
        method="GET",
        path=_LIST,
        name="listTransports",
        summary="Show the ways by which mail leaves, those that are taken first first.",
        scopes=_SCOPES,
        answer=wire.TransportList,
        handler=list_,
    ),
    Route(
        method="POST",
        path=f"{_ONE}/pause",
        name="pauseTransport",
        summary="Let nothing more leave by a transport; what is on its way goes on.",
        scopes=_SCOPES,
        body=Because,
        answer=wire.Transport,
        handler=pause,
    ),
    Route(
        method="POST",
        path=f"{_ONE}/resume",
        name="resumeTransport",
        summary="Let mail leave by a transport again.",
        scopes=_SCOPES,
        body=Because,
        answer=wire.Transport,
        handler=resume,
    ),
)
