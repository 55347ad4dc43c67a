"""Fail-open sending while the ledger is unavailable, with a local encrypted spool.

The spool has one encrypted line per step, on disk before the next step. One process at a time
holds it and reads what an earlier one left.

Without the ledger nobody can look up repeats, suppressed recipients or the sends of others. So
each key is sent once per process and spool, never a key the ledger is known to have, and every
step is recorded on this machine; once the ledger is back, the spool is merged into it.
See docs/decisions/0035-use-an-encrypted-spool-for-fail-open-sends.md.
"""

import asyncio
import base64
import binascii
import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from oncebox.core import clock
from oncebox.core.encryption import MasterKey
from oncebox.core.files import sync_folder
from oncebox.core.metrics import Telemetry
from oncebox.errors import (
    DatabaseOverdue,
    MasterKeyWrong,
    OnceboxError,
    StoreError,
    StoreUnavailable,
)
from oncebox.errors.sends import SendBudgetSpent, SendCoolingDown
from oncebox.ledger.ciphers import SendCipher
from oncebox.ledger.notifications import EVENTS, SENDS
from oncebox.ledger.sends import fail_open, submission, transports
from oncebox.ledger.sends.fail_open import SpooledSend
from oncebox.ledger.transactions import Ledger
from oncebox.model.sends.send import (
    BUDGET_WINDOW,
    ClaimedSend,
    IntentAccepted,
    IntentIdentity,
    NewSend,
    Send,
    SendState,
)
from oncebox.model.sends.transports import (
    LOG_TRANSPORT,
    BreakerRules,
    NotSent,
    SendAccepted,
    SendOutcome,
    SendPhase,
    SendRejected,
    SendUnknown,
    counts_as_failure,
)
from oncebox.model.sends.transports import ConfiguredTransport as Row
from oncebox.transports.transport import Capability
from oncebox.workers.sends.send_worker import outgoing_mail, replay_until
from oncebox.workers.sends.transport_pool import TransportPool, chosen_transport

_ENCRYPTION_CONTEXT = b"oncebox fail open spool 1"
_SPOOL = "fail open spool"
_END = b"\n"
#: bytes that a spool may have
_MAX_SIZE = 512 * 1024 * 1024
#: outcome of a mail whose process was lost after the marker
_PROCESS_LOST = SendUnknown(code="process_lost", phase=SendPhase.MARKED)


class SpoolBegun(msgspec.Struct, frozen=True, kw_only=True, tag="begun"):
    """A mail is about to be sent."""

    new: NewSend
    at: int


class SpoolMarked(msgspec.Struct, frozen=True, kw_only=True, tag="marked"):
    """It may be accepted from now on."""

    id: str
    at: int
    #: until when the provider certainly remembers the key
    replay_until: int | None = None


class SpoolEnded(msgspec.Struct, frozen=True, kw_only=True, tag="ended"):
    """Its outcome is known."""

    id: str
    outcome: SendOutcome


SpoolStep = SpoolBegun | SpoolMarked | SpoolEnded

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(SpoolStep).decode


class SpoolUnusable(Exception):
    """The spool cannot be used, so nothing may be sent without the ledger."""


