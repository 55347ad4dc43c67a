"""Inspections: what an operator sees of a delivery, found by our id or by the source's key."""

import msgspec
import pytest

from oncebox.errors import NotFound
from oncebox.ledger.deliveries import inspections
from oncebox.model.deliveries.delivery import DeliveryState
from oncebox.model.deliveries.effects import EffectState, Safety
from tests.support.clerk import HOUR, LEASE, SOURCE, TENANT, VAULT, Clerk


def test_a_delivery_is_found_by_our_id_or_by_the_sources_key(clerk: Clerk) -> None:
    id_ = clerk.accept_one("evt_123").id

    assert clerk.run(inspections.find, TENANT, id_) == [id_]
    assert clerk.run(inspections.find, TENANT, "evt_123") == [id_]
    assert clerk.run(inspections.find, TENANT, "evt_123", SOURCE) == [id_]


def test_a_key_may_mean_several_deliveries(clerk: Clerk) -> None:
    first = clerk.accept_one("1").id
    conflict = clerk.accept_one("1", b"other").id
    other = clerk.accept_one("1", source="zoo").id

    assert clerk.run(inspections.find, TENANT, "1") == [first, conflict, other]
    assert clerk.run(inspections.find, TENANT, "1", "zoo") == [other]


def test_what_is_not_there_is_not_found(clerk: Clerk) -> None:
    id_ = clerk.accept_one("1").id

    for tenant, wanted, source in (
        (TENANT, "2", None),
        (TENANT, "1", "bank"),
        ("other", "1", None),
        ("other", id_, None),
    ):
        with pytest.raises(NotFound, match="oncebox delivery list"):
            clerk.run(inspections.find, tenant, wanted, source)
    with pytest.raises(NotFound):
        clerk.run(inspections.inspect, "other", id_, clerk.now)
    with pytest.raises(NotFound):
        clerk.run(inspections.payload, VAULT, "other", id_)


