"""``/v1/quarantine``: requests that were not believed, and checking them again."""

import msgspec

from oncebox.edge.http.call import Call
from oncebox.edge.http.pages import END, page, place
from oncebox.edge.http.route import OPERATOR, Route
from oncebox.ledger.deliveries import quarantine, redaction
from oncebox.model.quarantine import Kept, Listed
from oncebox.wire import deliveries as wire
from oncebox.wire.fields import Because

_LIST = "/v1/quarantine"
_ONE = "/v1/quarantine/{id}"
_SCOPES = frozenset({OPERATOR})


async def list_(call: Call) -> wire.RejectedPage:
    """Return rejected requests, newest first."""
    query: wire.QuarantineQuery = call.query
    found = await call.rooms.counter.read(
        quarantine.newest,
        call.tenant,
        source=query.source or None,
        before=place(call, _LIST, END),
        most=query.limit + 1,
    )
    return page(call, _LIST, wire.RejectedPage, found, _shown, lambda each: each.id)


async def get(call: Call) -> wire.RejectedDetail:
    """Return one rejected request with its headers and body."""
    kept = await call.rooms.counter.read(quarantine.get, call.tenant, call.path["id"])
    return _detailed(kept)


async def retry(call: Call) -> wire.Admitted:
    """Check a rejected request again, with the secrets of today."""
    rooms, id_ = call.rooms, call.path["id"]
    kept = await rooms.counter.read(quarantine.get, call.tenant, id_)
    verified = await rooms.judge(redaction.unseal(kept, rooms.master_key))
    deed = call.deed(call.body.why)
    accepted = await rooms.counter.write(quarantine.admit, id_, verified, deed)
    rooms.desk.ring()
    return wire.Admitted(
        deliveries=msgspec.convert(accepted, list[wire.Admission], from_attributes=True)
    )


async def forget(call: Call) -> None:
    """Throw a rejected request away."""
    await call.rooms.counter.write(quarantine.forget, call.path["id"], call.deed())


def _shown(listed: Listed) -> wire.Rejected:
    return msgspec.convert(listed, wire.Rejected, from_attributes=True)


def _detailed(kept: Kept) -> wire.RejectedDetail:
    return wire.RejectedDetail(
        id=kept.id,
        source=kept.source,
        reason=kept.reason,
        sighting=kept.sighting,
        received_at=kept.received_at,
        method=kept.method,
        url=kept.url,
        size=kept.size,
        headers=list(kept.headers),
        body=kept.body,
    )


ROUTES = (
    Route(
        method="GET",
        path=_LIST,
        name="listQuarantine",
        summary="Show requests that were not believed, newest first.",
        scopes=_SCOPES,
        query=wire.QuarantineQuery,
        answer=wire.RejectedPage,
        handler=list_,
    ),
    Route(
        method="GET",
        path=_ONE,
        name="getQuarantined",
        summary="Show one with its headers and body; what may be a secret is left out.",
        scopes=_SCOPES,
        answer=wire.RejectedDetail,
        handler=get,
    ),
    Route(
        method="POST",
        path=f"{_ONE}/retry",
        name="retryQuarantined",
        summary="Check one again with the secrets of today, and take it in if it is good.",
        scopes=_SCOPES,
        body=Because,
        answer=wire.Admitted,
        handler=retry,
    ),
    Route(
        method="DELETE",
        path=_ONE,
        name="forgetQuarantined",
        summary="Throw one away.",
        scopes=_SCOPES,
        status=204,
        handler=forget,
    ),
)
