"""Sends in random walks beside a model in a few lines: every answer and every state agrees.

The world beside them counts: under ``hold`` nothing that may have been taken is handed over
again, unless its own holder or a person said that it was not taken.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, cast

import pytest

from oncebox.db.database import Transaction
from oncebox.errors import OnceboxError
from oncebox.ledger.sends import fail_open
from oncebox.ledger.sends.fail_open import SpooledSend
from oncebox.model.sends.send import TRANSITIONS, AnswerStatus, OnUnknown, Send, SendState
from oncebox.model.sends.transports import SendOutcome
from tests.support.clerk import LEASE, Clerk
from tests.support.databases import Session
from tests.support.mailer import BOUNCED, REFUSED, SILENCE, TAKEN, TO, WAIT, Mailer

T = TypeVar("T")
S = SendState
#: the fence of a hand-over past the ledger, which no word of a worker is about
BESIDE = -1
WINDOW = 6 * LEASE
VALID = (2 * LEASE, 5 * LEASE, 20 * LEASE)
TRIES = 6
STEPS = 400
HELD = {S.CLAIMED, S.SENDING}
ANSWERS = {
    S.PENDING: AnswerStatus.IN_FLIGHT,
    S.CLAIMED: AnswerStatus.IN_FLIGHT,
    S.SENDING: AnswerStatus.IN_FLIGHT,
    S.SENT: AnswerStatus.DUPLICATE,
}


@dataclass
class Model:
    """One send, told in Python."""

    choice: OnUnknown
    now: int
    state: SendState = S.PENDING
    fence: int = 0
    tries: int = 0
    due: int | None = 0
    doubt: bool = False
    again: OnUnknown | None = None
    window: int | None = None
    valid: int | None = None
    listed: bool = False

    def intend(self, valid: int) -> tuple[AnswerStatus, bool]:
        armed = self.state in {S.FAILED, S.EXPIRED, S.CANCELLED}
        if armed:
            self._arm()
            self.valid = valid
            if self.listed:
                self.state, self.due = S.SUPPRESSED, None
        told = ANSWERS.get(self.state) or AnswerStatus(self.state)
        return told, armed

    def _arm(self) -> None:
        self.state, self.due, self.tries = S.PENDING, self.now, 0
        self.fence += 1
        self.window = None

    def may_claim(self) -> bool:
        if self.due is None or self.due > self.now or not self._in_time():
            return False
        return self.state is S.PENDING or (self.state is S.UNKNOWN and self._may_repeat())

    def claim(self) -> None:
        self.state, self.due = S.CLAIMED, self.now + LEASE
        self.fence += 1
        self.tries += 1

    def _in_time(self) -> bool:
        return self.valid is None or self.valid > self.now

    def _may_repeat(self) -> bool:
        if self.again is OnUnknown.REPLAY:
            return (self.window or 0) > self.now
        return self.again is OnUnknown.RESEND

    def begin(self, fence: int) -> bool:
        if self.state is not S.CLAIMED or fence != self.fence:
            return False
        alive = (self.due or 0) > self.now
        if alive and self._may_go():
            self.state, self.due = S.SENDING, self.now + LEASE
            self.window = self.window if self.doubt else self.now + WINDOW
            return True
        self._refuse(alive=alive)
        return False

    def _may_go(self) -> bool:
        return self._in_time() and not self.listed and (not self.doubt or self._may_repeat())

    def _refuse(self, *, alive: bool) -> None:
        if self.doubt and alive:
            self.state, self.again, self.due = S.UNKNOWN, None, None
        elif not self.doubt and self.listed:
            self.state, self.due = S.SUPPRESSED, None
        elif not self.doubt and not self._in_time():
            self.state, self.due = S.EXPIRED, None

    def log(self, fence: int) -> bool:
        if self.state not in HELD or fence != self.fence:
            return False
        if self.doubt:
            self.state, self.again, self.due = S.UNKNOWN, None, None
            return False
        if self.state is S.SENDING or self._may_go():
            self.state, self.due = S.LOGGED, None
            return True
        self._refuse(alive=True)
        return False

    def say(self, fence: int, outcome: SendOutcome, due: int | None) -> bool:
        if outcome is TAKEN:
            counts = fence <= self.fence and self.state is not S.SENT
            if counts:
                self.state, self.doubt, self.again, self.due = S.SENT, False, None, None
            return counts
        if self.state not in HELD or fence != self.fence:
            return False
        if outcome is SILENCE:
            self._doubt(due)
        elif self.doubt:
            repeats = outcome is REFUSED and due is not None and self.again is not None
            self.state, self.due = S.UNKNOWN, due if repeats else None
            self.again = self.again if repeats else None
        elif outcome is REFUSED and due is not None:
            self.state, self.due, self.window = S.PENDING, due, None
        else:
            self.state, self.due = S.FAILED, None
        return True

    def _doubt(self, due: int | None) -> None:
        self.state, self.doubt = S.UNKNOWN, True
        late = due is None or (self.choice is OnUnknown.REPLAY and (self.window or 0) <= due)
        self.again = None if self.choice is OnUnknown.HOLD or late else self.choice
        self.due = due if self.again else None

    def sweep(self) -> None:
        lost, over = (self.due or self.now + 1) <= self.now, self.tries >= TRIES
        if self.state is S.CLAIMED and lost:
            self.due = None if over else self.now
            self.again = None if over else self.again
            ended = S.FAILED if over else S.PENDING
            self.state = S.UNKNOWN if self.doubt else ended
        elif self.state is S.SENDING and lost:
            self.fence += 1
            self._doubt(None if over else self.now)
        if self.state is S.PENDING and not self._in_time():
            self.state, self.due = S.EXPIRED, None
        due = self.again is not None and (self.due or 0) <= self.now
        if self.state is S.UNKNOWN and due and not (self._may_repeat() and self._in_time()):
            self.again, self.due = None, None

    def resolve(self, *, sent: bool) -> bool:
        lost = self.state is S.SENDING and (self.due or 0) <= self.now
        if self.state is not S.UNKNOWN and not lost:
            return False
        self.state, self.doubt, self.again, self.due = (
            S.SENT if sent else S.FAILED,
            False,
            None,
            None,
        )
        self.fence += 1
        return True

    def cancel(self) -> bool:
        if self.state not in {S.PENDING, S.CLAIMED} or self.doubt:
            return False
        self.state, self.due = S.CANCELLED, None
        self.fence += 1
        return True

    def beside(self) -> bool:
        if self.doubt or self.state in {S.SENT, S.UNKNOWN}:
            return False
        if self.state is S.SENDING:
            self.doubt = True
            return True
        self.fence += 1
        self.tries += 1
        self._doubt(None)
        return True

    def resend(self) -> bool:
        in_time = self.valid if self._in_time() else None
        if self.state in {S.FAILED, S.EXPIRED, S.CANCELLED, S.SUPPRESSED}:
            self._arm()
        elif self.state is S.UNKNOWN:
            self.again, self.due, self.tries = OnUnknown.RESEND, self.now, 0
        else:
            return False
        self.valid = in_time
        return True


class Walk:
    """A model and the real thing, taking the same steps."""

    def __init__(self, mailer: Mailer, seed: int, seen: set[tuple[SendState, SendState]]) -> None:
        self.mailer = mailer
        self.dice = random.Random(seed)
        self.seen = seen
        self.seed = seed
        self.walks = 0

    def run(self) -> None:
        self._anew()
        for _ in range(STEPS):
            if self.dice.random() < {S.SENT: 0.3, S.LOGGED: 0.1}.get(self.model.state, 0.0):
                self._anew()
            before = self._stands()
            step, weight = zip(*self._steps(), strict=True)
            self.model.now = self.mailer.clerk.now
            self.dice.choices(step, weight)[0]()
            self._compare(before)
        self._clean()

    def _steps(self) -> list[tuple[Callable[[], None], float]]:
        return [
            (self._intend, 3), (self._claim, 6), (self._begin, 4), (self._say, 4),
            (self._sweep, 3), (self._wait, 4), (self._resolve, 1), (self._cancel, 0.6),
            (self._resend, 0.6), (self._list, 0.5), (self._log, 0.3),
            (self._beside, 3 if self.model.state is S.LOGGED else 0.2),
        ]  # fmt: skip

    def _anew(self) -> None:
        self._clean()
        self.walks += 1
        self.key = f"walk {self.seed} {self.walks}"
        choice = self.dice.choice(list(OnUnknown))
        now = self.mailer.clerk.now
        valid = now + self.dice.choice(VALID)
        self.model = Model(choice, now, due=now, valid=valid)
        self.id = self.mailer.intend(self.key, on_unknown=choice, valid_until=valid).send.id
        self.held = [self._stands()]
        #: fences whose hand-over nobody has denied, and whether a person wanted it repeated
        self.handed_over: set[int] = set()
        self.leave = False

    def _clean(self) -> None:
        """Leave no send that could be claimed beside the next."""
        for table in ("oncebox_sends", "oncebox_suppressions"):
            self.mailer.rows(f"DELETE FROM {table} RETURNING tenant")  # noqa: S608 - our names

    def _intend(self) -> None:
        valid = self.mailer.clerk.now + self.dice.choice(VALID)
        told = self.mailer.intend(self.key, on_unknown=self.model.choice, valid_until=valid)
        assert (told.status, told.rearmed) == self.model.intend(valid)

    def _claim(self) -> None:
        claimed = self.mailer.claim()
        assert bool(claimed) is self.model.may_claim()
        if claimed:
            self.model.claim()
            self.held.append(claimed[0].send)

    def _holder(self) -> Send:
        """Whoever claimed last, mostly; sometimes somebody before."""
        return self.dice.choice([self.held[-1], self.held[-1], self.held[-1], *self.held])

    def _begin(self) -> None:
        holder = self._holder()
        begun = self.mailer.begin(holder, replay_for=WINDOW)
        assert begun is self.model.begin(holder.fence)
        if begun:
            held = self.model.choice is OnUnknown.HOLD and not self.leave
            assert not (held and self.handed_over), "a second hand-over while one is in doubt"
            self.handed_over.add(holder.fence)

    def _say(self) -> None:
        holder = self._holder()
        rare = self.model.state in {S.EXPIRED, S.LOGGED, S.SUPPRESSED, S.CANCELLED}
        weights = [6 if rare else 0.6, 2, 1, 3]
        outcomes: list[SendOutcome] = [TAKEN, REFUSED, BOUNCED, SILENCE]
        outcome = self.dice.choices(outcomes, weights)[0]
        wait = self.dice.choice([WAIT, 0, 0, None])
        due = None if wait is None else self.mailer.clerk.now + wait
        # The first in the list was never claimed: its fence 0 would be proof from outside.
        counted = self.mailer.say(holder, outcome, wait=wait, transport="")
        assert counted is self.model.say(holder.fence, outcome, due)
        if counted and outcome in {REFUSED, BOUNCED}:
            self.handed_over.discard(holder.fence)

    def _sweep(self) -> None:
        self.mailer.sweep(tries=TRIES)
        self.model.sweep()

    def _wait(self) -> None:
        self.mailer.clerk.now += self.dice.choice([1, LEASE // 2, LEASE, LEASE, WAIT])

    def _resolve(self) -> None:
        sent = self.dice.random() < 0.2
        resolved = self._may(lambda: self.mailer.resolve(self.id, sent=sent))
        assert resolved is self.model.resolve(sent=sent)
        if resolved:
            self.handed_over.clear()

    def _cancel(self) -> None:
        assert self._may(lambda: self.mailer.cancel(self.id)) is self.model.cancel()

    def _resend(self) -> None:
        resent = self._may(lambda: self.mailer.resend(self.id))
        assert resent is self.model.resend()
        self.leave = self.leave or (resent and self.model.doubt)

    def _may(self, deed: Callable[[], Send]) -> bool:
        try:
            deed()
        except OnceboxError:
            return False
        return True

    def _list(self) -> None:
        if self.model.listed:
            self.mailer.unsuppress(TO)
        else:
            self.mailer.suppress(TO)
        self.model.listed = not self.model.listed

    def _log(self) -> None:
        holder = self.held[-1]
        counts = self.model.log(holder.fence)
        assert self.mailer.say(holder, TAKEN, logged=True, transport="") is counts

    def _beside(self) -> None:
        """Tell of a hand-over past the ledger that nobody can know of."""
        new = self.mailer.new(self.key, on_unknown=self.model.choice)
        now = self.mailer.clerk.now
        told = SpooledSend(new=new, at=now + 1, outcome=SILENCE)
        self.mailer.clerk.run(fail_open.merge, [told], now)
        if self.model.beside():
            self.handed_over.add(BESIDE)

    def _stands(self) -> Send:
        return self.mailer.get(self.id)

    def _compare(self, before: Send) -> None:
        """The real thing stands where the model does, and got there by a move of the table."""
        after, model = self._stands(), self.model
        assert (after.state, after.fence, after.due_at) == (model.state, model.fence, model.due)
        assert (after.unknown_since is not None, after.repeat_mode) == (model.doubt, model.again)
        if before.state is not after.state:
            self.seen.add((before.state, after.state))


class _Within:
    """A session that stays in one transaction, because nobody else is here to see a commit."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def run(self, work: Callable[[Transaction], T]) -> T:
        return work(self._tx)


@pytest.mark.timeout(300)
def test_every_walk_agrees_with_the_model_and_takes_only_moves_of_the_table(clerk: Clerk) -> None:
    mailer = Mailer(clerk)
    seen: set[tuple[SendState, SendState]] = set()
    small = clerk.place.kind == "postgres"

    def walk(tx: Transaction) -> None:
        clerk.session = cast("Session", _Within(tx))
        for seed in range(2 if small else 8):
            Walk(mailer, seed, seen).run()

    session = clerk.session
    try:
        session.run(walk)
    finally:
        clerk.session = session
    assert seen <= set(TRANSITIONS)
    assert small or set(TRANSITIONS) - seen == set()
