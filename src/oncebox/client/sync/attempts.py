# Generated from oncebox/client/asynchronous/attempts.py by `make sync-client`; do not edit.
"""`client.attempts`, and the handles `Attempt` and `Action`."""

from collections.abc import Sequence
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self

from oncebox.client.core import actions
from oncebox.client.core.actions import DEFAULT_LEASE, ActionOptions, BaseAction, action_options
from oncebox.client.sync.runner import Heartbeats, Resource, SyncRunner
from oncebox.errors import LeaseLost
from oncebox.model.deliveries.effects import KEY_WINDOW, Function, choose_safety
from oncebox.schemas import attempts as schemas
from oncebox.schemas.artifacts import Grant


class Attempts(Resource):
    """``client.attempts``; ``client.attempt(…)`` returns the handle of one."""

    def begin(
        self,
        attempt_id: str,
        name: str,
        *,
        safe: Literal["idempotent", "once", "verify"] = "once",
        lease: float | None = None,
        window: float = 86_400,
        request_key: str | None = None,
    ) -> schemas.BeginActionResult:
        """Begin an action, or return its state.

        Give each begin its own ``request_key``: then it is sent again when no answer came.
        """
        body = schemas.BeginAction(safe=safe, lease=lease, window=window, request_key=request_key)
        return self._run(actions.begin_call(attempt_id, name, body))

    def done(
        self,
        attempt_id: str,
        name: str,
        fence: int,
        result: Any = None,
        *,
        uses: Sequence[str] = (),
    ) -> schemas.Action:
        """Record that an action happened, and the result for repeats; also after its lease.

        ``uses`` are the ids of the codes and links that it used: nobody gets them any more.
        """
        return self._run(actions.done_call(attempt_id, name, fence, result, uses))

    def not_done(self, attempt_id: str, name: str, fence: int) -> schemas.Action:
        """Record that an action did not happen, so it may begin again.

        Raises: LeaseLost.
        """
        return self._run(actions.not_done_call(attempt_id, name, fence))

    def heartbeat(
        self, attempt_id: str, name: str, fence: int, *, lease: float | None = None
    ) -> schemas.Action:
        """Renew the lease of an action for ``lease`` seconds from now.

        Raises: LeaseLost.
        """
        return self._run(actions.heartbeat_call(attempt_id, name, fence, lease))

    def resend(self, attempt_id: str, *, idempotency_key: str | None = None) -> schemas.ResendGrant:
        """Get permission to request the mail again.

        Raises: ResendLimitReached.
        """
        return self._run(actions.resend_call(attempt_id, idempotency_key))

    def stats(self, attempt_id: str) -> schemas.AttemptStats:
        """Return statistics of all inboxes and actions of an attempt."""
        return self._run(actions.stats_call(attempt_id))

    def batch_stats(self, prefix: str) -> schemas.BatchStats:
        """Return statistics of all attempts whose ids begin with ``prefix``, such as ``run-7/``."""
        return self._run(actions.batch_stats_call(prefix))


class Action(BaseAction):
    """``with attempt.action(…) as action:``; check ``action.go`` before you do it.

    The end of the block records that it is done, unless ``done`` or ``not_done`` did. An error
    that proves that nothing happened records that; after any other the outcome is unknown.
    """

    def __init__(self, runner: SyncRunner, options: ActionOptions) -> None:
        super().__init__(options)
        self._run = runner.run
        self._lease = Heartbeats(runner)

    def begin(self) -> Self:
        """Begin it, or learn its state; ``with`` does that.

        Raises: ActionInFlight, ActionHeld.
        """
        self._run(self._begin_plan())
        return self

    def done(self, result: Any = None) -> None:
        """Record that it happened, and the result for repeats."""
        self._run(self._record_done(result))

    def not_done(self) -> None:
        """Record that it did not happen, so it may begin again.

        Raises: LeaseLost.
        """
        self._run(self._record_not_done())

    def heartbeat(self) -> None:
        """Renew its lease; inside ``with`` that happens automatically.

        Raises: LeaseLost.
        """
        self._run(self._heartbeat_plan())

    def __enter__(self) -> Self:
        self.begin()
        self._lease.start(None if self._current.fence is None else self._heartbeats())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Record the outcome; an error of the block is raised further.

        Raises: LeaseLost, if the block was cancelled because of that.
        """
        try:
            stopped = self._lease.leave(kind, error, trace)
            if stopped is not None:
                raise LeaseLost(
                    f"the lease of {self.name!r} was lost, so it was stopped"
                ) from stopped
            self._run(self._leave_plan(error))
        finally:
            self._lease.stop()


class Attempt(Resource):
    """One attempt: its actions, each done once, and its requests for another mail."""

    def __init__(self, runner: SyncRunner, id: str) -> None:
        super().__init__(runner)
        self.id = id

    def __repr__(self) -> str:
        return f"Attempt({self.id!r})"

    def action(
        self,
        name: str,
        *,
        safe: str | Function = "once",
        lease: float = DEFAULT_LEASE,
        window: float = KEY_WINDOW,
        wait: float = 0.0,
        uses: Grant | None = None,
    ) -> Action:
        """Return an action of this attempt; ``with`` begins it.

        ``safe`` decides what happens if the action was begun and its outcome is unknown:
        ``"once"`` holds it for a person, ``"idempotent"`` lets the next caller repeat it with
        the same key while ``window`` lasts, ``"verify"`` makes the next caller verify first; a
        function does that (it returns ``Done(…)`` or raises ``NotDone``). ``wait`` is how many
        seconds to wait while another caller is doing it. ``uses`` is a grant that counts as used
        when the action is done.

        Raises: ActionMisused.
        """
        options = action_options(
            self.id, name, safe, lease=lease, window=window, wait=wait, uses=uses
        )
        return Action(self._runner, options)

    def do(
        self,
        name: str,
        function: Function,
        /,
        *args: Any,
        safe: str | Function | None = None,
        lease: float = DEFAULT_LEASE,
        timeout: float | None = None,
        window: float = KEY_WINDOW,
        wait: float = 60.0,
        uses: Grant | None = None,
        **kwargs: Any,
    ) -> Any:
        """Call a function at most once per attempt and name; a repeat gets the stored result.

        As ``action``; a function that takes an ``idempotency_key`` is ``"idempotent"`` unless
        ``safe`` says otherwise. With ``Client`` it runs in this thread and cannot be
        interrupted: it must end within ``timeout`` seconds, which are less than the lease. With
        ``AsyncClient`` a plain function runs in a thread and is abandoned after ``timeout``.

        Raises: ActionInFlight, ActionHeld, ActionMisused, and every error of the function.
        """
        bound = partial(function, *args, **kwargs)
        chosen = choose_safety(safe, bound).value if not callable(safe) else safe
        action = self.action(name, safe=chosen, lease=lease, window=window, wait=wait, uses=uses)
        return self._run(action._do_plan(bound, actions.call_timeout(timeout, lease)))

    def request_resend(self, *, idempotency_key: str | None = None) -> schemas.ResendGrant:
        """Get permission to request the mail again.

        Raises: ResendLimitReached.
        """
        return self._run(actions.resend_call(self.id, idempotency_key))

    def stats(self) -> schemas.AttemptStats:
        """Return statistics of all its inboxes and actions."""
        return self._run(actions.stats_call(self.id))
