"""Deliveries and the quarantine by the API: seen, replayed, held, released, checked again."""

import base64
from collections.abc import Sequence
from typing import Any

import pytest

from oncebox.errors import ConfigInvalid
from oncebox.ledger.notifications import DUE
from oncebox.model.deliveries.delivery import Delivery, NewDelivery
from oncebox.model.webhooks.quarantine import RejectedRequest
from oncebox.workers.deliveries.once import Once
from tests.support.api import Api


async def work(api: Api, handler: Any, source: str = "shop") -> None:
    """Run a handler until nothing of its source waits."""
    api.box.on(source)(handler)
    api.box._start_workers()
    while any(
        each["state"] in {"received", "processing", "failed"}
        for each in (await api.call("GET", "/v1/deliveries")).json()["data"]
    ):
        await api.box.components.database.wait(DUE, 0.02)


async def test_deliveries_are_listed_by_state_and_source(api: Api) -> None:
    for number in range(3):
        await api.accept("shop", f"k{number}")
    await api.accept("bank", "k1")
    all_ = (await api.call("GET", "/v1/deliveries", scopes=("operator",))).json()["data"]
    shop = (await api.call("GET", "/v1/deliveries?source=shop")).json()["data"]
    dead = (await api.call("GET", "/v1/deliveries?state=dead")).json()["data"]

    assert [each["key"] for each in all_] == ["k1", "k2", "k1", "k0"]
    assert {each["source"] for each in shop} == {"shop"}
    assert dead == []


async def test_null_is_a_word_like_any_other_in_a_query(api: Api) -> None:
    await api.accept("shop", "k1")
    await api.accept("null", "k2")
    found = (await api.call("GET", "/v1/deliveries?source=null")).json()["data"]
    no_state = await api.call("GET", "/v1/deliveries?state=null")

    assert [each["key"] for each in found] == ["k2"]
    assert no_state.status_code == 422


async def test_an_inspection_shows_all_that_is_known(api: Api) -> None:
    async def handler(_delivery: Delivery, once: Once) -> None:
        await once.do("greet", lambda: {"said": "hello"})

    body = b'{"a": 1}\xff'
    accepted = await api.accept("shop", "k1", body=body, headers=[("X-A", "b")], type="t")
    await api.accept("shop", "k1", body=body)
    await work(api, handler)
    seen = (await api.call("GET", f"/v1/deliveries/{accepted.id}")).json()
    whole = (await api.call("GET", f"/v1/deliveries/{accepted.id}?payload=true")).json()

    assert (seen["delivery"]["state"], seen["delivery"]["outcome"]) == ("done", "handled")
    assert [(each["name"], each["state"], each["result"]) for each in seen["effects"]] == [
        ("greet", "done", {"said": "hello"})
    ]
    assert seen["sightings"][0]["sighting"] == "provider_retry"
    assert seen["next_action"] == "nothing: it is done; retry-safe, greet done"
    assert seen["payload"] is None
    assert base64.b64decode(whole["payload"]["body"]) == body
    assert whole["payload"]["headers"] == [["X-A", "b"]]


async def test_a_replay_can_be_tried_out_and_is_audited(api: Api) -> None:
    async def handler(_delivery: Delivery, once: Once) -> None:
        await once.do("greet", lambda: 1)

    accepted = await api.accept("shop", "k1")
    await work(api, handler)
    path = f"/v1/deliveries/{accepted.id}/replay"
    dry = (await api.call("POST", path, {"why": "to see", "dry_run": True})).json()
    after_dry = (await api.call("GET", f"/v1/deliveries/{accepted.id}")).json()
    no_reason = await api.call("POST", path, {})
    api.box.stop_working()
    wet = (await api.call("POST", path, {"why": "shop was down"})).json()
    after = (await api.call("GET", f"/v1/deliveries/{accepted.id}")).json()

    assert (dry["dry_run"], dry["done"], dry["may_run"]) == (True, ["greet"], [])
    assert (after_dry["delivery"]["state"], after_dry["audit"]) == ("done", [])
    assert no_reason.status_code == 422
    assert wet["delivery"]["state"] == "received"
    assert [(each["action"], each["why"]) for each in after["audit"]] == [
        ("replay", "shop was down")
    ]
    assert after["audit"][0]["who"].startswith("key:key_")


