"""The intake: many arrivals at once, each answered for itself after the commit that holds it."""

import asyncio
from collections import Counter
from typing import cast

import pytest

from oncebox.core.metrics import Telemetry
from oncebox.db.database import Database
from oncebox.db.postgres import PostgresSession
from oncebox.errors import BodyTooLarge, InputRefused, KeyInvalid
from oncebox.ledger.deliveries import inspections, leases
from oncebox.ledger.deliveries.intake import BatchElement, Intake
from oncebox.model.deliveries.delivery import Accepted, ArrivalKind, DeliveryState, LaneRules
from oncebox.model.deliveries.duplicates import DuplicateClass
from oncebox.model.deliveries.inspection import DeliveryRecord
from oncebox.settings import LimitSettings
from tests.support.clerk import SOURCE, TENANT, VAULT, Clerk, accept_new
from tests.support.databases import Place

BODY = b'{"amount": 5}'


@pytest.fixture
async def intake(database: Database) -> Intake:
    """An intake with small limits."""
    return Intake(database, Telemetry(), tenant=TENANT, limits=LimitSettings(body=100_000))


async def _facts(database: Database, id_: str) -> DeliveryRecord:
    return await database.read(inspections.read_facts, TENANT, id_)


def _stored(answers: list[Accepted | InputRefused]) -> list[Accepted]:
    return [each for each in answers if isinstance(each, Accepted)]


# one by one


async def test_of_many_unsigned_arrivals_of_one_body_at_once_one_is_new(
    intake: Intake, database: Database
) -> None:
    answers = await asyncio.gather(
        *(
            intake.accept(SOURCE, key=f"guid-{number}", body=BODY, unsigned=True)
            for number in range(40)
        )
    )

    kinds = Counter(each.arrival for each in answers)
    assert kinds == {ArrivalKind.NEW: 1, ArrivalKind.SUSPICIOUS_REPLAY: 39}
    (new,) = (each.id for each in answers if each.arrival is ArrivalKind.NEW)
    who = leases.DeliveryClaimant(TENANT, SOURCE, "ann", 30_000, 3, 60_000)
    claimed = await database.write(leases.claim, who, 100, database.clock())
    assert [each.id for each in claimed] == [new]


async def test_a_storm_of_one_event_is_one_delivery(intake: Intake, database: Database) -> None:
    answers = await asyncio.gather(
        *(intake.accept(SOURCE, key="guid", body=BODY, unsigned=True) for _ in range(400))
    )

    assert Counter(each.arrival for each in answers) == {
        ArrivalKind.NEW: 1,
        ArrivalKind.DUPLICATE: 399,
    }
    seen = (await database.read(inspections.inspect, TENANT, answers[0].id, 0)).duplicates
    assert sum(each.count for each in seen) == 399


async def test_two_intakes_race_for_one_body(database: Database, place: Place) -> None:
    """As two processes would, each with its own shortcut."""
    other = place.open()
    pair = [
        Intake(each, Telemetry(), tenant=TENANT, limits=LimitSettings())
        for each in (database, other)
    ]
    answers = await asyncio.gather(
        *(
            intake.accept(SOURCE, key=f"{side}-{number}", body=b"%d" % number, unsigned=True)
            for number in range(60)
            for side, intake in enumerate(pair)
        )
    )

    assert Counter(each.arrival for each in answers) == {
        ArrivalKind.NEW: 60,
        ArrivalKind.SUSPICIOUS_REPLAY: 60,
    }
    await other.close()


async def test_a_missing_key_is_the_body_and_needs_no_other_proof(intake: Intake) -> None:
    first = await intake.accept(SOURCE, key=None, body=BODY, unsigned=True)
    again = await intake.accept(SOURCE, key=None, body=BODY, unsigned=True)

    assert (first.arrival, again.arrival) == (ArrivalKind.NEW, ArrivalKind.DUPLICATE)


