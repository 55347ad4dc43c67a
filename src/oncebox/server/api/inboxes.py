"""``/v1/inboxes`` and ``/v1/domains``: mail addresses, and the domains mail is accepted for."""

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import UNSET

from oncebox.errors.http import FieldsInvalid, Forbidden
from oncebox.errors.mail import DomainTaken
from oncebox.ledger.inboxes import inbox_counts, inboxes
from oncebox.ledger.notifications import EVENTS, MESSAGES
from oncebox.ledger.transactions import Transaction
from oncebox.model.inboxes.addresses import Domain, dns_records
from oncebox.model.inboxes.inbox import (
    AttemptInboxStats,
    Inbox,
    InboxCounts,
    InboxOptions,
    InboxPolicy,
    InboxState,
    policy_warnings,
    time_to_first_message,
)
from oncebox.schemas import inboxes as wire
from oncebox.schemas.fields import ListQuery
from oncebox.server.http.cursors import make_page, page_start
from oncebox.server.http.routing import ADMINS, AGENTS, OPERATORS, ApiCall, Routes

routes = Routes()
_NO_LINK_ORIGINS = "an agent's links lead to public hosts; omit link_origins, or ask an operator"


async def notify_created(call: ApiCall) -> None:
    """Wake the sequencer: a creation was recorded as an event."""
    call.ledger.notify(EVENTS)


@routes("GET", "/v1/inboxes", "listInboxes", scopes=AGENTS, query=wire.InboxQuery)
async def list_inboxes(call: ApiCall) -> wire.InboxPage:
    """List inboxes, newest first; an agent sees those its key created."""
    query: wire.InboxQuery = call.query
    found = await call.ledger.read(
        inboxes.newest,
        call.requester,
        attempt_id=None if query.attempt_id is UNSET else query.attempt_id,
        state=None if query.state is UNSET else query.state,
        before=page_start(call),
        most=query.limit + 1,
    )
    return make_page(call, wire.InboxPage, found, _inbox_schema)


@routes.create("/v1/inboxes", "makeInbox", scopes=AGENTS, body=wire.NewInbox, after=notify_created)
def create_inbox(call: ApiCall, tx: Transaction) -> wire.CreatedInbox:
    """Create an inbox, or get the one the attempt already has for this label."""
    (created,) = _allocate(call, tx, [call.body])
    return created


@routes.create(
    "/v1/inboxes/batch", "makeInboxes", scopes=AGENTS, body=wire.NewInboxes, after=notify_created
)
def create_inboxes(call: ApiCall, tx: Transaction) -> wire.CreatedInboxes:
    """Create several inboxes, all or none."""
    asked: Sequence[wire.NewInbox] = call.body.inboxes
    most = call.components.settings.inboxes.batch
    if len(asked) > most:
        raise FieldsInvalid(
            f"send at most {most} at once (ONCEBOX_INBOXES__BATCH)", pointer="/inboxes"
        )
    return wire.CreatedInboxes(data=_allocate(call, tx, asked))


@routes("GET", "/v1/inboxes/{id}", "getInbox", scopes=AGENTS)
async def get_inbox(call: ApiCall) -> wire.Inbox:
    """Get an inbox."""
    return _inbox_schema(await _find_inbox(call))


@routes("POST", "/v1/inboxes/{id}/close", "closeInbox", scopes=AGENTS, body=wire.CloseInbox)
async def close_inbox(call: ApiCall) -> wire.Inbox:
    """Drain an inbox, then close it; repeating this changes nothing."""
    return await _end(call, call.components.inboxes.close)


@routes("POST", "/v1/inboxes/{id}/rotate", "rotateInbox", scopes=AGENTS, body=wire.CloseInbox)
async def rotate_inbox(call: ApiCall) -> wire.Inbox:
    """Get a new address for the same attempt and label; a repeat gets the same one."""
    return await _end(call, call.components.inboxes.rotate)


@routes(
    "PATCH",
    "/v1/inboxes/{id}/policy",
    "changeInboxPolicy",
    scopes=AGENTS,
    body=wire.PolicyChange,
)
async def change_policy(call: ApiCall) -> wire.Inbox:
    """Change the policy of an inbox, for mail that arrives from now on; omitted fields stay."""
    changes = {
        name: value
        for name, value in msgspec.structs.asdict(call.body).items()
        if value is not UNSET
    }
    if not call.requester.sees_all and changes.get("link_origins"):
        raise Forbidden(_NO_LINK_ORIGINS)
    inbox = await call.ledger.write(
        call.components.inboxes.change_policy,
        call.requester,
        call.path["id"],
        changes,
        call.audit_entry(),
    )
    return _inbox_schema(inbox)


@routes("GET", "/v1/inboxes/{id}/stats", "getInboxStats", scopes=AGENTS)
async def inbox_stats(call: ApiCall) -> wire.InboxStats:
    """Get the statistics of an inbox."""
    await call.components.inbox_counter.store()
    found, counts = await call.ledger.read(
        inbox_counts.inbox_stats, call.requester, call.path["id"]
    )
    return wire.InboxStats(
        id=found.id,
        state=found.state,
        missed_at=found.missed_at,
        **shared_figures(found, found.cursor, counts),
    )


