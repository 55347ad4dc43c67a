"""`Poller`: each message once, over crashes of any kind, with either client and an embedded box."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec
import pytest

from oncebox import AsyncClient, Client, MailboxInUse, Oncebox, Poller, PollMisused
from oncebox.client.core.calls import Call, RunStep
from oncebox.client.core.listings import failure_code, requested_wait
from oncebox.core import ids
from oncebox.errors import OnceboxError
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.mailboxes import mailboxes
from oncebox.model.mailboxes.mailbox import Mailbox
from oncebox.schemas.polls import ListedPage, PollLease, StoredListing
from oncebox.schemas.pull import ClaimResponse
from tests.client.conftest import Speaker
from tests.support.databases import Place
from tests.support.program import settings
from tests.support.running import Running

NAME = "support"


class Api:
    """An API that lists messages after a cursor, some at a time, and fails as it is told."""

    def __init__(self, *ids: str, page: int = 2) -> None:
        self.ids = list(ids)
        self.page = page
        self.cursors: list[Any] = []
        self.errors: list[Exception] = []

    def __call__(self, cursor: Any) -> Any:
        """Return the next messages, and the cursor after them."""
        self.cursors.append(cursor)
        if self.errors:
            raise self.errors.pop(0)
        begin = cursor or 0
        some = self.ids[begin : begin + self.page]
        return [{"id": each, "text": f"text of {each}"} for each in some], begin + len(some)


class Everything(Api):
    """An API that always lists everything."""

    def __call__(self, cursor: Any) -> Any:
        """Return all messages."""
        self.cursors.append(cursor)
        return [{"id": each} for each in self.ids]


class Quiet:
    """Calls a list function, and stops the poller after five lists without a message between."""

    def __init__(self, list_fn: Callable[..., Any]) -> None:
        self.list_fn = list_fn
        self.lists = 0
        self.poller: Poller | None = None

    def __call__(self, cursor: Any) -> Any:
        """List."""
        answer = self.list_fn(cursor)
        self.lists += 1
        if self.lists >= 5 and self.poller is not None:
            self.poller.stop()
        return answer


def run(
    speaker: Speaker,
    service: Running,
    list_fn: Callable[..., Any],
    handler: Callable[[Any], Any] | None = None,
    *,
    most: int = 1_000_000,
    **options: Any,
) -> list[str]:
    """Poll with one of the clients until nothing comes; return the ids of the messages."""
    quiet, given = Quiet(list_fn), options
    options = {"within": 60, "interval": 0.05, "lease": 10.0, **options}
    seen: list[str] = []

    def handle(message: Any) -> bool:
        seen.append(message.key)
        quiet.lists = 0
        if handler is not None:
            handler(message)
        return len(seen) >= most

    def made(store: Any) -> Poller:
        chosen = list_fn if "within" in given else quiet
        quiet.poller = Poller(chosen, mailbox=NAME, store=store, **options)
        return quiet.poller

    if speaker.kind == "async":
        asyncio.run(_run_later(service, made, handle))
        return seen
    with Client(service.url, service.key) as client:
        for message in made(client):
            if handle(message):
                break
    return seen


async def _run_later(
    service: Running, made: Callable[[Any], Poller], handle: Callable[[Any], bool]
) -> None:
    async with AsyncClient(service.url, service.key) as client:
        async for message in made(client):
            if handle(message):
                break


def stored(service: Running, name: str = NAME) -> Mailbox:
    async def read() -> Mailbox:
        database = service.box.components.database
        return await database.read(mailboxes.get, service.box.settings.tenant, name)

    return service.call(read())


def change(service: Running, verb: Any) -> None:
    """Do what an operator does to the mailbox."""

    async def write() -> None:
        database = service.box.components.database
        entry = AuditEntry(
            id=ids.new("aud"),
            tenant=service.box.settings.tenant,
            at=database.clock(),
            who="ann",
            why="",
        )
        await database.write(verb, NAME, entry)

    service.call(write())


def states(service: Running) -> list[tuple[str, str, int]]:
    """Return the key, the state and the tries of every message."""
    with Client(service.url, service.key) as client:
        found = client.deliveries.list(source=NAME)
        return sorted((each.key, str(each.state), each.tries) for each in found)


# each message once


def test_every_message_is_handed_out_once_in_order_with_its_content(
    service: Running, speaker: Speaker
) -> None:
    api = Api("c", "a", "b")
    texts: list[str] = []

    seen = run(speaker, service, api, lambda message: texts.append(message.json["text"]))
    again = run(speaker, service, api)

    assert seen == ["c", "a", "b"]
    assert texts == ["text of c", "text of a", "text of b"]
    assert again == []
    assert api.cursors[:3] == [None, 2, 3]
    assert stored(service).cursor == "3"


def test_an_api_that_lists_everything_again_brings_nothing_twice(
    service: Running, speaker: Speaker
) -> None:
    api = Everything("a", "b")

    first = run(speaker, service, api)
    api.ids.append("c")
    second = run(speaker, service, api)

    assert (first, second) == (["a", "b"], ["c"])
    assert stored(service).figures.replays >= 2


def test_a_message_whose_body_raised_is_handed_out_again_and_the_others_first(
    service: Running, speaker: Speaker
) -> None:
    """The try counts, so that one bad message neither blocks the others nor comes for ever."""

    def fail(message: Any) -> None:
        if message.key == "bad":
            raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            run(speaker, service, Api("bad", "good"), fail)
        if ("good", "done", 1) in states(service):
            break

    assert states(service)[1] == ("good", "done", 1)
    bad = states(service)[0]
    assert (bad[0], bad[1], bad[2] >= 1) == ("bad", "failed", True)
    assert run(speaker, service, Api()) == ["bad"]


def test_a_loop_that_is_left_by_break_hands_its_message_out_again_unless_it_is_done(
    service: Running, speaker: Speaker
) -> None:
    api = Api("a", "b")

    left = run(speaker, service, api, most=1)
    again = run(speaker, service, api)

    assert (left, sorted(again)) == (["a"], ["a", "b"])


def test_a_message_that_was_confirmed_before_break_is_done(service: Running) -> None:
    with Client(service.url, service.key) as client:
        for message in Poller(Api("a", "b"), mailbox=NAME, store=client, within=5):
            message.done()
            break
        rest = [
            message.key for message in Poller(Api("a", "b"), mailbox=NAME, store=client, within=0.3)
        ]

    assert rest == ["b"]


async def test_a_message_that_was_confirmed_before_break_is_done_async(service: Running) -> None:
    async with AsyncClient(service.url, service.key) as client:
        async for message in Poller(Api("a", "b"), mailbox=NAME, store=client, within=5):
            await message.done()
            break

    assert await asyncio.to_thread(run, Speaker("async"), service, Api("a", "b")) == ["b"]


def test_an_error_inside_with_fails_one_message_and_the_loop_goes_on(service: Running) -> None:
    with Client(service.url, service.key) as client:
        seen = []
        poller = Poller(Api("bad", "good"), mailbox=NAME, store=client, within=60, interval=0.05)
        for message in poller:
            with message:
                seen.append(message.key)
                if len(seen) == 3:
                    poller.stop()
                if message.key == "bad" and message.delivery.tries == 1:
                    raise ValueError

    assert sorted(seen) == ["bad", "bad", "good"]
    assert {each[1] for each in states(service)} == {"done"}


def test_an_effect_of_a_message_happens_once_however_often_it_is_handed_out(
    service: Running,
) -> None:
    done: list[str] = []
    with Client(service.url, service.key) as client:
        for message in Poller(Api("a"), mailbox=NAME, store=client, within=5):
            message.do("book", done.append, message.key)
            break
        poller = Poller(Api("a"), mailbox=NAME, store=client, within=60, interval=0.05)
        for message in poller:
            message.do("book", done.append, message.key)
            poller.stop()

    assert done == ["a"]
    assert states(service) == [("a", "done", 2)]


def test_a_page_larger_than_a_request_is_stored_in_parts_and_is_one_poll(
    service: Running, speaker: Speaker
) -> None:
    items = [{"id": f"m{number:03}", "text": "x" * 900} for number in range(130)]

    def list_all(cursor: Any) -> Any:
        return ([] if cursor else items), "end"

    polls = 0

    def count(cursor: Any) -> Any:
        nonlocal polls
        polls += 1
        return list_all(cursor)

    assert len(set(run(speaker, service, count))) == 130
    assert stored(service).figures.messages == 130
    assert stored(service).figures.polls == polls


def test_the_cursor_of_a_page_in_parts_is_stored_with_the_last_part() -> None:
    """A program that dies between two parts lists the page again."""
    items = [{"id": str(number)} for number in range(250)]
    poller = Poller(lambda _: (items, "end"), mailbox=NAME, store=Client("http://x", "obx_x"))
    loop = poller.loop()
    plan = loop.next()
    cursors: list[tuple[str, bool]] = []
    step: Any = next(plan)
    while len(cursors) < 3:
        answer: Any = None
        match step:
            case RunStep():
                answer = step.function()
            case Call() if step.path.endswith("/polls"):
                answer = PollLease(status="leased", fence=1)
            case Call() if step.path.endswith("/next"):
                answer = ClaimResponse(deliveries=[], lease=30)
            case Call():
                page = cast("ListedPage", step.body)
                cursors.append((page.cursor, page.last))
                answer = StoredListing(cursor_version=len(cursors), new=0, duplicates=0, replays=0)
        step = plan.send(answer)

    assert cursors == [("null", False), ("null", False), ('"end"', True)]


# one loop at a time


def test_a_second_loop_is_refused_with_what_is_left_of_the_lease(service: Running) -> None:
    with Client(service.url, service.key) as client:
        first = iter(Poller(Api("a"), mailbox=NAME, store=client, lease=30))
        next(first)
        with pytest.raises(MailboxInUse) as refused:
            next(iter(Poller(Api("a"), mailbox=NAME, store=client, on_conflict="raise")))
        with pytest.raises(MailboxInUse):
            next(iter(Poller(Api("a"), mailbox=NAME, store=client, within=0.2)))
        first.close()  # type: ignore[attr-defined]

    assert refused.value.retry_after is not None
    assert 20 < refused.value.retry_after <= 30
    assert stored(service).figures.lease_conflicts == 2


def test_a_loop_that_waits_takes_over_as_soon_as_the_other_ends(
    service: Running, speaker: Speaker
) -> None:
    with Client(service.url, service.key) as client:
        first = iter(Poller(Api("a", "b"), mailbox=NAME, store=client))
        taken = next(first)
        seen: list[str] = []
        waiting = threading.Thread(
            target=lambda: seen.extend(run(speaker, service, Api("a", "b"), within=20, most=1))
        )
        waiting.start()
        while stored(service).figures.lease_conflicts == 0:
            assert waiting.is_alive()
        taken.done()
        first.close()  # type: ignore[attr-defined]
        waiting.join(30)

    assert seen == ["b"]


def test_of_two_loops_at_the_same_time_each_message_is_handed_to_one(service: Running) -> None:
    api = Everything(*(f"m{number}" for number in range(20)))
    seen: list[str] = []
    errors: list[Exception] = []

    def loop() -> None:
        try:
            seen.extend(run(Speaker("sync"), service, api))
        except MailboxInUse as error:
            errors.append(error)

    threads = [threading.Thread(target=loop) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)

    assert errors == []
    assert sorted(seen) == sorted(api.ids)
    assert {state for _, state, _ in states(service)} == {"done"}


def _outlive_the_lease(service: Running, mailbox: str) -> None:
    """Take longer than the lease; then see that nobody else gets the mailbox."""
    until, pause = stored(service, mailbox).due_at or 0, threading.Event()
    while service.box.components.ledger.clock() <= until + 500:
        pause.wait(0.05)
    with Client(service.url, service.key) as client, pytest.raises(MailboxInUse):
        next(iter(Poller(Api("a"), mailbox=mailbox, store=client, on_conflict="raise")))


async def test_the_lease_is_kept_while_a_body_takes_longer_than_it(service: Running) -> None:
    """Both clients, at the same time, and others who would like to have their mailboxes."""

    def block() -> None:
        with Client(service.url, service.key) as client:
            poller = Poller(Api("a"), mailbox="blocking", store=client, lease=2.0)
            for _ in poller:
                _outlive_the_lease(service, "blocking")
                poller.stop()

    async def later() -> None:
        async with AsyncClient(service.url, service.key) as client:
            poller = Poller(Api("a"), mailbox="later", store=client, lease=2.0)
            async for _ in poller:
                await asyncio.to_thread(_outlive_the_lease, service, "later")
                poller.stop()

    await asyncio.gather(asyncio.to_thread(block), later())

    with Client(service.url, service.key) as client:
        found = [
            each for name in ("blocking", "later") for each in client.deliveries.list(source=name)
        ]
    assert [(str(each.state), each.tries) for each in found] == [("done", 1), ("done", 1)]


def test_a_loop_that_lost_its_mailbox_begins_again_with_the_stored_cursor(
    service: Running, speaker: Speaker
) -> None:
    api = Api("a", "b", "c", page=1)

    def interrupt(message: Any) -> None:
        if message.key == "b":
            change(service, mailboxes.resync)

    assert run(speaker, service, api, interrupt) == ["a", "b", "c"]
    assert api.cursors.count(None) == 2


def test_a_paused_mailbox_is_not_polled(service: Running, speaker: Speaker) -> None:
    run(speaker, service, Api())
    change(service, mailboxes.pause)
    api = Api("a")

    assert run(speaker, service, api, within=0.5) == []
    assert api.cursors == []
    change(service, mailboxes.resume)
    assert run(speaker, service, api) == ["a"]


def test_a_mailbox_has_a_name_that_no_webhook_source_has(
    service: Running, speaker: Speaker
) -> None:
    with Client(service.url, service.key) as client:
        client.sources.add(NAME, "none", allow_unsigned=True, mode="pull")
    with pytest.raises(
        OnceboxError, match=f"mailbox {NAME}: there is a webhook source of this name"
    ):
        run(speaker, service, Api("a"))


# time, failures, stop


def test_a_list_function_that_fails_is_called_again_later_and_nothing_is_lost(
    service: Running, speaker: Speaker, caplog: pytest.LogCaptureFixture
) -> None:
    api = Api("a")
    api.errors = [ValueError("secret-of-the-api")]

    assert run(speaker, service, api) == ["a"]
    assert stored(service).figures.polls == len(api.cursors)
    assert "list_failed: ValueError" in caplog.text
    assert "secret-of-the-api" not in caplog.text


def test_a_list_function_that_takes_too_long_is_a_timeout(service: Running) -> None:
    calls = 0

    async def hang_once(_cursor: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            await asyncio.Event().wait()
        found = await asyncio.to_thread(stored, service)
        return [{"id": f"{found.failure} {found.failures}"}], "end"

    assert run(Speaker("async"), service, hang_once, within=60, timeout=0.1, most=1) == [
        "timeout 1"
    ]


def test_a_list_function_gets_a_timeout_below_the_deadline_if_it_takes_one(
    service: Running, speaker: Speaker
) -> None:
    given = []

    def list_fn(_cursor: Any, timeout: float) -> Any:
        given.append(timeout)
        return []

    run(speaker, service, list_fn, within=2, timeout=10)

    assert given
    assert all(0 < each <= 2 for each in given)


class _Failed(Exception):
    def __init__(self, **facts: Any) -> None:
        self.__dict__.update(facts)


class _Response:
    def __init__(self, status: int, headers: dict[str, str]) -> None:
        self.status_code = status
        self.headers = headers


@pytest.mark.parametrize(
    ("error", "code", "wait"),
    [
        (TimeoutError(), "timeout", None),
        (_Failed(retry_after=7), "list_failed", 7.0),
        (_Failed(response=_Response(429, {"retry-after": "12"})), "http_429", 12.0),
        (_Failed(response=_Response(503, {})), "http_503", None),
        (_Failed(retry_after="soon"), "list_failed", None),
        (_Failed(retry_after=-1), "list_failed", None),
        (_Failed(code="E42"), "list_failed", None),
    ],
)
def test_an_error_of_a_list_function_tells_its_code_and_the_wait_the_api_asks_for(
    error: Exception, code: str, wait: float | None
) -> None:
    assert (failure_code(error), requested_wait(error)) == (code, wait)


def test_a_deadline_without_a_message_is_counted_as_a_timeout(
    service: Running, speaker: Speaker
) -> None:
    run(speaker, service, Api(), within=2)
    run(speaker, service, Api("a"))

    figures = stored(service).figures
    assert (figures.timeouts, figures.messages) == (1, 1)
    assert stored(service).first_message_at is not None


def test_a_loop_ends_when_it_is_stopped_and_its_message_is_done(service: Running) -> None:
    with Client(service.url, service.key) as client:
        poller = Poller(Api("a", "b"), mailbox=NAME, store=client)
        for message in poller:
            assert message.key == "a"
            poller.stop()

    assert states(service) == [("a", "done", 1), ("b", "received", 0)]
    assert stored(service).worker is None


async def test_a_loop_that_is_cancelled_gives_its_mailbox_and_its_message_back(
    service: Running,
) -> None:
    handled = asyncio.Event()

    async def loop() -> None:
        async with AsyncClient(service.url, service.key) as client:
            async for _ in Poller(Api("a"), mailbox=NAME, store=client):
                handled.set()
                await asyncio.Event().wait()

    task = asyncio.create_task(loop())
    await handled.wait()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task

    found = await asyncio.to_thread(stored, service)
    assert found.worker is None
    assert await asyncio.to_thread(states, service) == [("a", "failed", 1)]


# APIs that know only times


class Since:
    """An API that lists messages since a time, by a clock of its own."""

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []
        self.asked: list[datetime | None] = []

    def receive(self, id_: str, at: datetime) -> None:
        """Receive a message, perhaps with an old time."""
        self.items.append({"id": id_, "received_at": at.isoformat()})

    def __call__(self, since: datetime | None) -> Any:
        """List what is not older than a time."""
        self.asked.append(since)
        return [
            each
            for each in self.items
            if since is None or datetime.fromisoformat(each["received_at"]) >= since
        ]


def test_an_api_with_times_only_is_asked_with_an_overlap_and_late_messages_are_found(
    service: Running, speaker: Speaker
) -> None:
    api, now = Since(), datetime.now(UTC).replace(microsecond=0)
    api.receive("a", now - timedelta(seconds=100))
    api.receive("b", now)
    first = run(speaker, service, api, overlap=60)
    api.receive("late", now - timedelta(seconds=50))
    second = run(speaker, service, api, overlap=60)

    assert (first, second) == (["a", "b"], ["late"])
    assert api.asked[0] is None
    assert set(api.asked[1:]) == {now - timedelta(seconds=60)}


def test_a_message_from_the_future_hides_no_other(service: Running, speaker: Speaker) -> None:
    api, now = Since(), datetime.now(UTC)
    api.receive("future", now + timedelta(days=30))
    first = run(speaker, service, api, overlap=60)
    api.receive("now", now)
    second = run(speaker, service, api, overlap=60)

    assert (first, second) == (["future"], ["now"])


def test_a_message_from_before_the_overlap_counts_if_the_api_lists_it(
    service: Running, speaker: Speaker
) -> None:
    now = datetime.now(UTC)
    items = [{"id": "a", "received_at": now}]
    first = run(speaker, service, lambda _: items, overlap=10)
    items.append({"id": "old", "received_at": now - timedelta(days=1)})
    second = run(speaker, service, lambda _: items, overlap=10)

    assert (first, second) == (["a"], ["old"])


# items and misuse


class Mail(msgspec.Struct):
    """An item that is an object."""

    id: int
    subject: str


def test_items_may_be_objects_bytes_or_have_an_id_of_another_name(
    service: Running, speaker: Speaker
) -> None:
    objects: list[Any] = []
    run(speaker, service, lambda _: [Mail(7, "Hello")], lambda each: objects.append(each.json))
    raw: list[Any] = []
    run(
        speaker,
        service,
        lambda _: [("uid-9", b"\xff\x00 raw")],
        lambda each: raw.append((each.key, each.body)),
        key=lambda item: item[0],
        body=lambda item: item[1],
    )

    assert objects == [{"id": 7, "subject": "Hello"}]
    assert raw == [("uid-9", b"\xff\x00 raw")]


@pytest.mark.parametrize(
    ("answer", "options"),
    [
        ([{"uid": 1}], {}),
        ([{"id": ["not", "a", "text"]}], {}),
        ([{"id": "a\nb"}], {}),
        ([{"id": "a", "what": object()}], {}),
        ([{"id": "a", "text": "x" * 800_000}], {}),
        ("abc", {}),
        (None, {}),
        (([], object()), {}),
        ([{"id": "a"}], {"overlap": 5}),
        ([{"id": "a", "created_at": "yesterday"}], {"overlap": 5}),
    ],
    ids=[
        "no-id",
        "list-as-id",
        "control-character",
        "no-json",
        "too-large",
        "text",
        "none",
        "cursor",
        "no-time",
        "odd-time",
    ],
)
def test_a_list_that_cannot_be_used_is_refused_with_a_remedy_and_without_its_content(
    service: Running, speaker: Speaker, answer: Any, options: Any
) -> None:
    with pytest.raises(PollMisused) as refused:
        run(speaker, service, lambda _: answer, **options)

    assert "yesterday" not in str(refused.value)
    assert stored(service).cursor is None
    assert stored(service).worker is None


@pytest.mark.parametrize(
    "options",
    [{"interval": -1}, {"lease": 0.1}, {"within": float("nan")}, {"on_conflict": "steal"}],
)
def test_options_that_can_never_work_are_refused_at_once(options: Any) -> None:
    with pytest.raises(PollMisused):
        Poller(lambda _: [], mailbox=NAME, store=Client("http://127.0.0.1:9", "obx_x"), **options)


async def test_a_loop_of_the_wrong_kind_is_refused_with_the_right_one(service: Running) -> None:
    async with AsyncClient(service.url, service.key) as later:
        with pytest.raises(PollMisused, match="async for"):
            iter(Poller(Api(), mailbox=NAME, store=later))
    with Client(service.url, service.key) as client:
        with pytest.raises(PollMisused, match="not async"):
            aiter(Poller(Api(), mailbox=NAME, store=client))

        async def list_later(_cursor: Any) -> Any:
            return []

        with pytest.raises(PollMisused, match="AsyncClient"):
            await asyncio.to_thread(list, Poller(list_later, mailbox=NAME, store=client))


async def test_a_list_function_may_be_async_or_return_what_is_awaited(service: Running) -> None:
    async def list_later(_cursor: Any, *, more: bool = False) -> Any:
        assert more in (True, False)
        return [{"id": "a"}], "end"

    async with AsyncClient(service.url, service.key) as client:
        for mailbox, list_fn in (
            ("one", list_later),
            ("two", lambda at: list_later(at, more=True)),
        ):
            poller = Poller(list_fn, mailbox=mailbox, store=client, within=60)
            async for message in poller:
                assert message.key == "a"
                poller.stop()


# an embedded box


async def test_an_embedded_box_is_a_store_too(place: Place) -> None:
    box = Oncebox(settings=settings(place))
    async with box:
        seen = []
        for _ in range(2):
            quiet = Quiet(Everything("a", "b"))
            quiet.poller = Poller(quiet, mailbox=NAME, store=box, within=60, interval=0.05)
            async for message in quiet.poller:
                quiet.lists = 0
                seen.append(message.key)
        found = await box.components.database.read(mailboxes.get, box.settings.tenant, NAME)

    assert seen == ["a", "b"]
    assert found.figures.messages == 2


def test_a_generator_that_fails_midway_is_a_list_that_failed(
    service: Running, speaker: Speaker
) -> None:
    api, errors = Api("a", "b"), [OSError("reset")]

    def list_fn(cursor: Any) -> Any:
        items, after = api(cursor)

        def lazily() -> Any:
            for each in items:
                yield each
                if errors:
                    raise errors.pop()

        return lazily(), after

    assert run(speaker, service, list_fn) == ["a", "b"]


def test_a_list_function_that_raises_stop_iteration_is_a_list_that_failed(
    service: Running, speaker: Speaker
) -> None:
    """A future cannot carry it; without care the loop waits until its time limit."""
    api, errors = Api("a", "b"), [StopIteration()]

    def list_fn(cursor: Any) -> Any:
        if errors:
            raise errors.pop()
        return api(cursor)

    assert run(speaker, service, list_fn, timeout=1_000.0) == ["a", "b"]