async def test_volatile_parts_do_not_make_another_body(intake: Intake) -> None:
    """A counter of attempts changes from one sending to the next; the fingerprint does not."""
    one = await intake.accept(SOURCE, key="1", body=b'{"try": 1}', fingerprint=b"f" * 32)
    two = await intake.accept(SOURCE, key="1", body=b'{"try": 2}', fingerprint=b"f" * 32)

    assert (two.id, two.arrival) == (one.id, ArrivalKind.DUPLICATE)


async def test_what_was_found_is_kept(intake: Intake, database: Database) -> None:
    accepted = await intake.accept(
        SOURCE,
        key="1",
        body=BODY,
        verdict="late",
        secret_id="sec_1",
        hold_reason="late",
        road="hook",
    )

    facts = await _facts(database, accepted.id)
    assert (accepted.state, facts.hold_reason) == (DeliveryState.HELD, "late")
    assert (facts.verdict, facts.secret_id, facts.road) == ("late", "sec_1", "hook")


async def test_an_arrival_may_be_another_tenants(intake: Intake, database: Database) -> None:
    accepted = await intake.accept(SOURCE, key="1", body=BODY, tenant="other")

    assert await database.read(inspections.find, "other", "1") == [accepted.id]


async def test_an_echo_is_told_and_nothing_is_stored(intake: Intake) -> None:
    ours = await intake.accept(SOURCE, key="1", body=BODY)
    echo = await intake.accept(SOURCE, key="2", body=BODY, echo_of=ours.id)

    assert (echo.id, echo.duplicate_class) == (ours.id, DuplicateClass.ECHO)


async def test_numbers_and_rules_order_a_lane(intake: Intake, database: Database) -> None:
    rules = LaneRules(gap_wait=60_000, after={"b": "a"}, after_wait=30_000)
    numbered = await intake.accept(
        SOURCE, key="1", body=BODY, order_key="x", sequence=2, rules=rules
    )
    typed = await intake.accept(SOURCE, key="2", body=BODY, order_key="y", type_="b", rules=rules)

    assert (await _facts(database, numbered.id)).waits_for == "number 1"
    assert (await _facts(database, typed.id)).waits_for == "a"


@pytest.mark.parametrize(
    "sequence", [2**62 + 1, -(2**70), 10**5000], ids=["a bit", "below", "much"]
)
async def test_a_number_no_database_holds_is_refused(intake: Intake, sequence: int) -> None:
    with pytest.raises(KeyInvalid, match="sequence"):
        await intake.accept(SOURCE, key="1", body=BODY, order_key="x", sequence=sequence)


@pytest.mark.parametrize("kind", ["postgres"])
def test_a_new_unsigned_arrival_is_one_statement(clerk: Clerk) -> None:
    session = cast("PostgresSession", clerk.session)
    new = [
        clerk.arrival(
            str(number), b"%d" % number, unsigned=True, verdict="undated", secret_id="sec_1"
        )
        for number in range(3)
    ]

    answers = session.run_statement(lambda tx: accept_new(tx, new, clerk.now))

    assert answers is not None
    assert [each.arrival for each in answers] == [ArrivalKind.NEW] * 3
    assert {facts.secret_id for facts in clerk.all()} == {"sec_1"}


# batches

REQUEST = b"[aaa,bbb,ccc]"
PARTS = [
    BatchElement(key=key, start=start, size=3, type="t")
    for key, start in (("a", 1), ("b", 5), ("c", 9))
]


async def test_the_elements_of_a_request_are_stored_in_one_commit(
    intake: Intake, database: Database, place: Place
) -> None:
    many = [BatchElement(key=str(number), start=number, size=1) for number in range(700)]
    watch = place.session()

    def version() -> object:
        statement = (
            "PRAGMA data_version"
            if place.kind == "sqlite"
            else "SELECT COUNT(DISTINCT xmin::text) FROM oncebox_deliveries"
        )
        return watch.run(lambda tx: tx.execute(statement))[0][0]

    before = int(str(version()))
    answers = _stored(await intake.accept_many(SOURCE, many, body=b"x" * 700))

    assert len({each.id for each in answers}) == 700
    assert int(str(version())) == before + 1
    watch.close()


