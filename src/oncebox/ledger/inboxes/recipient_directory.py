"""RecipientDirectory: the inbox of an address, cached for two seconds.

Only open inboxes are cached, so that a new inbox is found at once, and a closed one is refused
everywhere within that time. An inbox that ends by itself is refused at once, by the clock.
See docs/decisions/0024-use-canonical-addresses-and-a-positive-cache-for-recipients.md.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from oncebox.core import clock
from oncebox.db.database import Database, Row, Transaction
from oncebox.db.group_commit import before_deadline
from oncebox.db.queries import load
from oncebox.errors import StoreUnavailable
from oncebox.errors.mail import AddressInvalid
from oncebox.model.admin.access import TenantStorage
from oncebox.model.inboxes.addresses import address_key
from oncebox.model.inboxes.inbox import InboxState, accepts_until

_sql = load(__package__, "recipient_directory.sql")

#: seconds after which a change is seen by every process
ROUTE_CACHE_SECONDS = 2.0
#: addresses in the cache, and in one query
_MAX_CACHED, _MAX_BATCH = 10_000, 500
#: lookups that may wait for the database
_MAX_WAITING = 10_000


class RecipientStatus(StrEnum):
    """Whether mail for an address is accepted."""

    OPEN = "open"
    #: the domain is ours, and no inbox has the address
    UNKNOWN = "unknown"
    #: the inbox has ended
    CLOSED = "closed"
    #: the domain is not ours
    NOT_OURS = "not_ours"
    #: the inbox, or its tenant, stores as much mail as it may
    FULL = "full"


class RecipientRoute(msgspec.Struct, frozen=True):
    """The inbox that receives mail for an address."""

    status: RecipientStatus
    inbox_id: str = ""
    tenant: str = ""


_UNKNOWN = RecipientRoute(RecipientStatus.UNKNOWN)
_CLOSED = RecipientRoute(RecipientStatus.CLOSED)
_NOT_OURS = RecipientRoute(RecipientStatus.NOT_OURS)
#: what may change at any time
_UNCACHED = frozenset({RecipientStatus.FULL})


class _Lookup(NamedTuple):
    """The stored route of an address."""

    route: RecipientRoute
    #: milliseconds since 1970; None is unlimited
    open_until: int | None
    #: the route afterwards
    otherwise: RecipientRoute


class StorageLimits(NamedTuple):
    """Bytes of raw mail that an inbox and a tenant may have; 0 is no limit."""

    inbox: int = 0
    #: unless it has a limit of its own
    tenant: int = 0


_NO_LIMITS = StorageLimits()


class RecipientDirectory:
    """Finds inboxes by address; concurrent callers share one query."""

    def __init__(
        self,
        database: Database,
        *,
        default: str,
        draining: int,
        limits: StorageLimits = _NO_LIMITS,
        steady: Callable[[], float] = clock.steady,
    ) -> None:
        """Use this default domain; inboxes drain for so many milliseconds after their lifetime."""
        self._database = database
        self._default = default
        self._draining = draining
        self._limits = limits
        self._steady = steady
        #: each with the steady time until which it is valid
        self._cached: dict[str, tuple[_Lookup, float]] = {}
        self._waiting: dict[str, asyncio.Future[RecipientRoute]] = {}
        self._lookup_task: asyncio.Task[None] | None = None
        #: rises with every change in this process, so that an older answer is not cached
        self._changes = 0

    def find_cached(self, local: str, domain: str) -> RecipientRoute | None:
        """Return the cached route of an address; None: call ``find``."""
        try:
            cached = self._cached.get(address_key(local, domain))
        except AddressInvalid:
            return _UNKNOWN
        if cached is None or cached[1] <= self._steady() or not self._is_open(cached[0]):
            return None
        return cached[0].route

    async def find(self, local: str, domain: str) -> RecipientRoute:
        """Return the route of an address.

        Raises: StoreUnavailable.
        """
        route = self.find_cached(local, domain)
        if route is not None:
            return route
        lookup = self._lookup_soon(address_key(local, domain))
        return await before_deadline(asyncio.shield(lookup), self._database.deadline)

    def invalidate(self, inbox_id: str | None = None) -> None:
        """Forget an inbox, or all, after a change in this process."""
        self._changes += 1
        if inbox_id is None:
            self._cached.clear()
            return
        for address, (lookup, _) in list(self._cached.items()):
            if lookup.route.inbox_id == inbox_id:
                del self._cached[address]

    async def close(self) -> None:
        """Finish pending lookups."""
        if self._lookup_task is not None:
            await asyncio.gather(self._lookup_task, return_exceptions=True)

    def _is_open(self, found: _Lookup) -> bool:
        return found.open_until is None or self._database.clock() < found.open_until

    def _lookup_soon(self, address: str) -> asyncio.Future[RecipientRoute]:
        """Return a future of the route, shared by all callers for the same address."""
        future = self._waiting.get(address)
        if future is not None:
            return future
        if len(self._waiting) >= _MAX_WAITING:
            raise StoreUnavailable(
                "too many addresses wait for the database; try again in a moment"
            )
        future = self._waiting[address] = asyncio.get_running_loop().create_future()
        if self._lookup_task is None:
            self._lookup_task = asyncio.create_task(self._look_up_waiting())
        return future

    async def _look_up_waiting(self) -> None:
        try:
            while self._waiting:
                some = list(self._waiting)[:_MAX_BATCH]
                await self._look_up_batch({each: self._waiting.pop(each) for each in some})
        finally:
            # No await since the last check: the next caller starts a new task.
            self._lookup_task = None

    async def _look_up_batch(self, asked: dict[str, asyncio.Future[RecipientRoute]]) -> None:
        # The time counts from before the read: its result may be old when it arrives.
        changes, until = self._changes, self._steady() + ROUTE_CACHE_SECONDS
        try:
            found = await self._database.read(look_up, list(asked), self._draining, self._limits)
        except Exception as error:  # noqa: BLE001 - the callers get it, whatever it is
            _fail_waiters(asked.values(), error)
            return
        except BaseException:
            _fail_waiters(asked.values(), StoreUnavailable("the program is stopping; try again"))
            raise
        for address, future in asked.items():
            one = found.get(address)
            if one is not None and one.route.status not in _UNCACHED and self._is_open(one):
                self._cache(address, (one, until), changes)
            if not future.done():
                future.set_result(self._route_of(address, one))

    def _route_of(self, address: str, found: _Lookup | None) -> RecipientRoute:
        if found is not None:
            return found.route if self._is_open(found) else found.otherwise
        is_default = address.rpartition("@")[2] == self._default
        return _UNKNOWN if is_default else _NOT_OURS

    def _cache(self, address: str, lookup: tuple[_Lookup, float], changes: int) -> None:
        """Cache a lookup unless something changed meanwhile; evict the oldest."""
        if changes != self._changes:
            return
        self._cached.pop(address, None)
        while len(self._cached) >= _MAX_CACHED:
            del self._cached[next(iter(self._cached))]
        self._cached[address] = lookup


def look_up(
    tx: Transaction, addresses: Sequence[str], draining: int, limits: StorageLimits = _NO_LIMITS
) -> dict[str, _Lookup]:
    """Look up addresses; those of unknown domains are left out."""
    split = [(each, each.rpartition("@")[2]) for each in addresses]
    rows = tx.many(_sql.inboxes, split)
    found = {row[0]: _to_lookup(row, draining, limits, _CLOSED) for row in rows}
    rest = [(address, domain) for address, domain in split if address not in found]
    names = sorted({(domain,) for _, domain in rest})
    rows = tx.many(_sql.domains, names)
    ours = {row[0]: _to_lookup(row, draining, limits, _UNKNOWN) for row in rows}
    return found | {address: ours[domain] for address, domain in rest if domain in ours}


def _to_lookup(
    row: Row, draining: int, limits: StorageLimits, otherwise: RecipientRoute
) -> _Lookup:
    """Return the lookup of an inbox; a domain without a catch-all is like an ended inbox."""
    _, id_, tenant, state, active_until, due_at, stored, of_tenant, quota = row
    if id_ is None:
        return _Lookup(otherwise, 0, otherwise)
    until = accepts_until(InboxState(state), active_until, due_at, draining)
    storage = TenantStorage(tenant, of_tenant or 0, limits.tenant if quota is None else quota)
    if storage.is_full or 0 < limits.inbox <= stored:
        return _Lookup(RecipientRoute(RecipientStatus.FULL, tenant=tenant), until, otherwise)
    return _Lookup(RecipientRoute(RecipientStatus.OPEN, id_, tenant), until, otherwise)


def _fail_waiters(futures: Iterable[asyncio.Future[RecipientRoute]], error: Exception) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(error)
            future.exception()  # the caller may have gone meanwhile
