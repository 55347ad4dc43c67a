"""A shift: one worker fetching one delivery after another, for as long as it likes."""

import logging
import os
import platform
import re
from dataclasses import dataclass, field

from oncebox import clock
from oncebox.client.call import Pause, Plan
from oncebox.client.claiming import claim, new_request_key
from oncebox.client.exchange import backoff
from oncebox.errors import OnceboxError, RequestKeyReused
from oncebox.wire.pull import ClaimedDelivery

#: seconds of one claim; an idle worker simply makes the next
_WAIT = 45.0
_LONGEST_NAME = 100

_log = logging.getLogger("oncebox.client")


@dataclass(frozen=True, slots=True)
class Fetched:
    """A delivery that was claimed."""

    delivery: ClaimedDelivery
    lease: float
    asked_at: float


@dataclass(slots=True, kw_only=True)
class Shift:
    """What a worker fetches, and how."""

    sources: tuple[str, ...]
    #: seconds; the service's own unless set
    lease: float | None
    #: seconds for which one piece of work is kept at most
    time_limit: float
    #: seconds without work after which the shift ends; never unless set
    idle: float | None
    worker: str
    _request_key: str = field(default_factory=new_request_key)

    def next(self) -> Plan[Fetched | None]:
        """Fetch the next delivery, however long that takes; None when the shift is over.

        A service that is away for a while is waited for.
        """
        until = None if self.idle is None else clock.steady() + self.idle
        troubles = 0
        while True:
            asked_at = clock.steady()
            wait = _WAIT if until is None else max(0.0, min(_WAIT, until - asked_at))
            try:
                claimed = yield from claim(
                    self.sources or None,
                    wait=wait,
                    lease=self.lease,
                    worker=self.worker,
                    request_key=self._request_key,
                )
            except OnceboxError as error:
                troubles += 1
                self._endure(error, until)
                yield Pause(backoff(troubles))
                continue
            self._request_key = new_request_key()
            if claimed.deliveries:
                return Fetched(claimed.deliveries[0], claimed.lease, asked_at)
            if until is not None and clock.steady() >= until:
                return None

    def _endure(self, error: OnceboxError, until: float | None) -> None:
        """Let trouble pass by that may be gone in a moment; raise the rest."""
        if isinstance(error, RequestKeyReused):  # the sources of this key have changed meanwhile
            self._request_key = new_request_key()
        elif not error.retry_safe or (until is not None and clock.steady() >= until):
            raise error
        _log.warning("no work could be fetched, trying again: %s: %s", error.code, error)


def worker_name() -> str:
    """Return what a worker calls itself unless told: the machine and the process."""
    return re.sub(r"[^!-~]", "-", f"{platform.node()}:{os.getpid()}")[-_LONGEST_NAME:]
