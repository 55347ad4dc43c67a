"""Messages by the client: read to the end, followed, resumed, downloaded."""

import threading
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest

from oncebox.client.asynchronous import AsyncClient
from oncebox.client.sync import Client
from oncebox.errors import NotFound
from tests.client.conftest import Speaker
from tests.support.letters import mail
from tests.support.running import Running
from tests.support.sorter import Sorter

INBOX = "inb_1"


@pytest.fixture
def sorter(service: Running) -> Sorter:
    """What files mail into the service's inbox."""
    sorter = Sorter(service.box)
    service.call(sorter.add_inbox(INBOX))
    return sorter


@pytest.fixture
def client(service: Running) -> Iterator[Client]:
    """A client with an admin key."""
    with Client(service.url, service.key) as client:
        yield client


def _file(service: Running, sorter: Sorter, count: int, start: int = 0) -> list[str]:
    raws = [mail(message_id=f"<{number}@x>") for number in range(start, start + count)]
    return service.call(sorter.file(INBOX, *raws))


def test_all_messages_are_read_and_then_it_ends(
    service: Running, sorter: Sorter, speaker: Speaker
) -> None:
    ids = _file(service, sorter, 120)
    found = speaker.ask(service.url, lambda c: c.inboxes.messages(INBOX), key=service.key)

    assert {each.id for each in found} == set(ids)
    assert [each.sequence for each in found] == list(range(1, 121))


def test_reading_goes_on_after_any_message(
    service: Running, sorter: Sorter, speaker: Speaker
) -> None:
    def ask(question: Callable[[Any], Any]) -> Any:
        return speaker.ask(service.url, question, key=service.key)

    _file(service, sorter, 5)
    cursor = ask(lambda c: c.inboxes.messages(INBOX))[2].cursor
    rest = ask(lambda c: c.inboxes.messages(INBOX, cursor=cursor))

    assert [each.sequence for each in rest] == [4, 5]


def test_who_follows_hears_of_what_comes_later(
    service: Running, sorter: Sorter, client: Client
) -> None:
    _file(service, sorter, 2)
    later = threading.Timer(0.3, lambda: _file(service, sorter, 2, start=2))
    later.start()
    found = list(islice(client.inboxes.messages(INBOX, follow=True), 4))
    later.join()

    assert [each.sequence for each in found] == [1, 2, 3, 4]


async def test_who_follows_without_waiting_for_ever_ends(service: Running, sorter: Sorter) -> None:
    _file(service, sorter, 2)
    async with AsyncClient(service.url, service.key) as client:
        tail = client.inboxes.messages(INBOX, follow=True, idle=0.4)
        found = [each.sequence async for each in tail]

    assert found == [1, 2]


def test_who_follows_waits_for_a_service_that_is_away(
    service: Running, sorter: Sorter, client: Client
) -> None:
    _file(service, sorter, 1)
    tail = client.within(2).inboxes.messages(INBOX, follow=True)
    first = next(tail)
    service.stop()

    def back() -> None:
        service.start()
        _file(service, Sorter(service.box), 1, start=1)

    returning = threading.Timer(0.5, back)
    returning.start()
    second = next(tail)
    returning.join()

    assert (first.sequence, second.sequence) == (1, 2)


def test_a_message_is_shown_and_downloaded(
    service: Running, sorter: Sorter, speaker: Speaker
) -> None:
    def ask(question: Callable[[Any], Any]) -> Any:
        return speaker.ask(service.url, question, key=service.key)

    raw = mail("Hello", "Hi there")
    (id_,) = service.call(sorter.file(INBOX, raw))
    shown = ask(lambda c: c.messages.get(id_))

    assert (shown.content.subject, shown.content.text.strip()) == ("Hello", "Hi there")
    assert ask(lambda c: c.messages.raw(id_)) == raw
    with pytest.raises(NotFound):
        ask(lambda c: c.messages.attachment(id_, 1))


def test_a_missing_inbox_is_said_at_once_also_to_who_follows(client: Client) -> None:
    with pytest.raises(NotFound):
        next(client.inboxes.messages("inb_gone", follow=True))
