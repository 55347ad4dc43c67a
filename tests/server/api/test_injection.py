"""Whatever a mail says, and wherever it says it: no agent is told a word of it.

The corpus is sent to a real service by SMTP. Then everything is asked that an agent's key may ask,
made from the table of routes, rightly and wrongly, by HTTP, as a stream, by the client and at the
terminal.
"""

import ast
import importlib
import inspect
import itertools
import re
import smtplib
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import httpx2
import msgspec
import pytest

from oncebox.cli.main import root
from oncebox.client.sync import Client
from oncebox.errors import OnceboxError
from oncebox.server.application import ROUTES
from oncebox.server.http.routing import AGENT, Route
from tests.cli.services import Running, Services
from tests.server.api.test_permissions import BODIES
from tests.support.canary import forms
from tests.support.injections import SEEN, WORDS, Letter, corpus
from tests.torture.processes import ROOT, Children, until

ATTEMPT = "signup-42"
#: routes that an agent's key may call; those that need no key are for everybody
ASKED = [route for route in ROUTES if route.is_open or AGENT in route.scopes]
_ID = re.compile(r'"([a-z]{3}_[0-9a-z]{20,32})"')
#: the only field with a sender's own word in it: a domain in the form that names have
_DOMAIN = re.compile(r"""\b(?:sender_)?domain["']?[:=]\s?["'][a-z0-9.-]{0,64}["']""")


@dataclass
class Agent:
    """An agent of a service that was sent the corpus, and all that it was told."""

    service: Running
    folder: Path
    key: str
    inboxes: list[dict[str, Any]]
    told: list[tuple[str, str]] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def client(self, key: str | None = None) -> httpx2.Client:
        headers = {"Authorization": f"Bearer {key or self.key}"}
        return httpx2.Client(base_url=self.service.url, headers=headers, timeout=60)

    def ask(self, client: httpx2.Client, method: str, path: str, **rest: Any) -> httpx2.Response:
        """Ask for something and remember the answer, headers included."""
        rest["headers"] = {"Idempotency-Key": f"n-{next(self.numbers)}", **rest.get("headers", {})}
        answer = client.request(method, path, **rest)
        self.told.append((f"{method} {path}", f"{dict(answer.headers)} {answer.text}"))
        return answer

    def ids(self) -> list[str]:
        """Return every id that it has heard of."""
        return sorted({id_ for _, text in self.told for id_ in _ID.findall(text)})

    def leaks(self) -> set[tuple[str, str]]:
        """Return which places of a mail were heard in which answer."""
        wanted = {place: forms(word) for place, word in WORDS.items()}
        return {
            (place, where)
            for where, text in self.told
            for content in [_DOMAIN.sub("", text).encode()]
            for place, spelled in wanted.items()
            if any(each in content for each in spelled)
        }


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    folder = tmp_path_factory.mktemp("injection")
    with Children(folder) as children:
        services = Services(folder, children)
        services.set("ONCEBOX_SMTP__JUNK", "1000")
        services.set("ONCEBOX_MAIL__DNS_SERVERS", "127.0.0.1:9")
        service = services.serve()
        agent = _agent(service, folder)
        _send(service, agent.inboxes, corpus())
        _wait(agent, len(corpus()))
        yield agent


@pytest.fixture
def agent(sent: Agent) -> Agent:
    """The agent, before it has heard anything."""
    sent.told.clear()
    return sent


def _agent(service: Running, folder: Path) -> Agent:
    with service.client() as client:
        headers = {"Idempotency-Key": "agent"}
        made = client.post("/v1/keys", json={"scopes": ["agent"]}, headers=headers).json()
    agent = Agent(service, folder, made["key"], [])
    policies: list[dict[str, Any]] = [
        {},
        {"senders": ["shop.example"], "token": "t0ken", "purpose": "login"},
    ]
    with agent.client() as client:
        for number, policy in enumerate(policies):
            wish = {"attempt_id": ATTEMPT, "label": f"l{number}", "policy": policy}
            answer = agent.ask(client, "POST", "/v1/inboxes", json=wish)
            agent.inboxes.append(answer.raise_for_status().json())
    return agent


