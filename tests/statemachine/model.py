"""A plain model of the ledger: what every verb is meant to do, in dictionaries and loops."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from oncebox.model.deliveries.delivery import DeliveryState, LaneRules
from oncebox.model.deliveries.effects import EffectState
from tests.support.clerk import LEASE, MINUTE

OPEN = {DeliveryState.RECEIVED, DeliveryState.PROCESSING, DeliveryState.FAILED, DeliveryState.HELD}
WAITING = {DeliveryState.RECEIVED, DeliveryState.FAILED}
ACTIVE = {DeliveryState.RECEIVED, DeliveryState.PROCESSING, DeliveryState.FAILED}
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


@dataclass(frozen=True)
class Profile:
    """What is particular about everything that comes under one key."""

    key: str
    lane: str | None = None
    type: str = ""
    rules: LaneRules | None = None
    sequence: int | None = None
    unsigned: bool = False
    on_replay: str = "hold"
    verdict: str = ""
    hold_reason: str | None = None


@dataclass
class Row:
    """What the ledger should say of one delivery."""

    id: str
    profile: Profile
    body: bytes
    arrived: int
    state: DeliveryState = DeliveryState.RECEIVED
    is_conflict: bool = False
    replay_of: str | None = None
    runs_stale: bool = False
    waits_for: str | None = None
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

    @property
    def key(self) -> str:
        """What the provider calls it."""
        return self.profile.key

    @property
    def lane(self) -> str | None:
        """Where it waits for its turn."""
        return self.profile.lane

    @property
    def sequence(self) -> int | None:
        """Its number in the lane."""
        return self.profile.sequence

    def skips(self, last: int | None) -> bool:
        """Whether it is not run, because a higher number is done."""
        rules = self.profile.rules
        skip = rules is not None and rules.stale == "skip" and not self.runs_stale
        stale = last is not None and self.sequence is not None and self.sequence < last
        return self.state is DeliveryState.RECEIVED and skip and stale

    def is_due(self, now: int) -> bool:
        """Whether a worker may claim it."""
        return self.state in WAITING and self.due_at is not None and self.due_at <= now

    def is_lost(self, now: int) -> bool:
        """Whether its lease ran out."""
        return (
            self.state is DeliveryState.PROCESSING
            and self.due_at is not None
            and self.due_at <= now
        )

    def is_hopeless(self) -> bool:
        """Whether it may not be tried again once its lease runs out."""
        assert self.due_at is not None
        assert self.give_up_at is not None
        return self.tries >= TRIES or self.give_up_at <= self.due_at

    def is_held_by(self, fence: int) -> bool:
        """Whether a claim is the current one."""
        return self.state is DeliveryState.PROCESSING and self.fence == fence


@dataclass
class Lane:
    """What is known of a lane that goes by more than arrival."""

    last: int | None = None
    turn: str | None = None
    done_types: set[str] = field(default_factory=set)


@dataclass
class Model:
    """All deliveries, and the time."""

    now: int
    rows: dict[str, Row] = field(default_factory=dict)
    last_position: dict[str, int] = field(default_factory=dict)
    lanes: dict[str, Lane] = field(default_factory=dict)
    #: by body: the first delivery that had it under a key that nobody signed
    owners: dict[bytes, str] = field(default_factory=dict)

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

    def takes(self, profile: Profile, body: bytes) -> bool:
        """Say whether an arrival is new: its key, and its body where nobody signed the key."""
        owned = profile.unsigned and body in self.owners
        return self.first(profile.key) is None and not owned

    def add(self, row: Row) -> None:
        """Write a new delivery; it may have to wait from the beginning."""
        self._write(row)
        if row.profile.hold_reason is not None:
            row.state, row.held_at = DeliveryState.HELD, self.now

    def add_replay(self, row: Row) -> None:
        """Write a known body under an unsigned key, as its policy wants it."""
        owner = self.rows[self.owners[row.body]]
        row.replay_of = owner.id
        owner.seen_again += 1
        self._write(row)
        policy = row.profile.on_replay
        if policy == "drop":
            row.state = DeliveryState.DONE
        elif policy == "hold" or row.profile.hold_reason is not None:
            row.state, row.held_at = DeliveryState.HELD, self.now

    def add_conflict(self, row: Row) -> None:
        """Write a conflicting body, held."""
        row.is_conflict = True
        self._write(row)
        row.state, row.held_at = DeliveryState.HELD, self.now

    def _write(self, row: Row) -> None:
        self.rows[row.id] = row
        row.late = row.profile.verdict == "late"
        if row.profile.unsigned and row.body not in self.owners:
            self.owners[row.body] = row.id

    def settle_in(self, rows: Iterable[Row]) -> None:
        """Let new deliveries be due, or enter their lanes together."""
        waiting = [row for row in rows if row.state is DeliveryState.RECEIVED]
        for row in waiting:
            row.due_at = self.now
        self._enter(waiting)

    def redeliver(self, row: Row, state: DeliveryState) -> None:
        """Bring failed work forward and dead work back, by the state it was seen in."""
        if row.replay_of is not None:
            return
        if state is DeliveryState.FAILED and row.state is DeliveryState.FAILED:
            self._hasten(row)
        elif state is DeliveryState.DEAD and row.state is DeliveryState.DEAD:
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
        row.state = DeliveryState.PROCESSING
        row.fence += 1
        row.tries += 1
        row.due_at = self.now + LEASE

    def bury(self) -> set[str]:
        """Give up on what was lost on its last try."""
        gone = [row for row in self.rows.values() if row.is_lost(self.now) and row.is_hopeless()]
        for row in gone:
            row.state, row.due_at = DeliveryState.DEAD, None
        self._advance(row.lane for row in gone)
        return {row.id for row in gone}

    # settlements

    def settle(self, row: Row, fence: int, state: DeliveryState, due_at: int | None) -> bool:
        """End a try; say whether it counts, now or because it did before."""
        if row.is_held_by(fence):
            self._end(row, state, due_at)
        elif (row.state, row.fence) != (state, fence):
            return False
        if state is DeliveryState.DONE:
            self._remember(row)
        if state is not DeliveryState.FAILED:
            self._advance([row.lane])
        return True

    def _end(self, row: Row, state: DeliveryState, due_at: int | None) -> None:
        row.state, row.due_at = state, due_at
        if state is not DeliveryState.DONE:
            row.not_before = None
        if state is DeliveryState.RECEIVED:
            row.tries -= 1
        row.held_at = self.now if state is DeliveryState.HELD else None

    # people

    def hold(self, row: Row) -> bool:
        """Keep a waiting delivery from running."""
        if row.state not in WAITING:
            return False
        queued = self.now - row.due_at if row.due_at is not None else 0
        if row.give_up_at is not None and queued > 0:
            row.give_up_at += queued
        row.state, row.due_at, row.held_at = DeliveryState.HELD, None, self.now
        return True

    def release(self, row: Row, word: EffectState | None) -> bool:
        """Let a held delivery run, at its old place."""
        if not self._decided(row, word) or row.state is not DeliveryState.HELD:
            return False
        self._take_word(row, word)
        assert row.held_at is not None
        if row.give_up_at is not None:
            row.give_up_at += self.now - row.held_at
        row.state, row.held_at, row.runs_stale = DeliveryState.RECEIVED, None, True
        row.due_at = None if row.lane else self.now
        if row.lane and row.position is None:
            self._enter([row])
        self._advance([row.lane])
        return True

    def drop(self, row: Row, word: EffectState | None) -> bool:
        """End a held delivery without running it; its lane goes on as if it had run."""
        if not self._decided(row, word) or row.state is not DeliveryState.HELD:
            return False
        self._take_word(row, word)
        row.state, row.held_at = DeliveryState.DONE, None
        if row.position is not None:
            self._remember(row)
            self._advance([row.lane])
        return True

    def replay(self, row: Row, word: EffectState | None) -> bool:
        """Run a done or dead delivery again."""
        if not self._decided(row, word) or row.state not in {
            DeliveryState.DONE,
            DeliveryState.DEAD,
        }:
            return False
        self._take_word(row, word)
        row.not_before, row.runs_stale = None, True
        self._begin_anew(row)
        return True

    def _decided(self, row: Row, word: EffectState | None) -> bool:
        return row.effect is None or not row.effect.in_doubt or word is not None

    def _take_word(self, row: Row, word: EffectState | None) -> None:
        if row.effect is not None and row.effect.in_doubt and word is not None:
            row.effect.state = word

    def _begin_anew(self, row: Row) -> None:
        row.state, row.due_at = DeliveryState.RECEIVED, self.now
        row.tries, row.give_up_at, row.late = 0, None, True
        self._enter([row])

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

    def _enter(self, rows: Sequence[Row]) -> None:
        """Put deliveries at the end of their lanes, in the order given."""
        entering = [row for row in rows if row.lane is not None]
        for row in entering:
            assert row.lane is not None
            row.position = self.last_position[row.lane] = self.last_position.get(row.lane, 0) + 1
            row.due_at = None
            if row.profile.rules is not None:
                self.lanes.setdefault(row.lane, Lane())
        self._advance(dict.fromkeys(row.lane for row in entering))

    def _advance(self, lanes: Iterable[str | None]) -> None:
        for name in lanes:
            if name in self.lanes:
                self._give_turn(str(name), self.lanes[str(name)])
                continue
            members = self.lane(name) if name is not None else []
            if members and members[0].state in WAITING and members[0].due_at is None:
                members[0].due_at = self.now

    def _remember(self, row: Row) -> None:
        if row.lane in self.lanes:
            lane = self.lanes[row.lane]
            lane.done_types.add(row.profile.type)
            if row.sequence is not None:
                lane.last = max(row.sequence, lane.last or row.sequence)

    def _give_turn(self, name: str, lane: Lane) -> None:
        """Give the turn of a lane with rules: to the lowest number, or to what that waits for."""
        while members := self.lane(name):
            holder = self._holder(members, lane)
            if holder is not None and holder.state in {
                DeliveryState.PROCESSING,
                DeliveryState.FAILED,
            }:
                return
            chosen = self._chosen(members, lane)
            if chosen.skips(lane.last):
                chosen.state, chosen.due_at = DeliveryState.DONE, None
                lane.done_types.add(chosen.profile.type)
                continue
            if (
                holder is not None
                and holder is not chosen
                and holder.state is DeliveryState.RECEIVED
            ):
                holder.due_at = holder.waits_for = None
            if chosen.state is DeliveryState.RECEIVED:
                self._let_go(chosen, lane)
            lane.turn = chosen.id
            return

    def _holder(self, members: Sequence[Row], lane: Lane) -> Row | None:
        if lane.turn is not None:
            holder = self.rows[lane.turn]
            begun = holder.state in {DeliveryState.PROCESSING, DeliveryState.FAILED}
            return holder if begun or holder.due_at is not None else None
        active = (row for row in members if row.state in ACTIVE and row.due_at is not None)
        return next(active, None)

    def _chosen(self, members: Sequence[Row], lane: Lane) -> Row:
        chosen = members[0]
        if chosen.sequence is not None:
            numbered = [row for row in members if row.sequence is not None]
            chosen = min(numbered, key=lambda row: (row.sequence or 0, row.position or 0))
        asked: set[str] = set()
        while (type_ := self._waits_after(chosen, lane)) and type_ not in asked:
            asked.add(type_)
            before = [
                row
                for row in members
                if row.profile.type == type_ and row.state is DeliveryState.RECEIVED
            ]
            if not before:
                break
            chosen = before[0]
        return chosen

    def _waits_after(self, row: Row, lane: Lane) -> str | None:
        rules = row.profile.rules
        wanted = rules.after.get(row.profile.type) if rules is not None else None
        if rules is None or wanted is None or row.arrived + rules.after_wait <= self.now:
            return None
        return None if wanted in lane.done_types else wanted

    def _let_go(self, row: Row, lane: Lane) -> None:
        """Make a delivery due now, or when it has waited long enough."""
        rules, last = row.profile.rules, lane.last or 0
        waits = []
        if rules is not None and row.sequence is not None and row.sequence > last + 1:
            until = row.arrived + rules.gap_wait
            waits += [(until, f"number {last + 1}")] if until > self.now else []
        if rules is not None and (after := self._waits_after(row, lane)):
            waits.append((row.arrived + rules.after_wait, after))
        due_at = max((until for until, _ in waits), default=self.now)
        if row.due_at is None or row.due_at > due_at:
            row.due_at = due_at
            row.waits_for = " and ".join(what for _, what in waits) or None
            stale = row.sequence is not None and lane.last is not None and row.sequence < lane.last
            row.late = row.late or stale
