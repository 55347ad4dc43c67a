"""Events: recorded with what makes them true, numbered without gaps, read from any place on."""

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oncebox.core import clock, ids
from oncebox.db.database import Transaction
from oncebox.errors import CursorTooOld, LeaseLost
from oncebox.ledger.events import event_log
from oncebox.model.events import EventFilter, NewEvent
from tests.support import events
from tests.support.clerk import DAY, START, TENANT, Clerk
from tests.support.databases import Place
from tests.support.events import LEASE, new, number, put_inbox, read, record, subjects
from tests.support.interleaved import interleave

OTHER = "other"
WHOLE = EventFilter(tenant=TENANT)


def _some(count: int, **rest: Any) -> list[NewEvent]:
    return [new(f"sub_{each}", **rest) for each in range(count)]


def test_an_event_is_read_with_everything_that_was_recorded(clerk: Clerk) -> None:
    told = new("msg_1", inbox_id="inb_1", attempt_id="att_1", data={"codes": [1, "two"]})
    clerk.run(put_inbox, "inb_1", owner="key_1", metadata={"run": "7"})
    clerk.run(record, told)
    clerk.run(number)

    (found,) = clerk.run(read)

    assert found.number == 1
    assert found.metadata == {"run": "7"}
    assert found.owner == "key_1"
    for field in NewEvent.__struct_fields__:
        assert getattr(found, field) == getattr(told, field)


def test_an_event_without_a_number_is_not_read(clerk: Clerk) -> None:
    clerk.run(record, new())

    assert clerk.run(read) == []


def test_an_event_of_a_commit_that_failed_never_happened(clerk: Clerk) -> None:
    def fail(tx: Transaction) -> None:
        record(tx, new())
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        clerk.run(fail)

    assert not clerk.run(event_log.sequencer_status).work


def test_numbers_have_no_gaps_and_each_tenant_its_own(clerk: Clerk) -> None:
    for round_ in range(4):
        clerk.run(record, *_some(3), *_some(2, tenant=OTHER))
        clerk.run(number, fence=0 if round_ == 0 else 1, most=4)
    clerk.run(number, fence=1)

    assert [each.number for each in clerk.run(read)] == list(range(1, 13))
    assert [each.number for each in clerk.run(read, tenant=OTHER)] == list(range(1, 9))


def test_events_of_one_commit_keep_their_order(clerk: Clerk) -> None:
    told = _some(20)
    clerk.run(record, *told)
    clerk.run(number)

    assert subjects(clerk.run(read)) == subjects(told)


# the duty


def test_the_duty_is_one_sequencer_s_until_its_lease_is_over(clerk: Clerk) -> None:
    clerk.run(record, new())
    assert clerk.run(number, "ann").fence == 1
    clerk.run(record, new())

    with pytest.raises(LeaseLost):
        clerk.run(number, "ben", now=START + LEASE - 1)
    assert clerk.run(number, "ben", now=START + LEASE).fence == 2


def test_numbering_prolongs_the_duty(clerk: Clerk) -> None:
    clerk.run(number, "ann")
    clerk.run(number, "ann", 1, now=START + LEASE - 1)

    with pytest.raises(LeaseLost):
        clerk.run(number, "ben", now=START + LEASE)


def test_a_sequencer_that_lost_its_duty_numbers_nothing(clerk: Clerk) -> None:
    """It was paused, woke up, and believes that the duty is still its own."""
    clerk.run(number, "ann")
    clerk.run(number, "ben", now=START + LEASE)
    clerk.run(record, new())

    with pytest.raises(LeaseLost):
        clerk.run(number, "ann", 1, now=START + LEASE)
    assert clerk.run(read) == []
    assert clerk.run(number, "ben", 2, now=START + LEASE).events == 1


def test_an_old_fence_of_the_same_holder_numbers_nothing(clerk: Clerk) -> None:
    clerk.run(number, "ann")
    clerk.run(number, "ann", now=START + LEASE)

    with pytest.raises(LeaseLost):
        clerk.run(number, "ann", 1, now=START + LEASE)


def test_a_duty_that_is_given_up_can_be_taken_at_once(clerk: Clerk) -> None:
    clerk.run(number, "ann")
    clerk.run(event_log.release_sequencer, "ben", 1)
    with pytest.raises(LeaseLost):
        clerk.run(number, "ben")

    clerk.run(event_log.release_sequencer, "ann", 1)

    assert clerk.run(number, "ben").fence == 2


def test_a_look_from_a_floor_on_sees_only_later_events(clerk: Clerk) -> None:
    clerk.run(record, new())
    later = ids.lowest("evt", clock.system() + 60_000)

    assert clerk.run(event_log.sequencer_status).work
    assert not clerk.run(event_log.sequencer_status, later).work


