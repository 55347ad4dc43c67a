"""Tries: what is known of one try at one delivery, and the plans of what to say about it."""

import functools
from dataclasses import replace
from typing import Any

import msgspec

from oncebox import clock
from oncebox.client import pull
from oncebox.client.call import Pause, Plan, ask
from oncebox.client.effects import Doing
from oncebox.client.failures import ClientClosed, WorkMisused
from oncebox.client.shift import Fetched
from oncebox.errors import (
    EffectInDoubt,
    EffectMisused,
    EffectNameTwice,
    LeaseLost,
    NotFound,
    OnceboxError,
)
from oncebox.model.arrival import check_key
from oncebox.model.calling import CALL_TIMEOUT, WINDOW, Function, choice
from oncebox.model.retry import failure_of
from oncebox.wire.pull import Ended

#: seconds; the longest wait that the service takes
_LONGEST_WAIT = 3_000_000.0
#: seconds for the last words of a program that is being stopped
_BRIEFLY = 5.0


class Try:
    """One try at one delivery."""

    def __init__(self, fetched: Fetched, time_limit: float) -> None:
        """Take a delivery that was claimed just now."""
        self.delivery = fetched.delivery
        #: seconds for which the claim holds without a sign of life
        self.lease = fetched.lease
        #: somebody else may own the delivery now
        self.lost = False
        #: how the try ended, once the service has been told
        self.ended: Ended | None = None
        self._asked_at = fetched.asked_at
        self._time_limit = time_limit
        self._used: set[str] = set()
        self._held = False
        self._entered = False

    def __repr__(self) -> str:
        """Show which one it is, and nothing of what a sender wrote."""
        return f"{type(self).__name__}(id={self.id!r}, fence={self.delivery.fence})"

    @property
    def id(self) -> str:
        """The id of the delivery."""
        return self.delivery.id

    @property
    def source(self) -> str:
        """The source it came from."""
        return self.delivery.source

    @property
    def type(self) -> str:
        """What kind of event it is."""
        return self.delivery.type

    @property
    def body(self) -> bytes:
        """The body, exactly as it arrived."""
        return self.delivery.body

    @functools.cached_property
    def json(self) -> Any:
        """The body as JSON."""
        return msgspec.json.decode(self.body)

    def check_used(self) -> None:
        """Make sure that work was begun before more is fetched.

        Raises: WorkMisused.
        """
        if not self._entered:
            message = "use the work you fetched: with work: …; else its lease runs out unused"
            raise WorkMisused(message)

    def _enter(self) -> None:
        if self._entered:
            message = f"the work {self.id} was used before; fetch the next"
            raise WorkMisused(message)
        self._entered = True

    def _beating(self) -> Plan[None]:
        """Keep the lease alive; end when it is lost, or when the time limit is up."""
        until = clock.steady() + self._time_limit
        third = self.lease / 3
        rest = max(0.0, third - (clock.steady() - self._asked_at))
        while True:
            yield Pause(max(0.0, min(rest, until - clock.steady())))
            if clock.steady() >= until:
                return
            beat = pull.heartbeat(self.id, self.delivery.fence, lease=self.lease)
            try:
                yield from ask(replace(beat, within=third))
            except ClientClosed:
                return
            except (LeaseLost, NotFound):
                self.lost = True
                return
            except OnceboxError:  # the fence decides, not the time: it may still be ours
                rest = third / 3
            else:
                rest = third

    def _ending(self, error: BaseException | None) -> Plan[None]:
        """Tell the service how the try ended."""
        if self._held or (error is not None and (self.lost or isinstance(error, LeaseLost))):
            return
        if error is None:  # also where the lease was lost: success is proof
            call = pull.complete(self.id, self.delivery.fence)
        else:
            failure = failure_of(error)
            wait = None if failure.wait is None else min(_LONGEST_WAIT, failure.wait / 1000)
            call = pull.fail(
                self.id,
                self.delivery.fence,
                failure.error,
                permanent=failure.permanent,
                retry_after=wait,
            )
        stopped = error is not None and not isinstance(error, Exception)
        within = min(_BRIEFLY, self.lease) if stopped else self.lease
        self.ended = yield from ask(replace(call, within=within))

    def _doing(
        self,
        name: str,
        function: Function,
        *,
        safe: str | Function | None,
        timeout: float | None,
        window: float = WINDOW,
    ) -> Plan[Any]:
        """Have a function called at most once per delivery and name."""
        self._use(name)
        timeout = min(CALL_TIMEOUT, self.lease * 2 / 3) if timeout is None else timeout
        if not 0 < timeout < self.lease:
            message = f"the timeout of {name!r} must be shorter than the lease ({self.lease} s)"
            raise EffectMisused(message)
        doing = Doing(
            id=self.id,
            fence=self.delivery.fence,
            lease=self.lease,
            name=name,
            function=function,
            safe=choice(safe, function),
            verify=safe if callable(safe) else None,
            timeout=timeout,
            window=window,
        )
        try:
            return (yield from doing.plan())
        except EffectInDoubt:
            self._held = True
            raise
        except LeaseLost:
            self.lost = True
            raise

    def _use(self, name: str) -> None:
        check_key(name, "effect name")
        if not self._entered or self.ended is not None:
            message = "effects happen inside: with work: …"
            raise WorkMisused(message)
        if self.lost:
            message = "the lease was lost; somebody else may be working on it"
            raise LeaseLost(message)
        if name in self._used:
            message = f"the effect name {name!r} was used twice in one run; give each its own"
            raise EffectNameTwice(message)
        self._used.add(name)
