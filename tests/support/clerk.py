"""A clerk who works the ledger by hand: one verb after another, in time the test owns."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import cycle
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import apsw
import msgspec

from oncebox.core import ids
from oncebox.core.encryption import MasterKey
from oncebox.db.database import Transaction
from oncebox.db.postgres import PostgresSession
from oncebox.db.postgres_transaction import PostgresTransaction
from oncebox.db.queries import insert_of_rows
from oncebox.db.sqlite import SqliteSession
from oncebox.ledger import maintenance
from oncebox.ledger.admin import audit
from oncebox.ledger.ciphers import MailCipher
from oncebox.ledger.deliveries import (
    deduplication,
    effects,
    inspections,
    leases,
    operations,
    settlements,
)
from oncebox.model.deliveries.delivery import (
    Accepted,
    Delivery,
    DeliveryOutcome,
    DeliveryState,
    LaneRules,
    NewDelivery,
    Settlement,
    encode_headers,
    lane_order,
)
from oncebox.model.deliveries.effects import BeginEffect, Effect, EffectState, FinishEffect, Safety
from oncebox.model.deliveries.inspection import DeliveryInspection, DeliveryRecord
from tests.support.databases import Place, Session

P = ParamSpec("P")
T = TypeVar("T")

TENANT = "acme"
SOURCE = "shop"
START = 1_750_000_000_000
LEASE = 30_000
MINUTE = 60_000
HOUR = 3_600_000
DAY = 24 * HOUR
#: opens what boxes have sealed that were given no other key
VAULT = MailCipher(MasterKey(bytes(range(32))))


class Clerk:
    """Every verb of the ledger, at the time ``now``, which only the test moves."""

    def __init__(self, place: Place, *, now: int = START) -> None:
        """Open the ledger."""
        self.place = place
        self.session: Session = place.session()
        self.now = now
        self.tries = 8
        self.budget = DAY
        self._shortcuts = cycle((place.kind == "postgres", False))
        self._inserts = cycle((True, False, True))
        self._looks = cycle((True, False, False, True))

    def run(
        self, verb: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a verb in one transaction."""
        return self.session.run(lambda tx: verb(tx, *args, **kwargs))

    def purge_bodies(self, cutoffs: maintenance.Cutoffs) -> int:
        """Purge every body that ended before these times."""
        found = self.run(maintenance.find_purgeable_bodies, cutoffs)
        return self.run(maintenance.purge_bodies, found, self.now)

    def run_by(
        self,
        shortcut: Callable[Concatenate[Transaction, P], T | None],
        verb: Callable[Concatenate[Transaction, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run a verb, by turns with its shortcut and without."""
        if next(self._shortcuts):
            found = cast("PostgresSession", self.session).run_statement(
                lambda tx: shortcut(tx, *args, **kwargs)
            )
            if found is not None:
                return found
        return self.run(verb, *args, **kwargs)

    def close(self) -> None:
        """Leave."""
        self.session.close()

    # arrivals

    def arrival(
        self,
        key: str = "key",
        body: bytes = b"{}",
        *,
        source: str = SOURCE,
        lane: str | None = None,
        road: str = "api",
        redelivery: str = "rearm",
        received_at: int | None = None,
        type_: str = "",
        headers: tuple[tuple[str, str], ...] = (),
        **more: Any,
    ) -> NewDelivery:
        """Return an arrival that has not been accepted yet."""
        return NewDelivery(
            id=ids.new("dlv"),
            tenant=TENANT,
            source=source,
            key=key,
            body=body,
            headers=encode_headers(headers),
            fingerprint=hashlib.sha256(body).digest(),
            type=type_,
            road=road,
            lane=lane,
            received_at=self.now if received_at is None else received_at,
            redelivery=redelivery,
            **more,
        )

    def numbered(
        self, key: str, sequence: int | None, *, rules: LaneRules, lane: str, type_: str = ""
    ) -> NewDelivery:
        """Return an arrival in a lane that goes by more than arrival."""
        place = lane_order(rules, type_, sequence, self.now)
        return self.arrival(key, key.encode(), lane=lane, type_=type_, order=place)

    def elements(self, body: bytes, *parts: tuple[str, int, int], **more: Any) -> list[NewDelivery]:
        """Return the elements of a request: key, start and size of each."""
        request = ids.new("pay")
        return [
            msgspec.structs.replace(
                self.arrival(key, body, **more),
                fingerprint=hashlib.sha256(body[start : start + size]).digest(),
                payload_id=request,
                start=start,
                length=size,
            )
            for key, start, size in parts
        ]

    def accept(self, *new: NewDelivery) -> list[Accepted]:
        """Accept arrivals in one commit, by turns as after a shortcut and without one."""
        looks = next(self._looks)

        def accept(tx: Transaction, new: Sequence[NewDelivery], now: int) -> list[Accepted]:
            return deduplication.accept(tx, new, now, look_first=looks)

        if self.place.kind == "sqlite" and next(self._inserts):
            session = cast("SqliteSession", self.session)
            inserted = session.run_statement(lambda tx: accept_new(tx, new, self.now))
            if inserted is not None:
                return inserted
        return self.run_by(accept_new, accept, new, self.now)

    def accept_one(
        self, key: str = "key", body: bytes = b"{}", *, lane: str | None = None, **rest: Any
    ) -> Accepted:
        """Accept one arrival."""
        return self.accept(self.arrival(key, body, lane=lane, **rest))[0]

    # leases

    def claimant(self, worker: str = "ann", source: str = SOURCE) -> leases.DeliveryClaimant:
        """Return who claims."""
        return leases.DeliveryClaimant(TENANT, source, worker, LEASE, self.tries, self.budget)

    def claim(self, most: int = 100, worker: str = "ann", source: str = SOURCE) -> list[Delivery]:
        """Claim what is due."""
        return self.run(leases.claim, self.claimant(worker, source), most, self.now)

    def claim_one(self, worker: str = "ann") -> Delivery:
        """Claim the only delivery that is due."""
        (delivery,) = self.claim(worker=worker)
        return delivery

    def claim_expired(self, worker: str = "ben") -> Delivery | None:
        """Claim one delivery whose worker was lost."""
        return self.run(leases.claim_expired, self.claimant(worker), self.now)

    def claim_lost_once(self, most: int = 100, worker: str = "ben") -> list[Delivery]:
        """Claim deliveries whose worker was lost for the first time."""
        return self.run(leases.claim_lost_once, self.claimant(worker), most, self.now)

    def take_over(self, worker: str = "ben") -> Delivery:
        """Let the lease run out and claim the delivery for somebody else."""
        self.now += LEASE
        taken = self.claim_expired(worker)
        assert taken is not None
        return taken

    def has_expired(self) -> bool:
        """Ask whether a lease has run out."""
        return self.run(leases.has_expired, self.claimant(), self.now)

    def bury(self) -> int:
        """Give up on what was lost on its last try."""
        return len(self.run(leases.dead_letter_exhausted, self.claimant(), self.now))

    def renew(self, *held: Delivery) -> set[str]:
        """Prolong leases."""
        pairs = [(each.id, each.fence) for each in held]
        return self.run(leases.renew, pairs, self.now + LEASE)

    def accept_and_claim(self, key: str = "key", *, lane: str | None = None) -> Delivery:
        """Accept one arrival and claim it."""
        accepted = self.accept_one(key, lane=lane)
        (delivery,) = self.claim()
        assert delivery.id == accepted.id
        return delivery

    # settlements

    def settle(self, *endings: Settlement) -> list[bool]:
        """Settle tries in one commit."""
        settled = self.run_by(
            settlements.complete_all, settlements.settle_with_hooks, endings, self.now
        )
        return [each.counted for each in settled]

    def complete(self, delivery: Delivery) -> bool:
        """End a delivery well."""
        return self.settle(done(delivery))[0]

    def fail(self, delivery: Delivery, *, wait: int = 1_000, not_before: int | None = None) -> bool:
        """End a try that may be repeated after ``wait``."""
        return self.settle(failed(delivery, self.now + wait, not_before=not_before))[0]

    def give_up(self, delivery: Delivery) -> bool:
        """End a try for good."""
        return self.settle(dead(delivery))[0]

    def stop_for_a_person(self, delivery: Delivery, reason: str = "ask ann") -> bool:
        """End a try so that a person decides."""
        return self.settle(held(delivery, reason))[0]

    def give_back(self, delivery: Delivery) -> bool:
        """End a try that was not made."""
        return self.settle(given_back(delivery, self.now))[0]

    def allow(self, *deliveries: Delivery) -> list[bool]:
        """Record that the policy let deliveries run."""
        return self.run(settlements.allow, deliveries, self.now)

    # effects

    def wish(
        self, delivery: Delivery, name: str = "charge", safe: Safety = Safety.ONCE
    ) -> BeginEffect:
        """Return the wish to begin an effect."""
        return BeginEffect(
            delivery_id=delivery.id,
            tenant=delivery.tenant,
            fence=delivery.fence,
            name=name,
            safe=safe,
            surely_over_at=self.now + 5_000,
        )

    def begin(self, delivery: Delivery, name: str = "charge", safe: Safety = Safety.ONCE) -> bool:
        """Begin an effect; say whether the call may be made."""
        wishes = [self.wish(delivery, name, safe)]
        return self.run_by(effects.begin_new, effects.begin, wishes, self.now)[0].go

    def ending(
        self,
        delivery: Delivery,
        state: EffectState = EffectState.DONE,
        name: str = "charge",
        result: bytes | None = None,
    ) -> FinishEffect:
        """Return a worker's word on how an effect ended."""
        return FinishEffect(
            delivery_id=delivery.id,
            fence=delivery.fence,
            name=name,
            state=state,
            result=result,
        )

    def finish(
        self,
        delivery: Delivery,
        state: EffectState = EffectState.DONE,
        name: str = "charge",
        result: bytes | None = None,
    ) -> None:
        """Record how an effect ended."""
        self.run(effects.finish, [self.ending(delivery, state, name, result)], self.now)

    def journal(self, id_: str) -> dict[str, Effect]:
        """Return the effects of a delivery by name."""
        return {each.name: each for each in self.run(effects.of_delivery, TENANT, id_)}

    # people

    def deed(self, why: str = "because") -> audit.AuditEntry:
        """Return who does something, and why."""
        return audit.AuditEntry(id=ids.new("aud"), tenant=TENANT, at=self.now, who="eve", why=why)

    def hold(self, id_: str) -> None:
        """Hold as a person."""
        self.run(operations.hold, id_, self.deed())

    def release(self, id_: str, **words: EffectState) -> None:
        """Release as a person."""
        self.run(operations.release, id_, self.deed(), _resolutions(words))

    def drop(self, id_: str, **words: EffectState) -> None:
        """Drop as a person."""
        self.run(operations.drop, id_, self.deed(), _resolutions(words))

    def replay(self, id_: str, **words: EffectState) -> None:
        """Replay as a person."""
        self.run(operations.replay, id_, self.deed(), _resolutions(words))

    # looks

    def facts(self, id_: str) -> DeliveryRecord:
        """Return what is known of a delivery."""
        return self.run(inspections.read_facts, TENANT, id_)

    def find(self, key: str) -> str:
        """Return the id of the delivery under a key."""
        return self.run(inspections.find, TENANT, key)[0]

    def state(self, id_: str) -> DeliveryState:
        """Return where a delivery stands."""
        return self.facts(id_).state

    def inspect(self, id_: str) -> DeliveryInspection:
        """Return everything known of a delivery."""
        return self.run(inspections.inspect, TENANT, id_, self.now)

    def sightings(self, id_: str) -> dict[str, int]:
        """Return how often a delivery was seen again, by class."""
        return {each.duplicate_class: each.count for each in self.inspect(id_).duplicates}

    def all(self) -> list[DeliveryRecord]:
        """Return every delivery, newest first."""
        return self.run(inspections.newest, TENANT, most=10_000)


def accept_new(tx: Transaction, new: Sequence[NewDelivery], now: int) -> list[Accepted] | None:
    """Store arrivals in one statement, as a group commit does; None if one is not new."""
    insert = deduplication.insert_new
    rows = [row for row in map(insert.row, new) if row is not None]
    if not rows or len(rows) < len(new):
        return None
    if isinstance(tx, PostgresTransaction):
        rows.sort(key=insert.sort_key)
        count = tx.run_many(insert.query("postgres"), rows, now=now)
        return insert.results(new) if count == len(rows) else None
    statement = insert_of_rows(insert.query("sqlite"), len(rows))
    with suppress(apsw.ConstraintError):
        tx.execute(statement, [value for row in rows for value in (*row, now)])
        return insert.results(new)
    return None


def done(delivery: Delivery, outcome: DeliveryOutcome = DeliveryOutcome.HANDLED) -> Settlement:
    """Return the settlement of a try that went well."""
    return Settlement(delivery=delivery, state=DeliveryState.DONE, outcome=outcome)


def failed(delivery: Delivery, due_at: int, *, not_before: int | None = None) -> Settlement:
    """Return the settlement of a try that will be repeated."""
    return Settlement(
        delivery=delivery,
        state=DeliveryState.FAILED,
        outcome=DeliveryOutcome.FAILED,
        error="boom",
        due_at=due_at,
        not_before=not_before,
    )


def dead(delivery: Delivery, outcome: DeliveryOutcome = DeliveryOutcome.PERMANENT) -> Settlement:
    """Return the settlement of a try after which all is given up."""
    return Settlement(
        delivery=delivery, state=DeliveryState.DEAD, outcome=outcome, error="hopeless"
    )


def held(delivery: Delivery, reason: str = "ask ann") -> Settlement:
    """Return the settlement of a try after which a person decides."""
    return Settlement(
        delivery=delivery,
        state=DeliveryState.HELD,
        outcome=DeliveryOutcome.HELD,
        hold_reason=reason,
    )


def given_back(delivery: Delivery, now: int) -> Settlement:
    """Return the settlement of a try that was not made."""
    return Settlement(
        delivery=delivery,
        state=DeliveryState.RECEIVED,
        outcome=DeliveryOutcome.GIVEN_BACK,
        due_at=now,
    )


def stale(delivery: Delivery, by: int = 1) -> Delivery:
    """Return a claim as an earlier worker of the same delivery would carry it."""
    return msgspec.structs.replace(delivery, fence=delivery.fence - by)


def _resolutions(words: Mapping[str, EffectState]) -> operations.EffectResolutions:
    return {name: operations.EffectResolution(state) for name, state in words.items()}
