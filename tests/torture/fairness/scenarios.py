"""The scenarios of fairness, by name and database."""

from tests.torture.fairness import flood
from tests.torture.scenario import Scenario

SCENARIOS = tuple(
    Scenario(name="fairness-flood", database=database, run=flood.flood, trials=200, short=short)
    for database, short in (("sqlite", 2), ("postgres", 1))
)
