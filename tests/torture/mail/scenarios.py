"""The scenarios of mail, by name and database."""

from tests.torture.mail import crashes, readers, sequencers
from tests.torture.scenario import Scenario

_POINTS = len(crashes.CASES)

_ROWS = (
    ("crash-points", "sqlite", crashes.crash_points, 20 * _POINTS, _POINTS),
    ("crash-points", "postgres", crashes.crash_points, 20 * _POINTS, _POINTS),
    ("sequencers", "sqlite", sequencers.kills, 40, 2),
    ("sequencers", "postgres", sequencers.kills, 40, 2),
    ("readers", "postgres", readers.readers, 10_000, 500),
    ("readers", "sqlite", readers.readers, 10_000, 300),
    ("readers-naive", "postgres", readers.naive, 10_000, 1_000),
)

SCENARIOS = tuple(
    Scenario(name=f"mail-{name}", database=database, run=run, trials=trials, short=short)
    for name, database, run, trials, short in _ROWS
)
