"""The worker for endpoints: events reach a URL, signed, and again until it accepts them."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from standardwebhooks import Webhook as StandardWebhook
from svix.webhooks import Webhook as SvixWebhook
from svix.webhooks import WebhookVerificationError

from oncebox import Oncebox
from oncebox.core import ids
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.deliveries import inspections
from oncebox.ledger.endpoints import endpoints
from oncebox.ledger.notifications import EVENTS
from oncebox.model.deliveries.delivery import DeliveryState
from oncebox.model.deliveries.inspection import DeliveryRecord
from oncebox.model.endpoints import Endpoint, EndpointFields, EndpointPause
from oncebox.settings import EgressSettings, EndpointSettings
from oncebox.testing.endpoint import EndpointFault, ScriptedEndpoint
from tests.support import events
from tests.support.clerk import TENANT
from tests.support.databases import Place
from tests.support.http import until
from tests.support.program import settings

SECRET = "whsec_" + base64.b64encode(b"a secret of twenty-four!").decode()
OTHER = "whsec_" + base64.b64encode(b"the secret before this..").decode()


class House:
    """A box with its endpoint workers, and endpoints on loopback."""

    def __init__(self, box: Oncebox) -> None:
        self.box = box

    async def add(self, url: str, name: str = "billing", **fields: Any) -> Endpoint:
        """Add an endpoint."""
        components = self.box.components
        secrets = fields.pop("secrets", (SECRET,))
        sealed = components.endpoint_cipher.encrypt(TENANT, name, secrets)
        wanted = EndpointFields(name=name, url=url, **fields)
        return await components.database.write(endpoints.add, wanted, sealed, self.entry())

    def entry(self) -> AuditEntry:
        """Return who changes something."""
        now = self.box.components.database.clock()
        return AuditEntry(id=ids.new("aud"), tenant=TENANT, at=now, who="ann", why="")

    async def happen(self, *subjects: str, **fields: Any) -> None:
        """Record events; the box numbers them."""
        ledger = self.box.components.ledger
        new = [events.new(each, type_="message.received", **fields) for each in subjects]
        await ledger.write(events.record, *new)
        ledger.notify(EVENTS)

    async def place(self, name: str = "billing") -> Endpoint:
        """Return an endpoint as it is stored."""
        return await self.box.components.database.read(endpoints.get, TENANT, name)

    async def states(self, name: str = "billing") -> list[tuple[str, str | None]]:
        """Return state and error of the deliveries to an endpoint."""
        return [(str(each.state), each.last_error) for each in await self.deliveries(name)]

    async def deliveries(self, name: str = "billing") -> list[DeliveryRecord]:
        """Return the deliveries to an endpoint, the newest first."""
        return await self.box.components.database.read(
            inspections.newest, TENANT, source=f"@endpoint:{name}", most=100
        )

    async def hurry(self) -> None:
        """Make everything due that waits for its next try, and end all rests."""
        database = self.box.components.database

        def now_due(tx: Any) -> None:
            tx.execute("UPDATE oncebox_deliveries SET due_at = 1, not_before = NULL "
                       "WHERE state = 'failed'")  # fmt: skip
            tx.execute("UPDATE oncebox_endpoints SET rests_until = 1 "
                       "WHERE rests_until IS NOT NULL")  # fmt: skip

        await database.write(now_due)


@asynccontextmanager
async def running(place: Place, **more: Any) -> AsyncIterator[House]:
    """Run a box with its workers."""
    chosen = msgspec.structs.replace(
        settings(place),
        egress=EgressSettings(allow=more.pop("allow", "127.0.0.1")),
        endpoints=EndpointSettings(within=more.pop("within", 10.0)),
    )
    box = Oncebox(settings=chosen)
    async with box:
        working = asyncio.create_task(box.work())
        try:
            yield House(box)
        finally:
            box.stop_working()
            await working


@pytest.fixture
async def house(place: Place) -> AsyncIterator[House]:
    async with running(place) as house:
        yield house


async def test_an_event_arrives_signed_as_two_independent_libraries_read_it(house: House) -> None:
    async with ScriptedEndpoint() as endpoint:
        await house.add(endpoint.url, secrets=(SECRET, OTHER))
        await house.happen("msg_1", inbox_id="inb_1")
        (request,) = await endpoint.received(1)
        await until(lambda: endpoint.accepted[request.id] == 1)

        for secret in (SECRET, OTHER):  # while a secret is rotated both are valid
            told = StandardWebhook(secret).verify(request.body.decode(), dict(request.headers))
            assert told == request.json
            SvixWebhook(secret).verify(request.body, dict(request.headers))
            with pytest.raises(WebhookVerificationError):
                SvixWebhook(secret).verify(request.body + b" ", dict(request.headers))
        assert request.json["data"]["subject_id"] == "msg_1"
        assert request.id == request.json["data"]["id"]
        assert request.headers["content-type"] == "application/json"
        assert SECRET not in str(request)


async def test_events_are_repeated_until_they_are_accepted(house: House) -> None:
    async with ScriptedEndpoint() as endpoint:
        endpoint.script = [500, 429, 302]
        await house.add(endpoint.url)
        await house.happen("msg_1")
        for count in (1, 2, 3):
            await endpoint.received(count)
            await _failed(house, count)
            await house.hurry()
        requests = await endpoint.received(4)
        await _settled(house, "done")

        assert len({each.id for each in requests}) == 1
        assert endpoint.accepted == {requests[0].id: 1}


@pytest.mark.parametrize("fault", ["hang", "reset", "garbage", "redirect"])
async def test_a_faulty_answer_is_no_acceptance(place: Place, fault: EndpointFault) -> None:
    async with running(place, within=0.5) as house, ScriptedEndpoint() as endpoint:
        endpoint.script = [fault]
        await house.add(endpoint.url)
        await house.happen("msg_1")
        await _failed(house, 1)
        ((_, error),) = await house.states()
        await house.hurry()
        await endpoint.received(2)
        await _settled(house, "done")

        assert error is not None
        assert error.startswith("transient: ")
        assert endpoint.accepted.total() == 1


@pytest.mark.parametrize("fault", ["drip", "huge"])
async def test_once_the_status_is_known_it_counts(house: House, fault: EndpointFault) -> None:
    """However long or large the rest of the answer is."""
    async with ScriptedEndpoint(usual=fault) as endpoint:
        await house.add(endpoint.url)
        await house.happen("msg_1")
        await _settled(house, "done")

        assert len(endpoint.requests) == 1


async def test_an_endpoint_that_is_gone_is_paused(house: House) -> None:
    async with ScriptedEndpoint(usual=410) as endpoint:
        await house.add(endpoint.url)
        await house.happen("msg_1")
        await _settled(house, "dead")
        place = await house.place()
        await house.happen("msg_2")
        await _settled(house, "received")

        assert place.paused is EndpointPause.GONE
        assert len(endpoint.requests) == 1


async def test_an_event_in_progress_is_dropped_when_its_endpoint_is_removed(place: Place) -> None:
    """Otherwise it would wait for ever for an endpoint that nobody claims for."""
    async with running(place, within=1.0) as house, ScriptedEndpoint(usual="hang") as endpoint:
        await house.add(endpoint.url)
        await house.happen("msg_1")
        await endpoint.received(1)
        database = house.box.components.database
        await database.write(endpoints.remove, "billing", house.entry())
        await _settled(house, "done")
        (one,) = await house.deliveries()

        assert one.outcome == "dropped"


async def test_an_endpoint_that_asks_for_time_gets_it(house: House) -> None:
    async with ScriptedEndpoint(usual=503) as endpoint:
        endpoint.headers = {"retry-after": "3600"}
        await house.add(endpoint.url)
        await house.happen("msg_1")
        await _failed(house, 1)
        (one,) = await house.deliveries()

        assert one.due_at is not None
        assert one.due_at > house.box.components.database.clock() + 3_500_000


async def test_a_failing_endpoint_rests_and_is_then_tested_by_one_event(house: House) -> None:
    async with ScriptedEndpoint(usual=500) as endpoint, ScriptedEndpoint() as healthy:
        await house.add(endpoint.url, concurrency=1)
        await house.add(healthy.url, "healthy")
        await house.happen(*(f"msg_{number}" for number in range(12)))
        await healthy.received(12)
        await _opened(house)
        before = len(endpoint.requests)
        endpoint.script, endpoint.usual = [200], 500
        await house.hurry()
        await endpoint.received(before + 1)
        await until(lambda: endpoint.accepted.total() == 1)

        assert before < 12
        assert house.box.components.telemetry.endpoint_breakers._value.get() >= 1


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_addresses_inside_are_refused_unless_they_are_allowed(
    place: Place, scheme: str
) -> None:
    async with running(place, allow="") as house, ScriptedEndpoint() as endpoint:
        await house.add(endpoint.url.replace("http", scheme))
        await house.happen("msg_1")
        await _failed(house, 1)
        ((_, error),) = await house.states()

        assert "egress.allow" in (error or "")
        assert endpoint.connections == 0


async def _failed(house: House, count: int) -> None:
    async def tries() -> int:
        found = await house.deliveries()
        return found[0].tries if found and found[0].state is DeliveryState.FAILED else -1

    await _until(tries, count)


async def _settled(house: House, state: str) -> None:
    async def newest() -> str:
        states = await house.states()
        return states[0][0] if states else ""

    await _until(newest, state)


async def _opened(house: House) -> None:
    async def rests() -> bool:
        return (await house.place()).rests_until is not None

    await _until(rests, expected=True)


async def _until(read: Any, expected: object) -> None:
    async with asyncio.timeout(30):
        while (await read()) != expected:  # noqa: ASYNC110 - it is in the database
            await asyncio.sleep(0.02)
