"""What all HTTP readers promise: nothing is lost, nothing is given twice, nothing is unbounded."""

import asyncio
from collections import Counter
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncebox.errors import ConfigInvalid
from oncebox.mailboxes.http_readers import http_config, open_http_reader
from oncebox.mailboxes.reader import MailboxFailure, MailboxPage, PageLimits, ResyncReason
from oncebox.testing.mailbox_server import FakeMailbox, MailboxServer
from tests.mailboxes.http_peers import (
    BEGIN,
    LIMITS,
    PEERS,
    TLS,
    FakeClock,
    Peer,
    Store,
    drain,
    mail,
    provider_id,
)
from tests.support import certificates
from tests.support.ports import free_port

EVERY = pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("arrive"), st.integers(0, 400)),
        st.tuples(st.just("page"), st.integers(1, 4)),
        st.tuples(st.just("crash"), st.integers(1, 4)),
        st.tuples(st.just("expire"), st.just(0)),
        st.tuples(st.just("reopen"), st.just(0)),
    ),
    max_size=20,
)


class Story:
    """Arrivals, pages, crashes and forgotten cursors in some order."""

    def __init__(self, peer: Peer, skew: int) -> None:
        self.peer = peer
        self.clock = FakeClock()
        self.skew = skew
        self.fake: FakeMailbox = peer.fake(now=self.clock)
        self.store = Store()
        #: mails that may be given again, for a forgotten cursor or a first listing
        self.replayed: set[str] = set()
        self.delivered: list[str] = []

    async def run(self, before: int, steps: list[tuple[str, int]]) -> None:
        async with MailboxServer(self.fake) as server:
            self.server = server
            for _ in range(before):
                self.arrive(60)
            self.open()
            try:
                for word, number in steps:
                    await self.step(word, number)
                await drain(self.reader, self.store, PageLimits(mails=3))
                await drain(self.reader, self.store, PageLimits(mails=3))
            finally:
                await self.reader.close()

    def open(self) -> None:
        small = {"page_size": 3} if self.peer.is_rest else {}
        self.reader = self.peer.reader(
            self.server.url, now=lambda: self.clock.at + self.skew, **small
        )

    async def step(self, word: str, number: int) -> None:
        if word == "arrive":
            self.arrive(number)
        elif word == "page":
            page = await self.reader.fetch(self.store.cursor, PageLimits(mails=number))
            self.store.commit(page)
        elif word == "crash":
            # The page is lost with its cursor.
            await self.reader.fetch(self.store.cursor, PageLimits(mails=number))
        elif word == "expire":
            self.peer.expire(self.fake)
            self.replayed.update(self.delivered)
        else:
            await self.reader.close()
            self.open()

    def arrive(self, seconds: int) -> None:
        self.clock.at += seconds * 1000 + 1
        id_ = provider_id(self.peer, self.fake.deliver(mail(len(self.delivered))))
        self.delivered.append(id_)
        if self.peer.overlaps and self.store.has_more:
            self.replayed.add(id_)


@EVERY
@settings(max_examples=25, deadline=None)
@given(before=st.integers(0, 8), steps=STEPS, skew=st.sampled_from([0, -7_200_000, 7_200_000]))
def test_nothing_is_lost_and_nothing_is_given_twice(
    peer: Peer, before: int, steps: list[tuple[str, int]], skew: int
) -> None:
    story = Story(peer, skew)

    asyncio.run(story.run(before, steps))

    counts = Counter(story.store.given)
    assert set(counts) == set(story.delivered)
    twice = {id_ for id_, count in counts.items() if count > 1}
    # APIs that know only timestamps recognise what they gave even then.
    assert twice <= (set() if peer.is_rest else story.replayed)


@EVERY
async def test_a_cursor_is_a_value(peer: Peer) -> None:
    clock = FakeClock()
    async with MailboxServer(peer.fake(now=clock)) as server:
        for number in range(6):
            clock.at += 1000
            server.api.deliver(mail(number))
        reader = peer.reader(server.url, now=clock)
        first = await reader.fetch(None, PageLimits(mails=2))
        second = await reader.fetch(first.cursor, PageLimits(mails=2))
        again = await reader.fetch(first.cursor, PageLimits(mails=2))
        await reader.close()

    assert [each.provider_id for each in second.mails] == [each.provider_id for each in again.mails]
    assert [each.raw for each in second.mails] == [each.raw for each in again.mails]
    assert first.resync is ResyncReason.FIRST


