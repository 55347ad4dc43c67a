"""Sources, keys and tenants by the API."""

from typing import Any

import pytest

from oncebox.schemas.sources import Source, SourceFields
from tests.support.api import OTHER, Api

SECRET = "whsec_canary-41c7"


async def add(api: Api, **fields: Any) -> Any:
    body = {"name": "shop", "scheme": "stripe", "secrets": [SECRET], **fields}
    answer = await api.call("POST", "/v1/sources", body)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def test_a_source_is_added_seen_changed_paused_resumed_and_removed(api: Api) -> None:
    made = await add(api, order_by="$.id", gap_wait=1.5, tries=3)
    seen = (await api.call("GET", "/v1/sources/shop", scopes=("operator",))).json()
    change = {"tries": None, "gap_wait": 2, "late": "run"}
    changed = (await api.call("PATCH", "/v1/sources/shop", change)).json()
    paused = (await api.call("POST", "/v1/sources/shop/pause", {"why": "rest"})).json()
    resumed = (await api.call("POST", "/v1/sources/shop/resume")).json()
    removed = await api.call("DELETE", "/v1/sources/shop")
    gone = await api.call("GET", "/v1/sources/shop")

    assert (made["path"], made["public_id"]) == ("/in/shop", "shop")
    assert (seen["order_by"], seen["gap_wait"], seen["tries"]) == ("$.id", 1.5, 3)
    assert (seen["state"], seen["origin"]) == ("ready", "database")
    assert (changed["tries"], changed["gap_wait"], changed["late"]) == (None, 2, "run")
    assert changed["order_by"] == "$.id"
    assert (paused["state"], resumed["state"]) == ("paused", "ready")
    assert (removed.status_code, removed.content) == (204, b"")
    assert gone.status_code == 404


async def test_secrets_are_added_and_retired_and_never_shown(api: Api) -> None:
    made = await add(api)
    second = await api.call("POST", "/v1/sources/shop/secrets", {"secret": "another-41c7"})
    ids = [made["secrets"][0]["id"], second.json()["id"]]
    one = await api.call("DELETE", f"/v1/sources/shop/secrets/{ids[0]}")
    none = await api.call("DELETE", f"/v1/sources/shop/secrets/{ids[1]}")
    listed = await api.call("GET", "/v1/sources")

    assert second.status_code == 201
    assert {each["id"]: each["retired_at"] is not None for each in one.json()["secrets"]} == {
        ids[0]: True,
        ids[1]: False,
    }
    assert (one.json()["state"], none.json()["state"]) == ("ready", "unready")
    assert none.json()["troubles"][0]["code"] == "secret_unavailable"
    assert all("41c7" not in each.text for each in (second, one, none, listed))


@pytest.mark.parametrize("reference", ["env:HOME", "file:/etc/passwd"])
async def test_nobody_has_the_hosts_files_and_variables_read_from_afar(
    api: Api, reference: str
) -> None:
    made = await api.call(
        "POST", "/v1/sources", {"name": "a", "scheme": "stripe", "secrets": [reference]}
    )
    await add(api)
    added = await api.call("POST", "/v1/sources/shop/secrets", {"secret": reference})

    assert (made.status_code, added.status_code) == (422, 422)


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"name": "shop"}, 409),
        ({"name": "b", "public_id": "shop"}, 409),
        ({"name": "b", "cidrs": ["nowhere"]}, 422),
        ({"name": "b", "after": {"a": "b"}}, 422),
        ({"name": "b", "order_by": "no path"}, 422),
        ({"name": "b", "colour": "red"}, 422),
        ({"name": "b", "scheme": "none"}, 422),
    ],
)
async def test_what_cannot_be_a_source_is_refused(
    api: Api, fields: dict[str, Any], status: int
) -> None:
    await add(api)
    answer = await api.call("POST", "/v1/sources", {"scheme": "stripe", **fields})

    assert answer.status_code == status
    assert (await api.call("GET", "/v1/sources/b")).status_code == 404


async def test_names_with_slashes_are_whole_in_a_path(api: Api) -> None:
    await add(api, name="team/shop:eu")
    seen = await api.call("GET", "/v1/sources/team%2Fshop%3Aeu")
    paused = await api.call("POST", "/v1/sources/team%2Fshop:eu/pause")

    assert seen.json()["name"] == "team/shop:eu"
    assert paused.json()["state"] == "paused"


async def test_sources_of_two_tenants_may_share_a_name_and_are_listed_apart(api: Api) -> None:
    await api.second_tenant()
    await add(api)
    theirs = await api.call("POST", "/v1/sources", {"name": "shop", "scheme": "x"}, tenant=OTHER)
    mine = (await api.call("GET", "/v1/sources")).json()["data"]
    other = (await api.call("GET", "/v1/sources", tenant=OTHER)).json()["data"]

    assert theirs.status_code == 201
    assert [each["public_id"] for each in mine] == ["shop"]
    assert [each["public_id"] for each in other] == [theirs.json()["public_id"]]
    assert len(theirs.json()["public_id"]) >= 26


def test_what_can_be_written_of_a_source_is_what_is_shown() -> None:
    written = set(SourceFields.__struct_fields__)

    assert written <= set(Source.__struct_fields__)


# keys and tenants


async def test_a_key_is_made_shown_once_and_revoked(api: Api) -> None:
    made = (await api.call("POST", "/v1/keys", {"scopes": ["operator"], "name": "ada"})).json()
    works = await api.call("GET", "/v1/deliveries", key=made["key"])
    listed = await api.call("GET", "/v1/keys")
    revoked = await api.call("DELETE", f"/v1/keys/{made['id']}")
    again = await api.call("DELETE", f"/v1/keys/{made['id']}")
    refused = await api.call("GET", "/v1/deliveries", key=made["key"])

    assert works.status_code == 200
    assert made["key"] not in listed.text
    assert (revoked.json()["state"], again.status_code) == ("revoked", 200)
    assert refused.status_code == 401


async def test_a_key_says_who_it_is(api: Api) -> None:
    answer = (await api.call("GET", "/v1/self", scopes=("worker:shop",))).json()

    assert answer["tenant"] == "default"
    assert answer["key"]["scopes"] == ["worker:shop"]


async def test_a_tenant_is_made_with_a_first_key_that_sees_nothing_of_others(api: Api) -> None:
    await add(api)
    made = (await api.call("POST", "/v1/tenants", {"name": "acme"})).json()
    key = made["key"]["key"]
    twice = await api.call("POST", "/v1/tenants", {"name": "acme"})
    tenants = (await api.call("GET", "/v1/tenants")).json()["data"]
    sources = (await api.call("GET", "/v1/sources", key=key)).json()["data"]
    own = (await api.call("GET", "/v1/self", key=key)).json()

    assert twice.status_code == 409
    assert [each["name"] for each in tenants] == ["acme", "default"]
    assert sources == []
    assert (own["tenant"], own["key"]["scopes"]) == ("acme", ["admin"])
