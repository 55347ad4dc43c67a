"""The desk for sends: what callers and workers do with them, with commits shared by many."""

from collections.abc import Sequence

from oncebox import faults
from oncebox.ledger.events.outbox import EVENTS
from oncebox.ledger.sends import batches, intents, leases, settlements
from oncebox.ledger.sends.batches import IntendedBatch, NewBatch
from oncebox.ledger.sends.outcomes import Outcomes
from oncebox.ledger.sends.sends import SENDS
from oncebox.model.send import (
    ENDED,
    ClaimedSend,
    Intended,
    Marker,
    NewSend,
    Repeat,
    SendReply,
    SendState,
    SendWord,
    Settled,
)
from oncebox.model.transport import BreakerRules
from oncebox.store.database import Database, Transaction
from oncebox.store.group import Group
from oncebox.store.shared import SharedReading
from oncebox.telemetry import Telemetry

_RULES = BreakerRules()
_TOLD = ENDED | {SendState.UNKNOWN}


class SendDesk:
    """Takes intents, and lets workers claim, mark and settle; the time is the database's."""

    def __init__(
        self, database: Database, telemetry: Telemetry, *, rules: BreakerRules = _RULES
    ) -> None:
        """Serve any number of callers at the same time."""
        #: who waits for how sends end
        self.outcomes = Outcomes(database, telemetry)
        self._database = database
        self._rules = rules
        self._repeat = SharedReading(database, intents.repeat)
        self._intend = Group(
            database, self._intend_now, in_order=True, size=_size, committed=self._ring_for_intents
        )
        self._begin = Group(database, self._begin_now, in_order=True)
        self._renew = Group(database, self._renew_now)
        self._settle = Group(
            database, self._settle_now, in_order=True, committed=self._ring_for_words
        )

    async def intend(self, new: NewSend) -> SendReply:
        """Store an intent, or tell how it stands, or that it is not let in."""
        told = await self._intend.submit(new)
        faults.point("sends.intent_committed")
        return told

    async def repeat(self, asked: Repeat) -> Intended | None:
        """Tell how an intent stands that came before, and write nothing; None if it is new."""
        return await self._repeat.ask(asked)

    async def intend_batch(
        self, batch: NewBatch, new: Sequence[NewSend], *, strict: bool = False
    ) -> IntendedBatch:
        """Store a batch and its sends in one commit, or tell how they stand."""
        told = await self._database.write(batches.intend, batch, new, self.clock(), strict=strict)
        faults.point("sends.intent_committed")
        self._ring_for_intents(list(zip(new, told.answers, strict=False)))
        return told

    def clock(self) -> int:
        """Return the database's time."""
        return self._database.clock()

    def ring(self) -> None:
        """Wake the workers: something was stored in a commit that was not ours."""
        self._database.ring(SENDS)

    async def close(self) -> None:
        """Let nobody wait any more."""
        await self._repeat.close()
        await self.outcomes.close()

    async def claim(self, who: leases.SendClaimant, most: int) -> list[ClaimedSend]:
        """Lease due sends of one transport."""
        claimed = await self._database.write(leases.claim, who, most, self._database.clock())
        faults.point("sends.claimed")
        return claimed

    async def begin(self, marker: Marker) -> bool:
        """Commit that a send may be taken from here on; False: hand nothing over."""
        marked = await self._begin.submit(marker)
        faults.point("sends.marker_committed")
        return marked

    async def renew(self, marker: Marker) -> bool:
        """Keep a send for longer; say whether it is still held."""
        return await self._renew.submit(marker)

    async def settle(self, word: SendWord) -> Settled | None:
        """Record how a try ended; None where there is no such send."""
        settled = await self._settle.submit(word)
        faults.point("sends.result_committed")
        return settled

    def _intend_now(self, tx: Transaction, new: Sequence[NewSend]) -> list[SendReply]:
        return intents.intend(tx, new, self._database.clock())

    def _begin_now(self, tx: Transaction, markers: Sequence[Marker]) -> list[bool]:
        # The clock is asked as late as can be: a marker that had to wait may be too late.
        return leases.begin(tx, markers, self._database.clock())

    def _renew_now(self, tx: Transaction, markers: Sequence[Marker]) -> list[bool]:
        return leases.renew(tx, markers)

    def _settle_now(self, tx: Transaction, words: Sequence[SendWord]) -> list[Settled | None]:
        return settlements.settle(tx, words, self._database.clock(), self._rules)

    def _ring_for_intents(self, pairs: Sequence[tuple[NewSend, SendReply]]) -> None:
        if any(intents.is_waiting(told) for _, told in pairs):
            self._database.ring(SENDS)
        stand = [told.send for _, told in pairs if isinstance(told, Intended)]
        if any(send.state is SendState.SUPPRESSED for send in stand):
            self._database.ring(EVENTS)

    def _ring_for_words(self, pairs: Sequence[tuple[SendWord, Settled | None]]) -> None:
        counted = [settled.send for _, settled in pairs if settled and settled.counted]
        if counted:
            self._database.ring(SENDS)
        if any(send.state in _TOLD for send in counted):
            self._database.ring(EVENTS)
        self.outcomes.tell(counted)


def _size(new: NewSend) -> int:
    return new.size
