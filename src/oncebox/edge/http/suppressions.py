"""``/v1/suppressions``: addresses that get no mail, for operators.

An address never stands in a path: paths are written down by proxies and browsers.
"""

from oncebox.edge.http.call import Call
from oncebox.edge.http.pages import page, place
from oncebox.edge.http.route import OPERATOR, Route
from oncebox.errors import NotFound
from oncebox.ledger.sends import suppressions
from oncebox.ledger.sends.suppressions import Reason, Suppression
from oncebox.model.mailbox import read_mailbox
from oncebox.wire import transports as wire
from oncebox.wire.fields import ListQuery

_LIST = "/v1/suppressions"
_SCOPES = frozenset({OPERATOR})


async def list_(call: Call) -> wire.SuppressionPage:
    """Return addresses that get no mail."""
    found = await call.rooms.counter.read(
        suppressions.page,
        call.tenant,
        after=bytes.fromhex(place(call, _LIST, "")),
        most=call.query.limit + 1,
    )
    return page(
        call,
        _LIST,
        wire.SuppressionPage,
        found,
        lambda each: _shown(call, each),
        lambda each: each.mark.hex(),
    )


async def put(call: Call) -> wire.Suppression:
    """Put an address on the list; one that is there stays there for its first reason."""
    asked: wire.NewSuppression = call.body
    deed, address = call.deed(asked.why), read_mailbox(asked.address).key
    new = Suppression(
        mark=call.rooms.sendbox.mark(call.tenant, address),
        address=call.rooms.sendbox.seal_address(call.tenant, address),
        reason=Reason.MANUAL,
        send_id=None,
        created_at=deed.at,
    )
    await call.rooms.counter.write(suppressions.add, new, deed)
    return _shown(call, await _found(call, new.mark))


async def find(call: Call) -> wire.Suppression:
    """Return one address, if it is on the list."""
    address = read_mailbox(call.body.address).key
    return _shown(call, await _found(call, call.rooms.sendbox.mark(call.tenant, address)))


async def remove(call: Call) -> wire.Suppression:
    """Take an address off the list."""
    found = await _found(call, _mark(call.path["id"]))
    await call.rooms.counter.write(suppressions.remove, found.mark, call.deed())
    return _shown(call, found)


async def _found(call: Call, mark: bytes) -> Suppression:
    found = await call.rooms.counter.read(suppressions.get, call.tenant, mark)
    if found is None:
        raise NotFound
    return found


def _mark(id_: str) -> bytes:
    try:
        return bytes.fromhex(id_)
    except ValueError as error:
        raise NotFound from error


def _shown(call: Call, suppression: Suppression) -> wire.Suppression:
    mark, sealed = suppression.mark, suppression.address
    return wire.Suppression(
        id=mark.hex(),
        address=call.rooms.sendbox.open_address(call.tenant, mark, sealed),
        reason=suppression.reason.value,
        send_id=suppression.send_id,
        created_at=suppression.created_at,
    )


ROUTES = (
    Route(
        method="GET",
        path=_LIST,
        name="listSuppressions",
        summary="Show addresses that get no mail.",
        scopes=_SCOPES,
        query=ListQuery,
        answer=wire.SuppressionPage,
        handler=list_,
    ),
    Route(
        method="PUT",
        path=_LIST,
        name="addSuppression",
        summary="Let an address get no mail; a second time changes nothing.",
        scopes=_SCOPES,
        body=wire.NewSuppression,
        answer=wire.Suppression,
        handler=put,
    ),
    Route(
        method="POST",
        path=f"{_LIST}/find",
        name="findSuppression",
        summary="Show whether an address gets no mail.",
        scopes=_SCOPES,
        body=wire.FindSuppression,
        answer=wire.Suppression,
        handler=find,
    ),
    Route(
        method="DELETE",
        path=f"{_LIST}/{{id}}",
        name="removeSuppression",
        summary="Let an address get mail again.",
        scopes=_SCOPES,
        answer=wire.Suppression,
        handler=remove,
    ),
)
