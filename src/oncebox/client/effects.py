"""Effects over HTTP: a function of the user called at most once per delivery and name."""

import functools
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal

import msgspec

from oncebox import clock
from oncebox.client import pull
from oncebox.client.call import Pause, Plan, Run, ask
from oncebox.client.exchange import may_pass
from oncebox.errors import (
    BodyTooLarge,
    EffectInDoubt,
    EffectMisused,
    LeaseLost,
    NotDone,
    OnceboxError,
    Transient,
)
from oncebox.model.calling import Function, encoded, takes_key
from oncebox.model.effect import Done, Safe
from oncebox.model.proof import is_not_done
from oncebox.wire.deliveries import Effect
from oncebox.wire.pull import BegunEffect

#: bytes of a result; the service takes a mebibyte with all that is around it
_LARGEST_RESULT = 1_000_000
#: seconds for words that help, but are not worth waiting for
_BRIEFLY = 5.0


class Doing(msgspec.Struct, frozen=True, kw_only=True):
    """One effect as the user asked for it, and the plan to have it happen once."""

    id: str
    fence: int
    #: seconds
    lease: float
    name: str
    function: Function
    safe: Safe
    verify: Function | None
    timeout: float
    window: float

    def plan(self) -> Plan[Any]:
        """Return what the function returned, this time or the first time.

        Raises: EffectInDoubt, EffectMisused, LeaseLost, and whatever the function raises.
        """
        sent = clock.steady()
        begun = yield from self._begin()
        if begun.go:
            return (yield from self._perform(begun, sent))
        before = self._known(begun)
        if before.state == "done":
            return before.result
        return (yield from self._verify(begun.key, before))

    def _begin(self) -> Plan[BegunEffect]:
        """Journal that the function is about to be called.

        If nobody knows whether that was heard, say that our call was not made; else the
        delivery could be held for a call that never was. It says nothing of another try's.
        """
        beginning = pull.begin(
            self.id,
            self.name,
            self.fence,
            safe=self.safe.value,
            timeout=self.timeout,
            window=self.window,
        )
        try:
            return (yield from ask(replace(beginning, within=self.lease)))
        except GeneratorExit:
            raise
        except BaseException as error:
            if not isinstance(error, OnceboxError) or may_pass(error):
                with suppress(OnceboxError):
                    yield from self._finish("not_done", error="Stopped", within=_BRIEFLY)
            raise

    def _known(self, begun: BegunEffect) -> Effect:
        """Return what an earlier try left behind, where that can be worked with."""
        if begun.held:
            message = f"effect {self.name!r} was started and nobody knows whether it happened"
            raise EffectInDoubt(message)
        if begun.before is None:
            message = "the lease was lost, so the effect was not begun"
            raise LeaseLost(message)
        return begun.before

    def _perform(self, begun: BegunEffect, sent: float) -> Plan[Any]:
        """Make the call and journal how it ended; silence leaves it started."""
        left = min(self.timeout, 2 * self.timeout - (clock.steady() - sent))
        if left <= 0:  # paused since: by the journal the call is over, and others may rely on it
            yield from self._finish("not_done", error="TooLate", started_at=begun.started_at)
            message = f"the process stood still before {self.name!r} was called"
            raise Transient(message)
        function = functools.partial(self.function, **_offer(self.function, begun.key))
        try:
            result = yield Run(function, left, self._unstopped, self._succeed)
        except Exception as error:
            if is_not_done(error):
                with suppress(OnceboxError):
                    why = type(error).__name__
                    yield from self._finish("not_done", error=why, started_at=begun.started_at)
            raise
        yield from self._succeed(result)
        return result

    def _verify(self, key: str, before: Effect) -> Plan[Any]:
        """Ask the other side, once the lost call can no longer be under way."""
        if self.verify is None:
            message = f"effect {self.name!r} was started by another try that is not over"
            raise Transient(message)
        leased = yield from ask(pull.heartbeat(self.id, self.fence, lease=self.lease))
        now = leased.until - round(self.lease * 1000)  # by the clock of the service
        yield Pause(max(0, before.surely_over_at - now) / 1000)
        verify = functools.partial(self.verify, **_offer(self.verify, key))
        try:
            answer = yield Run(verify, self.timeout)
        except NotDone:
            return (yield from self._again(before))
        if not isinstance(answer, Done):
            message = f"the verify function of {self.name!r} must return Done(…) or raise NotDone"
            raise EffectMisused(message)
        yield from self._succeed(answer.result)
        return answer.result

    def _again(self, before: Effect) -> Plan[Any]:
        """Begin anew what is proven not done."""
        yield from self._finish("not_done", error="NotDone", started_at=before.started_at)
        sent = clock.steady()
        begun = yield from self._begin()
        if begun.go:
            return (yield from self._perform(begun, sent))
        known = self._known(begun)
        if known.state != "done":
            message = f"effect {self.name!r} is in the hands of another try"
            raise LeaseLost(message)
        return known.result

    def _succeed(self, result: Any) -> Plan[None]:
        """Journal success with its result, or without one that cannot be stored."""
        stored = encoded(result)
        if stored is not None and len(stored) <= _LARGEST_RESULT:
            try:
                yield from self._finish("done", result=msgspec.Raw(stored))
            except BodyTooLarge:
                pass
            else:
                return
        yield from self._finish("done")

    def _unstopped(self) -> Plan[None]:
        """Note that the function goes on after its time, so that nobody takes it for over."""
        if self.verify is not None:
            with suppress(OnceboxError):
                yield from self._finish("unknown", error="StillRunning", within=_BRIEFLY)

    def _finish(
        self,
        state: Literal["done", "not_done", "unknown"],
        *,
        result: Any = None,
        error: str | None = None,
        started_at: int | None = None,
        within: float | None = None,
    ) -> Plan[None]:
        call = pull.finish(
            self.id,
            self.name,
            self.fence,
            state,
            result=result,
            error=error,
            started_at=started_at,
        )
        yield from ask(replace(call, within=2 * self.lease if within is None else within))


def _offer(function: Function, key: str) -> dict[str, str]:
    """Return the key as an argument, for a function that takes one and has none."""
    given = function.keywords if isinstance(function, functools.partial) else {}
    wanted = takes_key(function) and "idempotency_key" not in given
    return {"idempotency_key": key} if wanted else {}
