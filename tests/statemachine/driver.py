"""Every act of providers, workers and people, done to the ledger and to the model alike.

Each act compares the ledger's answer with the model's. Numbers that are drawn at random pick
among what is there; where an act is only possible in some states, those are preferred.
"""

import hashlib
from collections.abc import Callable
from itertools import accumulate

import msgspec

from oncebox.core import ids
from oncebox.db.database import Transaction
from oncebox.errors import StateConflict
from oncebox.ledger.deliveries import effects
from oncebox.model.deliveries.delivery import (
    ArrivalKind,
    Delivery,
    DeliveryState,
    NewDelivery,
    Settlement,
    lane_order,
)
from oncebox.model.deliveries.effects import EffectState
from oncebox.model.deliveries.inspection import DeliveryRecord
from tests.statemachine import invariants
from tests.statemachine.model import BUDGET, TRIES, Model, Profile, Row
from tests.statemachine.profiles import EVERYTHING, LATE, NUMBERED, PLAIN, TYPED, UNSIGNED
from tests.support.clerk import (
    DAY,
    HOUR,
    LEASE,
    MINUTE,
    START,
    Clerk,
    dead,
    done,
    failed,
    given_back,
    held,
)

JUMPS = [1, 1_000, LEASE, MINUTE, MINUTE, HOUR, 10 * DAY, 3650 * DAY, -1_000, -LEASE, -HOUR]
BODIES = [b"one", b"two"]
WORKERS = ["ann", "ben", "cay"]
EFFECT = "charge"
ENDINGS = [EffectState.DONE, EffectState.NOT_DONE, EffectState.UNKNOWN]
SEEN_BEFORE = {ArrivalKind.DUPLICATE, ArrivalKind.CONFLICT}
WORDS = [EffectState.DONE, EffectState.NOT_DONE, None]
TABLES = (
    "deliveries",
    "payloads",
    "lanes",
    "lane_types",
    "tries",
    "effects",
    "sightings",
    "examples",
    "audit",
)


def _some_of(profiles: list[Profile], who: int, more: int) -> list[tuple[Profile, bytes]]:
    """Pick up to three, neighbours or far apart, sometimes with another body."""
    count = more % 3 + 1
    chosen = [profiles[(who + place * more) % len(profiles)] for place in range(count)]
    bodies = [BODIES[0 if (who + place) % 7 else 1] for place in range(count)]
    return list(zip(chosen, bodies, strict=True))


def _one_request(given: list[NewDelivery]) -> list[NewDelivery]:
    """Return arrivals as the elements of one request."""
    whole, request = b"".join(each.body for each in given), ids.new("pay")
    starts = accumulate((len(each.body) for each in given), initial=0)
    return [
        msgspec.structs.replace(
            each, body=whole, payload_id=request, start=start, length=len(each.body)
        )
        for each, start in zip(given, starts, strict=False)
    ]