async def _find_inbox(call: ApiCall) -> Inbox:
    return await call.ledger.read(inboxes.get, call.requester, call.path["id"])


async def _end(call: ApiCall, change: Callable[..., Inbox]) -> wire.Inbox:
    """Close or rotate an inbox; the change is visible in this process at once."""
    asked: wire.CloseInbox = call.body
    drain = None if asked.drain is None else round(asked.drain * 1000)
    inbox = await call.ledger.write(
        change, call.requester, call.path["id"], drain, call.ledger.clock()
    )
    call.components.recipients.invalidate(call.path["id"])
    call.ledger.notify(EVENTS, MESSAGES)  # a wait for more mail may end now
    return _inbox_schema(inbox)


def _allocate(
    call: ApiCall, tx: Transaction, asked: Sequence[wire.NewInbox]
) -> list[wire.CreatedInbox]:
    options = [_inbox_options(call, each) for each in asked]
    allocated = call.components.inboxes.allocate(tx, call.requester, options, call.ledger.clock())
    return [
        wire.CreatedInbox(created=each.new, **msgspec.structs.asdict(_inbox_schema(each.inbox)))
        for each in allocated
    ]


def _check_agent_options(asked: wire.NewInbox) -> None:
    """Refuse an address that can be guessed, and links to internal hosts.

    Raises: Forbidden.
    """
    if asked.local is not None:
        raise Forbidden("an agent's addresses are random; omit local, or ask an operator")
    if asked.policy.link_origins:
        raise Forbidden(_NO_LINK_ORIGINS)


def _inbox_options(call: ApiCall, asked: wire.NewInbox) -> InboxOptions:
    """Return the options of a new inbox; agents may not set all of them.

    Raises: Forbidden.
    """
    if not call.requester.sees_all:
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


def _inbox_schema(inbox: Inbox) -> wire.Inbox:
    values = msgspec.structs.asdict(inbox) | {
        "policy": msgspec.to_builtins(inbox.policy),
        "warnings": policy_warnings(inbox.policy),
        "drains_until": inbox.due_at if inbox.state is InboxState.DRAINING else None,
    }
    return msgspec.convert(values, wire.Inbox)


def shared_figures(
    of: Inbox | AttemptInboxStats, messages: int, counts: InboxCounts
) -> dict[str, Any]:
    """Return the statistics that inboxes and attempts share."""
    first = time_to_first_message(of)
    return {
        "messages": messages,
        "duplicates": of.duplicates,
        "matched": of.matched,
        "created_at": of.created_at,
        "first_message_at": of.first_message_at,
        "last_message_at": of.last_message_at,
        "time_to_first_message": None if first is None else first / 1000,
        **msgspec.structs.asdict(counts),
    }


@routes("GET", "/v1/domains", "listDomains", scopes=OPERATORS, query=ListQuery)
async def list_domains(call: ApiCall) -> wire.DomainPage:
    """List the domains mail is accepted for, by name."""
    after = page_start(call, "")
    domains = await call.ledger.read(call.components.inboxes.domains, call.tenant)
    found = [each for each in domains if each.name > after]
    return make_page(
        call, wire.DomainPage, found, partial(_domain_schema, call), attrgetter("name")
    )


async def _check_domain_proof(call: ApiCall) -> None:
    """Require a proof by DNS; the keys of the installation's own tenant are the operator's."""
    if not _is_operator(call):
        await call.components.domain_proofs.check(call.tenant, call.body.name)


@routes.create(
    "/v1/domains",
    "addDomain",
    scopes=ADMINS,
    body=wire.NewDomain,
    before=_check_domain_proof,
    after=notify_created,
)
def create_domain(call: ApiCall, tx: Transaction) -> wire.Domain:
    """Accept mail for a domain; the answer has the DNS records to set."""
    asked: wire.NewDomain = call.body
    service = call.components.inboxes
    try:
        domain = service.add_domain(
            tx, asked.name, call.requester, call.audit_entry(), catch_all=asked.catch_all
        )
    except DomainTaken as error:
        if _is_operator(call) or service.has_domain(tx, call.tenant, asked.name):
            raise
        raise call.components.domain_proofs.unproven(call.tenant, asked.name) from error
    return _domain_schema(call, domain)


def _is_operator(call: ApiCall) -> bool:
    return call.tenant == call.components.settings.tenant


@routes("DELETE", "/v1/domains/{name}", "removeDomain", scopes=ADMINS)
async def remove_domain(call: ApiCall) -> None:
    """Stop accepting mail for a domain; its inboxes and messages stay."""
    await call.ledger.write(
        call.components.inboxes.remove_domain, call.path["name"], call.audit_entry()
    )
    call.components.recipients.invalidate()


def _domain_schema(call: ApiCall, domain: Domain) -> wire.Domain:
    host = call.components.settings.inboxes.host or f"mail.{domain.name}"
    return wire.Domain(
        name=domain.name,
        catch_all=domain.catch_all,
        is_default=call.components.inboxes.is_default(domain.tenant, domain.name),
        created_at=domain.created_at,
        records=msgspec.convert(
            dns_records(domain.name, host), list[wire.DnsRecord], from_attributes=True
        ),
    )
