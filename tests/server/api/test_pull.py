"""Work that is fetched over HTTP: claimed once, fenced, repeatable."""

import asyncio
import base64
from typing import Any

import pytest

from oncebox.model.deliveries.delivery import Allow, Delivery, Drop, Hold
from tests.support.api import OTHER, Api

WORKER = ("worker:jobs",)


@pytest.fixture(autouse=True)
async def source(api: Api) -> None:
    """A source whose work is fetched."""
    await api.add_source("jobs")


async def claim(api: Api, key: str = "request-1", **rest: Any) -> Any:
    answer = await api.call(
        "POST", "/v1/deliveries/claim", {"request_key": key, **rest}, scopes=WORKER
    )
    assert answer.status_code == 200, answer.text
    return answer.json()["deliveries"]


async def say(api: Api, delivery: Any, what: str, **rest: Any) -> Any:
    body = {"fence": delivery["fence"], **rest}
    return await api.call("POST", f"/v1/deliveries/{delivery['id']}/{what}", body, scopes=WORKER)


async def effect(api: Api, delivery: Any, name: str, **rest: Any) -> Any:
    return await say(api, delivery, f"effects/{name}", **rest)


async def finish(api: Api, delivery: Any, name: str, **rest: Any) -> Any:
    body = {"fence": delivery["fence"], **rest}
    path = f"/v1/deliveries/{delivery['id']}/effects/{name}"
    return await api.call("PUT", path, body, scopes=WORKER)


async def test_work_is_claimed_with_all_a_worker_needs_and_completed(api: Api) -> None:
    await api.accept("jobs", "k1", body=b'{"a": 1}', headers=[("X-A", "b")], type="made")
    (delivery,) = await claim(api)
    ended = await say(api, delivery, "complete")
    again = await claim(api, "request-2")

    assert (delivery["source"], delivery["key"], delivery["type"]) == ("jobs", "k1", "made")
    assert (delivery["fence"], delivery["tries"]) == (1, 1)
    assert base64.b64decode(delivery["body"]) == b'{"a": 1}'
    assert delivery["headers"] == [["X-A", "b"]]
    assert ended.json() == {"state": "done", "due_at": None}
    assert again == []


async def test_a_claim_can_be_repeated_and_another_gets_other_work(api: Api) -> None:
    for number in range(3):
        await api.accept("jobs", f"k{number}")
    first = await claim(api, "request-1", limit=2)
    repeated = await claim(api, "request-1", limit=2)
    second = await claim(api, "request-2", limit=2)
    reused = await api.call(
        "POST",
        "/v1/deliveries/claim",
        {"request_key": "request-1", "worker": "somebody-else"},
        scopes=WORKER,
    )

    assert first == repeated
    assert len({each["id"] for each in (*first, *second)}) == 3
    assert (reused.status_code, reused.json()["code"]) == (422, "request_key_reused")


async def test_a_waiting_claim_gets_work_when_it_comes(api: Api) -> None:
    waiting = asyncio.create_task(claim(api, wait=20))
    await asyncio.sleep(0.1)
    await api.accept("jobs", "k1")
    async with asyncio.timeout(10):
        (delivery,) = await waiting

    assert delivery["key"] == "k1"


async def test_a_waiting_claim_ends_with_nothing(api: Api) -> None:
    assert await claim(api, wait=0.2) == []


async def test_many_waiting_claims_share_the_work_without_overlap(api: Api) -> None:
    waiting = [asyncio.create_task(claim(api, f"request-{n}", wait=3)) for n in range(5)]
    await asyncio.sleep(0.1)
    accepted = {(await api.accept("jobs", f"k{number}")).id for number in range(5)}
    claimed = [each["id"] for task in waiting for each in await task]
    left = await claim(api, "the-rest", limit=10)

    assert len(claimed) == len(set(claimed))
    assert {*claimed, *(each["id"] for each in left)} == accepted


