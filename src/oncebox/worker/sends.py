"""Sends: claimed by their ways, handed over, and settled by what became of them, of all tenants."""

import asyncio
from collections.abc import Callable

import msgspec

from oncebox import clock
from oncebox.config import SendSettings, WorkerSettings
from oncebox.errors import DatabaseClosed, StoreUnavailable
from oncebox.ledger.sends.desk import SendDesk
from oncebox.ledger.sends.leases import SendClaimant
from oncebox.ledger.sends.outbox import Outbox
from oncebox.ledger.sends.rounds import Rounds
from oncebox.ledger.sends.strongbox import SendBox
from oncebox.model.outcome import Accepted, NotSent, Outcome
from oncebox.model.send import ENDED, OnUnknown, Send, SendState, SendWord, Settled
from oncebox.model.transport import LOG, Transport, strains
from oncebox.telemetry import Telemetry
from oncebox.worker.patience import patiently
from oncebox.worker.sends_handover import HandOver
from oncebox.worker.sends_next import Moment, SendRules, after
from oncebox.worker.sends_underway import Try, UnderWay
from oncebox.worker.sends_ways import Ways

#: seconds between two looks while nothing waits, however often it rings
_LOOK_EVERY = 0.02
#: seconds between two counts of what is in doubt
_COUNT_EVERY = 10.0
_TOLD = frozenset({SendState.FAILED, SendState.UNKNOWN})


