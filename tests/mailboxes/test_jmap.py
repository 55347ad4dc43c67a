"""JMAP: changes, queries, push, and sessions that lie."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncebox.mailboxes.event_source import EventParser, EventStreamInvalid
from oncebox.mailboxes.reader import MailboxFailure, PageLimits, ResyncReason
from oncebox.testing.jmap import JUNK, FakeJmap
from oncebox.testing.mailbox_server import MailboxServer
from tests.mailboxes.http_peers import LIMITS, PEERS, FakeClock, Store, drain, mail

JMAP = PEERS[0]


async def test_a_state_that_cannot_be_calculated_is_a_bounded_query() -> None:
    clock = FakeClock()
    async with MailboxServer(FakeJmap(now=clock)) as server:
        server.api.deliver(mail(0))
        clock.at += 10 * 86_400_000
        read = server.api.deliver(mail(1))
        reader = JMAP.reader(server.url, now=clock)
        store = Store()
        await drain(reader, store)

        server.api.touch(read)
        server.api.forget_changes()
        clock.at += 3_600_000
        new = server.api.deliver(mail(2))
        server.api.forget_changes()
        page = await reader.fetch(store.cursor, LIMITS)
        await reader.close()

    assert page.resync is ResyncReason.EXPIRED
    # What was read within a day before the newest is given again; what is older is not.
    assert [each.provider_id for each in page.mails] == [f"jmap:{read}", f"jmap:{new}"]


async def test_changes_of_flags_and_other_folders_are_no_mail() -> None:
    async with MailboxServer(FakeJmap()) as server:
        reader = JMAP.reader(server.url, now=FakeClock(server.api.now()))
        store = Store()
        first = server.api.deliver(mail(1))
        await drain(reader, store)
        for _ in range(30):
            server.api.touch(first)
        server.api.folder = JUNK
        server.api.deliver(mail(2))
        server.api.max_objects = 5
        await reader.close()
        reader = JMAP.reader(server.url, now=FakeClock(server.api.now()))
        page = await reader.fetch(store.cursor, LIMITS)
        await reader.close()

    assert (page.mails, page.has_more, page.resync) == ((), False, None)


async def test_a_query_goes_on_when_its_last_mail_is_gone() -> None:
    clock = FakeClock()
    async with MailboxServer(FakeJmap(now=clock)) as server:
        ids = []
        for number in range(6):
            clock.at += 1000
            ids.append(server.api.deliver(mail(number)))
        reader = JMAP.reader(server.url, now=clock)
        store = Store()
        store.commit(await reader.fetch(None, PageLimits(mails=3)))
        server.api.remove(ids[2])
        await drain(reader, store)
        await reader.close()

    assert set(store.given) == {f"jmap:{id_}" for id_ in ids}


async def test_a_folder_is_found_by_role_name_and_id_and_else_it_is_missing() -> None:
    async with MailboxServer(FakeJmap()) as server:
        server.api.folder = JUNK
        server.api.deliver(mail(1))
        for folder in ("junk", "Spam", JUNK, ""):
            reader = JMAP.reader(server.url, now=FakeClock(server.api.now()), folder=folder)
            assert len((await reader.fetch(None, LIMITS)).mails) == 1
            await reader.close()
        reader = JMAP.reader(server.url, now=FakeClock(), folder="Nothing")
        with pytest.raises(MailboxFailure, match="folder_missing"):
            await reader.fetch(None, LIMITS)
        await reader.close()


@pytest.mark.parametrize(
    "link",
    [
        "http://127.0.0.2:80/{accountId}/{blobId}",
        "https://elsewhere.example/{blobId}",
        "//elsewhere.example/{blobId}",
        "http://user@127.0.0.1/{blobId}",
        "file:///etc/passwd",
        "/with space/{blobId}",
        "http://[::1/{blobId}",
    ],
)
async def test_a_link_to_another_host_is_not_followed(link: str) -> None:
    async with MailboxServer(FakeJmap()) as server:
        server.api.deliver(mail(1))
        server.api.download_url = link
        reader = JMAP.reader(server.url, now=FakeClock(server.api.now()))
        with pytest.raises(MailboxFailure, match="link_refused") as failed:
            await reader.fetch(None, LIMITS)
        await reader.close()

    assert failed.value.needs_operator


async def test_push_ends_a_wait_at_once() -> None:
    async with MailboxServer(FakeJmap()) as server:
        reader = JMAP.reader(server.url, now=FakeClock(server.api.now()))
        store = Store()
        await drain(reader, store)
        waiting = asyncio.create_task(reader.wait(60))
        await server.api.has_listener.wait()
        server.api.deliver(mail(1))
        await server.api.announce()
        assert await waiting

        await drain(reader, store)
        assert len(store.given) == 1
        await reader.wait(0.2)  # the same mail may have been announced, too
        assert not await reader.wait(0.2)
        assert server.api.listeners == 1  # the channel stays open
        await reader.close()


async def test_mail_that_came_before_the_channel_was_open_ends_the_wait() -> None:
    async with MailboxServer(FakeJmap()) as server:
        reader = JMAP.reader(server.url, now=FakeClock(server.api.now()))
        await drain(reader, Store())
        server.api.deliver(mail(1))
        assert await reader.wait(5)
        await reader.close()


@pytest.mark.parametrize("options", [{"push": False}, {"buffers": True}])
async def test_without_push_a_wait_is_waited_out(options: dict[str, bool]) -> None:
    """A proxy that buffers is one without push: there is no sign of life."""
    async with MailboxServer(FakeJmap(**options)) as server:
        reader = JMAP.reader(server.url, now=FakeClock(server.api.now()))
        await drain(reader, Store())
        assert not await reader.wait(0.2)
        await reader.close()


async def test_a_silent_channel_is_given_up_after_some_tries() -> None:
    async with MailboxServer(FakeJmap(buffers=True)) as server:
        reader = JMAP.reader(server.url, now=FakeClock(server.api.now()))
        reader._ping = 0  # type: ignore[attr-defined]
        await drain(reader, Store())
        for _ in range(6):
            assert not await reader.wait(0.02)
        await reader.close()

    assert sum(each.path == "/jmap/events" for each in server.requests) == 3


@pytest.mark.parametrize("fault", ["html", "404", "500", "drop", "redirect(http://x.example/)"])
async def test_a_push_channel_that_fails_is_no_failure(fault: str) -> None:
    async with MailboxServer(FakeJmap()) as server:
        reader = JMAP.reader(server.url, now=FakeClock(server.api.now()))
        await drain(reader, Store())
        server.script(fault)
        assert not await reader.wait(0.05)
        await reader.close()


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("accountNotFound", "not_found"),
        ("serverFail", "server_error"),
        ("serverUnavailable", "server_error"),
        ("unknownMethod", "request_refused"),
    ],
)
async def test_an_error_of_a_method_has_a_code(kind: str, code: str) -> None:
    async with MailboxServer(FakeJmap()) as server:
        server.api.method_error = kind
        reader = JMAP.reader(server.url, now=FakeClock())
        with pytest.raises(MailboxFailure, match=code):
            await reader.fetch(None, LIMITS)
        await reader.close()


@given(
    events=st.lists(st.tuples(st.sampled_from(["state", "ping"]), st.text("ab {}", max_size=9))),
    size=st.integers(1, 7),
    end=st.sampled_from([b"\n", b"\r\n"]),
)
def test_events_are_the_same_however_they_are_cut(
    events: list[tuple[str, str]], size: int, end: bytes
) -> None:
    lines = [f"event: {name}\ndata: {data}\n\n: comment\n" for name, data in events]
    stream = "".join(lines).encode().replace(b"\n", end)
    parser = EventParser()
    found = [
        event for at in range(0, len(stream), size) for event in parser.feed(stream[at : at + size])
    ]

    assert found == events


@pytest.mark.parametrize("stream", [b"data: " + b"x" * 70_000, b"data: x\n" * 1000])
def test_an_event_without_end_is_refused(stream: bytes) -> None:
    with pytest.raises(EventStreamInvalid):
        list(EventParser().feed(stream))
