"""Delivery worker loop: claim, process within lease and time limit, settle in batches."""

import asyncio
import sys
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import count

from prometheus_client import Gauge

from oncebox.core import clock, faults
from oncebox.core.metrics import Telemetry
from oncebox.errors import (
    CommitUnknown,
    DatabaseClosed,
    LeaseLost,
    RowRefused,
    StoreError,
    StoreUnavailable,
)
from oncebox.ledger.deliveries import leases, settlements
from oncebox.ledger.deliveries.leases import DeliveryClaimant, SourceName
from oncebox.ledger.deliveries.settlements import EndedDelivery, SettledTry
from oncebox.ledger.notifications import DUE, EVENTS
from oncebox.ledger.transactions import Ledger
from oncebox.model.deliveries.delivery import Delivery, Settlement
from oncebox.settings import WorkerSettings
from oncebox.workers.deliveries.handlers import Handlers, release_settlement
from oncebox.workers.deliveries.middleware import DeliveryProcessor
from oncebox.workers.lease_renewal import RELEASE_WITHIN, RENEW_EVERY, renew_periodically
from oncebox.workers.scan_floor import ScanFloor

#: bytes of bodies that one round may load, if several sources have work
_MAX_CLAIMED_BYTES = 32 * 1024 * 1024

IsRunning = Callable[[Delivery], bool]
#: returns the sources to claim from now
ListTargets = Callable[[], Awaitable[Sequence[DeliveryClaimant]]]


def handler_targets(handlers: Handlers, *, tenant: str, worker: str, lease: float) -> ListTargets:
    """Return the sources of one tenant that have handlers."""

    async def targets() -> list[DeliveryClaimant]:
        return [claimant(source) for source in handlers.claimable]

    def claimant(source: str) -> DeliveryClaimant:
        rules = handlers.rules(source)
        retry = rules.retry
        return DeliveryClaimant(
            tenant, source, worker, int(lease * 1000), retry.tries, retry.budget,
            rules.rate, rules.concurrency,
        )  # fmt: skip

    return targets