class SendWorker:
    """Claims what is due by each way, hands it over and settles it, many at a time."""

    def __init__(  # noqa: PLR0913 - it stands between this many rooms
        self,
        desk: SendDesk,
        rounds: Rounds,
        outbox: Outbox,
        sendbox: SendBox,
        telemetry: Telemetry,
        *,
        name: str,
        settings: SendSettings,
        worker: WorkerSettings,
        random: Callable[[], float],
        ways: Ways | None = None,
    ) -> None:
        """Prepare; nothing is claimed before ``run``."""
        self._desk = desk
        self._rounds = rounds
        self._telemetry = telemetry
        self._name = name
        self._random = random
        self._poll, self._stop_within = worker.poll, worker.stop_within
        self._lease = settings.lease
        self._rules = SendRules(
            tries=settings.tries,
            first_wait=int(settings.first_wait * 1000),
            longest_wait=int(settings.longest_wait * 1000),
        )
        self._ways = ways or Ways(sendbox)
        self._under_way = UnderWay(
            desk,
            telemetry,
            rounds.clock,
            lease=settings.lease,
            concurrency=settings.concurrency,
        )
        self._hand_over = HandOver(
            desk,
            outbox,
            self._ways,
            telemetry,
            now=rounds.clock,
            secret=sendbox.provider_keys,
            lease=self._under_way.lease,
            within=settings.hand_over_within,
        )
        self._ear = rounds.ear()
        self._stopping = asyncio.Event()
        self._sweep_at = self._count_at = self._look_at = 0.0
        self._turn = 0

    async def run(self) -> None:
        """Work until ``stop``; then finish what is under way, or give it back."""
        keeping = asyncio.create_task(self._under_way.keep_leases())
        try:
            while not self._stopping.is_set():
                await self._round()
            await self._finish_or_give_back()
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
            await self._ways.close()

    def stop(self) -> None:
        """Ask the loop to end."""
        self._stopping.set()
        self._rounds.ring()

    async def _round(self) -> None:
        try:
            await self._sweep_when_due()
            if not await self._claim_and_start():
                await self._ear.wait(self._poll)
        except StoreUnavailable as error:
            self._telemetry.store_errors.labels(error.code).inc()
            await asyncio.sleep(min(0.5, self._poll))
        except Exception:
            self._telemetry.log.exception("send_worker_stumbled")
            await asyncio.sleep(self._poll)

    async def _sweep_when_due(self) -> None:
        """Now and then look for sends whose worker was lost, or whose time is over."""
        now = clock.steady()
        if now >= self._sweep_at:
            self._sweep_at = now + min(self._poll, self._lease / 4)
            swept = await self._rounds.sweep(self._rules.tries)
            if swept.doubtful:
                self._telemetry.sends.labels(SendState.UNKNOWN).inc(swept.doubtful)
                self._telemetry.log.warning("sends_in_doubt", sends=swept.doubtful)
            if swept.expired:
                self._telemetry.sends.labels(SendState.EXPIRED).inc(swept.expired)
        if now >= self._count_at:
            self._count_at = now + _COUNT_EVERY
            self._telemetry.unknown_sends.set(await self._rounds.doubtful())

    # claim

    async def _claim_and_start(self) -> bool:
        """Start what is due, as far as there is room; say whether there was anything."""
        if not await self._under_way.has_room(self._poll):
            return True  # look at the clock and the stop sign, then wait on
        if (wait := self._look_at - clock.steady()) > 0:
            await asyncio.sleep(wait)
        ways = await self._rounds.waited_for()
        begun = 0
        for row in self._in_turn(ways):
            begun += await self._claim_by(row)
        if not begun:
            self._look_at = clock.steady() + _LOOK_EVERY
        return bool(begun)

    def _in_turn(self, ways: list[Transport]) -> list[Transport]:
        """Let another way be first every time."""
        self._turn += 1
        first = self._turn % len(ways) if ways else 0
        return [*ways[first:], *ways[:first]]

    async def _claim_by(self, row: Transport) -> int:
        most = self._under_way.room_by((row.tenant, row.name))
        if not most or self._stopping.is_set():
            return 0
        who = SendClaimant(row.tenant, row.name, self._name, self._under_way.lease)
        claimed = await self._desk.claim(who, most)
        for each in claimed:
            self._under_way.start(each, lambda one: self._see_through(one, row))
        return len(claimed)

    # hand over, settle

    async def _see_through(self, one: Try, row: Transport) -> None:
        """Hand one send over, and write down what became of it."""
        try:
            outcome = await self._hand_over.run(one, row)
        finally:
            one.over = True
        try:
            word = await self._word(one, row, outcome)
            settled = await patiently(lambda: self._desk.settle(word))
        except DatabaseClosed:
            return  # the program ends; the lease runs out, and the sweep finds it
        except Exception:
            # Whatever it is: the lease runs out, and the sweep says how the send stands.
            self._telemetry.log.exception("send_not_settled", send=one.send.id)
            return
        self._count(one, row, outcome, settled)

    async def _word(self, one: Try, row: Transport, outcome: Outcome) -> SendWord:
        ways: list[Transport] = []
        if isinstance(outcome, NotSent) and strains(outcome):
            ways = await patiently(lambda: self._rounds.transports(row.tenant))
        moment = Moment(now=self._rounds.clock(), random=self._random, ways=ways)
        word = after(one.send, outcome, self._rules, moment)
        return msgspec.structs.replace(word, logged=row.kind == LOG)

    def _count(self, one: Try, row: Transport, outcome: Outcome, settled: Settled | None) -> None:
        if settled is None or not (settled.counted or _ended_at_marker(one.send, settled.send)):
            self._telemetry.lease_conflicts.inc()
            return
        state = settled.send.state
        self._telemetry.sends.labels(state).inc()
        if isinstance(outcome, Accepted) and one.send.again is OnUnknown.REPLAY:
            self._telemetry.provider_dedupe.labels(row.kind).inc()
        if state in _TOLD:
            code = settled.send.code
            self._telemetry.log.warning("send_stands", send=one.send.id, state=state, code=code)

    async def _finish_or_give_back(self) -> None:
        """Let hand-overs finish for a while, then give back what was not marked."""
        if not await self._under_way.none_left(self._stop_within):
            self._under_way.stop_all()
            await self._under_way.none_left(self._lease)


def _ended_at_marker(ours: Send, found: Send) -> bool:
    """Say whether the marker ended a send that was still ours: suppressed, or too late."""
    return found.fence == ours.fence and found.state in ENDED
