"""``/mcp``: who may come to the agent's tools, and from where; the tools are loaded when needed."""

import asyncio
from collections.abc import Callable
from ipaddress import ip_address
from urllib.parse import urlsplit

from oncebox.config import HttpSettings
from oncebox.edge.guard import App, Message, Receive, Scope, Send, visit
from oncebox.edge.http.auth import Auth
from oncebox.edge.http.endpoint import refuse
from oncebox.errors import OnceboxError
from oncebox.refusals import HostRefused, MethodNotAllowed, OriginRefused

PATH = "/mcp"
#: makes the tools over an API, importing whatever they need
Loader = Callable[[App], App]

#: names of this machine, which no other can point elsewhere
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_PRIVATE = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


class AgentDoor:
    """An ASGI application before the tools.

    A page in a browser may have its own name point to this machine (DNS rebinding), so requests
    under names that are not ours, or from pages of others, get no further.
    """

    def __init__(self, auth: Auth, settings: HttpSettings, load: Callable[[], App]) -> None:
        """Let in who has a key; ``load`` takes a second, and is called once."""
        self._auth = auth
        self._hosts = hosts(settings)
        self._load = load
        self._app: App | None = None
        self._loading = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        visit(scope).route = PATH
        try:
            self._check_place(scope)
            if scope["method"] != "POST":
                raise MethodNotAllowed
            await self._auth.who(scope["headers"], visit(scope).address)
            app = await self._loaded()
        except OnceboxError as error:
            await refuse(scope, send, error, allow="POST")
            return
        await app(scope, receive, _private(send))

    def _check_place(self, scope: Scope) -> None:
        """Raises: HostRefused, OriginRefused."""
        found = [value for name, value in scope["headers"] if name == b"origin"]
        if _name(b"//" + visit(scope).headers.get(b"host", b"")) not in self._hosts:
            message = (
                "this name is not one of the service's own; set ONCEBOX_HTTP__PUBLIC_URL or "
                "ONCEBOX_HTTP__HOSTS"
            )
            raise HostRefused(message)
        if any(_name(each) not in self._hosts for each in found):
            raise OriginRefused

    async def _loaded(self) -> App:
        """Return the tools; others are served while they are imported.

        Raises: ExtraMissing.
        """
        if self._app is None:
            async with self._loading:
                if self._app is None:
                    self._app = await asyncio.to_thread(self._load)
        return self._app


def _private(send: Send) -> Send:
    """Return what sends an answer that nobody on the way may keep: it may hold a code."""

    async def told(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *_PRIVATE]
        await send(message)

    return told


def hosts(settings: HttpSettings) -> frozenset[str]:
    """Return the names under which the service may be spoken to."""
    named = [_name(b"//" + each.strip().encode()) for each in settings.hosts.split(",")]
    public = urlsplit(settings.public_url).hostname or ""
    # What is no name must not be one of them: a Host that nobody can read is none either.
    return frozenset({*_LOOPBACK, _plain(settings.host.lower()), public, *named}) - {""}


def _name(address: bytes) -> str:
    """Return the host of an address; nothing if there is none, or nobody can tell."""
    try:
        parts = urlsplit(address.decode("ascii"))
        found, _ = parts.hostname or "", parts.port
        is_odd = bool(parts.path or parts.query or parts.fragment or parts.username is not None)
    except ValueError:
        return ""
    return "" if is_odd else _plain(found)


def _plain(host: str) -> str:
    """Return a host in its only spelling."""
    try:
        return str(ip_address(host))
    except ValueError:
        return host