def _send(service: Running, inboxes: list[dict[str, Any]], letters: Iterable[Letter]) -> None:
    host, _, port = service.greeting["smtp"].rpartition(":")
    for letter in letters:
        with smtplib.SMTP(host, int(port), local_hostname=letter.helo, timeout=30) as client:
            client.ehlo()
            assert client.docmd("MAIL", f"FROM:<{letter.sender}>")[0] == 250
            for inbox in inboxes:
                local, _, domain = inbox["email"].partition("@")
                tag = f"+{letter.tag}" if letter.tag else ""
                assert client.docmd("RCPT", f"TO:<{local}{tag}@{domain}>")[0] == 250
            assert client.data(letter.mail)[0] == 250


def _wait(agent: Agent, count: int) -> None:
    with agent.client() as client:
        for _ in until(120):
            found = [
                len(client.get(f"/v1/inboxes/{each['id']}/messages?limit=100").json()["data"])
                for each in agent.inboxes
            ]
            if found == [count] * len(agent.inboxes):
                return
            time.sleep(0.2)
    pytest.fail(f"{found} of {count} mails were filed")


# what an agent may ask


@pytest.mark.timeout(300)
def test_no_answer_of_the_api_says_a_word_of_a_sender(agent: Agent) -> None:
    answered = set()
    with agent.client() as client:
        for turn in range(2):  # what is learnt in the first turn is asked for in the second
            for route in sorted(ASKED, key=_turn):
                for path in _paths(route, agent.ids(), every=route.method == "GET" and turn > 0):
                    for sides in _sides(route, agent):
                        answer = agent.ask(client, route.method, path, **sides)
                        answered |= {route.name} if answer.is_success else set()
        _follow(agent, client)

    assert agent.leaks() == set()
    assert {route.name for route in ASKED} - answered == set()  # each said something, once
    assert len([each for each in agent.ids() if each.startswith("msg_")]) == 2 * len(corpus())


def _turn(route: Route) -> tuple[bool, bool]:
    """Read first, and end things last."""
    ends = route.path.endswith(("/done", "/not-done", "/close", "/rotate"))
    return (route.method != "GET", ends)


def _paths(route: Route, ids: list[str], *, every: bool) -> Iterator[str]:
    """Fill a route with whatever is known: all of it, or the oldest and newest of each kind."""
    if "{" not in route.path:
        yield route.path
        return
    page = {"folder": "reference", "page": "api.md" if "folder" in route.path else "waiting.md"}
    kinds = itertools.groupby(ids, key=lambda each: each[:4])
    ends = [each for _, group in kinds for each in _ends(list(group))]
    for id_ in (*(ids if every else ends), ATTEMPT, "nothing"):
        yield route.path.format(id=id_, name="verify", number="1", code="not_found", **page)


def _ends(ids: list[str]) -> list[str]:
    # Of artifacts all: only some of them can be claimed.
    return ids if len(ids) <= 8 or ids[0].startswith("art_") else [*ids[:2], *ids[-6:]]


def _sides(route: Route, agent: Agent) -> Iterator[dict[str, Any]]:
    """Ask rightly and wrongly, for all there is and for nonsense."""
    if route.body is not None:
        body = dict(BODIES.get(route.body.__name__, {}))
        if "wait" in route.body.__struct_fields__:
            body["wait"] = 0
        if body.get("inboxes") == ["inb_nothing"]:
            body["inboxes"] = [each["id"] for each in agent.inboxes]
        yield {"json": body}
        if "send_at" in route.body.__struct_fields__:  # one that is not sent yet can be called off
            later = int(time.time() * 1000) + 3_600_000
            yield {"json": {**body, "send_at": later}}
        if "kind" in route.body.__struct_fields__:
            yield {"json": {**body, "kind": "link"}}
        yield {"json": {"nonsense": 1}}
        return
    yield {}
    if route.query is not None:
        fields = set(route.query.__struct_fields__)
        yield {"params": dict.fromkeys(fields & {"text", "payload"}, "true") | {"limit": 100}}
        yield {"params": {"limit": "x", "cursor": "x"}}
        if "prefix" in fields:
            yield {"params": {"prefix": ATTEMPT[:2]}}


def _follow(agent: Agent, client: httpx2.Client) -> None:
    """Hear the stream of events from its beginning."""
    streams = [route for route in ASKED if route.streamer is not None]
    assert streams
    for route in streams:
        headers = {"Accept": "text/event-stream"}
        with client.stream("GET", route.path, headers=headers) as stream:
            heard = b""
            for piece in stream.iter_raw():
                heard += piece
                if heard.count(b"\n\n") >= len(corpus()):
                    break
        agent.told.append((f"stream {route.path}", heard.decode()))
        assert b"message.received" in heard


