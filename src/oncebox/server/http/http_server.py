"""HTTP server: uvicorn in our event loop, and the listening sockets."""

import asyncio
import errno
import logging
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Self

import msgspec
import uvicorn

from oncebox.core.metrics import Telemetry
from oncebox.errors import ListenAddressUnavailable
from oncebox.server.http.http_connection import OVERFLOW, HttpConnection, HttpConnections
from oncebox.server.http.request_limits import App
from oncebox.settings import HttpSettings

_START_POLL = 0.01
_BACKLOG = 2048
#: descriptors kept for databases, files and the odd connection
_RESERVED_FILES = 128

_REASONS = {
    errno.EADDRINUSE: "another program listens there; stop it, or choose another port",
    errno.EADDRNOTAVAIL: "this machine has no such address",
    errno.EACCES: "ports below 1024 need special rights; choose a higher one",
}


class _Uvicorn(uvicorn.Server):
    """uvicorn without its own mind about signals; whoever started us stops us."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class HttpServer:
    """Serves one application until stopped: ``async with Server(…)``."""

    def __init__(
        self, app: App, sockets: list[socket.socket], settings: HttpSettings, telemetry: Telemetry
    ) -> None:
        """Prepare; nothing is answered before ``start``."""
        self._connections = HttpConnections(_limit_to_file_descriptors(settings), telemetry)
        self._sockets = sockets
        self._uvicorn = _Uvicorn(_config(app, self._connections, settings))
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin to answer; when this returns, a client can connect."""
        _silence_uvicorn()
        serving = asyncio.create_task(self._uvicorn.serve(self._sockets))
        self._tasks = [serving, asyncio.create_task(self._connections.run())]
        while not (self._uvicorn.started or serving.done()):  # noqa: ASYNC110 - it rings no bell
            await asyncio.sleep(_START_POLL)
        if serving.done():
            await serving  # it says why

    async def stop(self) -> None:
        """Take no more connections, let requests finish for a while, end the rest."""
        if not self._tasks:
            return
        self._uvicorn.should_exit = True
        serving, watching = self._tasks
        await serving
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        self._tasks = []

    async def __aenter__(self) -> Self:
        """Begin to answer."""
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


def _config(app: App, watch: HttpConnections, settings: HttpSettings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=partial(HttpConnection, watch, getattr(app, "fast_path", None)),  # type: ignore[arg-type]
        ws="none",
        interface="asgi3",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=settings.stop_within,  # type: ignore[arg-type]
    )


def _limit_to_file_descriptors(settings: HttpSettings) -> HttpSettings:
    """Open as many files as the system allows, and no more connections than that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.connections * OVERFLOW + _RESERVED_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    room = wanted if soft == resource.RLIM_INFINITY else soft - _RESERVED_FILES
    return msgspec.structs.replace(
        settings, connections=max(1, min(settings.connections, room // OVERFLOW))
    )


def _silence_uvicorn() -> None:
    """Keep uvicorn from quoting requests in its own words; what matters is logged by us."""
    logger = logging.getLogger("uvicorn")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
