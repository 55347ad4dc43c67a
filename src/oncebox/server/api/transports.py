"""``/v1/transports`` and ``/v1/suppressions``: outgoing transports, blocked recipients.

An address never stands in a path: paths are written down by proxies and browsers.
"""

from oncebox.errors import NotFound
from oncebox.ledger.notifications import SENDS
from oncebox.ledger.sends import suppressions, transports
from oncebox.ledger.sends.suppressions import Suppression, SuppressionReason
from oncebox.model.inboxes.addresses import parse_mailbox
from oncebox.model.sends.transports import ConfiguredTransport
from oncebox.schemas import transports as wire
from oncebox.schemas.fields import ListQuery, ReasonBody
from oncebox.server.http.cursors import make_page, page_start
from oncebox.server.http.routing import OPERATOR, ApiCall, Route

_TRANSPORTS_PATH = "/v1/transports"
_TRANSPORT_PATH = "/v1/transports/{name}"
_TRANSPORT_SCOPES = frozenset({OPERATOR})


async def list_transports(call: ApiCall) -> wire.TransportList:
    """Return all transports, those that are taken first first."""
    found = await call.components.ledger.read(transports.of_tenant, call.tenant)
    return wire.TransportList(data=[_transport_schema(each, call.now) for each in found])


async def pause_transport(call: ApiCall) -> wire.Transport:
    """Let nothing more leave by a transport."""
    return await _set_paused(call, paused=True)


async def resume_transport(call: ApiCall) -> wire.Transport:
    """Let mail leave by a transport again."""
    return await _set_paused(call, paused=False)


async def _set_paused(call: ApiCall, *, paused: bool) -> wire.Transport:
    deed = call.audit_entry(call.body.why)
    found = await call.components.ledger.write(
        transports.pause, call.path["name"], deed, paused=paused
    )
    call.components.ledger.notify(SENDS)
    return _transport_schema(found, call.now)


def _transport_schema(transport: ConfiguredTransport, now: int) -> wire.Transport:
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


TRANSPORT_ROUTES = (
    Route(
        method="GET",
        path=_TRANSPORTS_PATH,
        name="listTransports",
        summary="Show the ways by which mail leaves, those that are taken first first.",
        scopes=_TRANSPORT_SCOPES,
        answer=wire.TransportList,
        handler=list_transports,
    ),
    Route(
        method="POST",
        path=f"{_TRANSPORT_PATH}/pause",
        name="pauseTransport",
        summary="Let nothing more leave by a transport; what is on its way goes on.",
        scopes=_TRANSPORT_SCOPES,
        body=ReasonBody,
        answer=wire.Transport,
        handler=pause_transport,
    ),
    Route(
        method="POST",
        path=f"{_TRANSPORT_PATH}/resume",
        name="resumeTransport",
        summary="Let mail leave by a transport again.",
        scopes=_TRANSPORT_SCOPES,
        body=ReasonBody,
        answer=wire.Transport,
        handler=resume_transport,
    ),
)


_SUPPRESSIONS_PATH = "/v1/suppressions"
_SUPPRESSION_SCOPES = frozenset({OPERATOR})


async def list_suppressions(call: ApiCall) -> wire.SuppressionPage:
    """Return addresses that get no mail."""
    found = await call.components.ledger.read(
        suppressions.page,
        call.tenant,
        after=bytes.fromhex(page_start(call, _SUPPRESSIONS_PATH, "")),
        most=call.query.limit + 1,
    )
    return make_page(
        call,
        _SUPPRESSIONS_PATH,
        wire.SuppressionPage,
        found,
        lambda each: _suppression_schema(call, each),
        lambda each: each.fingerprint.hex(),
    )


async def put_suppression(call: ApiCall) -> wire.Suppression:
    """Put an address on the list; one that is there stays there for its first reason."""
    asked: wire.NewSuppression = call.body
    deed, address = call.audit_entry(asked.why), parse_mailbox(asked.address).key
    new = Suppression(
        fingerprint=call.components.send_cipher.address_fingerprint(call.tenant, address),
        address=call.components.send_cipher.encrypt_address(call.tenant, address),
        reason=SuppressionReason.MANUAL,
        send_id=None,
        created_at=deed.at,
    )
    await call.components.ledger.write(suppressions.add, new, deed)
    return _suppression_schema(call, await _get_suppression(call, new.fingerprint))


async def find_suppression(call: ApiCall) -> wire.Suppression:
    """Return one address, if it is on the list."""
    address = parse_mailbox(call.body.address).key
    return _suppression_schema(
        call,
        await _get_suppression(
            call, call.components.send_cipher.address_fingerprint(call.tenant, address)
        ),
    )


async def remove_suppression(call: ApiCall) -> wire.Suppression:
    """Take an address off the list."""
    found = await _get_suppression(call, _fingerprint_of(call.path["id"]))
    await call.components.ledger.write(suppressions.remove, found.fingerprint, call.audit_entry())
    return _suppression_schema(call, found)


async def _get_suppression(call: ApiCall, mark: bytes) -> Suppression:
    found = await call.components.ledger.read(suppressions.get, call.tenant, mark)
    if found is None:
        raise NotFound
    return found


def _fingerprint_of(id_: str) -> bytes:
    try:
        return bytes.fromhex(id_)
    except ValueError as error:
        raise NotFound from error


def _suppression_schema(call: ApiCall, suppression: Suppression) -> wire.Suppression:
    mark, sealed = suppression.fingerprint, suppression.address
    return wire.Suppression(
        id=mark.hex(),
        address=call.components.send_cipher.decrypt_address(call.tenant, mark, sealed),
        reason=suppression.reason.value,
        send_id=suppression.send_id,
        created_at=suppression.created_at,
    )


SUPPRESSION_ROUTES = (
    Route(
        method="GET",
        path=_SUPPRESSIONS_PATH,
        name="listSuppressions",
        summary="Show addresses that get no mail.",
        scopes=_SUPPRESSION_SCOPES,
        query=ListQuery,
        answer=wire.SuppressionPage,
        handler=list_suppressions,
    ),
    Route(
        method="PUT",
        path=_SUPPRESSIONS_PATH,
        name="addSuppression",
        summary="Let an address get no mail; a second time changes nothing.",
        scopes=_SUPPRESSION_SCOPES,
        body=wire.NewSuppression,
        answer=wire.Suppression,
        handler=put_suppression,
    ),
    Route(
        method="POST",
        path=f"{_SUPPRESSIONS_PATH}/find",
        name="findSuppression",
        summary="Show whether an address gets no mail.",
        scopes=_SUPPRESSION_SCOPES,
        body=wire.FindSuppression,
        answer=wire.Suppression,
        handler=find_suppression,
    ),
    Route(
        method="DELETE",
        path=f"{_SUPPRESSIONS_PATH}/{{id}}",
        name="removeSuppression",
        summary="Let an address get mail again.",
        scopes=_SUPPRESSION_SCOPES,
        answer=wire.Suppression,
        handler=remove_suppression,
    ),
)
