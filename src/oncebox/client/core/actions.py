"""Actions of an attempt: steps done once, as plans; no I/O."""

import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from oncebox.client.core.calls import (
    Call,
    PauseStep,
    Plan,
    RunStep,
    backoff,
    create_call,
    get_call,
    perform,
    post_call,
)
from oncebox.client.core.work import encoded_result, new_request_key, with_key
from oncebox.client.errors import ActionHeld, ActionInFlight, ActionMisused, ClientClosed
from oncebox.core import clock
from oncebox.errors import BodyTooLarge, LeaseLost, NotDone, NotFound, OnceboxError, Transient
from oncebox.model.deliveries.effects import (
    CALL_TIMEOUT,
    NO_RESULT,
    Done,
    Function,
    Safety,
    proves_not_done,
)
from oncebox.schemas.artifacts import Grant
from oncebox.schemas.attempts import (
    Action,
    AttemptStats,
    BatchQuery,
    BatchStats,
    BeginAction,
    BeginActionResult,
    DoneAction,
    HeartbeatAction,
    NewResend,
    NotDoneAction,
    ResendGrant,
)

#: seconds
DEFAULT_LEASE = 30.0
#: seconds between two looks at an action that another caller is doing, at most
_MAX_POLL_INTERVAL = 1.0


def begin_call(attempt_id: str, name: str, body: BeginAction) -> Call[BeginActionResult]:
    """Return a call that begins an action; with a ``request_key`` it may be sent again."""
    path, repeatable = ("attempts", attempt_id, "actions", name), body.request_key is not None
    return post_call(BeginActionResult, body, *path, repeatable=repeatable)


def done_call(
    attempt_id: str, name: str, fence: int, result: Any, uses: Sequence[str] = ()
) -> Call[Action]:
    """Return a call that records that an action happened, and which artifacts it used."""
    body = DoneAction(fence=fence, result=result, uses=[*uses])
    return _action_call(attempt_id, name, "done", body)


def not_done_call(attempt_id: str, name: str, fence: int) -> Call[Action]:
    """Return a call that records that an action did not happen."""
    return _action_call(attempt_id, name, "not-done", NotDoneAction(fence=fence))


def heartbeat_call(attempt_id: str, name: str, fence: int, lease: float | None) -> Call[Action]:
    """Return a call that renews the lease of an action."""
    return _action_call(attempt_id, name, "heartbeat", HeartbeatAction(fence=fence, lease=lease))


def _action_call(attempt_id: str, name: str, verb: str, body: msgspec.Struct) -> Call[Action]:
    return post_call(Action, body, "attempts", attempt_id, "actions", name, verb, repeatable=True)


def resend_call(attempt_id: str, idempotency_key: str | None) -> Call[ResendGrant]:
    """Return a call for permission to request the mail again."""
    path = ("attempts", attempt_id, "resend")
    return create_call(ResendGrant, NewResend(), idempotency_key, *path)


def stats_call(attempt_id: str) -> Call[AttemptStats]:
    """Return a call for the statistics of an attempt."""
    return get_call(AttemptStats, "attempts", attempt_id, "stats")


def batch_stats_call(prefix: str) -> Call[BatchStats]:
    """Return a call for the statistics of a batch."""
    return get_call(BatchStats, "attempts", "stats", query=BatchQuery(prefix=prefix))


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionOptions:
    """The options of an action; times in seconds."""

    attempt_id: str
    name: str
    safe: Safety
    #: finds out whether the action happened
    verify: Function | None
    lease: float
    window: float
    #: how long to wait while another caller is doing it
    wait: float
    #: the artifacts that it uses
    uses: tuple[str, ...] = ()


