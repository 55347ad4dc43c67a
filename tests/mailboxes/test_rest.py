"""Inbox APIs by tables: cursors, links, limits, JSON bodies, and tables of users."""

from typing import Any

import msgspec
import pytest

from oncebox.errors import ConfigInvalid
from oncebox.mailboxes.http_readers import http_config
from oncebox.mailboxes.inbox_apis import KNOWN_APIS, InboxApi, RestConfig, check_inbox_api
from oncebox.mailboxes.json_mail import JsonFields
from oncebox.mailboxes.reader import MailboxFailure, PageLimits, ResyncReason
from oncebox.mailboxes.rest import RestReader
from oncebox.testing.inbox_apis import INBOX, FakeAgentMail, FakeMailhook, FakeMailpit
from oncebox.testing.mailbox_server import (
    ApiReply,
    ApiRequest,
    FakeMailbox,
    MailboxServer,
    iso_time,
    json_reply,
)
from tests.mailboxes.http_peers import BEGIN, LIMITS, PEERS, TLS, FakeClock, Store, drain, mail
from tests.project.tree import ROOT

PEER = {peer.name: peer for peer in PEERS}


class CursorApi(FakeMailbox):
    """A small API with cursors in its answers, as a user may have one."""

    #: cursors from before are unknown
    epoch = 0
    limit_reached = False

    def answer(self, request: ApiRequest) -> ApiReply:
        if self.limit_reached:
            reset = str(self.now() // 1000 + 42)
            return json_reply({}, 429, **{"x-ratelimit-reset": reset})
        if request.path.startswith("/m/"):
            return self.raw_reply(request.path.removeprefix("/m/"))
        epoch, _, after = request.get("from").partition(":")
        if epoch and int(epoch) != self.epoch:
            return json_reply({"error": "cursor"}, 410)
        found = [each for each in self.mails.values() if each.number > int(after or 0)]
        page = found[: int(request.get("n"))]
        last = page[-1].number if page else int(after or 0)
        items = [{"key": {"id": each.id}, "when": each.at} for each in page]
        return json_reply({"page": {"list": items}, "next": f"{self.epoch}:{last}"})


TABLE = InboxApi(
    list_path="/list",
    list_query={"n": "{limit}", "box": "{inbox}"},
    items="page.list",
    id="key.id",
    time="when",
    position="cursor",
    cursor_query="from",
    next_cursor="next",
    message_path="/m/{id}",
    retry_header="x-ratelimit-reset",
)


def generic(server: MailboxServer[Any], clock: FakeClock, table: InboxApi = TABLE) -> RestReader:
    config = RestConfig(
        api="generic-rest", url=server.url, inbox="box-1", key="key", table=table, since="all"
    )
    return RestReader(config, tls=TLS, now=clock)


async def test_a_table_of_a_user_reads_an_api_with_cursors() -> None:
    clock = FakeClock()
    async with MailboxServer(CursorApi(now=clock)) as server:
        ids = [server.api.deliver(mail(number)) for number in range(5)]
        reader = generic(server, clock)
        store = Store()
        await drain(reader, store, PageLimits(mails=2))
        ids.append(server.api.deliver(mail(5)))
        await drain(reader, store, PageLimits(mails=2))
        await reader.close()

    assert store.given == [f"rest:{id_}" for id_ in ids]
    assert {each.get("box") for each in server.requests} == {"box-1", ""}


async def test_an_unknown_cursor_is_a_bounded_resync() -> None:
    clock = FakeClock()
    async with MailboxServer(CursorApi(now=clock)) as server:
        server.api.deliver(mail(0))
        clock.at += 10 * 86_400_000
        read = server.api.deliver(mail(1))
        reader = generic(server, clock)
        store = Store()
        await drain(reader, store)
        server.api.epoch += 1
        new = server.api.deliver(mail(2))
        page = await reader.fetch(store.cursor, LIMITS)
        await reader.close()

    assert page.resync is ResyncReason.EXPIRED
    assert [each.provider_id for each in page.mails] == [f"rest:{read}", f"rest:{new}"]


async def test_a_limit_is_respected_as_the_table_says() -> None:
    clock = FakeClock(BEGIN)
    async with MailboxServer(CursorApi(now=clock)) as server:
        server.api.limit_reached = True
        reader = generic(server, clock)
        with pytest.raises(MailboxFailure) as failed:
            await reader.fetch(None, LIMITS)
        await reader.close()

    assert (failed.value.code, failed.value.retry_after) == ("throttled", 42.0)


class OtherItems(FakeMailbox):
    """A list of whatever a test says."""

    said: Any = None

    def answer(self, request: ApiRequest) -> ApiReply:
        if request.path.startswith("/m/"):
            return ApiReply(body=mail(1))
        return json_reply({"page": {"list": self.said}, "next": "x"})


@pytest.mark.parametrize(
    "said",
    [
        None, "text", {"0": 1}, [None], [{}], [{"key": {"id": "1"}}],
        [{"key": {"id": "1"}, "when": "yesterday"}], [{"key": {"id": None}, "when": 1}],
        [{"key": {"id": "1"}, "when": True}], [{"key": {"id": "1"}, "when": -5}],
        [{"key": {"id": "x" * 2000}, "when": 1}], [{"key": {"id": "a\x00b"}, "when": 1}],
        [{"key": {"id": "1"}, "when": 1e300}],
    ],
)  # fmt: skip
async def test_items_of_other_types_are_an_invalid_answer(said: Any) -> None:
    async with MailboxServer(OtherItems()) as server:
        server.api.said = said
        reader = generic(server, FakeClock())
        with pytest.raises(MailboxFailure, match="answer_invalid"):
            await reader.fetch(None, LIMITS)
        await reader.close()


async def test_an_id_of_a_hostile_server_stays_one_part_of_the_path() -> None:
    async with MailboxServer(OtherItems()) as server:
        server.api.said = [{"key": {"id": "../../admin?x=1#y"}, "when": 1}]
        reader = generic(server, FakeClock())
        await reader.fetch(None, LIMITS)
        await reader.close()

    assert server.requests[-1].target == "/m/..%2F..%2Fadmin%3Fx%3D1%23y"


async def test_json_instead_of_a_mail_is_no_mail() -> None:
    async with MailboxServer(OtherItems()) as server:
        server.api.said = [{"key": {"id": "1"}, "when": 1}]
        reader = generic(
            server, FakeClock(), msgspec.structs.replace(TABLE, message_path="/x/{id}")
        )
        page = await reader.fetch(None, LIMITS)
        await reader.close()

    assert page.mails == ()


async def test_a_signed_link_is_followed_without_the_key() -> None:
    async with MailboxServer(FakeAgentMail()) as server:
        server.api.deliver(mail(1))
        reader = PEER["agentmail"].reader(server.url, now=FakeClock(server.api.now()))
        page = await reader.fetch(None, LIMITS)
        await reader.close()

    assert page.mails[0].raw == mail(1)
    assert page.mails[0].recipients == ("ann@example.com",)
    assert "authorization" not in server.requests[-1].headers


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "https://agentmail.to.evil.example", "http://cdn.agentmail.to"],
)
async def test_a_signed_link_to_a_foreign_host_is_not_followed(origin: str) -> None:
    async with MailboxServer(FakeAgentMail()) as server:
        server.api.deliver(mail(1))
        server.api.link_origin = origin
        reader = PEER["agentmail"].reader(server.url, now=FakeClock(server.api.now()))
        with pytest.raises(MailboxFailure, match="link_refused"):
            await reader.fetch(None, LIMITS)
        await reader.close()


