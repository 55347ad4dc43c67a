"""The API as one ASGI application, made from the table of routes."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from urllib.parse import quote

import msgspec
from starlette.routing import Route as StarletteRoute
from starlette.routing import Router

from oncebox.edge.guard import App, Guard, Receive, Scope, Send
from oncebox.edge.http import (
    about,
    agents,
    artifacts,
    attempts,
    deliveries,
    domains,
    emails,
    events,
    handbook,
    inboxes,
    keys,
    messages,
    openapi,
    pull,
    quarantine,
    send_office,
    sends,
    sources,
    suppressions,
    tenants,
    transports,
    waits,
)
from oncebox.edge.http.agents import AgentDoor
from oncebox.edge.http.auth import Auth
from oncebox.edge.http.call import Rooms
from oncebox.edge.http.endpoint import Endpoint, refuse
from oncebox.edge.http.route import Route
from oncebox.errors import NotFound

#: everything that can be asked
ROUTES: tuple[Route, ...] = (
    *about.ROUTES,
    *handbook.ROUTES,
    *keys.ROUTES,
    *tenants.ROUTES,
    *sources.ROUTES,
    *deliveries.ROUTES,
    *pull.ROUTES,
    *quarantine.ROUTES,
    *domains.ROUTES,
    *inboxes.ROUTES,
    *attempts.ROUTES,
    *events.ROUTES,
    *messages.ROUTES,
    *artifacts.ROUTES,
    *waits.ROUTES,
    *sends.ROUTES,
    *send_office.ROUTES,
    *transports.ROUTES,
    *suppressions.ROUTES,
)


def application(
    rooms: Rooms,
    stopping: asyncio.Event,
    tools: agents.Loader | None = None,
    more: Sequence[Route] = (),
) -> App:
    """Return the API, with the agent's tools if there are any; it is served behind the guard.

    ``more`` are routes that only tests have.
    """
    settings = rooms.settings
    auth = Auth(
        rooms.keys,
        rooms.telemetry,
        home=settings.tenant,
        wrong_keys=settings.http.wrong_keys,
    )
    paths: dict[str, list[Route]] = defaultdict(list)
    for route in (*ROUTES, openapi.route(ROUTES), *more):
        paths[route.path].append(route)
    # Where a fixed word and a parameter both fit, the word is meant.
    ordered = sorted(paths.items(), key=lambda item: item[0].count("{"))
    routes = [
        StarletteRoute(path, Endpoint(found, rooms, auth, stopping)) for path, found in ordered
    ]
    routes += emails.endpoints(rooms, auth, stopping)
    api = Application(Router(routes, redirect_slashes=False, default=_unknown))
    if tools is None:
        return api
    # What the tools ask was let in once already, and is not counted against their caller again.
    # The guard around it all is made after this one, so the gauge of requests is that one's.
    inner = Guard(api, msgspec.structs.replace(settings.http, rate=0), rooms.telemetry)
    door = AgentDoor(auth, settings.http, lambda: tools(inner))
    with_tools = [StarletteRoute(agents.PATH, door), *routes]
    return Application(Router(with_tools, redirect_slashes=False, default=_unknown))


class Application:
    """Routes by the path as it was sent, so that an encoded slash does not part a name."""

    def __init__(self, router: Router) -> None:
        """Route by this router."""
        self._router = router

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http":
            raw = scope.get("raw_path") or quote(scope["path"]).encode()
            scope = {**scope, "path": raw.partition(b"?")[0].decode("latin-1")}
        await self._router(scope, receive, send)


async def _unknown(scope: Scope, _receive: Receive, send: Send) -> None:
    await refuse(scope, send, NotFound)
