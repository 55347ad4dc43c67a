"""The directory: where mail for an address goes, remembered for a moment.

Only open inboxes are remembered, and for two seconds, so that a new inbox is found at once and a
closed one everywhere within that time. When an inbox ends by itself, the clock says so.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from oncebox import clock
from oncebox.errors import StoreUnavailable
from oncebox.mail_errors import AddressInvalid
from oncebox.model.inbox import InboxState, address_key, open_until
from oncebox.store.database import Database, Row, Transaction
from oncebox.store.queries import load

_sql = load(__package__, "directory.sql")

#: seconds after which a change is seen by every process
SEEN_WITHIN = 2.0
#: how many addresses are remembered, and how many are asked for at once
_MOST, _MOST_AT_ONCE = 10_000, 500
#: how many may wait for the database
_MOST_WAITING = 10_000


class Standing(StrEnum):
    """Whether mail for an address is taken."""

    #: it is
    OPEN = "open"
    #: the domain is ours, and no inbox has the address
    UNKNOWN = "unknown"
    #: the inbox has ended
    CLOSED = "closed"
    #: mail for this domain is not ours
    NOT_OURS = "not_ours"


class Place(msgspec.Struct, frozen=True):
    """Where mail for an address goes."""

    standing: Standing
    inbox_id: str = ""
    tenant: str = ""


_UNKNOWN = Place(Standing.UNKNOWN)
_CLOSED = Place(Standing.CLOSED)
_NOT_OURS = Place(Standing.NOT_OURS)


@dataclass(frozen=True, slots=True)
class _Found:
    """What the database knows of an address."""

    place: Place
    #: milliseconds since 1970; None is for ever
    open_until: int | None
    #: what holds afterwards
    otherwise: Place


@dataclass(frozen=True, slots=True)
class _Held:
    """What the database said, and until when that is believed."""

    found: _Found
    until: float


class Directory:
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
        self._held: dict[str, _Held] = {}
        self._waiting: dict[str, asyncio.Future[Place]] = {}
        self._asking: asyncio.Task[None] | None = None
        #: rises with every change in this process, so that an answer from before is not kept
        self._changes = 0

    def glance(self, local: str, domain: str) -> Place | None:
        """Return where mail goes, if that is remembered; None: ask."""
        try:
            return self._remembered(address_key(local, domain))
        except AddressInvalid:
            return _UNKNOWN

    async def find(self, local: str, domain: str) -> Place:
        """Return where mail for an address goes.

        Raises: StoreUnavailable.
        """
        try:
            address = address_key(local, domain)
        except AddressInvalid:
            return _UNKNOWN
        place = self._remembered(address)
        return await asyncio.shield(self._asked(address)) if place is None else place

    def forget(self, inbox_id: str | None = None) -> None:
        """Ask the database anew about an inbox, or about all, as after a change in this process."""
        self._changes += 1
        if inbox_id is None:
            self._held.clear()
            return
        for address in [
            address for address, held in self._held.items() if held.found.place.inbox_id == inbox_id
        ]:
            del self._held[address]

    async def close(self) -> None:
        """Finish what was begun."""
        if self._asking is not None:
            await asyncio.gather(self._asking, return_exceptions=True)

    def _remembered(self, address: str) -> Place | None:
        held = self._held.get(address)
        if held is None or held.until <= self._steady() or not self._is_open(held.found):
            return None
        return held.found.place

    def _is_open(self, found: _Found) -> bool:
        return found.open_until is None or self._database.clock() < found.open_until

    def _asked(self, address: str) -> asyncio.Future[Place]:
        """Return what will be found; whoever asks for the same shares it."""
        future = self._waiting.get(address)
        if future is not None:
            return future
        if len(self._waiting) >= _MOST_WAITING:
            message = "too many addresses wait for the database; try again in a moment"
            raise StoreUnavailable(message)
        future = self._waiting[address] = asyncio.get_running_loop().create_future()
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask())
        return future

    async def _ask(self) -> None:
        """Ask for all who wait, again and again until nobody does."""
        try:
            while self._waiting:
                some = list(self._waiting)[:_MOST_AT_ONCE]
                await self._answer({each: self._waiting.pop(each) for each in some})
        finally:
            # No await since the last look: whoever comes now begins anew.
            self._asking = None

    async def _answer(self, asked: dict[str, asyncio.Future[Place]]) -> None:
        # The time counts from before the look: what is read may be old when it arrives.
        changes, until = self._changes, self._steady() + SEEN_WITHIN
        try:
            found = await self._database.read(look, list(asked), self._draining)
        except Exception as error:  # noqa: BLE001 - whatever it is, the callers must hear of it
            _fail(asked.values(), error)
            return
        except BaseException:
            _fail(asked.values(), StoreUnavailable("the program is stopping; try again"))
            raise
        for address, future in asked.items():
            one = found.get(address)
            if one is not None and self._is_open(one):
                self._remember(address, _Held(one, until), changes)
            if not future.done():
                future.set_result(self._judged(address, one))

    def _judged(self, address: str, found: _Found | None) -> Place:
        if found is not None:
            return found.place if self._is_open(found) else found.otherwise
        is_default = address.rpartition("@")[2] == self._default
        return _UNKNOWN if is_default else _NOT_OURS

    def _remember(self, address: str, held: _Held, changes: int) -> None:
        """Keep an answer unless something changed meanwhile; where there are too many, one goes."""
        if changes != self._changes:
            return
        self._held.pop(address, None)
        while len(self._held) >= _MOST:
            del self._held[next(iter(self._held))]
        self._held[address] = held


def look(tx: Transaction, addresses: Sequence[str], draining: int) -> dict[str, _Found]:
    """Look addresses up; what is missing in the answer is of a domain that nobody has."""
    split = [(each, each.rpartition("@")[2]) for each in addresses]
    rows = tx.many(_sql.inboxes, split)
    found = {row[0]: _found(row, draining, _CLOSED) for row in rows}
    rest = [(address, domain) for address, domain in split if address not in found]
    names = sorted({(domain,) for _, domain in rest})
    ours = {row[0]: _found(row, draining, _UNKNOWN) for row in tx.many(_sql.domains, names)}
    return found | {address: ours[domain] for address, domain in rest if domain in ours}


def _found(row: Row, draining: int, otherwise: Place) -> _Found:
    """Read an inbox; a domain without one for the rest is like one whose inbox has ended."""
    _, id_, tenant, state, active_until, due_at = row
    if id_ is None:
        return _Found(otherwise, 0, otherwise)
    until = open_until(InboxState(state), active_until, due_at, draining)
    return _Found(Place(Standing.OPEN, id_, tenant), until, otherwise)


def _fail(futures: Iterable[asyncio.Future[Place]], error: Exception) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(error)
            future.exception()  # whoever asked may have gone meanwhile
