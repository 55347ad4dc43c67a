"""The scenarios of artifacts, by name and database."""

from tests.torture.artifacts import actions, claims, extraction, points, waits, workers
from tests.torture.scenario import Scenario

_CLAIM, _FILE = len(points.CASES), len(extraction.CASES)

_ROWS = (
    ("claims", "sqlite", claims.claims, 1_000, 6),
    ("claims", "postgres", claims.claims, 1_000, 6),
    ("claims-naive", "postgres", claims.naive, 100, 20),
    ("workers", "sqlite", workers.workers, 500, 4),
    ("workers", "postgres", workers.workers, 500, 4),
    ("claim-points", "sqlite", points.claim_points, 20 * _CLAIM, _CLAIM),
    ("claim-points", "postgres", points.claim_points, 20 * _CLAIM, _CLAIM),
    ("extraction-points", "sqlite", extraction.crash_points, 20 * _FILE, _FILE),
    ("extraction-points", "postgres", extraction.crash_points, 20 * _FILE, _FILE),
    ("waits", "sqlite", waits.waits, 10_000, 200),
    ("waits", "postgres", waits.waits, 10_000, 200),
    ("actions", "sqlite", actions.race, 20, 1),
    ("actions", "postgres", actions.race, 20, 1),
)

SCENARIOS = tuple(
    Scenario(name=f"artifacts-{name}", database=database, run=run, trials=trials, short=short)
    for name, database, run, trials, short in _ROWS
)
