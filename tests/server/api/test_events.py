"""Events over HTTP: pages and streams of one sequence, each seen once and by whom it concerns."""

import asyncio
from typing import Any

import pytest

from oncebox.ledger.admin import api_keys
from oncebox.ledger.events import event_log
from oncebox.model.admin.access import DEFAULT_TENANT
from tests.support import events
from tests.support.api import OTHER, Api
from tests.support.clerk import START
from tests.support.databases import Place
from tests.support.http import until
from tests.support.streams import streaming


async def happen(api: Api, *subjects: str, tenant: str = DEFAULT_TENANT, **rest: Any) -> None:
    """Let something happen, and number it."""
    told = [events.new(each, tenant=tenant, **rest) for each in subjects]
    await api.box.components.ledger.write(events.record, *told)
    await api.box.components.ledger.write(events.number_all)


async def page(api: Api, **params: Any) -> Any:
    """Return a page."""
    answer = await api.call("GET", "/v1/events", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


def about(found: Any) -> list[str]:
    """Return what the events of a page are about."""
    return [each["subject_id"] for each in found["data"]]


# pages


async def test_pages_lead_from_one_to_the_next_and_then_to_what_is_new(api: Api) -> None:
    await happen(api, *"abcde")

    first = await page(api, limit=3)
    second = await page(api, limit=3, cursor=first["next_cursor"])

    assert (about(first), first["has_more"]) == (["a", "b", "c"], True)
    assert (about(second), second["has_more"]) == (["d", "e"], False)
    assert about(await page(api, cursor=second["next_cursor"])) == []
    await happen(api, "f")
    assert about(await page(api, cursor=second["next_cursor"])) == ["f"]


async def test_every_event_has_a_cursor_to_go_on_after_it_and_replay_is_normal(api: Api) -> None:
    await happen(api, *"abcd")
    found = await page(api)

    for place, event in enumerate(found["data"]):
        for _ in range(2):
            rest = await page(api, cursor=event["cursor"], limit=10)
            assert about(rest) == list("abcd")[place + 1 :]


async def test_an_event_says_what_happened_to_what_and_echoes_its_inbox(api: Api) -> None:
    await api.box.components.ledger.write(
        events.put_inbox, "inb_1", tenant=DEFAULT_TENANT, metadata={"run": "7"}
    )
    await happen(api, "msg_1", inbox_id="inb_1", attempt_id="att_1", type_="message.received")

    (found,) = (await page(api))["data"]

    assert found["type"] == "message.received"
    assert (found["inbox_id"], found["attempt_id"]) == ("inb_1", "att_1")
    assert (found["number"], found["at"], found["metadata"]) == (1, START, {"run": "7"})
    assert found["id"].startswith("evt_")


async def test_filters_leave_out_what_is_not_wanted(api: Api) -> None:
    await happen(api, "1", type_="a.one", inbox_id="inb_1", attempt_id="att_1")
    await happen(api, "2", type_="a.two", inbox_id="inb_2", attempt_id="att_1")

    assert about(await page(api, types="a.one,a.three")) == ["1"]
    assert about(await page(api, types="a.one,a.two")) == ["1", "2"]
    assert about(await page(api, inbox="inb_2")) == ["2"]
    assert about(await page(api, attempt="att_1", types="a.two")) == ["2"]
    assert about(await page(api, attempt="att_9")) == []


async def test_one_may_begin_now_and_hear_only_what_comes_after(api: Api) -> None:
    await happen(api, "old")
    now = await page(api, begin="now")
    await happen(api, "new")

    assert about(now) == []
    assert about(await page(api, cursor=now["next_cursor"])) == ["new"]


async def test_who_comes_back_to_what_it_was_shown_is_counted(api: Api) -> None:
    """By pages; another key and other filters are other readers."""
    await happen(api, *"abcd")
    first = await page(api, limit=2)
    await page(api, limit=2, cursor=first["next_cursor"])
    forward = api.box.metrics()
    await page(api, limit=2, cursor=first["next_cursor"])
    await page(api, types="message.received")

    assert 'oncebox_cursor_replays_total{list="events"} 0.0' in forward
    assert 'oncebox_cursor_replays_total{list="events"} 1.0' in api.box.metrics()


async def test_the_order_of_the_types_does_not_matter_to_a_cursor(api: Api) -> None:
    await happen(api, "1", "2", type_="a.one")
    first = await page(api, types="a.one,a.two", limit=1)

    assert about(await page(api, types="a.two,a.one", cursor=first["next_cursor"])) == ["2"]


@pytest.mark.parametrize(
    ("made_for", "used_for"),
    [
        ({"types": "a.one"}, {"types": "a.two"}),
        ({"types": "a.one"}, {}),
        ({"inbox": "inb_1"}, {"inbox": "inb_2"}),
        ({"attempt": "att_1"}, {"inbox": "att_1"}),
        ({}, {"inbox": "inb_1"}),
    ],
)
async def test_a_cursor_for_other_events_is_refused(
    api: Api, made_for: dict[str, str], used_for: dict[str, str]
) -> None:
    cursor = (await page(api, **made_for))["next_cursor"]

    answer = await api.call("GET", "/v1/events", params={**used_for, "cursor": cursor})

    assert (answer.status_code, answer.json()["code"]) == (404, "cursor_mismatch")
    assert "begin without one" in answer.json()["detail"]


async def test_an_altered_or_foreign_cursor_is_refused(api: Api) -> None:
    await api.second_tenant()
    await happen(api, "1")
    cursor = (await page(api))["next_cursor"]
    other = await api.call("GET", "/v1/events", tenant=OTHER)
    for number in range(2):
        await api.add_source(f"s{number}")
    sources = await api.call("GET", "/v1/sources", params={"limit": 1})
    other_list = sources.json()["next_cursor"]
    flipped = cursor[:-6] + ("A" if cursor[-6] != "A" else "B") + cursor[-5:]

    for bad, told in (
        (flipped, (404, "cursor_mismatch")),
        (cursor[:-8], (404, "cursor_mismatch")),
        (other.json()["next_cursor"], (404, "cursor_mismatch")),
        (other_list, (404, "cursor_mismatch")),
        ("17", (400, "cursor_invalid")),
        ("", (400, "cursor_invalid")),
        ("c1_", (400, "cursor_invalid")),
    ):
        for headers in ({}, {"Accept": "text/event-stream"}):
            answer = await api.call("GET", "/v1/events", params={"cursor": bad}, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == told, bad


async def test_a_cursor_whose_events_are_gone_says_so_and_what_to_do(api: Api) -> None:
    begin = (await page(api))["next_cursor"]
    await happen(api, "old")
    await api.box.components.ledger.write(event_log.forget, START)
    await happen(api, "new")

    for headers in ({}, {"Accept": "text/event-stream"}):
        answer = await api.call("GET", "/v1/events", params={"cursor": begin}, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (410, "cursor_too_old")
        assert "without a cursor" in answer.json()["detail"]
    assert about(await page(api)) == ["new"]


async def test_a_head_request_never_becomes_a_stream(api: Api) -> None:
    answer = await api.call("HEAD", "/v1/events", headers={"Accept": "text/event-stream"})

    assert answer.status_code == 200


# who sees what


async def agent(api: Api, name: str) -> tuple[str, str]:
    """Make an agent's key; return its id and its text."""
    deed = api.deed(DEFAULT_TENANT)
    key, text = api_keys.generate(deed, ("agent",), name=name)
    await api.box.components.ledger.write(api_keys.add, key, text, deed)
    return key.id, text


async def test_an_agent_sees_only_events_of_its_own_inboxes(api: Api) -> None:
    await api.second_tenant()
    (ann, ann_text), (ben, ben_text) = await agent(api, "ann"), await agent(api, "ben")
    write = api.box.components.ledger.write
    await write(events.put_inbox, "inb_ann", tenant=DEFAULT_TENANT, owner=ann)
    await write(events.put_inbox, "inb_ben", tenant=DEFAULT_TENANT, owner=ben)
    await write(events.put_inbox, "inb_far", tenant=OTHER, owner=ann)
    await happen(api, "1", inbox_id="inb_ann")
    await happen(api, "2", inbox_id="inb_ben")
    await happen(api, "3")
    await happen(api, "4", inbox_id="inb_far", tenant=OTHER)
    await happen(api, "5", inbox_id="inb_far")

    async def seen(key: str | None, **params: str) -> list[str]:
        return about((await api.call("GET", "/v1/events", key=key, params=params)).json())

    assert await seen(ann_text) == ["1"]
    assert await seen(ben_text) == ["2"]
    assert await seen(ann_text, inbox="inb_ben") == []
    assert await seen(None) == ["1", "2", "3", "5"]


async def test_an_agent_s_stream_has_only_events_of_its_own_inboxes(place: Place) -> None:
    async with streaming(place) as streams:
        (ann, ann_text), (ben, _) = [await agent(streams.api, each) for each in ("ann", "ben")]
        write = streams.api.box.components.ledger.write
        await write(events.put_inbox, "inb_ann", tenant=DEFAULT_TENANT, owner=ann)
        await write(events.put_inbox, "inb_ben", tenant=DEFAULT_TENANT, owner=ben)
        await streams.happen("before", inbox_id="inb_ann")
        await streams.happen("hidden", inbox_id="inb_ben")
        reader = await streams.read(key=ann_text)
        assert await reader.subjects(1) == ["before"]

        await streams.happen("also hidden", inbox_id="inb_ben")
        await streams.happen("hidden too")
        await streams.happen("after", inbox_id="inb_ann")

        assert await reader.subjects(1) == ["after"]


async def test_a_stream_ends_when_its_key_does(place: Place) -> None:
    async with streaming(place, heartbeat=0.2) as streams:
        id_, text = await agent(streams.api, "ann")
        reader = await streams.read(key=text)
        await streams.api.call("DELETE", f"/v1/keys/{id_}")
        streams.api.box.components.api_keys.clear()

        beats = 0
        while await reader.block() is not None:
            beats += 1
            assert beats < 20
        again = await streams.read(key=text)
        assert again.status == 401


# streams


async def test_a_stream_has_what_was_before_and_what_comes_after(place: Place) -> None:
    async with streaming(place) as streams:
        await streams.happen("a", "b")
        reader = await streams.read()
        assert await reader.subjects(2) == ["a", "b"]

        await streams.happen("c", type_="message.received")

        block = await reader.block()
        assert block is not None
        assert (block.event, block.data["subject_id"]) == ("message.received", "c")
        assert block.id == block.data["cursor"]


async def test_a_stream_opens_with_its_place_and_how_long_to_wait_after_a_cut(
    place: Place,
) -> None:
    async with streaming(place) as streams:
        reader = await streams.read("?begin=now")
        block = await reader.block()

    assert reader.status == 200
    assert reader.headers["content-type"].startswith("text/event-stream")
    assert reader.headers["x-accel-buffering"] == "no"
    assert "no-store" in reader.headers["cache-control"]
    assert block is not None
    assert block.id.startswith("c1_")
    assert block.retry is not None
    assert 1_000 <= block.retry <= 3_000


async def test_a_reader_resumes_where_it_was_cut_off(place: Place) -> None:
    async with streaming(place) as streams:
        reader = await streams.read("?begin=now")
        opening = await reader.block()
        reader.close()
        await streams.happen("a", "b", "c")
        assert opening is not None
        second = await streams.read("?begin=now", headers=[f"Last-Event-ID: {opening.id}"])
        first_two = await second.events(2)
        second.close()

        last = first_two[-1]["cursor"]
        third = await streams.read(headers=[f"Last-Event-ID: {last}"])
        fourth = await streams.read(f"?cursor={last}")

        assert [each["subject_id"] for each in first_two] == ["a", "b"]
        assert await third.subjects(1) == ["c"]
        assert await fourth.subjects(1) == ["c"]


async def test_the_last_event_id_counts_more_than_the_cursor_of_the_address(place: Place) -> None:
    """A browser keeps its address and sends where it was in the header."""
    async with streaming(place) as streams:
        await streams.happen("a", "b", "c")
        found = await page(streams.api)
        early, late = found["data"][0]["cursor"], found["data"][1]["cursor"]

        reader = await streams.read(f"?cursor={early}", headers=[f"Last-Event-ID: {late}"])

        assert await reader.subjects(1) == ["c"]


async def test_a_silent_stream_shows_signs_of_life_that_move_the_place_on(place: Place) -> None:
    async with streaming(place, heartbeat=0.2) as streams:
        reader = await streams.read("?types=a.rare")
        opening = await reader.block()
        await streams.happen("1", "2", type_="a.common")
        moved, beat = await reader.block(), await reader.block()
        for _ in range(4):  # until the place has moved past what is not wanted
            moved, beat = await reader.block(), await reader.block()

        assert opening is not None
        assert moved is not None
        assert beat is not None
        assert beat.comment == "still here"
        answer = await page(streams.api, types="a.rare", cursor=moved.id)
        assert answer["data"] == []


async def test_a_stream_outlives_every_limit_for_requests(place: Place) -> None:
    limits = {"headers_within": 0.3, "idle": 0.3, "request_within": 0.3}
    async with streaming(place, http=limits) as streams:
        reader = await streams.read("?begin=now")
        await asyncio.sleep(1.5)
        await streams.happen("late")

        assert await reader.subjects(1) == ["late"]


async def test_streams_end_in_good_order_when_the_service_stops(place: Place) -> None:
    async with streaming(place) as streams:
        readers = [await streams.read("?begin=now") for _ in range(3)]
        streams.stopping.set()
        async with asyncio.timeout(5):
            await streams.server.stop()

        for reader in readers:
            assert await reader.block() is not None
            assert await reader.block() is None


async def test_a_reader_that_goes_is_forgotten(place: Place) -> None:
    async with streaming(place) as streams:
        broadcast = streams.api.box.components.broadcast
        readers = [await streams.read("?begin=now") for _ in range(3)]
        assert broadcast.followers == 3

        for reader in readers:
            reader.close()

        await until(lambda: broadcast.followers == 0)


async def test_more_streams_than_allowed_are_told_to_read_pages(place: Place) -> None:
    async with streaming(place, streams=2) as streams:
        readers = [await streams.read("?begin=now") for _ in range(3)]

        assert [each.status for each in readers] == [200, 200, 503]
        assert (await readers[2].problem())["code"] == "server_busy"
        assert int(readers[2].headers["retry-after"]) > 0


async def test_a_client_that_does_not_read_is_cut_off_and_keeps_nobody_waiting(
    place: Place,
) -> None:
    async with streaming(place, http={"headers_within": 0.5}) as streams:
        deaf = await streams.read("?begin=now")
        deaf.writer.transport.pause_reading()  # type: ignore[attr-defined]
        keen = await streams.read("?begin=now")
        big = {"data": {"filler": "x" * 100_000}}
        broadcast = streams.api.box.components.broadcast

        async def read_on() -> None:
            while True:
                await keen.events(1)

        reading = asyncio.create_task(read_on())
        async with asyncio.timeout(30):
            while broadcast.followers > 1:
                assert not reading.done()
                await streams.happen("a", "b", "c", **big)
                await asyncio.sleep(0.05)
        reading.cancel()
        ended = streams.api.box.telemetry.connections_ended.labels("does_not_read")
        assert ended._value.get() == 1


async def test_a_slow_reader_reads_everything_again_from_the_ledger(place: Place) -> None:
    """It falls behind by more than what is kept for those who keep up."""
    async with streaming(place) as streams:
        reader = await streams.read("?begin=now")
        assert await reader.block() is not None
        for batch in range(5):
            await streams.happen(*(f"{batch}-{each}" for each in range(500)))

        found = await reader.events(2_500)

        numbers = [each["number"] for each in found]
        assert numbers == list(range(1, 2_501))


async def test_many_idle_streams_ask_the_database_no_more_than_one_would(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with streaming(
        place, http={"connections": 400}, streams=300, streams_per_key=300
    ) as streams:
        database = streams.api.box.components.database
        readers = [await streams.read("?begin=now") for _ in range(200)]
        for reader in readers:
            await reader.block()
        asked = _count_reads(database, monkeypatch)
        await asyncio.sleep(2.5)
        idle = asked()
        await streams.happen("news")
        found = [await reader.subjects(1) for reader in readers]

        assert found == [["news"]] * 200
        assert idle <= 10
        assert asked() <= idle + 10


def _count_reads(database: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    count = 0
    read = database.read

    async def counted(*args: Any, **rest: Any) -> Any:
        nonlocal count
        count += 1
        return await read(*args, **rest)

    monkeypatch.setattr(database, "read", counted)
    return lambda: count


async def test_streams_of_two_tenants_are_apart(place: Place) -> None:
    async with streaming(place) as streams:
        await streams.api.second_tenant()
        text = await streams.api.key("operator", tenant=OTHER)
        ours, theirs = await streams.read(), await streams.read(key=text)
        await streams.tell(events.new("theirs", tenant=OTHER))
        await streams.happen("ours")

        assert await ours.subjects(1) == ["ours"]
        assert await theirs.subjects(1) == ["theirs"]
