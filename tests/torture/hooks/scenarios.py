"""The scenarios of webhooks, by name and database."""

from tests.torture.hooks import kills, slow, storms
from tests.torture.scenario import Scenario

_ROWS = (
    ("storm", "sqlite", storms.storm, 100_000, 3_000),
    ("storm", "postgres", storms.storm, 100_000, 3_000),
    ("slow-clients", "sqlite", slow.by_time, 2_000, 100),
    ("slow-crowd", "sqlite", slow.by_number, 2_000, 100),
    ("kill", "sqlite", kills.kills, 100, 3),
    ("kill", "postgres", kills.kills, 100, 3),
)

SCENARIOS = tuple(
    Scenario(name=f"hooks-{name}", database=database, run=run, trials=trials, short=short)
    for name, database, run, trials, short in _ROWS
)
