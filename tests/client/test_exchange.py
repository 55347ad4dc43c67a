"""Calls over a line that breaks: what is sent again, when, and what the caller is told."""

import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from oncebox.client.errors import (
    AnswerUnreadable,
    ClientClosed,
    DeadlinePassed,
    NoAnswer,
    ServiceRefused,
    ServiceUnreachable,
)
from oncebox.client.sync import Client
from oncebox.core import credentials
from oncebox.core.credentials import Credentials
from oncebox.errors import (
    CommitUnknown,
    ConfigInvalid,
    DatabaseBusy,
    KeyInvalid,
    NotFound,
    OnceboxError,
)
from oncebox.errors.http import (
    FieldsInvalid,
    RequestInProgress,
    ServerBusy,
    TooManyRequests,
    Unauthenticated,
)
from tests.client.conftest import KEY, Speaker
from tests.support.scripted import (
    Act,
    answer,
    cut,
    drip,
    late,
    nobody,
    problem,
    reset,
    scripted,
    silence,
)

SELF = {
    "tenant": "acme",
    "key": {
        "id": "key_1",
        "name": "",
        "hint": "obx_te",
        "scopes": ["admin"],
        "state": "active",
        "created_at": 0,
    },
}
MADE = SELF["key"] | {"key": "obx_new"}  # type: ignore[operator]
DELIVERY: dict[str, object] = {
    "id": "dlv_1", "source": "shop", "key": "k", "variant": "", "type": "", "road": "api",
    "state": "held", "lane": None, "lane_position": None, "late": False, "due_at": None,
    "received_at": 1, "accepted_at": 1, "tries": 0, "fence": 0, "worker": None,
    "claimed_at": None, "give_up_at": None, "not_before": None, "rearms": 0, "policy": None,
    "hold_reason": "operator", "held_at": 1, "outcome": None, "last_error": None,
    "ended_at": None, "size": 2,
}  # fmt: skip
ENDED = {"state": "done", "due_at": None}


