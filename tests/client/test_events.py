"""Following events with both clients: each once, in order, whatever happens to the connection."""

import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from itertools import islice, pairwise
from typing import Any

import pytest

from oncebox.client.core.calls import OpenStep, PauseStep, TimeoutStep
from oncebox.client.core.followers import EventFollower
from oncebox.client.errors import ServiceUnreachable
from oncebox.errors import CursorMismatch, CursorTooOld
from oncebox.errors.http import Unauthenticated
from oncebox.ledger.events import event_log
from oncebox.ledger.notifications import STREAM
from oncebox.model.admin.access import DEFAULT_TENANT
from oncebox.schemas.events import Event, EventPage, EventQuery
from tests.client.conftest import Speaker
from tests.support import events
from tests.support.clerk import START
from tests.support.running import Running
from tests.support.scripted import Act, answer, cut, nobody, problem, raw, reset, scripted, silence

Follow = Callable[[Any], Any]


def happen(service: Running, *subjects: str, **rest: Any) -> None:
    """Let something happen to each of these subjects."""

    async def tell() -> None:
        database = service.box.components.database
        told = [events.new(each, tenant=DEFAULT_TENANT, **rest) for each in subjects]
        await database.write(events.record, *told)
        await database.write(events.number_all)
        database.notify(STREAM)

    service.call(tell())


def first(count: int, found: Any) -> Any:
    """Take the first of an iterator, then leave it."""
    if isinstance(found, Iterator):
        return islice(found, count)
    return _first_later(count, found)


async def _first_later(count: int, found: AsyncIterator[Event]) -> AsyncIterator[Event]:
    async for each in found:
        yield each
        count -= 1
        if not count:
            return


def about(found: list[Event]) -> list[str]:
    """Return what events are about."""
    return [each.subject_id for each in found]


# against a real service


def test_events_are_listed_to_the_last_that_is_there(service: Running, speaker: Speaker) -> None:
    happen(service, *map(str, range(120)))

    found = speaker.ask(service.url, lambda c: c.events.list(), key=service.key)
    rest = speaker.ask(
        service.url, lambda c: c.events.list(cursor=found[99].cursor), key=service.key
    )

    assert about(found) == [str(each) for each in range(120)]
    assert about(rest) == [str(each) for each in range(100, 120)]


def test_a_page_leads_to_what_is_new_later(service: Running, speaker: Speaker) -> None:
    def ask(question: Follow) -> Any:
        return speaker.ask(service.url, question, key=service.key)

    happen(service, "old")
    now = ask(lambda c: c.events.page(begin="now"))
    happen(service, "new", type_="a.one")
    happen(service, "newer", type_="a.two")

    assert now.data == []
    assert about(ask(lambda c: c.events.page(cursor=now.next_cursor)).data) == ["new", "newer"]
    assert about(ask(lambda c: c.events.list(types=["a.two", "a.three"]))) == ["newer"]


def test_events_are_followed_from_a_cursor_on_as_they_happen(
    service: Running, speaker: Speaker
) -> None:
    happen(service, "a", "b")
    (one,) = speaker.ask(
        service.url, lambda c: first(1, c.events.follow(within=10)), key=service.key
    )
    telling = threading.Timer(0.3, happen, (service, "c", "d"))
    telling.start()

    found = speaker.ask(
        service.url,
        lambda c: first(3, c.events.follow(cursor=one.cursor, within=10)),
        key=service.key,
    )

    assert about([one, *found]) == ["a", "b", "c", "d"]
    telling.join()


def test_following_ends_when_its_time_is_over(service: Running, speaker: Speaker) -> None:
    happen(service, "a")
    began = time.monotonic()

    found = speaker.ask(service.url, lambda c: c.events.follow(within=0.7), key=service.key)

    assert about(found) == ["a"]
    assert 0.5 < time.monotonic() - began < 5


def test_a_short_deadline_for_calls_does_not_cut_a_silent_stream(
    service: Running, speaker: Speaker
) -> None:
    telling = threading.Timer(1.5, happen, (service, "late"))
    telling.start()

    found = speaker.ask(
        service.url,
        lambda c: first(1, c.events.follow(within=10)),
        key=service.key,
        timeout=0.8,
    )

    assert about(found) == ["late"]
    telling.join()


def test_a_service_that_is_away_for_a_while_is_waited_for(
    service: Running, speaker: Speaker
) -> None:
    happen(service, "a")

    def restart() -> None:
        service.stop()
        time.sleep(0.5)
        service.start()
        happen(service, "b")

    restarting = threading.Timer(0.5, restart)
    restarting.start()

    found = speaker.ask(
        service.url, lambda c: first(2, c.events.follow(within=30)), key=service.key
    )

    assert about(found) == ["a", "b"]
    restarting.join()


def test_what_does_not_pass_by_itself_is_raised(service: Running, speaker: Speaker) -> None:
    def ask(question: Follow, key: str = service.key) -> Any:
        return speaker.ask(service.url, question, key=key)

    before = ask(lambda c: c.events.page()).next_cursor
    happen(service, "old")
    service.call(service.box.components.database.write(event_log.forget, START))

    with pytest.raises(CursorTooOld, match="without a cursor"):
        ask(lambda c: c.events.follow(cursor=before, within=5))
    with pytest.raises(CursorMismatch):
        ask(lambda c: c.events.follow(cursor=before, types="a.one", within=5))
    with pytest.raises(Unauthenticated):
        ask(lambda c: c.events.follow(within=5), key="obx_wrong")