async def test_a_stale_worker_cannot_settle_and_is_told(api: Api) -> None:
    await api.accept("jobs", "k1")
    (stale,) = await claim(api, lease=1)
    await asyncio.sleep(1.1)
    (fresh,) = await claim(api, "request-2")
    answers = [
        await say(api, stale, "heartbeat"),
        await say(api, stale, "fail", error="too late"),
        await say(api, stale, "complete"),
        await effect(api, stale, "pay"),
    ]
    ended = await say(api, fresh, "complete")
    seen = (await api.call("GET", f"/v1/deliveries/{stale['id']}")).json()

    assert fresh["fence"] == 2
    assert {(each.status_code, each.json()["code"]) for each in answers} == {(409, "lease_lost")}
    assert ended.status_code == 200
    assert "proof" in {each["outcome"] for each in seen["tries"]}


async def test_a_heartbeat_keeps_a_claim(api: Api) -> None:
    await api.accept("jobs", "k1")
    (delivery,) = await claim(api, lease=1)
    for _ in range(4):
        await asyncio.sleep(0.4)
        assert (await say(api, delivery, "heartbeat", lease=1)).status_code == 200

    assert await claim(api, "request-2") == []
    assert (await say(api, delivery, "complete")).status_code == 200


async def test_a_failed_try_is_repeated_later_or_given_up(api: Api) -> None:
    await api.accept("jobs", "k1")
    (delivery,) = await claim(api)
    later = (await say(api, delivery, "fail", error="busy\x00\n", retry_after=30)).json()
    seen = (await api.call("GET", f"/v1/deliveries/{delivery['id']}")).json()["delivery"]
    await api.accept("jobs", "k2")
    (other,) = await claim(api, "request-2")
    dead = (await say(api, other, "fail", error="never", permanent=True)).json()

    assert later["state"] == "failed"
    assert later["due_at"] >= seen["not_before"]
    assert seen["last_error"] == "busy"
    assert (dead["state"], dead["due_at"]) == ("dead", None)


async def test_what_the_source_says_of_retries_holds_for_pulled_work(api: Api) -> None:
    await api.call("PATCH", "/v1/sources/jobs", {"tries": 1})
    await api.accept("jobs", "k1")
    (delivery,) = await claim(api)

    assert (await say(api, delivery, "fail", error="no")).json()["state"] == "dead"


async def test_an_effect_happens_once_over_several_tries(api: Api) -> None:
    await api.accept("jobs", "k1")
    (delivery,) = await claim(api)
    begun = (await effect(api, delivery, "pay")).json()
    done = (await finish(api, delivery, "pay", state="done", result={"id": 7})).json()
    await say(api, delivery, "fail", error="crashed after paying")
    await asyncio.sleep(0.05)
    (second,) = await claim(api, "request-2")
    repeat = (await effect(api, second, "pay")).json()

    assert (begun["go"], begun["before"], begun["held"]) == (True, None, False)
    assert (done["state"], done["result"]) == ("done", {"id": 7})
    assert repeat["go"] is False
    assert repeat["key"] == begun["key"]
    assert repeat["before"]["result"] == {"id": 7}


async def test_an_effect_in_doubt_holds_the_delivery(api: Api) -> None:
    await api.accept("jobs", "k1")
    (delivery,) = await claim(api)
    await effect(api, delivery, "pay", safe="once")
    await say(api, delivery, "fail", error="crashed while paying")
    await asyncio.sleep(0.05)
    (second,) = await claim(api, "request-2")
    doubt = (await effect(api, second, "pay", safe="once")).json()
    seen = (await api.call("GET", f"/v1/deliveries/{delivery['id']}")).json()

    assert (doubt["go"], doubt["held"]) == (False, True)
    assert seen["delivery"]["state"] == "held"
    assert seen["next_action"].startswith("needs a person: pay unknown")


