"""``/v1/inboxes`` and ``/v1/attempts``: addresses, and what came of them."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from oncebox.edge.http.call import Call
from oncebox.edge.http.pages import END, page, place
from oncebox.edge.http.route import AGENT, OPERATOR, Creation, Route
from oncebox.ledger.events.outbox import EVENTS
from oncebox.ledger.inboxes import inboxes
from oncebox.ledger.inboxes.inboxes import Asker
from oncebox.ledger.inboxes.postmaster import Made
from oncebox.model.inbox import Inbox, InboxPolicy, InboxState, InboxWish
from oncebox.model.inbox_stats import AttemptStats, time_to_first_message
from oncebox.refusals import FieldsInvalid, Forbidden
from oncebox.wire import inboxes as wire

_LIST = "/v1/inboxes"
_ONE = "/v1/inboxes/{id}"
_SCOPES = frozenset({AGENT, OPERATOR})


def asker(call: Call) -> Asker:
    """Return who asks: an operator sees every inbox, an agent those that its key made."""
    return Asker(tenant=call.tenant, key=call.key.id, sees_all=call.key.may(OPERATOR))


def create(call: Call) -> Creation:
    """Make an inbox, or return the one that the attempt has."""
    wishes = [_wish(call, call.body)]

    def verb(tx: Any) -> wire.MadeInbox:
        (made,) = call.rooms.postmaster.make(tx, asker(call), wishes, call.now)
        return _made(made)

    return verb


def create_many(call: Call) -> Creation:
    """Make inboxes, all or none."""
    asked: Sequence[wire.NewInbox] = call.body.inboxes
    most = call.rooms.settings.inboxes.batch
    if len(asked) > most:
        message = f"send at most {most} at once (ONCEBOX_INBOXES__BATCH)"
        raise FieldsInvalid(message, pointer="/inboxes")
    wishes = [_wish(call, each) for each in asked]

    def verb(tx: Any) -> wire.MadeInboxes:
        made = call.rooms.postmaster.make(tx, asker(call), wishes, call.now)
        return wire.MadeInboxes(data=[_made(each) for each in made])

    return verb


async def created(call: Call) -> None:
    """Tell of it."""
    call.rooms.counter.ring(EVENTS)


async def list_(call: Call) -> wire.InboxPage:
    """Return inboxes, newest first."""
    query: wire.InboxQuery = call.query
    found = await call.rooms.counter.read(
        inboxes.newest,
        asker(call),
        attempt_id=None if query.attempt_id is UNSET else query.attempt_id,
        state=None if query.state is UNSET else query.state,
        before=place(call, _LIST, END),
        most=query.limit + 1,
    )
    return page(call, _LIST, wire.InboxPage, found, _shown, lambda each: each.id)


async def get(call: Call) -> wire.Inbox:
    """Return one inbox."""
    return _shown(await _found(call))


async def close(call: Call) -> wire.Inbox:
    """Let an inbox drain and close."""
    closed = await call.rooms.counter.write(
        call.rooms.postmaster.close, asker(call), call.path["id"], _drain(call), call.now
    )
    _changed(call)
    return _shown(closed)


async def rotate(call: Call) -> wire.Inbox:
    """Give an attempt a new address, and let the old one drain."""
    new = await call.rooms.counter.write(
        call.rooms.postmaster.rotate, asker(call), call.path["id"], _drain(call), call.now
    )
    _changed(call)
    return _shown(new)


async def stats(call: Call) -> wire.InboxStats:
    """Return what came of an inbox."""
    found = await _found(call)
    return wire.InboxStats(
        id=found.id, state=found.state, missed_at=found.missed_at, **_figures(found, found.cursor)
    )


async def attempt_stats(call: Call) -> wire.AttemptStats:
    """Return what came of an attempt."""
    found = await call.rooms.counter.read(inboxes.attempt_stats, asker(call), call.path["id"])
    return wire.AttemptStats(
        attempt_id=found.attempt_id,
        inboxes=sum(found.states.values()),
        states={state.value: found.states.get(state, 0) for state in InboxState},
        missed=found.missed,
        **_figures(found, found.messages),
    )


async def _found(call: Call) -> Inbox:
    return await call.rooms.counter.read(inboxes.get, asker(call), call.path["id"])


def _changed(call: Call) -> None:
    """See the change in this process at once, and tell of it."""
    call.rooms.directory.forget(call.path["id"])
    call.rooms.counter.ring(EVENTS)


def _drain(call: Call) -> int | None:
    asked: wire.CloseInbox = call.body
    return None if asked.drain is None else round(asked.drain * 1000)


def _wish(call: Call, asked: wire.NewInbox) -> InboxWish:
    """Return what is wished for; an address that can be guessed is not for agents.

    Raises: Forbidden.
    """
    if asked.local is not None and not call.key.may(OPERATOR):
        message = "an agent's addresses are drawn; leave local away, or ask an operator"
        raise Forbidden(message)
    return InboxWish(
        attempt_id=asked.attempt_id,
        label=asked.label,
        domain=asked.domain,
        local=asked.local,
        lifetime=None if asked.lifetime is None else round(asked.lifetime * 1000),
        metadata=asked.metadata,
        policy=msgspec.convert(asked.policy, InboxPolicy, from_attributes=True),
    )


def _made(made: Made) -> wire.MadeInbox:
    return wire.MadeInbox(created=made.new, **msgspec.structs.asdict(_shown(made.inbox)))


def _shown(inbox: Inbox) -> wire.Inbox:
    return wire.Inbox(
        id=inbox.id,
        email=inbox.email,
        attempt_id=inbox.attempt_id,
        label=inbox.label,
        state=inbox.state,
        created_at=inbox.created_at,
        active_until=inbox.active_until,
        drains_until=inbox.due_at if inbox.state is InboxState.DRAINING else None,
        ended_at=inbox.ended_at,
        cursor=inbox.cursor,
        metadata=inbox.metadata,
        policy=msgspec.convert(msgspec.to_builtins(inbox.policy), wire.Policy),
        rotated_from=inbox.rotated_from,
        rotated_to=inbox.rotated_to,
    )


def _figures(of: Inbox | AttemptStats, messages: int) -> dict[str, Any]:
    first = time_to_first_message(of)
    return {
        "messages": messages,
        "duplicates": of.duplicates,
        "matched": of.matched,
        "created_at": of.created_at,
        "first_message_at": of.first_message_at,
        "last_message_at": of.last_message_at,
        "time_to_first_message": None if first is None else first / 1000,
    }


ROUTES = (
    Route(
        method="GET",
        path=_LIST,
        name="listInboxes",
        summary="Show inboxes, newest first; an agent sees those that its key made.",
        scopes=_SCOPES,
        query=wire.InboxQuery,
        answer=wire.InboxPage,
        handler=list_,
    ),
    Route(
        method="POST",
        path=_LIST,
        name="makeInbox",
        summary="Make an inbox, or get the one that the attempt has of this label.",
        scopes=_SCOPES,
        body=wire.NewInbox,
        answer=wire.MadeInbox,
        status=201,
        creator=create,
        after=created,
    ),
    Route(
        method="POST",
        path=f"{_LIST}/batch",
        name="makeInboxes",
        summary="Make several inboxes, all or none.",
        scopes=_SCOPES,
        body=wire.NewInboxes,
        answer=wire.MadeInboxes,
        status=201,
        creator=create_many,
        after=created,
    ),
    Route(
        method="GET",
        path=_ONE,
        name="getInbox",
        summary="Show one inbox.",
        scopes=_SCOPES,
        answer=wire.Inbox,
        handler=get,
    ),
    Route(
        method="POST",
        path=f"{_ONE}/close",
        name="closeInbox",
        summary="Take mail for a while longer, then close; a second time changes nothing.",
        scopes=_SCOPES,
        body=wire.CloseInbox,
        answer=wire.Inbox,
        handler=close,
    ),
    Route(
        method="POST",
        path=f"{_ONE}/rotate",
        name="rotateInbox",
        summary="Get a new address for the same attempt and label; a repeat gets the same one.",
        scopes=_SCOPES,
        body=wire.CloseInbox,
        answer=wire.Inbox,
        handler=rotate,
    ),
    Route(
        method="GET",
        path=f"{_ONE}/stats",
        name="getInboxStats",
        summary="Show what came of an inbox.",
        scopes=_SCOPES,
        answer=wire.InboxStats,
        handler=stats,
    ),
    Route(
        method="GET",
        path="/v1/attempts/{id}/stats",
        name="getAttemptStats",
        summary="Show what came of all inboxes of an attempt.",
        scopes=_SCOPES,
        answer=wire.AttemptStats,
        handler=attempt_stats,
    ),
)
