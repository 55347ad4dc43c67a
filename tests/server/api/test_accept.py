"""Events submitted over HTTP: stored once, answered after the commit, each item for itself."""

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

from oncebox.core.disk_space import Disk, DiskSpace
from tests.support.api import OTHER, Api
from tests.support.databases import Place
from tests.support.outage import held_tables

CONSUMER = ("accept:orders",)


@pytest.fixture(autouse=True)
async def source(api: Api) -> None:
    """A source for what other processes submit."""
    await api.add_source("orders")


async def submit(api: Api, **fields: Any) -> Any:
    scopes = fields.pop("scopes", CONSUMER)
    tenant = fields.pop("tenant", "")
    body = {"source": "orders", **fields}
    return await api.call("POST", "/v1/deliveries", body, scopes=scopes, tenant=tenant)


async def submit_batch(api: Api, *items: Any, scopes: tuple[str, ...] = CONSUMER) -> Any:
    deliveries = [{"source": "orders", **each} for each in items]
    return await api.call("POST", "/v1/deliveries/batch", {"deliveries": deliveries}, scopes=scopes)


async def stored(api: Api) -> list[Any]:
    return (await api.call("GET", "/v1/deliveries")).json()["data"]  # type: ignore[no-any-return]


async def test_an_event_is_on_disk_when_it_is_answered_and_a_repeat_is_the_same(api: Api) -> None:
    event = {"key": "m-1", "type": "paid", "text": '{"n": 1}', "headers": [["X-Partition", "3"]]}
    first = await submit(api, **event)
    kept = (
        await api.call("GET", f"/v1/deliveries/{first.json()['id']}", params={"payload": "true"})
    ).json()
    again = await submit(api, **event)

    assert (first.status_code, again.status_code) == (201, 200)
    assert (first.json()["arrival"], first.json()["state"]) == ("new", "received")
    assert again.json()["id"] == first.json()["id"]
    assert (again.json()["arrival"], again.json()["state"]) == ("duplicate", "received")
    assert (kept["delivery"]["type"], kept["delivery"]["road"]) == ("paid", "api")
    assert base64.b64decode(kept["payload"]["body"]) == b'{"n": 1}'
    assert kept["payload"]["headers"] == [["X-Partition", "3"]]


async def test_the_secret_of_a_source_is_not_stored_with_an_event_that_is_passed_on(
    api: Api,
) -> None:
    secrets = ["s3cret-token"]
    await api.add_source("gitlab", scheme="gitlab", allow_unsigned=False, secrets=secrets)
    headers = [["X-Gitlab-Token", "an older one"], ["X-Copy", "s3cret-token"], ["X-Id", "1"]]
    first = await submit(api, source="gitlab", key="m-1", headers=headers, scopes=("operator",))
    kept = (
        await api.call("GET", f"/v1/deliveries/{first.json()['id']}", params={"payload": "true"})
    ).json()

    assert kept["payload"]["headers"] == [
        ["X-Gitlab-Token", "[removed]"], ["X-Copy", "[removed]"], ["X-Id", "1"],
    ]  # fmt: skip


async def test_a_duplicate_tells_the_state_of_the_first(api: Api) -> None:
    first = (await submit(api, key="m-1", text="a")).json()
    await api.call("POST", f"/v1/deliveries/{first['id']}/hold", {"why": "look"})
    again = (await submit(api, key="m-1", text="a")).json()

    assert (again["arrival"], again["state"]) == ("duplicate", "held")


async def test_a_known_key_with_another_body_is_a_conflict_stored_and_held(api: Api) -> None:
    await submit(api, key="m-1", text="a")
    other = await submit(api, key="m-1", text="b")

    assert (other.status_code, other.json()["arrival"]) == (200, "conflict")
    assert other.json()["state"] == "held"
    assert len(await stored(api)) == 2


async def test_without_a_key_the_same_body_is_the_same_event(api: Api) -> None:
    body = base64.b64encode(b"\x00\xff").decode()
    first = await submit(api, body=body)
    again = await submit(api, body=body)

    assert first.json()["id"] == again.json()["id"]
    assert again.json()["arrival"] == "duplicate"


async def test_the_items_of_a_batch_are_answered_in_order_each_for_itself(api: Api) -> None:
    await submit(api, key="known", text="a")
    answer = await submit_batch(
        api,
        {"key": "one", "text": "1"},
        {"key": "written-by-the-sender\x00", "text": "2"},
        {"key": "known", "text": "a"},
        {"key": "known", "text": "b"},
        {"key": "elsewhere", "text": "3", "source": "billing"},
        {"key": "one", "text": "1"},
        {"key": "two", "text": "x" * 2_000},
        {"key": "last", "text": "9"},
        {"key": "both", "text": "9", "body": "OQ=="},
    )
    items = answer.json()["data"]

    assert answer.status_code == 200
    assert [(each["arrival"] or each["error"]["code"]) for each in items] == [
        "new", "key_invalid", "duplicate", "conflict", "forbidden", "duplicate", "body_too_large",
        "new", "fields_invalid",
    ]  # fmt: skip
    assert items[0]["id"] == items[5]["id"]
    assert "written-by-the-sender" not in answer.text
    assert {each["key"] for each in await stored(api)} == {"one", "known", "last"}


