"""One try: ask the policy, run the handler within its limit, say how it ended."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Protocol

from oncebox.errors import (
    EffectInDoubt,
    EffectMisused,
    LeaseLost,
)
from oncebox.ledger.deliveries.desk import Desk
from oncebox.ledger.sends.outbox import Outbox
from oncebox.log import traced, written
from oncebox.model.delivery import Delivery, Outcome, Settlement, State
from oncebox.model.intent import Origin
from oncebox.model.policy import Allow, Drop, Hold, Ruling
from oncebox.model.retry import after_failure, failure_of, one_line
from oncebox.telemetry import Telemetry
from oncebox.worker.handlers import Handler, Handlers, PolicyFunction
from oncebox.worker.once import Once
from oncebox.worker.postbox import Postbox
from oncebox.worker.sync_once import SyncOnce
from oncebox.worker.threads import in_thread

Permit = Callable[[Delivery], Awaitable[None]]
Hear = Callable[[Delivery], Awaitable[None]]

#: what happens next with a failed try, in the log
_NEXT = {State.FAILED: "retry", State.DEAD: "given_up", State.HELD: "held"}


class Performs(Protocol):
    """Turns a claimed delivery into a settlement."""

    def limit(self, delivery: Delivery) -> float | None:
        """Return the seconds that a try may take; None is the worker's own limit."""

    async def perform(self, delivery: Delivery, permit: Permit) -> Settlement:
        """Run one try; ``permit`` journals that a policy let it run."""

    def failed(self, delivery: Delivery, error: BaseException) -> Settlement:
        """Return how a failed try goes on."""


class Performer:
    """Turns a claimed delivery into a settlement, by its handler."""

    def __init__(  # noqa: PLR0913 - it stands between this many rooms
        self,
        handlers: Handlers,
        desk: Desk,
        telemetry: Telemetry,
        *,
        lease: float,
        random: Callable[[], float],
        outbox: Outbox,
        hear: Hear | None = None,
    ) -> None:
        """Run these handlers; what they send goes by the outbox.

        ``hear`` is told of every delivery before its handler is.
        """
        self._handlers = handlers
        self._desk = desk
        self._telemetry = telemetry
        self._lease = lease
        self._random = random
        self._outbox = outbox
        self._hear = hear

    def limit(self, delivery: Delivery) -> float | None:
        """Return the seconds that a handler asked for."""
        return self._handlers.limit(delivery.source, delivery.type)

    async def perform(self, delivery: Delivery, permit: Permit) -> Settlement:
        """Run one try; ``permit`` journals that the policy let it run.

        Raises: LeaseLost, CancelledError; whatever a handler raises becomes its settlement.
        """
        handler = self._handlers.find(delivery.source, delivery.type)
        try:
            if self._hear is not None:
                await self._hear(delivery)
            if handler is None:
                return _done(delivery, Outcome.IGNORED)
            stopped = await self._stopped(delivery, permit)
            if stopped is not None:
                return stopped
            await self._call(handler, delivery)
        except LeaseLost:
            raise
        except EffectInDoubt as error:
            return self._logged(_held(delivery, str(error)), error)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is recorded
            return self.failed(delivery, error)
        return _done(delivery, Outcome.HANDLED)

    def failed(self, delivery: Delivery, error: BaseException) -> Settlement:
        """Return how a failed try goes on: repeated later, or given up."""
        rules = self._handlers.rules(delivery.source).retry
        now = self._desk.clock()
        settlement = after_failure(delivery, failure_of(error), rules, now=now, random=self._random)
        return self._logged(settlement, error)

    def _logged(self, settlement: Settlement, error: BaseException) -> Settlement:
        """Log a failed try; what its error says is kept with the delivery only."""
        delivery, due_at = settlement.delivery, settlement.due_at
        log = self._telemetry.log
        tell = log.warning if settlement.state is State.FAILED else log.error
        tell(
            "handler_failed",
            delivery=delivery.id,
            source=delivery.source,
            tries=delivery.tries,
            outcome=settlement.outcome,
            next=_NEXT[settlement.state],
            due=None if due_at is None else written(due_at),
            **traced(error),
        )
        return settlement

    async def _stopped(self, delivery: Delivery, permit: Permit) -> Settlement | None:
        """Ask the policy, once; return how the delivery ends if it says no."""
        policy = self._handlers.policy(delivery.source)
        if policy is None or delivery.policy is not None:
            return None
        ruling = await _ask(policy, delivery)
        if not isinstance(ruling, Allow):
            return _stopped(delivery, ruling)
        await permit(delivery)
        return None

    async def _call(self, handler: Handler, delivery: Delivery) -> None:
        origin = Origin(tenant=delivery.tenant, delivery_id=delivery.id)
        postbox = Postbox(self._outbox, origin)
        once = Once(delivery, self._desk, self._telemetry, lease=self._lease, postbox=postbox)
        if handler.is_async:
            await handler.function(delivery, once)
        else:
            sync_once = SyncOnce(once, asyncio.get_running_loop())
            _refuse_awaitable(await in_thread(lambda: handler.function(delivery, sync_once)))


def given_back(delivery: Delivery, now: int) -> Settlement:
    """Return the settlement of a try that a stopping worker did not finish."""
    return Settlement(
        delivery=delivery, state=State.RECEIVED, outcome=Outcome.GIVEN_BACK, due_at=now
    )


def _refuse_awaitable(result: object) -> None:
    """Refuse what a plain handler left unfinished; it would never run, and nobody would know."""
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        message = "a plain handler returned something to await; make it an async function"
        raise EffectMisused(message)


async def _ask(policy: PolicyFunction, delivery: Delivery) -> Ruling:
    if inspect.iscoroutinefunction(policy):
        ruling = await policy(delivery)
    else:
        ruling = await in_thread(lambda: policy(delivery))
        ruling = await ruling if inspect.isawaitable(ruling) else ruling
    if not isinstance(ruling, (Allow, Hold, Drop)):
        message = f"the policy of {delivery.source!r} must return Allow(), Hold(…) or Drop(…)"
        raise EffectMisused(message)
    return ruling


def _done(delivery: Delivery, outcome: Outcome) -> Settlement:
    return Settlement(delivery=delivery, state=State.DONE, outcome=outcome)


def _held(delivery: Delivery, reason: str) -> Settlement:
    reason = one_line(reason)
    return Settlement(
        delivery=delivery, state=State.HELD, outcome=Outcome.HELD, hold_reason=reason, error=reason
    )


def _stopped(delivery: Delivery, ruling: Hold | Drop) -> Settlement:
    if isinstance(ruling, Hold):
        return _held(delivery, f"policy: {ruling.reason}")
    return Settlement(
        delivery=delivery,
        state=State.DONE,
        outcome=Outcome.DROPPED,
        error=one_line(f"policy: {ruling.reason}"),
    )
