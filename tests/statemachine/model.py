"""A plain model of the ledger: what every verb is meant to do, in dictionaries and loops."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from oncebox.model.delivery import State
from oncebox.model.effect import EffectState
from tests.support.clerk import LEASE, MINUTE

OPEN = {State.RECEIVED, State.PROCESSING, State.FAILED, State.HELD}
WAITING = {State.RECEIVED, State.FAILED}
MOST_REARMS = 3
TRIES = 3
BUDGET = 20 * MINUTE


@dataclass
class Effect:
    """What the journal should say of the one effect a delivery has here."""

    state: EffectState
    fence: int

    @property
    def in_doubt(self) -> bool:
        """Whether only a person can say how it ended."""
        return self.state in {EffectState.STARTED, EffectState.UNKNOWN}


@dataclass
class Row:
    """What the ledger should say of one delivery."""

    id: str
    key: str
    body: bytes
    lane: str | None
    state: State = State.RECEIVED
    is_conflict: bool = False
    position: int | None = None
    due_at: int | None = None
    fence: int = 0
    tries: int = 0
    give_up_at: int | None = None
    not_before: int | None = None
    hastened_at: int | None = None
    held_at: int | None = None
    rearms: int = 0
    late: bool = False
    seen_again: int = 0
    effect: Effect | None = None

    def is_due(self, now: int) -> bool:
        """Whether a worker may claim it."""
        return self.state in WAITING and self.due_at is not None and self.due_at <= now

    def is_lost(self, now: int) -> bool:
        """Whether its lease ran out."""
        return self.state is State.PROCESSING and self.due_at is not None and self.due_at <= now

    def is_hopeless(self) -> bool:
        """Whether it may not be tried again once its lease runs out."""
        assert self.due_at is not None
        assert self.give_up_at is not None
        return self.tries >= TRIES or self.give_up_at <= self.due_at

    def is_held_by(self, fence: int) -> bool:
        """Whether a claim is the current one."""
        return self.state is State.PROCESSING and self.fence == fence


@dataclass
class Model:
    """All deliveries, and the time."""

    now: int
    rows: dict[str, Row] = field(default_factory=dict)
    last_position: dict[str, int] = field(default_factory=dict)

    def find(self, key: str, body: bytes) -> Row | None:
        """Return the delivery under a key, or the conflict with this body."""
        same_key = [row for row in self.rows.values() if row.key == key]
        for row in same_key:
            if row.body == body:
                return row
        return None

    def first(self, key: str) -> Row | None:
        """Return the delivery that came first under a key."""
        found = (row for row in self.rows.values() if row.key == key and not row.is_conflict)
        return next(found, None)

    def lane(self, name: str) -> list[Row]:
        """Return what is open in a lane, earliest first."""
        members = [
            row
            for row in self.rows.values()
            if row.lane == name and row.position is not None and row.state in OPEN
        ]
        return sorted(members, key=lambda row: row.position or 0)

    # arrivals

    def add(self, row: Row) -> None:
        """Write a new delivery; in a lane it waits for its turn."""
        self.rows[row.id] = row
        row.due_at = self.now
        self._enter_lane(row)

    def add_conflict(self, row: Row) -> None:
        """Write a conflicting body, held."""
        self.rows[row.id] = row
        row.is_conflict = True
        row.state, row.held_at = State.HELD, self.now

    def redeliver(self, row: Row, state: State) -> None:
        """Bring failed work forward and dead work back, by the state it was seen in."""
        if state is State.FAILED and row.state is State.FAILED:
            self._hasten(row)
        elif state is State.DEAD and row.state is State.DEAD:
            self._rearm(row)

    def _hasten(self, row: Row) -> None:
        assert row.due_at is not None
        recently = row.hastened_at is not None and row.hastened_at > self.now - MINUTE
        too_early = row.not_before is not None and row.not_before > self.now
        if row.due_at > self.now and not recently and not too_early:
            row.due_at = row.hastened_at = self.now

    def _rearm(self, row: Row) -> None:
        unknown = row.effect is not None and row.effect.state is EffectState.UNKNOWN
        if row.rearms < MOST_REARMS and not unknown:
            row.rearms += 1
            self._begin_anew(row)

    # claims

    def claim(self, row: Row) -> None:
        """Give a delivery to a worker; queued time is nobody's."""
        assert row.due_at is not None
        if row.give_up_at is None:
            row.give_up_at = self.now + BUDGET
        else:
            row.give_up_at += self.now - row.due_at
        row.state = State.PROCESSING
        row.fence += 1
        row.tries += 1
        row.due_at = self.now + LEASE

    def bury(self) -> set[str]:
        """Give up on what was lost on its last try."""
        gone = [row for row in self.rows.values() if row.is_lost(self.now) and row.is_hopeless()]
        for row in gone:
            row.state, row.due_at = State.DEAD, None
        self._advance(row.lane for row in gone)
        return {row.id for row in gone}

    # settlements

    def settle(self, row: Row, fence: int, state: State, due_at: int | None) -> bool:
        """End a try; say whether it counts, now or because it did before."""
        if row.is_held_by(fence):
            self._end(row, state, due_at)
        elif (row.state, row.fence) != (state, fence):
            return False
        if state in {State.DONE, State.DEAD}:
            self._advance([row.lane])
        return True

    def _end(self, row: Row, state: State, due_at: int | None) -> None:
        row.state, row.due_at = state, due_at
        if state is not State.DONE:
            row.not_before = None
        if state is State.RECEIVED:
            row.tries -= 1
        row.held_at = self.now if state is State.HELD else None

    # people

    def hold(self, row: Row) -> bool:
        """Keep a waiting delivery from running."""
        if row.state not in WAITING:
            return False
        queued = self.now - row.due_at if row.due_at is not None else 0
        if row.give_up_at is not None and queued > 0:
            row.give_up_at += queued
        row.state, row.due_at, row.held_at = State.HELD, None, self.now
        return True

    def release(self, row: Row, word: EffectState | None) -> bool:
        """Let a held delivery run, at its old place."""
        if not self._decided(row, word) or row.state is not State.HELD:
            return False
        self._take_word(row, word)
        assert row.held_at is not None
        if row.give_up_at is not None:
            row.give_up_at += self.now - row.held_at
        row.state, row.held_at = State.RECEIVED, None
        row.due_at = None if row.lane else self.now
        if row.lane and row.position is None:
            self._enter_lane(row)
        self._advance([row.lane])
        return True

    def replay(self, row: Row, word: EffectState | None) -> bool:
        """Run a done or dead delivery again."""
        if not self._decided(row, word) or row.state not in {State.DONE, State.DEAD}:
            return False
        self._take_word(row, word)
        row.not_before = None
        self._begin_anew(row)
        return True

    def _decided(self, row: Row, word: EffectState | None) -> bool:
        return row.effect is None or not row.effect.in_doubt or word is not None

    def _take_word(self, row: Row, word: EffectState | None) -> None:
        if row.effect is not None and row.effect.in_doubt and word is not None:
            row.effect.state = word

    def _begin_anew(self, row: Row) -> None:
        row.state, row.due_at = State.RECEIVED, self.now
        row.tries, row.give_up_at, row.late = 0, None, True
        self._enter_lane(row)

    # effects

    def begin(self, row: Row, fence: int) -> bool:
        """Journal the effect; say whether the call may be made."""
        if not row.is_held_by(fence):
            return False
        if row.effect is None:
            row.effect = Effect(EffectState.STARTED, fence)
        return (row.effect.state, row.effect.fence) == (EffectState.STARTED, fence)

    def begin_again(self, row: Row, fence: int) -> bool:
        """Start the effect anew where it did not happen or may be repeated."""
        again = {EffectState.STARTED, EffectState.NOT_DONE}
        if not row.is_held_by(fence) or row.effect is None or row.effect.state not in again:
            return False
        row.effect = Effect(EffectState.STARTED, fence)
        return True

    def finish(self, row: Row, fence: int, state: EffectState) -> None:
        """Record how the effect ended; success is proof, whoever brings it."""
        effect = row.effect
        if effect is None or effect.state is EffectState.DONE:
            return
        mine = effect.state is EffectState.STARTED and effect.fence <= fence
        if state is EffectState.DONE or mine:
            effect.state = state

    # lanes

    def _enter_lane(self, row: Row) -> None:
        if row.lane is not None:
            row.position = self.last_position[row.lane] = self.last_position.get(row.lane, 0) + 1
            row.due_at = None
            self._advance([row.lane])

    def _advance(self, lanes: Iterable[str | None]) -> None:
        for name in lanes:
            members = self.lane(name) if name is not None else []
            if members and members[0].state in WAITING and members[0].due_at is None:
                members[0].due_at = self.now
