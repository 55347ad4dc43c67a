"""State that HTTP connections share: limits, counters, and the connections themselves."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Protocol

from oncebox.core import clock
from oncebox.core.metrics import Telemetry
from oncebox.errors import OnceboxError
from oncebox.errors.http import ServerBusy, TooManyRequests
from oncebox.model.client_address import limit_key
from oncebox.server.http.proxies import TrustedProxies
from oncebox.server.http.request_context import (
    App,
    RequestContext,
    RequestIds,
    RequestLog,
    WebhookHandler,
)
from oncebox.server.http.request_parsing import HeadLimits
from oncebox.server.rate_limits import TokenBuckets
from oncebox.settings import HttpSettings

#: one in so many requests in flight is reserved for webhooks and probes
_RESERVED_SHARE = 10
#: seconds between two checks, at most
_CHECK_EVERY = 1.0
#: seconds in which a connection is not evicted: its first request may be on the way
_GRACE = 0.5
#: how many times the limit may be open until the grace of the newest has passed
OVERFLOW = 2


class WaitingConnection(Protocol):
    """A connection, as far as the limits are concerned."""

    #: what the limit per address counts as one; nothing for trusted proxies
    network: str
    #: since when the client keeps us waiting
    waiting_since: float

    def check_timeout(self, now: float) -> None:
        """Close the connection if the client has kept us waiting for too long."""

    def evict(self) -> None:
        """Make room for another connection."""

    def stop(self) -> None:
        """Close the connection, after the response if there is a request."""

    def end(self) -> None:
        """Refuse a request that was not answered in time, or cut its response."""

    def abort(self) -> None:
        """Cut the connection."""


class HttpConnections:
    """All connections of a server: their number, and those that wait for their client."""

    def __init__(self, state: "ServerState") -> None:
        self._settings = settings = state.settings
        self._telemetry = state.telemetry
        self.open: set[WaitingConnection] = set()
        self._per_network: Counter[str] = Counter()
        #: connections that wait for their client, the longest waiting first; those that never
        #: completed a request are apart, and evicted first
        self.unproven: dict[WaitingConnection, None] = {}
        self.proven: dict[WaitingConnection, None] = {}
        shortest = min(settings.headers_within, settings.idle, settings.request_within / 3)
        self._check_every = min(_CHECK_EVERY, shortest / 4)
        state.telemetry.connections.set_function(lambda: len(self.open))

    def admit(self, connection: WaitingConnection) -> type[OnceboxError] | None:
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
        # All others are at work. What this one asks for decides: capacity is reserved for intake.
        is_admitted = is_admitted or len(self.open) <= self._settings.connections * OVERFLOW
        return None if is_admitted else ServerBusy

    def remove(self, connection: WaitingConnection) -> None:
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

    def _check(self, connection: WaitingConnection, now: float) -> None:
        try:
            connection.check_timeout(now)
        except Exception:
            # One connection must not keep the others from being checked.
            self._telemetry.log.exception("connection_check_failed")
            self._remove_waiting(connection)

    def _has_grace(self, newcomer: WaitingConnection | None = None) -> bool:
        """Return whether one more may be open because the longest waiting one has just come."""
        if len(self.open) > self._settings.connections * OVERFLOW:
            return False
        longest = next((each for each in self._waiting() if each is not newcomer), None)
        return longest is not None and clock.steady() - longest.waiting_since < _GRACE

    def _remove_waiting(self, connection: WaitingConnection) -> None:
        self.unproven.pop(connection, None)
        self.proven.pop(connection, None)

    def _waiting(self) -> Iterator[WaitingConnection]:
        return chain(self.unproven, self.proven)

    def _evict_longest_waiting(
        self, newcomer: WaitingConnection | None, candidates: Iterator[WaitingConnection]
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
        self.request_log = RequestLog(telemetry.log)
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

    def admit(self, exchange: RequestContext, *, reserved: bool) -> OnceboxError | None:
        """Return why a request is refused, if it is; some capacity is reserved."""
        if not reserved and self.in_flight > self._unreserved:
            return ServerBusy()
        if self._buckets is None:
            return None
        wait = self._buckets.take(limit_key(exchange.address), exchange.began)
        return TooManyRequests(retry_after=wait) if wait else None
