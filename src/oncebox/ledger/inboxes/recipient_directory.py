"""RecipientDirectory: which inbox an address leads to, cached for two seconds.

Only open inboxes are remembered, and for two seconds, so that a new inbox is found at once and a
closed one everywhere within that time. When an inbox ends by itself, the clock says so.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from oncebox.core import clock
from oncebox.db.database import Database, Row, Transaction
from oncebox.db.queries import load
from oncebox.errors import StoreUnavailable
from oncebox.errors.mail import AddressInvalid
from oncebox.model.inboxes.addresses import address_key
from oncebox.model.inboxes.inbox import InboxState, accepts_until

_sql = load(__package__, "recipient_directory.sql")

#: seconds after which a change is seen by every process
ROUTE_CACHE_SECONDS = 2.0
#: how many addresses are remembered, and how many are asked for at once
_MOST_CACHED, _MOST_AT_ONCE = 10_000, 500
#: how many may wait for the database
_MOST_WAITING = 10_000


class RecipientStatus(StrEnum):
    """Whether mail for an address is taken."""

    #: it is
    OPEN = "open"
    #: the domain is ours, and no inbox has the address
    UNKNOWN = "unknown"
    #: the inbox has ended
    CLOSED = "closed"
    #: mail for this domain is not ours
    NOT_OURS = "not_ours"


class RecipientRoute(msgspec.Struct, frozen=True):
    """Where mail for an address goes."""

    status: RecipientStatus
    inbox_id: str = ""
    tenant: str = ""


_UNKNOWN = RecipientRoute(RecipientStatus.UNKNOWN)
_CLOSED = RecipientRoute(RecipientStatus.CLOSED)
_NOT_OURS = RecipientRoute(RecipientStatus.NOT_OURS)


@dataclass(frozen=True, slots=True)
class _Lookup:
    """What the database knows of an address."""

    route: RecipientRoute
    #: milliseconds since 1970; None is for ever
    open_until: int | None
    #: what holds afterwards
    otherwise: RecipientRoute


@dataclass(frozen=True, slots=True)
class _CachedLookup:
    """What the database said, and until when that is believed."""

    lookup: _Lookup
    until: float


class RecipientDirectory:
    """Finds inboxes by address; any number of callers share one small read."""

    def __init__(
        self,
        database: Database,
        *,
        default: str,
        draining: int,
        steady: Callable[[], float] = clock.steady,
    ) -> None:
        """Know the default domain, and how many milliseconds an inbox drains after its time."""
        self._database = database
        self._default = default
        self._draining = draining
        self._steady = steady
        self._cached: dict[str, _CachedLookup] = {}
        self._waiting: dict[str, asyncio.Future[RecipientRoute]] = {}
        self._lookup_task: asyncio.Task[None] | None = None
        #: rises with every change in this process, so that an answer from before is not kept
        self._changes = 0

    def glance(self, local: str, domain: str) -> RecipientRoute | None:
        """Return where mail goes, if that is remembered; None: ask."""
        try:
            return self._cached_route(address_key(local, domain))
        except AddressInvalid:
            return _UNKNOWN

    async def find(self, local: str, domain: str) -> RecipientRoute:
        """Return where mail for an address goes.

        Raises: StoreUnavailable.
        """
        try:
            address = address_key(local, domain)
        except AddressInvalid:
            return _UNKNOWN
        place = self._cached_route(address)
        return await asyncio.shield(self._lookup_soon(address)) if place is None else place

    def invalidate(self, inbox_id: str | None = None) -> None:
        """Ask the database anew about an inbox, or about all, as after a change in this process."""
        self._changes += 1
        if inbox_id is None:
            self._cached.clear()
            return
        for address in [
            address
            for address, held in self._cached.items()
            if held.lookup.route.inbox_id == inbox_id
        ]:
            del self._cached[address]

    async def close(self) -> None:
        """Finish what was begun."""
        if self._lookup_task is not None:
            await asyncio.gather(self._lookup_task, return_exceptions=True)

    def _cached_route(self, address: str) -> RecipientRoute | None:
        held = self._cached.get(address)
        if held is None or held.until <= self._steady() or not self._is_open(held.lookup):
            return None
        return held.lookup.route

    def _is_open(self, found: _Lookup) -> bool:
        return found.open_until is None or self._database.clock() < found.open_until

    def _lookup_soon(self, address: str) -> asyncio.Future[RecipientRoute]:
        """Return what will be found; whoever asks for the same shares it."""
        future = self._waiting.get(address)
        if future is not None:
            return future
        if len(self._waiting) >= _MOST_WAITING:
            raise StoreUnavailable(
                "too many addresses wait for the database; try again in a moment"
            )
        future = self._waiting[address] = asyncio.get_running_loop().create_future()
        if self._lookup_task is None:
            self._lookup_task = asyncio.create_task(self._look_up_waiting())
        return future

    async def _look_up_waiting(self) -> None:
        """Ask for all who wait, again and again until nobody does."""
        try:
            while self._waiting:
                some = list(self._waiting)[:_MOST_AT_ONCE]
                await self._look_up_batch({each: self._waiting.pop(each) for each in some})
        finally:
            # No await since the last look: whoever comes now begins anew.
            self._lookup_task = None

    async def _look_up_batch(self, asked: dict[str, asyncio.Future[RecipientRoute]]) -> None:
        # The time counts from before the look: what is read may be old when it arrives.
        changes, until = self._changes, self._steady() + ROUTE_CACHE_SECONDS
        try:
            found = await self._database.read(look_up, list(asked), self._draining)
        except Exception as error:  # noqa: BLE001 - whatever it is, the callers must hear of it
            _fail_waiters(asked.values(), error)
            return
        except BaseException:
            _fail_waiters(asked.values(), StoreUnavailable("the program is stopping; try again"))
            raise
        for address, future in asked.items():
            one = found.get(address)
            if one is not None and self._is_open(one):
                self._cache(address, _CachedLookup(one, until), changes)
            if not future.done():
                future.set_result(self._route_of(address, one))

    def _route_of(self, address: str, found: _Lookup | None) -> RecipientRoute:
        if found is not None:
            return found.route if self._is_open(found) else found.otherwise
        is_default = address.rpartition("@")[2] == self._default
        return _UNKNOWN if is_default else _NOT_OURS

    def _cache(self, address: str, held: _CachedLookup, changes: int) -> None:
        """Keep an answer unless something changed meanwhile; where there are too many, one goes."""
        if changes != self._changes:
            return
        self._cached.pop(address, None)
        while len(self._cached) >= _MOST_CACHED:
            del self._cached[next(iter(self._cached))]
        self._cached[address] = held


def look_up(tx: Transaction, addresses: Sequence[str], draining: int) -> dict[str, _Lookup]:
    """Look addresses up; what is missing in the answer is of a domain that nobody has."""
    split = [(each, each.rpartition("@")[2]) for each in addresses]
    rows = tx.many(_sql.inboxes, split)
    found = {row[0]: _to_lookup(row, draining, _CLOSED) for row in rows}
    rest = [(address, domain) for address, domain in split if address not in found]
    names = sorted({(domain,) for _, domain in rest})
    ours = {row[0]: _to_lookup(row, draining, _UNKNOWN) for row in tx.many(_sql.domains, names)}
    return found | {address: ours[domain] for address, domain in rest if domain in ours}


def _to_lookup(row: Row, draining: int, otherwise: RecipientRoute) -> _Lookup:
    """Read an inbox; a domain without one for the rest is like one whose inbox has ended."""
    _, id_, tenant, state, active_until, due_at = row
    if id_ is None:
        return _Lookup(otherwise, 0, otherwise)
    until = accepts_until(InboxState(state), active_until, due_at, draining)
    return _Lookup(RecipientRoute(RecipientStatus.OPEN, id_, tenant), until, otherwise)


def _fail_waiters(futures: Iterable[asyncio.Future[RecipientRoute]], error: Exception) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(error)
            future.exception()  # whoever asked may have gone meanwhile