@pytest.mark.parametrize("kind", ["postgres"])
def test_a_look_tells_since_when_a_transaction_writes(clerk: Clerk) -> None:
    """What it has recorded is not seen yet, and may have any earlier id."""
    idle = clerk.run(event_log.sequencer_status).writing_since
    other = clerk.place.session()
    found: list[int] = []

    def write_and_look(tx: Transaction) -> None:
        record(tx, new())
        tx.execute("SELECT 1")  # what was sent before is done
        found.append(clerk.run(event_log.sequencer_status).writing_since)

    before = clock.system()
    other.run(write_and_look)
    other.close()

    assert idle == 0 or idle > before - 60_000  # another test's transaction
    assert abs(found[0] - before) < 60_000


def test_a_look_tells_whether_there_is_work_and_whose(clerk: Clerk) -> None:
    assert clerk.run(event_log.sequencer_status)[:4] == (False, "", 0, 0)
    clerk.run(record, new())
    assert clerk.run(event_log.sequencer_status).work
    clerk.run(number, "ann")

    assert clerk.run(event_log.sequencer_status)[:4] == (False, "ann", 1, START + LEASE)


def test_who_comes_while_another_numbers_waits_for_its_commit_and_goes_on_after_it(
    place: Place, clerk: Clerk
) -> None:
    """Its clock says that the other's lease is over, and it is wrong."""
    clerk.run(record, *_some(3))
    later = START + 2 * LEASE

    def number_too(tx: Transaction) -> event_log.Numbered:
        record(tx, new())  # which is begun before the other's commit, and seen after it
        return number(tx, "ben", now=later)

    first, second = interleave(place, number, number_too)

    found = clerk.run(read)
    assert (first, second) == ((3, 1), (1, 2))
    assert [each.number for each in found] == [1, 2, 3, 4]


def test_one_who_lost_the_duty_in_the_very_moment_numbers_nothing(
    place: Place, clerk: Clerk
) -> None:
    clerk.run(number, "ann")
    clerk.run(record, *_some(3))
    later = START + LEASE

    def zombie(tx: Transaction) -> str:
        try:
            number(tx, "ann", 1, now=later)
        except LeaseLost:
            return "lost"
        return "numbered"

    taken, ended = interleave(place, lambda tx: number(tx, "ben", now=later), zombie)

    assert taken == (3, 2)
    assert ended == "lost"
    assert [each.number for each in clerk.run(read)] == [1, 2, 3]


# reading


def test_a_stream_is_read_from_any_number_on_as_often_as_one_likes(clerk: Clerk) -> None:
    clerk.run(record, *_some(30))
    clerk.run(number)

    for after in (0, 1, 7, 29, 30):
        for _ in range(2):
            found = clerk.run(read, after)
            assert [each.number for each in found] == list(range(after + 1, 31))


def test_only_what_is_wanted_is_read_and_the_place_moves_on_all_the_same(clerk: Clerk) -> None:
    for id_, owner in (("inb_1", "key_1"), ("inb_2", "key_2")):
        clerk.run(put_inbox, id_, owner=owner)
    clerk.run(
        record,
        new("1", type_="a.one", inbox_id="inb_1", attempt_id="att_1"),
        new("2", type_="a.two", inbox_id="inb_2", attempt_id="att_1"),
        new("3", type_="a.one_more", inbox_id="inb_2", attempt_id="att_2"),
        new("4", type_="a.one"),
    )
    clerk.run(number)

    def found(**wanted: object) -> list[str]:
        return subjects(clerk.run(read, 0, **wanted))

    assert found(types=frozenset({"a.one"})) == ["1", "4"]
    assert found(types=frozenset({"a.two", "a.one_more"})) == ["2", "3"]
    assert found(types=frozenset({"a.none"})) == []
    assert found(inbox_id="inb_2") == ["2", "3"]
    assert found(attempt_id="att_1") == ["1", "2"]
    assert found(owner="key_2") == ["2", "3"]
    assert found(owner="key_3") == []
    assert found(owner="key_1", types=frozenset({"a.two"})) == []
    part = clerk.run(event_log.read, EventFilter(tenant=TENANT, owner="key_3"), 0, 10)
    assert (part.up_to, part.has_more) == (4, False)


def test_the_inbox_of_another_tenant_adds_nothing(clerk: Clerk) -> None:
    clerk.run(put_inbox, "inb_1", tenant=OTHER, owner="key_1", metadata={"secret": "x"})
    clerk.run(record, new(inbox_id="inb_1"))
    clerk.run(number)

    (found,) = clerk.run(read)

    assert (found.metadata, found.owner) == ({}, None)
    assert clerk.run(read, owner="key_1") == []


