"""The scenarios of mailboxes, by name and database."""

from tests.torture.mailboxes import crashes, naive, replies
from tests.torture.scenario import Scenario

_POINTS = len(crashes.CASES)
_BOTH = ("sqlite", "postgres")
#: The usual loop has no database of ours.
_NONE = ("sqlite",)

_ROWS = (
    ("crash-points", _BOTH, crashes.crash_points, crashes.LONG, _POINTS),
    ("lost-replies", ("postgres",), replies.replies, 200, 4),
    ("naive-kills", _NONE, naive.kills, crashes.LONG, 2 * _POINTS),
)

SCENARIOS = tuple(
    Scenario(name=f"mailboxes-{name}", database=database, run=run, trials=trials, short=short)
    for name, databases, run, trials, short in _ROWS
    for database in databases
)
