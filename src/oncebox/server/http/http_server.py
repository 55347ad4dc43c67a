"""HTTP server: listening sockets, state shared by all connections, start and stop."""

import asyncio
import errno
import resource
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from typing import Any, Self

import msgspec

from oncebox.core import clock
from oncebox.core.metrics import Telemetry
from oncebox.errors import ListenAddressUnavailable, OnceboxError
from oncebox.errors.http import ServerBusy, TooManyRequests
from oncebox.server.http.http_connection import HttpConnection
from oncebox.server.http.http_exchange import HttpExchange
from oncebox.server.http.proxies import TrustedProxies
from oncebox.server.http.request_context import App, RequestIds, WebhookHandler
from oncebox.server.http.request_parsing import HeadLimits
from oncebox.server.rate_limits import TokenBuckets, limit_key
from oncebox.settings import HttpSettings

_BACKLOG = 2048
#: descriptors kept for databases, files and the odd connection
_RESERVED_FILES = 128
#: the share of requests in flight that only webhooks and probes may use
_RESERVED_SHARE = 10
_STOP_POLL = 0.02

_REASONS = {
    errno.EADDRINUSE: "another program listens there; stop it, or choose another port",
    errno.EADDRNOTAVAIL: "this machine has no such address",
    errno.EACCES: "ports below 1024 need special rights; choose a higher one",
}


#: seconds between two checks, at most
_CHECK_EVERY = 1.0
#: seconds in which a connection is not evicted: its first request may be on the way
_GRACE = 0.5
#: how many times the limit may be open until the grace of the newest has passed
OVERFLOW = 2


class HttpConnections:
    """All connections of a server: their number, and those that wait for their client."""

    def __init__(self, state: "ServerState") -> None:
        self._settings = settings = state.settings
        self._telemetry = state.telemetry
        self.open: set[HttpConnection] = set()
        self._per_network: Counter[str] = Counter()
        #: connections that wait for their client, the longest waiting first; those that never
        #: completed a request are apart, and evicted first
        self.unproven: dict[HttpConnection, None] = {}
        self.proven: dict[HttpConnection, None] = {}
        shortest = min(settings.headers_within, settings.idle, settings.request_within / 3)
        self._check_every = min(_CHECK_EVERY, shortest / 4)
        state.telemetry.connections.set_function(lambda: len(self.open))

    def admit(self, connection: HttpConnection) -> type[OnceboxError] | None:
        """Count a new connection; return why it is refused, if no other can be evicted for it."""
        network = connection.network
        self.open.add(connection)
        self._per_network[network] += 1
        most = self._settings.connections_per_address
        if most and network and self._per_network[network] > most:
            rivals = (each for each in self._waiting() if each.network == network)
            is_admitted = self._evict_longest_waiting(connection, rivals)
            return None if is_admitted else TooManyRequests
        if len(self.open) <= self._settings.connections or self._has_grace(connection):
            return None
        is_admitted = self._evict_longest_waiting(connection, self._waiting())
        return None if is_admitted else ServerBusy

    def remove(self, connection: HttpConnection) -> None:
        """Take out a closed connection."""
        self._remove_waiting(connection)
        if connection in self.open:
            self.open.remove(connection)
            self._per_network[connection.network] -= 1
            if not self._per_network[connection.network]:
                del self._per_network[connection.network]

    def count_end(self, reason: str) -> None:
        """Count a connection that we close."""
        self._telemetry.connections_ended.labels(reason).inc()

    async def run(self, on_tick: Callable[[], None]) -> None:
        """Check the waiting connections periodically, until cancelled."""
        while True:
            on_tick()
            await asyncio.sleep(self._check_every)
            now = clock.steady()
            for connection in list(self._waiting()):
                self._check(connection, now)
            while len(self.open) > self._settings.connections and not self._has_grace():
                if not self._evict_longest_waiting(None, self._waiting()):
                    break

    def _check(self, connection: HttpConnection, now: float) -> None:
        try:
            connection.check_timeout(now)
        except Exception:
            # One connection must not keep the others from being checked.
            self._telemetry.log.exception("connection_check_failed")
            self._remove_waiting(connection)

    def _has_grace(self, newcomer: HttpConnection | None = None) -> bool:
        """Return whether one more may be open because the longest waiting one has just come."""
        if len(self.open) > self._settings.connections * OVERFLOW:
            return False
        longest = next((each for each in self._waiting() if each is not newcomer), None)
        return longest is not None and clock.steady() - longest.waiting_since < _GRACE

    def _remove_waiting(self, connection: HttpConnection) -> None:
        self.unproven.pop(connection, None)
        self.proven.pop(connection, None)

    def _waiting(self) -> Iterator[HttpConnection]:
        return chain(self.unproven, self.proven)

    def _evict_longest_waiting(
        self, newcomer: HttpConnection | None, candidates: Iterator[HttpConnection]
    ) -> bool:
        longest = next((each for each in candidates if each is not newcomer), None)
        if longest is None:
            return False
        self.remove(longest)
        longest.evict()
        return True