class Claimer:
    """Claims deliveries for one worker."""

    def __init__(self, ledger: Ledger, targets: ListTargets) -> None:
        self._ledger = ledger
        self._list_targets = targets
        self._turns = count()
        #: by tenant and source: of what is due, and of leases that may have run out
        self._due_floors: defaultdict[SourceName, ScanFloor] = defaultdict(ScanFloor)
        self._lease_floors: defaultdict[SourceName, ScanFloor] = defaultdict(ScanFloor)
        self._none_exhausted_at: dict[SourceName, int | None] = {}
        self._unknown_commits: dict[tuple[str, str], DeliveryClaimant] = {}

    async def claim(self, most: int, is_running: IsRunning) -> list[Delivery]:
        """Lease up to ``most`` due deliveries; every call begins with another source."""
        claimed: list[Delivery] = []
        try:
            await self._recover_unknown_commits(claimed, is_running)
            for target in await self._rotated_targets():
                size = sum(len(each.body) for each in claimed)
                if len(claimed) >= most or size > _MAX_CLAIMED_BYTES:
                    break
                claimed += await self._claim_from(target, most - len(claimed))
        except StoreError:
            if not claimed:
                raise
            # Deliveries that are leased already must be started.
        if claimed:
            faults.point("worker.leased")
        return claimed

    async def _recover_unknown_commits(
        self, claimed: list[Delivery], is_running: IsRunning
    ) -> None:
        """Add deliveries of claims whose commit succeeded although its reply was lost."""
        for source, target in list(self._unknown_commits.items()):
            leased = await self._ledger.read(leases.leased_to, target)
            del self._unknown_commits[source]
            claimed += [each for each in leased if not is_running(each)]

    async def claim_suspects(self, most: int) -> list[Delivery]:
        """Lease deliveries whose last worker was lost.

        Those that lost one worker are leased together: at most one of them killed it. Those
        that lost two are leased one by one.
        """
        found: list[Delivery] = []
        targets = await self._rotated_targets()
        clock_, write = self._ledger.clock, self._ledger.write
        for target in targets:
            if len(found) < most:
                found += await write(leases.claim_lost_once, target, most - len(found), clock_())
        for target in targets:
            if not found:
                one = await write(leases.claim_expired, target, clock_())
                found = [one] if one is not None else []
        if found:
            faults.point("worker.leased")
        return found

    async def has_suspects(self) -> bool:
        """Say whether a lease has run out."""
        for target in await self._list_targets():
            now, floors = self._ledger.clock(), self._lease_floors[target[:2]]
            floor = floors.begin(now)
            if await self._ledger.read(leases.has_expired, target, now, floor):
                return True
            floors.end(floor, self._none_exhausted_at.get(target[:2]))
        return False

    async def dead_letter_exhausted(self) -> list[EndedDelivery]:
        """Give up on deliveries that were lost on their last try."""
        dead: list[EndedDelivery] = []
        for target in await self._list_targets():
            now, floors = self._ledger.clock(), self._lease_floors[target[:2]]
            floor = floors.begin(now)
            ended = await self._ledger.write(leases.dead_letter_exhausted, target, now, floor)
            self._none_exhausted_at[target[:2]] = None if ended else now
            dead += ended
        if dead:
            self._ledger.notify(EVENTS)
        return dead

    async def _claim_from(self, target: DeliveryClaimant, most: int) -> list[Delivery]:
        source, now = target[:2], self._ledger.clock()
        floors = self._due_floors[source]
        floor = floors.begin(now)
        try:
            claimed = await self._ledger.write(leases.claim_from, target, most, now, floor)
        except CommitUnknown:
            self._unknown_commits[source] = target
            raise
        if claimed.is_all:
            floors.end(floor, now)
        else:  # everything older than these was claimed just now
            received = [each.received_at for each in claimed.deliveries]
            floors.end(floor, min(received, default=None))
        return claimed.deliveries

    async def _rotated_targets(self) -> list[DeliveryClaimant]:
        targets = list(await self._list_targets())
        begin = next(self._turns) % len(targets) if targets else 0
        return targets[begin:] + targets[:begin]


class StopReason(Enum):
    """Why the worker cancelled a try."""

    #: another worker owns the delivery now
    LEASE_LOST = auto()
    #: the time limit has passed
    TIME_LIMIT = auto()
    #: the worker stops and gives the delivery back
    WORKER_STOPS = auto()


@dataclass(slots=True)
class _Try:
    """One try in progress."""

    delivery: Delivery
    task: asyncio.Task[None]
    renew_at: float
    limit_at: float
    handler_ended: bool = False
    stop_reason: StopReason | None = None

    def needs_renewal(self, now: float) -> bool:
        return self.renew_at <= now and (self.handler_ended or now < self.limit_at)

    def stop(self, reason: StopReason) -> None:
        if self.stop_reason is None:
            self.stop_reason = reason
            self.task.cancel()


