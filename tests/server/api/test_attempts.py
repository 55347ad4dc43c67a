"""Actions and resends by the API."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from oncebox.core.metrics import Telemetry
from oncebox.model.attempts import BeginStatus
from oncebox.schemas.attempts import BeginActionResult
from tests.support.api import OTHER, Api, calling
from tests.support.databases import fresh_sqlite

AGENT = ("agent",)
AT = "/v1/attempts/signup-42/actions/verify"
RESEND = "/v1/attempts/signup-42/resend"
SECRET = "canary-5e0c7d"


@pytest.fixture
async def stranger(api: Api) -> str:
    """The key of another agent."""
    made = await api.call("POST", "/v1/keys", {"scopes": ["agent"]})
    return str(made.json()["key"])


async def post(api: Api, path: str = AT, body: Any = None, status: int = 200, **rest: Any) -> Any:
    if "key" not in rest:
        rest.setdefault("scopes", AGENT)
    answer = await api.call("POST", path, body or {}, **rest)
    assert answer.status_code == status, answer.text
    return answer.json()


def counted(telemetry: Telemetry, name: str, outcome: str) -> float:
    return telemetry.registry.get_sample_value(f"{name}_total", {"outcome": outcome}) or 0.0


async def test_an_action_is_begun_ended_and_told_ever_after(api: Api) -> None:
    begun = await post(api)
    other = await post(api)
    done = await post(api, f"{AT}/done", {"fence": begun["fence"], "result": {"account": 7}})
    told = await post(api, body={"safe": "idempotent"})

    assert (begun["state"], begun["fence"], begun["result"]) == ("begun", 1, None)
    assert begun["key"].startswith("act_")
    assert (other["state"], other["fence"], other["key"]) == ("in_flight", None, begun["key"])
    assert other["lease_until"] == begun["lease_until"]
    assert (done["state"], done["result"], done["lease_until"]) == ("done", {"account": 7}, None)
    assert (told["state"], told["result"], told["fence"]) == ("done", {"account": 7}, None)
    telemetry = api.box.components.telemetry
    for outcome in ("begun", "in_flight", "done"):
        assert counted(telemetry, "oncebox_actions", outcome) >= 1


async def test_the_same_request_key_is_told_the_same(api: Api) -> None:
    first = await post(api, body={"request_key": "request-1"})
    again = await post(api, body={"request_key": "request-1"})
    other = await post(api, body={"request_key": "request-2"})

    assert (again["state"], again["fence"]) == (first["state"], first["fence"]) == ("begun", 1)
    assert other["state"] == "in_flight"


async def test_what_did_not_happen_begins_again(api: Api) -> None:
    await post(api)
    ended = await post(api, f"{AT}/not-done", {"fence": 1})
    again = await post(api)
    kept = await post(api, f"{AT}/heartbeat", {"fence": 2, "lease": 100})

    assert ended["state"] == "not_done"
    assert (again["state"], again["fence"]) == ("begun", 2)
    assert kept["lease_until"] >= again["lease_until"] + 60_000


@pytest.mark.parametrize(
    ("safe", "state"), [("idempotent", "begun"), ("verify", "look"), ("once", "held")]
)
async def test_a_lost_action_goes_on_as_was_chosen(api: Api, safe: str, state: str) -> None:
    first = await post(api, body={"safe": safe, "lease": 1})
    await asyncio.sleep(1.1)
    second = await post(api, body={"safe": safe})
    for verb in ("not-done", "heartbeat"):
        stale = await post(api, f"{AT}/{verb}", {"fence": 1}, 409)
        assert stale["code"] == "lease_lost"
    proven = await post(api, f"{AT}/done", {"fence": 1, "result": "late"})

    assert (second["state"], second["key"]) == (state, first["key"])
    assert (proven["state"], proven["result"]) == ("done", "late")


async def test_many_who_ask_at_once_begin_one(api: Api) -> None:
    key = await api.key(*AGENT)
    answers = await asyncio.gather(*(post(api, key=key) for _ in range(20)))

    assert sorted(each["state"] for each in answers) == ["begun"] + ["in_flight"] * 19


async def test_an_agent_acts_for_its_own_attempts_only(api: Api, stranger: str) -> None:
    await post(api, "/v1/inboxes", {"attempt_id": "signup-42"}, 201)
    await post(api, "/v1/inboxes", {"attempt_id": "signup-42", "label": "x"}, 201, key=stranger)
    begun = await post(api)
    missing = await api.call("POST", "/v1/attempts/nothing/actions/x/done", {"fence": 1})
    for verb, body in (
        (AT, {}),
        (f"{AT}/done", {"fence": 1}),
        (f"{AT}/not-done", {"fence": 1}),
        (f"{AT}/heartbeat", {"fence": 1}),
        (RESEND, {}),
    ):
        refused = await post(api, verb, body, 404, key=stranger)
        assert refused["detail"] == missing.json()["detail"]
    stats = await api.call("GET", "/v1/attempts/signup-42/stats", key=stranger)
    mine = await api.call("GET", "/v1/attempts/signup-42/stats", scopes=AGENT)
    by_operator = await post(api, f"{AT}/done", {"fence": begun["fence"]}, scopes=("operator",))

    assert stats.json()["actions"]["started"] == 0
    assert stats.json()["resends"] == {"granted": 0, "allowed": 0, "left": 0}
    assert mine.json()["actions"]["started"] == 1
    assert by_operator["state"] == "done"


async def test_an_attempt_of_the_same_name_of_another_tenant_is_another(api: Api) -> None:
    await api.second_tenant()
    mine = await post(api)
    theirs = await post(api, tenant=OTHER)

    assert mine["state"] == theirs["state"] == "begun"
    assert mine["key"] != theirs["key"]


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        (AT, {"safe": "maybe"}, "fields_invalid"),
        (AT, {"lease": 0}, "fields_invalid"),
        (AT, {"request_key": "short"}, "fields_invalid"),
        (f"{AT}/done", {}, "fields_invalid"),
        (f"{AT}/done", {"fence": 0}, "fields_invalid"),
        ("/v1/attempts/a/actions/" + "x" * 101, {}, "key_invalid"),
        ("/v1/attempts/" + "x" * 201 + "/actions/a", {}, "key_invalid"),
    ],
)
async def test_what_cannot_be_begun_is_refused(api: Api, path: str, body: Any, code: str) -> None:
    assert (await post(api, path, body, 422))["code"] == code


def test_every_standing_can_be_told() -> None:
    kinds = str(BeginActionResult.__annotations__["state"])

    assert all(repr(each.value) in kinds for each in BeginStatus)


# resends


async def test_resends_are_granted_within_the_budget_and_then_refused(api: Api) -> None:
    await post(api, "/v1/inboxes", {"attempt_id": "signup-42", "policy": {"resends": 2}}, 201)
    first = await post(api, RESEND, status=201)
    second = await post(api, RESEND, status=201)
    refused = await post(api, RESEND, status=409)
    stats = (await api.call("GET", "/v1/attempts/signup-42/stats", scopes=AGENT)).json()
    events = await api.call("GET", "/v1/events", params={"types": "resend.granted"})

    assert [(each["number"], each["left"]) for each in (first, second)] == [(1, 1), (2, 0)]
    assert (refused["code"], refused["retry_safe"]) == ("resend_limit_reached", False)
    assert "wait for the mail that was sent" in refused["detail"]
    assert stats["resends"] == {"granted": 2, "allowed": 2, "left": 0}
    path = "/v1/attempts/stats"
    batch = (await api.call("GET", path, params={"prefix": "signup-"}, scopes=AGENT)).json()
    assert (batch["attempts"], batch["inboxes"], batch["resends"]) == (1, 1, 2)
    assert batch["time_to_first_message"] is batch["longest_time_to_first_message"] is None
    assert set(batch["actions"].values()) == {0}
    missing = await api.call("GET", path, params={"prefix": "none/"}, scopes=AGENT)
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")
    without = await api.call("GET", path, scopes=AGENT)
    assert without.status_code == 422
    assert events.status_code == 200
    telemetry = api.box.components.telemetry
    assert counted(telemetry, "oncebox_resends", "granted") == 2
    assert counted(telemetry, "oncebox_resends", "refused") == 1


async def test_the_same_idempotency_key_is_granted_once(api: Api) -> None:
    await post(api, "/v1/inboxes", {"attempt_id": "signup-42"}, 201)
    headers = {"Idempotency-Key": "again-1"}
    first = await api.call("POST", RESEND, {}, scopes=AGENT, headers=headers)
    again = await api.call("POST", RESEND, {}, scopes=AGENT, headers=headers)

    assert (first.status_code, again.json()) == (201, first.json())
    assert again.headers["idempotency-replayed"] == "true"


async def test_the_answer_to_one_key_is_not_given_to_another(api: Api, stranger: str) -> None:
    await post(api, "/v1/inboxes", {"attempt_id": "signup-42"}, 201)
    headers = {"Idempotency-Key": "again-1"}
    await api.call("POST", RESEND, {}, scopes=AGENT, headers=headers)
    theirs = await api.call("POST", RESEND, {}, key=stranger, headers=headers)

    assert theirs.status_code == 404


async def test_racing_resends_never_exceed_the_budget(api: Api) -> None:
    await post(api, "/v1/inboxes", {"attempt_id": "signup-42", "policy": {"resends": 3}}, 201)
    calls = (api.call("POST", RESEND, {}, scopes=AGENT) for _ in range(12))
    answers = await asyncio.gather(*calls)

    assert sorted(each.status_code for each in answers) == [201] * 3 + [409] * 9


# what is stored


@pytest.fixture
async def alone(tmp_path: Path) -> AsyncIterator[tuple[Api, Path]]:
    async with calling(fresh_sqlite(tmp_path)) as api:
        yield api, tmp_path


async def test_a_result_is_sealed(alone: tuple[Api, Path]) -> None:
    api, folder = alone
    await post(api)
    await post(api, f"{AT}/done", {"fence": 1, "result": SECRET})
    files = [path for path in folder.rglob("*") if path.is_file()]
    told = await post(api)

    assert told["result"] == SECRET
    assert len(files) >= 2
    assert [path.name for path in files if SECRET.encode() in path.read_bytes()] == []
