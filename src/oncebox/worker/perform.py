"""One try: ask the policy, run the handler within its limit, say how it ended."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable

from oncebox.errors import (
    EffectInDoubt,
    EffectMisused,
    EffectNameTwice,
    LeaseLost,
    OnceboxError,
    Permanent,
    Transient,
)
from oncebox.ledger.deliveries.desk import Desk
from oncebox.model.delivery import Delivery, Outcome, Settlement, State
from oncebox.model.policy import Allow, Drop, Hold, Ruling
from oncebox.model.retry import wait_before
from oncebox.telemetry import Telemetry
from oncebox.worker.handlers import Handler, Handlers, PolicyFunction
from oncebox.worker.once import Once
from oncebox.worker.sync_once import SyncOnce
from oncebox.worker.threads import in_thread

_LONGEST_ERROR = 500
#: seconds; nobody waits for a century, and every database can count to it
_LONGEST_WAIT = 3_000_000_000
#: what is wrong in the handler's own code will be wrong the next time too
_PERMANENT = (Permanent, EffectMisused, EffectNameTwice)

Permit = Callable[[Delivery], Awaitable[None]]


class Performer:
    """Turns a claimed delivery into a settlement."""

    def __init__(
        self,
        handlers: Handlers,
        desk: Desk,
        telemetry: Telemetry,
        *,
        lease: float,
        random: Callable[[], float],
    ) -> None:
        """Run these handlers."""
        self._handlers = handlers
        self._desk = desk
        self._telemetry = telemetry
        self._lease = lease
        self._random = random

    async def perform(self, delivery: Delivery, permit: Permit) -> Settlement:
        """Run one try; ``permit`` journals that the policy let it run.

        Raises: LeaseLost, CancelledError; whatever a handler raises becomes its settlement.
        """
        handler = self._handlers.find(delivery.source, delivery.type)
        if handler is None:
            return _done(delivery, Outcome.IGNORED)
        try:
            policy = self._handlers.policy(delivery.source)
            if policy is not None and delivery.policy is None:
                ruling = await _ask(policy, delivery)
                if not isinstance(ruling, Allow):
                    return _stopped(delivery, ruling)
                await permit(delivery)
            await self._call(handler, delivery)
        except LeaseLost:
            raise
        except EffectInDoubt as error:
            return _held(delivery, str(error))
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is recorded
            return self.failed(delivery, error)
        return _done(delivery, Outcome.HANDLED)

    def failed(self, delivery: Delivery, error: BaseException) -> Settlement:
        """Return how a failed try goes on: repeated later, or given up."""
        rules = self._handlers.rules(delivery.source).retry
        now = self._desk.clock()
        asked = _asked(error)
        not_before = None if asked is None else now + asked
        due_at = max(now + wait_before(rules, delivery.tries, self._random), not_before or 0)
        gave_up = _gave_up(error, delivery, rules.tries, due_at)
        return Settlement(
            delivery=delivery,
            state=State.DEAD if gave_up else State.FAILED,
            outcome=gave_up or Outcome.FAILED,
            error=describe(error),
            due_at=None if gave_up else due_at,
            not_before=not_before,
        )

    async def _call(self, handler: Handler, delivery: Delivery) -> None:
        once = Once(delivery, self._desk, self._telemetry, lease=self._lease)
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


def describe(error: BaseException) -> str:
    """Return an error in one short line: its own code or type, and its message."""
    name = error.code if isinstance(error, OnceboxError) else type(error).__name__
    try:
        return _line(f"{name}: {error}").removesuffix(":")
    except Exception:  # noqa: BLE001 - an error that cannot even say what it is
        return name


def _line(text: str) -> str:
    """Return a user's words as one short line that every database takes."""
    line = " ".join(text.replace("\0", " ").split())
    return line.encode("utf-8", "replace").decode()[:_LONGEST_ERROR]


def _refuse_awaitable(result: object) -> None:
    """Refuse what a plain handler left unfinished; it would never run, and nobody would know."""
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        message = "a plain handler returned something to await; make it an async function"
        raise EffectMisused(message)


def _asked(error: BaseException) -> int | None:
    """Return the wait a failure asked for, in milliseconds; nonsense is no wish."""
    try:
        seconds = float(error.retry_after) if isinstance(error, Transient) else None  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    if seconds is None or not seconds > 0:  # not a number is not greater either
        return None
    return int(min(seconds, _LONGEST_WAIT) * 1000)


def _gave_up(error: BaseException, delivery: Delivery, tries: int, due_at: int) -> Outcome | None:
    if isinstance(error, _PERMANENT):
        return Outcome.PERMANENT
    if delivery.tries >= tries:
        return Outcome.TRIES_USED_UP
    return Outcome.TIME_USED_UP if due_at > delivery.give_up_at else None


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
    reason = _line(reason)
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
        error=_line(f"policy: {ruling.reason}"),
    )
