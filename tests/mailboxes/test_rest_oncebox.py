"""Another Oncebox as a mailbox: a real service, read through its own API."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from oncebox.mailboxes.inbox_apis import RestConfig
from oncebox.mailboxes.reader import MailboxFailure, PageLimits, ResyncReason
from oncebox.mailboxes.rest import RestReader
from tests.mailboxes.http_peers import TLS, Store, drain
from tests.support import databases
from tests.support.letters import mail
from tests.support.running import Running, running
from tests.support.sorter import Sorter

INBOX = "inb_1"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Running]:
    """A real service."""
    with running(databases.fresh_sqlite(tmp_path), tmp_path / "data") as started:
        started.call(Sorter(started.box).add_inbox(INBOX))
        yield started


def file(service: Running, first: int, last: int) -> list[str]:
    raws = [raw_mail(number) for number in range(first, last)]
    return service.call(Sorter(service.box).file(INBOX, *raws))


def raw_mail(number: int) -> bytes:
    return mail(message_id=f"<{number}@x>", subject=f"Number {number}")


def reader_of(service: Running, **fields: str) -> RestReader:
    given = {"api": "oncebox", "url": service.url, "inbox": INBOX, "key": service.key, **fields}
    return RestReader(RestConfig(since="all", **given), tls=TLS)  # type: ignore[arg-type]


async def test_every_message_is_read_once_and_byte_for_byte(service: Running) -> None:
    ids = file(service, 0, 7)
    reader = reader_of(service)
    store, raws = Store(), []
    while store.has_more:
        page = await reader.fetch(store.cursor, PageLimits(mails=3))
        store.commit(page)
        raws += [each.raw for each in page.mails]
    ids += file(service, 7, 9)
    await drain(reader, store, PageLimits(mails=3))
    await drain(reader, store, PageLimits(mails=3))
    await reader.close()

    assert sorted(store.given) == sorted(f"rest:{id_}" for id_ in ids)
    assert sorted(raws) == [raw_mail(number) for number in range(7)]


async def test_a_cursor_that_is_none_is_a_resync(service: Running) -> None:
    file(service, 0, 2)
    reader = reader_of(service)
    page = await reader.fetch('{"at":{"cursor":"nonsense"}}', PageLimits())
    await reader.close()

    assert page.resync is ResyncReason.EXPIRED
    assert len(page.mails) == 2


@pytest.mark.parametrize(
    ("fields", "code"), [({"key": "obx_wrong"}, "login_refused"), ({"inbox": "inb_2"}, "not_found")]
)
async def test_a_wrong_key_or_inbox_needs_an_operator(
    service: Running, fields: dict[str, str], code: str
) -> None:
    reader = reader_of(service, **fields)
    with pytest.raises(MailboxFailure, match=code) as failed:
        await reader.fetch(None, PageLimits())
    await reader.close()

    assert failed.value.needs_operator
