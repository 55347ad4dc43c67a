"""Who may do what: every key, every route, every tenant, made from the table of routes."""

import itertools
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from oncebox.server.api import openapi
from oncebox.server.application import ROUTES
from oncebox.server.http.routing import ACCEPT, ADMIN, AGENT, METRICS, OPERATOR, WORKER, Route
from tests.support.api import OTHER, Api
from tests.support.finds import bring, code
from tests.support.letters import mail
from tests.support.sorter import Sorter

#: keys as they are made, and the words that routes have for them
KINDS: dict[str, tuple[tuple[str, ...], set[str]]] = {
    "admin": (("admin",), {ADMIN, OPERATOR, AGENT, METRICS, WORKER, ACCEPT}),
    "operator": (("operator",), {OPERATOR}),
    "agent": (("agent",), {AGENT}),
    "metrics": (("metrics",), {METRICS}),
    "worker": (("worker:shop",), {WORKER}),
    "worker-elsewhere": (("worker:elsewhere",), {WORKER}),
    "accept": (("accept:shop",), {ACCEPT}),
}
CLOSED = [route for route in ROUTES if not (route.is_open or route.opened_by)]
MAIL = {"sender": "shop@example.com", "to": "ann@example.org", "text": "Thank you."}
#: nobody listens there
MAILBOX = {"url": "imaps://ann@127.0.0.1:1", "password": "s3cret"}
#: bodies that fit, by type; every other body has no field that must be given
BODIES: dict[str, Any] = {
    "NewKey": {"scopes": ["agent"]},
    "NewTenant": {"name": "third"},
    "NewSource": {"name": "new", "scheme": "none", "allow_unsigned": True},
    "NewMailbox": {"name": "new", **MAILBOX},
    "ChangedMailbox": MAILBOX,
    "NewSecret": {"secret": "s3cret"},
    "ReplayDelivery": {"why": "because"},
    "HoldDelivery": {"why": "because"},
    "SubmitDelivery": {"source": "shop"},
    "SubmitDeliveries": {"deliveries": [{"source": "shop"}]},
    "ClaimWork": {"request_key": "request-1"},
    "Heartbeat": {"fence": 1},
    "CompleteTry": {"fence": 1},
    "FailTry": {"fence": 1, "error": "oops"},
    "BeginEffect": {"fence": 1},
    "FinishEffect": {"fence": 1, "state": "done"},
    "BeginPolls": {"worker": "loop-0001"},
    "ListedPage": {"fence": 1, "version": 0, "cursor": "null"},
    "ClaimListed": {"fence": 1, "worker": "loop-0001", "request_key": "request-1"},
    "RenewPolls": {"fence": 1},
    "FailedPoll": {"fence": 1, "code": "timeout"},
    "EndPolls": {"fence": 1},
    "NewDomain": {"name": "new.test"},
    "ReleaseArtifact": {"why": "because"},
    "NewInboxes": {"inboxes": [{}]},
    "DoneAction": {"fence": 1},
    "NotDoneAction": {"fence": 1},
    "HeartbeatAction": {"fence": 1},
    "WaitRequest": {"kind": "code"},
    "WaitAnyRequest": {"kind": "code", "inboxes": ["inb_nothing"]},
    "SendRequest": MAIL,
    "BatchRequest": {"sends": [MAIL]},
    "ResolveSend": {"sent": True, "why": "because"},
    "ResendSend": {"why": "because"},
    "NewSuppression": {"address": "new@example.org"},
    "FindSuppression": {"address": "listed@example.org"},
}
#: routes that make what is not there: every tenant has attempts and mailboxes of any name
MAKING = {"beginAction", "beginPolls"}


@dataclass(frozen=True)
class World:
    """Things of one tenant that another must not see, by the parts of paths."""

    paths: dict[str, dict[str, str]]

    def path(self, route: Route) -> str:
        """Fill a route with the ids of what exists."""
        group = route.path.split("/")[2]
        return route.path.format(**self.paths.get(group, {}))


async def build(api: Api) -> World:
    """Make one of everything for the home tenant."""
    await api.second_tenant()
    await api.add_source("shop", secrets=["a secret"])
    source = (await api.call("GET", "/v1/sources/shop")).json()
    key = (await api.call("POST", "/v1/keys", {"scopes": ["agent"]})).json()
    delivery = await api.accept("shop", "k1")
    api.box.components.quarantine.put(
        "shop", tenant=api.home, reason="mismatch", headers=[], body=b"rejected"
    )
    await api.box.components.quarantine.close()
    (rejected,) = (await api.call("GET", "/v1/quarantine")).json()["data"]
    await api.call("POST", "/v1/domains", {"name": "mine.test"})
    inbox = (await api.call("POST", "/v1/inboxes", {"attempt_id": "try-1"})).json()
    await api.call("POST", "/v1/attempts/try-1/actions/verify", {})
    sent = (await api.call("POST", "/v1/sends", MAIL)).json()
    await api.call("POST", "/v1/mailboxes/polled/polls", BODIES["BeginPolls"])
    listed = (await api.call("PUT", "/v1/suppressions", {"address": "listed@example.org"})).json()
    await api.call("POST", "/v1/mailboxes", {"name": "support", **MAILBOX})
    return World({
        "sources": {"name": "shop", "id": source["secrets"][0]["id"]},
        "keys": {"id": key["id"]},
        "deliveries": {"id": delivery.id, "name": "mail"},
        "quarantine": {"id": rejected["id"]},
        "domains": {"name": "mine.test"},
        "inboxes": {"id": inbox["id"]},
        "attempts": {"id": "try-1", "name": "verify"},
        "mailboxes": {"name": "support"},
        "messages": {"id": await _message(api), "number": "1"},
        "sends": {"id": sent["id"]},
        "transports": {"name": "log"},
        "suppressions": {"id": listed["id"]},
        "artifacts": {"id": (await bring(api.box, "inb_1", code("481920")))[0]},
    })  # fmt: skip


