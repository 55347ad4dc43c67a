"""Fail open: mail that is sent although the ledger cannot be written, where that was chosen.

Nobody can look up then whether a mail was sent before, who gets none, or what others have sent.
So this sends a key once in this process and its spool, never what the ledger is known to have,
and writes everything down on this machine, before and after; when the ledger is back, it is told.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from oncebox import clock
from oncebox.errors import OnceboxError, StoreError, StoreUnavailable
from oncebox.ledger.sends import guards
from oncebox.ledger.sends.outbox import Outbox
from oncebox.ledger.sends.rounds import Rounds
from oncebox.model import intent
from oncebox.model.guards import BUDGET_SPAN
from oncebox.model.outcome import Accepted, NotSent, Outcome, Phase, Rejected, Unknown
from oncebox.model.send import (
    Answer,
    ClaimedSend,
    Intended,
    NewSend,
    Repeat,
    SendState,
    TurnedDown,
    answer,
)
from oncebox.model.spooled import Begun, Ended, Marked, Spooled, as_send
from oncebox.model.transport import LOG, BreakerRules, strains
from oncebox.model.transport import Transport as Row
from oncebox.telemetry import Telemetry
from oncebox.transport.email.parcel import Parcel
from oncebox.worker.sends_ways import Ways
from oncebox.worker.spool import Spool, SpoolUnusable

#: seconds between two looks whether the ledger is back
_EVERY = 5.0
#: keys that are remembered to be in the ledger
_MOST_KEYS = 100_000
#: mails that may be sent before the ledger must be told
_MOST_SENT = 10_000

_Key = tuple[str, bytes]


@dataclass(slots=True, eq=False)
class _Entry:
    """A mail that is sent past the ledger."""

    new: NewSend
    at: int
    task: asyncio.Task[Outcome] | None = None
    #: its first step is in the spool
    begun: bool = False
    outcome: Outcome | None = None


class _Breaker:
    """Lets the ways rest after failures; in this process alone."""

    def __init__(self, rules: BreakerRules) -> None:
        self._rules = rules
        self._failures = 0
        self._rests_until = 0.0

    def is_open(self) -> bool:
        return clock.steady() < self._rests_until

    def hear(self, outcome: Outcome) -> None:
        if not strains(outcome):
            self._failures = 0
            return
        self._failures += 1
        broken = isinstance(outcome, NotSent) and outcome.opens_circuit
        if broken or self._failures >= self._rules.failures:
            self._rests_until = clock.steady() + self._rules.first_rest / 1000


class FailOpen:
    """Sends past the ledger, once for each key, and tells the ledger when it is back."""

    def __init__(  # noqa: PLR0913 - it stands between this many rooms
        self,
        spool: Spool,
        rounds: Rounds,
        outbox: Outbox,
        ways: Ways,
        telemetry: Telemetry,
        *,
        secret: bytes,
        within: float,
        rules: BreakerRules | None = None,
    ) -> None:
        """Hand over within so many seconds; ``secret`` makes the keys that providers are given."""
        self._spool = spool
        self._rounds = rounds
        self._outbox = outbox
        self._ways = ways
        self._telemetry = telemetry
        self._secret = secret
        self._within = within
        self._breaker = _Breaker(rules or BreakerRules())
        #: the ways of all tenants as they were when the ledger could be read last
        self._rows: dict[str, list[Row]] = {}
        self._entries: dict[_Key, _Entry] = {}
        self._in_ledger: dict[_Key, None] = {}
        #: whether it was tried to have the spool
        self._looked = False
        #: whoever writes to the spool, or empties it
        self._writing = asyncio.Lock()

    async def run(self) -> None:
        """Look again and again whether the ledger is back, until cancelled."""
        while True:
            try:
                await self.look()
            except StoreError as error:
                self._telemetry.store_errors.labels(error.code).inc()
            except Exception:
                self._telemetry.log.exception("fail_open_stumbled")
            await asyncio.sleep(_EVERY)

    async def look(self) -> int:
        """Learn which ways there are, and tell the ledger what was sent past it; return how much.

        Raises: StoreError, if the ledger is away.
        """
        found: dict[str, list[Row]] = {}
        for row in await self._rounds.every_way():
            found.setdefault(row.tenant, []).append(row)
        self._rows = found
        return await self._merge()

    async def close(self) -> None:
        """Send nothing more; what was not told is told by who has the spool next."""
        running = [each.task for each in self._entries.values() if each.task is not None]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self._ways.close()
        self._spool.close()

    # what the outbox says

    def remember(self, tenant: str, key: bytes) -> None:
        """Remember that the ledger has a key, or may have it: it will send that itself."""
        self._in_ledger.pop((tenant, key), None)
        self._in_ledger[tenant, key] = None
        if len(self._in_ledger) > _MOST_KEYS:
            del self._in_ledger[next(iter(self._in_ledger))]

    def has(self, tenant: str, key: bytes) -> bool:
        """Say whether a mail goes, or went, past the ledger and is not on record yet."""
        return (tenant, key) in self._entries

    async def told(self, asked: Repeat) -> Intended | None:
        """Tell of a mail that went past the ledger and is not on record yet; None: it did not."""
        if not self._looked:
            await self._have_spool()
        entry = self._entries.get((asked.tenant, asked.key))
        outcome = None if entry is None else await _ended(entry)
        if entry is None or outcome is None or isinstance(outcome, NotSent):
            return None
        return _told(entry, outcome, asked, repeated=True)

    async def send(self, new: NewSend, error: StoreUnavailable) -> Intended:
        """Send a mail past the ledger, or tell what became of it before.

        Raises: the error that it is given, where this may not be; SendCoolingDown, SendBudgetSpent.
        """
        key = (new.tenant, new.key)
        await self._ready(error)
        entry, repeated = self._entries.get(key), True
        if entry is None:
            row = self._way_for(new, error)
            entry, repeated = _Entry(_named(new, row), self._rounds.clock()), False
            self._turn_down(new, entry.at)
            self._entries[key] = entry
            entry.task = asyncio.create_task(self._see_through(entry, row))
        outcome = await _ended(entry)
        if outcome is None or isinstance(outcome, NotSent):
            raise error
        return _told(entry, outcome, new, repeated=repeated)

    async def _ready(self, error: StoreUnavailable) -> None:
        """Have the spool, so that what an earlier process has sent is known."""
        if not await self._have_spool():
            self._telemetry.log.warning("fail_open_spool_unusable")
            raise error

    async def _have_spool(self) -> bool:
        async with self._writing:
            return await self._open_spool()

    async def _open_spool(self) -> bool:
        """Say whether this process has the spool; what was left in it is known then."""
        self._looked = True
        try:
            self._adopt(await asyncio.to_thread(self._spool.open))
        except SpoolUnusable:
            return False
        return True

    def _way_for(self, new: NewSend, error: StoreUnavailable) -> Row:
        """Return the way that the ledger would choose; only what can go at once may go by it."""
        rows = self._rows.get(new.tenant, ())
        named = [row for row in rows if new.transport in {"", row.name}]
        later = new.send_at is not None and new.send_at > self._rounds.clock()
        known = (new.tenant, new.key) in self._in_ledger
        if not named or later or known or self._breaker.is_open():
            raise error
        if named[0].kind == LOG or named[0].paused or len(self._entries) >= _MOST_SENT:
            raise error
        return named[0]

    def _turn_down(self, new: NewSend, now: int) -> None:
        """Keep to the limits as far as this process can know.

        Raises: SendCoolingDown, SendBudgetSpent.
        """
        sent = [
            each
            for each in self._entries.values()
            if each.new.tenant == new.tenant and not isinstance(each.outcome, Rejected)
        ]
        limits, marks = new.guards, set(new.marks)
        alike = [
            each
            for each in sent
            if each.new.event_type == new.event_type and marks.intersection(each.new.marks)
        ]
        cooling = [each for each in alike if each.at + limits.cool_down > now]
        if limits.cool_down and cooling:
            last = max(cooling, key=lambda each: each.at)
            wait, id_ = last.at + limits.cool_down - now, last.new.id
            told = TurnedDown(answer=Answer.COOLING_DOWN, retry_after=wait, earlier=id_)
            raise guards.refusal(told)
        recent = [each.new for each in sent if each.at + BUDGET_SPAN > now]
        by_key = sum(each.owner == new.owner for each in recent)
        to_one = max((sum(mark in each.marks for each in recent) for mark in marks), default=0)
        if (limits.per_key and new.owner is not None and by_key >= limits.per_key) or (
            limits.per_recipient and to_one >= limits.per_recipient
        ):
            told = TurnedDown(answer=Answer.OVER_BUDGET, retry_after=BUDGET_SPAN)
            raise guards.refusal(told)

    # the mail itself

    async def _see_through(self, entry: _Entry, row: Row) -> Outcome:
        """Hand one mail over, with its steps in the spool; never raise for what becomes of it."""
        outcome = await self._hand_over(entry, row)
        if entry.begun:
            try:
                await self._append(Ended(id=entry.new.id, outcome=outcome))
            except SpoolUnusable:
                self._telemetry.log.exception("fail_open_not_spooled", send=entry.new.id)
        entry.outcome = outcome
        self._breaker.hear(outcome)
        if isinstance(outcome, NotSent):
            del self._entries[entry.new.tenant, entry.new.key]
        else:
            self._telemetry.send_fail_open.inc()
            state = _STATES[type(outcome)]
            self._telemetry.log.warning("send_failed_open", send=entry.new.id, state=state)
        return outcome

    async def _hand_over(self, entry: _Entry, row: Row) -> Outcome:
        marked = False

        async def marker() -> bool:
            nonlocal marked
            await self._append(Marked(id=entry.new.id, at=self._rounds.clock()))
            marked = True
            return True

        try:
            await self._begin(entry)
            parcel = self._parcel(entry)
            async with self._ways.lend(row) as way:
                return await way.send(parcel, marker)
        except SpoolUnusable:
            self._telemetry.log.warning("fail_open_spool_unusable")
        except OnceboxError as error:
            self._telemetry.log.warning("transport_invalid", transport=row.name, code=error.code)
        except Exception:
            self._telemetry.log.exception("transport_failed", send=entry.new.id)
        if marked:
            return Unknown(code="transport_failed", phase=Phase.HANDED_OVER)
        return NotSent(code="fail_open_failed", phase=Phase.CONNECT)

    async def _begin(self, entry: _Entry) -> None:
        async with self._writing:
            await asyncio.to_thread(self._spool.append, Begun(new=entry.new, at=entry.at))
            entry.begun = True

    async def _append(self, step: Marked | Ended) -> None:
        async with self._writing:
            await asyncio.to_thread(self._spool.append, step)

    def _parcel(self, entry: _Entry) -> Parcel:
        new = entry.new
        send = as_send(new, entry.at, SendState.SENDING)
        message, goes_to = self._outbox.letter(ClaimedSend(send, new.message, new.envelope))
        return Parcel(
            send_id=new.id,
            # As the ledger would give it: who knows keys takes one of two hand-overs.
            provider_key=intent.provider_key(self._secret, new.tenant, new.key.hex(), 0),
            sender=goes_to.sender,
            recipients=goes_to.recipients,
            message=message,
            message_id=new.message_id,
            email=goes_to.email,
            deadline=clock.steady() + self._within,
        )

    # the ledger is back

    async def _merge(self) -> int:
        async with self._writing:
            if not await self._open_spool():
                return 0  # another process has it
            if any(each.begun and each.outcome is None for each in self._entries.values()):
                return 0  # its last step is still to come
            over = {
                key: Spooled(new=each.new, at=each.at, outcome=each.outcome)
                for key, each in self._entries.items()
                if each.outcome is not None
            }
            if not over:
                return 0
            await self._rounds.merge([*over.values()])
            # Should this be the last thing that happens, the next one merges them again.
            await asyncio.to_thread(self._spool.empty)
        for key in over:
            del self._entries[key]
            self.remember(*key)
        self._telemetry.log.warning("fail_open_merged", sends=len(over))
        return len(over)

    def _adopt(self, left: Iterable[Spooled] | None) -> None:
        """Take over what an earlier process left in the spool."""
        for each in left or ():
            entry = _Entry(each.new, each.at, begun=True, outcome=each.outcome)
            self._entries.setdefault((each.new.tenant, each.new.key), entry)


_STATES: dict[type[Outcome], SendState] = {
    Accepted: SendState.SENT,
    Rejected: SendState.FAILED,
    Unknown: SendState.UNKNOWN,
}


async def _ended(entry: _Entry) -> Outcome | None:
    """Wait for what becomes of a mail."""
    if entry.outcome is not None or entry.task is None:
        return entry.outcome
    # Who goes away does not take the mail along: it may be half-way out.
    return await asyncio.shield(entry.task)


def _named(new: NewSend, row: Row) -> NewSend:
    return msgspec.structs.replace(new, transport=row.name)


def _told(entry: _Entry, outcome: Outcome, asked: NewSend | Repeat, *, repeated: bool) -> Intended:
    """Answer as the ledger will."""
    send = as_send(entry.new, entry.at, _STATES[type(outcome)], outcome)
    drift = send.content != asked.content
    if send.protected != asked.protected:
        return Intended(answer=Answer.CONFLICT, send=send, drift=drift)
    told = answer(send.state, repeated=repeated)
    return Intended(answer=told, send=send, created=not repeated, drift=drift)
