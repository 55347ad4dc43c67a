"""The lobby: where all who wait for mail sit, with one look per wake for all of them.

Whoever comes in is first entered here and looks at the ledger then, so that nothing falls
between the look and the rest. What is looked at together is read together.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable

from oncebox.config import WaitSettings
from oncebox.ledger.inboxes import marks
from oncebox.ledger.inboxes.looks import Looks
from oncebox.ledger.inboxes.marks import Mark, Named
from oncebox.ledger.inboxes.messages import MESSAGES
from oncebox.ledger.lookout import Lookout
from oncebox.ledger.vault import Vault
from oncebox.refusals import TooManyRequests
from oncebox.store.database import Database
from oncebox.telemetry import Telemetry

#: seconds after which somebody who found no seat may ask again
_COME_BACK = 5.0


class _Channel:
    """One inbox, how far it was when last looked at, and who waits for it."""

    __slots__ = ("mark", "visitors")

    def __init__(self) -> None:
        self.mark: Mark | None = None
        self.visitors: set[Visitor] = set()


class Lobby:
    """Looks at the inboxes that are waited for, and wakes those whose inbox has moved."""

    def __init__(
        self, database: Database, vault: Vault, telemetry: Telemetry, settings: WaitSettings
    ) -> None:
        """Begin empty; nothing is read before somebody waits."""
        #: what is there for those who wait
        self.looks = Looks(database, vault)
        self._database = database
        self._settings = settings
        self._channels: dict[Named, _Channel] = {}
        self._seats: Counter[str] = Counter()
        self._lookout = Lookout(database, telemetry, MESSAGES, self._look, self._channels)
        telemetry.waits_open.set_function(lambda: self.visitors)

    @property
    def visitors(self) -> int:
        """How many wait."""
        return self._seats.total()

    def enter(self, tenant: str, inboxes: Iterable[str], key: str) -> "Visitor":
        """Return a visitor for some inboxes, who leaves in the end; ``key`` is whose wait it is.

        Raises: TooManyRequests.
        """
        if self._seats[key] >= self._settings.per_key or self.visitors >= self._settings.most:
            message = "as many waits as are allowed are open; end some, or come back in a while"
            raise TooManyRequests(message, retry_after=_COME_BACK)
        visitor = Visitor(self, key, {(id_, tenant) for id_ in inboxes})
        self._seats[key] += 1
        for each in visitor.inboxes:
            self._channels.setdefault(each, _Channel()).visitors.add(visitor)
        self._lookout.begin()
        return visitor

    def leave(self, visitor: "Visitor") -> None:
        """Let a visitor go, and with the last of an inbox what is known of it."""
        for each in visitor.inboxes:
            channel = self._channels[each]
            channel.visitors.discard(visitor)
            if not channel.visitors:
                del self._channels[each]
        self._seats[visitor.key] -= 1
        if not self._seats[visitor.key]:
            del self._seats[visitor.key]

    def mark(self, inbox: Named) -> Mark | None:
        """Return how far an inbox was when it was last looked at; None if it never was."""
        return self._channels[inbox].mark

    async def close(self) -> None:
        """Look no more."""
        await self.looks.close()
        await self._lookout.close()

    async def _look(self) -> None:
        found = await self._database.read(marks.read, list(self._channels))
        for inbox, mark in found.items():
            channel = self._channels.get(inbox)
            if channel is None or not _is_beyond(mark, channel.mark):
                continue
            channel.mark = mark
            for each in channel.visitors:
                each.wake()


class Visitor:
    """One who waits."""

    def __init__(self, lobby: Lobby, key: str, inboxes: set[Named]) -> None:
        """Wait for these inboxes; nothing of them was seen yet."""
        self.key = key
        self.inboxes = inboxes
        self._lobby = lobby
        self._seen: dict[Named, Mark | None] = {}
        self._woken = asyncio.Event()
        self._called = False

    def look_begins(self) -> None:
        """Remember what is known of the inboxes: the look that begins now sees that, or more."""
        self._seen = {each: self._lobby.mark(each) for each in self.inboxes}

    def wake(self) -> None:
        """Let it see for itself whether it has waited for this."""
        self._woken.set()

    def call(self) -> None:
        """End its rest for good, whatever has moved."""
        self._called = True
        self._woken.set()

    async def rest(self, within: float) -> bool:
        """Rest until an inbox has moved since the look began; say whether one has."""
        try:
            async with asyncio.timeout(within):
                while not self._called and not self._has_moved():
                    self._woken.clear()
                    await self._woken.wait()
        except TimeoutError:
            return False
        return not self._called

    def leave(self) -> None:
        """Wait no more."""
        self._lobby.leave(self)

    def _has_moved(self) -> bool:
        return any(_is_beyond(self._lobby.mark(each), seen) for each, seen in self._seen.items())


def _is_beyond(mark: Mark | None, seen: Mark | None) -> bool:
    return mark is not None and (seen is None or mark.is_beyond(seen))
