"""PostgreSQL through psycopg 3: a crew of threads with a connection each."""

import asyncio
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

import psycopg

from oncebox import clock, errors
from oncebox.store.bell import Bell, Ear
from oncebox.store.crew import Crew
from oncebox.store.database import Transaction
from oncebox.store.listener import Listener
from oncebox.store.notifier import Notifier
from oncebox.store.postgres_session import PostgresSession

P = ParamSpec("P")
T = TypeVar("T")

_NOTIFY_EVERY = 0.01


class PostgresDatabase:
    """A database on a server, shared by any number of hosts."""

    kind = "postgres"
    writers = 2
    round_trips = True

    def __init__(self, url: str, *, connections: int = 6, now: clock.Clock = clock.system) -> None:
        """Connect once to see that it works.

        Raises: StoreError of the kind that names the trouble.
        """
        self.url = url
        self._now = now
        self._offset = 0
        self._bell = Bell(self._listen)
        self._ringing: set[str] = set()
        self._background: set[asyncio.Task[None]] = set()
        self._connect().close()
        self._crew = Crew("postgres", connections, self._connect)
        self._notifier = Crew("notifier", 1, lambda: Notifier(url))
        self._listener: Listener | None = None

    def _connect(self) -> PostgresSession:
        session = PostgresSession(self.url)
        self._offset = session.offset
        return session

    def clock(self) -> int:
        """Milliseconds since 1970 by the server's clock, as measured when connecting."""
        return self._now() + self._offset

    async def write(
        self, verb: Callable[Concatenate[Transaction, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a verb in one transaction; return only after its commit."""
        return await self._crew.do(
            lambda session: session.run(lambda tx: verb(tx, *args, **kwargs))
        )

    async def write_alone(
        self, verb: Callable[Concatenate[Transaction, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a verb in a transaction of its own, as all are here."""
        return await self.write(verb, *args, **kwargs)

    async def write_one(
        self, verb: Callable[Concatenate[Transaction, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a verb of a single statement, which is a transaction by itself."""
        return await self._crew.do(
            lambda session: session.run_one(lambda tx: verb(tx, *args, **kwargs))
        )

    async def read(
        self, verb: Callable[Concatenate[Transaction, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a verb that changes nothing."""
        return await self._crew.do(
            lambda session: session.read(lambda tx: verb(tx, *args, **kwargs))
        )

    def ring(self, channel: str) -> None:
        """Wake whoever waits here at once, and the other processes at most every 10 ms."""
        self._bell.ring(channel)
        if channel not in self._ringing:
            self._ringing.add(channel)
            asyncio.get_running_loop().call_later(_NOTIFY_EVERY, self._notify, channel)

    def _notify(self, channel: str) -> None:
        if channel not in self._ringing:
            return
        self._ringing.discard(channel)
        task = asyncio.create_task(self._send_notification(channel))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _send_notification(self, channel: str) -> None:
        try:
            await self._notifier.do(lambda notifier: notifier.notify(channel))
        except (errors.StoreError, psycopg.Error):
            return  # the poll behind every wait will see it

    def ear(self, channel: str) -> Ear:
        """Return an ear of its own for one who waits on a channel more than once."""
        return self._bell.ear(channel)

    async def wait(self, channel: str, within: float) -> None:
        """Rest until the channel rings, here or in another process."""
        await self._bell.wait(channel, within)

    def _listen(self) -> None:
        """Hear the other processes too; whatever was missed before, the listener rings for."""
        if self._listener is None:
            self._listener = Listener(self.url, self._bell)

    async def close(self) -> None:
        """Finish what was begun and disconnect."""
        if self._listener is not None:
            await self._listener.close()
        for channel in list(self._ringing):
            self._notify(channel)
        await asyncio.gather(*self._background)
        await self._notifier.close()
        await self._crew.close()
