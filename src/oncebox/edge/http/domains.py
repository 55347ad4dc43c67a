"""``/v1/domains``: which domains mail is taken for."""

from typing import Any

from oncebox.edge.http.call import Call
from oncebox.edge.http.inboxes import asker
from oncebox.edge.http.pages import page, place
from oncebox.edge.http.route import ADMIN, OPERATOR, Creation, Route
from oncebox.ledger.events.outbox import EVENTS
from oncebox.model.domain import Domain, records
from oncebox.wire import domains as wire
from oncebox.wire.fields import ListQuery

_LIST = "/v1/domains"
_ONE = "/v1/domains/{name}"
_SEE = frozenset({OPERATOR})
_CHANGE = frozenset({ADMIN})


async def list_(call: Call) -> wire.DomainPage:
    """Return domains by name."""
    after = place(call, _LIST, "")
    all_ = await call.rooms.counter.read(call.rooms.postmaster.domains, call.tenant)
    found = [each for each in all_ if each.name > after][: call.query.limit + 1]
    return page(
        call,
        _LIST,
        wire.DomainPage,
        found,
        lambda each: _shown(call, each),
        lambda each: each.name,
    )


def create(call: Call) -> Creation:
    """Take mail for a domain."""
    asked: wire.NewDomain = call.body

    def verb(tx: Any) -> wire.Domain:
        postmaster, deed = call.rooms.postmaster, call.deed()
        domain = postmaster.add_domain(tx, asked.name, asker(call), deed, catch_all=asked.catch_all)
        return _shown(call, domain)

    return verb


async def created(call: Call) -> None:
    """Tell of the inbox that may have come with a domain."""
    call.rooms.counter.ring(EVENTS)


async def remove(call: Call) -> None:
    """Take no more mail for a domain."""
    postmaster = call.rooms.postmaster
    await call.rooms.counter.write(postmaster.remove_domain, call.path["name"], call.deed())
    call.rooms.directory.forget()


def _shown(call: Call, domain: Domain) -> wire.Domain:
    host = call.rooms.settings.inboxes.host or f"mail.{domain.name}"
    return wire.Domain(
        name=domain.name,
        catch_all=domain.catch_all,
        is_default=call.rooms.postmaster.is_default(domain.tenant, domain.name),
        created_at=domain.created_at,
        records=[
            wire.DnsRecord(type=each.type, name=each.name, value=each.value)
            for each in records(domain.name, host)
        ],
    )


ROUTES = (
    Route(
        method="GET",
        path=_LIST,
        name="listDomains",
        summary="Show the domains that mail is taken for, by name.",
        scopes=_SEE,
        query=ListQuery,
        answer=wire.DomainPage,
        handler=list_,
    ),
    Route(
        method="POST",
        path=_LIST,
        name="addDomain",
        summary="Take mail for a domain; the records to set in the DNS are in the answer.",
        scopes=_CHANGE,
        body=wire.NewDomain,
        answer=wire.Domain,
        status=201,
        creator=create,
        after=created,
    ),
    Route(
        method="DELETE",
        path=_ONE,
        name="removeDomain",
        summary="Take no more mail for a domain; its inboxes and messages stay.",
        scopes=_CHANGE,
        status=204,
        handler=remove,
    ),
)