def test_an_inspection_holds_all_that_belongs_to_a_delivery(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.begin(delivery, "mail")
    clerk.finish(delivery, name="mail")
    clerk.fail(delivery, wait=HOUR)
    clerk.accept_one()
    clerk.hold(delivery.id)

    seen = clerk.inspect(delivery.id)

    assert seen.delivery.id == delivery.id
    assert [each.outcome for each in seen.tries] == ["failed"]
    assert [each.name for each in seen.effects] == ["mail"]
    assert [each.duplicate_class for each in seen.duplicates] == ["provider_retry"]
    assert [each.action for each in seen.audit] == ["hold"]
    assert seen.next_action.startswith("needs a person: operator")


def test_an_inspection_can_be_shown_as_json(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.begin(delivery)
    clerk.finish(delivery, result=b'{"id":1}')

    shown = msgspec.json.decode(msgspec.json.encode(clerk.inspect(delivery.id)))

    assert shown["delivery"]["state"] == "processing"
    assert shown["delivery"]["late"] is False


def test_the_next_action_follows_the_delivery(clerk: Clerk) -> None:
    id_ = clerk.accept_one().id

    def advice() -> str:
        return clerk.inspect(id_).next_action

    assert advice() == "wait for a worker: retry-safe, no journalled effect"
    delivery = clerk.claim_one()
    assert advice() == "wait: a worker holds the lease"
    clerk.begin(delivery, "open-issue", Safety.ONCE)
    clerk.now += LEASE
    assert advice().startswith("needs a person: open-issue unknown")
    clerk.finish(delivery, name="open-issue")
    assert "the lease expired" in advice()
    clerk.fail(delivery)
    assert advice() == "wait for the next try: retry-safe, open-issue done"
    clerk.now += HOUR
    clerk.give_up(clerk.claim_one())
    assert advice() == (
        "replay when the cause is fixed: retry-safe, open-issue done; "
        f"run it with: oncebox delivery replay {id_} --why '…'"
    )
    clerk.replay(id_)
    clerk.stop_for_a_person(clerk.claim_one(), "policy: big")
    assert advice().startswith("needs a person: policy: big")
    clerk.release(id_)
    clerk.complete(clerk.claim_one())
    assert advice() == "nothing: it is done; retry-safe, open-issue done"


def test_deliveries_are_listed_newest_first_page_by_page(clerk: Clerk) -> None:
    ids = [clerk.accept_one(str(number)).id for number in range(5)]

    first = clerk.run(inspections.newest, TENANT, most=2)
    rest = clerk.run(inspections.newest, TENANT, before=first[-1].id)

    assert [each.id for each in (*first, *rest)] == ids[::-1]


def test_a_list_can_be_narrowed_by_state_and_source(clerk: Clerk) -> None:
    shop = clerk.accept_one("1").id
    bank = clerk.accept_one("2", source="bank").id
    clerk.hold(shop)
    dead = clerk.accept_and_claim("3")
    clerk.give_up(dead)

    def listed(**narrowed: object) -> list[str]:
        found = clerk.run(inspections.newest, TENANT, **narrowed)  # type: ignore[arg-type]
        return [each.id for each in found]

    assert listed(state=DeliveryState.HELD) == [shop]
    assert listed(state=DeliveryState.DEAD) == [dead.id]
    assert listed(state=DeliveryState.RECEIVED) == [bank]
    assert listed(source="bank") == [bank]
    assert listed(source="shop", state=DeliveryState.DEAD) == [dead.id]
    assert listed(source="bank", state=DeliveryState.DEAD) == []
    assert clerk.run(inspections.newest, "other") == []


def test_every_source_that_ever_delivered_is_known(clerk: Clerk) -> None:
    assert clerk.run(inspections.sources, TENANT) == []
    for number, source in enumerate(["b", "a", "c", "a"]):
        clerk.accept_one(str(number), source=source)

    assert clerk.run(inspections.sources, TENANT) == ["a", "b", "c"]
    assert clerk.run(inspections.sources, "other") == []


def test_what_needs_a_person_is_counted(clerk: Clerk) -> None:
    clerk.accept(*(clerk.arrival(str(number)) for number in range(4)))
    first, second, third, _ = clerk.claim()
    clerk.give_up(first)
    clerk.stop_for_a_person(second)
    clerk.fail(third)

    assert clerk.run(inspections.count_dead_and_held, TENANT) == {"dead": 1, "held": 1}
    assert clerk.run(inspections.count_dead_and_held, "other") == {}


def test_what_came_after_another_is_listed_oldest_first(clerk: Clerk) -> None:
    ids = [clerk.accept_one(str(number)).id for number in range(4)]

    assert [each.id for each in clerk.run(inspections.since, TENANT, ids[0], 2)] == ids[1:3]
    assert clerk.run(inspections.since, TENANT, ids[3], 2) == []
    assert clerk.run(inspections.since, "other", "", 2) == []


def test_several_deliveries_are_read_at_once(clerk: Clerk) -> None:
    ids = [clerk.accept_one(str(number)).id for number in range(3)]

    found = clerk.run(inspections.several, TENANT, [ids[2], ids[0], "dlv_nobody", ids[0]])

    assert {each.id for each in found} == {ids[0], ids[2]}
    assert clerk.run(inspections.several, "other", ids) == []


def test_what_is_being_worked_on_is_known(clerk: Clerk) -> None:
    clerk.accept_one("waits", source="bank")
    working = clerk.accept_and_claim("works")

    assert clerk.run(inspections.in_work, TENANT, 10) == [working.id]
    assert clerk.run(inspections.in_work, "other", 10) == []


def test_what_people_touched_is_known_since_a_deed(clerk: Clerk) -> None:
    assert clerk.run(inspections.last_audit_id) == ""
    one, two = clerk.accept(clerk.arrival("1"), clerk.arrival("2"))
    clerk.hold(one.id)
    first = clerk.run(inspections.last_audit_id)
    clerk.hold(two.id)
    last = clerk.run(inspections.last_audit_id)

    assert clerk.run(inspections.audited_since, TENANT, "", 10) == (last, [one.id, two.id])
    assert clerk.run(inspections.audited_since, TENANT, first, 10) == (last, [two.id])
    assert clerk.run(inspections.audited_since, TENANT, last, 10) == (last, [])


def test_what_nobody_claims_is_overdue(clerk: Clerk) -> None:
    clerk.accept_one("lost")
    clerk.claim()
    clerk.accept_one("waits")
    due = clerk.now

    assert clerk.run(inspections.overdue, TENANT, SOURCE, due - 1) == (0, None)
    assert clerk.run(inspections.overdue, TENANT, SOURCE, due) == (1, due)
    assert clerk.run(inspections.overdue, TENANT, SOURCE, due + LEASE) == (2, due)


def test_an_effect_in_doubt_is_shown_with_its_state(clerk: Clerk) -> None:
    delivery = clerk.accept_and_claim()
    clerk.begin(delivery)
    clerk.finish(delivery, EffectState.UNKNOWN)

    (effect,) = clerk.inspect(delivery.id).effects
    assert (effect.state, effect.ended_at) == (EffectState.UNKNOWN, clerk.now)


def test_a_look_never_shows_a_body(clerk: Clerk) -> None:
    """Bodies are asked for by name, never shown by the way."""
    id_ = clerk.accept_one(body=b"very private").id

    assert b"private" not in msgspec.json.encode(clerk.inspect(id_))
