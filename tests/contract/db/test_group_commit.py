"""Group commit: callers share commits, each is answered after its own, one bad row hurts nobody."""

import asyncio
import gc
import hashlib
import random
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import apsw
import msgspec
import pytest

from oncebox.core import ids
from oncebox.db import group_commit as group_module
from oncebox.db.database import Database, Row, Transaction
from oncebox.db.group_commit import BulkInsert, GroupCommit
from oncebox.db.queries import Query
from oncebox.db.sqlite import SqliteTransaction
from oncebox.errors import DatabaseClosed, DiskFull, RowRefused, StoreUnavailable
from oncebox.ledger.deliveries import deduplication
from oncebox.model.deliveries.delivery import Accepted, ArrivalKind, NewDelivery
from tests.support.clerk import START, TENANT, Clerk
from tests.support.databases import Place

TOO_LONG = "x" * 513


def _arrival(key: str, lane: str | None = None) -> NewDelivery:
    return NewDelivery(
        id=ids.new("dlv"),
        tenant=TENANT,
        source="shop",
        key=key,
        body=b"{}",
        headers=b"[]",
        fingerprint=hashlib.sha256(b"{}").digest(),
        lane=lane,
        received_at=START,
    )


class Counting:
    """The verb ``accept``, which remembers how many rows each transaction began with."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    def __call__(self, tx: Transaction, rows: Sequence[NewDelivery], _now: int) -> list[Accepted]:
        self.batches.append(len(rows))
        return deduplication.accept(tx, rows, START)


async def _outcomes(group: GroupCommit[NewDelivery, Accepted], keys: Sequence[str]) -> list[str]:
    calls = (group.submit(_arrival(key)) for key in keys)
    answers = await asyncio.gather(*calls, return_exceptions=True)
    return [
        str(each.arrival) if isinstance(each, Accepted) else type(each).__name__ for each in answers
    ]


async def _insert(database: Database, arrivals: Sequence[NewDelivery]) -> int | None:
    insert = deduplication.insert_new
    rows = [row for row in map(insert.row, arrivals) if row is not None]
    return await database.insert(insert.query(database.kind), lambda: rows)


async def test_the_shortcut_and_the_long_way_give_the_same_answers(
    database: Database, place: Place
) -> None:
    verb = Counting()
    group = GroupCommit(database, verb, insert=deduplication.insert_new)
    keys = ["a", "b"]
    assert await _outcomes(group, keys) == ["new", "new"]
    assert verb.batches == []

    mixed = await _outcomes(group, ["b", "c", TOO_LONG, "a"])

    assert sorted(mixed) == ["RowRefused", "duplicate", "duplicate", "new"]
    clerk = Clerk(place)
    stored = clerk.run(
        lambda tx: tx.execute(
            "SELECT d.key, p.body FROM oncebox_deliveries AS d "
            "JOIN oncebox_payloads AS p ON p.id = d.payload_id ORDER BY d.key"
        )
    )
    clerk.close()
    assert [(key, bytes(body)) for key, body in stored] == [
        ("a", b"{}"),
        ("b", b"{}"),
        ("c", b"{}"),
    ]


async def test_an_item_that_needs_more_than_a_row_is_left_to_the_function(
    database: Database, place: Place
) -> None:
    verb = Counting()
    group = GroupCommit(database, verb, insert=deduplication.insert_new)

    answers = [await group.submit(_arrival("a", lane="x")), await group.submit(_arrival("b"))]

    assert [each.arrival for each in answers] == [ArrivalKind.NEW] * 2
    assert verb.batches == [1]  # the other is a row, as before
    clerk = Clerk(place)
    assert {each.id for each in clerk.all()} == {each.id for each in answers}
    clerk.close()


@pytest.mark.parametrize("kind", ["postgres"])
async def test_what_a_shortcut_wrote_is_new_on_the_long_way_too(database: Database) -> None:
    known, fresh = _arrival("a"), _arrival("b")
    assert await _insert(database, [known]) == 1

    assert await _insert(database, [_arrival("a"), fresh]) == 1
    answer = await database.write(Counting(), [_arrival("a"), fresh], START)

    assert [each.arrival for each in answer] == [ArrivalKind.DUPLICATE, ArrivalKind.NEW]
    assert [each.id for each in answer] == [known.id, fresh.id]


@pytest.mark.parametrize("kind", ["sqlite"])
@pytest.mark.parametrize("count", [2, 5, 250, 255, 256])
async def test_a_bulk_insert_stores_all_rows_or_none(database: Database, count: int) -> None:
    assert await _insert(database, [_arrival("known")]) == 1
    new = [_arrival(str(number)) for number in range(count - 1)]

    with pytest.raises(RowRefused):
        await _insert(database, [*new, _arrival("known")])
    assert await _count(database) == 1

    assert await _insert(database, [*new, _arrival("other")]) == count
    assert await _count(database) == 1 + count


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_a_bulk_insert_in_a_shared_commit_is_undone_alone(database: Database) -> None:
    await _insert(database, [_arrival("known")])

    results = await asyncio.gather(
        *(_insert(database, [_arrival(key), _arrival(key + "2")]) for key in ("a", "known", "b")),
        database.write(Counting(), [_arrival("c")], START),
        return_exceptions=True,
    )

    assert [isinstance(each, RowRefused) for each in results] == [False, True, False, False]
    assert await _count(database) == 1 + 2 + 2 + 1


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_prepared_statements_do_not_keep_large_bodies(database: Database) -> None:
    async def kept() -> int:
        return int(
            await database.write(
                lambda tx: cast("SqliteTransaction", tx)._connection.status(
                    apsw.SQLITE_DBSTATUS_STMT_USED
                )[0]
            )
        )

    await _insert(database, [_arrival("small")])
    before = await kept()
    for number in range(1, 6):
        large = [
            msgspec.structs.replace(_arrival(f"{number}-{each}"), body=b"x" * 500_000)
            for each in range(number)
        ]
        await _insert(database, large)

    assert await kept() - before < 500_000


async def _count(database: Database) -> int:
    statement = "SELECT COUNT(*) FROM oncebox_deliveries JOIN oncebox_payloads USING (id)"
    ((count,),) = await database.read(lambda tx: tx.execute(statement))
    return int(count)


async def test_concurrent_callers_share_commits(database: Database) -> None:
    verb = Counting()
    group = GroupCommit(database, verb)

    outcomes = await _outcomes(group, [str(number) for number in range(200)])

    assert outcomes == ["new"] * 200
    assert len(verb.batches) <= 10
    assert sum(verb.batches) == 200


async def test_a_lone_caller_waits_for_nobody(database: Database) -> None:
    verb = Counting()
    group = GroupCommit(database, verb)

    for number in range(3):
        assert (await group.submit(_arrival(str(number)))).arrival is ArrivalKind.NEW

    assert verb.batches == [1, 1, 1]


async def test_callers_are_answered_only_after_the_commit_that_holds_their_row(
    place: Place,
) -> None:
    database = place.open()
    clerk = Clerk(place)
    group = GroupCommit(database, Counting())
    missing = []

    async def call(number: int) -> None:
        answer = await group.submit(_arrival(str(number)))
        if answer.id not in {each.id for each in clerk.all()}:
            missing.append(answer.id)

    await asyncio.gather(*(call(number) for number in range(50)))

    assert missing == []
    clerk.close()
    await database.close()


async def test_no_caller_is_answered_before_the_commit_ends(place: Place) -> None:
    database = place.open()
    written, commit = threading.Event(), threading.Event()

    def slow(tx: Transaction, rows: Sequence[NewDelivery], _now: int) -> list[Accepted]:
        answers = deduplication.accept(tx, rows, START)
        written.set()
        commit.wait(30)
        return answers

    group = GroupCommit(database, slow)
    calls = [asyncio.create_task(group.submit(_arrival(str(number)))) for number in range(5)]
    await asyncio.to_thread(written.wait, 30)
    done, _ = await asyncio.wait(calls, timeout=0.1)
    assert done == set()

    commit.set()
    assert {answer.arrival for answer in await asyncio.gather(*calls)} == {ArrivalKind.NEW}
    await database.close()


async def test_a_group_never_commits_more_together_than_it_may(database: Database) -> None:
    verb = Counting()
    group = GroupCommit(database, verb, most=7)

    outcomes = await _outcomes(group, [str(number) for number in range(50)])

    assert outcomes == ["new"] * 50
    assert max(verb.batches) == 7


async def test_a_commit_never_carries_more_bytes_than_it_may(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_module, "_MAX_COMMIT_BYTES", 100)
    verb = Counting()
    group = GroupCommit(database, verb, size=lambda each: 30 if each.key != "huge" else 1_000)

    outcomes = await _outcomes(group, ["huge", *(str(number) for number in range(20)), "huge"])

    assert outcomes == ["new"] * 21 + ["duplicate"]
    assert max(verb.batches) == 3
    assert sum(verb.batches) == 22


async def test_too_many_waiting_callers_are_sent_away_and_the_rest_served(
    database: Database,
) -> None:
    group = GroupCommit(database, Counting(), waiting=10)

    outcomes = await _outcomes(group, [str(number) for number in range(30)])

    assert outcomes == ["new"] * 10 + ["StoreUnavailable"] * 20
    assert (await group.submit(_arrival("later"))).arrival is ArrivalKind.NEW


async def test_batch_mates_of_a_refused_row_are_accepted(database: Database, place: Place) -> None:
    verb = Counting()
    group = GroupCommit(database, verb)
    keys = [str(number) for number in range(40)]
    keys[7] = keys[8] = keys[31] = TOO_LONG

    outcomes = await _outcomes(group, keys)

    refused = [number for number, each in enumerate(outcomes) if each == "RowRefused"]
    assert refused == [7, 8, 31]
    assert outcomes.count("new") == 37
    clerk = Clerk(place)
    assert sorted(each.key for each in clerk.all()) == sorted(set(keys) - {TOO_LONG})
    clerk.close()


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8])
async def test_a_batch_of_nothing_but_guilty_rows_is_refused_row_by_row(
    database: Database, size: int
) -> None:
    outcomes = await _outcomes(GroupCommit(database, Counting()), [TOO_LONG] * size)

    assert outcomes == ["RowRefused"] * size


async def test_duplicates_beside_a_refused_row_are_still_told_apart(database: Database) -> None:
    outcomes = await _outcomes(GroupCommit(database, Counting()), ["a", TOO_LONG, "a", "a", "b"])

    assert outcomes.count("RowRefused") == 1
    assert sorted(outcomes) == ["RowRefused", "duplicate", "duplicate", "new", "new"]


async def test_lanes_beside_a_refused_row_keep_their_order(
    database: Database, place: Place
) -> None:
    group = GroupCommit(database, Counting(), in_order=True)
    calls = [group.submit(_arrival(f"{n:02}", lane="x")) for n in range(10)]
    calls.insert(4, group.submit(_arrival(TOO_LONG, lane="x")))

    answers = await asyncio.gather(*calls, return_exceptions=True)

    assert [type(each) for each in answers].count(RowRefused) == 1
    clerk = Clerk(place)
    ran = []
    while due := clerk.claim():
        ran.append(due[0].key)
        clerk.complete(due[0])
    clerk.close()
    assert ran == [f"{n:02}" for n in range(10)]


async def test_a_database_failure_fails_every_caller_of_the_commit(
    database: Database, place: Place
) -> None:
    def full(tx: Transaction, rows: Sequence[NewDelivery], _now: int) -> list[Accepted]:
        deduplication.accept(tx, rows, START)
        raise DiskFull

    outcomes = await _outcomes(GroupCommit(database, full), ["a", "b", "c"])

    assert outcomes == ["DiskFull"] * 3
    clerk = Clerk(place)
    assert clerk.all() == []
    clerk.close()


async def test_a_verb_that_breaks_leaves_no_caller_waiting(database: Database) -> None:
    def broken(tx: Transaction, rows: Sequence[NewDelivery], _now: int) -> list[Accepted]:
        raise ZeroDivisionError

    assert await _outcomes(GroupCommit(database, broken), ["a", "b"]) == ["ZeroDivisionError"] * 2


async def test_callers_are_answered_whatever_the_report_of_their_commit_raises(
    database: Database,
) -> None:
    raised: list[object] = []

    def report(_batch: object) -> None:
        raise ZeroDivisionError

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: raised.append(context["exception"]))
    group = GroupCommit(database, Counting(), committed=report)

    assert await _outcomes(group, ["a", "b"]) == ["new", "new"]
    assert await _outcomes(group, ["a"]) == ["duplicate"]

    await asyncio.sleep(0)
    assert [type(each) for each in raised] == [ZeroDivisionError] * len(raised)
    assert raised


async def test_whoever_comes_during_a_flush_is_served_by_it_or_the_next(
    database: Database,
) -> None:
    group = GroupCommit(database, Counting(), most=3)

    async def trickle(number: int) -> ArrivalKind:
        for _ in range(number % 7):
            await asyncio.sleep(0)
        return (await group.submit(_arrival(str(number)))).arrival

    answers = await asyncio.gather(*(trickle(number) for number in range(100)))

    assert answers == [ArrivalKind.NEW] * 100


# callers that give up


async def test_cancelled_callers_do_no_harm_to_anybody(database: Database, place: Place) -> None:
    """150 callers are cancelled at random moments; then one must succeed."""
    group = GroupCommit(database, Counting(), most=10)
    dice = random.Random(1)
    told: list[Accepted] = []

    async def call(number: int) -> None:
        await asyncio.sleep(dice.random() * 0.02)
        told.append(await group.submit(_arrival(str(number))))

    calls = [asyncio.create_task(call(number)) for number in range(150)]
    for each in calls:
        await asyncio.sleep(dice.random() * 0.0005)
        each.cancel()
    await asyncio.gather(*calls, return_exceptions=True)

    assert (await group.submit(_arrival("last"))).arrival is ArrivalKind.NEW
    clerk = Clerk(place)
    stored = {each.id for each in clerk.all()}
    clerk.close()
    assert {each.id for each in told} <= stored


async def test_cancelled_writers_leave_no_transaction_open(database: Database) -> None:
    """The same on the database itself, without a group in front of it."""
    dice = random.Random(2)

    async def call(number: int) -> None:
        await asyncio.sleep(dice.random() * 0.02)
        await database.write(deduplication.accept, [_arrival(str(number))], START)

    calls = [asyncio.create_task(call(number)) for number in range(150)]
    for each in calls:
        await asyncio.sleep(dice.random() * 0.0005)
        each.cancel()
    await asyncio.gather(*calls, return_exceptions=True)

    (answer,) = await database.write(deduplication.accept, [_arrival("last")], START)
    assert answer.arrival is ArrivalKind.NEW


async def test_a_cancelled_caller_may_ask_again_and_is_told_duplicate_or_new(
    database: Database,
) -> None:
    group = GroupCommit(database, Counting())
    call = asyncio.create_task(group.submit(_arrival("same")))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)

    again = await group.submit(_arrival("same"))
    once_more = await group.submit(_arrival("same"))

    assert once_more.id == again.id
    assert once_more.arrival is ArrivalKind.DUPLICATE


# batches that the writer takes by itself


@asynccontextmanager
async def _busy_writer(database: Database) -> AsyncIterator[threading.Event]:
    """Keep the writer at work until the event is set, or until the end."""
    begun, go_on = threading.Event(), threading.Event()

    def work(_tx: Transaction) -> None:
        begun.set()
        assert go_on.wait(30)

    working = asyncio.create_task(database.write(work))
    assert await asyncio.to_thread(begun.wait, 30)
    try:
        yield go_on
    finally:
        go_on.set()
        await working


async def _enqueued(
    group: GroupCommit[NewDelivery, Accepted], keys: Sequence[str]
) -> list[asyncio.Future[Accepted]]:
    """Enqueue in one turn of the loop; return when the commit of the first has been asked for."""
    loop = asyncio.get_running_loop()
    waiters: list[asyncio.Future[Accepted]] = [loop.create_future() for _ in keys]
    for key, waiter in zip(keys, waiters, strict=True):
        group.enqueue(_arrival(key), waiter)
    await asyncio.sleep(0)
    return waiters


async def _answers(waiters: Sequence[asyncio.Future[Accepted]]) -> list[str]:
    async with asyncio.timeout(10):
        found = await asyncio.gather(*waiters, return_exceptions=True)
    return [
        str(each.arrival) if isinstance(each, Accepted) else type(each).__name__ for each in found
    ]


def _stop(group: GroupCommit[NewDelivery, Accepted]) -> None:
    """Do to its tasks what a program does that ends."""
    for task in group._tasks:
        task.cancel()


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_whoever_comes_before_the_writer_is_free_is_in_its_next_batch(
    database: Database,
) -> None:
    verb = Counting()
    group = GroupCommit(database, verb)
    async with _busy_writer(database):
        first = await _enqueued(group, ["a"])
        second = await _enqueued(group, ["b", "c"])

    assert await _answers([*first, *second]) == ["new"] * 3
    assert verb.batches == [3]


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_whoever_comes_while_the_writer_takes_a_batch_begins_the_next_one(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, insert = asyncio.get_running_loop(), database.insert
    begun: list[Query] = []
    begun_then: list[int] = []
    late: asyncio.Future[Accepted] = loop.create_future()
    has_come = threading.Event()

    def counted(query: Query, rows: Callable[[], Sequence[Row] | None]) -> Any:
        begun.append(query)
        return insert(query, rows)

    def come() -> None:
        group.enqueue(_arrival("late"), late)
        begun_then.append(len(begun))
        has_come.set()

    def size(_each: NewDelivery) -> int:
        """Let another come between the two steps of the writer, which calls this."""
        if not has_come.is_set():
            loop.call_soon_threadsafe(come)
            assert has_come.wait(30)
        return 0

    monkeypatch.setattr(database, "insert", counted)
    group = GroupCommit(database, Counting(), insert=deduplication.insert_new, most=1, size=size)
    early = await _enqueued(group, ["early"])

    assert await _answers([*early, late]) == ["new", "new"]
    assert begun_then == [2]


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_whoever_comes_during_a_commit_does_not_get_its_answers(database: Database) -> None:
    loop = asyncio.get_running_loop()
    first, second = _arrival("a"), _arrival("b")
    late: asyncio.Future[Accepted] = loop.create_future()
    has_come = threading.Event()

    def come() -> None:
        group.enqueue(second, late)
        has_come.set()

    def slow(tx: Transaction, rows: Sequence[NewDelivery], _now: int) -> list[Accepted]:
        if not has_come.is_set():
            loop.call_soon_threadsafe(come)
            assert has_come.wait(30)
        return deduplication.accept(tx, rows, START)

    group = GroupCommit(database, slow, in_order=True)
    async with asyncio.timeout(10):
        answers = [await group.submit(first), await late]

    assert [each.id for each in answers] == [first.id, second.id]


@pytest.mark.parametrize("kind", ["sqlite"])
@pytest.mark.parametrize("insert", [None, deduplication.insert_new], ids=["function", "insert"])
async def test_a_stop_answers_those_whom_the_writer_has_not_taken_and_leaves_others_alone(
    database: Database, insert: BulkInsert[NewDelivery, Accepted] | None
) -> None:
    group = GroupCommit(database, Counting(), insert=insert)
    async with _busy_writer(database):
        stopped = await _enqueued(group, ["a", "b"])
        _stop(group)
        assert await _answers(stopped) == ["StoreUnavailable"] * 2
        later = await _enqueued(group, ["c"])

    assert await _answers(later) == ["new"]


class _SeenLock:
    """A lock, and an event that is set when the event loop wants it."""

    def __init__(self, is_wanted: threading.Event) -> None:
        self._lock = threading.Lock()
        self._is_wanted = is_wanted

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            self._is_wanted.set()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_a_stop_while_the_writer_takes_a_batch_answers_all_of_it(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    stops = threading.Event()
    monkeypatch.setattr(group_module, "Lock", lambda: _SeenLock(stops))

    def size(each: NewDelivery) -> int:
        """Stop when the writer has taken the first item and not the second."""
        if threading.current_thread() is threading.main_thread():
            stops.set()
        elif each.key == "b":
            loop.call_soon_threadsafe(_stop, group)
            assert stops.wait(30)
        return 0

    group = GroupCommit(database, Counting(), insert=deduplication.insert_new, size=size)
    async with _busy_writer(database):
        stopped = await _enqueued(group, ["a", "b"])

    assert await _answers(stopped) == ["StoreUnavailable"] * 2
    assert (await group.submit(_arrival("later"))).arrival is ArrivalKind.NEW


@pytest.mark.parametrize("kind", ["sqlite"])
async def test_no_bulk_insert_that_has_begun_is_forgotten(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that ends just before shows that the next few commits need the function."""
    loop, insert = asyncio.get_running_loop(), database.insert
    late: asyncio.Future[Accepted] = loop.create_future()
    lost: list[object] = []
    loop.set_exception_handler(lambda _loop, context: lost.append(context["message"]))

    def watched(query: Query, rows: Callable[[], Sequence[Row] | None]) -> Any:
        monkeypatch.setattr(database, "insert", insert)
        future = asyncio.ensure_future(insert(query, rows))
        future.add_done_callback(lambda _: group.enqueue(_arrival("known"), late))
        return future

    await _insert(database, [_arrival("known")])
    monkeypatch.setattr(database, "insert", watched)
    group = GroupCommit(database, Counting(), insert=deduplication.insert_new)
    early = await _enqueued(group, ["known"])

    assert await _answers([*early, late]) == ["duplicate", "duplicate"]
    await database.write(lambda _tx: None)  # the writer is done with all that came before
    await asyncio.sleep(0)
    gc.collect()
    assert lost == []


