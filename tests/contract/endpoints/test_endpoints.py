"""Endpoints: each event is stored for each endpoint that wants it, once, and in order."""

from typing import Any

import msgspec
import pytest

from oncebox.core import ids
from oncebox.db.database import Transaction
from oncebox.errors import LeaseLost, NotFound, StateConflict
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.deliveries import leases
from oncebox.ledger.deliveries.leases import DeliveryClaimant
from oncebox.ledger.endpoints import endpoints
from oncebox.ledger.endpoints.endpoints import EndpointOutcome, FannedOut
from oncebox.ledger.events import event_log
from oncebox.model.deliveries.delivery import Delivery
from oncebox.model.endpoints import (
    BREAKER_FAILURES,
    Endpoint,
    EndpointFields,
    EndpointOrder,
    EndpointPause,
)
from tests.support import events
from tests.support.clerk import HOUR, LEASE, MINUTE, START, TENANT, Clerk
from tests.support.interleaved import interleave

URL = "https://app.example.com/hooks"


def entry(clerk: Clerk, tenant: str = TENANT) -> AuditEntry:
    return AuditEntry(id=ids.new("aud"), tenant=tenant, at=clerk.now, who="t", why="")


def add(clerk: Clerk, name: str = "billing", **fields: Any) -> Endpoint:
    wanted = EndpointFields(name=name, url=URL, **fields)
    return clerk.run(endpoints.add, wanted, b"sealed", entry(clerk))


def happen(clerk: Clerk, *subjects: str, **fields: Any) -> None:
    """Record events and number them."""
    type_ = fields.pop("type_", "message.received")
    for subject in subjects:
        clerk.run(events.record, events.new(subject, type_=type_, **fields))
    clerk.run(events.number_all)


def fan_out(clerk: Clerk) -> FannedOut:
    return clerk.run(endpoints.fan_out, TENANT, clerk.now)


def due(clerk: Clerk, name: str = "billing", most: int = 1_000) -> list[Delivery]:
    claimant = DeliveryClaimant(TENANT, f"@endpoint:{name}", "w1", LEASE, 60, 28 * HOUR)
    return clerk.run(leases.claim, claimant, most, clerk.now)


def subjects(deliveries: list[Delivery]) -> list[str]:
    return [each.json["data"]["subject_id"] for each in deliveries]


def outcome(clerk: Clerk, *accepted: bool) -> list[endpoints.OpenedBreaker]:
    told = [EndpointOutcome(TENANT, "billing", each) for each in accepted]
    return clerk.run(endpoints.record_outcomes, told, lambda: 1.0, clerk.now)


def test_an_endpoint_gets_the_events_after_it_was_added_and_each_once(clerk: Clerk) -> None:
    happen(clerk, "before")
    place = add(clerk)
    happen(clerk, "one", "two")

    assert fan_out(clerk) == FannedOut(2, 2)
    assert fan_out(clerk) == FannedOut(0, 0)
    assert subjects(due(clerk)) == ["one", "two"]
    assert place.since == 1
    assert clerk.run(endpoints.tenants_behind) == []


def test_events_that_wait_for_others_are_not_those_of_a_new_endpoint(clerk: Clerk) -> None:
    add(clerk, "other")
    happen(clerk, "before")
    add(clerk)
    happen(clerk, "after")
    fan_out(clerk)

    assert subjects(due(clerk, "other")) == ["before", "after"]
    assert subjects(due(clerk)) == ["after"]


def test_what_is_sent_is_a_payload_of_standard_webhooks(clerk: Clerk) -> None:
    add(clerk)
    happen(clerk, "msg_1", inbox_id="inb_1", attempt_id="a", data={"x": 1})
    fan_out(clerk)
    (delivery,) = due(clerk)
    sent = delivery.json

    assert set(sent) == {"type", "timestamp", "data"}
    assert (sent["type"], sent["timestamp"][:4]) == ("message.received", "2025")
    assert sent["data"]["id"] == delivery.key
    assert (sent["data"]["inbox_id"], sent["data"]["attempt_id"]) == ("inb_1", "a")
    assert sent["data"]["data"] == {"x": 1}


