"""Limits on received mail: rates by sending address and inbox, and free disk space.

Rates are counted by each process. A client on this machine is a relay or a test, and not limited.
"""

from collections.abc import Callable, Iterable

from oncebox.core import clock
from oncebox.core.disk_space import DiskLevel, DiskSpace
from oncebox.model.client_address import sender_limit_key
from oncebox.server.rate_limits import TokenBuckets
from oncebox.server.smtp import smtp_replies
from oncebox.settings import SmtpSettings

#: seconds in which as much is received as the settings say
_MINUTE = 60


class MailLimits:
    """Decides whether a mail is refused for now; every refusal is temporary."""

    def __init__(
        self,
        settings: SmtpSettings,
        disk: DiskSpace | None = None,
        *,
        rates: bool = True,
        steady: Callable[[], float] = clock.steady,
    ) -> None:
        """Apply the rates of the settings, unless ``rates`` says otherwise."""
        self._disk = disk
        self._large = settings.spool_from
        self._steady = steady
        off = not rates
        self._addresses = _Rates(
            0 if off else settings.rate_per_address, 0 if off else settings.bytes_per_address
        )
        self._inboxes = _Rates(
            0 if off else settings.rate_per_inbox, 0 if off else settings.bytes_per_inbox
        )

    def refuse_size(self, size: int) -> bytes | None:
        """Return the reply to a mail of that size, if it is refused."""
        level = self._disk.level if self._disk is not None else DiskLevel.OK
        is_refused = level >= DiskLevel.NO_MAIL or (level and size >= self._large)
        return smtp_replies.DISK_FULL if is_refused else None

    def refuse_recipient(self, client: str, inbox_id: str) -> bytes | None:
        """Return the reply to a recipient, if it is refused."""
        address, now = sender_limit_key(client), self._steady()
        if not address:
            return None
        if self._addresses.is_exceeded(address, now):
            return smtp_replies.TOO_MUCH_FROM_ADDRESS
        if self._inboxes.is_exceeded(inbox_id, now):
            return smtp_replies.TOO_MUCH_FOR_INBOX
        return None

    def count(self, client: str, inboxes: Iterable[str], size: int) -> None:
        """Count a mail; a large one may exceed its rate, and those after it wait for longer."""
        address, now = sender_limit_key(client), self._steady()
        if not address:
            return
        self._addresses.count(address, now, size)
        for inbox in set(inboxes):
            self._inboxes.count(inbox, now, size)


class _Rates:
    """Mails and bytes per minute, by name; 0 is no limit."""

    def __init__(self, mails: int, size: int) -> None:
        self._mails = _buckets(mails)
        self._bytes = _buckets(size)

    def is_exceeded(self, name: str, now: float) -> bool:
        both = (self._mails, self._bytes)
        return any(each is not None and each.wait(name, now) > 0 for each in both)

    def count(self, name: str, now: float, size: int) -> None:
        if self._mails is not None:
            self._mails.charge(name, now, 1)
        if self._bytes is not None:
            self._bytes.charge(name, now, size)


def _buckets(per_minute: int) -> TokenBuckets | None:
    return TokenBuckets(per_minute / _MINUTE, burst=per_minute) if per_minute else None
