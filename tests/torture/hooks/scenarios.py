"""The scenarios of webhooks, by name and database."""

from tests.torture.hooks import hung, kills, slow, storms
from tests.torture.scenario import Scenario

_ROWS = (
    ("hooks-storm", "sqlite", storms.storm, 100_000, 3_000),
    ("hooks-storm", "postgres", storms.storm, 100_000, 3_000),
    ("hooks-slow-clients", "sqlite", slow.by_time, 2_000, 100),
    ("hooks-slow-crowd", "sqlite", slow.by_number, 2_000, 100),
    ("hooks-kill", "sqlite", kills.kills, 100, 3),
    ("hooks-kill", "postgres", kills.kills, 100, 3),
    ("hung-commit", "postgres", hung.hung_commit, 6, hung.FEW),
)

SCENARIOS = tuple(
    Scenario(name=name, database=database, run=run, trials=trials, short=short)
    for name, database, run, trials, short in _ROWS
)
