"""The contract both databases keep: verbs run in one transaction, in one hop."""

from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from oncebox.store.bell import Ear
from oncebox.store.queries import Query

Row = tuple[Any, ...]
Value = str | int | bytes | None

P = ParamSpec("P")
T = TypeVar("T")


class Transaction(Protocol):
    """Statements that happen together or not at all."""

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

    def execute(self, statement: str, values: Sequence[Value] = ()) -> list[Row]:
        """Run a user's own statement, with the driver's own placeholders."""


class Database(Protocol):
    """A place to run verbs in."""

    #: ``sqlite`` or ``postgres``
    kind: str
    #: how many group commits may be under way at once
    writers: int
    #: whether a verb of one statement is cheaper than one of several
    round_trips: bool

    def clock(self) -> int:
        """Milliseconds since 1970, agreed by all processes of this database."""

    async def write(
        self, verb: Callable[Concatenate[Transaction, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a verb in one transaction; return only after its commit.

        Others may share the transaction; each is as if it came before or after them.
        """

    async def write_alone(
        self, verb: Callable[Concatenate[Transaction, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a verb in a transaction of its own: one that runs a user's statements."""

    async def write_one(
        self, verb: Callable[Concatenate[Transaction, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a verb of a single statement, which is a transaction by itself."""

    async def read(
        self, verb: Callable[Concatenate[Transaction, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a verb that changes nothing."""

    def ring(self, channel: str) -> None:
        """Wake whoever waits on a channel, in this process and in the others."""

    def ear(self, channel: str) -> Ear:
        """Return an ear, which hears every ring from now on, whoever else listens."""

    async def wait(self, channel: str, within: float) -> None:
        """Rest until the channel rings, at most ``within`` seconds.

        For the only waiter of this process; where there may be others, each takes an ear.
        """

    async def close(self) -> None:
        """Finish what was begun and let go of the database."""
