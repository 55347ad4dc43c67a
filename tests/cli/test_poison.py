"""A handler that ruins its process takes no neighbour along, and is given up on its own tries."""

from pathlib import Path

import pytest

from oncebox.model.deliveries.inspection import DeliveryRecord
from tests.cli.workers import Workers
from tests.torture.processes import Children

HEALTHY = 30
POISONS = ["raise", "hang", "hang-in-thread", "block", "exit", "sys-exit", "killed", "memory"]


def is_settled(found: list[DeliveryRecord]) -> bool:
    return all(each.state in {"done", "dead", "held"} for each in found)


@pytest.mark.parametrize("poison", ["block", "exit", "memory"])
def test_a_poison_dies_alone(tmp_path: Path, poison: str) -> None:
    with Children(tmp_path) as children:
        workers = Workers(tmp_path, children)
        workers.set("ONCEBOX_WORKER__MEMORY_LIMIT", "1500")
        workers.set("ONCEBOX_RETRY__TRIES", "2")
        half = ["healthy"] * (HEALTHY // 2)
        workers.accept([*half, poison, *half])
        workers.start("tests.cli.apps.poison:box")
        found = workers.wait_until(is_settled, timeout=60)

    states = {each.type: each for each in found}
    assert {each.state for each in found if each.type == "healthy"} == {"done"}
    assert states[poison].state == "dead"
    assert (states[poison].outcome, states[poison].tries) == ("tries_used_up", 2)


def test_all_poisons_together_stop_no_healthy_delivery(tmp_path: Path) -> None:
    with Children(tmp_path) as children:
        workers = Workers(tmp_path, children)
        workers.set("ONCEBOX_WORKER__MEMORY_LIMIT", "1500")
        workers.accept([*["healthy"] * HEALTHY, *POISONS, *["healthy"] * HEALTHY])
        workers.start("tests.cli.apps.poison:box", "--processes", "2")
        found = workers.wait_until(is_settled, timeout=110)

    assert {each.state for each in found if each.type == "healthy"} == {"done"}
    ends = {each.type: (each.state, each.tries) for each in found if each.type != "healthy"}
    assert ends == dict.fromkeys(POISONS, ("dead", 3))