async def ask(api: Api, route: Route, path: str, **rest: Any) -> Any:
    body = None if route.body is None else BODIES.get(route.body.__name__, {})
    return await api.call(route.method, path, body, **rest)


@pytest.mark.parametrize("route", CLOSED, ids=lambda route: route.name)
async def test_only_keys_with_the_scope_get_through(api: Api, route: Route) -> None:
    world = await build(api)
    path = world.path(route)
    statuses = {
        kind: (await ask(api, route, path, scopes=scopes)).status_code
        for kind, (scopes, _) in KINDS.items()
        if kind != "admin"  # last, because it may remove what the others ask for
    }
    for kind, status in statuses.items():
        allowed = bool(KINDS[kind][1] & route.scopes)
        assert (status != 403) is allowed, f"{kind}: {status}"
        assert status not in {401, 500}

    assert (await ask(api, route, path)).status_code not in {401, 403, 500}


@pytest.mark.parametrize("route", CLOSED, ids=lambda route: route.name)
async def test_without_a_good_key_nothing_is_said(api: Api, route: Route) -> None:
    good = await api.key("admin")
    texts = ["", "obx_", good + "x", good[:-1], good.upper(), f" {good}", "0" * 46]
    answers = [await ask(api, route, _any_path(route), key=text) for text in texts]
    bodies = [{**each.json(), "request_id": "", "instance": ""} for each in answers]

    assert {each.status_code for each in answers} == {401}
    assert all(body == bodies[0] for body in bodies)


@pytest.mark.parametrize(
    "route",
    [each for each in CLOSED if "{" in each.path and each.name not in MAKING],
    ids=lambda route: route.name,
)
async def test_what_is_foreign_looks_like_what_is_missing(api: Api, route: Route) -> None:
    world = await build(api)
    foreign = await ask(api, route, world.path(route), tenant=OTHER)
    missing = await ask(api, route, _any_path(route), tenant=OTHER)
    odd = await ask(api, route, _any_path(route, "%00%ff..%2f"), tenant=OTHER)
    told = [{**each.json(), "request_id": "", "instance": ""} for each in (foreign, missing, odd)]

    assert {each.status_code for each in (foreign, missing, odd)} == {404}
    assert told[0] == told[1] == told[2]


@pytest.mark.parametrize(
    "route",
    [each for each in CLOSED if each.method == "GET" and "{" not in each.path and not each.home],
    ids=lambda route: route.name,
)
async def test_lists_hold_nothing_of_others(api: Api, route: Route) -> None:
    world = await build(api)
    ids = {part for parts in world.paths.values() for part in parts.values()} - {"mail", "verify"}
    theirs = (await ask(api, route, route.path, tenant=OTHER)).text

    assert [each for each in ids if f'"{each}"' in theirs] == []


@pytest.mark.parametrize(
    "route", [each for each in CLOSED if each.home], ids=lambda route: route.name
)
async def test_what_concerns_all_tenants_is_only_for_who_runs_the_place(
    api: Api, route: Route
) -> None:
    await api.second_tenant()

    assert (await ask(api, route, route.path, tenant=OTHER)).status_code == 403
    assert (await ask(api, route, route.path)).status_code in {200, 201}


async def test_a_worker_of_one_source_sees_nothing_of_another(api: Api) -> None:
    world = await build(api)
    pulled = [each for each in CLOSED if each.scopes == {WORKER} and "{" in each.path]
    for route in pulled:
        answer = await ask(api, route, world.path(route), scopes=("worker:elsewhere",))

        assert answer.status_code == 404
    claim = await api.call(
        "POST",
        "/v1/deliveries/claim",
        {"request_key": "request-1", "sources": ["shop"]},
        scopes=("worker:elsewhere",),
    )
    assert claim.status_code == 404


def test_every_type_that_needs_fields_has_a_body_that_fits() -> None:
    """If this fails, a new route is missing from the matrix."""
    for route in CLOSED:
        if route.body is not None:
            msgspec.convert(BODIES.get(route.body.__name__, {}), route.body)


def test_the_description_has_every_route_and_its_scopes() -> None:
    document = openapi.openapi_document(ROUTES)
    described = {
        (method.upper(), path): operation
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }

    assert set(described) == {(route.method, route.path) for route in ROUTES}
    for route in ROUTES:
        operation = described[route.method, route.path]
        assert (operation.get("security") == []) is route.is_open
        shown = () if route.opened_by else route.scopes  # open where they are read most
        assert all(scope in operation.get("description", "") for scope in shown)


def test_the_kinds_of_keys_are_all_that_routes_ask_for() -> None:
    asked = set(itertools.chain.from_iterable(route.scopes for route in ROUTES))

    assert asked <= set().union(*(words for _, words in KINDS.values()))


def _any_path(route: Route, part: str = "nothing") -> str:
    return route.path.format(name=part, id=part, code=part, number=part)


async def _message(api: Api) -> str:
    """Make an inbox with a message."""
    desk = Sorter(api.box)
    await desk.add_inbox("inb_1")
    (id_,) = await desk.file("inb_1", mail())
    return id_
