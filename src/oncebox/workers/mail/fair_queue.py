"""Fair queue of mails: the next is of whoever used the parsers least of late.

Use is counted by tenant, by inbox and by the address that sent a mail, in seconds of parsing, and
half of it is forgotten every ten seconds. Tenants are compared first; within a tenant, the sum of
inbox and address: what all mails have in common, such as a relay, makes no difference.
See docs/decisions/0046-use-two-queues-for-mail-and-fair-turns-within-each.md.
"""

from collections import defaultdict, deque
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from oncebox.core import clock

#: seconds after which use counts half
_HALF_LIFE = 10.0
#: half-lives after which all use is written down anew, and use that no longer matters is dropped
_MAX_HALF_LIVES = 20
_NEGLIGIBLE = 0.001

T = TypeVar("T")


class MailFlow(NamedTuple):
    """Whose mail it is, and which address sent it; empty where that is unknown or meaningless."""

    tenant: str = ""
    inbox: str = ""
    address: str = ""


class ParsingDeferred(Exception):
    """A mail was not parsed at once, and must wait with the heavy ones."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        #: ``slow`` or ``crowded``
        self.reason = reason


class FairQueue(Generic[T]):
    """Waiting items, each of a flow."""

    def __init__(self, steady: Callable[[], float] = clock.steady) -> None:
        self._steady = steady
        #: of flows that have any, in the order in which they came
        self._waiting: dict[MailFlow, deque[T]] = {}
        #: seconds by tenant, inbox and address; later ones are larger, instead of decay
        self._used: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._since = steady()

    def __len__(self) -> int:
        """Return how many items wait."""
        return sum(map(len, self._waiting.values()))

    def __bool__(self) -> bool:
        """Return whether any item waits."""
        return bool(self._waiting)

    def push(self, flow: MailFlow, item: T) -> None:
        """Add an item behind the others of its flow."""
        self._waiting.setdefault(flow, deque()).append(item)

    def push_back(self, flow: MailFlow, item: T) -> None:
        """Return an item that was taken, to the front of its flow."""
        self._waiting.setdefault(flow, deque()).appendleft(item)

    def pop(self) -> T:
        """Take the item whose turn it is."""
        return self._take_first(self._next_flow())

    def pop_while(self, holds: Callable[[T], bool]) -> list[T]:
        """Take the first items of each flow for which a condition holds."""
        taken = []
        for flow in list(self._waiting):
            while flow in self._waiting and holds(self._waiting[flow][0]):
                taken.append(self._take_first(flow))
        return taken

    def clear(self) -> list[T]:
        """Take all items."""
        return self.pop_while(lambda _item: True)

    def charge(self, flow: MailFlow, seconds: float) -> None:
        """Note how long the parsers worked for a flow."""
        half_lives = (self._steady() - self._since) / _HALF_LIFE
        if half_lives > _MAX_HALF_LIVES:
            self._forget(2**half_lives)
            half_lives = 0.0
        for key in _keys(flow):
            self._used[key] += seconds * 2**half_lives

    def _take_first(self, flow: MailFlow) -> T:
        items = self._waiting[flow]
        item = items.popleft()
        if not items:
            del self._waiting[flow]
        return item

    def _next_flow(self) -> MailFlow:
        if len(self._waiting) == 1:
            return next(iter(self._waiting))
        return min(self._waiting, key=self._use)

    def _use(self, flow: MailFlow) -> tuple[float, float]:
        tenant, inbox, address = (self._used.get(key, 0.0) for key in _keys(flow))
        return tenant, inbox + address

    def _forget(self, factor: float) -> None:
        left = {key: seconds / factor for key, seconds in self._used.items()}
        self._used.clear()
        self._used.update({key: used for key, used in left.items() if used > _NEGLIGIBLE})
        self._since = self._steady()


def _keys(flow: MailFlow) -> tuple[tuple[str, str], ...]:
    return (("tenant", flow.tenant), ("inbox", flow.inbox), ("address", flow.address))
