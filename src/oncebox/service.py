"""The service: a box with HTTP before it; opens, listens, works, and stops in the right order."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Address, ip_address
from pathlib import Path
from typing import Any

from oncebox.assembly import front_of
from oncebox.box import Oncebox
from oncebox.edge.server import Server, listen
from oncebox.errors import ConfigInvalid
from oncebox.ledger.office import first_key
from oncebox.worker.sweep import Sweeper
from oncebox.worker.watchdog import Watchdog


class Role(StrEnum):
    """What one process does; any number of each may share a PostgreSQL database."""

    #: serve HTTP, run the handlers, sweep
    ALL = "all"
    #: serve HTTP only
    EDGE = "edge"
    #: run the handlers and sweep
    WORKER = "worker"


@dataclass(frozen=True, slots=True)
class Started:
    """What is known once a service is up."""

    #: where it answers; none for a worker
    url: str | None = None
    #: the file with a key for this user's own programs
    credentials: Path | None = None
    #: the first key, in the very start that made it
    key: str | None = None

    def __repr__(self) -> str:
        """Show where it is, never the key."""
        return f"Started(url={self.url!r})"


class Service:
    """Runs one box in one role."""

    def __init__(self, box: Oncebox, role: Role) -> None:
        """Prepare; nothing is opened before ``run``.

        Raises: ConfigInvalid.
        """
        if role is Role.WORKER and not box.handlers.sources:
            message = "a worker needs handlers; name a box, such as: oncebox serve app:box"
            raise ConfigInvalid(message)
        self._box = box
        self._role = role
        self._stopping = asyncio.Event()
        self._server: Server | None = None

    def stop(self) -> None:
        """Ask the service to finish what it does."""
        self._stopping.set()

    async def run(self, tell: Callable[[Started], None]) -> None:
        """Serve until ``stop``; ``tell`` hears where, once clients can connect.

        Raises: AddressUnavailable, ConfigInvalid, StoreError.
        """
        settings = self._box.settings.http
        # Bound before anything else is touched: a port that is taken is the commonest trouble.
        sockets = [] if self._role is Role.WORKER else listen(settings.host, settings.port)
        try:
            await self._box.open()
            started = await self._prepared(sockets[0].getsockname()[1] if sockets else None)
            if sockets:
                app = front_of(self._box.rooms, self._stopping)
                self._server = Server(app, sockets, settings, self._box.telemetry)
                await self._server.start()
            await self._work(lambda: tell(started))
        finally:
            for each in sockets:
                each.close()
            await self._box.close()

    async def _prepared(self, port: int | None) -> Started:
        """Make sure that there is a first key, and say where everything is."""
        if port is None:
            return Started()
        rooms, settings = self._box.rooms, self._box.settings
        url = _url(settings.http.host, port)
        first = await first_key.ensure(
            rooms.database, settings.folder, tenant=settings.tenant, url=url
        )
        if not first.known:
            self._box.telemetry.log.warning("credentials_of_another_database", file=str(first.path))
            return Started(url=url)
        key = first.credentials.key if first.new else None
        return Started(url=url, credentials=first.path, key=key)

    async def _work(self, tell: Callable[[], None]) -> None:
        """Do everything at once until told to stop, or until a part of it fails."""
        working = [asyncio.create_task(self._box.work())] if self._has_work else []
        background = [asyncio.create_task(each) for each in self._background()]
        stopped = asyncio.create_task(self._stopping.wait())
        everything = {*working, *background, stopped}
        try:
            tell()
            done, _ = await asyncio.wait(everything, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()  # a part that failed ends the others
        finally:
            self._stopping.set()
            self._box.stop_working()
            if self._server is not None:
                await self._server.stop()
            for each in (*background, stopped):
                each.cancel()
            await asyncio.gather(*everything, return_exceptions=True)

    @property
    def _has_work(self) -> bool:
        return self._role is not Role.EDGE and bool(self._box.handlers.sources)

    def _background(self) -> Iterator[Coroutine[Any, Any, None]]:
        rooms, telemetry = self._box.rooms, self._box.telemetry
        if not self._has_work:  # who works has a watchdog already
            yield _watch(Watchdog(telemetry, limit=self._box.settings.worker.watchdog))
        if self._role is not Role.EDGE:
            yield Sweeper(rooms.counter, rooms.book, telemetry).run()


async def _watch(watchdog: Watchdog) -> None:
    """Watch for ever, also where the watchdog is switched off."""
    await watchdog.watch()
    await asyncio.Event().wait()


def _url(host: str, port: int) -> str:
    """Return where a client on this machine reaches us."""
    try:
        address = ip_address(host)
    except ValueError:
        return f"http://{host}:{port}"
    if address.is_unspecified:
        host = "127.0.0.1" if isinstance(address, IPv4Address) else "::1"
    return (
        f"http://{host}:{port}" if isinstance(address, IPv4Address) else f"http://[{host}]:{port}"
    )
