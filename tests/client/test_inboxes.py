"""Inboxes and domains through the clients, against a real service on both databases."""

from collections.abc import Callable
from typing import Any

import pytest

from oncebox.client.sync import Client
from oncebox.errors import NotFound
from oncebox.errors.mail import DomainTaken, InboxConflict, InboxInvalid
from oncebox.schemas.inboxes import NewInbox, Policy
from tests.client.conftest import Speaker
from tests.support.running import Running


def test_an_inbox_is_made_found_rotated_and_closed(service: Running, speaker: Speaker) -> None:
    def ask(question: Callable[[Any], Any]) -> Any:
        return speaker.ask(service.url, question, key=service.key)

    policy = Policy(senders=["github.com"], purpose="login")
    made = ask(
        lambda c: c.inboxes.create(
            attempt_id="try 1/2", label="main", policy=policy, metadata={"run": "7"}, lifetime=60
        )
    )
    again = ask(
        lambda c: c.inboxes.create(
            attempt_id="try 1/2", label="main", policy=policy, metadata={"run": "7"}
        )
    )
    found = ask(lambda c: c.inboxes.get(made.id))
    changed = ask(lambda c: c.inboxes.change_policy(made.id, senders=("a.example",), token="t"))
    same = ask(lambda c: c.inboxes.change_policy(made.id))
    new = ask(lambda c: c.inboxes.rotate(made.id, drain=5))
    closed = ask(lambda c: c.inboxes.close(new.id, drain=0))
    stats = ask(lambda c: c.inboxes.stats(made.id))
    all_ = ask(lambda c: c.inboxes.attempt_stats("try 1/2"))
    listed = ask(lambda c: c.inboxes.list(attempt_id="try 1/2"))

    assert (made.created, again.created, again.id) == (True, False, made.id)
    assert found.metadata == {"run": "7"}
    assert found.policy == policy
    assert changed.policy == Policy(senders=["a.example"], purpose="login", token="t")
    assert same == changed
    assert found.active_until == found.created_at + 60_000
    assert new.rotated_from == made.id
    assert (closed.state, stats.state) == ("closed", "draining")
    assert (all_.inboxes, all_.states["draining"], all_.states["closed"]) == (2, 1, 1)
    assert [each.id for each in listed] == [new.id, made.id]
    with pytest.raises(InboxConflict):
        ask(lambda c: c.inboxes.create(attempt_id="try 1/2", label="main"))
    with pytest.raises(NotFound):
        ask(lambda c: c.inboxes.get("inb_nothing"))


def test_many_are_made_in_one_call_and_listed_page_by_page(
    service: Running, speaker: Speaker
) -> None:
    wishes = [NewInbox(attempt_id=f"a{number}") for number in range(120)]
    made = speaker.ask(service.url, lambda c: c.inboxes.create_many(wishes), key=service.key)
    listed = speaker.ask(service.url, lambda c: c.inboxes.list(), key=service.key)

    assert [each.attempt_id for each in made.data] == [each.attempt_id for each in wishes]
    assert {each.id for each in listed} == {each.id for each in made.data}
    assert [each.id for each in listed] == sorted((each.id for each in listed), reverse=True)


def test_a_domain_is_added_used_and_removed(service: Running, speaker: Speaker) -> None:
    def ask(question: Callable[[Any], Any]) -> Any:
        return speaker.ask(service.url, question, key=service.key)

    added = ask(lambda c: c.domains.add("in.example.com", catch_all=True))
    made = ask(lambda c: c.inboxes.create(domain="in.example.com", local="support"))
    with pytest.raises(DomainTaken):
        ask(lambda c: c.domains.add("in.example.com"))
    names = [each.name for each in ask(lambda c: c.domains.list())]
    gone = ask(lambda c: c.domains.remove("in.example.com"))

    assert added.catch_all
    assert [each.type for each in added.records] == ["MX", "TXT"]
    assert made.email == "support@in.example.com"
    assert names == ["in.example.com", "oncebox.test"]
    assert gone is None


def test_what_the_service_refuses_is_the_same_error_here(service: Running) -> None:
    with Client(service.url, service.key) as client, pytest.raises(InboxInvalid):
        client.inboxes.create(policy=Policy(senders=["not a sender"]))
