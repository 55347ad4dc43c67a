"""A tail: page after page of a list that grows at its end, for as long as one likes."""

import logging
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from oncebox import clock
from oncebox.client.call import Call, Pause, Plan, ask
from oncebox.client.exchange import backoff
from oncebox.errors import OnceboxError
from oncebox.wire.fields import Page

P = TypeVar("P", bound=Page)
#: what the pages hold
T = TypeVar("T")

#: seconds of one question; who follows simply asks the next
_WAIT = 25.0

_log = logging.getLogger("oncebox.client")


@dataclass(slots=True, kw_only=True)
class Tail(Generic[P, T]):
    """What is read, and whether to wait for more at the end."""

    call: Call[P]
    #: wait at the end, also for a service that is away for a while
    follow: bool = False
    #: seconds without anything new after which following ends; never unless set
    idle: float | None = None
    _over: bool = False

    def next(self) -> Plan[P | None]:
        """Fetch the next page that has something; None when the end is reached."""
        until = None if self.idle is None else clock.steady() + self.idle
        troubles = 0
        while not self._over:
            try:
                page = yield from ask(self.call)
            except OnceboxError as error:
                troubles += 1
                self._endure(error, until)
                yield Pause(backoff(troubles))
                continue
            self._go_on(page, until)
            data: Any = getattr(page, "data", ())
            if data:
                return page
        return None

    def _go_on(self, page: Page, until: float | None) -> None:
        """Set what is asked next; at the end, with a wait."""
        left = _WAIT if until is None else min(_WAIT, until - clock.steady())
        self._over = not page.has_more and (not self.follow or left <= 0)
        wait = 0.0 if page.has_more else max(0.0, left)
        query = msgspec.structs.replace(self.call.query, cursor=page.next_cursor, wait=wait)  # type: ignore[type-var]
        self.call = Call(
            method="GET",
            path=self.call.path,
            answer=self.call.answer,
            query=query,
            repeatable=True,
            wait=wait,
        )

    def _endure(self, error: OnceboxError, until: float | None) -> None:
        """Let trouble pass by that may be gone in a moment; raise the rest."""
        late = until is not None and clock.steady() >= until
        if not self.follow or not error.retry_safe or late:
            raise error
        _log.warning("nothing could be read, trying again: %s: %s", error.code, error)