async def test_hold_and_release(api: Api) -> None:
    accepted = await api.accept("shop", "k1")
    path = f"/v1/deliveries/{accepted.id}"
    held = (await api.call("POST", f"{path}/hold", {"why": "wait"})).json()
    twice = await api.call("POST", f"{path}/hold", {"why": "wait"})
    released = (await api.call("POST", f"{path}/release", {"why": "go"})).json()

    assert (held["state"], held["hold_reason"]) == ("held", "operator")
    assert (twice.status_code, twice.json()["code"]) == (409, "state_conflict")
    assert released["delivery"]["state"] == "received"


async def test_a_held_delivery_is_dropped(api: Api) -> None:
    accepted = await api.accept("shop", "k1")
    path = f"/v1/deliveries/{accepted.id}"
    early = await api.call("POST", f"{path}/drop", {"why": "not held"})
    await api.call("POST", f"{path}/hold", {"why": "wait"})
    rehearsed = (await api.call("POST", f"{path}/drop", {"why": "?", "dry_run": True})).json()
    between = (await api.call("GET", path)).json()["delivery"]
    dropped = (await api.call("POST", f"{path}/drop", {"why": "a test"})).json()
    twice = await api.call("POST", f"{path}/drop", {"why": "a test"})
    audit = (await api.call("GET", path)).json()["audit"]

    for refused in (early, twice):
        assert (refused.status_code, refused.json()["code"]) == (409, "state_conflict")
    assert (rehearsed["dry_run"], rehearsed["delivery"]["state"]) == (True, "done")
    assert (between["state"], dropped["dry_run"]) == ("held", False)
    assert (dropped["delivery"]["state"], dropped["delivery"]["outcome"]) == ("done", "dropped")
    assert [(each["action"], each["why"]) for each in audit][1:] == [("drop", "a test")]


async def test_a_drop_needs_a_persons_word_on_an_effect_in_doubt(api: Api) -> None:
    async def handler(_delivery: Delivery, once: Once) -> None:
        await once.do("pay", _fails, safe="once")

    accepted = await api.accept("shop", "k1")
    await work(api, handler)
    path = f"/v1/deliveries/{accepted.id}"
    refused = await api.call("POST", f"{path}/drop", {"why": "old"})
    words = {"effects": {"pay": "done"}, "results": {"pay": {"id": "ch_1"}}}
    good = await api.call("POST", f"{path}/drop", {"why": "old", **words})
    effect = (await api.call("GET", path)).json()["effects"][0]

    assert (refused.status_code, refused.json()["code"]) == (409, "effect_outcome_unknown")
    assert (good.status_code, good.json()["done"]) == (200, ["pay"])
    assert (effect["state"], effect["result"]) == ("done", {"id": "ch_1"})


async def test_an_effect_in_doubt_needs_a_persons_word(api: Api) -> None:
    async def handler(_delivery: Delivery, once: Once) -> None:
        await once.do("pay", _fails, safe="once")

    accepted = await api.accept("shop", "k1")
    await work(api, handler)
    path = f"/v1/deliveries/{accepted.id}/release"
    refused = await api.call("POST", path, {"why": "go"})
    wrong = await api.call("POST", path, {"why": "go", "effects": {"pay": "perhaps"}})
    strange = await api.call("POST", path, {"why": "go", "effects": {"pay": "done", "x": "done"}})
    good = await api.call("POST", path, {"why": "seen", "effects": {"pay": "done"}})

    assert (refused.status_code, refused.json()["code"]) == (409, "effect_outcome_unknown")
    assert "'pay'" in refused.json()["detail"]
    assert (wrong.status_code, strange.status_code) == (422, 404)
    assert (good.status_code, good.json()["done"]) == (200, ["pay"])