async def test_an_element_sees_its_part_and_the_headers_of_its_request(
    intake: Intake, database: Database
) -> None:
    headers = (("X-A", "b"),)
    answers = _stored(await intake.accept_many(SOURCE, PARTS, body=REQUEST, headers=headers))

    bodies = [await database.read(inspections.payload, VAULT, TENANT, each.id) for each in answers]
    assert bodies == [(headers, b"aaa"), (headers, b"bbb"), (headers, b"ccc")]


async def test_a_refused_element_does_not_refuse_its_mates(intake: Intake) -> None:
    bad = BatchElement(key="x" * 600, start=5, size=3)
    answers = await intake.accept_many(SOURCE, [PARTS[0], bad, PARTS[2]], body=REQUEST)

    assert isinstance(answers[1], KeyInvalid)
    assert [each.arrival for each in _stored(answers)] == [ArrivalKind.NEW, ArrivalKind.NEW]


async def test_elements_are_duplicates_conflicts_and_replays_each_by_itself(
    intake: Intake,
) -> None:
    await intake.accept(SOURCE, key="a", body=b"aaa")
    await intake.accept(SOURCE, key="b", body=b"other")
    await intake.accept(SOURCE, key="d", body=b"ccc", unsigned=True)
    last = BatchElement(key="c", start=9, size=3, unsigned=True)

    answers = _stored(await intake.accept_many(SOURCE, [*PARTS[:2], last], body=REQUEST))

    assert [each.arrival for each in answers] == ["duplicate", "conflict", "suspicious_replay"]


async def test_the_same_element_twice_in_one_request_is_one(intake: Intake) -> None:
    answers = _stored(await intake.accept_many(SOURCE, [PARTS[0], PARTS[0]], body=REQUEST))

    assert [each.arrival for each in answers] == ["new", "duplicate"]


async def test_elements_without_keys_are_known_by_their_parts(intake: Intake) -> None:
    parts = [BatchElement(start=1, size=3), BatchElement(start=5, size=3)]
    await intake.accept_many(SOURCE, parts, body=REQUEST)

    again = _stored(await intake.accept_many(SOURCE, parts, body=b"{aaa,bbb}"))
    assert [each.arrival for each in again] == ["duplicate", "duplicate"]


async def test_elements_keep_their_order_in_a_lane(intake: Intake, database: Database) -> None:
    parts = [
        BatchElement(key=str(number), start=number, size=1, order_key="x") for number in range(5)
    ]
    answers = _stored(await intake.accept_many(SOURCE, parts, body=b"01234"))

    positions = [(await _facts(database, each.id)).lane_position for each in answers]
    assert positions == [1, 2, 3, 4, 5]


async def test_a_request_that_is_too_large_is_refused_as_a_whole(intake: Intake) -> None:
    with pytest.raises(BodyTooLarge):
        await intake.accept_many(SOURCE, PARTS, body=b"x" * 100_001)


async def test_a_request_of_which_nothing_can_be_taken_stores_nothing(
    intake: Intake, database: Database
) -> None:
    answers = await intake.accept_many(SOURCE, [BatchElement(key="", start=0, size=1)], body=b"x")

    assert isinstance(answers[0], KeyInvalid)
    assert await database.read(inspections.newest, TENANT) == []


async def test_many_requests_at_once_are_each_answered_for_themselves(intake: Intake) -> None:
    requests = [
        [BatchElement(key=f"{number}-{part}", start=part, size=1) for part in range(number % 4 + 1)]
        for number in range(30)
    ]

    answers = await asyncio.gather(
        *(intake.accept_many(SOURCE, request, body=b"abcd") for request in requests)
    )

    assert [len(each) for each in answers] == [len(request) for request in requests]
    assert {each.arrival for request in answers for each in _stored(request)} == {ArrivalKind.NEW}