@EVERY
async def test_without_a_beginning_only_new_mail_is_read(peer: Peer) -> None:
    clock = FakeClock()
    async with MailboxServer(peer.fake(now=clock)) as server:
        server.api.deliver(mail(1))
        clock.at += 3_600_000
        reader = peer.reader(server.url, now=clock, since="now")
        store = Store()
        await drain(reader, store)
        assert store.given == []

        clock.at += 1000
        new = server.api.deliver(mail(2))
        await drain(reader, store)
        await reader.close()

    assert store.given == [provider_id(peer, new)]


@EVERY
async def test_mail_of_some_days_is_read(peer: Peer) -> None:
    clock = FakeClock()
    async with MailboxServer(peer.fake(now=clock)) as server:
        server.api.deliver(mail(1), at=BEGIN - 3 * 86_400_000)
        kept = server.api.deliver(mail(2), at=BEGIN - 86_400_000)
        reader = peer.reader(server.url, now=clock, since=2)
        store = Store()
        await drain(reader, store)
        await reader.close()

    assert store.given == [provider_id(peer, kept)]


@EVERY
async def test_an_unreadable_cursor_is_a_resync(peer: Peer) -> None:
    async with MailboxServer(peer.fake()) as server:
        reader = peer.reader(server.url, now=FakeClock())
        page = await reader.fetch("not a cursor", LIMITS)
        await reader.close()

    assert page.resync is ResyncReason.EXPIRED


@EVERY
async def test_a_mail_that_is_too_large_is_skipped_and_holds_nothing_up(peer: Peer) -> None:
    async with MailboxServer(peer.fake()) as server:
        ids = [server.api.deliver(mail(number, size)) for number, size in enumerate([0, 90_000, 0])]
        reader = peer.reader(server.url, now=FakeClock(server.api.now()))
        store = Store()
        await drain(reader, store, PageLimits(mail_bytes=2000))
        await reader.close()

    assert sorted(store.given) == sorted(provider_id(peer, ids[at]) for at in (0, 2))
    assert store.skipped == [(provider_id(peer, ids[1]), "too_large")]


@EVERY
async def test_a_page_has_no_more_bytes_than_allowed(peer: Peer) -> None:
    async with MailboxServer(peer.fake()) as server:
        for number in range(5):
            server.api.deliver(mail(number, 4000))
        reader = peer.reader(server.url, now=FakeClock(server.api.now()))
        pages: list[MailboxPage] = []
        cursor = None
        while not pages or pages[-1].has_more:
            pages.append(await reader.fetch(cursor, PageLimits(page_bytes=6000)))
            cursor = pages[-1].cursor
        await reader.close()

    sizes = [sum(len(each.raw) for each in page.mails) for page in pages]
    assert sum(len(page.mails) for page in pages) == 5
    assert max(sizes) < 12_000


@EVERY
async def test_a_mail_that_cannot_be_downloaded_holds_nothing_up_and_is_tried_for_a_day(
    peer: Peer,
) -> None:
    clock = FakeClock()
    async with MailboxServer(peer.fake(now=clock)) as server:
        ids = [server.api.deliver(mail(number)) for number in range(3)]
        server.api.broken = {ids[0], ids[1]}
        reader = peer.reader(server.url, now=clock)
        store = Store()
        await drain(reader, store)
        assert store.given == [provider_id(peer, ids[2])]
        assert store.skipped == []

        server.api.broken = {ids[1]}
        for _ in range(4):
            await drain(reader, store)
        assert store.given == [provider_id(peer, ids[2]), provider_id(peer, ids[0])]

        clock.at += 2 * 86_400_000
        await drain(reader, store)
        await reader.close()

    assert store.skipped == [(provider_id(peer, ids[1]), "unreadable")]


@EVERY
async def test_when_many_downloads_fail_the_server_is_not_believed(peer: Peer) -> None:
    async with MailboxServer(peer.fake()) as server:
        server.api.broken = {server.api.deliver(mail(number)) for number in range(30)}
        reader = peer.reader(server.url, now=FakeClock(server.api.now()))
        with pytest.raises(MailboxFailure, match="server_error"):
            await drain(reader, Store())
        await reader.close()


