"""JMAP against a real Cyrus."""

import itertools
import json
from collections.abc import Iterator

import pytest

from oncebox.mailboxes.jmap import JmapConfig, JmapReader
from oncebox.mailboxes.reader import MailboxFailure, PageLimits, ResyncReason
from tests.mailboxes.http_peers import TLS, Store, drain, mail
from tests.support.cyrus import Cyrus

USERS = (f"user{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def cyrus() -> Iterator[Cyrus]:
    """A real server."""
    with Cyrus() as server:
        yield server


@pytest.fixture
def user(cyrus: Cyrus) -> str:
    """A user who has got one mail."""
    name = next(USERS)
    cyrus.deliver(name, mail(0))
    return name


def reader_of(cyrus: Cyrus, user: str, **fields: object) -> JmapReader:
    config = JmapConfig(url=cyrus.url, username=user, password="any", **fields)  # type: ignore[arg-type]
    return JmapReader(config, tls=TLS)


async def test_every_mail_is_read_once_and_byte_for_byte(cyrus: Cyrus, user: str) -> None:
    reader = reader_of(cyrus, user, since="all")
    for number in range(1, 7):
        cyrus.deliver(user, mail(number))
    store = Store()
    pages = [await reader.fetch(None, PageLimits(mails=3))]
    while pages[-1].has_more:
        pages.append(await reader.fetch(pages[-1].cursor, PageLimits(mails=3)))
    store.cursor = pages[-1].cursor
    cyrus.deliver(user, mail(7))
    await drain(reader, store)
    await reader.close()

    raws = [each.raw for page in pages for each in page.mails]
    assert sorted(raws) == [mail(number) for number in range(7)]
    assert len(store.given) == 1


async def test_only_new_mail_of_the_inbox_is_read(cyrus: Cyrus, user: str) -> None:
    reader = reader_of(cyrus, user)
    store = Store()
    await drain(reader, store)
    cyrus.deliver(user, mail(2), folder="Trash")
    cyrus.deliver(user, mail(3))
    await drain(reader, store)
    probe = await reader.probe()
    await reader.close()

    assert len(store.given) == 1
    assert "Trash" in probe.folders
    assert probe.mails == 2


async def test_an_unknown_state_is_a_resync(cyrus: Cyrus, user: str) -> None:
    reader = reader_of(cyrus, user, since="all")
    for state in ("nonsense", "-1", ""):
        cursor = json.dumps({"at": {"state": state}})
        page = await reader.fetch(cursor, PageLimits())
        assert page.resync is ResyncReason.EXPIRED
        assert len(page.mails) == 1
    await reader.close()


async def test_an_announced_channel_without_events_is_waited_out(cyrus: Cyrus, user: str) -> None:
    """Debian's build names an EventSource, and answers 204: no content, do not try again."""
    reader = reader_of(cyrus, user)
    await drain(reader, Store())
    assert not await reader.wait(0.1)
    await reader.close()


async def test_an_account_of_another_user_is_not_found(cyrus: Cyrus, user: str) -> None:
    reader = reader_of(cyrus, user, account_id="somebody")
    with pytest.raises(MailboxFailure, match="not_found"):
        await reader.fetch(None, PageLimits())
    await reader.close()