class InFlightDeliveries:
    """Starts tries, renews their leases, and stops those that may not go on."""

    def __init__(
        self,
        ledger: Ledger,
        telemetry: Telemetry,
        *,
        lease: float,
        most_bytes: int | None = None,
        gauge: Gauge | None = None,
    ) -> None:
        """Start nothing new above ``most_bytes`` of bodies."""
        self._ledger = ledger
        self._telemetry = telemetry
        self._lease = lease
        self._max_bytes = most_bytes
        self._bytes = 0
        self._tries: dict[tuple[str, int], _Try] = {}
        self._ended_handlers = 0
        self._changed = asyncio.Event()
        (gauge or telemetry.in_flight).set_function(lambda: len(self._tries))

    def __len__(self) -> int:
        """How many tries are not settled yet."""
        return len(self._tries)

    @property
    def executing(self) -> int:
        """How many handlers are executing; the other tries wait for their commit."""
        return len(self._tries) - self._ended_handlers

    def start(self, delivery: Delivery, work: Coroutine[None, None, None], limit: float) -> None:
        """Run a try beside the others, for at most ``limit`` seconds."""
        if delivery.fence > 1:
            self._cancel_earlier_try(delivery)
        now = clock.steady()
        task = asyncio.create_task(work)
        self._tries[_try_key(delivery)] = _Try(delivery, task, now + self._lease / 3, now + limit)
        self._bytes += len(delivery.body)

    def _cancel_earlier_try(self, delivery: Delivery) -> None:
        """Stop an earlier try of this worker, whose lease was lost and is ours again."""
        for (id_, _fence), each in self._tries.items():
            if id_ == delivery.id:
                each.stop(StopReason.LEASE_LOST)

    def handler_ended(self, delivery: Delivery) -> None:
        """Note that the handler has ended; the try keeps its lease until it is settled."""
        found = self._tries.get(_try_key(delivery))
        if found is not None:
            found.handler_ended = True
            self._ended_handlers += 1
            self._changed.set()

    def remove(self, delivery: Delivery) -> None:
        """Remove a try that is settled, or whose lease was lost."""
        found = self._tries.pop(_try_key(delivery), None)
        if found is not None:
            self._bytes -= len(delivery.body)
            self._ended_handlers -= found.handler_ended
        self._changed.set()

    def contains(self, delivery: Delivery) -> bool:
        """Say whether this very try is in progress."""
        return _try_key(delivery) in self._tries

    def stop_reason(self, delivery: Delivery) -> StopReason | None:
        """Return why the worker cancelled a try; None if it did not."""
        found = self._tries.get(_try_key(delivery))
        return found.stop_reason if found else None

    async def wait_for_capacity(self, most: int, within: float) -> int:
        """Wait until at least half of ``most`` handlers could be started; return how many.

        Tries that wait for their commit do not count, up to as many again.
        """

        def has_capacity() -> bool:
            return self.executing <= most // 2 and len(self) < 2 * most and not self._is_full

        await self._wait_until(has_capacity, within)
        if self._is_full:
            return 0
        return max(0, min(most - self.executing, 2 * most - len(self)))

    @property
    def _is_full(self) -> bool:
        return self._max_bytes is not None and self._bytes >= self._max_bytes

    async def wait_until_empty(self, within: float) -> bool:
        """Wait until every try is settled; say whether that happened in time."""
        return await self._wait_until(lambda: not self._tries, within)

    async def _wait_until(self, holds: Callable[[], bool], within: float) -> bool:
        if holds():
            return True
        try:
            async with asyncio.timeout(within):
                while not holds():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def release_all(self) -> None:
        """Stop every try, because the worker stops."""
        for each in self._tries.values():
            each.stop(StopReason.WORKER_STOPS)

    async def renew_and_enforce_limits(self) -> None:
        """Renew leases and stop tries at their time limit, until cancelled."""
        renewing = renew_periodically(self._renew, self._lease, self._telemetry)
        await asyncio.gather(self._enforce_limits(), renewing)

    async def _enforce_limits(self) -> None:
        while True:
            await asyncio.sleep(min(RENEW_EVERY, self._lease / 6))
            now = clock.steady()
            for each in list(self._tries.values()):
                if each.limit_at <= now:
                    each.stop(StopReason.TIME_LIMIT)
                if each.limit_at + self._lease <= now and not each.handler_ended:
                    # It ignores its cancellation. Its lease has expired: others may claim it.
                    self._telemetry.log.warning("handler_not_stopped", delivery=each.delivery.id)
                    self.remove(each.delivery)

    async def _renew(self) -> None:
        """Renew the leases that are a third used; stop the tries that lost theirs.

        Renewal ends at the time limit: a handler that does not stop then loses its lease.
        """
        now = clock.steady()
        old = [each for each in self._tries.values() if each.needs_renewal(now)]
        if not old:
            return
        held = [(each.delivery.id, each.delivery.fence) for each in old]
        until = self._ledger.clock() + int(self._lease * 1000)
        ours = await self._ledger.write(leases.renew, held, until)
        for each in old:
            each.renew_at = now + self._lease / 3
            if each.delivery.id not in ours:
                each.stop(StopReason.LEASE_LOST)