def test_two_processes_store_the_same_events_once(clerk: Clerk) -> None:
    add(clerk)
    happen(clerk, "one", "two")

    def store(tx: Transaction) -> FannedOut | None:
        try:
            return endpoints.fan_out(tx, TENANT, clerk.now)
        except LeaseLost:
            return None

    first, second = interleave(clerk.place, store, store)

    assert (first, second) in {(FannedOut(2, 2), None), (FannedOut(2, 2), FannedOut(0, 0))}
    assert subjects(due(clerk)) == ["one", "two"]


def test_endpoints_choose_their_events(clerk: Clerk) -> None:
    add(clerk, "all")
    add(clerk, "sends", types=("send.*",))
    add(clerk, "inbox", inbox_id="inb_1")
    add(clerk, "attempt", attempt_id="a")
    add(clerk, "shop", source="shop", types=("delivery.dead",))
    happen(clerk, "m1", inbox_id="inb_1", attempt_id="b")
    happen(clerk, "m2", inbox_id="inb_2", attempt_id="a")
    happen(clerk, "s1", type_="send.sent")
    happen(clerk, "d1", type_="delivery.dead", data={"source": "shop"})
    happen(clerk, "d2", type_="delivery.dead", data={"source": "other"})
    fan_out(clerk)

    assert subjects(due(clerk, "all")) == ["m1", "m2", "s1", "d1", "d2"]
    assert subjects(due(clerk, "sends")) == ["s1"]
    assert subjects(due(clerk, "inbox")) == ["m1"]
    assert subjects(due(clerk, "attempt")) == ["m2"]
    assert subjects(due(clerk, "shop")) == ["d1"]


def test_what_endpoints_cause_is_not_sent_to_them(clerk: Clerk) -> None:
    """Otherwise a dead delivery would make another one, for ever."""
    add(clerk)
    add(clerk, "other")
    happen(clerk, "dlv_1", type_="delivery.dead", data={"source": "@endpoint:billing"})
    happen(clerk, "billing", type_="endpoint.failing")
    fan_out(clerk)

    assert due(clerk) == []
    assert subjects(due(clerk, "other")) == ["billing"]


def test_an_ordered_endpoint_gets_the_events_of_an_inbox_one_after_the_other(clerk: Clerk) -> None:
    add(clerk, ordering=EndpointOrder.INBOX)
    for number in range(4):
        happen(clerk, f"a{number}", inbox_id="inb_a")
        happen(clerk, f"b{number}", inbox_id="inb_b")
    fan_out(clerk)
    got: list[str] = []
    while now := due(clerk):
        assert len(now) <= 2
        got += subjects(now)
        for each in now:
            clerk.complete(each)

    assert [each for each in got if each[0] == "a"] == ["a0", "a1", "a2", "a3"]
    assert [each for each in got if each[0] == "b"] == ["b0", "b1", "b2", "b3"]


def test_events_that_were_deleted_before_are_counted_and_the_rest_is_stored(clerk: Clerk) -> None:
    add(clerk)
    happen(clerk, "one", "two", at=START - HOUR)
    happen(clerk, "three")
    clerk.run(event_log.forget, START - MINUTE)

    assert fan_out(clerk) == FannedOut(1, 1, missed=2)
    assert subjects(due(clerk)) == ["three"]


def test_a_name_is_given_once_and_belongs_to_a_tenant(clerk: Clerk) -> None:
    add(clerk)
    with pytest.raises(StateConflict, match="of that name"):
        add(clerk)
    with pytest.raises(NotFound):
        clerk.run(endpoints.get, "default", "billing")
    assert clerk.run(endpoints.of_tenant, "default") == []
    assert [each.name for each in clerk.run(endpoints.of_tenant, TENANT)] == ["billing"]


