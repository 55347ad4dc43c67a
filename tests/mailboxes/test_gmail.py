"""Gmail: history, labels, Google's limits."""

import pytest

from oncebox.mailboxes.reader import MailboxFailure, PageLimits, ResyncReason
from oncebox.testing.gmail import FakeGmail, gmail_error
from oncebox.testing.mailbox_server import ApiReply, ApiRequest, MailboxServer
from tests.mailboxes.http_peers import LIMITS, PEERS, FakeClock, Store, drain, mail

GMAIL = PEERS[1]


class LimitingGmail(FakeGmail):
    """A mailbox with a limit that was reached."""

    reason = "rateLimitExceeded"

    def answer(self, request: ApiRequest) -> ApiReply:
        reply = gmail_error(403, self.reason)
        return ApiReply(status=403, body=reply.body, headers={"retry-after": "5"})


@pytest.mark.parametrize(
    ("reason", "code", "wait"),
    [
        ("rateLimitExceeded", "throttled", 5.0),
        ("userRateLimitExceeded", "throttled", 5.0),
        ("insufficientPermissions", "login_refused", 5.0),
    ],
)
async def test_a_limit_of_google_is_no_refused_login(reason: str, code: str, wait: float) -> None:
    api = LimitingGmail()
    api.reason = reason
    async with MailboxServer(api) as server:
        reader = GMAIL.reader(server.url, now=FakeClock())
        with pytest.raises(MailboxFailure) as failed:
            await reader.fetch(None, LIMITS)
        await reader.close()

    assert (failed.value.code, failed.value.retry_after) == (code, wait)
    assert failed.value.needs_operator == (code == "login_refused")


async def test_a_forgotten_history_is_a_bounded_resync() -> None:
    clock = FakeClock()
    async with MailboxServer(FakeGmail(now=clock)) as server:
        server.api.deliver(mail(0))
        clock.at += 10 * 86_400_000
        read = server.api.deliver(mail(1))
        reader = GMAIL.reader(server.url, now=clock)
        store = Store()
        await drain(reader, store)
        clock.at += 3_600_000
        new = server.api.deliver(mail(2))
        server.api.forget_history()
        page = await reader.fetch(store.cursor, LIMITS)
        await reader.close()

    assert page.resync is ResyncReason.EXPIRED
    assert {each.provider_id for each in page.mails} == {f"gmail:{read}", f"gmail:{new}"}


async def test_every_page_of_the_history_is_read() -> None:
    async with MailboxServer(FakeGmail()) as server:
        reader = GMAIL.reader(server.url, now=FakeClock(server.api.now()), since="now")
        store = Store()
        await drain(reader, store)
        ids = [server.api.deliver(mail(number)) for number in range(7)]
        await drain(reader, store, PageLimits(mails=2))
        await reader.close()

    assert store.given == [f"gmail:{id_}" for id_ in ids]


async def test_a_page_token_that_expired_loses_nothing() -> None:
    async with MailboxServer(FakeGmail()) as server:
        reader = GMAIL.reader(server.url, now=FakeClock(server.api.now()), since="now")
        store = Store()
        await drain(reader, store)
        ids = [server.api.deliver(mail(number)) for number in range(6)]
        store.commit(await reader.fetch(store.cursor, PageLimits(mails=2)))
        server.api.expire_tokens()
        await drain(reader, store, PageLimits(mails=2))
        await reader.close()

    assert set(store.given) == {f"gmail:{id_}" for id_ in ids}


async def test_mail_under_another_label_is_read_when_it_gets_the_label() -> None:
    async with MailboxServer(FakeGmail()) as server:
        reader = GMAIL.reader(server.url, now=FakeClock(server.api.now()), since="now")
        store = Store()
        await drain(reader, store)
        server.api.label = "SPAM"
        id_ = server.api.deliver(mail(1))
        await drain(reader, store)
        assert store.given == []
        server.api.add_label(id_, "INBOX")
        await drain(reader, store)
        await reader.close()

    assert store.given == [f"gmail:{id_}"]


async def test_raw_mail_is_byte_for_byte_whatever_its_length() -> None:
    async with MailboxServer(FakeGmail()) as server:
        raws = [mail(1) + b"\xff" * number for number in range(4)]
        for raw in raws:
            server.api.deliver(raw)
        reader = GMAIL.reader(server.url, now=FakeClock(server.api.now()))
        page = await reader.fetch(None, LIMITS)
        await reader.close()

    assert sorted(each.raw for each in page.mails) == sorted(raws)
    assert all(each.received_at for each in page.mails)


async def test_nothing_is_asked_but_to_read() -> None:
    async with MailboxServer(FakeGmail()) as server:
        server.api.deliver(mail(1))
        reader = GMAIL.reader(server.url, now=FakeClock(server.api.now()))
        await drain(reader, Store())
        await reader.close()

    assert {each.method for each in server.requests} == {"GET"}
