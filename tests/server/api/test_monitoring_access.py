"""Metrics and documentation: open on this machine, for others with a key or by a setting."""

from typing import Any

import httpx2
import pytest

from oncebox.server.application import ROUTES
from tests.support.api import OTHER, Api, calling
from tests.support.databases import Place

CLOSED = ["/metrics", "/openapi.json", "/llms.txt", "/llms-full.txt", "/docs/waiting.md"]
STRANGER = "203.0.113.7"


@pytest.fixture
def kind() -> str:
    """One database: what is served lies in none."""
    return "sqlite"


async def ask(
    api: Api, path: str, *, peer: str = STRANGER, key: str = "", **headers: str
) -> httpx2.Response:
    """Ask from an address."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    if key:
        given["authorization"] = f"Bearer {key}"
    transport = httpx2.ASGITransport(app=api.app, client=(peer, 4711))
    async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
        return await client.get(path, headers=given)


def test_these_are_all_that_are_open_here_only() -> None:
    named = {route.path for route in ROUTES if route.opened_by}

    assert named == {
        "/metrics",
        "/llms.txt",
        "/llms-full.txt",
        "/docs/{page}",
        "/docs/{folder}/{page}",
    }


@pytest.mark.parametrize("path", CLOSED)
@pytest.mark.parametrize("peer", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
async def test_who_is_on_this_machine_needs_no_key(api: Api, path: str, peer: str) -> None:
    assert (await ask(api, path, peer=peer)).status_code == 200


@pytest.mark.parametrize("path", CLOSED)
@pytest.mark.parametrize("peer", [STRANGER, "10.0.0.1", "2001:db8::1", "", "a-socket"])
async def test_who_is_elsewhere_is_told_to_bring_a_key(api: Api, path: str, peer: str) -> None:
    await api.add_source("secretsource")
    answer = await ask(api, path, peer=peer)

    assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    assert "oncebox key new --scope metrics" in answer.json()["detail"]
    assert "ONCEBOX_HTTP__PUBLIC_" in answer.json()["detail"]
    assert "secretsource" not in answer.text


@pytest.mark.parametrize("header", ["x_forwarded_for", "forwarded", "x_real_ip", "via"])
async def test_a_request_that_a_proxy_here_passed_on_is_not_of_this_machine(
    api: Api, header: str
) -> None:
    answer = await ask(api, "/metrics", peer="127.0.0.1", **{header: "203.0.113.7"})

    assert answer.status_code == 401


@pytest.mark.parametrize("scope", ["metrics", "operator", "admin"])
async def test_a_key_for_metrics_reads_them_from_anywhere(api: Api, scope: str) -> None:
    await api.add_source("shop")
    await api.box.components.sources.refresh()
    answer = await ask(api, "/metrics", key=await api.key(scope))

    assert answer.status_code == 200
    assert 'oncebox_accepted_total{source="shop"} 0.0' in answer.text


async def test_metrics_are_not_for_agents_nor_for_other_tenants(api: Api) -> None:
    await api.second_tenant()
    for key in (await api.key("agent"), await api.key("admin", tenant=OTHER)):
        assert (await ask(api, "/metrics", key=key)).status_code == 403
        assert (await ask(api, "/docs/waiting.md", key=key)).status_code == 200
    assert (await ask(api, "/metrics", key="obx_wrong")).status_code == 401


async def test_a_key_for_metrics_is_good_for_nothing_else(api: Api) -> None:
    key = await api.key("metrics")
    statuses = {
        (await api.call("GET", path, key=key)).status_code
        for path in ("/v1/sources", "/v1/deliveries", "/v1/keys", "/v1/inboxes", "/v1/sends")
    }

    assert statuses == {403}


@pytest.mark.parametrize("setting", ["public_metrics", "public_docs"])
async def test_a_setting_opens_them_to_all(place: Place, setting: str) -> None:
    opening: dict[str, Any] = {setting: True}
    async with calling(place, **opening) as api:
        opened = {path for path in CLOSED if (await ask(api, path)).status_code == 200}

    assert opened == ({"/metrics"} if setting == "public_metrics" else {*CLOSED} - {"/metrics"})