async def test_messages_of_json_are_the_same_bytes_at_every_fetch() -> None:
    async with MailboxServer(FakeMailhook()) as server:
        server.api.deliver(mail(1))
        raws = []
        for _ in range(2):
            reader = PEER["mailhook"].reader(server.url, now=FakeClock(server.api.now()))
            raws.append((await reader.fetch(None, LIMITS)).mails[0].raw)
            await reader.close()

    assert raws[0] == raws[1]
    assert b"Message-ID: <1@example.com>" in raws[0]
    assert b"code is 000001" in raws[0]


async def test_mail_that_appears_late_with_an_old_time_is_found() -> None:
    clock = FakeClock()
    async with MailboxServer(FakeMailpit(now=clock)) as server:
        reader = PEER["mailpit"].reader(server.url, now=clock)
        store = Store()
        server.api.deliver(mail(1))
        await drain(reader, store)
        clock.at += 60_000
        late = server.api.deliver(mail(2), at=clock.at - 500_000)
        future = server.api.deliver(mail(3), at=clock.at + 86_400_000)
        await drain(reader, store)
        clock.at += 60_000
        after = server.api.deliver(mail(4))
        await drain(reader, store)
        await drain(reader, store)
        await reader.close()

    assert sorted(store.given[1:]) == sorted(f"rest:{id_}" for id_ in (late, future, after))


async def test_a_server_whose_clock_was_ahead_for_a_while_hides_no_later_mail() -> None:
    theirs, own = FakeClock(), FakeClock()
    async with MailboxServer(FakeMailpit(now=theirs)) as server:
        reader = PEER["mailpit"].reader(server.url, now=own)
        store = Store()
        ids: list[str] = []
        for ahead in (0, 3_600_000, 0, 0):
            own.at += 60_000
            theirs.at = own.at + ahead
            ids.append(server.api.deliver(mail(len(ids))))
            await drain(reader, store)
        await reader.close()

    assert store.given == [f"rest:{id_}" for id_ in ids]


async def test_reading_from_now_on_misses_nothing_when_the_clock_of_a_server_was_ahead() -> None:
    own = FakeClock()
    theirs = FakeClock(own.at + 3_600_000)
    async with MailboxServer(FakeMailpit(now=theirs)) as server:
        reader = PEER["mailpit"].reader(server.url, now=own, since="now")
        store = Store()
        await drain(reader, store)
        own.at += 60_000
        theirs.at = own.at
        new = server.api.deliver(mail(1))
        await drain(reader, store)
        await reader.close()

    assert store.given == [f"rest:{new}"]