# against a service that misbehaves by a script


def event(number: int) -> dict[str, Any]:
    """Return an event as the service tells it."""
    return {
        "id": f"evt_{number}", "number": number, "type": "a.one", "at": 1, "inbox_id": None,
        "attempt_id": None, "subject_id": str(number), "data": {}, "metadata": {},
        "cursor": f"cursor-{number}",
    }  # fmt: skip


def page(*numbers: int, upto: int) -> Act:
    """Answer with a page."""
    told = [event(number) for number in numbers]
    return answer({"data": told, "next_cursor": f"cursor-{upto}", "has_more": False})


def opened(*numbers: int, place: int = 0) -> bytes:
    """Return the beginning of a stream."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    blocks = [f"id: cursor-{place}\nretry: 20\n\n".encode()]
    for number in numbers:
        data = json.dumps(event(number)).encode()
        blocks.append(b"id: cursor-%d\nevent: a.one\ndata: %s\n\n" % (number, data))
    return head + b"".join(blocks)


@pytest.mark.parametrize(("missing", "whole"), [(0, 2), (5, 1)])
def test_a_cut_stream_is_resumed_after_the_last_event_that_came_whole(
    speaker: Speaker, missing: int, whole: int
) -> None:
    begin = opened(1, 2)
    rest = opened(*range(whole + 1, 4), place=whole)
    with scripted(cut(begin[: len(begin) - missing]), raw(rest)) as script:
        found = speaker.ask(script.url, lambda c: first(3, c.events.follow(within=10)))

    assert about(found) == ["1", "2", "3"]
    assert script.heard[0].headers["accept"] == "text/event-stream"
    assert "last-event-id" not in script.heard[0].headers
    assert script.heard[1].headers["last-event-id"] == f"cursor-{whole}"


def test_the_place_is_kept_before_any_event_has_come(speaker: Speaker) -> None:
    with scripted(cut(opened(place=7)), cut(opened(8, place=7)), silence()) as script:
        found = speaker.ask(script.url, lambda c: first(1, c.events.follow(begin="now", within=10)))

    assert about(found) == ["8"]
    assert script.heard[1].headers["last-event-id"] == "cursor-7"


@pytest.mark.parametrize(
    "refusing",
    [
        reset(),
        problem("server_busy", 503, retry_safe=True),
        answer({"data": [], "next_cursor": "cursor-0", "has_more": False}),
        answer(b"<html>bad gateway</html>", 502, "text/html"),
    ],
    ids=["broken", "busy", "a page instead", "a gateway"],
)
def test_where_no_stream_can_be_had_pages_are_read(speaker: Speaker, refusing: Act) -> None:
    acts = (refusing, page(1, 2, upto=2), page(upto=2), page(3, upto=3))
    with scripted(*acts, silence()) as script:
        found = speaker.ask(script.url, lambda c: first(3, c.events.follow(within=10)))

    assert about(found) == ["1", "2", "3"]
    assert [each.headers["accept"] for each in script.heard[1:4]] == ["application/json"] * 3
    assert "cursor=cursor-2" in script.heard[3].path


def test_a_stream_is_tried_again_after_a_while_and_then_less_and_less_often() -> None:
    """By hand: every stream breaks at once, every page is empty, and time is the test's."""
    time_, trials = 0.0, []
    following = EventFollower(query=EventQuery(), within=400, now=lambda: time_, jitter=lambda: 1.0)
    plan = following.next()
    step = next(plan)
    with suppress(StopIteration):
        while True:
            if isinstance(step, TimeoutStep):
                step = plan.send(30.0)
            elif isinstance(step, OpenStep):
                trials.append(time_)
                step = plan.throw(ServiceUnreachable("broken"))
            elif isinstance(step, PauseStep):
                time_ += step.seconds
                step = plan.send(None)
            else:
                step = plan.send(EventPage(data=[], next_cursor="cursor-0"))

    pauses = [after - before for before, after in pairwise(trials)]
    assert len(trials) > 6
    assert pauses == sorted(pauses)
    assert 2 <= pauses[0] < 5
    assert 60 <= pauses[-1] < 66


def test_a_stream_that_is_kept_back_on_the_way_is_given_up_for_pages(
    speaker: Speaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncebox.client.core.followers._FIRST_EVENT_TIMEOUT", 0.3)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    with scripted(raw(head), page(1, upto=1), silence()) as script:
        found = speaker.ask(script.url, lambda c: first(1, c.events.follow(within=10)))

    assert about(found) == ["1"]


def test_empty_pages_are_asked_for_less_and_less_often(speaker: Speaker) -> None:
    with scripted(reset(), page(upto=0)) as script:
        assert speaker.ask(script.url, lambda c: c.events.follow(within=1.9)) == []

    assert 3 <= len(script.heard) <= 25


def test_a_deadline_holds_where_nobody_listens(speaker: Speaker) -> None:
    began = time.monotonic()
    with nobody() as url:
        assert speaker.ask(url, lambda c: c.events.follow(within=1)) == []

    assert time.monotonic() - began < 4


def test_what_is_no_event_of_ours_is_said_plainly(speaker: Speaker) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    with (
        scripted(raw(head + b"data: {}\n\n")) as script,
        pytest.raises(Exception, match="not one of Oncebox"),
    ):
        speaker.ask(script.url, lambda c: c.events.follow(within=5))
