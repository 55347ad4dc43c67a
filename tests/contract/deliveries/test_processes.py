"""Several processes on one database, without a word between them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from oncebox.model.deliveries.delivery import DeliveryState
from tests.support.clerk import Clerk
from tests.support.databases import Place
from tests.support.office import Office

ROOT = Path(__file__).resolve().parents[3]


def _together(place: Place, task: str, processes: int) -> list[list[str]]:
    """Let processes do a task at the same time; return what each returned."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.support.claimer", place.url, task, str(processes)],
        check=True,
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )
    returned: list[list[str]] = json.loads(ended.stdout)
    return returned


def test_six_processes_claim_six_hundred_deliveries_once_each(clerk: Clerk) -> None:
    ids = {each.id for each in clerk.accept(*(clerk.arrival(str(n)) for n in range(600)))}

    printed = _together(clerk.place, "claim", 6)

    claimed = [id_ for lines in printed for id_ in lines]
    assert len(claimed) == 600
    assert set(claimed) == ids
    assert {(each.state, each.tries, each.fence) for each in clerk.all()} == {
        (DeliveryState.DONE, 1, 1)
    }


def test_four_processes_accept_the_same_keys_once(clerk: Clerk) -> None:
    printed = _together(clerk.place, "accept", 4)

    new = [id_ for lines in printed for id_ in lines]
    assert len(new) == 100
    assert {each.id for each in clerk.all()} == set(new)
    assert sum(sum(clerk.sightings(id_).values()) for id_ in new) == 300


def test_four_processes_that_add_the_same_sources_add_each_once(clerk: Clerk) -> None:
    office = Office(clerk)

    printed = _together(clerk.place, "add_sources", 4)

    ours = [name for lines in printed for name in lines]
    assert sorted(ours) == sorted(map(str, range(30)))
    assert {each.name for each in office.all()} == set(ours)
    assert all(len(each.secrets) == 1 for each in office.all())


def test_four_processes_that_want_the_same_addresses_get_each_once(clerk: Clerk) -> None:
    office = Office(clerk)

    printed = _together(clerk.place, "take_addresses", 4)

    ours = [name for lines in printed for name in lines]
    assert sorted(ours) == sorted(map(str, range(30)))
    assert {each.public_id for each in office.all()} == {f"address-{name}" for name in ours}


def test_four_processes_that_send_the_same_requests_create_once(clerk: Clerk) -> None:
    office = Office(clerk)

    printed = _together(clerk.place, "create_once", 4)

    created = [name for lines in printed for name in lines]
    assert len(created) == 30
    assert set(office.tenants()) - {"acme", "default"} == set(created)


@pytest.mark.parametrize("kind", ["sqlite"])
def test_two_processes_that_read_and_then_write_lose_no_update(clerk: Clerk) -> None:
    """A transaction that begins by reading must not fail or work on an old value."""
    clerk.session.run(
        lambda tx: tx.execute("INSERT INTO oncebox_meta (name, value) VALUES ('count', '0')")
    )

    _together(clerk.place, "count", 2)

    query = "SELECT value FROM oncebox_meta WHERE name = 'count'"
    assert clerk.session.run(lambda tx: tx.execute(query)) == [("200",)]