# a database that is closed


async def test_a_closed_database_says_so(place: Place) -> None:
    database = place.open()
    await database.close()

    with pytest.raises(DatabaseClosed, match="open it again"):
        await database.write(deduplication.accept, [_arrival("1")], START)
    with pytest.raises(DatabaseClosed):
        await database.read(deduplication.accept, [], START)


@pytest.mark.parametrize("insert", [None, deduplication.insert_new], ids=["function", "insert"])
async def test_a_closed_database_leaves_no_caller_waiting(
    place: Place, insert: BulkInsert[NewDelivery, Accepted] | None
) -> None:
    database = place.open()
    await database.close()
    group = GroupCommit(database, Counting(), insert=insert)

    assert await _answers(await _enqueued(group, ["a", "b"])) == ["DatabaseClosed"] * 2


async def test_closing_finishes_what_was_begun(place: Place) -> None:
    database = place.open()
    group = GroupCommit(database, Counting())
    calls = [asyncio.create_task(group.submit(_arrival(str(number)))) for number in range(20)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    await database.close()

    answers = await asyncio.gather(*calls, return_exceptions=True)
    clerk = Clerk(place)
    stored = {each.id for each in clerk.all()}
    clerk.close()
    told = {each.id for each in answers if isinstance(each, Accepted)}
    assert told == stored
    refused = [each for each in answers if not isinstance(each, Accepted)]
    assert all(isinstance(each, StoreUnavailable) for each in refused)


async def _lingering(seconds: float, database: Database) -> list[int]:
    """Submit ten rows one after the other; return the sizes of the commits."""
    verb = Counting()
    group = GroupCommit(database, verb, in_order=True, linger=lambda: seconds)
    calls = []
    for number in range(10):
        calls.append(asyncio.create_task(group.submit(_arrival(str(number)))))
        await asyncio.sleep(0.01 if seconds else 0)
        if not seconds:
            await calls[-1]
    await asyncio.gather(*calls)
    return verb.batches


async def test_rows_that_come_while_a_group_lingers_share_its_commit(database: Database) -> None:
    commits = await _lingering(0.3, database)

    assert sum(commits) == 10
    assert len(commits) < 5


async def test_a_group_that_does_not_linger_commits_at_once(database: Database) -> None:
    assert await _lingering(0, database) == [1] * 10


async def test_a_retrying_group_repeats_until_the_database_is_back(database: Database) -> None:
    failures = iter([StoreUnavailable("away"), DiskFull("full")])

    def flaky(tx: Transaction, rows: Sequence[NewDelivery], _now: int) -> list[Accepted]:
        for failure in failures:
            raise failure
        return deduplication.accept(tx, rows, START)

    group = GroupCommit(database, flaky, retries=True)

    assert await _outcomes(group, ["a"]) == ["new"]
