"""An agent signs up by its tools: copies of the mail, crashes and rivals cost nothing."""

import os
import signal
from typing import Any

import pytest
from mcp import MCPError

from tests.mcp.agents import Agent, content, refusal
from tests.mcp.conftest import House
from tests.support.letters import mail


def test_copies_of_a_mail_are_one_code_and_it_is_read_again(house: House, agent: Agent) -> None:
    rules = {"senders": ["shop.example"], "authenticated": False}
    inbox = agent.get("open_inbox", attempt_id=house.name(), **rules)
    letter = mail("Confirm", "Your code is 482913", sender="no-reply@shop.example")
    house.hand_over(inbox["email"], letter, times=3)

    first = agent.get("wait_for_code", inbox_id=inbox["inbox_id"], sender="shop.example")
    again = agent.get("wait_for_code", inbox_id=inbox["inbox_id"], sender="shop.example")
    reopened = agent.get("open_inbox", attempt_id=inbox["attempt_id"], **rules)

    assert (first["status"], first["code"]) == ("granted", "482913")
    assert (again["code"], again["artifact_id"]) == ("482913", first["artifact_id"])
    assert (first.get("repeated", False), again["repeated"]) == (False, True)
    assert (reopened["inbox_id"], reopened["created"]) == (inbox["inbox_id"], False)
    assert "Do not ask the site for another mail" in first["next"]
    assert inbox["warnings"] == ["authentication_off"]
    assert first["warnings"] == ["sender_unproven", "authentication_off"]


def test_mail_that_nobody_proves_matches_no_rule_and_the_wait_says_so(
    house: House, agent: Agent
) -> None:
    inbox = agent.get("open_inbox", attempt_id=house.name(), senders=["shop.example"])
    house.post(inbox["email"], "Your code is 482913", sender="no-reply@mail.shop.example")
    told = _inspected(agent, inbox["inbox_id"], 1)

    assert [each["why"] for each in told["unfit"]] == ["sender_unauthenticated"]
    assert told["unfit"][0]["sender_domain"] == "mail.shop.example"
    assert told["unfit"][0]["sender_rules"] == ["shop.example"]


def test_a_wait_goes_on_where_it_was_and_says_why_nothing_fits(house: House, agent: Agent) -> None:
    inbox = agent.get("open_inbox", attempt_id=house.name())
    asked = {"inbox_id": inbox["inbox_id"], "sender": "shop.example"}
    empty = agent.get("wait_for_code", **asked, within=0.2)
    waiting = agent.begin("wait_for_code", **asked, resume=empty["resume"], within=55)
    house.post(inbox["email"], "Your code is 771122", sender="a@other.example")
    house.post(inbox["email"], "Your code is 551188", sender="a@shop.example")
    granted = content(waiting.result(90))
    unfit = _inspected(agent, inbox["inbox_id"], 2)

    assert (empty["status"], empty["mail_seen"]) == ("waiting", False)
    assert granted["code"] == "551188"
    assert {each["why"] for each in unfit["unfit"]} == {"sender_not_allowed"}
    assert {each["sender_domain"] for each in unfit["unfit"]} == {"other.example", "shop.example"}
    assert {tuple(each["sender_rules"]) for each in unfit["unfit"]} == {("nobody.example",)}
    assert "Do not ask the site for another mail without request_resend" in unfit["next"]


def _inspected(agent: Agent, inbox: str, count: int) -> dict[str, Any]:
    """Return what a wait says that fits nothing, once so many messages are there."""
    while True:
        told = agent.get("wait_for_code", inbox_id=inbox, sender="nobody.example", within=0.2)
        if told["messages_inspected"] == count:
            return told


def test_a_link_is_handed_out_by_the_policy_only(house: House, agent: Agent) -> None:
    inbox = agent.get("open_inbox", attempt_id=house.name(), link_hosts=["app.shop.example"])
    text = "Confirm your account: https://app.shop.example/verify?token=abc123def456"
    house.post(inbox["email"], text)
    link = agent.get("wait_for_link", inbox_id=inbox["inbox_id"])
    other = agent.get("open_inbox", attempt_id=house.name(), link_hosts=["elsewhere.example"])
    house.post(other["email"], text)
    words = agent.refused("wait_for_link", inbox_id=other["inbox_id"])

    assert link["url"] == "https://app.shop.example/verify?token=abc123def456"
    assert (link["host"], link["token"]) == ("app.shop.example", "abc123def456")
    assert words.startswith("link_refused: ")
    assert "Do not request another link" in words
    assert "app.shop.example" not in words


