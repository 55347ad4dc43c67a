"""Outcomes: who waits for what becomes of a send, with one look for all of them.

What is settled in this process is told at once; what another one settles is seen by looking.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable

from oncebox.ledger.lookout import Lookout
from oncebox.ledger.sends import sends
from oncebox.ledger.sends.sends import SENDS, Place
from oncebox.model.send import ENDED, Send, SendState
from oncebox.store.database import Database
from oncebox.telemetry import Telemetry

#: seconds in which several rings are one look
_GATHER = 0.05


def is_over(send: Send) -> bool:
    """Say whether nothing more becomes of a send by waiting."""
    return send.state in ENDED or (send.state is SendState.UNKNOWN and send.again is None)


class Outcomes:
    """Keeps those waiting who want to know how sends end."""

    def __init__(self, database: Database, telemetry: Telemetry) -> None:
        """Begin empty; nothing is read before somebody waits."""
        self._database = database
        self._waiting: defaultdict[Place, set[asyncio.Future[Send]]] = defaultdict(set)
        self._lookout = Lookout(database, telemetry, SENDS, self._look, self._waiting)

    async def wait(self, send: Send, within: float) -> Send:
        """Return how a send ended, or how it stands after so many seconds."""
        if is_over(send) or within <= 0:
            return send
        place = (send.tenant, send.id)
        ended: asyncio.Future[Send] = asyncio.get_running_loop().create_future()
        self._waiting[place].add(ended)
        self._lookout.begin()
        try:
            async with asyncio.timeout(within):
                return await ended
        except TimeoutError:
            found = await self._database.read(sends.by_ids, [place])
            return found.get(place, send)
        finally:
            self._leave(place, ended)

    def tell(self, changed: Iterable[Send]) -> None:
        """Tell those who wait for these sends, where they are over."""
        for send in changed:
            if is_over(send):
                for waiting in self._waiting.get((send.tenant, send.id), ()):
                    if not waiting.done():
                        waiting.set_result(send)

    async def close(self) -> None:
        """Look no more."""
        await self._lookout.close()

    async def _look(self) -> None:
        await asyncio.sleep(_GATHER)
        self.tell(await self._database.read(sends.moved_on, [*self._waiting]))

    def _leave(self, place: Place, ended: asyncio.Future[Send]) -> None:
        waiting = self._waiting[place]
        waiting.discard(ended)
        if not waiting:
            del self._waiting[place]