FAULTS = [
    ("401", "login_refused", True, None),
    ("403", "login_refused", True, None),
    ("404", "not_found", True, None),
    ("500", "server_error", False, None),
    ("503(7)", "server_error", False, 7.0),
    ("429(3)", "throttled", False, 3.0),
    ("429", "throttled", False, None),
    ("429(Thu, 01 Jan 1970 00:00:00 GMT)", "throttled", False, 0.0),
    ("html", "answer_invalid", False, None),
    ("wrong_types", "answer_invalid", False, None),
    ("huge", "answer_too_large", False, None),
    ("endless", "answer_too_large", False, None),
    ("drop", "server_closed", False, None),
    ("silence", "timed_out", False, None),
    ("redirect(http://127.0.0.1:1/elsewhere)", "redirected", True, None),
]


@EVERY
@pytest.mark.parametrize(("fault", "code", "lasts", "wait"), FAULTS, ids=str)
async def test_a_fault_has_its_code(
    peer: Peer, fault: str, code: str, lasts: bool, wait: float | None
) -> None:
    async with MailboxServer(peer.fake()) as server:
        server.always(fault)
        reader = peer.reader(server.url, now=FakeClock())
        with pytest.raises(MailboxFailure) as failed:
            await reader.fetch(None, PageLimits(within=0.3 if fault == "silence" else 20))
        server.always(None)
        id_ = server.api.deliver(mail(1))
        store = Store()
        await drain(reader, store)
        await reader.close()

    assert (failed.value.code, failed.value.needs_operator) == (code, lasts)
    assert failed.value.retry_after == wait
    assert store.given == [provider_id(peer, id_)]  # the next call connects again


@EVERY
async def test_retry_after_may_be_a_date(peer: Peer) -> None:
    clock = FakeClock()
    date = formatdate(clock.at / 1000 + 90, usegmt=True)
    async with MailboxServer(peer.fake(now=clock)) as server:
        server.always(f"429({date})")
        reader = peer.reader(server.url, now=clock)
        with pytest.raises(MailboxFailure) as failed:
            await reader.fetch(None, LIMITS)
        await reader.close()

    assert failed.value.retry_after == 90


@EVERY
async def test_where_nobody_listens_it_says_so(peer: Peer) -> None:
    reader = peer.reader(f"http://127.0.0.1:{free_port()}", now=FakeClock())
    with pytest.raises(MailboxFailure, match="connect_failed"):
        await reader.fetch(None, LIMITS)
    await reader.close()


@EVERY
async def test_a_certificate_that_nobody_trusts_is_refused(peer: Peer, tmp_path: Path) -> None:
    shown, trusted = certificates.make(tmp_path)
    async with MailboxServer(peer.fake(), tls=shown) as server:
        id_ = server.api.deliver(mail(1))
        reader = peer.reader(server.url, now=FakeClock(server.api.now()))
        with pytest.raises(MailboxFailure, match="certificate_refused") as failed:
            await reader.fetch(None, LIMITS)
        await reader.close()
        reader = peer.reader(server.url, now=FakeClock(server.api.now()), tls=trusted)
        store = Store()
        await drain(reader, store)
        await reader.close()

    assert failed.value.needs_operator
    assert store.given == [provider_id(peer, id_)]


@EVERY
async def test_a_web_page_instead_of_a_mail_is_no_mail(peer: Peer) -> None:
    async with MailboxServer(peer.fake()) as server:
        server.api.deliver(b"<!DOCTYPE html><html>Log in, please</html>")
        reader = peer.reader(server.url, now=FakeClock(server.api.now()))
        store = Store()
        await drain(reader, store)
        await reader.close()

    if peer.name not in {"mailhook", "gmail"}:  # both wrap the mail in JSON
        assert store.given == []


@EVERY
async def test_a_probe_connects_and_reads_no_mail(peer: Peer) -> None:
    async with MailboxServer(peer.fake()) as server:
        server.api.deliver(mail(1))
        reader = peer.reader(server.url, now=FakeClock())
        probe = await reader.probe()
        await reader.close()

    assert probe.capabilities
    assert probe.mails in {None, 1}
    assert not any("raw" in each.target or "download" in each.target for each in server.requests)


