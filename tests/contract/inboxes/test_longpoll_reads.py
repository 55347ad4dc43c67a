"""Looks: what many who wait need to know is read once, whatever they wait for."""

from typing import Any

import pytest

from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.inboxes import longpoll, messages
from oncebox.ledger.inboxes.longpoll import InboxMatches, WaitQuery
from oncebox.model.admin.access import ApiKey
from oncebox.model.inboxes.received_mail import ArtifactKind
from oncebox.model.inboxes.wait_filter import WaitFilter
from tests.support.clerk import TENANT, VAULT, Clerk
from tests.support.finds import Finds, code


@pytest.fixture
def finds(clerk: Clerk) -> Finds:
    """A ledger with one inbox."""
    return Finds(clerk)


@pytest.fixture
def key(finds: Finds) -> ApiKey:
    """The key of all who wait."""
    return finds.office.key("operator")[0]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The messages that were read, each as often as it was."""
    ids: list[str] = []
    get = messages.get

    def counted(tx: Any, vault: Any, tenant: str, id_: str) -> Any:
        ids.append(id_)
        return get(tx, vault, tenant, id_)

    monkeypatch.setattr(messages, "get", counted)
    return ids


def look(finds: Finds, key: ApiKey, *awaited: WaitFilter) -> list[tuple[InboxMatches, ...]]:
    """Look for all who wait in the first inbox."""
    questions = [
        WaitQuery(
            requester=Requester(tenant=TENANT, key=key.id),
            key=key,
            inboxes=("inb_1",),
            awaited=each,
        )
        for each in awaited
    ]
    found = finds.clerk.run(longpoll.find_matches, VAULT, questions, finds.clerk.now)
    places = [each for each in found if isinstance(each, tuple)]
    assert len(places) == len(found)
    return places


def file(finds: Finds, count: int) -> None:
    for number in range(count):
        finds.file(code(f"{number:06}", sender=f"s{number}@shop.example", subject=f"No. {number}"))


def test_whoever_claims_for_whom_a_message_is_read_once(
    finds: Finds, key: ApiKey, read: list[str]
) -> None:
    file(finds, 5)
    awaited = [
        WaitFilter(
            kind=ArtifactKind.CODE, senders=("shop.example",), claim_key=f"k{n}", after=n % 5
        )
        for n in range(100)
    ]
    found = look(finds, key, *awaited)

    assert len(read) == 5
    assert [len(place.found) for (place,) in found] == [5 - n % 5 for n in range(100)]


def test_whatever_is_waited_for_a_message_is_read_once(
    finds: Finds, key: ApiKey, read: list[str]
) -> None:
    file(finds, 5)
    awaited = [WaitFilter(kind=ArtifactKind.CODE, subject=f"No. {n}") for n in range(100)]
    found = look(finds, key, *awaited)

    assert len(read) == 5
    assert [len(place.found) for (place,) in found] == [1] * 5 + [0] * 95


def test_only_so_much_of_what_was_read_is_kept_in_memory(
    finds: Finds, key: ApiKey, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(longpoll, "_MOST_DOCUMENT_BYTES", 1)
    file(finds, 2)
    found = look(
        finds, key, *(WaitFilter(kind=ArtifactKind.CODE, subject=f"No. {n}") for n in range(2))
    )

    assert len(read) == 4
    assert [len(place.found) for (place,) in found] == [1, 1]


def test_what_cannot_be_read_any_more_is_not_passed_over(finds: Finds, key: ApiKey) -> None:
    """Nobody knows whether it would fit, so it keeps its place before what is older."""
    file(finds, 2)
    newer = finds.all()[1].message_id
    (before,) = look(finds, key, WaitFilter(kind=ArtifactKind.CODE, subject="No. 0"))
    finds.sql("UPDATE oncebox_messages SET document = warnings RETURNING id")
    (after,) = look(finds, key, WaitFilter(kind=ArtifactKind.CODE, subject="No. 0"))

    assert before[0].artifact_filter.excluded_messages == {newer}
    assert (after[0].artifact_filter.messages, after[0].artifact_filter.excluded_messages) == (
        frozenset(),
        frozenset(),
    )
