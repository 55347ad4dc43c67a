"""The handle of one attempt: ``client.attempt("signup-42")``."""

from functools import partial
from typing import Any, Protocol, TypeVar

from oncebox.client import attempts
from oncebox.client.acting import Wish
from oncebox.client.action import Action, AsyncAction
from oncebox.client.call import Call
from oncebox.client.failures import ActionMisused
from oncebox.client.work import AsyncDriver, Driver
from oncebox.model.calling import CALL_TIMEOUT, WINDOW, Function, choice
from oncebox.model.effect import Safe
from oncebox.wire.attempts import AttemptStats, Resend

T = TypeVar("T")

#: seconds
LEASE = 30.0


class Carrier(Driver, Protocol):
    """Takes the steps of plans, and makes calls."""

    def carry(self, what: Call[T]) -> T:
        """Return what comes of a call."""


class AsyncCarrier(AsyncDriver, Protocol):
    """Takes the steps of plans, and makes calls."""

    async def carry(self, what: Call[T]) -> T:
        """Return what comes of a call."""


class Attempt:
    """One attempt: what it does once, and how often it asks for its mail again."""

    def __init__(self, carrier: Carrier, id: str) -> None:  # noqa: A002 - the word users know
        """Nothing is asked before the first call."""
        self.id = id
        self._carrier = carrier

    def __repr__(self) -> str:
        """Show which one it is."""
        return f"Attempt({self.id!r})"

    def action(
        self,
        name: str,
        *,
        safe: str | Function = "once",
        lease: float = LEASE,
        window: float = WINDOW,
        wait: float = 0.0,
    ) -> Action:
        """Return an action of this attempt, to be begun by ``with``.

        ``safe`` says what becomes of it if it is begun and never heard of again: ``"once"``
        holds it for a person, ``"idempotent"`` lets the next one repeat it with the same key
        while ``window`` lasts, ``"verify"`` tells the next one to look first; a function does
        the look (it returns ``Done(…)`` or raises ``NotDone``). ``wait`` is how many seconds to
        wait while somebody else is at it.

        Raises: ActionMisused.
        """
        return Action(self._carrier, _wish(self.id, name, safe, lease, window, wait))

    def do(  # noqa: PLR0913 - as Work.do
        self,
        name: str,
        function: Function,
        /,
        *args: Any,
        safe: str | Function | None = None,
        lease: float = LEASE,
        timeout: float | None = None,
        window: float = WINDOW,
        wait: float = 60.0,
        **kwargs: Any,
    ) -> Any:
        """Call a function at most once per attempt and name; a repeat gets the stored result.

        As ``action``; a function that takes an ``idempotency_key`` is ``"idempotent"`` unless
        ``safe`` says otherwise. It runs in this thread and cannot be interrupted: let it end by
        itself within ``timeout`` seconds, which are less than the lease.

        Raises: ActionInFlight, ActionHeld, ActionMisused, and whatever the function raises.
        """
        bound = partial(function, *args, **kwargs)
        chosen = choice(safe, bound).value if not callable(safe) else safe
        action = Action(self._carrier, _wish(self.id, name, chosen, lease, window, wait))
        return self._carrier.drive(action._doing(bound, _within(timeout, lease)))  # noqa: SLF001

    def request_resend(self, *, idempotency_key: str | None = None) -> Resend:
        """Get leave to ask for the mail again.

        Raises: ResendsUsedUp.
        """
        return self._carrier.carry(attempts.resend(self.id, idempotency_key=idempotency_key))

    def stats(self) -> AttemptStats:
        """Return what came of all its inboxes, and what it did."""
        return self._carrier.carry(attempts.stats(self.id))


class AsyncAttempt:
    """One attempt; as ``Attempt``."""

    def __init__(self, carrier: AsyncCarrier, id: str) -> None:  # noqa: A002 - as above
        """Nothing is asked before the first call."""
        self.id = id
        self._carrier = carrier

    def __repr__(self) -> str:
        """Show which one it is."""
        return f"AsyncAttempt({self.id!r})"

    def action(
        self,
        name: str,
        *,
        safe: str | Function = "once",
        lease: float = LEASE,
        window: float = WINDOW,
        wait: float = 0.0,
    ) -> AsyncAction:
        """Return an action of this attempt, to be begun by ``async with``; as ``Attempt.action``.

        Raises: ActionMisused.
        """
        return AsyncAction(self._carrier, _wish(self.id, name, safe, lease, window, wait))

    async def do(  # noqa: PLR0913 - as above
        self,
        name: str,
        function: Function,
        /,
        *args: Any,
        safe: str | Function | None = None,
        lease: float = LEASE,
        timeout: float | None = None,  # noqa: ASYNC109 - it bounds the user's call, not ours
        window: float = WINDOW,
        wait: float = 60.0,
        **kwargs: Any,
    ) -> Any:
        """Call a function at most once per attempt and name; as ``Attempt.do``.

        A plain function runs in a thread; one that outlives its ``timeout`` is left to itself.

        Raises: ActionInFlight, ActionHeld, ActionMisused, and whatever the function raises.
        """
        bound = partial(function, *args, **kwargs)
        chosen = choice(safe, bound).value if not callable(safe) else safe
        action = AsyncAction(self._carrier, _wish(self.id, name, chosen, lease, window, wait))
        plan = action._doing(bound, _within(timeout, lease))  # noqa: SLF001 - its own
        return await self._carrier.drive(plan)

    async def request_resend(self, *, idempotency_key: str | None = None) -> Resend:
        """Get leave to ask for the mail again.

        Raises: ResendsUsedUp.
        """
        return await self._carrier.carry(attempts.resend(self.id, idempotency_key=idempotency_key))

    async def stats(self) -> AttemptStats:
        """Return what came of all its inboxes, and what it did."""
        return await self._carrier.carry(attempts.stats(self.id))


def _wish(
    attempt_id: str, name: str, safe: str | Function, lease: float, window: float, wait: float
) -> Wish:
    verify = safe if callable(safe) else None
    word = Safe.VERIFY if callable(safe) else safe
    if word not in set(Safe):
        message = "safe is 'once', 'idempotent', 'verify' or a function that looks"
        raise ActionMisused(message)
    return Wish(
        attempt_id=attempt_id,
        name=name,
        safe=Safe(word),
        verify=verify,
        lease=lease,
        window=window,
        wait=wait,
    )


def _within(timeout: float | None, lease: float) -> float:
    if timeout is None:
        return min(CALL_TIMEOUT, lease * 2 / 3)
    if not 0 < timeout < lease:
        message = f"the timeout must be shorter than the lease ({lease} s)"
        raise ActionMisused(message)
    return timeout