async def test_a_released_effect_returns_the_result_a_person_gave(api: Api) -> None:
    async def handler(_delivery: Delivery, once: Once) -> None:
        await once.do("pay", _fails, safe="once")

    accepted = await api.accept("shop", "k1")
    await work(api, handler)
    path = f"/v1/deliveries/{accepted.id}"

    async def release(**words: object) -> Any:
        return await api.call("POST", f"{path}/release", {"why": "seen", **words})

    not_done = await release(effects={"pay": "not_done"}, results={"pay": 1})
    unnamed = await release(effects={"pay": "done"}, results={"x": 1})
    held = (await api.call("GET", path)).json()
    good = await release(effects={"pay": "done"}, results={"pay": {"id": "ch_1"}})
    seen = (await api.call("GET", path)).json()["effects"][0]

    for refused in (not_done, unnamed):
        assert (refused.status_code, refused.json()["code"]) == (422, "fields_invalid")
        assert "done" in refused.json()["detail"]
    assert (held["delivery"]["state"], held["effects"][0]["state"]) == ("held", "unknown")
    assert (held["effects"][0]["has_result"], good.status_code) == (False, 200)
    assert (seen["result"], seen["has_result"]) == ({"id": "ch_1"}, True)


def _fails() -> None:
    message = "nobody knows"
    raise RuntimeError(message)


# the quarantine


@pytest.fixture
async def rejected(api: Api) -> str:
    """One rejected request."""
    api.box.components.quarantine.put(
        "shop",
        tenant=api.home,
        reason="mismatch",
        headers=[("X-Signature", "abc"), ("Authorization", "canary-9d2e")],
        body=b'{"id": "evt_1"}',
        url="/in/shop?token=canary-9d2e",
    )
    await api.box.components.quarantine.close()
    (listed,) = (await api.call("GET", "/v1/quarantine")).json()["data"]
    return str(listed["id"])


async def test_a_rejected_request_is_shown_without_what_may_be_secret(
    api: Api, rejected: str
) -> None:
    listed = await api.call("GET", "/v1/quarantine?source=shop")
    shown = await api.call("GET", f"/v1/quarantine/{rejected}")

    assert shown.json()["reason"] == "mismatch"
    assert base64.b64decode(shown.json()["body"]) == b'{"id": "evt_1"}'
    assert ["X-Signature", "abc"] in shown.json()["headers"]
    assert "canary-9d2e" not in shown.text + listed.text


async def test_a_rejected_request_is_taken_in_once_when_it_turns_out_good(
    api: Api, rejected: str
) -> None:
    async def judge(request: RejectedRequest) -> Sequence[NewDelivery]:
        return [
            NewDelivery(
                id="dlv_1",
                tenant=request.tenant,
                source=request.source,
                key="evt_1",
                body=request.body,
                headers=b"[]",
                fingerprint=b"1" * 32,
                received_at=request.received_at,
            )
        ]

    still_bad = await api.call("POST", f"/v1/quarantine/{rejected}/retry")
    api.box.components.recheck_rejected = judge
    api.app = api.box.asgi()
    good = await api.call("POST", f"/v1/quarantine/{rejected}/retry", {"why": "new secret"})
    twice = await api.call("POST", f"/v1/quarantine/{rejected}/retry")

    assert (still_bad.status_code, still_bad.json()["code"]) == (422, ConfigInvalid.code)
    assert good.json() == {"deliveries": [{"id": "dlv_1", "arrival": "new", "state": "received"}]}
    assert twice.status_code == 404


async def test_a_rejected_request_is_forgotten(api: Api, rejected: str) -> None:
    forgotten = await api.call("DELETE", f"/v1/quarantine/{rejected}")
    left = (await api.call("GET", "/v1/quarantine")).json()["data"]

    assert (forgotten.status_code, left) == (204, [])
