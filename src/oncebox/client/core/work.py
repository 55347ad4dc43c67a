"""Submitted events; pull work: claim loop, effects, heartbeats, settlement; no I/O.

An error inside a work block is reported to the service and logged, and the loop continues with
the next delivery: one bad delivery does not end its worker.
"""

import functools
import logging
import os
import platform
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, Literal

import msgspec

from oncebox.client.core.calls import (
    Call,
    PauseStep,
    Plan,
    PollSchedule,
    RunStep,
    TimeoutStep,
    api_path,
    backoff,
    check_idempotency_key,
    is_outcome_unknown,
    is_transient,
    perform,
    post_call,
)
from oncebox.client.errors import ClientClosed, DeadlinePassed, WorkMisused
from oncebox.core import clock, ids
from oncebox.errors import (
    BodyTooLarge,
    EffectMisused,
    EffectNameReused,
    EffectOutcomeUnknown,
    LeaseLost,
    NotDone,
    NotFound,
    OnceboxError,
    RequestKeyReused,
    Transient,
)
from oncebox.model.deliveries.effects import (
    CALL_TIMEOUT,
    KEY_WINDOW,
    NO_RESULT,
    Done,
    Function,
    Safety,
    choose_safety,
    encode_result,
    proves_not_done,
    takes_key,
)
from oncebox.model.deliveries.retry import describe_error, failure_from_error
from oncebox.model.validation import check_key
from oncebox.schemas.deliveries import (
    MAX_BATCH,
    AcceptedDeliveries,
    BatchItem,
    Effect,
    SubmitDeliveries,
    SubmitDelivery,
)
from oncebox.schemas.pull import (
    BeginEffect,
    BeginEffectResult,
    ClaimedDelivery,
    ClaimResponse,
    ClaimWork,
    CompleteTry,
    FailTry,
    FinishEffect,
    Heartbeat,
    LeaseRenewed,
    TryEnded,
)

#: seconds; many proxies drop a connection that is silent for a minute
_LONGEST_POLL = 45.0
#: bytes of a result; the service takes a request of one mebibyte
_MAX_RESULT_SIZE = 1_000_000
#: bytes of bodies and headers that one request submits, unless a single event has more; the
#: service takes a request of one mebibyte, with bodies in base64
_MAX_BATCH_SIZE = 500_000
#: seconds for reports that are useful but not worth waiting for
_SHORT_TIMEOUT = 5.0
#: seconds; the longest wait that the service takes
_MAX_RETRY_AFTER = 3_000_000.0

_log = logging.getLogger("oncebox.client")


def submission(
    source: str,
    *,
    key: str | None = None,
    body: bytes | str = b"",
    type: str = "",  # noqa: A002 - the word users know
    headers: Iterable[tuple[str, str]] = (),
    order_key: str | None = None,
) -> SubmitDelivery:
    """Return an event of a batch; see ``client.deliveries.accept_batch``."""
    content = {"text": body} if isinstance(body, str) else {"body": body}
    return SubmitDelivery(
        source=source,
        key=key,
        type=type,
        headers=[(name, value) for name, value in headers],
        order_key=order_key,
        **content,
    )


def accept_batch_plan(deliveries: Iterable[SubmitDelivery]) -> Plan[list[BatchItem]]:
    """Submit events in as many requests as they need, one after the other."""
    answers: list[BatchItem] = []
    for part in _batches(deliveries):
        body = SubmitDeliveries(deliveries=part)
        call = post_call(AcceptedDeliveries, body, "deliveries", "batch", repeatable=True)
        answers += (yield from perform(call)).data
    return answers


def _batches(deliveries: Iterable[SubmitDelivery]) -> Iterator[list[SubmitDelivery]]:
    part: list[SubmitDelivery] = []
    size = 0
    for each in deliveries:
        added = _submitted_size(each)
        if part and (len(part) == MAX_BATCH or size + added > _MAX_BATCH_SIZE):
            yield part
            part, size = [], 0
        part.append(each)
        size += added
    if part:
        yield part


def _submitted_size(each: SubmitDelivery) -> int:
    headers = sum(len(name) + len(value) for name, value in each.headers)
    return len(each.body or (each.text or "").encode()) + headers