async def test_a_batch_is_bounded(api: Api) -> None:
    answers = [await submit_batch(api, *[{"key": "k"}] * count) for count in (0, 101)]

    assert [each.status_code for each in answers] == [422, 422]
    assert await stored(api) == []


async def test_a_source_that_is_not_there_is_refused_with_the_command_that_adds_it(
    api: Api,
) -> None:
    answer = await submit(api, key="k", source="nowhere", scopes=("operator",))

    assert (answer.status_code, answer.json()["code"]) == (404, "source_unknown")
    assert "oncebox source add" in answer.json()["detail"]
    assert await stored(api) == []


async def test_a_paused_source_takes_nothing_and_says_to_come_back(api: Api) -> None:
    await api.call("POST", "/v1/sources/orders/pause", {})
    answer = await submit(api, key="k", text="a")
    batch = await submit_batch(api, {"key": "k", "text": "a"})

    assert (answer.status_code, answer.json()["code"]) == (503, "source_paused")
    assert "retry-after" in answer.headers
    assert batch.json()["data"][0]["error"]["code"] == "source_paused"
    assert batch.json()["data"][0]["error"]["retry_safe"] is True


async def test_a_source_without_a_secret_takes_what_a_key_submits(api: Api) -> None:
    signed = {"name": "signed", "scheme": "standard-webhooks", "mode": "handler"}
    await api.call("POST", "/v1/sources", signed)
    answer = await submit(api, key="k", text="a", source="signed", scopes=("accept:*",))

    assert answer.json()["arrival"] == "new"


@pytest.mark.parametrize(
    ("scopes", "status"),
    [
        (("accept:orders",), 201),
        (("accept:*",), 201),
        (("operator",), 201),
        (("admin",), 201),
        (("accept:other",), 403),
        (("worker:orders",), 403),
        (("agent",), 403),
        (("metrics",), 403),
    ],
)
async def test_only_keys_that_may_submit_to_the_source_do(
    api: Api, scopes: tuple[str, ...], status: int
) -> None:
    answer = await submit(api, key="k", text="a", scopes=scopes)

    assert answer.status_code == status
    assert len(await stored(api)) == (status == 201)


async def test_a_key_submits_to_the_sources_of_its_own_tenant_only(api: Api) -> None:
    await api.second_tenant()
    foreign = await submit(api, key="k", text="a", scopes=("accept:*",), tenant=OTHER)
    await api.add_source("orders", tenant=OTHER)
    own = await submit(api, key="k", text="a", scopes=("accept:*",), tenant=OTHER)

    assert foreign.json()["code"] == "source_unknown"
    assert own.json()["arrival"] == "new"
    assert await stored(api) == []


async def test_the_order_of_a_source_holds_for_submitted_events_too(api: Api) -> None:
    await api.add_source("ordered", order_by="$.customer")
    for number, order_key in ((1, None), (2, None), (3, "other")):
        fields = {} if order_key is None else {"order_key": order_key}
        await submit(
            api, source="ordered", key=f"k{number}", text='{"customer": "ann"}', scopes=("admin",),
            **fields,
        )  # fmt: skip
    lanes = {each["key"]: (each["lane"], each["lane_position"]) for each in await stored(api)}

    assert (lanes["k1"][0], lanes["k2"][0], lanes["k3"][0]) == ("ann", "ann", "other")
    assert lanes["k1"][1] < lanes["k2"][1]


async def test_while_the_disk_is_almost_full_nothing_is_accepted(api: Api) -> None:
    components = api.box.components
    full = DiskSpace([Path()], 2**30, components.telemetry, measure=lambda _folder: Disk(0, 2**40))
    components.__dict__["disk_space"] = full
    answer = await submit(api, key="k", text="a")

    assert (answer.status_code, answer.json()["code"]) == (503, "disk_full")


async def test_events_are_refused_in_time_while_the_database_hangs_and_may_be_sent_again(
    api: Api, place: Place
) -> None:
    await submit(api, key="before", text="a")
    database = api.box.components.database
    database.deadline = 0.3
    with held_tables(place):
        single = await submit(api, key="k1", text="a")
        batch = await submit_batch(api, {"key": "k2", "text": "a"}, {"key": "bad\x00", "text": "a"})
    database.deadline = 20
    while database.overdue:  # noqa: ASYNC110 - it ends by itself
        await asyncio.sleep(0.01)

    assert [each.status_code for each in (single, batch)] == [503, 503]
    assert all(each.headers["retry-after"] for each in (single, batch))
    async with asyncio.timeout(20):
        while not (await submit(api, key="k1", text="a")).is_success:
            pass
        while not (await submit_batch(api, {"key": "k2", "text": "a"})).is_success:
            pass
    assert sorted(each["key"] for each in await stored(api)) == ["before", "k1", "k2"]
