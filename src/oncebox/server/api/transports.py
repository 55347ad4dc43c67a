"""``/v1/transports`` and ``/v1/suppressions``: outgoing transports, blocked recipients.

An address is never part of a path: proxies and browsers log paths.
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
from oncebox.server.http.routing import OPERATORS, ApiCall, Routes

routes = Routes()


@routes("GET", "/v1/transports", "listTransports", scopes=OPERATORS)
async def list_transports(call: ApiCall) -> wire.TransportList:
    """List transports in the order in which they are used."""
    found = await call.ledger.read(transports.of_tenant, call.tenant)
    now = call.ledger.clock()
    return wire.TransportList(data=[_transport_schema(each, now) for each in found])


@routes("POST", "/v1/transports/{name}/pause", "pauseTransport", scopes=OPERATORS, body=ReasonBody)
async def pause_transport(call: ApiCall) -> wire.Transport:
    """Pause a transport; sends in flight continue."""
    return await _set_paused(call, paused=True)


@routes(
    "POST", "/v1/transports/{name}/resume", "resumeTransport", scopes=OPERATORS, body=ReasonBody
)
async def resume_transport(call: ApiCall) -> wire.Transport:
    """Resume a paused transport."""
    return await _set_paused(call, paused=False)


@routes("DELETE", "/v1/transports/{name}", "removeTransport", scopes=OPERATORS)
async def remove_transport(call: ApiCall) -> None:
    """Remove a transport with its secrets; refused while a send needs it."""
    await call.ledger.write(transports.remove, call.path["name"], call.audit_entry())


@routes("GET", "/v1/suppressions", "listSuppressions", scopes=OPERATORS, query=ListQuery)
async def list_suppressions(call: ApiCall) -> wire.SuppressionPage:
    """List the addresses that get no mail."""
    found = await call.ledger.read(
        suppressions.page,
        call.tenant,
        after=bytes.fromhex(page_start(call, "")),
        most=call.query.limit + 1,
    )
    return make_page(
        call,
        wire.SuppressionPage,
        found,
        lambda each: _suppression_schema(call, each),
        lambda each: each.fingerprint.hex(),
    )


@routes("PUT", "/v1/suppressions", "addSuppression", scopes=OPERATORS, body=wire.NewSuppression)
async def put_suppression(call: ApiCall) -> wire.Suppression:
    """Suppress mail to an address; a suppressed address keeps its first reason."""
    asked: wire.NewSuppression = call.body
    cipher = call.components.send_cipher
    entry, address = call.audit_entry(asked.why), parse_mailbox(asked.address).key
    new = Suppression(
        fingerprint=cipher.address_fingerprint(call.tenant, address),
        address=cipher.encrypt_address(call.tenant, address),
        reason=SuppressionReason.MANUAL,
        send_id=None,
        created_at=entry.at,
    )
    await call.ledger.write(suppressions.add, new, entry)
    return _suppression_schema(call, await _get_suppression(call, new.fingerprint))


@routes(
    "POST",
    "/v1/suppressions/find",
    "findSuppression",
    scopes=OPERATORS,
    body=wire.FindSuppression,
)
async def find_suppression(call: ApiCall) -> wire.Suppression:
    """Find the suppression of an address."""
    address = parse_mailbox(call.body.address).key
    fingerprint = call.components.send_cipher.address_fingerprint(call.tenant, address)
    return _suppression_schema(call, await _get_suppression(call, fingerprint))


@routes("DELETE", "/v1/suppressions/{id}", "removeSuppression", scopes=OPERATORS)
async def remove_suppression(call: ApiCall) -> wire.Suppression:
    """Remove a suppression, so that the address gets mail again."""
    try:
        fingerprint = bytes.fromhex(call.path["id"])
    except ValueError as error:
        raise NotFound from error
    found = await _get_suppression(call, fingerprint)
    await call.ledger.write(suppressions.remove, fingerprint, call.audit_entry())
    return _suppression_schema(call, found)


async def _set_paused(call: ApiCall, *, paused: bool) -> wire.Transport:
    entry = call.audit_entry(call.body.why)
    found = await call.ledger.write(transports.pause, call.path["name"], entry, paused=paused)
    call.ledger.notify(SENDS)
    return _transport_schema(found, call.ledger.clock())


def _transport_schema(transport: ConfiguredTransport, now: int) -> wire.Transport:
    rate = transport.rate
    return wire.Transport(
        name=transport.name,
        kind=transport.kind,
        position=transport.position,
        failover_group=transport.failover_group,
        rate=None
        if rate is None
        else wire.TransportRate(sends=rate.sends, within=rate.within / 1000),
        state=transport.state(now),
        failures=transport.failures,
        rests_until=transport.rests_until,
        created_at=transport.created_at,
        changed_at=transport.changed_at,
    )


async def _get_suppression(call: ApiCall, fingerprint: bytes) -> Suppression:
    found = await call.ledger.read(suppressions.get, call.tenant, fingerprint)
    if found is None:
        raise NotFound
    return found


def _suppression_schema(call: ApiCall, suppression: Suppression) -> wire.Suppression:
    fingerprint, sealed = suppression.fingerprint, suppression.address
    return wire.Suppression(
        id=fingerprint.hex(),
        address=call.components.send_cipher.decrypt_address(call.tenant, fingerprint, sealed),
        reason=suppression.reason.value,
        send_id=suppression.send_id,
        created_at=suppression.created_at,
    )
