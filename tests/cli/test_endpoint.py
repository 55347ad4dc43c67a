"""Endpoints at the terminal."""

import asyncio

import pytest

from oncebox.testing.endpoint import ScriptedEndpoint
from tests.cli.ledger import Ledger

URL = "https://app.example.com/hooks"


def test_an_endpoint_is_added_shown_and_removed(ledger: Ledger) -> None:
    added = ledger.type("endpoint", "add", URL, "--events", "send.*,inbox.missed")
    (name, done, secret) = added.rows[0]
    listed = ledger.type("endpoint", "list").rows
    shown = {row[0]: row[1:] for row in ledger.type("endpoint", "show", name).rows}
    record = ledger.type("endpoint", "show", name, "--json").record
    removed = ledger.type("endpoint", "remove", name)

    assert (name, done, secret[:6]) == ("app-example-com", "added", "whsec_")
    assert listed[0][:4] == [name, "active", URL, "inbox.missed,send.*"]
    assert (shown["url"], shown["order"]) == ([URL], ["none"])
    assert secret not in str(record)
    assert "secrets" not in record
    assert removed.rows == [[name, "removed"]]
    assert ledger.type("endpoint", "show", name).code == 3
    assert [row[1] for row in ledger.audit(f"endpoint:{name}")] == [
        "endpoint add", "endpoint remove",
    ]  # fmt: skip


def test_a_secret_is_rotated(ledger: Ledger) -> None:
    first = ledger.type("endpoint", "add", URL, "--name", "a", "--quiet").out.strip()
    second = ledger.type("endpoint", "rotate", "a", "--quiet").out.strip()

    assert first != second
    assert ledger.type("endpoint", "rotate", "a", "--at-once").code == 0
    assert ledger.type("endpoint", "rotate", "b").code == 3


def test_an_endpoint_is_paused_and_resumed(ledger: Ledger) -> None:
    ledger.type("endpoint", "add", URL, "--name", "a")
    ledger.type("endpoint", "pause", "a")
    paused = ledger.type("endpoint", "list").rows[0]
    ledger.type("endpoint", "resume", "a")

    assert (paused[1], "oncebox endpoint resume a" in paused[-1]) == ("paused", True)
    assert ledger.type("endpoint", "list").rows[0][1] == "active"


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (("ftp://a.example",), "https://HOST/PATH"),
        (("https://ann@a.example",), "without user name"),
        (("http://a.example",), "egress.allow"),
        ((URL, "--events", "send.maybe"), "there is no such event type"),
        ((URL, "--name", "A b"), "lower-case letters"),
        ((URL, "--concurrency", "0"), "concurrency"),
    ],
)
def test_what_cannot_be_an_endpoint_is_refused(
    ledger: Ledger, words: tuple[str, ...], remedy: str
) -> None:
    answer = ledger.type("endpoint", "add", *words)

    assert (answer.code != 0, remedy in answer.err) == (True, True)
    assert ledger.type("endpoint", "list").out == ""


def test_a_test_event_tells_whether_an_endpoint_works(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCEBOX_EGRESS__ALLOW", "127.0.0.1")

    async def tested(status: int) -> tuple[int, str]:
        async with ScriptedEndpoint(usual=status) as endpoint:
            name = f"e{status}"
            await asyncio.to_thread(ledger.type, "endpoint", "add", endpoint.url, "--name", name)
            answer = await asyncio.to_thread(ledger.type, "endpoint", "test", name)
            assert endpoint.requests[0].json["type"] == "endpoint.test"
        return answer.code, answer.out

    works, fails = asyncio.run(tested(204)), asyncio.run(tested(500))
    ledger.type("endpoint", "add", "http://127.0.0.1:1", "--name", "none")
    none = ledger.type("endpoint", "test", "none")

    assert (works[0], "works" in works[1]) == (0, True)
    assert (fails[0], "answered 500" in fails[1]) == (1, True)
    assert (none.code, "connection failed" in none.out) == (1, True)
