"""``/v1/inboxes`` and ``/v1/domains``: mail addresses, and the domains mail is accepted for."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from oncebox.errors.http import FieldsInvalid, Forbidden
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.inboxes import inboxes
from oncebox.ledger.inboxes.allocation import AllocatedInbox
from oncebox.ledger.notifications import EVENTS, MESSAGES
from oncebox.model.inboxes.addresses import Domain, dns_records
from oncebox.model.inboxes.inbox import (
    AttemptInboxStats,
    Inbox,
    InboxOptions,
    InboxPolicy,
    InboxState,
    time_to_first_message,
)
from oncebox.schemas import inboxes as wire
from oncebox.schemas.fields import ListQuery
from oncebox.server.http.cursors import AFTER_ALL_IDS, make_page, page_start
from oncebox.server.http.routing import ADMIN, AGENT, OPERATOR, ApiCall, CreateFunction, Route

_INBOXES_PATH = "/v1/inboxes"
_INBOX_PATH = "/v1/inboxes/{id}"
_INBOX_SCOPES = frozenset({AGENT, OPERATOR})


def requester(call: ApiCall) -> Requester:
    """Return who asks: an operator sees every inbox, an agent those that its key made."""
    return Requester(tenant=call.tenant, key=call.key.id, sees_all=call.key.may(OPERATOR))


def create_inbox(call: ApiCall) -> CreateFunction:
    """Make an inbox, or return the one that the attempt has."""
    wishes = [_inbox_options(call, call.body)]

    def verb(tx: Any) -> wire.CreatedInbox:
        (made,) = call.components.inboxes.allocate(tx, requester(call), wishes, call.now)
        return _created_inbox_schema(made)

    return verb


def create_inboxes(call: ApiCall) -> CreateFunction:
    """Make inboxes, all or none."""
    asked: Sequence[wire.NewInbox] = call.body.inboxes
    most = call.components.settings.inboxes.batch
    if len(asked) > most:
        raise FieldsInvalid(
            f"send at most {most} at once (ONCEBOX_INBOXES__BATCH)", pointer="/inboxes"
        )
    wishes = [_inbox_options(call, each) for each in asked]

    def verb(tx: Any) -> wire.CreatedInboxes:
        made = call.components.inboxes.allocate(tx, requester(call), wishes, call.now)
        return wire.CreatedInboxes(data=[_created_inbox_schema(each) for each in made])

    return verb


async def notify_inbox_created(call: ApiCall) -> None:
    """Tell of it."""
    call.components.ledger.notify(EVENTS)


async def list_inboxes(call: ApiCall) -> wire.InboxPage:
    """Return inboxes, newest first."""
    query: wire.InboxQuery = call.query
    found = await call.components.ledger.read(
        inboxes.newest,
        requester(call),
        attempt_id=None if query.attempt_id is UNSET else query.attempt_id,
        state=None if query.state is UNSET else query.state,
        before=page_start(call, _INBOXES_PATH, AFTER_ALL_IDS),
        most=query.limit + 1,
    )
    return make_page(
        call, _INBOXES_PATH, wire.InboxPage, found, _inbox_schema, lambda each: each.id
    )


async def get_inbox(call: ApiCall) -> wire.Inbox:
    """Return one inbox."""
    return _inbox_schema(await _find_inbox(call))


async def close_inbox(call: ApiCall) -> wire.Inbox:
    """Let an inbox drain and close."""
    closed = await call.components.ledger.write(
        call.components.inboxes.close, requester(call), call.path["id"], _drain_time(call), call.now
    )
    _notify_changed(call)
    return _inbox_schema(closed)


async def rotate_inbox(call: ApiCall) -> wire.Inbox:
    """Give an attempt a new address, and let the old one drain."""
    new = await call.components.ledger.write(
        call.components.inboxes.rotate,
        requester(call),
        call.path["id"],
        _drain_time(call),
        call.now,
    )
    _notify_changed(call)
    return _inbox_schema(new)


async def inbox_stats(call: ApiCall) -> wire.InboxStats:
    """Return what came of an inbox."""
    found = await _find_inbox(call)
    return wire.InboxStats(
        id=found.id,
        state=found.state,
        missed_at=found.missed_at,
        **shared_figures(found, found.cursor),
    )


async def _find_inbox(call: ApiCall) -> Inbox:
    return await call.components.ledger.read(inboxes.get, requester(call), call.path["id"])


def _notify_changed(call: ApiCall) -> None:
    """See the change in this process at once, and tell of it."""
    call.components.recipients.invalidate(call.path["id"])
    call.components.ledger.notify(EVENTS)
    call.components.ledger.notify(MESSAGES)  # who waits for more may have to wait no longer


def _drain_time(call: ApiCall) -> int | None:
    asked: wire.CloseInbox = call.body
    return None if asked.drain is None else round(asked.drain * 1000)


def _check_agent_options(asked: wire.NewInbox) -> None:
    """Refuse an address that can be guessed, and links that lead into the house.

    Raises: Forbidden.
    """
    if asked.local is not None:
        raise Forbidden("an agent's addresses are drawn; leave local away, or ask an operator")
    if asked.policy.link_origins:
        raise Forbidden(
            "an agent's links lead to public hosts; leave link_origins away, or ask an operator"
        )


def _inbox_options(call: ApiCall, asked: wire.NewInbox) -> InboxOptions:
    """Return what is wished for; not everything is for agents.

    Raises: Forbidden.
    """
    if not call.key.may(OPERATOR):
        _check_agent_options(asked)
    return InboxOptions(
        attempt_id=asked.attempt_id,
        label=asked.label,
        domain=asked.domain,
        local=asked.local,
        lifetime=None if asked.lifetime is None else round(asked.lifetime * 1000),
        metadata=asked.metadata,
        policy=msgspec.convert(asked.policy, InboxPolicy, from_attributes=True),
    )


def _created_inbox_schema(made: AllocatedInbox) -> wire.CreatedInbox:
    return wire.CreatedInbox(created=made.new, **msgspec.structs.asdict(_inbox_schema(made.inbox)))


def _inbox_schema(inbox: Inbox) -> wire.Inbox:
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


def shared_figures(of: Inbox | AttemptInboxStats, messages: int) -> dict[str, Any]:
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


INBOX_ROUTES = (
    Route(
        method="GET",
        path=_INBOXES_PATH,
        name="listInboxes",
        summary="Show inboxes, newest first; an agent sees those that its key made.",
        scopes=_INBOX_SCOPES,
        query=wire.InboxQuery,
        answer=wire.InboxPage,
        handler=list_inboxes,
    ),
    Route(
        method="POST",
        path=_INBOXES_PATH,
        name="makeInbox",
        summary="Make an inbox, or get the one that the attempt has of this label.",
        scopes=_INBOX_SCOPES,
        body=wire.NewInbox,
        answer=wire.CreatedInbox,
        status=201,
        creator=create_inbox,
        after=notify_inbox_created,
    ),
    Route(
        method="POST",
        path=f"{_INBOXES_PATH}/batch",
        name="makeInboxes",
        summary="Make several inboxes, all or none.",
        scopes=_INBOX_SCOPES,
        body=wire.NewInboxes,
        answer=wire.CreatedInboxes,
        status=201,
        creator=create_inboxes,
        after=notify_inbox_created,
    ),
    Route(
        method="GET",
        path=_INBOX_PATH,
        name="getInbox",
        summary="Show one inbox.",
        scopes=_INBOX_SCOPES,
        answer=wire.Inbox,
        handler=get_inbox,
    ),
    Route(
        method="POST",
        path=f"{_INBOX_PATH}/close",
        name="closeInbox",
        summary="Take mail for a while longer, then close; a second time changes nothing.",
        scopes=_INBOX_SCOPES,
        body=wire.CloseInbox,
        answer=wire.Inbox,
        handler=close_inbox,
    ),
    Route(
        method="POST",
        path=f"{_INBOX_PATH}/rotate",
        name="rotateInbox",
        summary="Get a new address for the same attempt and label; a repeat gets the same one.",
        scopes=_INBOX_SCOPES,
        body=wire.CloseInbox,
        answer=wire.Inbox,
        handler=rotate_inbox,
    ),
    Route(
        method="GET",
        path=f"{_INBOX_PATH}/stats",
        name="getInboxStats",
        summary="Show what came of an inbox.",
        scopes=_INBOX_SCOPES,
        answer=wire.InboxStats,
        handler=inbox_stats,
    ),
)


_DOMAINS_PATH = "/v1/domains"
_DOMAIN_PATH = "/v1/domains/{name}"
_DOMAIN_READ_SCOPES = frozenset({OPERATOR})
_DOMAIN_WRITE_SCOPES = frozenset({ADMIN})


async def list_domains(call: ApiCall) -> wire.DomainPage:
    """Return domains by name."""
    after = page_start(call, _DOMAINS_PATH, "")
    all_ = await call.components.ledger.read(call.components.inboxes.domains, call.tenant)
    found = [each for each in all_ if each.name > after][: call.query.limit + 1]
    return make_page(
        call,
        _DOMAINS_PATH,
        wire.DomainPage,
        found,
        lambda each: _domain_schema(call, each),
        lambda each: each.name,
    )


def create_domain(call: ApiCall) -> CreateFunction:
    """Take mail for a domain."""
    asked: wire.NewDomain = call.body

    def verb(tx: Any) -> wire.Domain:
        postmaster, deed = call.components.inboxes, call.audit_entry()
        domain = postmaster.add_domain(
            tx, asked.name, requester(call), deed, catch_all=asked.catch_all
        )
        return _domain_schema(call, domain)

    return verb


async def notify_domain_created(call: ApiCall) -> None:
    """Tell of the inbox that may have come with a domain."""
    call.components.ledger.notify(EVENTS)


async def remove_domain(call: ApiCall) -> None:
    """Take no more mail for a domain."""
    postmaster = call.components.inboxes
    await call.components.ledger.write(
        postmaster.remove_domain, call.path["name"], call.audit_entry()
    )
    call.components.recipients.invalidate()


def _domain_schema(call: ApiCall, domain: Domain) -> wire.Domain:
    host = call.components.settings.inboxes.host or f"mail.{domain.name}"
    return wire.Domain(
        name=domain.name,
        catch_all=domain.catch_all,
        is_default=call.components.inboxes.is_default(domain.tenant, domain.name),
        created_at=domain.created_at,
        records=[
            wire.DnsRecord(type=each.type, name=each.name, value=each.value)
            for each in dns_records(domain.name, host)
        ],
    )


DOMAIN_ROUTES = (
    Route(
        method="GET",
        path=_DOMAINS_PATH,
        name="listDomains",
        summary="Show the domains that mail is taken for, by name.",
        scopes=_DOMAIN_READ_SCOPES,
        query=ListQuery,
        answer=wire.DomainPage,
        handler=list_domains,
    ),
    Route(
        method="POST",
        path=_DOMAINS_PATH,
        name="addDomain",
        summary="Take mail for a domain; the records to set in the DNS are in the answer.",
        scopes=_DOMAIN_WRITE_SCOPES,
        body=wire.NewDomain,
        answer=wire.Domain,
        status=201,
        creator=create_domain,
        after=notify_domain_created,
    ),
    Route(
        method="DELETE",
        path=_DOMAIN_PATH,
        name="removeDomain",
        summary="Take no more mail for a domain; its inboxes and messages stay.",
        scopes=_DOMAIN_WRITE_SCOPES,
        status=204,
        handler=remove_domain,
    ),
)