class FailOpenSpool:
    """Steps of sends in a file. Its methods block on the disk: call them in a thread."""

    def __init__(self, path: Path, key: MasterKey) -> None:
        self._path = path
        self._key = key
        self._handle: int | None = None
        self._size = 0

    def open(self) -> list[SpooledSend]:
        """Lock the spool and return its contents; nothing if this process holds it already.

        Raises: SpoolUnusable, also if another process has it.
        """
        if self._handle is not None:
            return []
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle = os.open(self._path, flags, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                sync_folder(self._path.parent)
                spooled = self._read(handle)
            except BaseException:
                os.close(handle)
                raise
        except (OSError, MasterKeyWrong, msgspec.MsgspecError, binascii.Error) as error:
            raise SpoolUnusable from error
        self._handle = handle
        return spooled

    def append(self, step: SpoolStep) -> None:
        """Append a step; on disk when this returns.

        Raises: SpoolUnusable; the step is not in the file then.
        """
        encrypted = self._key.encrypt(_encode(step), bound_to=_ENCRYPTION_CONTEXT, purpose=_SPOOL)
        line = base64.b64encode(encrypted) + _END
        if self._handle is None or self._size + len(line) > _MAX_SIZE:
            raise SpoolUnusable
        try:
            _write_all(self._handle, line)
            os.fsync(self._handle)
        except OSError as error:
            self._truncate(self._size)
            raise SpoolUnusable from error
        self._size += len(line)

    def empty(self) -> None:
        """Delete all steps."""
        self._truncate(0)

    def close(self) -> None:
        """Release the spool."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _read(self, handle: int) -> list[SpooledSend]:
        """Return the contents; an incomplete last line is dropped."""
        with open(handle, "rb", closefd=False) as file:
            whole, _, torn = file.read().rpartition(_END)
        self._size = len(whole) + len(_END) if whole else 0
        if torn:
            os.ftruncate(handle, self._size)
            os.fsync(handle)
        encrypted = [base64.b64decode(line, validate=True) for line in whole.split(_END) if line]
        steps = [
            self._key.decrypt(each, bound_to=_ENCRYPTION_CONTEXT, purpose=_SPOOL)
            for each in encrypted
        ]
        return _fold_steps([_decode(step) for step in steps])

    def _truncate(self, size: int) -> None:
        if self._handle is None:
            raise SpoolUnusable
        try:
            os.ftruncate(self._handle, size)
            os.fsync(self._handle)
        except OSError as error:
            self.close()  # its content is uncertain; it is read again
            raise SpoolUnusable from error
        self._size = size


def _fold_steps(steps: list[SpoolStep]) -> list[SpooledSend]:
    """Return sends that may have been accepted; unmarked and unsent ones are dropped."""
    begun: dict[str, SpoolBegun] = {}
    found: dict[str, SpooledSend] = {}
    for step in steps:
        if isinstance(step, SpoolBegun):
            begun[step.new.id] = step
        elif step.id in begun and isinstance(step, SpoolMarked):
            new = begun[step.id].new
            found[step.id] = SpooledSend(
                new=new, at=step.at, outcome=_PROCESS_LOST, replay_until=step.replay_until
            )
        elif step.id in begun and isinstance(step, SpoolEnded):
            marked = found.get(step.id)
            found[step.id] = SpooledSend(
                new=begun[step.id].new,
                at=marked.at if marked else begun[step.id].at,
                outcome=step.outcome,
                replay_until=marked.replay_until if marked else None,
            )
    return [each for each in found.values() if not isinstance(each.outcome, NotSent)]


def _write_all(handle: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(handle, left) :]


#: seconds between two checks whether the ledger is back
_CHECK_EVERY = 5.0
_CHECK_DOWN_EVERY = 1.0
#: remembered keys that the ledger has
_MAX_KNOWN_KEYS = 100_000
#: mails that may be sent before a merge
_MAX_UNMERGED = 10_000

_SendKey = tuple[str, bytes]


@dataclass(slots=True, eq=False)
class _Entry:
    new: NewSend
    at: int
    task: asyncio.Task[SendOutcome] | None = None
    #: its first step is in the spool
    begun: bool = False
    outcome: SendOutcome | None = None
    replay_until: int | None = None


class _Breaker:
    def __init__(self, rules: BreakerRules) -> None:
        self._rules = rules
        self._failures = 0
        self._open_until = 0.0

    def is_open(self) -> bool:
        return clock.steady() < self._open_until

    def record(self, outcome: SendOutcome) -> None:
        if not counts_as_failure(outcome):
            self._failures = 0
            return
        self._failures += 1
        broken = isinstance(outcome, NotSent) and outcome.opens_circuit
        if broken or self._failures >= self._rules.failures:
            self._open_until = clock.steady() + self._rules.first_rest / 1000


class FailOpenWorker:
    """Sends without the ledger, once per key, and merges when the ledger is back."""

    def __init__(  # noqa: PLR0913 - its collaborators
        self,
        spool: FailOpenSpool,
        ledger: Ledger,
        cipher: SendCipher,
        transports: TransportPool,
        telemetry: Telemetry,
        *,
        timeout: float,
        rules: BreakerRules | None = None,
    ) -> None:
        self._spool = spool
        self._ledger = ledger
        self._cipher = cipher
        self._transports = transports
        self._telemetry = telemetry
        self._timeout = timeout
        self._breaker = _Breaker(rules or BreakerRules())
        #: transports of all tenants as of the last successful read
        self._known_transports: dict[str, list[Row]] = {}
        self._entries: dict[_SendKey, _Entry] = {}
        self._in_ledger: dict[_SendKey, None] = {}
        #: whether opening the spool was attempted
        self._spool_tried = False
        #: held while the spool is written or emptied
        self._writing = asyncio.Lock()
        #: whether the ledger failed and has not been written since
        self._is_ledger_down = False

    async def run(self) -> None:
        """Merge periodically when the ledger is available, until cancelled."""
        while True:
            try:
                await self.check_ledger_again()
                await self.merge_when_available()
            except StoreError as error:
                self._telemetry.count_store_error("fail_open", error)
            except Exception:
                self._telemetry.log.exception("fail_open_failed")
            await asyncio.sleep(_CHECK_DOWN_EVERY if self._is_ledger_down else _CHECK_EVERY)

    async def check_ledger_again(self) -> None:
        """Try whether the ledger can be written again, if it is down.

        Raises: StoreError, if it cannot.
        """
        if self._is_ledger_down:
            await self._ledger.check_ready()
            self._is_ledger_down = False
            self._telemetry.log.warning("fail_open_ended")

    async def merge_when_available(self) -> int:
        """Refresh the transports and merge the spool into the ledger; return the number of sends.

        Raises: StoreError, if the ledger is unavailable.
        """
        found: dict[str, list[Row]] = {}
        for row in await self._ledger.read(transports.of_all_tenants):
            found.setdefault(row.tenant, []).append(row)
        self._known_transports = found
        return await self._merge()

    async def close(self) -> None:
        """Stop sending; the next process merges what is left in the spool."""
        running = [each.task for each in self._entries.values() if each.task is not None]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self._transports.close()
        self._spool.close()

    # FailOpenSender

    def check_ledger(self) -> None:
        """Refuse at once while the ledger is known to be down: the wait would be in vain.

        Raises: DatabaseOverdue.
        """
        if self._is_ledger_down:
            raise DatabaseOverdue("the ledger cannot be written; nothing was stored")

    def ledger_failed(self, error: StoreUnavailable) -> None:
        """Remember that the ledger is down, until it is seen to be written again."""
        if not self._is_ledger_down:
            self._is_ledger_down = True
            self._telemetry.log.warning("fail_open_began", code=error.code)

    def remember(self, tenant: str, key: bytes) -> None:
        """Remember a key that the ledger has or may have: it sends that mail itself."""
        self._in_ledger.pop((tenant, key), None)
        self._in_ledger[tenant, key] = None
        if len(self._in_ledger) > _MAX_KNOWN_KEYS:
            del self._in_ledger[next(iter(self._in_ledger))]

    def has(self, tenant: str, key: bytes) -> bool:
        """Tell whether a mail was sent without the ledger and is not merged yet."""
        return (tenant, key) in self._entries

    async def existing_answer(self, asked: IntentIdentity) -> IntentAccepted | None:
        """Return the answer for a mail sent without the ledger and not merged yet, or None."""
        if not self._spool_tried:
            await self._acquire_spool()
        entry = self._entries.get((asked.tenant, asked.key))
        return None if entry is None else await _answer(entry, asked, repeated=True)

    async def send(self, new: NewSend, error: StoreUnavailable) -> IntentAccepted:
        """Send a mail without the ledger, or return the answer of an earlier call.

        Raises: the given error, if sending is not possible; SendCoolingDown, SendBudgetSpent.
        """
        key = (new.tenant, new.key)
        if not await self._acquire_spool():  # it knows the sends of an earlier process
            self._telemetry.log.warning("fail_open_spool_unusable")
            raise error
        entry, repeated = self._entries.get(key), True
        if entry is None:
            row = self._transport_for(new)
            if row is None:
                raise error
            chosen = msgspec.structs.replace(new, transport=row.name)
            entry, repeated = _Entry(chosen, self._ledger.clock()), False
            self._check_limits(new, entry.at)
            self._entries[key] = entry
            entry.task = asyncio.create_task(self._run_send(entry, row))
        answer = await _answer(entry, new, repeated=repeated)
        if answer is None:
            raise error
        return answer

    async def _acquire_spool(self) -> bool:
        async with self._writing:
            return await self._open_spool()

    async def _open_spool(self) -> bool:
        """Open the spool and load its contents; return whether this process holds it."""
        self._spool_tried = True
        try:
            spooled = await asyncio.to_thread(self._spool.open)
        except SpoolUnusable:
            return False
        for each in spooled:
            entry = _Entry(
                each.new,
                each.at,
                begun=True,
                outcome=each.outcome,
                replay_until=each.replay_until,
            )
            self._entries.setdefault((each.new.tenant, each.new.key), entry)
        return True

    def _transport_for(self, new: NewSend) -> Row | None:
        """Return the transport the ledger would choose; None if the mail must wait for it."""
        later = new.send_at is not None and new.send_at > self._ledger.clock()
        known = (new.tenant, new.key) in self._in_ledger
        if later or known or self._breaker.is_open() or len(self._entries) >= _MAX_UNMERGED:
            return None
        rows = self._known_transports.get(new.tenant, ())
        row = chosen_transport(rows, new.transport, new.failover_group)
        return None if row is None or row.kind == LOG_TRANSPORT or row.paused else row

    def _check_limits(self, new: NewSend, now: int) -> None:
        """Apply the limits as far as this process can know."""
        sent = [
            each
            for each in self._entries.values()
            if each.new.tenant == new.tenant and not isinstance(each.outcome, SendRejected)
        ]
        limits, marks = new.guards, set(new.marks)
        cooling = [
            each
            for each in sent
            if each.new.event_type == new.event_type
            and marks.intersection(each.new.marks)
            and each.at + limits.cool_down > now
        ]
        if limits.cool_down and cooling:
            last = max(cooling, key=lambda each: each.at)
            raise SendCoolingDown(
                send_id=last.new.id, wait=(last.at + limits.cool_down - now) / 1000
            )
        recent = [each.new for each in sent if each.at + BUDGET_WINDOW > now]
        by_key = sum(each.owner == new.owner for each in recent)
        to_one = max((sum(mark in each.marks for each in recent) for mark in marks), default=0)
        if (limits.per_key and new.owner is not None and by_key >= limits.per_key) or (
            limits.per_recipient and to_one >= limits.per_recipient
        ):
            raise SendBudgetSpent(wait=BUDGET_WINDOW / 1000)

    # transmission

    async def _run_send(self, entry: _Entry, row: Row) -> SendOutcome:
        """Transmit one mail and spool its steps; never raises."""
        outcome = await self._transmit(entry, row)
        if entry.begun:
            try:
                await self._append(SpoolEnded(id=entry.new.id, outcome=outcome))
            except SpoolUnusable:
                self._telemetry.log.exception("fail_open_not_spooled", send=entry.new.id)
        entry.outcome = outcome
        self._breaker.record(outcome)
        if isinstance(outcome, NotSent):
            del self._entries[entry.new.tenant, entry.new.key]
        else:
            self._telemetry.send_fail_open.inc()
            state = _STATE_BY_OUTCOME[type(outcome)]
            self._telemetry.log.warning("send_failed_open", send=entry.new.id, state=state)
        return outcome

    async def _transmit(self, entry: _Entry, row: Row) -> SendOutcome:
        marked = False
        capability: Capability | None = None

        async def marker() -> bool:
            nonlocal marked
            now = self._ledger.clock()
            until = None if capability is None else replay_until(capability, now)
            await self._append(SpoolMarked(id=entry.new.id, at=now, replay_until=until))
            marked, entry.replay_until = True, until
            return True

        try:
            await self._append(SpoolBegun(new=entry.new, at=entry.at))
            entry.begun = True
            send = submission.new_send(entry.new, entry.new.transport, entry.at)
            claimed = ClaimedSend(send, entry.new.message, entry.new.envelope)
            async with self._transports.acquire(row) as transport:
                # With the ledger's provider key, so that the provider recognises a repeat.
                deadline = clock.steady() + self._timeout
                capability = transport.capability
                mail = outgoing_mail(claimed, self._cipher, capability, deadline)
                return await transport.send(mail, marker)
        except SpoolUnusable:
            self._telemetry.log.warning("fail_open_spool_unusable")
        except OnceboxError as error:
            self._telemetry.log.warning("transport_invalid", transport=row.name, code=error.code)
        except Exception:
            self._telemetry.log.exception("transport_failed", send=entry.new.id)
        if marked:
            return SendUnknown(code="transport_failed", phase=SendPhase.HANDED_OVER)
        return NotSent(code="fail_open_failed", phase=SendPhase.CONNECT)

    async def _append(self, step: SpoolStep) -> None:
        async with self._writing:
            await asyncio.to_thread(self._spool.append, step)

    # the ledger is back

    async def _merge(self) -> int:
        async with self._writing:
            if not await self._open_spool():
                return 0  # another process holds it
            if any(each.begun and each.outcome is None for each in self._entries.values()):
                return 0  # a mail is being sent
            ended = {
                key: SpooledSend(
                    new=each.new,
                    at=each.at,
                    outcome=each.outcome,
                    replay_until=each.replay_until,
                )
                for key, each in self._entries.items()
                if each.outcome is not None
            }
            if not ended:
                return 0
            await self._ledger.write(fail_open.merge, [*ended.values()], self._ledger.clock())
            self._ledger.notify(SENDS, EVENTS)
            # After a crash here the next process merges them again, which changes nothing.
            await asyncio.to_thread(self._spool.empty)
        for key in ended:
            del self._entries[key]
            self.remember(*key)
        self._telemetry.log.warning("fail_open_merged", sends=len(ended))
        return len(ended)


_STATE_BY_OUTCOME: dict[type[SendOutcome], SendState] = {
    SendAccepted: SendState.SENT,
    SendRejected: SendState.FAILED,
    SendUnknown: SendState.UNKNOWN,
}


async def _answer(
    entry: _Entry, asked: NewSend | IntentIdentity, *, repeated: bool
) -> IntentAccepted | None:
    """Wait for the outcome of a mail; return the answer the ledger would give, None if not sent."""
    outcome = entry.outcome
    if outcome is None and entry.task is not None:
        # A cancelled caller must not cancel the transmission.
        outcome = await asyncio.shield(entry.task)
    if outcome is None or isinstance(outcome, NotSent):
        return None
    return submission.answer_intent(
        asked, _sent_without_ledger(entry, outcome), created=not repeated
    )


def _sent_without_ledger(entry: _Entry, outcome: SendOutcome) -> Send:
    """Return a send as the ledger will show it after the merge."""
    new, at, state = entry.new, entry.at, _STATE_BY_OUTCOME[type(outcome)]
    is_unknown = state is SendState.UNKNOWN
    failure = None if isinstance(outcome, SendAccepted) else outcome
    return msgspec.structs.replace(
        submission.new_send(new, new.transport, at),
        state=state,
        due_at=None,
        fence=1,
        tries=1,
        claimed_at=at,
        marked_at=at,
        unknown_since=at if is_unknown else None,
        code=failure.code if failure else None,
        phase=outcome.phase,
        reply=failure.reply if failure else 0,
        provider_id=outcome.provider_id if isinstance(outcome, SendAccepted) else "",
        ended_at=None if is_unknown else at,
    )
