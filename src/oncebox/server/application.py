"""ASGI application of the API: routes by path to API operations, Resend endpoint and ``/mcp``."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from urllib.parse import quote, urlsplit

from starlette.routing import Route as StarletteRoute
from starlette.routing import Router

from oncebox.components import Components
from oncebox.errors import NotFound, OnceboxError
from oncebox.errors.http import HostRefused, MethodNotAllowed, OriginRefused
from oncebox.server.api import (
    access,
    artifacts,
    attempts,
    deliveries,
    events,
    inboxes,
    mailbox_polls,
    mailboxes,
    messages,
    openapi,
    pull,
    sends,
    service_info,
    sources,
    transports,
)
from oncebox.server.http.api_endpoint import ApiEndpoint, ApiKeyAuth, send_problem
from oncebox.server.http.asgi_app import AsgiApp
from oncebox.server.http.request_context import (
    App,
    Message,
    Receive,
    Scope,
    Send,
    request_context,
)
from oncebox.server.http.routing import Route
from oncebox.server.resend import emails
from oncebox.settings import HttpSettings

MCP_PATH = "/mcp"
#: imports the MCP tools and returns them as an application over the API
LoadTools = Callable[[App], App]

#: names of this machine that nobody else can point elsewhere
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_PRIVATE_HEADERS = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


class McpEndpoint:
    """ASGI application of ``/mcp``, which authenticates before it passes requests to the tools.

    A web page can make its own host name point to this machine (DNS rebinding), so requests for
    other host names or from other origins are refused.
    """

    def __init__(self, auth: ApiKeyAuth, settings: HttpSettings, load: Callable[[], App]) -> None:
        """Use ``load``, which takes a second, once."""
        self._auth = auth
        self._hosts = allowed_hosts(settings)
        self._load = load
        self._app: App | None = None
        self._loading = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        request_context(scope).route = MCP_PATH
        try:
            self._check_host(scope)
            if scope["method"] != "POST":
                raise MethodNotAllowed
            await self._auth.authenticate(scope["headers"], request_context(scope).address)
            app = await self._loaded()
        except OnceboxError as error:
            await send_problem(scope, send, error, allow="POST")
            return
        await app(scope, receive, _add_private_headers(send))

    def _check_host(self, scope: Scope) -> None:
        """Raises: HostRefused, OriginRefused."""
        found = [value for name, value in scope["headers"] if name == b"origin"]
        if _host_of(b"//" + request_context(scope).headers.get(b"host", b"")) not in self._hosts:
            raise HostRefused(
                "this host name is not one of the service; set ONCEBOX_HTTP__PUBLIC_URL or "
                "ONCEBOX_HTTP__HOSTS"
            )
        if any(_host_of(each) not in self._hosts for each in found):
            raise OriginRefused

    async def _loaded(self) -> App:
        """Return the tools; other requests are served while they are imported.

        Raises: ExtraMissing.
        """
        if self._app is None:
            async with self._loading:
                if self._app is None:
                    self._app = await asyncio.to_thread(self._load)
        return self._app


def _add_private_headers(send: Send) -> Send:
    """Forbid caches and proxies to store a response: it may hold a code."""

    async def send_private(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *_PRIVATE_HEADERS]
        await send(message)

    return send_private


def allowed_hosts(settings: HttpSettings) -> frozenset[str]:
    """Return the host names of the service."""
    named = [_host_of(b"//" + each.strip().encode()) for each in settings.hosts.split(",")]
    public = urlsplit(settings.public_url).hostname or ""
    # Empty is not allowed: an unreadable Host header counts as empty.
    return frozenset({*_LOOPBACK, _normalized_host(settings.host.lower()), public, *named}) - {""}


def _host_of(address: bytes) -> str:
    """Return the host of a URL; empty if there is none, or it is ambiguous."""
    try:
        parts = urlsplit(address.decode("ascii"))
        found, _ = parts.hostname or "", parts.port
        is_odd = bool(parts.path or parts.query or parts.fragment or parts.username is not None)
    except ValueError:
        return ""
    return "" if is_odd else _normalized_host(found)


def _normalized_host(host: str) -> str:
    """Return a host in its canonical spelling."""
    try:
        return str(ip_address(host))
    except ValueError:
        return host


#: all operations of the API
ROUTES: tuple[Route, ...] = (
    *service_info.routes,
    *access.routes,
    *sources.routes,
    *deliveries.routes,
    *pull.routes,
    *inboxes.routes,
    *mailboxes.routes,
    *mailbox_polls.routes,
    *attempts.routes,
    *events.routes,
    *messages.routes,
    *artifacts.routes,
    *sends.routes,
    *transports.routes,
)


def make_api(
    components: Components,
    stopping: asyncio.Event,
    tools: LoadTools | None = None,
    more: Sequence[Route] = (),
) -> App:
    """Return the API, with the MCP tools if there are any.

    ``more`` are the routes of test mode.
    """
    settings = components.settings
    auth = ApiKeyAuth(
        components.api_keys,
        components.telemetry,
        home=settings.tenant,
        wrong_keys=settings.http.wrong_keys,
        requests_per_key=settings.http.requests_per_key,
    )
    paths: dict[str, list[Route]] = defaultdict(list)
    for route in (*ROUTES, openapi.openapi_route(ROUTES), *more):
        paths[route.path].append(route)
    # A literal segment takes precedence over a parameter.
    ordered = sorted(paths.items(), key=lambda item: item[0].count("{"))
    routes = [
        StarletteRoute(path, ApiEndpoint(found, components, auth, stopping))
        for path, found in ordered
    ]
    routes += emails.endpoints(components, auth, stopping)
    api = ApiRouter(Router(routes, redirect_slashes=False, default=_not_found))
    if tools is None:
        return api
    inner = AsgiApp(api, settings.http, components.telemetry)
    endpoint = McpEndpoint(auth, settings.http, lambda: tools(inner))
    with_tools = [StarletteRoute(MCP_PATH, endpoint), *routes]
    return ApiRouter(Router(with_tools, redirect_slashes=False, default=_not_found))


class ApiRouter:
    """Routes by the raw path, so that an encoded slash does not split a parameter."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http":
            raw = scope.get("raw_path") or quote(scope["path"]).encode()
            scope = {**scope, "path": raw.partition(b"?")[0].decode("latin-1")}
        await self._router(scope, receive, send)


async def _not_found(scope: Scope, _receive: Receive, send: Send) -> None:
    await send_problem(scope, send, NotFound)
