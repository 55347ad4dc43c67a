"""Database contract: ``Transaction``, and ``Database`` that runs functions in transactions."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from oncebox.db.notify import Subscription
from oncebox.db.queries import Query

Row = tuple[Any, ...]
Value = str | int | bytes | None

#: rows of one bulk insert, at most
INSERT_ROWS = 256

P = ParamSpec("P")
T = TypeVar("T")


class SentStatement(Protocol):
    """A statement whose result is read later, or never."""

    def rows(self) -> list[Row]:
        """Return its rows."""

    def count(self) -> int:
        """Return how many rows it changed."""


class Transaction(Protocol):
    """Statements that are committed together or not at all."""

    @property
    def is_serial(self) -> bool:
        """Whether no other transaction writes between its first statement and its commit."""

    def one(self, query: Query, /, **values: Value) -> Row | None:
        """Return the first row, or None."""

    def all(self, query: Query, /, **values: Value) -> list[Row]:
        """Return every row."""

    def run(self, query: Query, /, **values: Value) -> int:
        """Return how many rows were changed."""

    def many(self, query: Query, rows: Sequence[Row], /, **shared: Value) -> list[Row]:
        """Run a bulk query over rows, their values in the order of its ``-- bulk:`` line."""

    def run_many(self, query: Query, rows: Sequence[Row], /, **shared: Value) -> int:
        """Run a bulk query over rows; return how many rows were changed."""

    def send(self, query: Query, /, **values: Value) -> SentStatement:
        """Run a statement without waiting for its result.

        Where a round trip is expensive, the statements up to the next result share one. An error
        is raised with any later result, at the latest by the commit.
        """

    def send_many(self, query: Query, rows: Sequence[Row], /, **shared: Value) -> SentStatement:
        """Run a bulk query over rows without waiting for its result, as ``send`` does."""

    def execute(self, statement: str, values: Sequence[Value] = ()) -> list[Row]:
        """Run a user's own statement, with the driver's own placeholders."""


class StatementResult:
    """The result of a statement that has run already."""

    __slots__ = ("_count", "_rows")

    def __init__(self, rows: list[Row], count: int) -> None:
        self._rows = rows
        self._count = count

    def rows(self) -> list[Row]:
        """Return its rows."""
        return self._rows

    def count(self) -> int:
        """Return how many rows it changed."""
        return self._count


#: a ledger function, with the rest of its parameters
TxFunction = Callable[Concatenate[Transaction, P], T]


class ReadSession(Protocol):
    """One connection that only reads, used by one thread."""

    #: ``sqlite`` or ``postgres``
    kind: str

    def clock(self) -> int:
        """Milliseconds since 1970, agreed by all processes of this database."""

    def read(self, work: TxFunction[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a ledger function in one read transaction."""

    def close(self) -> None:
        """Close the connection."""


class Database(Protocol):
    """Runs ledger functions in transactions."""

    #: ``sqlite`` or ``postgres``
    kind: str
    #: how many group commits may run at once
    writers: int
    #: whether a function of one statement is cheaper than one of several
    round_trips: bool
    #: seconds after which a caller is answered with DatabaseOverdue or, if the call may still be
    #: committed, with CommitOverdue; None: the caller waits
    deadline: float | None

    #: whether a write found the disk full since this was last set to False
    disk_full: bool

    @property
    def overdue(self) -> int:
        """How many calls were answered by their deadline and are still running."""

    def clock(self) -> int:
        """Milliseconds since 1970, agreed by all processes of this database."""

    async def write(self, work: TxFunction[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in one transaction; return only after its commit.

        Others may share the transaction; their effects are isolated from each other.
        """

    async def write_alone(self, work: TxFunction[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function that executes a user's statements, in a transaction of its own.

        It has no deadline: the user's statements may take longer.
        """

    async def write_statement(
        self, work: TxFunction[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a function of a single statement, which is a transaction by itself."""

    def insert(
        self, query: Query, rows: Callable[[], Sequence[Row] | None], /
    ) -> Awaitable[int | None]:
        """Run a bulk insert, which is a transaction by itself; return how many rows it inserted.

        On SQLite it starts with this call. ``rows`` is called when the statement is about to run,
        perhaps in another thread; it returns at most ``INSERT_ROWS``. If it returns None, nothing
        is inserted. ``:now`` is the time then. Where a row cannot be inserted, SQLite refuses all
        rows, and PostgreSQL does what the statement says.

        Raises: RowRefused, StoreError.
        """

    async def run_bulk(self, query: Query, rows: Sequence[Row], /, **shared: Value) -> list[Row]:
        """Run one bulk statement, which is a transaction by itself; return its rows.

        Raises: RowRefused, StoreError.
        """

    async def read(self, work: TxFunction[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function that changes nothing."""

    def notify(self, topic: str) -> None:
        """Wake the subscribers of a topic, in this process and in others."""

    def notify_others(self, topic: str) -> None:
        """Wake the subscribers of a topic in other processes; those of this one know already."""

    def subscribe(self, topic: str) -> Subscription:
        """Return a subscription to a topic; it receives every notification from now on."""

    async def wait(self, topic: str, within: float) -> None:
        """Wait until the topic is notified, at most ``within`` seconds.

        For the only waiter of this process; where there may be others, each subscribes.
        """

    async def close(self) -> None:
        """Finish pending work and close the database; what is overdue is left alone."""
