"""Whatever a mail says, and wherever it says it: no tool says a word of it, at either door."""

import re
import smtplib
from collections.abc import Iterator

import pytest

from tests.mcp.agents import Agent
from tests.mcp.conftest import House
from tests.support.canary import forms
from tests.support.injections import SEEN, WORDS, Letter, corpus

#: the only field with a sender's own word in it: a domain in the form that names have
_DOMAIN = re.compile(r'\\*"sender_domain\\*":\\*"[a-z0-9.-]{0,64}\\*"')
#: what whoever waits has asked for
_OWN_RULES = re.compile(r'\\*"sender_rules\\*":\[[^\]]*\]')
#: senders of the corpus, and what else a wait may ask for
_ASKED: list[dict[str, object]] = [
    {},
    {"sender": "example.com"},
    {"sender": f"{WORDS[SEEN]}.example"},
    {"sender": "nobody.example"},
    {"purpose": "login"},
    {"subject": "*quokka*"},
    {"subject": "Your code 000"},
]


@pytest.fixture(scope="module")
def inboxes(house: House, key: str) -> Iterator[list[dict[str, str]]]:
    """Inboxes of the agent to which the whole corpus came."""
    with house.http(key) as agent:
        found = [
            agent.get("open_inbox", attempt_id=house.name("corpus"), **rest)
            for rest in ({}, {"link_hosts": ["shop.example"]})
        ]
        for letter in corpus():
            _hand_over(house, [each["email"] for each in found], letter)
        for each in found:
            _wait(agent, each["inbox_id"], len(corpus()))
        yield found


def _hand_over(house: House, addresses: list[str], letter: Letter) -> None:
    host, _, port = house.service.greeting["smtp"].rpartition(":")
    with smtplib.SMTP(host, int(port), local_hostname=letter.helo, timeout=60) as client:
        client.ehlo()
        assert client.docmd("MAIL", f"FROM:<{letter.sender}>")[0] == 250
        for address in addresses:
            local, _, domain = address.partition("@")
            tag = f"+{letter.tag}" if letter.tag else ""
            assert client.docmd("RCPT", f"TO:<{local}{tag}@{domain}>")[0] == 250
        assert client.data(letter.mail)[0] == 250


def _wait(agent: Agent, inbox: str, count: int) -> None:
    """Return when all of it was read."""
    found = -1
    while found < count:
        told = agent.get("wait_for_code", inbox_id=inbox, sender="nobody.example", within=1)
        found = told["messages_inspected"]


def test_no_tool_says_a_word_of_a_sender(
    house: House, agent: Agent, inboxes: list[dict[str, str]]
) -> None:
    granted = _tour(agent, inboxes)

    assert granted
    assert _leaks(agent) == set()


def test_not_even_to_who_may_see_everything(house: House, inboxes: list[dict[str, str]]) -> None:
    """Without a key of its own, an agent has the one that the service made for its user."""
    with house.http(house.service.key, mode="legacy") as admin:
        _tour(admin, inboxes)

    assert _leaks(admin) == set()


def _tour(agent: Agent, inboxes: list[dict[str, str]]) -> int:
    """Ask every tool that mail has to do with; return how often there was an answer."""
    granted = 0
    for inbox in inboxes:
        for asked in _ASKED:
            for tool in ("wait_for_code", "wait_for_link", "wait_for_message"):
                said = {"inbox_id": inbox["inbox_id"], "within": 0.02, **asked}
                granted += not agent.ask(tool, **said).is_error
        agent.ask("open_inbox", attempt_id=inbox["attempt_id"])
        agent.ask("request_resend", attempt_id=inbox["attempt_id"])
        agent.ask("begin_action", attempt_id=inbox["attempt_id"], name="verify")
    return granted


def _leaks(agent: Agent) -> set[tuple[str, str]]:
    """Return which places of a mail were heard from which tool."""
    wanted = {place: forms(word) for place, word in WORDS.items()}
    return {
        (place, tool)
        for tool, text in agent.told
        for heard in [_OWN_RULES.sub("", _DOMAIN.sub("", text)).encode()]
        for place, spelled in wanted.items()
        if any(each in heard for each in spelled)
    }


def test_an_operator_is_told_every_word(house: House, inboxes: list[dict[str, str]]) -> None:
    """Otherwise that an agent hears none would say nothing."""
    with house.service.client() as client:
        page = client.get(f"/v1/inboxes/{inboxes[0]['inbox_id']}/messages?limit=100").json()
        shown = "".join(
            client.get(f"/v1/messages/{each['id']}{part}").text
            for each in page["data"]
            for part in ("", "/raw")
        )

    assert {place for place, word in WORDS.items() if word not in shown} == set()