def new_request_key() -> str:
    """Return a key for one claim."""
    return ids.new("clm")


def claim_plan(
    sources: Sequence[str] | str | None,
    *,
    limit: int = 1,
    wait: float = 0,
    lease: float | None = None,
    worker: str = "pull",
    request_key: str | None = None,
) -> Plan[ClaimResponse]:
    """Claim deliveries; wait up to ``wait`` seconds for one, in long polls."""
    names = [sources] if isinstance(sources, str) else sources
    request = ClaimWork(
        request_key=check_idempotency_key(request_key) or new_request_key(),
        sources=None if names is None else list(names),
        worker=worker,
        limit=limit,
        lease=lease,
    )
    allowed: float = yield TimeoutStep()
    polls = PollSchedule(within=wait, longest=_LONGEST_POLL)
    while True:
        began, poll = polls.now(), polls.next_poll()
        try:
            claimed = yield from perform(
                _claim_call(request, poll, min(allowed / 2, polls.left + allowed - poll))
            )
        except OnceboxError as error:
            pause = polls.pause_after_error(error)
            if not is_transient(error) or pause >= polls.left + allowed:
                raise
            if is_outcome_unknown(error):
                polls.shorten()
        else:
            if claimed.deliveries or polls.left <= 0:
                return claimed
            pause = min(polls.left, polls.pause_after(began, max(poll, 1)))
        yield PauseStep(pause)


def _claim_call(request: ClaimWork, wait: float, within: float) -> Call[ClaimResponse]:
    """Return one poll; the plan repeats it, with the time that is left."""
    body = msgspec.structs.replace(request, wait=wait)
    call = post_call(ClaimResponse, body, "deliveries", "claim", repeatable=True)
    return replace(call, no_retry=True, wait=wait, within=within)


def heartbeat_call(delivery_id: str, fence: int, lease: float | None) -> Call[LeaseRenewed]:
    """Return a call that renews a lease."""
    body = Heartbeat(fence=fence, lease=lease)
    return post_call(LeaseRenewed, body, "deliveries", delivery_id, "heartbeat", repeatable=True)


def complete_call(delivery_id: str, fence: int) -> Call[TryEnded]:
    """Return a call that completes a delivery."""
    body = CompleteTry(fence=fence)
    return post_call(TryEnded, body, "deliveries", delivery_id, "complete", repeatable=True)


def fail_call(delivery_id: str, body: FailTry) -> Call[TryEnded]:
    """Return a call that fails a try."""
    return post_call(TryEnded, body, "deliveries", delivery_id, "fail", repeatable=True)


def begin_effect_call(delivery_id: str, name: str, body: BeginEffect) -> Call[BeginEffectResult]:
    """Return a call that records the start of an effect."""
    path = ("deliveries", delivery_id, "effects", name)
    return post_call(BeginEffectResult, body, *path, repeatable=True)


def finish_effect_call(delivery_id: str, name: str, body: FinishEffect) -> Call[Effect]:
    """Return a call that records the end of an effect."""
    path = api_path("deliveries", delivery_id, "effects", name)
    return Call(method="PUT", path=path, answer=Effect, body=body, repeatable=True)


@dataclass(frozen=True, slots=True)
class ClaimedWork:
    """A delivery that was claimed."""

    delivery: ClaimedDelivery
    lease: float
    requested_at: float


