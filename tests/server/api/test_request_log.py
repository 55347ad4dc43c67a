"""The log names requests, waits and claims by their ids, and never what they were about."""

import logging
from typing import Any

import pytest

from oncebox.core import clock
from oncebox.core.logging import Log
from oncebox.server.http.request_context import RequestLog
from tests.support.api import Api
from tests.support.finds import code
from tests.support.waits import Arrivals

TOKEN = "canary-token"


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """What is logged."""
    caplog.set_level(logging.DEBUG)
    return caplog


@pytest.fixture
async def desk(api: Api) -> Arrivals:
    """An inbox of an attempt."""
    desk = Arrivals(api.box)
    await desk.add_inbox("inb_1")
    return desk


def told(log: pytest.LogCaptureFixture, event: str) -> list[dict[str, Any]]:
    """Return the lines of an event."""
    facts = [each.msg for each in log.records if isinstance(each.msg, dict)]
    return [each for each in facts if each["event"] == event]


async def test_every_refused_request_is_logged_by_its_id(
    api: Api, log: pytest.LogCaptureFixture
) -> None:
    answer = await api.call("GET", "/v1/deliveries/dlv_canary-id")

    (line,) = told(log, "request_refused")
    assert line["request"] == answer.headers["x-request-id"] == answer.json()["request_id"]
    assert (line["route"], line["status"], line["code"], line["level"]) == (
        "/v1/deliveries/{id}",
        404,
        "not_found",
        "info",
    )
    assert "canary-id" not in str(line)


async def test_requests_that_succeed_are_logged_for_who_searches(
    api: Api, log: pytest.LogCaptureFixture
) -> None:
    answer = await api.call("GET", "/v1/self")

    lines = [each for each in told(log, "request_served") if each["route"] == "/v1/self"]
    assert [(each["request"], each["level"]) for each in lines] == [
        (answer.headers["x-request-id"], "debug")
    ]
    assert told(log, "request_refused") == []


async def test_a_grant_is_logged_by_ids_and_without_its_value(
    api: Api, desk: Arrivals, log: pytest.LogCaptureFixture
) -> None:
    await desk.bring("inb_1", code("481920"))
    path = "/v1/inboxes/inb_1/wait"
    worker = {"request_key": "worker-1"}
    answer = await api.call("POST", path, {"kind": "code", **worker}, scopes=("operator",))
    artifact = answer.json()["grant"]["id"]
    again = await api.call("POST", f"/v1/artifacts/{artifact}/claim", worker, scopes=("operator",))

    lines = told(log, "artifact_granted")
    assert [each["request"] for each in lines] == [
        answer.headers["x-request-id"],
        again.headers["x-request-id"],
    ]
    for each, repeated in zip(lines, (False, True), strict=True):
        assert (each["artifact"], each["inbox"], each["attempt"]) == (
            artifact,
            "inb_1",
            "att_inb_1",
        )
        assert (each["kind"], each["repeated"]) == ("code", repeated)
    assert "481920" not in log.text
    assert told(log, "wait_ended") == []


async def test_a_wait_in_vain_is_logged_with_what_it_waited_for(
    api: Api, desk: Arrivals, log: pytest.LogCaptureFixture
) -> None:
    await desk.bring("inb_1", code("481920"))
    wanted = {"kind": "link", "sender": "shop.example", "purpose": "reset", "token": TOKEN}
    answer = await api.call("POST", "/v1/inboxes/inb_1/wait", wanted, scopes=("operator",))

    assert answer.json()["status"] == "timeout"
    (line,) = told(log, "wait_ended")
    assert line["request"] == answer.headers["x-request-id"]
    assert (line["status"], line["kind"], line["inspected"]) == ("timeout", "link", 1)
    assert (line["inboxes"], line["attempts"]) == (["inb_1"], ["att_inb_1"])
    assert line["criteria"] == {"sender": "shop.example", "purpose": "reset", "token": True}
    assert TOKEN not in log.text


class _Refused:
    code, route, status, request_id = "not_found", "none", 404, "req_1"


def test_a_flood_of_refused_requests_is_summed_up(
    log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 10.0
    monkeypatch.setattr(clock, "steady", lambda: now)
    requests = RequestLog(Log())
    for _ in range(50):
        requests.ended(_Refused())  # type: ignore[arg-type]
    now = 11.0
    requests.ended(_Refused())  # type: ignore[arg-type]

    lines = told(log, "request_refused")
    assert len(lines) == 21
    assert [each.get("left_out") for each in lines] == [None] * 20 + [30]
