"""EventBroadcast: one reader per process serves every follower of an event stream.

It reads new events once and keeps the last of them. A follower that keeps up is served from
these; a slow one reads the ledger from its own position, so that it costs no memory.
"""

import asyncio
import sys
from collections import Counter, deque
from dataclasses import dataclass, field

from oncebox.core.metrics import Telemetry
from oncebox.db.database import Database
from oncebox.db.notify import Poller
from oncebox.errors.http import KeyLimitReached
from oncebox.ledger.events import event_log
from oncebox.ledger.notifications import STREAM
from oncebox.model.events import Event, EventBatch, EventFilter

#: events of one tenant per read, and kept in memory
_READ_AT_ONCE, _KEPT = 500, 1_000


@dataclass(slots=True)
class _TenantStream:
    """The last events of a tenant, and its followers."""

    #: the last number that was read
    last: int
    #: the events up to there, as far as they are kept
    fresh: deque[Event] = field(default_factory=lambda: deque(maxlen=_KEPT))
    followers: "set[EventFollower]" = field(default_factory=set)

    def after(self, number: int) -> list[Event] | None:
        """Return the events after a number; None if some of them are not kept."""
        if number >= self.last:
            return []
        missing = self.last - number
        if missing > len(self.fresh):
            return None
        return [self.fresh[-place] for place in range(missing, 0, -1)]

    def add(self, part: EventBatch) -> None:
        """Add the events of a read, and wake the followers."""
        self.fresh.extend(part.events)
        self.last = part.up_to
        for each in self.followers:
            each.wake()


class EventBroadcast:
    """Reads the streams that are followed, and wakes their followers."""

    def __init__(self, database: Database, telemetry: Telemetry) -> None:
        """Read nothing before there is a follower."""
        self._database = database
        self._streams: dict[str, _TenantStream] = {}
        #: followers by API key
        self._per_key: Counter[str] = Counter()
        self._poller = Poller(database, telemetry, STREAM, self._poll, self._streams)
        telemetry.event_streams.set_function(lambda: self.followers)

    @property
    def followers(self) -> int:
        """The number of followers."""
        return sum(len(channel.followers) for channel in self._streams.values())

    async def follow(
        self, wanted: EventFilter, after: int, *, key: str = "", per_key: int = sys.maxsize
    ) -> "EventFollower":
        """Return a follower that begins after a number; call its ``leave`` in the end.

        It counts towards the limit of an API key.

        Raises: KeyLimitReached, StoreError.
        """
        found = await self._database.read(event_log.bounds, wanted.tenant)
        if self._per_key[key] >= per_key:
            raise KeyLimitReached(
                f"this key has {per_key} open event streams; close some, share one among several "
                "readers, or raise the setting events.streams_per_key",
                retry_after=5.0,
            )
        self._per_key[key] += 1
        channel = self._streams.setdefault(wanted.tenant, _TenantStream(found.last))
        follower = EventFollower(self, self._database, channel, wanted, after, key)
        channel.followers.add(follower)
        self._poller.start()
        return follower

    def leave(self, follower: "EventFollower") -> None:
        """Remove a follower; with the last one of a tenant, drop its events."""
        tenant = follower.wanted.tenant
        channel = self._streams.get(tenant)
        if channel is not None and follower in channel.followers:
            channel.followers.remove(follower)
            self._per_key[follower.key] -= 1
            if not self._per_key[follower.key]:
                del self._per_key[follower.key]
            if not channel.followers:
                del self._streams[tenant]

    async def close(self) -> None:
        """Stop reading."""
        await self._poller.close()

    async def _poll(self) -> None:
        seen = [(tenant, channel.last) for tenant, channel in self._streams.items()]
        moved = await self._database.read(event_log.advanced, seen)
        for tenant, last in moved.items():
            await self._read_on(tenant, last)

    async def _read_on(self, tenant: str, last: int) -> None:
        """Read a stream up to a number; if that is far, its followers read for themselves."""
        channel = self._streams.get(tenant)
        if channel is None:
            return
        begin = max(channel.last, last - _KEPT)
        if begin > channel.last:
            channel.fresh.clear()
            channel.last = begin
        while channel.last < last:
            wanted = EventFilter(tenant=tenant)
            channel.add(
                await self._database.read(event_log.read, wanted, channel.last, _READ_AT_ONCE)
            )


class EventFollower:
    """A follower of a stream, at its own pace."""

    def __init__(
        self,
        broadcast: EventBroadcast,
        database: Database,
        channel: _TenantStream,
        wanted: EventFilter,
        after: int,
        key: str = "",
    ) -> None:
        self.wanted = wanted
        self.key = key
        #: everything wanted up to here was returned
        self.position = after
        self._broadcast = broadcast
        self._database = database
        self._stream = channel
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """End its wait."""
        self._woken.set()

    async def wait(self, within: float) -> None:
        """Wait for new events or ``wake``, at most so many seconds."""
        if self._stream.last > self.position:
            return
        try:
            async with asyncio.timeout(within):
                await self._woken.wait()
        except TimeoutError:
            return

    async def next(self, most: int) -> tuple[Event, ...]:
        """Return the next wanted events, at most ``most``.

        No events does not mean that there are no more: ``position`` says how far it has read.

        Raises: CursorTooOld, StoreError.
        """
        self._woken.clear()
        fresh = self._stream.after(self.position)
        if fresh is None:
            part = await self._database.read(event_log.read, self.wanted, self.position, most)
            self.position = part.up_to
            return part.events
        looked_at = fresh[:most]
        if looked_at:
            self.position = looked_at[-1].number
        return tuple(event for event in looked_at if self.wanted.matches(event))

    def leave(self) -> None:
        """Stop following."""
        self._broadcast.leave(self)
