"""HTTP server: listening sockets, start and stop."""

import asyncio
import errno
import resource
import socket
from contextlib import suppress
from typing import Any, Self

import msgspec

from oncebox.core import clock
from oncebox.core.metrics import Telemetry
from oncebox.errors import ListenAddressUnavailable
from oncebox.server.http.http_connection import HttpConnection
from oncebox.server.http.request_context import App, WebhookHandler
from oncebox.server.http.server_state import OVERFLOW, ServerState
from oncebox.settings import HttpSettings

_BACKLOG = 2048
#: descriptors kept for databases, files and the odd connection
_RESERVED_FILES = 128
_STOP_POLL = 0.02
#: seconds in which clients may read the last answers of a stopping server
_LAST_ANSWERS_WITHIN = 0.5

_REASONS = {
    errno.EADDRINUSE: "another program listens there, or an earlier Oncebox is still stopping; "
    "stop it, or choose another port",
    errno.EADDRNOTAVAIL: "this machine has no such address",
    errno.EACCES: "ports below 1024 need special rights; choose a higher one",
}


class HttpServer:
    """Serves one application until stopped: ``async with HttpServer(…)``."""

    def __init__(
        self,
        app: App,
        sockets: list[socket.socket],
        settings: HttpSettings,
        telemetry: Telemetry,
        webhooks: WebhookHandler | None = None,
    ) -> None:
        settings = _limit_to_file_descriptors(settings)
        self.state = ServerState(app, settings, telemetry, webhooks)
        self._sockets = sockets
        self._servers: list[asyncio.Server] = []
        self._checking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to serve; when this returns, clients can connect."""
        loop = asyncio.get_running_loop()
        for each in self._sockets:
            server = await loop.create_server(
                lambda: HttpConnection(self.state), sock=each, backlog=_BACKLOG
            )
            self._servers.append(server)
        state = self.state
        self._checking = asyncio.create_task(state.connections.run(state.update_date))

    async def stop(self) -> None:
        """Accept no more connections; wait for requests in flight, then refuse what is left."""
        if self._checking is None:
            return
        self.state.stopping = True
        for server in self._servers:
            server.close()
        connections = self.state.connections
        for connection in list(connections.open):
            connection.stop()
        await self._until_closed(self.state.settings.stop_within)
        for connection in list(connections.open):
            connection.end()
        await self._until_closed(_LAST_ANSWERS_WITHIN)
        for connection in list(connections.open):
            connection.abort()
        await asyncio.sleep(0)
        self._checking.cancel()
        with suppress(asyncio.CancelledError):
            await self._checking
        self._checking = None

    async def _until_closed(self, within: float) -> None:
        """Wait until all connections are closed, at most so many seconds."""
        connections, until = self.state.connections, clock.steady() + within
        while connections.open and clock.steady() < until:  # noqa: ASYNC110 - it ends by itself
            await asyncio.sleep(_STOP_POLL)

    async def __aenter__(self) -> Self:
        """Begin to serve."""
        await self.start()
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Stop."""
        await self.stop()


def listen(host: str, port: int) -> list[socket.socket]:
    """Return sockets bound to a host and port; port 0 takes a free one.

    Raises: ListenAddressUnavailable.
    """
    try:
        found = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_ADDRCONFIG
        )
    except (socket.gaierror, UnicodeError) as error:
        raise ListenAddressUnavailable(
            f"{host!r} is no host name or address of this machine; choose with --host"
        ) from error
    sockets: list[socket.socket] = []
    for family, _kind, _protocol, _name, address in dict.fromkeys(found):
        # Where port 0 took a free one, the other family listens on the same.
        taken = sockets[0].getsockname()[1] if sockets else port
        try:
            sockets.append(_bind(family, (address[0], taken)))
        except OSError as error:
            for each in sockets:
                each.close()
            raise _unavailable(host, port, error) from error
    return sockets


def is_taken(error: ListenAddressUnavailable) -> bool:
    """Say whether ``listen`` failed because somebody listens there."""
    return isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EADDRINUSE


def _bind(family: int, address: tuple[Any, int]) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(address)
        bound.listen(_BACKLOG)  # only now is it known that nobody else does
        bound.setblocking(False)  # noqa: FBT003 - the socket's own way
    except OSError:
        bound.close()
        raise
    return bound


def _unavailable(host: str, port: int, error: OSError) -> ListenAddressUnavailable:
    reason = _REASONS.get(error.errno or 0, error.strerror or "the system refuses")
    return ListenAddressUnavailable(f"cannot listen on {host} port {port}: {reason}")


def _limit_to_file_descriptors(settings: HttpSettings) -> HttpSettings:
    """Open as many files as the system allows, and no more connections than that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.connections * OVERFLOW + _RESERVED_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    available = wanted if soft == resource.RLIM_INFINITY else soft - _RESERVED_FILES
    return msgspec.structs.replace(
        settings, connections=max(1, min(settings.connections, available // OVERFLOW))
    )
