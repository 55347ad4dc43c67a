"""A worker that is killed on its way to an endpoint: each event arrives, known by its id."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from oncebox import Oncebox
from oncebox.core import ids
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.deliveries import inspections
from oncebox.ledger.endpoints import endpoints
from oncebox.model.endpoints import EndpointFields
from oncebox.testing.endpoint import ScriptedEndpoint
from tests.support import events
from tests.support.clerk import TENANT
from tests.support.databases import Place
from tests.support.program import KEY, settings
from tests.torture.processes import Children

SECRET = "whsec_c2VjcmV0c2VjcmV0c2VjcmV0"
NUMBER = 12
#: delivers events until it is ended
PROGRAM = """
import asyncio, sys

from oncebox import Oncebox
from oncebox.settings import EgressSettings, Settings, WorkerSettings

url, key, folder = sys.argv[1:]
box = Oncebox(
    settings=Settings(
        data_dir=folder, database_url=url, master_key=key, tenant="acme",
        worker=WorkerSettings(poll=0.02, lease=1.0),
        egress=EgressSettings(allow="127.0.0.1"),
    )
)


async def main():
    async with box:
        print("ready", flush=True)
        await box.work()


asyncio.run(main())
"""


@pytest.fixture
async def box(place: Place) -> AsyncIterator[Oncebox]:
    """A box that only looks, and adds what is needed."""
    async with Oncebox(settings=settings(place)) as box:
        yield box


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("point", "repeated"),
    [
        ("endpoints.fanned-out:1", 0),
        ("endpoints.claimed:4", 0),
        ("endpoints.answered:4", 8),
        ("worker.settled-not-committed:2", 8),
    ],
)
async def test_each_event_is_accepted_although_its_worker_is_killed(
    box: Oncebox, place: Place, tmp_path: Path, point: str, repeated: int
) -> None:
    """What was accepted before the kill and not recorded is repeated, under the same id."""
    components = box.components
    async with ScriptedEndpoint() as endpoint:
        sealed = components.endpoint_cipher.encrypt(TENANT, "billing", (SECRET,))
        fields = EndpointFields(name="billing", url=endpoint.url)
        now = components.database.clock()
        entry = AuditEntry(id=ids.new("aud"), tenant=TENANT, at=now, who="t", why="")
        await components.database.write(endpoints.add, fields, sealed, entry)
        new = [events.new(f"msg_{n}", type_="message.received") for n in range(NUMBER)]
        await components.database.write(events.record, *new)
        (tmp_path / "program.py").write_text(PROGRAM)
        command = [sys.executable, str(tmp_path / "program.py"), place.url, KEY, str(tmp_path)]
        with Children(tmp_path) as children:
            victim = children.start(
                "victim", command, environment={"ONCEBOX_FAULTS": f"{point}:kill"}
            )
            assert await asyncio.to_thread(victim.wait, timeout=60) == -9
            children.start("heir", command, environment={})
            async with asyncio.timeout(60):
                while await _open(box):  # noqa: ASYNC110 - it is in the database
                    await asyncio.sleep(0.05)

    assert set(endpoint.accepted) == {each.id for each in new}
    assert endpoint.accepted.total() - NUMBER <= repeated


async def _open(box: Oncebox) -> bool:
    found = await box.components.database.read(
        inspections.newest, TENANT, source="@endpoint:billing", most=100
    )
    return [str(each.state) for each in found] != ["done"] * NUMBER