def test_a_message_whose_arrival_is_the_signal_is_granted_once_without_its_text(
    house: House, agent: Agent
) -> None:
    attempt = house.name()
    inbox = agent.get("open_inbox", attempt_id=attempt)
    house.post(inbox["email"], "The gallery is unlocked")
    asked = {"inbox_id": inbox["inbox_id"], "has_attachment": False}
    granted = agent.get("wait_for_message", **asked)
    again = agent.get("wait_for_message", **asked)
    begun = agent.get("begin_action", attempt_id=attempt, name="open")
    agent.get(
        "finish_action", attempt_id=attempt, name="open", fence=begun["fence"], outcome="done",
        artifact_id=granted["artifact_id"],
    )  # fmt: skip
    used = agent.refused("wait_for_message", **asked)

    assert (granted["status"], granted["attachments"]) == ("granted", 0)
    assert granted["message_id"].startswith("msg_")
    assert "gallery" not in str(granted)
    assert (again["artifact_id"], again["repeated"]) == (granted["artifact_id"], True)
    assert used.startswith("artifact_used")


def test_a_crash_between_wait_and_use_costs_nothing(house: House, key: str) -> None:
    attempt = house.name()
    with house.stdio(key) as agent:
        inbox = agent.get("open_inbox", attempt_id=attempt)
        house.post(inbox["email"], "Your code is 339201")
        granted = agent.get("wait_for_code", inbox_id=inbox["inbox_id"])
        assert agent.folder is not None
        os.kill(int((agent.folder / "pid").read_text()), signal.SIGKILL)
        with pytest.raises(MCPError):
            agent.ask("begin_action", attempt_id=attempt, name="verify")
    with house.stdio(key, mode="legacy") as agent:
        again = agent.get("open_inbox", attempt_id=attempt)
        code = agent.get("wait_for_code", inbox_id=again["inbox_id"])
        assert agent.folder is not None
        words = (agent.folder / "stderr").read_text()

    assert again["inbox_id"] == inbox["inbox_id"]
    assert (granted["code"], code["code"], code["repeated"]) == ("339201", "339201", True)
    assert words == ""


def test_of_two_agents_one_gets_the_code_and_the_other_is_told_to_leave_it(
    house: House, by_stdio: Agent
) -> None:
    with house.http(house.key("operator"), mode="legacy") as rival:
        for number in range(3):
            inbox = by_stdio.get("open_inbox", attempt_id=house.name())
            asked = {"inbox_id": inbox["inbox_id"], "within": 55}
            racing = [each.begin("wait_for_code", **asked) for each in (by_stdio, rival)]
            house.post(inbox["email"], f"Your code is 90441{number}")
            results = [each.result(90) for each in racing]
            repeated = [each.ask("wait_for_code", **asked) for each in (by_stdio, rival)]

            (won,) = [content(each) for each in results if not each.is_error]
            (lost,) = [refusal(each) for each in results if each.is_error]
            assert won["code"] == f"90441{number}"
            assert lost.startswith("already_claimed: ")
            assert "Do not request another code" in lost
            assert won["code"] not in lost
            assert [each.is_error for each in repeated] == [each.is_error for each in results]


def test_an_attempt_of_another_agent_is_left_alone(house: House, agent: Agent) -> None:
    attempt = house.name()
    mine = agent.get("open_inbox", attempt_id=attempt)
    with house.http(house.key("agent")) as stranger:
        words = stranger.refused("open_inbox", attempt_id=attempt)
        wait = stranger.refused("wait_for_code", inbox_id=mine["inbox_id"], within=1)
        resend = stranger.refused("request_resend", attempt_id=attempt)

    assert words.startswith("inbox_conflict: ")
    assert "choose an attempt_id of your own" in words
    assert mine["email"] not in words
    assert wait.startswith("not_found: ")
    assert resend.startswith("not_found: ")


def test_a_site_is_asked_for_mail_no_more_often_than_it_may_be(house: House, agent: Agent) -> None:
    attempt = house.name()
    agent.get("open_inbox", attempt_id=attempt)
    granted = agent.get("request_resend", attempt_id=attempt)
    words = agent.refused("request_resend", attempt_id=attempt)

    assert (granted["number"], granted["left"]) == (1, 0)
    assert words.startswith("resend_limit_reached: ")
    assert "Do not ask the site for another mail" in words


def test_two_codes_that_fit_alike_are_nobody_s_to_guess(house: House, agent: Agent) -> None:
    inbox = agent.get("open_inbox", attempt_id=house.name())
    for code, sender in (("660011", "a@one.example"), ("660022", "b@two.example")):
        house.post(inbox["email"], f"Your code is {code}", sender=sender)
    _inspected(agent, inbox["inbox_id"], 2)
    words = agent.refused("wait_for_code", inbox_id=inbox["inbox_id"])

    assert words.startswith("wait_contested: ")
    assert "Do not guess" in words