def _mark(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _ending(claim: Delivery, now: int, number: int) -> Settlement:
    """Return one of the five ways a try can end."""
    ends = [
        done(claim),
        failed(claim, now + MINUTE),
        dead(claim),
        held(claim),
        given_back(claim, now),
    ]
    return ends[number % len(ends)]


class Driver:
    """The ledger and its model, driven together."""

    def __init__(self, clerk: Clerk) -> None:
        """Begin with an empty ledger."""
        clerk.now = START
        clerk.tries, clerk.budget = TRIES, BUDGET
        clerk.session.run(_empty)
        self.clerk = clerk
        self.model = Model(START)
        #: every claim a worker still remembers, also those it has lost
        self.claims: list[Delivery] = []
        self.before: dict[str, DeliveryRecord] = {}

    def check(self) -> None:
        """Compare every fact with the model, and look whether all holds that must."""
        now = {facts.id: facts for facts in self.clerk.all()}
        assert now.keys() == self.model.rows.keys()
        for id_, facts in now.items():
            row = self.model.rows[id_]
            said = (
                facts.state, facts.fence, facts.tries, facts.due_at, facts.give_up_at,
                facts.lane_position, facts.late, facts.rearms, facts.held_at, facts.not_before,
                facts.replay_of, facts.sequence, facts.waits_for,
            )  # fmt: skip
            expected = (
                row.state, row.fence, row.tries, row.due_at, row.give_up_at,
                row.position, row.late, row.rearms, row.held_at, row.not_before,
                row.replay_of, row.sequence, row.waits_for,
            )  # fmt: skip
            assert said == expected, (row.key, said, expected)
        invariants.check(now, self.before)
        self.before = now

    # providers

    def arrive(self, who: int, more: int) -> None:
        """Let up to three things arrive together; a second body for a key is the rarer one."""
        self.accept(_some_of(PLAIN, who, more))

    def arrive_in_order(self, who: int, more: int) -> None:
        """Let things arrive that go by number, or by type."""
        self.accept(_some_of(NUMBERED if who % 3 else TYPED, who // 3, more))

    def arrive_unsigned(self, who: int, more: int) -> None:
        """Let things arrive whose keys nobody signed, often with a body that is known."""
        self.accept(_some_of(UNSIGNED, who, more))

    def arrive_late(self, who: int, more: int) -> None:
        """Let something arrive that was signed long ago."""
        self.accept(_some_of(LATE, who, more))

    def arrive_in_one_request(self, who: int, more: int) -> None:
        """Let things arrive as the elements of one request."""
        self.accept(_some_of(EVERYTHING, who, more), together=True)

    def accept(self, new: list[tuple[Profile, bytes]], *, together: bool = False) -> None:
        """Accept arrivals in one commit: new ones, replays, duplicates, conflicts, redeliveries."""
        given = [self._arrival(profile, body) for profile, body in new]
        bodies = {each.id: body for each, (_, body) in zip(given, new, strict=True)}
        profiles = {each.id: profile for each, (profile, _) in zip(given, new, strict=True)}

        answers = self.clerk.accept(*(_one_request(given) if together else given))

        rows = {id_: self._row_of(id_, profiles[id_], bodies[id_]) for id_ in bodies}
        expected = self._write(rows)
        for each, answer in zip(given, answers, strict=True):
            row, arrival = expected[each.id]
            assert (answer.id, answer.arrival) == (row.id, arrival)
        states = {answer.id: answer.state for answer in answers}
        repeated = {row.id: row for row, arrival in expected.values() if arrival in SEEN_BEFORE}
        for _id, row in sorted(repeated.items()):
            if not row.is_conflict:
                self.model.redeliver(row, states[row.id])

    def redeliver(self, which: int, more: int) -> None:
        """Send again what was sent before, failed or dead by preference."""
        row = self._row(which, DeliveryState.DEAD, DeliveryState.FAILED)
        if row is not None:
            self.accept([(row.profile, row.body)], together=more % 4 == 0)

    def _arrival(self, profile: Profile, body: bytes) -> NewDelivery:
        rules = profile.rules
        place = rules and lane_order(rules, profile.type, profile.sequence, self.clerk.now)
        return self.clerk.arrival(
            profile.key,
            body,
            lane=profile.lane,
            type_=profile.type,
            order=place,
            unsigned=profile.unsigned,
            on_replay=profile.on_replay,
            verdict=profile.verdict,
            hold_reason=profile.hold_reason,
        )

    def _row_of(self, id_: str, profile: Profile, body: bytes) -> Row:
        return Row(id_, profile, body, self.model.now)

    def _write(self, rows: dict[str, Row]) -> dict[str, tuple[Row, ArrivalKind]]:
        """Let the model take arrivals: what is new first, by key; then replays; then the rest."""
        expected: dict[str, tuple[Row, ArrivalKind]] = {}
        by_key = sorted(rows.values(), key=lambda row: row.key)
        for row in by_key:
            if self.model.takes(row.profile, row.body):
                self.model.add(row)
                expected[row.id] = (row, ArrivalKind.NEW)
        for row in by_key:
            if row.id not in expected and self.model.first(row.key) is None:
                self.model.add_replay(row)
                expected[row.id] = (row, ArrivalKind.SUSPICIOUS_REPLAY)
        self.model.settle_in(row for row in rows.values() if row.id in expected)
        for row in sorted(rows.values(), key=lambda row: (row.key, _mark(row.body))):
            if row.id not in expected:
                expected[row.id] = self._repeat(row)
        return expected

    def _repeat(self, row: Row) -> tuple[Row, ArrivalKind]:
        first, known = self.model.first(row.key), self.model.find(row.key, row.body)
        assert first is not None
        first.seen_again += 1
        if known is not None:
            return known, ArrivalKind.DUPLICATE
        self.model.add_conflict(row)
        return row, ArrivalKind.CONFLICT

    # how workers claim

    def claim(self, who: int, most: int) -> None:
        """Claim: only what is due, the oldest first, as much as allowed."""
        most = most % 3 + 1
        due = {row.id: row for row in self.model.rows.values() if row.is_due(self.model.now)}

        claimed = self.clerk.claim(most, WORKERS[who % len(WORKERS)])

        assert len(claimed) == min(most, len(due))
        taken = [due.pop(each.id) for each in claimed]
        newest = max((row.due_at or 0 for row in taken), default=0)
        assert all((row.due_at or 0) >= newest for row in due.values())
        for row in taken:
            self.model.claim(row)
        self._remember(claimed)

    def take_over(self, who: int, _more: int = 0) -> None:
        """Take over one delivery whose worker was lost, and only one."""
        lost = [row for row in self.model.rows.values() if row.is_lost(self.model.now)]
        hopeful = [row for row in lost if not row.is_hopeless()]

        taken = self.clerk.claim_expired(WORKERS[who % len(WORKERS)])

        assert (taken is not None) == bool(hopeful)
        if taken is not None:
            row = self.model.rows[taken.id]
            assert row.due_at == min(each.due_at or 0 for each in hopeful)
            self.model.claim(row)
            self._remember([taken])

    def freeze(self, who: int, _more: int = 0) -> None:
        """Stop every worker for longer than a lease; another takes over."""
        self.pass_time(LEASE)
        self.take_over(who)

    def bury(self, _who: int, wait: int) -> None:
        """Give up on what was lost on its last try."""
        self.pass_time((0, LEASE, 10 * LEASE)[wait % 3])

        assert self.clerk.bury() == len(self.model.bury())

    def crash(self, who: int, _more: int) -> None:
        """Kill a worker; it remembers nothing."""
        if self.claims:
            self.claims.pop(who % len(self.claims))

    def _remember(self, claimed: list[Delivery]) -> None:
        for each in claimed:
            row = self.model.rows[each.id]
            told = (each.fence, each.tries, each.give_up_at, each.late, each.body)
            assert told == (row.fence, row.tries, row.give_up_at, row.late, row.body)
        self.claims += claimed

    # what workers do with a claim

    def renew(self, who: int, more: int) -> None:
        """Prolong a lease, or learn that it was lost."""
        claim = self._claim(who, late=more % 2 == 0)
        if claim is None:
            return
        row = self.model.rows[claim.id]

        ours = self.clerk.renew(claim)

        assert ours == ({row.id} if row.is_held_by(claim.fence) else set())
        if ours:
            row.due_at = self.model.now + LEASE

    def work(self, who: int, more: int) -> None:
        """Claim and settle without a hitch."""
        before = len(self.claims)
        self.claim(who, 0)
        self.check()
        if len(self.claims) > before:
            self._settle(self.claims[-1], more)

    def settle(self, who: int, more: int) -> None:
        """End a try, perhaps too late, perhaps for the second time."""
        claim = self._claim(who, late=False)
        if claim is not None:
            self._settle(claim, more)

    def settle_too_late(self, who: int, more: int) -> None:
        """End a try whose delivery somebody else has taken over."""
        claim = self._claim(who, late=True)
        if claim is not None:
            self._settle(claim, more)

    def settle_together(self, who: int, more: int) -> None:
        """End all the tries one knows of in one commit, each in its own way."""
        latest = {claim.id: claim for claim in self.claims}
        endings = [
            _ending(claim, self.model.now, who + more * place)
            for place, claim in enumerate(latest.values())
        ]

        counts = self.clerk.settle(*endings)

        for counted, each in zip(counts, endings, strict=True):
            row = self.model.rows[each.delivery.id]
            assert counted == self.model.settle(row, each.delivery.fence, each.state, each.due_at)

    def _settle(self, claim: Delivery, number: int) -> None:
        ending = _ending(claim, self.model.now, number)

        (counts,) = self.clerk.settle(ending)

        row = self.model.rows[claim.id]
        assert counts == self.model.settle(row, claim.fence, ending.state, ending.due_at)

    # what workers journal

    def begin(self, who: int, more: int) -> None:
        """Begin the effect, if one may."""
        claim = self._claim(who, late=more % 3 == 0)
        if claim is not None:
            row = self.model.rows[claim.id]

            assert self.clerk.begin(claim, EFFECT) == self.model.begin(row, claim.fence)

    def repeat(self, who: int, more: int) -> None:
        """Begin the effect anew, if one may."""
        claim = self._claim(who, late=more % 3 == 0)
        if claim is None:
            return
        row = self.model.rows[claim.id]
        seen = row.effect.fence if row.effect else 0
        wish = msgspec.structs.replace(self.clerk.wish(claim, EFFECT), known_fence=seen)

        went = self.clerk.run(effects.begin_again, [wish], self.clerk.now)

        assert went == [self.model.begin_again(row, claim.fence)]

    def finish(self, who: int, more: int) -> None:
        """Say how the effect ended, perhaps too late."""
        claim = self._claim(who, late=more % 2 == 0)
        if claim is None:
            return
        row = self.model.rows[claim.id]
        state = ENDINGS[more // 2 % len(ENDINGS)]

        self.clerk.finish(claim, state, EFFECT)

        self.model.finish(row, claim.fence, state)
        found = self.clerk.journal(claim.id).get(EFFECT)
        assert (found and found.state) == (row.effect and row.effect.state)

    # people

    def hold(self, which: int, _more: int) -> None:
        """Hold a delivery."""
        row = self._row(which, DeliveryState.RECEIVED, DeliveryState.FAILED)
        if row is not None:
            assert self._acts(lambda: self.clerk.hold(row.id)) == self.model.hold(row)

    def release(self, which: int, more: int) -> None:
        """Release a delivery, with or without a word on its effect."""
        row = self._row(which, DeliveryState.HELD)
        if row is not None:
            given = self._given(row, WORDS[more % len(WORDS)])
            acted = self._acts(lambda: self.clerk.release(row.id, **given))
            assert acted == self.model.release(row, given.get(EFFECT))

    def drop(self, which: int, more: int) -> None:
        """Drop a delivery, with or without a word on its effect."""
        row = self._row(which, DeliveryState.HELD)
        if row is not None:
            given = self._given(row, WORDS[more % len(WORDS)])
            acted = self._acts(lambda: self.clerk.drop(row.id, **given))
            assert acted == self.model.drop(row, given.get(EFFECT))

    def replay(self, which: int, more: int) -> None:
        """Replay a delivery, with or without a word on its effect."""
        row = self._row(which, DeliveryState.DONE, DeliveryState.DEAD)
        if row is not None:
            given = self._given(row, WORDS[more % len(WORDS)])
            acted = self._acts(lambda: self.clerk.replay(row.id, **given))
            assert acted == self.model.replay(row, given.get(EFFECT))

    def _given(self, row: Row, word: EffectState | None) -> dict[str, EffectState]:
        in_doubt = row.effect is not None and row.effect.in_doubt
        return {EFFECT: word} if in_doubt and word is not None else {}

    def _acts(self, act: Callable[[], None]) -> bool:
        try:
            act()
        except StateConflict:
            return False
        return True

    # time, and the end

    def jump(self, which: int, _more: int) -> None:
        """Move the clock on, far ahead, or back."""
        self.pass_time(JUMPS[which % len(JUMPS)])

    def pass_time(self, jump: int) -> None:
        """Move the clock."""
        self.model.now = self.clerk.now = max(START - DAY, self.clerk.now + jump)

    def finish_everything(self) -> None:
        """However it went: with workers and a patient person, everything comes to its end."""
        for row in self.model.rows.values():
            if not row.is_conflict:
                assert sum(self.clerk.sightings(row.id).values()) == row.seen_again
        for _ in range(4 * len(self.model.rows) + 4):
            self.clerk.now += 3650 * DAY
            self.clerk.bury()
            lost = self.clerk.claim_expired()
            for each in (*self.clerk.claim(), *([lost] if lost else [])):
                assert self.clerk.complete(each)
            for facts in self.clerk.all():
                if facts.state is DeliveryState.HELD:
                    self.clerk.release(facts.id, **self._last_word(facts.id))
        assert {facts.state for facts in self.clerk.all()} <= {
            DeliveryState.DONE,
            DeliveryState.DEAD,
        }

    def _last_word(self, id_: str) -> dict[str, EffectState]:
        effect = self.clerk.journal(id_).get(EFFECT)
        in_doubt = {EffectState.STARTED, EffectState.UNKNOWN}
        return {EFFECT: EffectState.DONE} if effect and effect.state in in_doubt else {}

    # choices

    def _claim(self, who: int, *, late: bool) -> Delivery | None:
        """Return somebody's claim: a current one by preference, or one that others took over."""
        rows = self.model.rows
        current = [each for each in self.claims if rows[each.id].is_held_by(each.fence)]
        lost = [
            each
            for each in self.claims
            if rows[each.id].state is DeliveryState.PROCESSING and rows[each.id].fence != each.fence
        ]
        wanted = (lost if late else current) or self.claims
        return wanted[who % len(wanted)] if wanted else None

    def _row(self, which: int, *preferred: DeliveryState) -> Row | None:
        """Return some delivery, mostly one in a state in which the act is possible."""
        rows = list(self.model.rows.values())
        fitting = [row for row in rows if row.state in preferred]
        wanted = fitting if fitting and which % 8 else rows
        return wanted[which // 8 % len(wanted)] if wanted else None


def _empty(tx: Transaction) -> None:
    for table in TABLES:
        tx.execute(f"DELETE FROM oncebox_{table}")  # noqa: S608 - fixed names
