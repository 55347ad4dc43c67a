"""Send worker: claims sends, transmits them, decides on retry or failover, settles."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from oncebox.core import clock, faults
from oncebox.core.metrics import Telemetry
from oncebox.errors import (
    DatabaseClosed,
    DataKeyUnknown,
    MasterKeyWrong,
    OnceboxError,
    StoreError,
    StoreUnavailable,
)
from oncebox.ledger.ciphers import SendCipher
from oncebox.ledger.notifications import EVENTS, SENDS
from oncebox.ledger.sends import lifecycle, sends, transports
from oncebox.ledger.sends.lifecycle import SendClaimant
from oncebox.ledger.sends.outbox import OutcomeWaiters, PlainMail, ReservedTry
from oncebox.ledger.sends.transports import TransportRef
from oncebox.ledger.transactions import Ledger
from oncebox.model.sends import intent
from oncebox.model.sends.send import (
    FINAL_STATES,
    ClaimedSend,
    OnUnknown,
    Send,
    SendLease,
    SendMarker,
    SendReport,
    SendSettled,
    SendState,
    is_settled,
)
from oncebox.model.sends.transports import (
    GIVEN_BACK,
    KEY_MISMATCH,
    LOG_TRANSPORT,
    STORE_UNAVAILABLE,
    WORKER_STOPPED,
    ConfiguredTransport,
    NotSent,
    SendAccepted,
    SendOutcome,
    SendPhase,
    SendRejected,
    SendUnknown,
    counts_as_failure,
)
from oncebox.settings import SendSettings, WorkerSettings
from oncebox.transports.transport import Capability, Idempotency, MailTransport, OutgoingMail
from oncebox.workers.lease_renewal import RELEASE_WITHIN, renew_periodically
from oncebox.workers.sends.transport_pool import TransportDirectory, TransportPool

#: doublings after which every wait is the longest one
_MAX_DOUBLINGS = 40
#: codes of tries that this process ended; they say nothing about the send
_OWN_CODES = frozenset({GIVEN_BACK, STORE_UNAVAILABLE})


def decide_retry(
    send: Send,
    outcome: SendOutcome,
    settings: SendSettings,
    *,
    now: int,
    random: Callable[[], float],
    failover: str | None = None,
) -> SendReport:
    """Return the report of a try, with the time and the transport of the next one.

    ``random`` returns a number between 0 and 1; ``failover`` is the transport it may move to.
    """
    report = SendReport(
        tenant=send.tenant,
        id=send.id,
        fence=send.fence,
        outcome=outcome,
        transport=send.transport,
    )
    if isinstance(outcome, SendAccepted | SendRejected) or outcome.code == KEY_MISMATCH:
        return report
    free = isinstance(outcome, NotSent) and (outcome.opens_circuit or outcome.code in _OWN_CODES)
    if send.tries >= settings.tries and not free:
        return report
    move_to = failover if may_fail_over(send, outcome) else None
    due_at = now + _backoff(send, outcome, settings, random, moves=move_to is not None)
    return msgspec.structs.replace(report, due_at=due_at, move_to=move_to, uncounted=free)


def may_fail_over(send: Send, outcome: SendOutcome) -> bool:
    """Tell whether another transport may be tried: this one fails, and certainly did not send."""
    return (
        isinstance(outcome, NotSent)
        and counts_as_failure(outcome)
        and send.unknown_since is None
        and not send.pinned
    )


def _backoff(
    send: Send,
    outcome: SendOutcome,
    settings: SendSettings,
    random: Callable[[], float],
    *,
    moves: bool,
) -> int:
    """Return the milliseconds until the next try: between half and all of a doubling bound."""
    if isinstance(outcome, NotSent) and outcome.code in _OWN_CODES:
        return 0
    # Only the first failover is immediate, or two broken transports would use up all tries.
    if moves and send.tries <= 1:
        return 0
    doublings = min(max(send.tries - 1, 0), _MAX_DOUBLINGS)
    bound = int(min(settings.longest_wait, settings.first_wait * 2**doublings) * 1000)
    asked = (outcome.retry_after or 0) if isinstance(outcome, NotSent) and not moves else 0
    return max(asked, bound // 2 + int(bound / 2 * random()))


#: milliseconds before a provider forgets a key in which the key is no longer relied on
_REPLAY_MARGIN = 600_000


def replay_until(capability: Capability, now: int) -> int | None:
    """Return until when the provider certainly remembers a key it receives now."""
    if capability.idempotency is not Idempotency.REPLAY:
        return None
    return now + capability.window_ms - _REPLAY_MARGIN


def outgoing_mail(
    claimed: ClaimedSend,
    cipher: SendCipher,
    capability: Capability,
    deadline: float,
    mail: PlainMail | None = None,
) -> OutgoingMail:
    """Return a claimed send as a transport needs it; ``mail`` if it need not be decrypted.

    Raises: MasterKeyWrong, MsgspecError.
    """
    send = claimed.send
    message, envelope = mail or cipher.decrypt(claimed)
    provider_key = ""
    if capability.idempotency is not Idempotency.NONE:
        secret = cipher.provider_key_secret
        provider_key = intent.provider_key(secret, send.tenant, send.key.hex(), send.epoch)
    return OutgoingMail(
        send_id=send.id,
        provider_key=provider_key,
        sender=envelope.sender,
        recipients=envelope.recipients,
        message=message,
        message_id=send.message_id,
        email=envelope.email,
        deadline=deadline,
    )


@dataclass(slots=True, eq=False)
class _Try:
    """A claimed send in this process."""

    claimed: ClaimedSend
    send: Send
    transport: ConfiguredTransport
    renew_at: float
    #: the mail, if this process has just encrypted it
    mail: PlainMail | None = field(default=None, repr=False)
    task: asyncio.Task[None] | None = field(default=None, repr=False)
    #: the marker is committed: the mail may be transmitted
    marked: bool = False
    #: the outcome is known and only has to be settled
    outcome_known: bool = False


def _stopped_outcome(one: _Try, code: str) -> NotSent | SendUnknown:
    if one.marked:
        code = WORKER_STOPPED if code == GIVEN_BACK else code
        return SendUnknown(code=code, phase=SendPhase.HANDED_OVER)
    return NotSent(code=code, phase=SendPhase.CONNECT)


#: seconds between two polls without due sends, however often the worker is notified
_POLL_EVERY = 0.02
#: seconds between two counts of unknown sends
_COUNT_EVERY = 10.0
_LOGGED_STATES = frozenset({SendState.FAILED, SendState.UNKNOWN})


class SendWorker:
    """Claims due sends per transport, transmits and settles them, many at a time."""

    def __init__(  # noqa: PLR0913 - its collaborators
        self,
        ledger: Ledger,
        cipher: SendCipher,
        outcomes: OutcomeWaiters,
        telemetry: Telemetry,
        *,
        name: str,
        settings: SendSettings,
        worker: WorkerSettings,
        random: Callable[[], float],
        transports: TransportPool | None = None,
    ) -> None:
        self._ledger = ledger
        #: for calls a fence makes safe to repeat
        self._retrying = ledger.retrying()
        self._cipher = cipher
        self._outcomes = outcomes
        self._transports = transports or TransportPool(cipher)
        self._telemetry = telemetry
        self._name = name
        self._random = random
        self._poll, self._stop_within = worker.poll, worker.stop_within
        self._lease, self._concurrency = settings.lease, settings.concurrency
        self._settings = settings
        self._tries: set[_Try] = set()
        self._per_transport: Counter[TransportRef] = Counter()
        #: reserved for sends that are being stored
        self._reserved = 0
        self._directory = TransportDirectory(ledger)
        #: transports with more due sends than could be claimed
        self._backlogged: set[TransportRef] = set()
        self._try_ended = asyncio.Event()
        telemetry.sends_in_flight.set_function(lambda: len(self._tries))
        self._subscription = ledger.subscribe(SENDS)
        self._stopping = asyncio.Event()
        self._recover_at = self._count_at = self._poll_at = 0.0
        self._rotation = 0

    async def run(self) -> None:
        """Work until ``stop``; then finish the tries in progress, or give them back."""
        renewing = asyncio.create_task(
            renew_periodically(self._renew, self._lease, self._telemetry)
        )
        try:
            while not self._stopping.is_set():
                await self._run_once()
            await self._drain()
        finally:
            self._stopping.set()
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)
            await self._transports.close()

    def stop(self) -> None:
        """Let ``run`` end."""
        self._stopping.set()
        self._ledger.notify(SENDS)

    async def _run_once(self) -> None:
        try:
            await self._recover_lost_when_due()
            if not await self._claim_and_start():
                await self._subscription.wait(self._poll)
        except StoreUnavailable as error:
            self._telemetry.count_store_error("sends", error)
            await asyncio.sleep(min(0.5, self._poll))
        except Exception:
            self._telemetry.log.exception("send_worker_failed")
            await asyncio.sleep(self._poll)

    async def _recover_lost_when_due(self) -> None:
        """Periodically sweep sends of lost workers and expired ones, and count unknown ones."""
        now = clock.steady()
        if now >= self._recover_at:
            self._recover_at = now + min(self._poll, self._lease / 4)
            await self._sweep()
        if now >= self._count_at:
            self._count_at = now + _COUNT_EVERY
            self._telemetry.unknown_sends.set(await self._ledger.read(sends.count_unknown))

    async def _sweep(self) -> None:
        swept, diverted = await self._ledger.write(
            lifecycle.sweep_and_divert, self._ledger.clock(), self._settings.tries
        )
        if diverted or swept.given_back or swept.unknown:
            self._ledger.notify(SENDS)
        if swept.unknown or swept.expired or swept.lapsed:
            self._ledger.notify(EVENTS)
        if swept.unknown:
            self._telemetry.sends.labels(SendState.UNKNOWN).inc(swept.unknown)
            self._telemetry.log.warning("sends_unknown", sends=swept.unknown)
        if swept.expired:
            self._telemetry.sends.labels(SendState.EXPIRED).inc(swept.expired)

    # claim

    async def _claim_and_start(self) -> bool:
        """Start due sends as far as there is capacity; return whether there were any."""
        if (wait := self._poll_at - clock.steady()) > 0:
            await asyncio.sleep(wait)
        due = await self._ledger.read(transports.with_due_sends, self._ledger.clock())
        self._backlogged &= {(each.tenant, each.name) for each in due}
        # Start with another transport every time.
        self._rotation += 1
        first = self._rotation % len(due) if due else 0
        started = 0
        for transport in [*due[first:], *due[:first]]:
            started += await self._claim_for(transport)
        if due and self._free() <= 0:
            await self._wait_until(lambda: self._free() > 0, self._poll)
            return True  # check the clock and the stop event, then claim again
        if not started:
            self._poll_at = clock.steady() + _POLL_EVERY
        return bool(started)

    async def _claim_for(self, transport: ConfiguredTransport) -> int:
        ref = (transport.tenant, transport.name)
        capacity = self._capacity(transport)
        if not capacity or self._stopping.is_set():
            self._backlogged.add(ref)
            return 0
        claimant = SendClaimant(
            transport.tenant, transport.name, self._name, int(self._lease * 1000)
        )
        claimed = await self._ledger.write(
            lifecycle.claim, claimant, capacity, self._ledger.clock()
        )
        faults.point("sends.claimed")
        # Until all due sends are claimed, new ones wait behind them.
        (self._backlogged.add if len(claimed) >= capacity else self._backlogged.discard)(ref)
        renew_at = clock.steady() + self._lease / 3
        for each in claimed:
            self._occupy(transport)
            self._start(_Try(each, each.send, transport, renew_at))
        return len(claimed)

    async def reserve(
        self, tenant: str, transport: str, failover_group: str = ""
    ) -> ReservedTry | None:
        """Reserve capacity for a send that is about to be stored.

        None, if the transport has a rate limit, is paused or rests, or has sends waiting.
        """
        found = await self._directory.find(tenant, transport, failover_group)
        if (
            found is None
            or self._stopping.is_set()
            or found.rate is not None
            or found.paused
            or found.rests_until is not None
            or (tenant, found.name) in self._backlogged
            or not self._capacity(found)
        ):
            return None
        self._occupy(found)
        self._reserved += 1
        lease = SendLease(self._name, found.name, found.changed_at, int(self._lease * 1000))
        renew_at = clock.steady() + self._lease / 3

        def transmit(claimed: ClaimedSend, mail: PlainMail) -> None:
            self._reserved -= 1
            self._start(_Try(claimed, claimed.send, found, renew_at, mail))

        def release() -> None:
            self._reserved -= 1
            self._vacate(found)

        return ReservedTry(lease, transmit, release)

    def _capacity(self, transport: ConfiguredTransport) -> int:
        """Return how many more sends a transport may start.

        One transport never takes all capacity, or a silent server would stop all mail; the log
        transport answers at once.
        """
        free = self._free()
        if transport.kind == LOG_TRANSPORT:
            return max(0, free)
        mine = self._per_transport[transport.tenant, transport.name]
        others = len(self._tries) + self._reserved - mine
        share = max(1, (self._concurrency - others) * 3 // 4)
        return max(0, min(share - mine, free))

    def _free(self) -> int:
        return self._concurrency - len(self._tries) - self._reserved

    def _occupy(self, transport: ConfiguredTransport) -> None:
        self._per_transport[transport.tenant, transport.name] += 1

    def _vacate(self, transport: ConfiguredTransport) -> None:
        ref = (transport.tenant, transport.name)
        self._per_transport[ref] -= 1
        if not self._per_transport[ref]:
            del self._per_transport[ref]
        self._try_ended.set()

    def _start(self, one: _Try) -> None:
        self._tries.add(one)
        one.task = asyncio.create_task(self._run_try(one))
        one.task.add_done_callback(lambda _: self._remove(one))

    def _remove(self, one: _Try) -> None:
        """End a try, once; its capacity is free before its caller sends the next mail."""
        if one in self._tries:
            self._tries.discard(one)
            self._vacate(one.transport)

    # transmit

    async def _run_try(self, one: _Try) -> None:
        try:
            outcome = await self._open_and_transmit(one)
        finally:
            one.outcome_known = True
        try:
            settled = await self._settle(one, outcome)
        except DatabaseClosed:
            return  # the program ends; the lease expires and the sweep finds the send
        except Exception:
            # Any error: the lease expires and the sweep settles the send.
            self._telemetry.log.exception("send_not_settled", send=one.send.id)
            return
        self._count(one, outcome, settled)

    async def _open_and_transmit(self, one: _Try) -> SendOutcome:
        """Return the outcome of one try; never raises."""
        name = one.transport.name
        try:
            async with self._transports.acquire(one.transport) as transport:
                if one.send.must_sign and not self._transports.signs(one.transport, one.send):
                    # Its keys were changed since: the mail waits for one, and then fails.
                    self._telemetry.log.warning("send_not_signed", transport=name)
                    return NotSent(code="signature_missing", phase=SendPhase.CONNECT)
                return await self._transmit(one, transport)
        except OnceboxError as error:
            self._telemetry.log.warning("transport_invalid", transport=name, code=error.code)
            return NotSent(code="transport_invalid", phase=SendPhase.CONNECT, opens_circuit=True)
        except Exception:
            self._telemetry.log.exception("transport_not_opened", transport=name)
            return NotSent(code="transport_failed", phase=SendPhase.CONNECT)

    async def _transmit(self, one: _Try, transport: MailTransport) -> SendOutcome:
        deadline = clock.steady() + self._settings.transport_timeout
        try:
            mail = outgoing_mail(
                one.claimed, self._cipher, transport.capability, deadline, one.mail
            )
        except DataKeyUnknown as error:  # the master key is being rotated
            return NotSent(code=error.code, phase=SendPhase.CONNECT)
        except (MasterKeyWrong, msgspec.MsgspecError):
            self._telemetry.log.exception("send_unreadable", send=one.send.id)
            return SendRejected(code="send_unreadable", phase=SendPhase.CONNECT)

        async def marker() -> bool:
            one.marked = await self._commit_marker(one.send, transport.capability)
            return one.marked

        try:
            return await transport.send(mail, marker)
        except asyncio.CancelledError:
            return _stopped_outcome(one, GIVEN_BACK)
        except StoreError as error:
            self._telemetry.count_store_error("sends", error)
            return _stopped_outcome(one, STORE_UNAVAILABLE)
        except Exception:
            self._telemetry.log.exception("transport_failed", send=one.send.id)
            return _stopped_outcome(one, "transport_failed")

    async def _commit_marker(self, send: Send, capability: Capability) -> bool:
        """Commit the marker; False: the lease is lost, or the send must not be transmitted."""
        replay = replay_until(capability, self._ledger.clock())
        marked = await self._ledger.submit(lifecycle.mark_sending, self._marker(send, replay))
        faults.point("sends.marker_committed")
        return marked

    def _marker(self, send: Send, replay: int | None = None) -> SendMarker:
        until = self._ledger.clock() + int(self._lease * 1000)
        return SendMarker(
            tenant=send.tenant, id=send.id, fence=send.fence, until=until, replay_until=replay
        )

    # settle

    async def _settle(self, one: _Try, outcome: SendOutcome) -> SendSettled | None:
        failover = None
        if may_fail_over(one.send, outcome):
            failover = await self._retrying.read(
                transports.failover_target, one.send.tenant, one.send.id, self._ledger.clock()
            )
        report = decide_retry(
            one.send,
            outcome,
            self._settings,
            now=self._ledger.clock(),
            random=self._random,
            failover=failover,
        )
        report = msgspec.structs.replace(report, logged=one.transport.kind == LOG_TRANSPORT)
        settled = await self._retrying.submit(lifecycle.settle, report)
        faults.point("sends.result_committed")
        self._remove(one)
        if settled is not None and settled.counted:
            self._outcomes.notify([settled.send])
            self._telemetry.events_numbered.inc(settled.numbered and is_settled(settled.send))
        return settled

    def _count(self, one: _Try, outcome: SendOutcome, settled: SendSettled | None) -> None:
        # The marker ends a send we still hold if a recipient is suppressed, or if it is too late.
        if settled is None or not (
            settled.counted
            or (settled.send.fence == one.send.fence and settled.send.state in FINAL_STATES)
        ):
            self._telemetry.lease_conflicts.inc()
            return
        state = settled.send.state
        self._telemetry.sends.labels(state).inc()
        if isinstance(outcome, SendAccepted) and one.send.repeat_mode is OnUnknown.REPLAY:
            self._telemetry.provider_dedupe.labels(one.transport.kind).inc()
        if state in _LOGGED_STATES:
            code = settled.send.code
            self._telemetry.log.warning(
                "send_unsuccessful", send=one.send.id, state=state, code=code
            )

    # leases and the end

    async def _renew(self) -> None:
        """Extend leases; a lost one is refused at the marker, or the try brings proof."""
        now = clock.steady()
        old = [each for each in self._tries if each.renew_at <= now]
        held = await asyncio.gather(
            *(self._ledger.submit(lifecycle.renew, self._marker(each.send)) for each in old)
        )
        for each, still_ours in zip(old, held, strict=True):
            # The lease of another worker is never renewed again.
            each.renew_at = now + self._lease / 3 if still_ours else float("inf")
            if not still_ours and not each.outcome_known:
                self._telemetry.lease_conflicts.inc()

    async def _drain(self) -> None:
        """Wait for the tries, then cancel: unmarked ones are given back, others unknown."""
        if await self._wait_until(self._is_idle, self._stop_within):
            return
        for each in self._tries:
            if not each.outcome_known and each.task is not None:
                each.task.cancel()
        await self._wait_until(self._is_idle, min(RELEASE_WITHIN, self._lease))

    def _is_idle(self) -> bool:
        return not self._tries and not self._reserved

    async def _wait_until(self, holds: Callable[[], bool], within: float) -> bool:
        """Wait until a condition on the tries holds; return whether it does."""
        if holds():
            return True
        try:
            async with asyncio.timeout(within):
                while not holds():
                    self._try_ended.clear()
                    await self._try_ended.wait()
        except TimeoutError:
            return False
        return True
