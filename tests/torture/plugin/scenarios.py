"""The scenarios of the pytest plugin."""

from tests.torture.plugin import crowd
from tests.torture.scenario import Scenario

SCENARIOS = (Scenario(name="plugin-crowd", database="sqlite", run=crowd.crowd, trials=5, short=1),)