async def test_an_effect_that_was_never_begun_cannot_end(api: Api) -> None:
    await api.accept("jobs", "k1")
    (delivery,) = await claim(api)
    answer = await finish(api, delivery, "pay", state="done")

    assert answer.status_code == 404


async def test_a_paused_source_hands_nothing_out(api: Api) -> None:
    await api.accept("jobs", "k1")
    await api.call("POST", "/v1/sources/jobs/pause")
    nothing = await claim(api)
    await api.call("POST", "/v1/sources/jobs/resume")

    assert nothing == []
    assert len(await claim(api, "request-2")) == 1


@pytest.mark.parametrize("sources", [["nothing"], ["jobs", "nothing"], ["handled"]])
async def test_only_sources_that_are_pulled_can_be_claimed_from(
    api: Api, sources: list[str]
) -> None:
    await api.add_source("handled", mode="handler")
    body = {"request_key": "request-1", "sources": sources}
    answer = await api.call("POST", "/v1/deliveries/claim", body)

    assert answer.status_code == 404


async def test_a_claim_where_no_source_is_pulled_finds_nothing_until_there_is_one(api: Api) -> None:
    await api.call("PATCH", "/v1/sources/jobs", {"mode": "handler"})
    nothing = await claim(api)
    waiting = asyncio.create_task(claim(api, "request-2", wait=20))
    await api.accept("jobs", "k1")
    await api.call("PATCH", "/v1/sources/jobs", {"mode": "pull"})

    assert nothing == []
    assert len(await waiting) == 1


async def test_a_key_that_is_revoked_while_its_claim_waits_is_handed_nothing(api: Api) -> None:
    key = await api.key(*WORKER, "agent")
    mine = (await api.call("GET", "/v1/self", key=key)).json()["key"]["id"]
    body = {"request_key": "request-1", "wait": 20}
    waiting = asyncio.create_task(api.call("POST", "/v1/deliveries/claim", body, key=key))
    await asyncio.sleep(0.3)
    assert (await api.call("DELETE", f"/v1/keys/{mine}")).status_code == 200

    await api.accept("jobs", "k1")
    async with asyncio.timeout(10):
        answer = await waiting

    assert answer.status_code == 401
    assert len(await claim(api, "request-2")) == 1


async def test_a_client_that_goes_while_it_waits_is_handed_nothing(api: Api) -> None:
    """Work that is claimed for nobody would be lost until its lease runs out."""
    key = await api.key(*WORKER)
    body = b'{"request_key": "request-1", "wait": 20}'
    gone = asyncio.Event()
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        if messages:
            return messages.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(_message: Any) -> None:
        pass

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/deliveries/claim",
        "raw_path": b"/v1/deliveries/claim",
        "query_string": b"",
        "http_version": "1.1",
        "client": ("127.0.0.1", 1),
        "headers": [
            (b"host", b"test"),
            (b"authorization", f"Bearer {key}".encode()),
            (b"content-type", b"application/json"),
        ],
    }
    serving = asyncio.create_task(api.app(scope, receive, send))
    await asyncio.sleep(0.2)
    gone.set()
    await asyncio.sleep(0)
    await api.accept("jobs", "k1")
    async with asyncio.timeout(10):
        await serving
    (delivery,) = await claim(api, "request-2")

    assert delivery["tries"] == 1