class BaseAction:
    """One action: its state, and the plans to begin and end it."""

    def __init__(self, options: ActionOptions) -> None:
        self.name = options.name
        #: the lease was lost: another caller may have the action now
        self.lost = False
        self._options = options
        self._begun: BeginActionResult | None = None
        #: the same until the service has answered, so that a lost answer is received again
        self._request_key = new_request_key()
        self._requested_at = 0.0
        self._ended = False

    def __repr__(self) -> str:
        """Show the attempt, the name and the state, never the result."""
        state = None if self._begun is None else self.state
        return (
            f"{type(self).__name__}({self._options.attempt_id!r}, {self.name!r}, state={state!r})"
        )

    @property
    def state(self) -> str:
        """``begun``: do it now; ``look``: look whether it happened; ``done``: there is a result."""
        return self._current.state

    @property
    def go(self) -> bool:
        """Whether it is yours to do now."""
        return self.state == "begun" and not self._ended

    @property
    def result(self) -> Any:
        """The stored result of an action that is done; ``NO_RESULT`` if none is stored."""
        current = self._current
        return NO_RESULT if current.state == "done" and not current.has_result else current.result

    @property
    def key(self) -> str:
        """The idempotency key for the other side: the same for every repeat of this action."""
        return self._current.key

    @property
    def _current(self) -> BeginActionResult:
        if self._begun is None:
            raise ActionMisused(f"the action {self.name!r} was not begun; use it inside: with …")
        return self._begun

    @property
    def _fence(self) -> int:
        fence = self._current.fence
        if fence is None:
            raise ActionMisused(f"the action {self.name!r} is {self.state}; it is not yours to end")
        return fence

    def _begin_plan(self) -> Plan[None]:
        """Begin, verify if that was chosen, and wait while another caller is doing it."""
        until, tries = clock.steady() + self._options.wait, 0
        while True:
            yield from self._begin()
            if self.state == "look" and self._options.verify is not None:
                yield from self._verify(self._options.verify)
                if self.state != "done":
                    continue
            if self.state == "held":
                raise ActionHeld(self._held_message())
            if self.state != "in_flight":
                return
            tries += 1
            left = until - clock.steady()
            if left <= 0:
                raise ActionInFlight(
                    f"another caller is doing {self.name!r}; try again, or wait longer"
                )
            yield PauseStep(min(left, _MAX_POLL_INTERVAL, 0.05 + backoff(tries)))

    def _held_message(self) -> str:
        words = f"{shlex.quote(self._options.attempt_id)} {shlex.quote(self.name)}"
        return (
            f"the outcome of {self.name!r} is unknown; a person must check the other side and "
            f"decide: oncebox action resolve {words} --done --why '…', or --not-done"
        )

    def _begin(self) -> Plan[None]:
        options = self._options
        self._requested_at, self._ended, self.lost = clock.steady(), False, False
        body = BeginAction(
            safe=options.safe.value,
            lease=options.lease,
            window=options.window,
            request_key=self._request_key,
        )
        self._begun = yield from perform(begin_call(options.attempt_id, options.name, body))
        self._request_key = new_request_key()

    def _verify(self, verify: Function) -> Plan[None]:
        """Call the verify function and record its answer."""
        left = self._left(self._options.lease)
        try:
            answer = yield RunStep(with_key(verify, self.key), left)
        except NotDone:
            yield from self._record_not_done()
            return
        if not isinstance(answer, Done):
            raise ActionMisused(
                f"the verify function of {self.name!r} must return Done(…) or raise NotDone"
            )
        yield from self._record_done(answer.result)

    def _do_plan(self, function: Function, timeout: float) -> Plan[Any]:
        """Call a function once; return its result of this time or of the first time."""
        yield from self._begin_plan()
        if self.state == "done":
            return self.result
        left = self._left(timeout)
        if left <= 0:  # the process was paused: others may assume that the call is over
            yield from self._record_not_done()
            raise Transient(f"the process was paused before {self.name!r} was called")
        bound = with_key(function, self.key)
        try:
            result = yield RunStep(bound, left, None, self._record_done)
        except Exception as error:
            if proves_not_done(error):
                with suppress(OnceboxError):
                    yield from self._record_not_done()
            raise
        yield from self._record_done(result)
        return result

    def _record_done(self, result: Any = None) -> Plan[None]:
        """Record that it happened, without the result if it cannot be stored."""
        with suppress(BodyTooLarge):
            yield from self._post_done(result, encoded_result(result))
            return
        yield from self._post_done(result, msgspec.UNSET)

    def _post_done(self, result: Any, stored: msgspec.Raw | msgspec.UnsetType) -> Plan[None]:
        options = self._options
        call = done_call(options.attempt_id, self.name, self._fence, stored, options.uses)
        action = yield from perform(replace(call, within=2 * self._options.lease))
        self._ended = True
        stored_result = action.result if action.has_result else result
        self._begun = msgspec.structs.replace(
            self._current,
            state="done",
            fence=None,
            result=stored_result,
            has_result=True,
            lease_until=None,
        )

    def _record_not_done(self) -> Plan[None]:
        """Record that it did not happen."""
        yield from perform(not_done_call(self._options.attempt_id, self.name, self._fence))
        self._ended = True

    def _leave_plan(self, error: BaseException | None) -> Plan[None]:
        """Record how a block ended, unless it was recorded; most errors leave it unknown."""
        if not self.go:
            return
        if error is None:
            yield from self._record_done()
        elif proves_not_done(error):
            with suppress(OnceboxError):
                yield from self._record_not_done()

    def _heartbeat_plan(self) -> Plan[None]:
        """Renew the lease once."""
        lease = self._options.lease
        call = heartbeat_call(self._options.attempt_id, self.name, self._fence, lease)
        yield from perform(replace(call, within=lease / 3))

    def _heartbeats(self) -> Plan[bool]:
        """Renew the lease until the action ends; return whether the lease was lost."""
        third = self._options.lease / 3
        pause = max(0.0, third - (clock.steady() - self._requested_at))
        while True:
            yield PauseStep(pause)
            if self._ended:
                return False
            try:
                yield from self._heartbeat_plan()
            except (ClientClosed, ActionMisused):
                return False
            except (LeaseLost, NotFound):
                self.lost = not self._ended
                return self.lost
            except OnceboxError:  # the fence decides, not the time: the lease may still be valid
                pause = third / 3
            else:
                pause = third

    def _left(self, most: float) -> float:
        """Return the seconds that a call may take to end before the lease does."""
        return min(most, self._options.lease - (clock.steady() - self._requested_at))


def action_options(  # noqa: PLR0913 - the options of an action
    attempt_id: str,
    name: str,
    safe: str | Function,
    *,
    lease: float,
    window: float,
    wait: float,
    uses: Grant | None = None,
) -> ActionOptions:
    """Check the options of an action."""
    verify = safe if callable(safe) else None
    word = Safety.VERIFY if callable(safe) else safe
    if word not in set(Safety):
        raise ActionMisused("safe is 'once', 'idempotent', 'verify' or a function that verifies")
    return ActionOptions(
        attempt_id=attempt_id,
        name=name,
        safe=Safety(word),
        verify=verify,
        lease=lease,
        window=window,
        wait=wait,
        uses=() if uses is None else (uses.id,),
    )


def call_timeout(timeout: float | None, lease: float) -> float:
    """Return the seconds that the function of an action may take."""
    if timeout is None:
        return min(CALL_TIMEOUT, lease * 2 / 3)
    if not 0 < timeout < lease:
        raise ActionMisused(f"the timeout must be shorter than the lease ({lease} s)")
    return timeout