def test_a_part_looks_at_a_bounded_number_of_events_however_few_are_wanted(clerk: Clerk) -> None:
    clerk.run(record, *_some(4_500, type_="a.common"), new("rare", type_="a.rare"))
    clerk.run(number, most=10_000)
    wanted = EventFilter(tenant=TENANT, types=frozenset({"a.rare"}))

    first = clerk.run(event_log.read, wanted, None, 10)

    assert (first.events, first.up_to, first.has_more) == ((), 2_000, True)
    assert subjects(clerk.run(read, types=frozenset({"a.rare"}))) == ["rare"]


def test_streams_that_moved_on_are_found(clerk: Clerk) -> None:
    clerk.run(record, *_some(3), *_some(2, tenant=OTHER))
    clerk.run(number)

    assert clerk.run(event_log.advanced, [(TENANT, 3), (OTHER, 1), ("third", 0)]) == {OTHER: 2}
    assert clerk.run(event_log.advanced, []) == {}


# retention


def test_old_events_go_and_a_cursor_that_missed_some_is_refused(clerk: Clerk) -> None:
    clerk.run(record, *_some(5, at=START - DAY), *_some(5, at=START))
    clerk.run(number)
    assert clerk.run(event_log.forget, START - 1) == 5

    assert [each.number for each in clerk.run(read)] == list(range(6, 11))
    assert [each.number for each in clerk.run(read, 5)] == list(range(6, 11))
    with pytest.raises(CursorTooOld):
        clerk.run(read, 4)
    with pytest.raises(CursorTooOld):
        clerk.run(read, 4, types=frozenset({"a.none"}))


def test_a_stream_that_lost_all_its_events_goes_on_with_its_numbers(clerk: Clerk) -> None:
    clerk.run(record, *_some(3, at=START - DAY))
    clerk.run(number)
    clerk.run(event_log.forget, START - 1)

    assert clerk.run(event_log.bounds, TENANT) == event_log.StreamBounds(last=3, first=4)
    assert clerk.run(read) == []
    assert clerk.run(read, 3) == []
    with pytest.raises(CursorTooOld):
        clerk.run(read, 2)
    clerk.run(record, new())
    clerk.run(number, fence=1)
    assert [each.number for each in clerk.run(read)] == [4]


def test_an_old_event_behind_a_younger_one_stays_so_that_there_is_never_a_hole(
    clerk: Clerk,
) -> None:
    clerk.run(record, new("1", at=START - DAY), new("2", at=START), new("3", at=START - DAY))
    clerk.run(number)

    assert clerk.run(event_log.forget, START - 1) == 1
    assert subjects(clerk.run(read)) == ["2", "3"]


def test_events_go_a_bounded_number_at_a_time_and_of_every_tenant(clerk: Clerk) -> None:
    clerk.run(record, *_some(5, at=START - DAY), *_some(5, at=START - DAY, tenant=OTHER))
    clerk.run(number)

    assert [clerk.run(event_log.forget, START, 4) for _ in range(4)] == [4, 4, 2, 0]


def test_an_event_without_a_number_never_goes(clerk: Clerk) -> None:
    clerk.run(record, new(at=START - DAY))

    assert clerk.run(event_log.forget, START) == 0
    clerk.run(number)
    assert len(clerk.run(read)) == 1


def test_a_cursor_beyond_the_end_is_refused_because_a_backup_was_restored(clerk: Clerk) -> None:
    clerk.run(record, *_some(3))
    clerk.run(number)

    with pytest.raises(CursorTooOld, match="backup"):
        clerk.run(read, 4)


# all of it


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("record"), st.integers(1, 5)),
            st.tuples(st.just("number"), st.integers(1, 4)),
            st.tuples(st.just("read"), st.integers(0, 2)),
        ),
        max_size=40,
    )
)
def test_every_reader_sees_every_event_once_and_in_order(
    place: Place, steps: list[tuple[str, int]]
) -> None:
    """However recording, numbering in small batches and reading follow each other."""
    clerk = Clerk(place)
    try:
        begin = clerk.run(event_log.bounds, TENANT).last
        places = dict.fromkeys(range(3), begin)
        seen: dict[int, list[int]] = defaultdict(list)
        recorded = 0
        fence = 0
        clerk.run(lambda tx: tx.execute("UPDATE oncebox_duties SET until = 0"))

        def look(reader: int, most: int) -> None:
            part = clerk.run(event_log.read, WHOLE, places[reader], most)
            seen[reader] += [each.number for each in part.events]
            places[reader] = part.up_to

        for step, size in steps:
            if step == "record":
                clerk.run(record, *_some(size))
                recorded += size
            elif step == "number":
                fence = clerk.run(number, "ann", fence, most=size).fence
            else:
                look(size, size + 1)
        clerk.run(events.number_all)
        for reader in places:
            while places[reader] < begin + recorded:
                look(reader, 3)
            assert seen[reader] == list(range(begin + 1, begin + recorded + 1))
    finally:
        clerk.close()
