"""The settler: tries that end at the same time share a commit; a restart is waited out."""

import asyncio
from collections.abc import Callable, Sequence

from oncebox.errors import DatabaseClosed, RowRefused
from oncebox.ledger.deliveries.desk import Desk
from oncebox.model.delivery import Settlement
from oncebox.telemetry import Telemetry
from oncebox.worker.patience import patiently

_MOST = 500
#: seconds that ended tries wait for others, while as many as this are still under way
_LINGER = 0.01
_CROWD = 16

Settled = Callable[[Sequence[tuple[Settlement, bool]]], None]


class Settler:
    """Commits settlements in the background and reports each batch when it is on disk.

    Unlike a ``Group`` nobody awaits a single settlement, so a finished try costs no wake-up.
    """

    def __init__(
        self,
        desk: Desk,
        telemetry: Telemetry,
        settled: Settled,
        *,
        under_way: Callable[[], int] = lambda: 0,
    ) -> None:
        """Report to ``settled``: each settlement, and whether it counted.

        While many are ``under_way``, a commit waits a moment for more of them to end.
        """
        self._desk = desk
        self._telemetry = telemetry
        self._settled = settled
        self._under_way = under_way
        self._pending: list[Settlement] = []
        self._task: asyncio.Task[None] | None = None

    def put(self, settlement: Settlement) -> None:
        """Commit this settlement with the next batch."""
        self._pending.append(settlement)
        if self._task is None:
            self._task = asyncio.create_task(self._flush())

    async def _flush(self) -> None:
        try:
            while self._pending:
                if self._under_way() >= _CROWD:
                    await asyncio.sleep(_LINGER)
                batch, self._pending = self._pending[:_MOST], self._pending[_MOST:]
                await self._commit(batch)
        except DatabaseClosed:
            return  # the program ends; the leases run out and other workers take over
        finally:
            self._task = None  # no await since the last look: who comes now starts a new flush

    async def _commit(self, batch: list[Settlement]) -> None:
        try:
            counts = await patiently(lambda: self._desk.settle(batch))
        except RowRefused as error:
            if len(batch) > 1:
                middle = len(batch) // 2
                await self._commit(batch[:middle])
                await self._commit(batch[middle:])
                return
            # It cannot be written down; the lease will run out and the try counts as lost.
            self._telemetry.log.exception("settlement_refused", code=error.code)
            counts = [False]
        except DatabaseClosed:
            raise
        except Exception:
            # Whatever it is: reported as lost, so that the leases are no longer renewed.
            self._telemetry.log.exception("settlements_lost", deliveries=len(batch))
            counts = [False] * len(batch)
        self._telemetry.commit_rows.labels("settle").observe(len(batch))
        self._settled(list(zip(batch, counts, strict=True)))
