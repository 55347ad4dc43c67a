"""The watch: all SMTP connections, how many there may be, and one look a second at each."""

import asyncio
from collections import Counter
from typing import Protocol

from oncebox import clock
from oncebox.config import SmtpSettings
from oncebox.edge.address import network
from oncebox.telemetry import Telemetry

#: seconds between two looks, at most
_LOOK_EVERY = 1.0


class Watched(Protocol):
    """A connection, as the watch sees it."""

    address: str

    def look(self, now: float) -> None:
        """End the connection if its client is too slow."""

    def finish(self) -> None:
        """End the connection as soon as no mail is under way."""

    def abort(self) -> None:
        """End the connection at once."""


class Watch:
    """Knows all connections of one server."""

    def __init__(self, settings: SmtpSettings, telemetry: Telemetry) -> None:
        """Begin with no connection."""
        self.settings = settings
        self.is_stopping = False
        self._telemetry = telemetry
        self._open: set[Watched] = set()
        self._of_network: Counter[str] = Counter()
        self._empty = asyncio.Event()
        self._empty.set()
        shortest = min(settings.command_within / 3, settings.session_within)
        self._look_every = min(_LOOK_EVERY, shortest / 4)
        telemetry.smtp_open.set_function(lambda: len(self._open))

    def admit(self, connection: Watched) -> bool:
        """Count a new connection; say whether there is room for it."""
        home = network(connection.address)
        most = self.settings.connections_per_address
        if len(self._open) >= self.settings.connections or (
            most and self._of_network[home] >= most
        ):
            return False
        self._open.add(connection)
        self._of_network[home] += 1
        self._empty.clear()
        self._telemetry.smtp_sessions.inc()
        return True

    def forget(self, connection: Watched) -> None:
        """Take out a connection that is closed."""
        if connection not in self._open:
            return
        self._open.remove(connection)
        home = network(connection.address)
        self._of_network[home] -= 1
        if not self._of_network[home]:
            del self._of_network[home]
        if not self._open:
            self._empty.set()

    def count_end(self, why: str) -> None:
        """Count a connection that we end."""
        self._telemetry.smtp_ended.labels(why).inc()

    def count_refusal(self, code: bytes) -> None:
        """Count a reply that refused something."""
        self._telemetry.smtp_refused.labels(code.decode()).inc()

    async def run(self) -> None:
        """Look at everybody, again and again, until cancelled."""
        while True:
            await asyncio.sleep(self._look_every)
            now = clock.steady()
            for connection in list(self._open):
                self._look_at(connection, now)

    def _look_at(self, connection: Watched, now: float) -> None:
        try:
            connection.look(now)
        except Exception:
            # One odd connection must not blind the watch to the others.
            self._telemetry.log.exception("smtp_watch_stumbled")
            connection.abort()

    async def stop(self) -> None:
        """Let mails under way finish for a while, and end everybody."""
        self.is_stopping = True
        for connection in list(self._open):
            connection.finish()
        try:
            async with asyncio.timeout(self.settings.stop_within):
                await self._empty.wait()
        except TimeoutError:
            for connection in list(self._open):
                connection.abort()
