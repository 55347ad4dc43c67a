"""Drive the ledger at random for as long as wanted: many examples, many steps, either database."""

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.statemachine.machine import LedgerMachine
from tests.support import databases
from tests.support.clerk import Clerk
from tests.support.databases import Place
from tests.support.postgres import PostgresServer

#: a folder in memory, where there is one: what is tested here is not the disk
_MEMORY = Path("/dev/shm")


def main(examples: int = 2_000, steps: int = 50, database: str = "sqlite") -> None:
    """Run so many examples of so many steps; raises with a shortest failing example."""
    memory = _MEMORY if _MEMORY.is_dir() else None
    with (
        tempfile.TemporaryDirectory(dir=memory) as folder,
        _place(database, Path(folder)) as place,
    ):
        drive(place, examples=examples, steps=steps)


def drive(place: Place, *, examples: int, steps: int, derandomize: bool = False) -> None:
    """Run the machine on a migrated database."""
    clerk = Clerk(place)

    class Machine(LedgerMachine):
        pass

    Machine.clerk = clerk
    try:
        run_state_machine_as_test(
            Machine,
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                derandomize=derandomize,
                deadline=None,
                database=None,
                phases=[Phase.generate, Phase.shrink],
                suppress_health_check=list(HealthCheck),
            ),
        )
    finally:
        clerk.close()


@contextmanager
def _place(database: str, folder: Path) -> Iterator[Place]:
    if database == "sqlite":
        yield databases.fresh_sqlite(folder)
    else:
        with PostgresServer.start(folder, settings=databases.FAST) as server:
            yield databases.fresh_postgres(server)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=2_000)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--database", choices=databases.KINDS, default="sqlite")
    main(**vars(parser.parse_args()))
