"""Pace: how long a client may take, and how fast a mail must come."""

from oncebox import clock
from oncebox.config import SmtpSettings

_NEVER = float("inf")


class Pace:
    """The patience with one client."""

    __slots__ = ("_credit", "_looked_at", "_over_at", "_patience", "_settings", "_until", "fresh")

    def __init__(self, settings: SmtpSettings) -> None:
        """Begin to wait."""
        self._settings = settings
        self._patience = settings.data_rate * settings.command_within / 3
        now = clock.steady()
        self._over_at = now + settings.session_within
        #: bytes since the last look
        self.fresh = 0
        #: what may be missing from the expected rate
        self._credit = self._patience
        self._looked_at = now
        self._until = _NEVER

    def wait(self) -> None:
        """Wait for the next command, or for the first bytes of a mail."""
        now = clock.steady()
        self._until = now + self._settings.command_within
        self._looked_at, self._credit, self.fresh = now, self._patience, 0

    def wait_for(self, seconds: float) -> None:
        """Wait for so long and no longer."""
        self._until = clock.steady() + seconds
        self.fresh = 0

    def is_over(self, now: float) -> bool:
        """Say whether the connection was open for too long."""
        return now >= self._over_at

    def is_up(self, now: float) -> bool:
        """Say whether what is waited for should have come."""
        return now >= self._until

    def is_kept(self, now: float) -> bool:
        """Say whether a mail still comes at the rate it must, seen over a few seconds."""
        credit = min(self._patience, self._credit + self.fresh)
        self._credit = credit - (now - self._looked_at) * self._settings.data_rate
        self._looked_at, self.fresh = now, 0
        return self._credit >= 0
