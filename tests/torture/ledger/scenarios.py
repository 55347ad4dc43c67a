"""The ledger's scenarios, by name and database."""

from tests.torture.ledger import (
    crashes,
    machine,
    old_transactions,
    power,
    replies,
    restarts,
    sleepers,
    zombies,
)
from tests.torture.scenario import Scenario

_POINTS = {database: len(crashes.points(database)) for database in ("sqlite", "postgres")}

_ROWS = (
    ("crash-points", "sqlite", crashes.crash_points, 20 * _POINTS["sqlite"], _POINTS["sqlite"]),
    (
        "crash-points",
        "postgres",
        crashes.crash_points,
        20 * _POINTS["postgres"],
        _POINTS["postgres"],
    ),
    ("zombies", "sqlite", zombies.zombies, 200, 10),
    ("zombies", "postgres", zombies.zombies, 200, 10),
    ("sleepers", "sqlite", sleepers.sleepers, 80, 4),
    ("sleepers", "postgres", sleepers.sleepers, 80, 4),
    ("lost-commit-replies", "postgres", replies.accepting, 500, 10),
    ("lost-commit-requests", "postgres", replies.asking, 100, 10),
    ("lost-replies-working", "postgres", replies.working, 100, 10),
    ("cut-connections", "postgres", replies.cutting, 200, 60),
    ("restarts", "postgres", restarts.restarts, 50, 2),
    ("old-transactions", "postgres", old_transactions.held, 30, 2),
    ("power-cut", "sqlite", power.sqlite, 300, 3),
    ("power-cut-mutant", "sqlite", power.sqlite_careless, 20, 5),
    ("power-cut", "postgres", power.postgres, 100, 2),
    ("state-machine", "sqlite", machine.state_machine, 2000, 20),
    ("state-machine", "postgres", machine.state_machine, 2000, 20),
)

SCENARIOS = tuple(
    Scenario(name=f"ledger-{name}", database=database, run=run, trials=trials, short=short)
    for name, database, run, trials, short in _ROWS
)
