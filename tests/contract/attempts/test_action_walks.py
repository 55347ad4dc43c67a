"""Actions in random walks beside a model in a few lines: every answer and every state agrees."""

import random
from dataclasses import dataclass

import pytest

from oncebox.ledger.attempts import actions
from oncebox.model.attempts import TRANSITIONS, Action, ActionState, BeginStatus
from oncebox.model.deliveries.effects import Safety
from tests.support.actor import ATTEMPT, NAME, Actor
from tests.support.clerk import LEASE, TENANT, Clerk
from tests.support.office import Office

S = ActionState
OPEN = {S.STARTED, S.VERIFYING}
WINDOW = 4 * LEASE
STEPS = 500


@dataclass
class Model:
    """One action, told in Python."""

    state: ActionState | None = None
    safe: Safety = Safety.ONCE
    request: str = ""
    fence: int = 0
    until: int = 0
    first: int = 0
    last: int = 0
    result: bytes | None = None

    def begin(self, safe: Safety, request: str, now: int) -> BeginStatus:
        if self.state is None or self.state is S.NOT_DONE:
            self._take(S.STARTED, request, now)
            self.safe, self.first, self.last = safe, now, now
        elif self.state in OPEN and self.request == request:
            self.until = max(self.until, now + LEASE)
        elif self.state in OPEN and self.until <= now:
            self._lost(safe, request, now)
        return self._told(request)

    def _lost(self, safe: Safety, request: str, now: int) -> None:
        if safe is self.safe is Safety.VERIFY:
            self._take(S.VERIFYING, request, now)
        elif safe is self.safe is Safety.IDEMPOTENT and now <= self.first + WINDOW:
            self._take(S.STARTED, request, now)
            self.last = now
        else:
            self.state = S.UNKNOWN

    def _take(self, state: ActionState, request: str, now: int) -> None:
        self.state, self.request, self.until = state, request, now + LEASE
        self.fence += 1

    def _told(self, request: str) -> BeginStatus:
        if self.state is S.DONE:
            return BeginStatus.DONE
        if self.state is S.UNKNOWN:
            return BeginStatus.HELD
        if self.request != request:
            return BeginStatus.IN_FLIGHT
        return BeginStatus.LOOK if self.state is S.VERIFYING else BeginStatus.BEGUN

    def done(self, fence: int, result: bytes) -> None:
        if self.state is not S.DONE and fence <= self.fence:
            self.state, self.result = S.DONE, result

    def not_done(self, fence: int, now: int) -> None:
        if fence != self.fence or self.state not in OPEN:
            return
        self.until = now
        if self.state is S.STARTED and self.safe is Safety.IDEMPOTENT and self.first < self.last:
            self.request = ""
        else:
            self.state = S.NOT_DONE

    def heartbeat(self, fence: int, now: int) -> bool:
        if fence != self.fence or self.state not in OPEN:
            return False
        self.until = max(self.until, now + LEASE)
        return True

    def resolve(self, state: ActionState, now: int) -> bool:
        if self.state is not S.UNKNOWN and not (self.state in OPEN and self.until <= now):
            return False
        self.state, self.fence = state, self.fence + 1
        return True


@dataclass
class Walk:
    """A model and the real thing, taking the same steps."""

    clerk: Clerk
    dice: random.Random
    seen: set[tuple[ActionState, ActionState]]

    def run(self) -> None:
        self.model = Model()
        self.actors = [Actor(self.clerk), Actor(self.clerk)]
        self.office = Office(self.clerk)
        for number in range(STEPS):
            if self.model.state is S.DONE and self.dice.random() < 0.4:
                self._forget()
            step = self.dice.choices(
                [self._begin, self._done, self._not_done, self._heartbeat, self._resolve,
                 self._wait],
                [8, 0.3, 3, 2, 1, 5],
            )[0]  # fmt: skip
            before = self._stands()
            step(number)
            self._compare(before)

    def _forget(self) -> None:
        self.model = Model()
        self.clerk.session.run(lambda tx: tx.execute("DELETE FROM oncebox_actions"))

    def _begin(self, number: int) -> None:
        safe = self.dice.choice([self.model.safe, *Safety])
        request = self.dice.choice([f"new-{number}", self.model.request or f"new-{number}"])
        told = self.dice.choice(self.actors).begin(safe, request=request, window=WINDOW)

        assert told.status is self.model.begin(safe, request, self.clerk.now)
        assert told.action.result == self.model.result

    def _done(self, number: int) -> None:
        fence, result = self._fence(), str(number).encode()
        self.actors[0].done(fence, result)
        if self.model.state is not None:
            self.model.done(fence, result)

    def _not_done(self, _number: int) -> None:
        fence = self._fence()
        self.actors[0].not_done(fence)
        self.model.not_done(fence, self.clerk.now)

    def _heartbeat(self, _number: int) -> None:
        fence = self._fence()
        assert self.actors[0].heartbeat(fence) is self.model.heartbeat(fence, self.clerk.now)

    def _resolve(self, _number: int) -> None:
        state = self.dice.choice([S.NOT_DONE, S.NOT_DONE, S.NOT_DONE, S.DONE])
        try:
            deed = self.office.deed()
            self.clerk.run(actions.resolve, (ATTEMPT, NAME), state, deed)
            resolved = True
        except Exception:  # noqa: BLE001 - that it is refused is all that is looked at
            resolved = False
        assert resolved is self.model.resolve(state, self.clerk.now)

    def _wait(self, _number: int) -> None:
        self.clerk.now += self.dice.choice([1, LEASE // 2, LEASE, LEASE])

    def _fence(self) -> int:
        return max(1, self.model.fence - self.dice.choice([0, 0, 0, 1, -1]))

    def _stands(self) -> Action | None:
        found = self.clerk.run(actions.newest, TENANT, attempt_id=ATTEMPT)
        return found[0] if found else None

    def _compare(self, before: Action | None) -> None:
        """The real thing stands where the model does, and got there by a move of the table."""
        after, model = self._stands(), self.model
        if after is None:
            assert model.state is None
            return
        assert (after.state, after.fence) == (model.state, model.fence)
        assert after.result == model.result
        if after.state in OPEN:
            assert (after.lease_until, after.first_started_at) == (model.until, model.first)
        taken_over = after.state in OPEN and before is not None and before.fence < after.fence
        if before is not None and (taken_over or before.state is not after.state):
            self.seen.add((before.state, after.state))


@pytest.mark.timeout(300)
def test_every_walk_agrees_with_the_model_and_takes_every_move(clerk: Clerk) -> None:
    seen: set[tuple[ActionState, ActionState]] = set()
    for seed in range(6):
        walk = Walk(clerk, random.Random(seed), seen)
        walk.run()
        walk._forget()

    assert seen == set(TRANSITIONS)
