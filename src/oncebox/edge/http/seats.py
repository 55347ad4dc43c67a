"""Seats in the lobby: calls that wait until mail comes, the time is up, or either side goes."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from oncebox import clock
from oncebox.edge.http.call import Call
from oncebox.ledger.inboxes.lobby import Visitor


class Seat:
    """One call that waits."""

    def __init__(self, visitor: Visitor, seconds: float) -> None:
        """Wait for so many seconds from now, at most."""
        self._visitor = visitor
        self._until = clock.steady() + seconds

    def look_begins(self) -> None:
        """Say that the ledger is looked at now: whatever moves from here on ends the next rest."""
        self._visitor.look_begins()

    async def rest(self) -> bool:
        """Rest until another look is worth it; False if no more is: the wait is over."""
        left = self._until - clock.steady()
        return left > 0 and await self._visitor.rest(left)


@asynccontextmanager
async def seated(call: Call, inboxes: Iterable[str], seconds: float) -> AsyncIterator[Seat]:
    """Sit in the lobby for some inboxes; the client's going and the service's end the wait.

    Raises: TooManyRequests.
    """
    visitor = call.rooms.lobby.enter(call.tenant, inboxes, call.key.id)
    ending = [asyncio.ensure_future(each) for each in (call.left(), call.stopping.wait())]
    for each in ending:
        each.add_done_callback(lambda _: visitor.call())
    try:
        yield Seat(visitor, seconds)
    finally:
        visitor.leave()
        for each in ending:
            each.cancel()
