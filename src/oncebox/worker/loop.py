"""The loop: claim, perform, settle, rest."""

import asyncio
from collections import Counter
from collections.abc import Sequence

from prometheus_client import Gauge

from oncebox import clock, faults
from oncebox.config import WorkerSettings
from oncebox.errors import LeaseLost, StoreUnavailable
from oncebox.ledger.deliveries.desk import Desk
from oncebox.model.delivery import Delivery, Settlement
from oncebox.telemetry import Telemetry
from oncebox.worker.claims import Claims
from oncebox.worker.patience import patiently
from oncebox.worker.perform import Performs, given_back
from oncebox.worker.running import Running, Stopped
from oncebox.worker.settler import Settler

#: seconds between two log lines about a database that is away
_COMPLAIN_EVERY = 30.0


class Worker:
    """Claims, performs and settles, many deliveries at a time."""

    def __init__(  # noqa: PLR0913 - it stands between this many rooms
        self,
        desk: Desk,
        claims: Claims,
        performer: Performs,
        telemetry: Telemetry,
        *,
        settings: WorkerSettings,
        most_bytes: int | None = None,
        gauge: Gauge | None = None,
        linger: bool = False,
    ) -> None:
        """Prepare; nothing is claimed before ``run``.

        Nothing new is begun above ``most_bytes`` of bodies; ``gauge`` shows what is under way.
        Those who ``linger`` let tries of a crowd share commits.
        """
        self._desk = desk
        self._claims = claims
        self._performer = performer
        self._telemetry = telemetry
        self._settings = settings
        self._running = Running(
            desk, telemetry, lease=settings.lease, most_bytes=most_bytes, gauge=gauge
        )
        crowd = (lambda: self._running.executing) if linger else (lambda: 0)
        self._settler = Settler(desk, telemetry, self._settled, under_way=crowd)
        self._ear = desk.ear()
        self._stopping = asyncio.Event()
        self._sweep_at = 0.0
        self._complain_at = 0.0

    async def run(self) -> None:
        """Work until ``stop``; then finish what is under way, or give it back."""
        watching = asyncio.create_task(self._running.keep_watch())
        try:
            while not self._stopping.is_set():
                try:
                    await self._sweep_when_due()
                    if not await self._claim_and_start():
                        await self._rest()
                except StoreUnavailable as error:
                    await self._wait_for_the_store(error)
                except Exception:
                    self._telemetry.log.exception("worker_stumbled")
                    await asyncio.sleep(self._settings.poll)
            await self._finish_or_give_back()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    def stop(self) -> None:
        """Ask the loop to end."""
        self._stopping.set()
        self._desk.ring()

    # claim

    async def _claim_and_start(self) -> bool:
        """Start what is due, as far as there is room; say whether there was anything."""
        room = await self._running.room_for(self._settings.concurrency, self._settings.poll)
        if not room:
            return True  # look at the clock and the stop sign, then wait on
        claimed = await self._claims.claim(room, self._running.has)
        for delivery in claimed:
            self._start(delivery)
        return bool(claimed)

    async def _sweep_when_due(self) -> None:
        """Now and then look for work whose worker was lost."""
        if clock.steady() < self._sweep_at:
            return
        self._sweep_at = clock.steady() + min(self._settings.poll, self._settings.lease / 4)
        if buried := await self._claims.bury_hopeless():
            self._telemetry.settled.labels("dead").inc(buried)
            self._telemetry.log.warning("gave_up_on_lost_work", deliveries=buried)
        while not self._stopping.is_set() and await self._claims.has_suspects():
            if not await self._work_on_suspects():
                return

    async def _work_on_suspects(self) -> bool:
        """Run what may have killed its last worker, with nothing new beside it.

        What is under way is let finish first, within its own limits, and nothing new is begun.
        Then among themselves for one lease at most: who lives that long is no killer, and others
        wait.
        """
        while not await self._running.none_left(self._settings.poll):
            if self._stopping.is_set():
                return False
        suspects = await self._claims.claim_suspects(self._settings.concurrency)
        if not suspects:
            return False
        for suspect in suspects:
            self._start(suspect)
        return await self._running.none_left(self._settings.lease)

    # perform

    def _start(self, delivery: Delivery) -> None:
        limit = self._performer.limit(delivery)
        work = self._work_on(delivery)
        self._running.start(delivery, work, limit or self._settings.handler_limit)

    async def _work_on(self, delivery: Delivery) -> None:
        """See one try through to its settlement."""
        began = clock.steady()
        settlement = await self._perform(delivery)
        self._telemetry.handled_in(delivery.source, clock.steady() - began)
        if settlement is None:
            self._telemetry.lease_conflicts.inc()
            self._running.end(delivery)
        else:
            self._running.over(delivery)
            self._settler.put(settlement)

    async def _perform(self, delivery: Delivery) -> Settlement | None:
        """Return how the try ended; nothing if somebody else owns the delivery now."""
        try:
            return await self._performer.perform(delivery, self._permit)
        except LeaseLost:
            return None
        except asyncio.CancelledError as error:
            return self._cancelled(delivery, error)

    def _cancelled(self, delivery: Delivery, error: BaseException) -> Settlement | None:
        why = self._running.why_stopped(delivery)
        if why is Stopped.LEASE_LOST:
            return None
        if why is Stopped.WORKER_STOPS:
            return given_back(delivery, self._desk.clock())
        if why is Stopped.TIME_LIMIT:
            trace = error.__traceback__  # where the handler was
            error = TimeoutError("the handler's time limit has passed").with_traceback(trace)
        return self._performer.failed(delivery, error)

    async def _permit(self, delivery: Delivery) -> None:
        """Journal that the policy let a delivery run."""
        if not await patiently(lambda: self._desk.allow(delivery)):
            message = "the lease was lost while the policy was asked"
            raise LeaseLost(message)

    # settle

    def _settled(self, batch: Sequence[tuple[Settlement, bool]]) -> None:
        """Forget tries whose end is on disk, and wake whoever waits for their lanes."""
        faults.point("worker.committed-not-reported")
        outcomes = Counter(each.outcome for each, counted in batch if counted)
        for outcome, count in outcomes.items():
            self._telemetry.settled.labels(outcome).inc(count)
        for settlement, counted in batch:
            self._running.end(settlement.delivery)
            if not counted:
                self._telemetry.lease_conflicts.inc()
        if any(each.delivery.lane is not None for each, _ in batch):
            self._desk.ring()

    # rest

    async def _rest(self) -> None:
        """Wait for a ring, or for the next look."""
        await self._ear.wait(self._settings.poll)

    async def _wait_for_the_store(self, error: StoreUnavailable) -> None:
        self._telemetry.store_errors.labels(error.code).inc()
        if clock.steady() >= self._complain_at:
            self._complain_at = clock.steady() + _COMPLAIN_EVERY
            self._telemetry.log.warning("store_unavailable", code=error.code)
        await asyncio.sleep(min(0.5, self._settings.poll))

    async def _finish_or_give_back(self) -> None:
        """Let handlers finish for a while, then give the rest back to other workers."""
        if not await self._running.none_left(self._settings.stop_within):
            self._running.give_back_all()
            await self._running.none_left(self._settings.lease)
