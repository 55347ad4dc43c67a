"""Acting: one action of an attempt, and the plans of what to say about it; no I/O."""

import functools
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from oncebox import clock
from oncebox.client import attempts
from oncebox.client.call import Pause, Plan, Run, ask
from oncebox.client.claiming import new_request_key
from oncebox.client.exchange import backoff
from oncebox.client.failures import ActionHeld, ActionInFlight, ActionMisused, ClientClosed
from oncebox.errors import BodyTooLarge, LeaseLost, NotDone, NotFound, OnceboxError, Transient
from oncebox.model.calling import Function, encoded, takes_key
from oncebox.model.effect import Done, Safe
from oncebox.model.proof import is_not_done
from oncebox.wire.attempts import BegunAction

#: bytes of a result; the service takes a mebibyte with all that is around it
_LARGEST_RESULT = 1_000_000
#: seconds between two looks at an action that is in other hands, at most
_LOOK_EVERY = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """An action as the user asked for it; all times in seconds."""

    attempt_id: str
    name: str
    safe: Safe
    #: asks the other side whether it happened
    verify: Function | None
    lease: float
    window: float
    #: for how long somebody else's is waited for
    wait: float


class Acting:
    """One action: how it stands, and what may be said about it."""

    def __init__(self, wish: Wish) -> None:
        """Describe it; nothing is begun yet."""
        self.name = wish.name
        #: somebody else may hold the action now
        self.lost = False
        self._wish = wish
        self._begun: BegunAction | None = None
        #: kept until the service has answered, so that a begin that was heard is not lost
        self._request_key = new_request_key()
        self._asked_at = 0.0
        self._ended = False

    def __repr__(self) -> str:
        """Show which one it is and how it stands, never its result."""
        state = None if self._begun is None else self.state
        return f"{type(self).__name__}({self._wish.attempt_id!r}, {self.name!r}, state={state!r})"

    @property
    def state(self) -> str:
        """``begun``: do it now; ``look``: look whether it happened; ``done``: there is a result."""
        return self._standing.state

    @property
    def go(self) -> bool:
        """Whether it is yours to do now."""
        return self.state == "begun" and not self._ended

    @property
    def result(self) -> Any:
        """What was stored, where the action is done."""
        return self._standing.result

    @property
    def key(self) -> str:
        """What to hand to the other side: the same for every repeat of this action."""
        return self._standing.key

    @property
    def _standing(self) -> BegunAction:
        if self._begun is None:
            message = f"the action {self.name!r} was not begun; use it inside: with …"
            raise ActionMisused(message)
        return self._begun

    @property
    def _fence(self) -> int:
        fence = self._standing.fence
        if fence is None:
            message = f"the action {self.name!r} is {self.state}; it is not yours to end"
            raise ActionMisused(message)
        return fence

    # plans

    def _beginning(self) -> Plan[None]:
        """Begin, look where that was chosen, and wait while somebody else is at it.

        Raises: ActionInFlight, ActionHeld.
        """
        until, tries = clock.steady() + self._wish.wait, 0
        while True:
            yield from self._begin()
            if self.state == "look" and self._wish.verify is not None:
                yield from self._look(self._wish.verify)
                if self.state != "done":
                    continue
            if self.state == "held":
                message = f"nobody knows whether {self.name!r} happened; a person must say"
                raise ActionHeld(message)
            if self.state != "in_flight":
                return
            tries += 1
            rest = until - clock.steady()
            if rest <= 0:
                message = f"somebody else is doing {self.name!r}; ask again, or wait longer"
                raise ActionInFlight(message)
            yield Pause(min(rest, _LOOK_EVERY, 0.05 + backoff(tries)))

    def _begin(self) -> Plan[None]:
        wish = self._wish
        self._asked_at, self._ended, self.lost = clock.steady(), False, False
        self._begun = yield from ask(
            attempts.begin(
                wish.attempt_id,
                wish.name,
                safe=wish.safe.value,
                lease=wish.lease,
                window=wish.window,
                request_key=self._request_key,
            )
        )
        self._request_key = new_request_key()

    def _look(self, verify: Function) -> Plan[None]:
        """Ask the other side, and say what it says."""
        asked = functools.partial(verify, **self._offer(verify))
        try:
            answer = yield Run(asked, self._left(self._wish.lease))
        except NotDone:
            yield from self._deny()
            return
        if not isinstance(answer, Done):
            message = f"the verify function of {self.name!r} must return Done(…) or raise NotDone"
            raise ActionMisused(message)
        yield from self._prove(answer.result)

    def _doing(self, function: Function, timeout: float) -> Plan[Any]:
        """Have a function called once; return what it returned, this time or the first time."""
        yield from self._beginning()
        if self.state == "done":
            return self.result
        left = self._left(timeout)
        if left <= 0:  # paused since: by the lease the call is over, and others may rely on it
            yield from self._deny()
            message = f"the process stood still before {self.name!r} was called"
            raise Transient(message)
        called = functools.partial(function, **self._offer(function))
        try:
            result = yield Run(called, left, None, self._prove)
        except Exception as error:
            if is_not_done(error):
                with suppress(OnceboxError):
                    yield from self._deny()
            raise
        yield from self._prove(result)
        return result

    def _prove(self, result: Any = None) -> Plan[None]:
        """Say that it happened, with its result or without one that cannot be stored."""
        stored = encoded(result)
        if stored is not None and len(stored) <= _LARGEST_RESULT:
            with suppress(BodyTooLarge):
                yield from self._done(result, msgspec.Raw(stored))
                return
        yield from self._done(result, None)

    def _done(self, result: Any, stored: Any) -> Plan[None]:
        wish = self._wish
        call = attempts.done(wish.attempt_id, wish.name, self._fence, stored)
        told = yield from ask(replace(call, within=2 * wish.lease))
        self._ended = True
        kept = result if told.result is None else told.result
        self._begun = msgspec.structs.replace(
            self._standing, state="done", fence=None, result=kept, lease_until=None
        )

    def _deny(self) -> Plan[None]:
        """Say that it did not happen.

        Raises: LeaseLost.
        """
        yield from ask(attempts.not_done(self._wish.attempt_id, self.name, self._fence))
        self._ended = True

    def _leaving(self, error: BaseException | None) -> Plan[None]:
        """Say how a block ended, unless it was said; an error that proves nothing leaves doubt."""
        if not self.go:
            return
        if error is None:
            yield from self._prove()
        elif is_not_done(error):
            with suppress(OnceboxError):
                yield from self._deny()

    def _beat(self) -> Plan[None]:
        """Give one sign of life.

        Raises: LeaseLost.
        """
        wish = self._wish
        call = attempts.heartbeat(wish.attempt_id, wish.name, self._fence, lease=wish.lease)
        yield from ask(replace(call, within=wish.lease / 3))

    def _beating(self) -> Plan[None]:
        """Keep the lease alive; end when it is lost."""
        third = self._wish.lease / 3
        rest = max(0.0, third - (clock.steady() - self._asked_at))
        while True:
            yield Pause(rest)
            if self._ended:
                return
            try:
                yield from self._beat()
            except (ClientClosed, ActionMisused):
                return
            except (LeaseLost, NotFound):
                self.lost = not self._ended
                return
            except OnceboxError:  # the fence decides, not the time: it may still be ours
                rest = third / 3
            else:
                rest = third

    def _left(self, most: float) -> float:
        """Return how many seconds a call may take that must be over before the lease is."""
        return min(most, self._wish.lease - (clock.steady() - self._asked_at))

    def _offer(self, function: Function) -> dict[str, str]:
        """Return the key as an argument, for a function that takes one and has none."""
        given = function.keywords if isinstance(function, functools.partial) else {}
        wanted = takes_key(function) and "idempotency_key" not in given
        return {"idempotency_key": self.key} if wanted else {}
