"""The scenarios of the master key's rotation, by name and database."""

from tests.torture.rotation import kills
from tests.torture.scenario import Scenario

SCENARIOS = tuple(
    Scenario(name="rotation-kills", database=database, run=kills.kills, trials=20, short=2)
    for database in ("sqlite", "postgres")
)