async def test_a_list_that_cannot_be_filtered_is_not_read_to_its_end() -> None:
    clock = FakeClock()
    async with MailboxServer(FakeMailpit(now=clock)) as server:
        for number in range(350):
            clock.at += 60_000
            server.api.deliver(mail(number))
        reader = PEER["mailpit"].reader(server.url, now=clock, since="now")
        await drain(reader, Store(), PageLimits(mails=50))
        await reader.close()

    assert sum(each.path == "/api/v1/messages" for each in server.requests) < 4


BAD_TABLES: list[tuple[dict[str, Any], str]] = [
    ({"list_path": "list"}, "list_path"),
    ({"list_path": "/../x"}, "list_path"),
    ({"list_path": "//evil.example/x"}, "list_path"),
    ({"list_path": "/{other}"}, "list_path"),
    ({"list_path": "/{id}"}, "message_path"),
    ({"message_path": "/m"}, "message_path"),
    ({"list_query": {"a b": "1"}}, "list_query"),
    ({"list_query": {"n": "{other}"}}, "list_query"),
    ({"items": "a..b"}, "items"),
    ({"items": "a[0]"}, "items"),
    ({"id": ""}, "id is a dotted name"),
    ({"time": "__class__.x y"}, "time"),
    ({"next_cursor": ""}, "next_cursor"),
    ({"item_cursor": "x"}, "next_cursor"),
    ({"cursor_query": "a&b"}, "cursor_query"),
    ({"auth_header": "X-Key"}, "auth_header"),
    ({"retry_header": "a b"}, "retry_header"),
    ({"position": "since", "paging": "number"}, "page_query"),
    ({"position": "since", "paging": "token", "page_query": "p"}, "next_page"),
    ({"position": "since", "body": "link"}, "link"),
    ({"position": "since", "order": "oldest_first"}, "oldest"),
    ({"fields": {"subject": "a b"}}, "fields.subject"),
    ({"position": "random"}, "position"),
    ({"page_size": 5000}, "page_size"),
    ({"headers": {}}, "headers"),
]


@pytest.mark.parametrize(("changes", "says"), BAD_TABLES)
def test_a_table_that_cannot_work_is_refused(changes: dict[str, Any], says: str) -> None:
    table = msgspec.to_builtins(TABLE) | changes
    fields = {"type": "rest", "api": "generic-rest", "url": "https://x.example", "inbox": "i"}
    with pytest.raises(ConfigInvalid, match=says):
        http_config(**fields, key="k", table=table)


@pytest.mark.parametrize("name", KNOWN_APIS)
def test_the_tables_that_we_ship_are_valid(name: str) -> None:
    check_inbox_api(KNOWN_APIS[name].table)


async def test_times_may_be_seconds_milliseconds_or_text() -> None:
    for when in (BEGIN // 1000, BEGIN, BEGIN / 1000, iso_time(BEGIN)):
        async with MailboxServer(OtherItems()) as server:
            server.api.said = [{"key": {"id": "1"}, "when": when}]
            reader = generic(server, FakeClock())
            page = await reader.fetch(None, LIMITS)
            await reader.close()
            assert page.mails[0].received_at == BEGIN


class JsonItems(OtherItems):
    """Messages of JSON."""

    def answer(self, request: ApiRequest) -> ApiReply:
        if request.path.startswith("/m/"):
            return json_reply({"from": "ann@example.com", "subject": "Hi", "text": "hello"})
        return super().answer(request)


@pytest.mark.parametrize(
    "when", [253_402_300_800_000, 999_999_999_999_999, "9999-12-31T23:59:59-01:00"]
)
async def test_a_time_after_the_year_9999_holds_no_mail_up(when: Any) -> None:
    async with MailboxServer(JsonItems()) as server:
        server.api.said = [
            {"key": {"id": "1"}, "when": when}, {"key": {"id": "2"}, "when": BEGIN},
        ]  # fmt: skip
        reader = generic(server, FakeClock(), msgspec.structs.replace(TABLE, body="json"))
        page = await reader.fetch(None, LIMITS)
        await reader.close()

    assert [each.provider_id for each in page.mails] == ["rest:1", "rest:2"]
    assert b"Date: Fri, 31 Dec 9999 23:59:59" in page.mails[0].raw


def test_the_page_names_every_api_and_every_field_of_a_table() -> None:
    page = (ROOT / "docs" / "reference" / "mailbox-apis.md").read_text()
    names = [*KNOWN_APIS, *InboxApi.__struct_fields__, *JsonFields.__struct_fields__]

    assert [name for name in names if f"`{name}`" not in page] == []
    assert [each.url for each in KNOWN_APIS.values() if each.url and each.url not in page] == []


def test_an_inbox_is_named_in_the_account() -> None:
    config = RestConfig(api="agentmail", inbox=INBOX, key="k")

    assert config.account == "inbox-1@api.agentmail.to"