class ServerState:
    """What the connections of a server share."""

    def __init__(
        self,
        app: App,
        settings: HttpSettings,
        telemetry: Telemetry,
        webhooks: WebhookHandler | None = None,
    ) -> None:
        self.app = app
        self.webhooks = webhooks
        self.settings = settings
        self.telemetry = telemetry
        self.head_limits = HeadLimits(settings.headers, settings.header_count)
        self.ids = RequestIds()
        use_forwarded = settings.forwarded_header == "forwarded"
        self.proxies = (
            TrustedProxies(settings.proxies, use_forwarded=use_forwarded)
            if settings.proxies
            else None
        )
        self._buckets = TokenBuckets(settings.rate, burst=settings.rate) if settings.rate else None
        #: bytes by which a body may fall behind its rate
        self.rate_credit = settings.body_rate * settings.request_within / 3
        #: bytes of large bodies in memory
        self.body_bytes = 0
        self.in_flight = 0
        self._unreserved = settings.connections - settings.connections // _RESERVED_SHARE
        self.stopping = False
        self.date_line = b""
        self.update_date()
        self.connections = HttpConnections(self)
        telemetry.http_in_flight.set_function(lambda: self.in_flight)

    def update_date(self) -> None:
        """Write the Date header of the responses of this second."""
        now = time.gmtime(clock.system() / 1000)
        self.date_line = time.strftime("date: %a, %d %b %Y %H:%M:%S GMT\r\n", now).encode()

    def admit(self, exchange: HttpExchange, *, reserved: bool) -> OnceboxError | None:
        """Return why a request is refused, if it is; some capacity is reserved."""
        if not reserved and self.in_flight > self._unreserved:
            return ServerBusy()
        if self._buckets is None:
            return None
        wait = self._buckets.take(limit_key(exchange.address), exchange.began)
        return TooManyRequests(retry_after=wait) if wait else None


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
        self._state = ServerState(app, settings, telemetry, webhooks)
        self._sockets = sockets
        self._servers: list[asyncio.Server] = []
        self._checking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to serve; when this returns, clients can connect."""
        loop = asyncio.get_running_loop()
        for each in self._sockets:
            server = await loop.create_server(
                lambda: HttpConnection(self._state), sock=each, backlog=_BACKLOG
            )
            self._servers.append(server)
        state = self._state
        self._checking = asyncio.create_task(state.connections.run(state.update_date))

    async def stop(self) -> None:
        """Accept no more connections; wait for requests in flight, then cut what is left."""
        if self._checking is None:
            return
        self._state.stopping = True
        for server in self._servers:
            server.close()
        connections = self._state.connections
        for connection in list(connections.open):
            connection.stop()
        until = clock.steady() + self._state.settings.stop_within
        while connections.open and clock.steady() < until:  # noqa: ASYNC110 - it ends by itself
            await asyncio.sleep(_STOP_POLL)
        for connection in list(connections.open):
            connection.abort()
        await asyncio.sleep(0)
        self._checking.cancel()
        with suppress(asyncio.CancelledError):
            await self._checking
        self._checking = None

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