def test_a_paused_endpoint_keeps_its_events(clerk: Clerk) -> None:
    add(clerk)
    clerk.run(endpoints.pause, "billing", entry(clerk))
    happen(clerk, "one")
    fan_out(clerk)

    assert clerk.run(endpoints.busy, clerk.now) == []
    assert clerk.run(endpoints.get, TENANT, "billing").paused is EndpointPause.OPERATOR
    clerk.run(endpoints.resume, "billing", entry(clerk))
    (place,) = clerk.run(endpoints.busy, clerk.now)
    assert (place.name, place.paused) == ("billing", None)
    assert subjects(due(clerk)) == ["one"]


def test_an_endpoint_that_is_gone_is_paused_once_and_announced(clerk: Clerk) -> None:
    add(clerk)
    told = [clerk.run(endpoints.mark_gone, TENANT, "billing", clerk.now) for _ in range(2)]
    clerk.run(events.number_all)

    assert told == [True, False]
    assert clerk.run(endpoints.get, TENANT, "billing").paused is EndpointPause.GONE
    assert [each.type for each in clerk.run(events.read)] == ["endpoint.paused"]


def test_the_waiting_events_of_a_removed_endpoint_are_dropped(clerk: Clerk) -> None:
    add(clerk, ordering=EndpointOrder.INBOX)
    add(clerk, "other")
    happen(clerk, "one", "two", "three", inbox_id="inb_1")
    fan_out(clerk)
    with pytest.raises(StateConflict):
        clerk.run(endpoints.drop_waiting, TENANT, "billing", clerk.now)
    clerk.run(endpoints.remove, "billing", entry(clerk))

    assert clerk.run(endpoints.drop_waiting, TENANT, "billing", clerk.now) == 3
    assert clerk.run(endpoints.drop_waiting, TENANT, "billing", clerk.now) == 0
    assert due(clerk) == []
    assert len(due(clerk, "other")) == 3
    with pytest.raises(NotFound):
        clerk.run(endpoints.remove, "billing", entry(clerk))


# circuit breakers


def test_a_breaker_opens_after_failures_and_is_announced(clerk: Clerk) -> None:
    add(clerk)
    happen(clerk, "one")
    fan_out(clerk)
    for _ in range(BREAKER_FAILURES - 1):
        assert outcome(clerk, False) == []
    (opened,) = outcome(clerk, False)
    place = clerk.run(endpoints.get, TENANT, "billing")
    clerk.run(events.number_all)

    assert (opened.failures, opened.rests_until) == (BREAKER_FAILURES, clerk.now + 10_000)
    assert (place.failures, place.rests_until) == (BREAKER_FAILURES, opened.rests_until)
    assert clerk.run(endpoints.busy, clerk.now) == []
    assert len(clerk.run(endpoints.busy, opened.rests_until)) == 1
    assert [each.type for each in clerk.run(events.read)][-1] == "endpoint.failing"


def test_a_failure_while_the_breaker_is_open_does_not_open_it_again(clerk: Clerk) -> None:
    add(clerk)
    (opened,) = outcome(clerk, *[False] * BREAKER_FAILURES)
    assert outcome(clerk, False, False) == []
    clerk.now = opened.rests_until
    (again,) = outcome(clerk, False)

    assert again.rests_until > clerk.now + 10_000


def test_a_success_closes_the_breaker(clerk: Clerk) -> None:
    add(clerk)
    outcome(clerk, *[False] * BREAKER_FAILURES)
    outcome(clerk, True)
    place = clerk.run(endpoints.get, TENANT, "billing")

    assert (place.failures, place.rests_until, place.succeeded_at) == (0, None, clerk.now)


def test_new_secrets_replace_those_that_were_seen(clerk: Clerk) -> None:
    seen = add(clerk)
    changed = clerk.run(endpoints.replace_secrets, seen, b"other", entry(clerk))
    with pytest.raises(StateConflict, match="just been changed"):
        clerk.run(endpoints.replace_secrets, seen, b"third", entry(clerk))

    assert changed == msgspec.structs.replace(seen, secrets=b"other", changed_at=clerk.now)
