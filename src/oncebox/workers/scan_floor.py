"""Scan floor: the time before which a queue was found empty, so that the next scan starts there.

Entries of an index that were claimed or settled remain until no transaction can see them: one old
transaction on PostgreSQL keeps all of them, and a scan from the beginning reads them all. The floor
is a hint. What comes below it (a late commit, a rollback, a slow clock) is found by the next
complete scan, which comes soon while such scans are fast, else after fifty times as long as one
takes, at most thirty seconds.
"""

from oncebox.core import clock

#: milliseconds below a floor in which entries may still be committed
SLACK = 2_000
#: a complete scan is slow if so many durations of it are more than a second
_DURATIONS, _FAST = 50, 1.0
#: seconds between two complete scans, at most
_AT_MOST = 30.0


class ScanFloor:
    """The floor of one queue."""

    def __init__(self, slack: int = SLACK, every: float = 1.0) -> None:
        """Scan completely every so many seconds while that is fast."""
        self._slack = slack
        self._every = every
        self._floor = 0
        self._complete_at = 0.0
        self._began = 0.0

    def begin(self, now: int) -> int:
        """Return where a scan starts; 0 if it must be complete."""
        self._began = clock.steady()
        if self._began >= self._complete_at:
            self._floor = 0
        # A clock that was set back must not hide what it makes due.
        return min(self._floor, max(0, now - self._slack))

    def end(self, began_at: int, empty_before: int | None) -> None:
        """Note the result of a scan: where it started, and before which time nothing is left."""
        if began_at == 0:
            ended = clock.steady()
            wait = (ended - self._began) * _DURATIONS
            self._complete_at = ended + (self._every if wait <= _FAST else min(wait, _AT_MOST))
        if empty_before is not None:
            self._floor = max(began_at, empty_before - self._slack)
