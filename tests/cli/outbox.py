"""Sends as workers leave them, for commands to look at."""

import asyncio

from oncebox.components import Components
from oncebox.ledger.sends import lifecycle
from oncebox.ledger.sends.lifecycle import SendClaimant
from oncebox.model.sends.send import Send, SendMarker, SendReport
from oncebox.model.sends.transports import SendOutcome, SendPhase, SendUnknown
from oncebox.settings_loading import load_settings
from oncebox.wiring import open_components

SILENCE = SendUnknown(code="no_answer", phase=SendPhase.HANDED_OVER)
_LEASE = 60_000


def tried(
    name: str = "relay", outcome: SendOutcome | None = SILENCE, *, wait: int | None = None
) -> Send:
    """Claim the send that is due by a transport, mark it, and say how it ended; None: not yet."""

    async def work() -> Send:
        rooms = await open_components(load_settings())
        try:
            return await _try(rooms, name, outcome, wait)
        finally:
            await rooms.close()

    return asyncio.run(work())


async def _try(rooms: Components, name: str, outcome: SendOutcome | None, wait: int | None) -> Send:
    ledger, tenant, now = rooms.ledger, rooms.settings.tenant, rooms.ledger.clock()
    claimant = SendClaimant(tenant, name, "ann:1", _LEASE)
    (claimed,) = await ledger.write(lifecycle.claim, claimant, 1, now)
    send = claimed.send
    if outcome is None:
        return send
    marker = SendMarker(tenant=tenant, id=send.id, fence=send.fence, until=now + _LEASE)
    assert await ledger.submit(lifecycle.mark_sending, marker)
    word = SendReport(
        tenant=tenant,
        id=send.id,
        fence=send.fence,
        outcome=outcome,
        transport=name,
        due_at=None if wait is None else now + wait,
    )
    settled = await ledger.submit(lifecycle.settle, word)
    assert settled is not None
    return settled.send
