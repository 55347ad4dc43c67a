"""The scenarios of capacity, by name and database."""

from tests.torture.capacity import crowd
from tests.torture.scenario import Scenario

SCENARIOS = (
    Scenario(name="capacity-crowd", database="sqlite", run=crowd.crowd, trials=1_500, short=60),
)
