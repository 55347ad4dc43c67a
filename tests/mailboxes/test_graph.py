"""Microsoft Graph: delta links, immutable ids, links that lead elsewhere."""

import pytest

from oncebox.mailboxes.reader import MailboxFailure, PageLimits, ResyncReason
from oncebox.testing.graph import FakeGraph
from oncebox.testing.mailbox_server import ApiReply, ApiRequest, MailboxServer, json_reply
from tests.mailboxes.http_peers import LIMITS, PEERS, FakeClock, Store, drain, mail

GRAPH = PEERS[2]


class ForgetfulGraph(FakeGraph):
    """Refuses a link by a code, with a status of its own."""

    refusal = (400, "SyncStateNotFound")

    def answer(self, request: ApiRequest) -> ApiReply:
        if request.get("$deltatoken"):
            status, code = self.refusal
            return json_reply({"error": {"code": code}}, status)
        return super().answer(request)


@pytest.mark.parametrize(
    "refusal", [(400, "SyncStateNotFound"), (404, "syncStateInvalid"), (410, "")]
)
async def test_a_forgotten_link_is_a_bounded_resync(refusal: tuple[int, str]) -> None:
    clock = FakeClock()
    api = ForgetfulGraph(now=clock)
    api.refusal = refusal
    async with MailboxServer(api) as server:
        server.api.deliver(mail(0))
        clock.at += 10 * 86_400_000
        read = server.api.deliver(mail(1))
        reader = GRAPH.reader(server.url, now=clock)
        store = Store()
        await drain(reader, store)
        clock.at += 3_600_000
        new = server.api.deliver(mail(2))
        page = await reader.fetch(store.cursor, LIMITS)
        await reader.close()

    assert page.resync is ResyncReason.EXPIRED
    assert {each.provider_id for each in page.mails} == {f"graph:{read}", f"graph:{new}"}


async def test_mail_that_is_read_or_deleted_there_is_not_given_again() -> None:
    async with MailboxServer(FakeGraph()) as server:
        ids = [server.api.deliver(mail(number)) for number in range(3)]
        reader = GRAPH.reader(server.url, now=FakeClock(server.api.now()))
        store = Store()
        await drain(reader, store)
        server.api.touch(ids[0])
        server.api.remove(ids[1])
        page = await reader.fetch(store.cursor, LIMITS)
        await reader.close()

    assert len(store.given) == 3
    assert (page.mails, page.skipped) == ((), ())


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "http://127.0.0.2", "https://127.0.0.1"]
)
async def test_a_link_to_another_origin_is_not_followed(origin: str) -> None:
    async with MailboxServer(FakeGraph()) as server:
        server.api.link_origin = origin
        reader = GRAPH.reader(server.url, now=FakeClock())
        with pytest.raises(MailboxFailure, match="link_refused"):
            await reader.fetch(None, LIMITS)
        await reader.close()


async def test_a_redirect_is_not_followed() -> None:
    async with MailboxServer(FakeGraph()) as server:
        server.script(f"redirect({server.url}/v1.0/me)")
        reader = GRAPH.reader(server.url, now=FakeClock())
        with pytest.raises(MailboxFailure, match="redirected"):
            await reader.fetch(None, LIMITS)
        await reader.close()

    assert len(server.requests) == 1


async def test_the_link_of_a_forged_cursor_is_not_followed() -> None:
    async with MailboxServer(FakeGraph()) as server:
        reader = GRAPH.reader(server.url, now=FakeClock())
        with pytest.raises(MailboxFailure, match="link_refused"):
            await reader.fetch('{"at":{"link":"https://evil.example/x"}}', LIMITS)
        await reader.close()


async def test_the_same_page_for_ever_is_an_error() -> None:
    async with MailboxServer(FakeGraph()) as server:
        for number in range(3):
            server.api.deliver(mail(number))
        server.api.is_stuck = True
        reader = GRAPH.reader(server.url, now=FakeClock(server.api.now()))
        with pytest.raises(MailboxFailure, match="no_progress"):
            await drain(reader, Store())
        await reader.close()

    assert len(server.requests) < 30


async def test_pages_without_mail_are_passed_over() -> None:
    async with MailboxServer(FakeGraph()) as server:
        server.api.page_size = 1
        ids = [server.api.deliver(mail(number)) for number in range(12)]
        for id_ in ids[:-1]:
            server.api.remove(id_)
        reader = GRAPH.reader(server.url, now=FakeClock(server.api.now()))
        page = await reader.fetch(None, PageLimits(mails=5))
        await reader.close()

    assert [each.provider_id for each in page.mails] == [f"graph:{ids[-1]}"]


async def test_ids_are_asked_for_that_survive_a_move() -> None:
    async with MailboxServer(FakeGraph()) as server:
        server.api.deliver(mail(1))
        reader = GRAPH.reader(server.url, now=FakeClock(server.api.now()))
        await drain(reader, Store())
        await reader.close()

    assert all('IdType="ImmutableId"' in each.headers["prefer"] for each in server.requests)
