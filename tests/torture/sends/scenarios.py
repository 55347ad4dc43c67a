"""The scenarios of sends, by name and database."""

from tests.torture.scenario import Scenario
from tests.torture.sends import crashes, naive, race, replies
from tests.torture.sends.stage import Course

_SMTP, _HTTP = len(crashes.CASES), len(crashes.HTTP_CASES)
_HELD, _REPLAYED = Course(resend=True, policy="hold"), Course(resend=True)
_BOTH = ("sqlite", "postgres")
#: The published pattern has no database but its Redis.
_NONE = ("sqlite",)

_ROWS = (
    ("crash-points", _BOTH, crashes.kills(Course()), 50 * _SMTP, _SMTP),
    ("crash-points-resend", _BOTH, crashes.kills(_REPLAYED, _HELD), 40 * _HTTP, _HTTP),
    ("crash-points-repeated", _BOTH, crashes.kills(Course(policy="resend")), 5 * _SMTP, 1),
    (
        "drops",
        _BOTH,
        crashes.drops(Course(answer_within=2)),
        10 * len(crashes.DROPS),
        len(crashes.DROPS),
    ),
    (
        "drops-resend",
        _BOTH,
        crashes.drops(_REPLAYED),
        10 * len(crashes.HTTP_DROPS),
        len(crashes.HTTP_DROPS),
    ),
    ("pauses", _BOTH, crashes.pauses, 10 * len(crashes.PAUSES), 3),
    ("lost-replies", ("postgres",), replies.replies, 200, 4),
    ("race", _BOTH, race.race, race.MANY, 12),
    ("naive-kills", _NONE, naive.kills, 5 * len(naive.KILLS), 2),
    ("naive-drops", _NONE, naive.drops, 5 * len(naive.CUTS), 2),
)

SCENARIOS = tuple(
    Scenario(name=f"sends-{name}", database=database, run=run, trials=trials, short=short)
    for name, databases, run, trials, short in _ROWS
    for database in databases
)
