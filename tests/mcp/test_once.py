"""What must happen once: actions, mail and deliveries, through crashes and repeats."""

from typing import Any

import pytest

from tests.mcp.agents import Agent
from tests.mcp.conftest import SOURCE, House
from tests.support.injections import ORDER

MAIL = {
    "to": ["ann@example.org"],
    "sender": "shop@example.com",
    "subject": "Thanks",
    "text": "It is paid.",
    "event_type": "order.confirmation",
}


def test_an_action_is_begun_once_and_repeats_get_its_result(house: House, agent: Agent) -> None:
    act = {"attempt_id": house.name(), "name": "verify"}
    begun = agent.get("begin_action", **act)
    meanwhile = agent.get("begin_action", **act)
    said = {**act, "fence": begun["fence"], "outcome": "done"}
    done = agent.get("finish_action", **said, result={"account": "acc_7"})
    twice = agent.get("finish_action", **said, result="something else")
    later = agent.get("begin_action", **act)

    assert (begun["state"], meanwhile["state"], later["state"]) == ("begun", "in_flight", "done")
    assert "fence" not in meanwhile
    assert "Do not do it yourself" in meanwhile["next"]
    assert done["result"] == twice["result"] == later["result"] == {"account": "acc_7"}
    assert "Do not do it again" in later["next"]
    assert begun["key"] == meanwhile["key"] == later["key"]


@pytest.mark.parametrize(
    ("safe", "then", "words"),
    [
        ("once", "held", "Do not do it again"),
        ("verify", "look", "Do not do it before you have looked"),
        ("idempotent", "begun", "pass key"),
    ],
)
def test_after_a_crash_in_the_middle_of_an_action_the_choice_decides(
    house: House, by_http: Agent, safe: str, then: str, words: str
) -> None:
    act = {"attempt_id": house.name(), "name": "pay", "safe": safe}
    begun = by_http.get("begin_action", **act, lease=1)
    told = begun
    while told["state"] == "in_flight" or told is begun:
        told = by_http.get("begin_action", **act)

    assert (told["state"], told["key"]) == (then, begun["key"])
    assert words in told["next"]
    if "fence" in told:
        assert told["fence"] > begun["fence"]
        late = {"attempt_id": act["attempt_id"], "name": "pay", "fence": begun["fence"]}
        assert by_http.refused("finish_action", **late, outcome="not_done").startswith("lease_lost")


def test_what_did_not_happen_may_begin_again(house: House, agent: Agent) -> None:
    act = {"attempt_id": house.name(), "name": "post"}
    begun = agent.get("begin_action", **act)
    ended = agent.get("finish_action", **act, fence=begun["fence"], outcome="not_done")
    again = agent.get("begin_action", **act)

    assert (ended["state"], again["state"]) == ("not_done", "begun")
    assert again["fence"] > begun["fence"]


def test_a_mail_is_sent_once_whatever_words_it_is_asked_in(house: House, agent: Agent) -> None:
    order = house.name("order")
    first = agent.get("send_email", **MAIL, entity_id=order)
    again = agent.get("send_email", **{**MAIL, "text": "Paid it is."}, entity_id=order)
    plain = agent.get("send_email", **{**MAIL, "to": MAIL["to"][0]}, entity_id=order)
    status = agent.get("send_status", send_id=first["send_id"])
    other = agent.refused("send_email", **{**MAIL, "sender": "a@example.com"}, entity_id=order)

    assert (first["status"], first["created"]) == ("logged", True)
    assert (again["send_id"], again["message_id"]) == (first["send_id"], first["message_id"])
    assert (again.get("created", False), again["drift"]) == (False, True)
    assert (plain["send_id"], plain.get("created", False)) == (first["send_id"], False)
    assert status["state"] == "logged"
    assert "Tell the user" in first["next"]
    assert other.startswith("send_key_conflict: ")
    assert "Do not change entity_id" in other


def test_a_delivery_is_claimed_by_its_attempt_and_survives_a_crash(
    house: House, agent: Agent
) -> None:
    attempt, event = house.name("handle"), house.name("evt")
    house.accept(event, type="invoice.paid", body='{"id": "in_1"}')
    claimed = agent.get("claim_delivery", attempt_id=attempt, source=SOURCE, within=20)
    # Here its process dies; another one asks again.
    again = agent.get("claim_delivery", attempt_id=attempt, source=SOURCE)
    nothing = agent.get("claim_delivery", attempt_id=house.name("handle"), source=SOURCE)
    said = {"delivery_id": claimed["delivery_id"], "fence": claimed["fence"]}
    done = agent.get("complete_delivery", **said)
    twice = agent.get("complete_delivery", **said)
    over = agent.get("claim_delivery", attempt_id=attempt, source=SOURCE)

    assert (claimed["status"], claimed["type"], claimed["key"]) == (
        "claimed",
        "invoice.paid",
        event,
    )
    assert _claim(again) == _claim(claimed)
    assert nothing["status"] == "nothing"
    assert done["state"] == twice["state"] == "done"
    assert over["status"] == "over"
    assert "Do not work on it" in over["next"]


def _claim(told: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(told[name] for name in ("status", "delivery_id", "fence", "tries"))


def test_a_lost_delivery_is_another_s_and_the_first_is_told(house: House, by_stdio: Agent) -> None:
    slow, quick = house.name("handle"), house.name("handle")
    house.accept(house.name("evt"), type="invoice.paid")
    first = by_stdio.get("claim_delivery", attempt_id=slow, lease=1, within=20)
    second: dict[str, Any] = {"status": "nothing"}
    while second["status"] == "nothing":
        second = by_stdio.get("claim_delivery", attempt_id=quick, within=20)
    said = {"delivery_id": first["delivery_id"], "fence": first["fence"]}
    words = by_stdio.refused("complete_delivery", **said)
    over = by_stdio.get("claim_delivery", attempt_id=slow)
    settled = by_stdio.get(
        "complete_delivery", **{**said, "fence": second["fence"]}, outcome="give_up", why="no use"
    )

    assert second["delivery_id"] == first["delivery_id"]
    assert second["fence"] > first["fence"]
    assert words.startswith("lease_lost: ")
    assert "Do not do the work again" in words
    assert over["status"] == "over"
    assert settled["state"] == "dead"


def test_a_claim_is_told_again_to_its_own_key_only(house: House, by_http: Agent) -> None:
    attempt = house.name("handle")
    house.accept(house.name("evt"), type="invoice.paid")
    mine = by_http.get("claim_delivery", attempt_id=attempt, within=20)
    with house.http(house.key(f"worker:{SOURCE}")) as rival:
        theirs = rival.get("claim_delivery", attempt_id=attempt)
    said = {"delivery_id": mine["delivery_id"], "fence": mine["fence"]}
    by_http.get("complete_delivery", **said)

    assert (mine["status"], theirs["status"]) == ("claimed", "nothing")


def test_nothing_that_a_webhook_says_is_told(house: House, agent: Agent) -> None:
    order = ORDER.strip()
    body = f'{{"{order}": "{order}", "type": "{order}"}}'
    attempt = house.name("handle")
    house.accept(f"{order} {house.name()}", type=order, body=body, headers=[("X-Note", order)])
    claimed = agent.get("claim_delivery", attempt_id=attempt, within=20)
    agent.get("complete_delivery", delivery_id=claimed["delivery_id"], fence=claimed["fence"])

    assert claimed["status"] == "claimed"
    assert not {"type", "key", "body", "headers"} & set(claimed)
    assert not any(order in text for _, text in agent.told)