def test_a_domain_is_told_as_a_name_and_a_sentence_is_not(agent: Agent) -> None:
    """An agent must know who wrote; but that leaves little room for words."""
    with agent.client() as client:
        page = client.get(f"/v1/inboxes/{agent.inboxes[0]['id']}/messages?limit=100").json()
    domains = {each["sender"]["domain"] for each in page["data"]}

    assert f"{WORDS[SEEN]}.example" in domains
    assert not any(WORDS["longdomain"] in each for each in domains)
    assert all(re.fullmatch(r"[a-z0-9.-]{0,64}", each) for each in domains)


def test_another_key_learns_nothing_at_all(agent: Agent) -> None:
    with agent.service.client() as client:
        headers = {"Idempotency-Key": "another"}
        made = client.post("/v1/keys", json={"scopes": ["agent"]}, headers=headers).json()
    mine = [each["id"] for each in agent.inboxes]
    with agent.client(made["key"]) as client:
        for route in ASKED:
            for path in _paths(route, mine, every=True):
                for sides in _sides(route, agent):
                    agent.ask(client, route.method, path, **sides)

    assert agent.leaks() == set()


def test_an_operator_is_told_every_word(agent: Agent) -> None:
    """Otherwise that an agent hears none would say nothing."""
    with agent.service.client() as client:
        page = client.get(f"/v1/inboxes/{agent.inboxes[0]['id']}/messages?limit=100").json()
        shown = "".join(
            client.get(f"/v1/messages/{each['id']}{part}").text
            for each in page["data"]
            for part in ("", "/raw")
        )

    assert {place for place, word in WORDS.items() if word not in shown} == set()


# the client and the terminal


def test_no_value_and_no_error_of_the_client_says_a_word_of_a_sender(agent: Agent) -> None:
    inbox = agent.inboxes[0]["id"]
    with Client(agent.service.url, agent.key) as client:
        made = client.inboxes.create(attempt_id=ATTEMPT, label="l0")
        calls = [
            lambda: list(client.inboxes.messages(inbox)),
            lambda: client.inboxes.get(inbox),
            lambda: list(client.events.list()),
            lambda: client.messages.get("msg_gone"),
            lambda: client.inboxes.get("inb_gone"),
            lambda: client.messages.raw("msg_gone"),
            lambda: made.wait_for_code(within=0.5),
            lambda: made.wait_for_link(host="shop.example", within=0.5),
        ]
        for call in calls:
            agent.told.append(("client", _outcome(call)))

    assert agent.leaks() == set()


def _outcome(call: Any) -> str:
    """Return everything that a value or an error says of itself."""
    try:
        value = call()
    except AttributeError:
        return ""  # this version has no such call
    except (OnceboxError, ValueError) as error:
        return f"{error!r} {error} {vars(error)} {error.__cause__!r} {error.__context__!r}"
    return f"{value!r} {msgspec.json.encode(value, enc_hook=repr).decode()}"


def test_no_command_for_agents_prints_a_word_of_a_sender(agent: Agent) -> None:
    """Commands that speak through the client are typed with the agent's key."""
    environment = {
        "ONCEBOX_URL": agent.service.url,
        "ONCEBOX_API_KEY": agent.key,
        "ONCEBOX_DATA_DIR": str(agent.folder / "elsewhere"),
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": str(ROOT / "src"),
    }
    for words, command in _commands(root, ()):
        if "oncebox.client" not in _imports(command):
            continue
        needed = [each for each in command.params if isinstance(each, click.Argument)]
        for more in ((), ("--json",)):
            typed = [*words, *(agent.inboxes[0]["id"] for _ in needed), *more]
            done = subprocess.run(
                [sys.executable, "-m", "oncebox", *typed],
                check=False,
                capture_output=True,
                cwd=agent.folder,
                env=environment,
                timeout=90,
            )
            agent.told.append((" ".join(words), (done.stdout + done.stderr).decode()))

    assert agent.leaks() == set()


def _commands(
    group: click.Command, words: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(group, click.Group):
        yield words, group
        return
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield from _commands(command, (*words, name))


def _imports(command: click.Command) -> set[str]:
    """Return what the module of a command imports, wherever in it."""
    callback = inspect.unwrap(command.callback) if command.callback else None
    module = importlib.import_module(callback.__module__ if callback else "oncebox.cli.main")
    tree = ast.walk(ast.parse(inspect.getsource(module)))
    return {
        name.rsplit(".", level)[0]
        for node in tree
        if isinstance(node, ast.ImportFrom) and node.module
        for level in range(4)
        for name in [node.module]
    }
