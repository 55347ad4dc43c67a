"""Sends as workers leave them, for commands to look at."""

import asyncio

from oncebox import config
from oncebox.assembly import Rooms, open_rooms
from oncebox.ledger.sends.leases import SendClaimant
from oncebox.model.outcome import Outcome, Phase, Unknown
from oncebox.model.send import Marker, Send, SendWord

SILENCE = Unknown(code="no_answer", phase=Phase.HANDED_OVER)
_LEASE = 60_000


def tried(
    name: str = "relay", outcome: Outcome | None = SILENCE, *, wait: int | None = None
) -> Send:
    """Claim the send that is due by a transport, mark it, and say how it ended; None: not yet."""

    async def work() -> Send:
        rooms = await open_rooms(config.load())
        try:
            return await _try(rooms, name, outcome, wait)
        finally:
            await rooms.close()

    return asyncio.run(work())


async def _try(rooms: Rooms, name: str, outcome: Outcome | None, wait: int | None) -> Send:
    desk, tenant = rooms.sends, rooms.settings.tenant
    (claimed,) = await desk.claim(SendClaimant(tenant, name, "ann:1", _LEASE), 1)
    send, now = claimed.send, rooms.database.clock()
    if outcome is None:
        return send
    marker = Marker(tenant=tenant, id=send.id, fence=send.fence, until=now + _LEASE)
    assert await desk.begin(marker)
    word = SendWord(
        tenant=tenant,
        id=send.id,
        fence=send.fence,
        outcome=outcome,
        transport=name,
        due_at=None if wait is None else now + wait,
    )
    settled = await desk.settle(word)
    assert settled is not None
    return settled.send