def _time_limit_error(error: BaseException, reason: StopReason | None) -> BaseException:
    """Return the error of a cancelled try; its traceback shows where the handler was."""
    if reason is not StopReason.TIME_LIMIT:
        return error
    message = "the handler's time limit has passed"
    return TimeoutError(message).with_traceback(error.__traceback__)


def _try_key(delivery: Delivery) -> tuple[str, int]:
    """Return the key of a try; an earlier try of the same delivery has another fence."""
    return (delivery.id, delivery.fence)


#: seconds that settlements wait for others, while as many handlers as this are executing
_LINGER = 0.025
_LINGER_FROM = 16


class DeliveryWorker:
    """Claims, processes and settles many deliveries at a time."""

    def __init__(  # noqa: PLR0913 - its collaborators
        self,
        ledger: Ledger,
        claimer: Claimer,
        processor: DeliveryProcessor,
        telemetry: Telemetry,
        *,
        settings: WorkerSettings,
        most_bytes: int | None = None,
        gauge: Gauge | None = None,
        linger: bool = False,
    ) -> None:
        """Start nothing new above ``most_bytes`` of bodies; show tries in progress in ``gauge``.

        With ``linger``, settlements wait a moment for others while many tries run.
        """
        self._ledger = ledger
        self._claimer = claimer
        self._processor = processor
        self._telemetry = telemetry
        self._settings = settings
        self._in_flight = InFlightDeliveries(
            ledger, telemetry, lease=settings.lease, most_bytes=most_bytes, gauge=gauge
        )
        self._settlements = ledger.group(
            settlements.settle_with_hooks,
            fast=settlements.complete_all,
            in_order=True,
            waiting=sys.maxsize,  # bounded by the tries in progress
            committed=self._after_commit,
            failed=self._not_settled,
            retries=True,
            linger=self._linger if linger else None,
        )
        self._subscription = ledger.subscribe(DUE)
        self._stopping = asyncio.Event()
        self._recover_at = 0.0

    async def run(self) -> None:
        """Work until ``stop``; then finish the tries in progress, or give them back."""
        watching = asyncio.create_task(self._in_flight.renew_and_enforce_limits())
        try:
            while not self._stopping.is_set():
                try:
                    await self._recover_lost_when_due()
                    if not await self._claim_and_start():
                        await self._subscription.wait(self._settings.poll)
                except StoreUnavailable as error:
                    await self._wait_for_database(error)
                except Exception:
                    self._telemetry.log.exception("worker_failed")
                    await asyncio.sleep(self._settings.poll)
            await self._drain()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    def stop(self) -> None:
        """End the loop after this round."""
        self._stopping.set()
        self._ledger.notify(DUE)

    # claim

    async def _claim_and_start(self) -> bool:
        """Start due deliveries, as many as there is capacity for; say whether there were any."""
        capacity = await self._in_flight.wait_for_capacity(
            self._settings.concurrency, self._settings.poll
        )
        if not capacity:
            return True  # check for stop and lost work, then wait again
        claimed = await self._claimer.claim(capacity, self._in_flight.contains)
        for delivery in claimed:
            self._start(delivery)
        return bool(claimed)

    async def _recover_lost_when_due(self) -> None:
        """Look for work whose worker was lost, if it is time."""
        if clock.steady() < self._recover_at:
            return
        self._recover_at = clock.steady() + min(self._settings.poll, self._settings.lease / 4)
        dead = await self._claimer.dead_letter_exhausted()
        settlements.log_lost(self._telemetry.log, dead)
        for each in dead:
            self._telemetry.settled.labels(each.source, each.outcome).inc()
        while not self._stopping.is_set() and await self._claimer.has_suspects():
            if not await self._run_suspects():
                return

    async def _run_suspects(self) -> bool:
        """Run deliveries that may have killed their last worker, with nothing new beside them.

        Tries in progress finish first, within their own limits. Then the suspects run among
        themselves for one lease at most: a task that outlives one lease is not a poison message.
        """
        while not await self._in_flight.wait_until_empty(self._settings.poll):
            if self._stopping.is_set():
                return False
        suspects = await self._claimer.claim_suspects(self._settings.concurrency)
        if not suspects:
            return False
        for suspect in suspects:
            self._start(suspect)
        return await self._in_flight.wait_until_empty(self._settings.lease)

    # process

    def _start(self, delivery: Delivery) -> None:
        limit = self._processor.time_limit(delivery) or self._settings.handler_limit
        self._in_flight.start(delivery, self._run_try(delivery), limit)

    async def _run_try(self, delivery: Delivery) -> None:
        """Process one delivery, measure how long it takes, and pass its settlement on."""
        began = clock.steady()
        settlement = await self._process(delivery)
        self._telemetry.observe_handler(delivery.source, clock.steady() - began)
        if settlement is None:
            self._telemetry.lease_conflicts.inc()
            self._in_flight.remove(delivery)
        else:
            self._in_flight.handler_ended(delivery)
            self._settlements.enqueue(settlement)

    async def _process(self, delivery: Delivery) -> Settlement | None:
        """Process one delivery; an error becomes a settlement, a lost lease None."""
        try:
            return await self._processor.process(delivery)
        except LeaseLost:
            return None
        except asyncio.CancelledError as error:
            reason = self._in_flight.stop_reason(delivery)
            if reason is StopReason.LEASE_LOST:
                return None
            if reason is StopReason.WORKER_STOPS:
                return release_settlement(delivery, self._ledger.clock())
            return self._processor.settle_failure(delivery, _time_limit_error(error, reason))
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is recorded
            return self._processor.settle_failure(delivery, error)

    # settle

    def _linger(self) -> float:
        return _LINGER if self._in_flight.executing >= _LINGER_FROM else 0.0

    def _after_commit(self, batch: Sequence[tuple[Settlement, SettledTry]]) -> None:
        """Run the callbacks of commit hooks, remove the tries, wake who has work now."""
        for settlement, settled in batch:
            if settled.hook_result is not None:
                self._call_after_commit(settlement, settled.hook_result)
        if any(each.state in settlements.ANNOUNCED for each, _ in batch):
            self._ledger.notify(EVENTS)
        faults.point("worker.committed-not-reported")
        self._telemetry.commit_rows.labels("settle").observe(len(batch))
        outcomes = Counter(
            (each.delivery.source, each.outcome) for each, settled in batch if settled.counted
        )
        for (source, outcome), number in outcomes.items():
            self._telemetry.settled.labels(source, outcome).inc(number)
        for settlement, settled in batch:
            self._in_flight.remove(settlement.delivery)
            if not settled.counted:
                self._telemetry.lease_conflicts.inc()
        if any(each.heavy or each.delivery.lane is not None for each, _ in batch):
            self._ledger.notify(DUE)

    def _call_after_commit(self, settlement: Settlement, result: object) -> None:
        hook = settlement.commit_hook
        if hook is None or hook.after_commit is None:
            return
        try:
            hook.after_commit(result)
        except Exception:
            # The settlement is on disk; the worker goes on.
            self._telemetry.log.exception("commit_hook_failed", delivery=settlement.delivery.id)

    def _not_settled(self, batch: Sequence[Settlement], error: Exception) -> None:
        """Give up on settlements that cannot be recorded: their leases expire."""
        if isinstance(error, DatabaseClosed):
            return  # the program ends; other workers take over
        event = "settlement_refused" if isinstance(error, RowRefused) else "settlements_lost"
        kind = type(error).__name__
        self._telemetry.log.error(event, error=kind, deliveries=len(batch))
        for settlement in batch:
            self._in_flight.remove(settlement.delivery)
            self._telemetry.lease_conflicts.inc()

    # wait

    async def _wait_for_database(self, error: StoreUnavailable) -> None:
        self._telemetry.count_store_error("deliveries", error)
        await asyncio.sleep(min(0.5, self._settings.poll))

    async def _drain(self) -> None:
        """Let handlers finish for a while, then give the rest back to other workers."""
        if not await self._in_flight.wait_until_empty(self._settings.stop_within):
            self._in_flight.release_all()
            await self._in_flight.wait_until_empty(min(RELEASE_WITHIN, self._settings.lease))