def test_a_call_carries_the_key_and_nothing_of_the_environment(
    speaker: Speaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    with scripted(answer(SELF)) as script:
        found = speaker.ask(script.url, lambda client: client.keys.mine())

    assert found.tenant == "acme"
    (heard,) = script.heard
    assert (heard.method, heard.path) == ("GET", "/v1/self")
    assert heard.headers["authorization"] == f"Bearer {KEY}"
    assert "idempotency-key" not in heard.headers


@pytest.mark.parametrize(
    "breaking",
    [
        pytest.param(cut(), id="no answer"),
        pytest.param(cut(b"HTTP/1.1 200 OK\r\ncontent-le"), id="half a head"),
        pytest.param(cut(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"), id="half a body"),
        pytest.param(reset(), id="reset"),
        pytest.param(answer(b"<html>", 502, "text/html"), id="bad gateway"),
        pytest.param(answer(b"<html>", 504, "text/html"), id="gateway timeout"),
        pytest.param(problem("database_busy", 503, retry_safe=True), id="busy"),
        pytest.param(problem("commit_unknown", 503, retry_safe=True), id="commit unknown"),
    ],
)
def test_a_question_is_asked_again_when_its_answer_is_lost(speaker: Speaker, breaking: Act) -> None:
    with scripted(breaking, breaking, answer(SELF)) as script:
        found = speaker.ask(script.url, lambda client: client.keys.mine())

    assert found.tenant == "acme"
    assert len(script.heard) == 3


@pytest.mark.parametrize(
    "breaking",
    [cut(), reset(), problem("request_in_progress", 409, retry_safe=True)],
    ids=["no answer", "reset", "still running"],
)
def test_a_creation_is_sent_again_as_the_same_request(speaker: Speaker, breaking: Act) -> None:
    with scripted(breaking, answer(MADE, 201)) as script:
        made = speaker.ask(script.url, lambda client: client.keys.make(["admin"], name="ci"))

    first, second = script.heard
    assert made.key == "obx_new"
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
    assert first.body == second.body


def test_every_creation_has_a_key_of_its_own(speaker: Speaker) -> None:
    with scripted(answer(MADE, 201)) as script:
        for _ in range(3):
            speaker.ask(script.url, lambda client: client.keys.make(["admin"]))

    assert len({each.headers["idempotency-key"] for each in script.heard}) == 3


def test_a_callers_own_idempotency_key_is_used(speaker: Speaker) -> None:
    with scripted(answer(MADE, 201)) as script:
        speaker.ask(
            script.url, lambda client: client.keys.make(["admin"], idempotency_key='say "x"\\')
        )

    assert script.heard[0].headers["idempotency-key"] == '"say \\"x\\"\\\\"'


@pytest.mark.parametrize("key", ["", "two\nlines", "é", "x" * 256])
def test_a_key_that_fits_no_header_is_refused_at_once(speaker: Speaker, key: str) -> None:
    with scripted(answer(MADE, 201)) as script, pytest.raises(KeyInvalid):
        speaker.ask(script.url, lambda client: client.keys.make(["admin"], idempotency_key=key))

    assert script.heard == []


@pytest.mark.parametrize(
    "breaking",
    [cut(), reset(), answer(b"", 502, "text/html")],
    ids=["no answer", "reset", "bad gateway"],
)
def test_what_may_not_happen_twice_is_sent_once(speaker: Speaker, breaking: Act) -> None:
    """A replay whose answer was lost may have happened; a second one would run it again."""
    with scripted(breaking) as script, pytest.raises(ServiceUnreachable) as caught:
        speaker.ask(script.url, lambda client: client.deliveries.replay("dlv_1", why="test"))

    assert len(script.heard) == 1
    assert caught.value.sent
    assert not caught.value.retry_safe


@pytest.mark.parametrize(
    "refusing",
    [
        problem("too_many_requests", 429, retry_safe=True),
        problem("server_busy", 503, retry_safe=True),
    ],
    ids=["too many requests", "server busy"],
)
def test_whoever_was_turned_away_at_the_door_comes_back(speaker: Speaker, refusing: Act) -> None:
    """Also with what may not happen twice: nothing has happened yet."""
    with scripted(refusing, answer(DELIVERY)) as script:
        held = speaker.ask(script.url, lambda client: client.deliveries.hold("dlv_1", why="test"))

    assert held.state == "held"
    assert len(script.heard) == 2


def test_a_doubtful_commit_of_what_may_not_happen_twice_is_left_to_the_caller(
    speaker: Speaker,
) -> None:
    with (
        scripted(problem("commit_unknown", 503, retry_safe=True)) as script,
        pytest.raises(CommitUnknown) as caught,
    ):
        speaker.ask(script.url, lambda client: client.deliveries.replay("dlv_1", why="test"))

    assert len(script.heard) == 1
    assert not caught.value.retry_safe


def test_a_fenced_call_is_repeated(speaker: Speaker) -> None:
    with scripted(cut(), answer(ENDED)) as script:
        ended = speaker.ask(script.url, lambda client: client.deliveries.complete("dlv_1", 3))

    assert ended.state == "done"
    assert [each.json for each in script.heard] == [{"fence": 3}] * 2


@pytest.mark.parametrize(
    ("code", "status"),
    [("not_found", 404), ("forbidden", 403), ("internal_error", 500), ("lease_lost", 409)],
)
def test_a_no_is_taken_for_a_no(speaker: Speaker, code: str, status: int) -> None:
    with scripted(problem(code, status)) as script, pytest.raises(Exception, match=code) as caught:
        speaker.ask(script.url, lambda client: client.keys.mine())

    assert len(script.heard) == 1
    assert caught.value.code == code  # type: ignore[attr-defined]


def test_retry_after_is_honoured(speaker: Speaker) -> None:
    refusing = problem("too_many_requests", 429, retry_safe=True, retry_after="1")
    with scripted(refusing, answer(SELF)) as script:
        speaker.ask(script.url, lambda client: client.keys.mine())

    assert script.pauses[0] >= 1


def test_a_wait_beyond_the_deadline_is_not_waited_for(speaker: Speaker) -> None:
    refusing = problem("server_busy", 503, retry_safe=True, retry_after="60")
    began = time.monotonic()
    with scripted(refusing) as script, pytest.raises(ServerBusy) as caught:
        speaker.ask(script.url, lambda client: client.keys.mine(), timeout=3)

    assert time.monotonic() - began < 30
    assert caught.value.retry_after == 60
    assert caught.value.retry_safe
    assert len(script.heard) == 1


def test_nothing_is_sent_after_the_deadline(speaker: Speaker) -> None:
    with (
        scripted(problem("database_busy", 503, retry_safe=True)) as script,
        pytest.raises((DatabaseBusy, DeadlinePassed)),
    ):
        speaker.ask(script.url, lambda client: client.keys.mine(), timeout=1)
    seen = len(script.heard)
    time.sleep(0.3)

    assert 2 <= seen == len(script.heard)
    assert script.heard[-1].at - script.heard[0].at <= 2


@pytest.mark.parametrize(
    "slow",
    [
        silence(),
        drip(b"HTTP/1.1 200 OK\r\n" + b"x-padding: y\r\n" * 100),
        drip(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n" + b" " * 1000, every=0.02),
        late(10, answer(SELF)),
    ],
    ids=["silence", "headers drip", "body drips", "late"],
)
def test_one_deadline_bounds_a_call_however_the_answer_dawdles(speaker: Speaker, slow: Act) -> None:
    began = time.monotonic()
    with scripted(slow) as script, pytest.raises(DeadlinePassed, match=r"within 1\.0 s") as caught:
        speaker.ask(script.url, lambda client: client.keys.mine(), timeout=1)

    assert time.monotonic() - began < 6
    assert caught.value.retry_safe
    assert script.heard


def test_an_attempt_that_hears_nothing_leaves_time_for_another(speaker: Speaker) -> None:
    with scripted(silence(), answer(SELF)) as script:
        found = speaker.ask(script.url, lambda client: client.keys.mine(), timeout=2)

    assert found.tenant == "acme"
    assert len(script.heard) == 2


def test_a_lost_creation_says_that_making_it_anew_is_not_safe(speaker: Speaker) -> None:
    """Its key dies with the call; with a key of the caller's own it would be safe."""
    with scripted(cut()) as script:
        with pytest.raises(NoAnswer) as caught:
            speaker.ask(script.url, lambda client: client.keys.make(["admin"]), timeout=0.5)
        with pytest.raises(NoAnswer) as with_key:
            speaker.ask(
                script.url,
                lambda client: client.keys.make(["admin"], idempotency_key="mine"),
                timeout=0.5,
            )

    assert not caught.value.retry_safe
    assert with_key.value.retry_safe


def test_nobody_there_is_said_plainly_and_is_safe_to_retry(speaker: Speaker) -> None:
    with nobody() as url, pytest.raises(ServiceUnreachable, match="no connection") as caught:
        speaker.ask(url, lambda client: client.deliveries.replay("dlv_1", why="test"), timeout=0.5)

    assert not caught.value.sent
    assert caught.value.retry_safe


def test_a_wait_for_a_service_that_is_not_there_is_logged_once(
    speaker: Speaker, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level("WARNING", "oncebox.client"),
        nobody() as url,
        pytest.raises(ServiceUnreachable, match="start it with: oncebox serve"),
    ):
        speaker.ask(url, lambda client: client.keys.mine(), timeout=0.5)

    (line,) = [each for each in caplog.records if each.name == "oncebox.client"]
    assert line.levelname == "WARNING"
    assert f"no connection to {url}" in line.getMessage()


@pytest.mark.parametrize("source", ["argument", "variable", "own file", "credentials"])
def test_a_refused_key_is_named_by_its_source(
    speaker: Speaker, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONCEBOX_DATA_DIR", str(tmp_path))
    for name in ("ONCEBOX_API_KEY", "ONCEBOX_API_KEY_FILE", "ONCEBOX_URL"):
        monkeypatch.delenv(name, raising=False)
    with scripted(problem("unauthenticated", 401)) as service:
        said = {
            "argument": "the argument of the client",
            "variable": "ONCEBOX_API_KEY",
            "own file": f"the file {tmp_path / 'key'} (ONCEBOX_API_KEY_FILE)",
            "credentials": f"the credentials file {tmp_path / 'credentials.json'}",
        }[source]
        (tmp_path / "key").write_text(KEY)
        if source == "variable":
            monkeypatch.setenv("ONCEBOX_API_KEY", KEY)
        elif source == "own file":
            monkeypatch.setenv("ONCEBOX_API_KEY_FILE", str(tmp_path / "key"))
        elif source == "credentials":
            credentials.write(tmp_path, Credentials(url=service.url, key=KEY))
        key = KEY if source == "argument" else None
        with pytest.raises(Unauthenticated) as caught:
            speaker.ask(service.url, lambda client: client.keys.mine(), key=key)

    assert str(caught.value).endswith(f"(the key is from {said})")
    assert KEY not in str(caught.value)


def test_another_programs_answers_are_not_mistaken_for_ours(speaker: Speaker) -> None:
    for strange in (
        answer(b"<html>welcome</html>", 200, "text/html"),
        answer({"hello": "world"}),
        answer(b"", 302, "text/html", location="https://example.com"),
        answer(b"no such page", 404, "text/plain"),
        answer(b"{}", 400, "application/problem+json"),
        answer(b"\xff", 200),
    ):
        with scripted(strange) as script, pytest.raises(AnswerUnreadable, match="not one of"):
            speaker.ask(script.url, lambda client: client.keys.mine())
        assert len(script.heard) == 1


def test_an_unknown_problem_keeps_everything_it_said(speaker: Speaker) -> None:
    refusing = problem("brand_new", 418, retry_safe=False)
    with scripted(refusing) as script, pytest.raises(ServiceRefused) as caught:
        speaker.ask(script.url, lambda client: client.keys.mine())

    error = caught.value
    assert (error.code, error.status, error.request_id) == ("brand_new", 418, "req_1")
    assert (error.retry_safe, str(error)) == (False, "this is brand_new")


def test_an_unknown_problem_that_may_pass_is_tried_again(speaker: Speaker) -> None:
    with scripted(problem("brand_new", 503, retry_safe=True), answer(SELF)) as script:
        speaker.ask(script.url, lambda client: client.keys.mine())

    assert len(script.heard) == 2


def test_a_refused_field_is_pointed_to(speaker: Speaker) -> None:
    with (
        scripted(problem("fields_invalid", 422)) as script,
        pytest.raises(FieldsInvalid) as caught,
    ):
        speaker.ask(script.url, lambda client: client.keys.make(["x"]))

    assert caught.value.pointer == "/name"


def test_connections_are_used_again() -> None:
    with scripted(answer(SELF)) as script, Client(script.url, KEY) as client:
        for _ in range(5):
            client.keys.mine()
        client.within(3).keys.mine()

    assert {each.connection for each in script.heard} == {0}


def test_threads_may_share_a_client() -> None:
    with (
        scripted(answer(SELF)) as script,
        Client(script.url, KEY) as client,
        ThreadPoolExecutor(8) as threads,
    ):
        found = list(threads.map(lambda _number: client.keys.mine().tenant, range(100)))

    assert found == ["acme"] * 100
    assert len({each.connection for each in script.heard}) <= 8


def test_a_connection_that_was_closed_while_idle_is_replaced() -> None:
    """Nothing is sent on it, so that what may not happen twice needs no repeat."""

    def then_close(connection: socket.socket) -> bool:
        answer(DELIVERY)(connection)
        return False

    with scripted(then_close, answer(DELIVERY)) as script, Client(script.url, KEY) as client:
        client.deliveries.hold("dlv_1", why="test")
        time.sleep(0.1)
        client.deliveries.hold("dlv_1", why="test")

    assert [each.connection for each in script.heard] == [0, 1]


def _get_source(name: str) -> Callable[[Any], Any]:
    return lambda client: client.sources.get(name)


def test_a_name_may_hold_anything(speaker: Speaker) -> None:
    """It cannot lead to another path, nor end the request line."""
    names = ["a/b", "..", ".", "a b", "?x=1", "#x", "é", "a\r\nb", "%2F"]
    with scripted(problem("not_found", 404)) as script:
        for name in names:
            with pytest.raises(NotFound):
                speaker.ask(script.url, _get_source(name))

    paths = [each.path for each in script.heard]
    assert paths == [
        "/v1/sources/a%2Fb",
        "/v1/sources/%2E%2E",
        "/v1/sources/%2E",
        "/v1/sources/a%20b",
        "/v1/sources/%3Fx%3D1",
        "/v1/sources/%23x",
        "/v1/sources/%C3%A9",
        "/v1/sources/a%0D%0Ab",
        "/v1/sources/%252F",
    ]


def test_a_service_below_a_path_is_reached(speaker: Speaker) -> None:
    with scripted(answer(SELF)) as script:
        speaker.ask(f"{script.url}/oncebox/", lambda client: client.keys.mine())

    assert script.heard[0].path == "/oncebox/v1/self"


def test_a_list_is_gone_through_page_by_page(speaker: Speaker) -> None:
    pages = [
        {
            "data": [DELIVERY | {"id": f"dlv_{page}"}],
            "next_cursor": cursor,
            "has_more": bool(cursor),
        }
        for page, cursor in enumerate(["c1_a+/", "c1_b", None])
    ]
    with scripted(*[answer(page) for page in pages]) as script:
        found = speaker.ask(
            script.url, lambda client: client.deliveries.list(state="held", source="shop")
        )

    assert [each.id for each in found] == ["dlv_0", "dlv_1", "dlv_2"]
    assert [each.path.partition("?")[2] for each in script.heard] == [
        "limit=50&state=held&source=shop",
        "limit=50&cursor=c1_a%2B%2F&state=held&source=shop",
        "limit=50&cursor=c1_b&state=held&source=shop",
    ]


def test_a_list_fetches_no_page_that_is_not_read() -> None:
    page = {"data": [DELIVERY], "next_cursor": "c1_a", "has_more": True}
    with scripted(answer(page)) as script, Client(script.url, KEY) as client:
        next(client.deliveries.list())

    assert len(script.heard) == 1


def test_a_closed_client_says_so() -> None:
    with scripted(answer(SELF)) as script:
        client = Client(script.url, KEY)
        client.close()
        with pytest.raises(ClientClosed):
            client.keys.mine()

    assert script.heard == []


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf")])
def test_a_deadline_that_cannot_be_kept_is_refused(timeout: float) -> None:
    with pytest.raises(ConfigInvalid, match="deadline"):
        Client("http://127.0.0.1:1", KEY, timeout=timeout)


@pytest.mark.parametrize(
    ("refusing", "error"),
    [
        (problem("request_in_progress", 409, retry_safe=True, retry_after="9"), RequestInProgress),
        (problem("too_many_requests", 429, retry_safe=True, retry_after="9"), TooManyRequests),
    ],
    ids=["still running", "too many requests"],
)
def test_a_clear_no_leaves_a_creation_safe_to_make_anew(
    speaker: Speaker, refusing: Act, error: type[OnceboxError]
) -> None:
    with scripted(refusing) as script, pytest.raises(error) as caught:
        speaker.ask(script.url, lambda client: client.keys.make(["admin"]), timeout=8)

    assert caught.value.retry_safe


def test_no_answer_is_one_word_for_every_silence() -> None:
    assert issubclass(ServiceUnreachable, NoAnswer)
    assert issubclass(DeadlinePassed, NoAnswer)
