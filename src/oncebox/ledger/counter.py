"""The counter: the ledger as the API uses it, with creations that happen once."""

import asyncio
from collections.abc import Callable
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar

from oncebox import clock
from oncebox.errors import LeaseLost, OnceboxError
from oncebox.ledger.office import idempotency
from oncebox.model.idempotency import Answer, Asked, Fresh, Mismatch, Replay
from oncebox.refusals import IdempotencyKeyReused, StillRunning
from oncebox.seal import MasterKey
from oncebox.store import migrate, opening
from oncebox.store.database import Database, Transaction

P = ParamSpec("P")
T = TypeVar("T")

#: seconds for which a good answer is believed
_READY_FOR = 1.0


class _Undone(Exception):
    """Carries a result out of the transaction that is undone."""

    def __init__(self, result: Any) -> None:
        super().__init__()
        self.result = result


class Counter:
    """Runs the ledger's verbs for whoever calls from outside."""

    def __init__(self, database: Database, master_key: MasterKey) -> None:
        """Serve any number of callers at the same time."""
        self._database = database
        self._master_key = master_key
        self.clock = database.clock
        self.ring = database.ring
        self._checking = asyncio.Lock()
        self._ready_until = 0.0

    async def read(
        self, verb: Callable[Concatenate[Transaction, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a verb that changes nothing."""
        return await self._database.read(verb, *args, **kwargs)

    async def write(
        self, verb: Callable[Concatenate[Transaction, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a verb in one transaction; return only after its commit."""
        return await self._database.write(verb, *args, **kwargs)

    async def rehearse(
        self, verb: Callable[Concatenate[Transaction, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a verb and undo it; return what it would have returned."""

        def undone(tx: Transaction) -> NoReturn:
            raise _Undone(verb(tx, *args, **kwargs))

        try:
            return await self._database.write(undone)
        except _Undone as would:
            result: T = would.result
            return result

    async def create(
        self, asked: Asked, create: Callable[[Transaction], Answer]
    ) -> tuple[Answer, bool]:
        """Create what was asked for, once; return the answer, and whether it is a repeated one.

        The creation and its answer are one commit. What is refused may be asked again.

        Raises: StillRunning, IdempotencyKeyReused, and what ``create`` raises.
        """
        found = await self.write(idempotency.begin, self._master_key, asked, self.clock())
        if isinstance(found, Replay):
            return found.answer, True
        if isinstance(found, Mismatch):
            message = "this Idempotency-Key came with another body before; take a new one"
            raise IdempotencyKeyReused(message)
        if not isinstance(found, Fresh):
            raise StillRunning
        try:
            return await self.write(self._create, found, create), False
        except LeaseLost as error:
            raise StillRunning from error
        except OnceboxError:
            await self.write(idempotency.abandon, found)
            raise

    def _create(
        self, tx: Transaction, fresh: Fresh, create: Callable[[Transaction], Answer]
    ) -> Answer:
        answer = create(tx)
        idempotency.finish(tx, self._master_key, fresh, answer, self.clock())
        return answer

    async def check_ready(self) -> None:
        """Make sure that the schema is this version's and that commits go through.

        However often this is asked, the database is asked at most once a second.

        Raises: StoreError.
        """
        async with self._checking:
            if clock.steady() < self._ready_until:
                return
            await migrate.check(self._database)
            await opening.check_writable(self._database)
            self._ready_until = clock.steady() + _READY_FOR
