"""A database that goes away, and comes back: a real one behind a switch."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any, TypeVar

from oncebox.db.database import Database, Row, Transaction, Value
from oncebox.db.queries import Query
from oncebox.errors import CommitOverdue, CommitUnknown, DatabaseUnreachable, StoreUnavailable
from tests.support.databases import Place

T = TypeVar("T")


class Outage:
    """Passes everything on while it is not away."""

    def __init__(self, database: Database) -> None:
        """Begin with all well."""
        self._database = database
        #: what is raised instead of asking the database
        self.away: type[StoreUnavailable] | None = None
        #: whether writes happen and their answers are lost
        self.loses = False
        #: how often something was to be written
        self.writes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def go(self, kind: type[StoreUnavailable] = DatabaseUnreachable) -> None:
        """Be away from now on."""
        self.away = kind

    def come_back(self) -> None:
        """Be as before."""
        self.away, self.loses = None, False

    async def write(self, verb: Callable[..., T], /, *args: Any, **more: Any) -> T:
        """Write, unless away."""
        self.writes += 1
        self._check(writes=True)
        found = await self._database.write(verb, *args, **more)
        if self.loses:
            raise CommitUnknown
        return found

    async def write_statement(self, verb: Callable[..., T], /, *args: Any, **more: Any) -> T:
        """Write, unless away."""
        self.writes += 1
        self._check(writes=True)
        return await self._database.write_statement(verb, *args, **more)

    async def insert(self, query: Query, rows: Callable[[], Sequence[Row] | None], /) -> int | None:
        """Insert, unless away."""
        self.writes += 1
        self._check(writes=True)
        count = await self._database.insert(query, rows)
        if self.loses:
            raise CommitUnknown
        return count

    async def run_bulk(self, query: Query, rows: Sequence[Row], /, **shared: Value) -> list[Row]:
        """Run a bulk statement, unless away."""
        self._check()
        found = await self._database.run_bulk(query, rows, **shared)
        if self.loses:
            raise CommitUnknown
        return found

    async def read(self, verb: Callable[..., T], /, *args: Any, **more: Any) -> T:
        """Read, unless away."""
        self._check()
        return await self._database.read(verb, *args, **more)

    def _check(self, *, writes: bool = False) -> None:
        # A commit that is overdue hinders nobody from reading.
        if self.away is not None and (writes or not issubclass(self.away, CommitOverdue)):
            raise self.away


@contextmanager
def held_tables(place: Place) -> Iterator[None]:
    """Let nobody else write."""
    session = place.session()
    lock = "LOCK TABLE oncebox_deliveries" if place.kind == "postgres" else "SELECT 1"
    opened, closing = Event(), Event()

    def hold(tx: Transaction) -> None:
        tx.execute(lock)
        opened.set()
        assert closing.wait(20)

    holder = Thread(target=session.run, args=(hold,))
    holder.start()
    try:
        assert opened.wait(20)
        yield
    finally:
        closing.set()
        holder.join()
        session.close()
