"""`oncebox delivery tail` shows what is there and then what happens."""

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from oncebox.box import Oncebox
from oncebox.cli.commands.delivery import DeliveryView
from oncebox.db import startup
from oncebox.db.database import Database, Transaction
from oncebox.db.migrate import migrate
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.deliveries import operations
from oncebox.model.deliveries.delivery import Delivery, DeliveryState
from oncebox.model.deliveries.inspection import DeliveryRecord
from oncebox.workers.deliveries.once import Once
from tests.cli.ledger import Ledger

T = TypeVar("T")


async def do_nothing(delivery: Delivery, once: Once) -> None:
    pass


def test_once_shows_the_last_ones_oldest_first(ledger: Ledger) -> None:
    ids = [ledger.accept(f"k{number}") for number in range(4)]
    answer = ledger.type("delivery", "tail", "--once", "--last", "3")

    assert answer.code == 0
    assert [row[1] for row in answer.rows] == ids[1:]
    assert answer.rows[0][2:6] == ["received", "shop", "", "k1"]


def test_what_happens_meanwhile_is_shown(ledger: Ledger) -> None:
    old = ledger.accept("old")
    ledger.work(do_nothing)
    ids: list[str] = []

    def meanwhile() -> None:
        asyncio.run(_accept_and_replay(ids, old))

    other = threading.Timer(0.5, meanwhile)
    other.start()
    answer = ledger.type("delivery", "tail", "--last", "0", "--for", "4", "--json")
    other.join()

    seen = [(each["id"], each["state"]) for each in answer.records]
    assert (ids[0], "received") in seen
    assert (old, "received") in seen


async def _accept_and_replay(ids: list[str], old: str) -> None:
    """Do what another process would, on a connection of its own."""
    async with Oncebox() as box:
        ids.append((await box.accept("shop", key="new")).id)
        deed = AuditEntry(
            id="aud_1", tenant="default", at=box.components.database.clock(), who="", why=""
        )
        await box.components.database.write(operations.replay, old, deed, {})
        await asyncio.sleep(0.05)


def test_other_sources_are_left_out(ledger: Ledger) -> None:
    ledger.accept("k1")
    other = ledger.accept("k1", source="bank")

    assert ledger.type("delivery", "tail", "--once", "--source", "bank", "-q").out.split() == [
        other
    ]


async def test_each_change_is_seen_once_and_a_late_commit_is_not_missed(tmp_path: Path) -> None:
    database = startup.connect(f"sqlite:///{tmp_path}/oncebox.db")
    await migrate(database)
    view = DeliveryView("default")

    await _insert(database, "dlv_1")
    assert await _look(database, view.begin, 10) == [("dlv_1", DeliveryState.RECEIVED)]
    await _insert(database, "dlv_3")
    assert await _look(database, view.changes, 10.0) == [("dlv_3", DeliveryState.RECEIVED)]
    await _insert(database, "dlv_2")
    assert await _look(database, view.changes, 11.0) == [("dlv_2", DeliveryState.RECEIVED)]
    await _insert(database, "dlv_1", state="done")
    assert await _look(database, view.changes, 50.0) == [("dlv_1", DeliveryState.DONE)]
    assert await _look(database, view.changes, 51.0) == []
    await database.close()


async def _look(
    database: Database, look: Callable[[Transaction, T], list[DeliveryRecord]], argument: T
) -> list[tuple[str, DeliveryState]]:
    found = await database.read(look, argument)
    return [(facts.id, facts.state) for facts in found]


async def _insert(database: Database, id_: str, state: str = "received") -> None:
    statement = """
        INSERT INTO oncebox_deliveries (id, tenant, source, key, variant, key_digest, type, road,
            fingerprint, payload_id, size, state, received_at, accepted_at)
        VALUES (?1, 'default', 'shop', ?1, '', oncebox_digest(?1), '', 'api', x'', ?1, 0, ?2, 1, 1)
        ON CONFLICT (id) DO UPDATE SET state = excluded.state
    """
    await database.write(lambda tx: tx.execute(statement, (id_, state)))


def test_an_interrupt_is_how_it_ends(bare: Ledger) -> None:
    id_ = bare.accept("k1")
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "oncebox", "delivery", "tail", "-q"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as tail:
        assert tail.stdout is not None
        assert tail.stdout.readline() == f"{id_}\n".encode()
        tail.send_signal(signal.SIGINT)
        _, complaints = tail.communicate(timeout=20)

    assert (tail.returncode, complaints) == (0, b"")


@pytest.mark.parametrize("options", [["--last", "-1"], ["--for", "x"]])
def test_misuse_is_exit_code_2(bare: Ledger, options: list[str]) -> None:
    assert bare.type("delivery", "tail", *options).code == 2
