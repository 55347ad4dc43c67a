"""The stand-ins' scenarios, by name: the sound form must hold, the mutant must be caught."""

from tests.torture.harness import kills, power, replies
from tests.torture.scenario import Scenario

_ROWS = (
    ("kill", "sqlite", kills.kill, 40, 10),
    ("kill-mutant", "sqlite", kills.kill_early_ack, 20, 10),
    ("zombie", "sqlite", kills.zombie, 20, 5),
    ("zombie-mutant", "sqlite", kills.zombie_unfenced, 10, 3),
    ("lost-reply", "postgres", replies.keyed, 200, 40),
    ("lost-reply-mutant", "postgres", replies.unkeyed, 40, 10),
    ("power-cut", "sqlite", power.sqlite, 40, 10),
    ("power-cut-mutant", "sqlite", power.sqlite_careless, 20, 10),
    ("power-cut", "postgres", power.postgres, 20, 4),
    ("power-cut-mutant", "postgres", power.postgres_careless, 12, 4),
)

SCENARIOS = tuple(
    Scenario(name=f"stand-in-{name}", database=database, run=run, trials=trials, short=short)
    for name, database, run, trials, short in _ROWS
)