@EVERY
async def test_neither_a_reader_nor_its_configuration_shows_a_secret(peer: Peer) -> None:
    reader = peer.reader("http://127.0.0.1:1", now=FakeClock())
    texts = [repr(reader), repr(getattr(reader, "_config", "")), repr(vars(reader))]
    await reader.close()

    assert not any("'key'" in text or "Bearer" in text for text in texts)


CONFIGS: list[dict[str, Any]] = [
    {"type": "jmap", "url": "https://api.example.com/jmap/session", "api_token": "sesame"},
    {
        "type": "jmap",
        "url": "https://mail.example.com/jmap",
        "username": "ann",
        "password": "sesame",
    },
    {"type": "gmail", "access_token": "sesame"},
    {"type": "graph", "user": "ann@example.com", "access_token": "sesame"},
    {"type": "rest", "api": "agentmail", "inbox": "a@agentmail.to", "key": "sesame"},
    {"type": "rest", "api": "mailpit", "url": "http://mailpit:8025"},
]


@pytest.mark.parametrize("fields", CONFIGS)
async def test_a_configuration_opens_a_reader(fields: dict[str, Any]) -> None:
    config = http_config(**fields)
    reader = open_http_reader(config, tls=TLS)
    await reader.close()

    assert "sesame" not in repr(config) + config.account
    assert config.account


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"type": "jmap", "url": "http://mail.example.com/jmap", "api_token": "x"}, "without TLS"),
        ({"type": "jmap", "url": "ftp://mail.example.com/", "api_token": "x"}, "URL is invalid"),
        ({"type": "jmap", "url": "https://a:b@mail.example.com/", "api_token": "x"}, "URL"),
        ({"type": "jmap", "url": "https://m.example/", "api_token": "a\r\nb"}, "API token"),
        (
            {"type": "jmap", "url": "https://m.example/", "username": "a:b", "password": "x"},
            "colon",
        ),
        (
            {"type": "jmap", "url": "https://m.example/", "hosts": ["a/b"], "api_token": "x"},
            "hosts",
        ),
        ({"type": "gmail", "label": "two words"}, "label"),
        ({"type": "gmail", "user": ""}, "user"),
        ({"type": "gmail", "since": "yesterday"}, "since"),
        ({"type": "graph", "folder": ""}, "folder"),
        ({"type": "rest", "api": "nobody"}, "generic-rest"),
        ({"type": "rest", "api": "agentmail", "key": "x"}, "inbox"),
        ({"type": "rest", "api": "agentmail", "inbox": "i"}, "API key"),
        ({"type": "rest", "api": "mailpit"}, "URL"),
        ({"type": "rest", "api": "mailpit", "url": "http://m:1", "key": "x"}, "without TLS"),
        ({"type": "rest", "api": "mailpit", "url": "http://m:1", "ca": "no"}, "PEM"),
        ({"type": "imap"}, "invalid"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigInvalid, match=says):
        http_config(**fields)


async def test_without_credentials_no_reader_is_opened() -> None:
    for fields in (
        {"type": "gmail"},
        {"type": "graph"},
        {"type": "jmap", "url": "https://j.example/"},
    ):
        with pytest.raises(ConfigInvalid):
            open_http_reader(http_config(**fields), tls=TLS)


class Tokens:
    """Tokens of which the first is no longer valid."""

    def __init__(self, *tokens: str) -> None:
        self.left = list(tokens)
        self.discarded: list[str] = []

    async def get(self) -> str:
        return self.left[0]

    def discard(self, token: str) -> None:
        self.discarded.append(token)
        if self.left[1:] and token == self.left[0]:
            del self.left[0]


@pytest.mark.parametrize("peer", PEERS[:3], ids=lambda peer: peer.name)
async def test_a_refused_token_is_replaced_once(peer: Peer) -> None:
    async with MailboxServer(peer.fake()) as server:
        server.api.deliver(mail(1))
        tokens = Tokens("old", "key")
        reader = peer.reader(server.url, now=FakeClock(server.api.now()), tokens=tokens)
        store = Store()
        await drain(reader, store)
        await reader.close()
        assert len(store.given) == 1
        assert tokens.discarded == ["old"]

        reader = peer.reader(server.url, now=FakeClock(), tokens=Tokens("old", "older"))
        before = len(server.requests)
        with pytest.raises(MailboxFailure, match="login_refused"):
            await reader.fetch(None, LIMITS)
        await reader.close()

    assert len(server.requests) - before == 2