@dataclass(slots=True, kw_only=True)
class ClaimLoop:
    """Claims one delivery after another."""

    sources: tuple[str, ...]
    #: seconds; None: the service's default
    lease: float | None
    #: seconds without work after which the loop ends; None: never
    idle: float | None
    worker: str
    _request_key: str = field(default_factory=new_request_key)

    def next(self) -> Plan[ClaimedWork | None]:
        """Wait for the next delivery, also while the service is unavailable; None at the end."""
        until = clock.steady() + (inf if self.idle is None else self.idle)
        failures = 0
        trouble: OnceboxError | None = None
        while True:
            requested_at = clock.steady()
            try:
                claimed = yield from claim_plan(
                    self.sources or None,
                    wait=max(0.0, min(_LONGEST_POLL, until - requested_at)),
                    lease=self.lease,
                    worker=self.worker,
                    request_key=self._request_key,
                )
            except OnceboxError as error:
                failures += 1
                # A last request that had no time left says less than what went wrong before.
                if trouble is None or not isinstance(error, DeadlinePassed):
                    trouble = error
                self._retry_or_raise(trouble, until)
                yield PauseStep(backoff(failures))
                continue
            self._request_key = new_request_key()
            if claimed.deliveries:
                return ClaimedWork(claimed.deliveries[0], claimed.lease, requested_at)
            if clock.steady() >= until:
                return None

    def _retry_or_raise(self, error: OnceboxError, until: float) -> None:
        """Log an error that may be transient; raise the others."""
        if isinstance(error, RequestKeyReused):  # the sources of this API key have changed
            self._request_key = new_request_key()
        elif not error.retry_safe or clock.steady() >= until:
            raise error
        _log.warning("no work could be claimed, trying again: %s: %s", error.code, error)


def default_worker_name() -> str:
    """Return the machine and the process, in at most 100 characters."""
    return re.sub(r"[^!-~]", "-", f"{platform.node()}:{os.getpid()}")[-100:]


class EffectCall(msgspec.Struct, frozen=True, kw_only=True):
    """One effect of a delivery, and the plan that makes it happen once."""

    id: str
    fence: int
    #: seconds
    lease: float
    name: str
    function: Function
    safe: Safety
    verify: Function | None
    timeout: float
    window: float

    def plan(self) -> Plan[Any]:
        """Return what the function returned, this time or the first time."""
        requested_at = clock.steady()
        begun = yield from self._begin()
        if begun.go:
            return (yield from self._perform(begun, requested_at))
        before = self._earlier_effect(begun)
        if before.state == "done":
            return stored_result(before)
        return (yield from self._verify(begun.key, before))

    def _begin(self) -> Plan[BeginEffectResult]:
        """Record that the function is about to be called.

        If the outcome of this request is unknown, record that the function was not called; else
        the delivery could be held for a call that was never made. Other tries are not affected.
        """
        body = BeginEffect(
            fence=self.fence, safe=self.safe.value, timeout=self.timeout, window=self.window
        )
        call = begin_effect_call(self.id, self.name, body)
        try:
            return (yield from perform(replace(call, within=self.lease)))
        except GeneratorExit:
            raise
        except BaseException as error:
            if not isinstance(error, OnceboxError) or is_transient(error):
                with suppress(OnceboxError):
                    yield from self._finish("not_done", error="Stopped", within=_SHORT_TIMEOUT)
            raise

    def _earlier_effect(self, begun: BeginEffectResult) -> Effect:
        """Return what an earlier try recorded, unless the effect is held."""
        if begun.held:
            raise EffectOutcomeUnknown(
                f"effect {self.name!r} was started and its outcome is unknown"
            )
        if begun.before is None:
            raise LeaseLost("the lease was lost, so the effect was not begun")
        return begun.before

    def _perform(self, begun: BeginEffectResult, requested_at: float) -> Plan[Any]:
        """Call the function and record the outcome."""
        left = min(self.timeout, 2 * self.timeout - (clock.steady() - requested_at))
        if left <= 0:  # the process was paused: others may assume that the call is over
            yield from self._finish("not_done", error="TooLate", started_at=begun.started_at)
            raise Transient(f"the process was paused before {self.name!r} was called")
        function = with_key(self.function, begun.key)
        try:
            result = yield RunStep(function, left, self._record_still_running, self._record_success)
        except Exception as error:
            if proves_not_done(error):
                with suppress(OnceboxError):
                    why = type(error).__name__
                    yield from self._finish("not_done", error=why, started_at=begun.started_at)
            raise
        yield from self._record_success(result)
        return result

    def _verify(self, key: str, before: Effect) -> Plan[Any]:
        """Verify with the other side, once the lost call can no longer be running."""
        if self.verify is None:
            raise Transient(f"effect {self.name!r} was started by another try that is not over")
        leased = yield from perform(heartbeat_call(self.id, self.fence, self.lease))
        now = leased.until - round(self.lease * 1000)  # by the clock of the service
        yield PauseStep(max(0, before.surely_over_at - now) / 1000)
        try:
            answer = yield RunStep(with_key(self.verify, key), self.timeout)
        except NotDone:
            return (yield from self._begin_again(before))
        if not isinstance(answer, Done):
            raise EffectMisused(
                f"the verify function of {self.name!r} must return Done(…) or raise NotDone"
            )
        yield from self._record_success(answer.result)
        return answer.result

    def _begin_again(self, before: Effect) -> Plan[Any]:
        """Begin again after proof that the effect did not happen."""
        yield from self._finish("not_done", error="NotDone", started_at=before.started_at)
        requested_at = clock.steady()
        begun = yield from self._begin()
        if begun.go:
            return (yield from self._perform(begun, requested_at))
        known = self._earlier_effect(begun)
        if known.state != "done":
            raise LeaseLost(f"effect {self.name!r} is being done by another try")
        return stored_result(known)

    def _record_success(self, result: Any) -> Plan[None]:
        """Record success, without the result if it cannot be stored."""
        with suppress(BodyTooLarge):
            yield from self._finish("done", result=encoded_result(result))
            return
        yield from self._finish("done")

    def _record_still_running(self) -> Plan[None]:
        """Record that the function still runs after its timeout."""
        if self.verify is not None:
            with suppress(OnceboxError):
                yield from self._finish("unknown", error="RequestInProgress", within=_SHORT_TIMEOUT)

    def _finish(
        self,
        state: Literal["done", "not_done", "unknown"],
        *,
        result: Any = msgspec.UNSET,
        error: str | None = None,
        started_at: int | None = None,
        within: float | None = None,
    ) -> Plan[None]:
        body = FinishEffect(
            fence=self.fence, state=state, result=result, error=error, started_at=started_at
        )
        call = finish_effect_call(self.id, self.name, body)
        yield from perform(replace(call, within=2 * self.lease if within is None else within))


