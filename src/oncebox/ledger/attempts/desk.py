"""The desk for attempts: their actions as callers use them, with commits shared by many."""

import os
from collections.abc import Callable, Sequence

import msgspec

from oncebox import faults
from oncebox.errors import LeaseLost
from oncebox.ledger.attempts import actions, attempts
from oncebox.ledger.events.outbox import EVENTS
from oncebox.ledger.inboxes.inboxes import Asker
from oncebox.model.action import (
    Action,
    ActionWord,
    BeginAction,
    BegunAction,
    Standing,
    check_action,
    check_attempt,
    request_mark,
)
from oncebox.model.effect import Safe
from oncebox.seal import MasterKey
from oncebox.store.database import Database
from oncebox.store.group import Group
from oncebox.telemetry import Telemetry

_RANDOM_BYTES = 32


class Task(msgspec.Struct, frozen=True):
    """Who speaks of which action."""

    asker: Asker
    attempt_id: str
    name: str


class AttemptDesk:
    """Begins actions, and hears how they ended; all times in milliseconds."""

    def __init__(
        self,
        database: Database,
        telemetry: Telemetry,
        master_key: MasterKey,
        *,
        random: Callable[[int], bytes] = os.urandom,
    ) -> None:
        """Serve any number of callers at the same time."""
        self._database = database
        self._telemetry = telemetry
        self._key = master_key
        self._random = random
        self._begin = Group(database, actions.begin, committed=self._began)
        self._finish = Group(database, actions.finish)
        self._deny = Group(database, actions.deny)
        self._renew = Group(database, actions.renew)

    async def begin(
        self, task: Task, safe: Safe, *, lease: int, window: int, request: str | None = None
    ) -> BegunAction:
        """Begin an action, or tell how it stands; the same ``request`` is told the same.

        Raises: NotFound, KeyInvalid.
        """
        who = task.asker.key or ""
        mark = self._random(_RANDOM_BYTES) if request is None else request_mark(who, request)
        wish = BeginAction(
            tenant=task.asker.tenant,
            attempt_id=check_attempt(task.attempt_id),
            name=check_action(task.name),
            key=who,
            owner=task.asker.owner,
            safe=safe,
            mark=mark,
            lease=lease,
            window=window,
            now=self._database.clock(),
        )
        begun = await self._begin.submit(wish)
        faults.point("actions.begun")
        if begun is None:
            raise attempts.missing()
        self._telemetry.actions.labels(_outcome(begun)).inc()
        return begun

    async def done(self, task: Task, fence: int, result: bytes | None) -> Action:
        """Record success, from whoever once held the action; return how it stands.

        Raises: NotFound.
        """
        sealed = None if result is None else self.sealed(task, result)
        word = self._word(task, fence, result=sealed)
        action = _there(await self._finish.submit(word))
        faults.point("actions.done")
        self._telemetry.actions.labels("done").inc()
        return action

    async def not_done(self, task: Task, fence: int) -> Action:
        """Record that an action did not happen; return how it stands.

        Raises: NotFound, LeaseLost.
        """
        word = self._word(task, fence)
        action = _there(await self._deny.submit(word))
        if not actions.counts(word, action):
            raise self._lost()
        self._telemetry.actions.labels("not_done").inc()
        return action

    async def heartbeat(self, task: Task, fence: int, lease: int) -> Action:
        """Keep an action for longer; return how it stands.

        Raises: NotFound, LeaseLost.
        """
        word = self._word(task, fence, until=self._database.clock() + lease)
        action = _there(await self._renew.submit(word))
        if not actions.holds(word, action):
            raise self._lost()
        return action

    def sealed(self, task: Task, result: bytes) -> bytes:
        """Return a result as it is kept."""
        bound = _bound(task.asker.tenant, task.attempt_id, task.name)
        return self._key.seal(result, bound_to=bound)

    def opened(self, action: Action) -> bytes | None:
        """Return the result of an action as it was given.

        Raises: MasterKeyWrong.
        """
        if action.result is None:
            return None
        bound = _bound(action.tenant, action.attempt_id, action.name)
        return self._key.open(action.result, bound_to=bound)

    def _word(
        self, task: Task, fence: int, *, result: bytes | None = None, until: int = 0
    ) -> ActionWord:
        return ActionWord(
            tenant=task.asker.tenant,
            attempt_id=task.attempt_id,
            name=task.name,
            owner=task.asker.owner,
            fence=fence,
            now=self._database.clock(),
            result=result,
            until=until,
        )

    def _began(self, pairs: Sequence[tuple[BeginAction, BegunAction | None]]) -> None:
        if any(begun is not None and begun.held_now for _, begun in pairs):
            self._database.ring(EVENTS)

    def _lost(self) -> LeaseLost:
        self._telemetry.lease_conflicts.inc()
        self._telemetry.actions.labels("stale").inc()
        return LeaseLost("the lease was lost; somebody else may be doing this action")


def _outcome(begun: BegunAction) -> str:
    """Return the word under which an answer is counted."""
    repeated = begun.action.fence > 1 and begun.standing is Standing.BEGUN
    return "repeated" if repeated else begun.standing.value


def _there(action: Action | None) -> Action:
    if action is None:
        raise attempts.missing()
    return action


def _bound(tenant: str, attempt_id: str, name: str) -> bytes:
    """Bind a result to its row, so that it opens for no other."""
    return msgspec.msgpack.encode(("action", tenant, attempt_id, name, "result"))
