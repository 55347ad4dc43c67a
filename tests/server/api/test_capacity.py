"""Capacity: no key takes what others need, and a full disk stops webhooks last."""

import asyncio
from pathlib import Path

import pytest

from oncebox.core.disk_space import Disk, DiskSpace
from tests.support.api import Api, calling
from tests.support.databases import Place
from tests.support.http import until
from tests.support.streams import streaming

MIB = 1024 * 1024
pytestmark = pytest.mark.parametrize("kind", ["sqlite"])


async def test_a_key_has_so_many_requests_in_progress_and_no_more(place: Place) -> None:
    async with calling(place, requests_per_key=3) as api:
        inbox = (await api.call("POST", "/v1/inboxes", {})).json()["id"]
        path = f"/v1/inboxes/{inbox}/messages?wait=20"
        held = [asyncio.create_task(api.call("GET", path)) for _ in range(3)]
        await until(lambda: api.box.components.longpoll.waiters == 3)
        refused = await api.call("GET", "/v1/self")
        other = await api.call("GET", "/v1/self", scopes=("operator",))
        probe = await api.call("GET", "/healthz", key="")
        for each in held:
            each.cancel()
        await asyncio.gather(*held, return_exceptions=True)
        await until(lambda: not api.box.components.longpoll.waiters)
        again = await api.call("GET", "/v1/self")

    assert (refused.status_code, refused.json()["code"]) == (429, "key_limit_reached")
    assert "http.requests_per_key" in refused.json()["detail"]
    assert int(refused.headers["retry-after"]) >= 1
    assert [each.status_code for each in (other, probe, again)] == [200, 200, 200]


async def test_a_key_has_so_many_event_streams_and_no_more(place: Place) -> None:
    async with streaming(place, streams_per_key=2) as streams:
        readers = [await streams.read() for _ in range(2)]
        refused = await streams.read()
        other = await streams.read(key=await streams.api.key("operator"))
        readers[0].writer.close()
        await until(lambda: streams.api.box.components.broadcast.followers == 2)
        again = await streams.read()

        assert [each.status for each in (*readers, refused, other, again)] == [
            200, 200, 429, 200, 200,
        ]  # fmt: skip


def _disk(api: Api, free: int) -> None:
    """Let the disk have so many MiB left."""
    components = api.box.components
    components.__dict__["disk_space"] = DiskSpace(
        [Path("/")],
        512 * MIB,
        components.telemetry,
        measure=lambda _: Disk(free * MIB, 10**12),
    )


@pytest.mark.parametrize(
    ("free", "status", "shown"),
    [(600, 200, "ok"), (400, 200, "no_large_mail"), (200, 200, "no_mail"), (100, 503, None)],
)
async def test_readiness_says_what_is_refused_for_want_of_disk_space(
    place: Place, free: int, status: int, shown: str | None
) -> None:
    async with calling(place) as api:
        _disk(api, free)
        answer = await api.call("GET", "/readyz", key="")
        healthy = await api.call("GET", "/healthz", key="")

    assert (answer.status_code, healthy.status_code) == (status, 200)
    assert answer.json().get("free_disk") == shown
    if shown is None:
        assert answer.json()["code"] == "disk_full"
    else:
        assert answer.json()["free_disk_bytes"] == free * MIB


@pytest.mark.parametrize(("free", "status"), [(200, 200), (100, 503)])
async def test_webhooks_are_refused_only_when_the_disk_is_almost_full(
    place: Place, free: int, status: int
) -> None:
    async with calling(place) as api:
        await api.add_source("shop")
        await api.box.components.sources.refresh()
        _disk(api, free)
        app = Api(api.box, api.box.asgi(), api.made)
        answer = await app.call("POST", "/in/shop", {"id": 1}, key="")

    assert answer.status_code == status
    if status == 503:
        assert answer.json()["code"] == "disk_full"
        assert answer.json()["retry_safe"] is True