def with_key(function: Function, key: str) -> Function:
    """Return the function with the key as an argument if it takes one and has none yet."""
    given = function.keywords if isinstance(function, functools.partial) else {}
    if "idempotency_key" in given or not takes_key(function):
        return function
    return functools.partial(function, idempotency_key=key)


def encoded_result(result: Any) -> msgspec.Raw | msgspec.UnsetType:
    """Return a result as JSON; unset if it cannot be stored."""
    encoded = encode_result(result)
    return msgspec.Raw(encoded) if encoded and len(encoded) <= _MAX_RESULT_SIZE else msgspec.UNSET


def stored_result(done: Effect) -> Any:
    """Return the result of an effect that is done; ``NO_RESULT`` if none is stored."""
    return done.result if done.has_result else NO_RESULT


class BaseWork:
    """One try at one delivery."""

    #: a loop renews its lease and settles it, unless ``with`` does
    in_loop = False

    def __init__(self, claimed: ClaimedWork, time_limit: float) -> None:
        self.delivery = claimed.delivery
        #: seconds after which the claim expires without a heartbeat
        self.lease = claimed.lease
        #: the lease was lost: another worker may have the delivery now
        self.lost = False
        #: how the try ended, once the service has recorded it
        self.ended: TryEnded | None = None
        self._requested_at = claimed.requested_at
        self._time_limit = time_limit
        self._used_names: set[str] = set()
        self._held = False
        self._entered = False

    def __repr__(self) -> str:
        """Show the id and the fence, nothing that a sender wrote."""
        return f"{type(self).__name__}(id={self.id!r}, fence={self.delivery.fence})"

    @property
    def id(self) -> str:
        """The id of the delivery."""
        return self.delivery.id

    @property
    def source(self) -> str:
        """The source it came from."""
        return self.delivery.source

    @property
    def key(self) -> str:
        """The sender's id of the event."""
        return self.delivery.key

    @property
    def type(self) -> str:
        """The type of the event."""
        return self.delivery.type

    @property
    def body(self) -> bytes:
        """The body, exactly as it arrived."""
        return self.delivery.body

    @functools.cached_property
    def json(self) -> Any:
        """The body as JSON."""
        return msgspec.json.decode(self.body)

    def check_used(self) -> None:
        """Check that the work was used before more is claimed."""
        if not self._entered:
            raise WorkMisused(
                "use the work you claimed: with work: …; else its lease expires unused"
            )

    def _enter(self) -> None:
        if self._entered or self.ended is not None:
            raise WorkMisused(f"the work {self.id} was used before; claim the next")
        self._entered = True

    def _heartbeats(self) -> Plan[bool]:
        """Renew the lease until it is lost or the time limit is over; the block ends then."""
        until = clock.steady() + self._time_limit
        third = self.lease / 3
        pause = max(0.0, third - (clock.steady() - self._requested_at))
        while True:
            yield PauseStep(max(0.0, min(pause, until - clock.steady())))
            if clock.steady() >= until:
                return True
            call = heartbeat_call(self.id, self.delivery.fence, self.lease)
            try:
                yield from perform(replace(call, within=third))
            except ClientClosed:
                return True
            except (LeaseLost, NotFound):
                self.lost = True
                return True
            except OnceboxError:  # the fence decides, not the time: the lease may still be valid
                pause = third / 3
            else:
                pause = third

    def _settle_in_loop(
        self, error: BaseException | None = None, within: float | None = None
    ) -> Plan[None]:
        """Report the outcome of a try without ``with``; one that was settled is not again."""
        if not self._entered and self.ended is None:
            yield from self._settle(error, within)

    def _settle(self, error: BaseException | None, most: float | None = None) -> Plan[None]:
        """Report the outcome of the try, within ``most`` seconds."""
        if self._held or (error is not None and (self.lost or isinstance(error, LeaseLost))):
            return
        if error is None:  # also after the lease was lost: success is proof
            call = complete_call(self.id, self.delivery.fence)
        else:
            failure = failure_from_error(error)
            wait = None if failure.wait is None else min(_MAX_RETRY_AFTER, failure.wait / 1000)
            body = FailTry(
                fence=self.delivery.fence,
                error=failure.error,
                permanent=failure.permanent,
                retry_after=wait,
            )
            call = fail_call(self.id, body)
        stopped = error is not None and not isinstance(error, Exception)
        within = min(_SHORT_TIMEOUT if stopped else most or inf, self.lease)
        self.ended = yield from perform(replace(call, within=within))

    def _do_plan(
        self,
        name: str,
        function: Function,
        *,
        safe: str | Function | None,
        timeout: float | None,
        window: float = KEY_WINDOW,
    ) -> Plan[Any]:
        """Call a function at most once per delivery and name."""
        self._check_usable(name)
        timeout = min(CALL_TIMEOUT, self.lease * 2 / 3) if timeout is None else timeout
        if not 0 < timeout < self.lease:
            raise EffectMisused(
                f"the timeout of {name!r} must be shorter than the lease ({self.lease} s)"
            )
        effect = EffectCall(
            id=self.id,
            fence=self.delivery.fence,
            lease=self.lease,
            name=name,
            function=function,
            safe=choose_safety(safe, function),
            verify=safe if callable(safe) else None,
            timeout=timeout,
            window=window,
        )
        try:
            return (yield from effect.plan())
        except EffectOutcomeUnknown:
            self._held = True
            raise
        except LeaseLost:
            self.lost = True
            raise

    def _check_usable(self, name: str) -> None:
        check_key(name, "effect name")
        if not (self._entered or self.in_loop) or self.ended is not None:
            raise WorkMisused("effects happen inside: with work: …")
        if self.lost:
            raise LeaseLost("the lease was lost; another worker may have the delivery")
        if name in self._used_names:
            raise EffectNameReused(
                f"the effect name {name!r} was used twice in one run; give each its own"
            )
        self._used_names.add(name)


def log_failure(work: BaseWork, error: BaseException | None) -> None:
    """Log the error of a work block."""
    if isinstance(error, (LeaseLost, EffectOutcomeUnknown)):
        _log.warning("%r: %s", work, describe_error(error))
    elif isinstance(error, Exception):
        _log.warning("%r failed: %s", work, describe_error(error), exc_info=error)


def log_unreported(work: BaseWork, failure: OnceboxError) -> None:
    """Log that the outcome could not be reported."""
    _log.warning("%r ended, but this could not be reported: %s", work, describe_error(failure))
