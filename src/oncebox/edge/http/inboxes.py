"""``/v1/inboxes``: addresses, and what came of them."""

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
from oncebox.ledger.inboxes.messages import MESSAGES
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
        id=found.id, state=found.state, missed_at=found.missed_at, **figures(found, found.cursor)
    )


async def _found(call: Call) -> Inbox:
    return await call.rooms.counter.read(inboxes.get, asker(call), call.path["id"])


def _changed(call: Call) -> None:
    """See the change in this process at once, and tell of it."""
    call.rooms.directory.forget(call.path["id"])
    call.rooms.counter.ring(EVENTS)
    call.rooms.counter.ring(MESSAGES)  # who waits for more may have to wait no longer


def _drain(call: Call) -> int | None:
    asked: wire.CloseInbox = call.body
    return None if asked.drain is None else round(asked.drain * 1000)


def _refuse_agents(asked: wire.NewInbox) -> None:
    """Refuse an address that can be guessed, and links that lead into the house.

    Raises: Forbidden.
    """
    if asked.local is not None:
        message = "an agent's addresses are drawn; leave local away, or ask an operator"
        raise Forbidden(message)
    if asked.policy.link_origins:
        message = (
            "an agent's links lead to public hosts; leave link_origins away, or ask an operator"
        )
        raise Forbidden(message)


def _wish(call: Call, asked: wire.NewInbox) -> InboxWish:
    """Return what is wished for; not everything is for agents.

    Raises: Forbidden.
    """
    if not call.key.may(OPERATOR):
        _refuse_agents(asked)
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


def figures(of: Inbox | AttemptStats, messages: int) -> dict[str, Any]:
    """Return the fields that the figures of an inbox and of an attempt share."""
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
)