async def test_what_a_remote_worker_fails_or_leaves_in_doubt_is_counted_and_logged(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    await api.accept("jobs", "k1", body=b"canary-body")
    (first,) = await claim(api)
    await effect(api, first, "pay", safe="once")
    await say(api, first, "fail", error="canary-error")
    await asyncio.sleep(0.05)
    (again,) = await claim(api, "request-2")
    await effect(api, again, "pay", safe="once")
    await api.accept("jobs", "k2", body=b"canary-body 2")
    (second,) = await claim(api, "request-3")
    await say(api, second, "fail", error="canary-error", permanent=True)
    told = [
        (each.msg["delivery"], each.msg["key"], each.msg["outcome"], each.msg["next"])
        for each in caplog.records
        if isinstance(each.msg, dict) and each.msg["event"] == "handler_failed"
    ]

    assert told == [
        (first["id"], "k1", "failed", "retry"),
        (first["id"], "k1", "held", "held"),
        (second["id"], "k2", "permanent", "given_up"),
    ]
    assert "canary" not in str([each.msg for each in caplog.records if each.name == "oncebox"])
    for outcome in ("failed", "permanent", "held"):
        assert f'oncebox_settled_total{{outcome="{outcome}",source="jobs"}} 1.0' in (
            api.box.metrics()
        )


# policies of the program that serves the API


def by_body(asked: list[str]) -> Any:
    """Return a policy that holds, drops, fails or allows as the body says."""

    async def policy(delivery: Delivery) -> Any:
        asked.append(delivery.key)
        if delivery.body == b"fail":
            raise ConnectionError
        return {b"hold": Hold("too large"), b"drop": Drop("spam")}.get(delivery.body, Allow())

    return policy


async def test_a_policy_is_asked_before_a_pull_worker_gets_a_delivery(api: Api) -> None:
    asked: list[str] = []
    api.box.policy("jobs")(by_body(asked))
    ids = {
        word: (await api.accept("jobs", word, body=word.encode())).id
        for word in ("hold", "allow", "drop")
    }
    given = await claim(api, limit=10)
    repeated = await claim(api, limit=10)
    states = {
        word: (await api.call("GET", f"/v1/deliveries/{id_}")).json()["delivery"]
        for word, id_ in ids.items()
    }
    completed = await say(api, given[0], "complete")

    assert [each["key"] for each in given] == ["allow"]
    assert repeated == given
    assert sorted(asked) == ["allow", "drop", "hold"]
    assert (states["hold"]["state"], states["hold"]["hold_reason"]) == ("held", "policy: too large")
    assert (states["drop"]["state"], states["drop"]["outcome"]) == ("done", "dropped")
    assert states["allow"]["policy"] == "allowed"
    assert completed.json()["state"] == "done"


async def test_a_claim_of_which_the_policy_allows_nothing_waits_on_under_its_key(api: Api) -> None:
    asked: list[str] = []
    api.box.policy("jobs")(by_body(asked))
    await api.accept("jobs", "held", body=b"hold")
    waiting = asyncio.create_task(claim(api, wait=20))
    async with asyncio.timeout(10):
        while not asked:  # noqa: ASYNC110 - the policy rings no bell
            await asyncio.sleep(0.01)
    await api.accept("jobs", "good", body=b"allow")
    async with asyncio.timeout(10):
        (delivery,) = await waiting

    assert delivery["key"] == "good"


async def test_a_policy_that_fails_gives_a_pull_worker_nothing_and_is_asked_again(api: Api) -> None:
    asked: list[str] = []
    api.box.policy("jobs")(by_body(asked))
    accepted = await api.accept("jobs", "k1", body=b"fail")
    given = await claim(api)
    found = (await api.call("GET", f"/v1/deliveries/{accepted.id}")).json()["delivery"]

    assert (given, asked) == ([], ["k1"])
    assert (found["state"], found["last_error"]) == ("failed", "ConnectionError")


async def test_a_policy_rules_over_deliveries_of_its_own_tenant_only(api: Api) -> None:
    asked: list[str] = []
    await api.second_tenant()
    await api.add_source("jobs", tenant=OTHER)
    api.box.policy("jobs")(by_body(asked))
    await api.box.components.intake.accept("jobs", key="k1", body=b"hold", tenant=OTHER)
    answer = await api.call(
        "POST", "/v1/deliveries/claim", {"request_key": "request-1"}, scopes=WORKER, tenant=OTHER
    )

    assert [each["key"] for each in answer.json()["deliveries"]] == ["k1"]
    assert asked == []
