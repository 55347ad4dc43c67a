"""The watch: every connection whose client has the next move, and how many there may be."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Protocol

from oncebox import clock, refusals
from oncebox.config import HttpSettings
from oncebox.edge.address import network
from oncebox.errors import OnceboxError
from oncebox.telemetry import Telemetry

#: seconds between two looks, at most
_LOOK_EVERY = 1.0
#: seconds for which a connection is left in peace: its first request may be on the way
_GRACE = 0.5
#: how many times the limit may be open until the grace of the newest has passed
OVERFLOW = 2


class Watched(Protocol):
    """A connection, as the watch sees it."""

    #: since when it keeps us waiting
    waits_since: float

    @property
    def address(self) -> str:
        """The address at the other end."""

    def look(self, now: float) -> None:
        """End the connection if its client has kept us waiting for too long."""

    def give_way(self) -> None:
        """Make room for another connection."""


class Watch:
    """Knows all connections of one server."""

    def __init__(self, settings: HttpSettings, telemetry: Telemetry) -> None:
        """Begin with no connection."""
        self.settings = settings
        self._telemetry = telemetry
        self._open: set[Watched] = set()
        self._of_network: Counter[str] = Counter()
        #: whose move it is, the longest waiting first; those never answered anything apart;
        #: connections put themselves in and take themselves out
        self.strangers: dict[Watched, None] = {}
        self.known: dict[Watched, None] = {}
        shortest = min(settings.headers_within, settings.idle, settings.request_within / 3)
        self._look_every = min(_LOOK_EVERY, shortest / 4)
        telemetry.connections.set_function(lambda: len(self._open))

    def admit(self, connection: Watched) -> type[OnceboxError] | None:
        """Count a new connection; return why it must go, if there is no room to be made."""
        home = network(connection.address)
        self._open.add(connection)
        self._of_network[home] += 1
        most = self.settings.connections_per_address
        if most and self._of_network[home] > most:
            rivals = (each for each in self._waiting() if network(each.address) == home)
            return None if self._make_room(connection, rivals) else refusals.TooManyRequests
        if len(self._open) <= self.settings.connections or self._has_grace(connection):
            return None
        return None if self._make_room(connection, self._waiting()) else refusals.ServerBusy

    def _has_grace(self, newcomer: Watched | None = None) -> bool:
        """Say whether one more may be open for now, because who must go has only just come."""
        if len(self._open) > self.settings.connections * OVERFLOW:
            return False
        longest = next((each for each in self._waiting() if each is not newcomer), None)
        return longest is not None and clock.steady() - longest.waits_since < _GRACE

    def forget(self, connection: Watched) -> None:
        """Take out a connection that is closed."""
        self._leave(connection)
        if connection in self._open:
            self._open.remove(connection)
            home = network(connection.address)
            self._of_network[home] -= 1
            if not self._of_network[home]:
                del self._of_network[home]

    def count(self, why: str) -> None:
        """Count a connection that we end."""
        self._telemetry.connections_ended.labels(why).inc()

    async def run(self) -> None:
        """Look at those who keep us waiting, again and again, until cancelled."""
        while True:
            await asyncio.sleep(self._look_every)
            now = clock.steady()
            for connection in list(self._waiting()):
                self._look_at(connection, now)
            while len(self._open) > self.settings.connections and not self._has_grace():
                if not self._make_room(None, self._waiting()):
                    break

    def _look_at(self, connection: Watched, now: float) -> None:
        try:
            connection.look(now)
        except Exception:
            # One odd connection must not blind the watch to the others.
            self._telemetry.log.exception("watch_stumbled")
            self._leave(connection)

    def _leave(self, connection: Watched) -> None:
        self.strangers.pop(connection, None)
        self.known.pop(connection, None)

    def _waiting(self) -> Iterator[Watched]:
        return chain(self.strangers, self.known)

    def _make_room(self, newcomer: Watched | None, candidates: Iterator[Watched]) -> bool:
        """End the connection that has kept us waiting longest; say whether there was one."""
        longest = next((each for each in candidates if each is not newcomer), None)
        if longest is None:
            return False
        self.forget(longest)
        longest.give_way()
        return True
