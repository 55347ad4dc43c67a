"""The scenarios of sends, by name and database."""

from tests.torture.scenario import Scenario
from tests.torture.sends import crashes
from tests.torture.sends.stage import Course

_SMTP, _HTTP = len(crashes.CASES), len(crashes.HTTP_CASES)
_REPEATED = Course(policy="resend")
_REPLAYED = Course(resend=True, policy="replay")
_BOTH = ("sqlite", "postgres")

_ROWS = (
    ("crash-points", crashes.kills(Course()), 50 * _SMTP, _SMTP),
    ("crash-points-resend", crashes.kills(Course(resend=True)), 20 * _HTTP, _HTTP),
    ("crash-points-replayed", crashes.kills(_REPLAYED), 20 * _HTTP, _HTTP),
    ("crash-points-repeated", crashes.kills(_REPEATED), 5 * _SMTP, 2),
    ("drops", crashes.drops(Course()), 10 * len(crashes.DROPS), 4),
    ("drops-resend", crashes.drops(_REPLAYED), 10 * len(crashes.HTTP_DROPS), 4),
    ("pauses", crashes.pauses, 10 * len(crashes.PAUSES), len(crashes.PAUSES)),
)

SCENARIOS = tuple(
    Scenario(name=f"sends-{name}", database=database, run=run, trials=trials, short=short)
    for name, run, trials, short in _ROWS
    for database in _BOTH
)
