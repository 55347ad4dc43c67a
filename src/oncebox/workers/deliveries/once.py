"""``once``: side effects a handler journals, so that a retry does not repeat them."""

import asyncio
import contextvars
import functools
import inspect
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from types import TracebackType
from typing import Any, Unpack

import msgspec

from oncebox.core import clock, faults
from oncebox.core.metrics import Telemetry
from oncebox.errors import (
    EffectMisused,
    EffectNameReused,
    EffectOutcomeUnknown,
    LeaseLost,
    NotDone,
    Transient,
)
from oncebox.ledger.deliveries import effects
from oncebox.ledger.deliveries.effects import BeginResult
from oncebox.ledger.sends.outbox import Outbox
from oncebox.ledger.transactions import Ledger
from oncebox.model.deliveries.delivery import Delivery
from oncebox.model.deliveries.effects import (
    CALL_TIMEOUT,
    KEY_WINDOW,
    BeginEffect,
    Done,
    Effect,
    EffectState,
    FinishEffect,
    Function,
    Safety,
    choose_safety,
    decode_result,
    effect_key,
    encode_result,
    is_async,
    proves_not_done,
    takes_key,
)
from oncebox.model.sends.email import Email
from oncebox.model.sends.intent import SendOptions, SendOrigin, intent_from_options
from oncebox.model.validation import check_key
from oncebox.schemas.sends import SendAnswer, to_answer


async def run_in_thread(function: Callable[[], Any]) -> Any:
    """Run a function in a fresh thread.

    A thread cannot be cancelled; a function that never returns blocks only its own thread, not one
    of a pool. If the caller is cancelled, the traceback shows where the function is.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            result, failure = context.run(function), None
        except BaseException as error:  # noqa: BLE001 - it belongs to the caller
            result, failure = None, error
        with suppress(RuntimeError):  # the loop is gone, and so is the caller
            loop.call_soon_threadsafe(_resolve_future, future, result, failure)

    thread = Thread(target=run, name="oncebox-call", daemon=True)
    thread.start()
    try:
        return await future
    except asyncio.CancelledError as error:
        if future.cancelled():  # not the function's own
            raise error.with_traceback(_place_in(thread)) from None
        raise


def _place_in(thread: Thread) -> TracebackType | None:
    """Return where a thread is now, as a traceback."""
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 - it is documented
    trace = None
    while frame is not None:
        trace = TracebackType(trace, frame, frame.f_lasti, frame.f_lineno or 0)
        frame = frame.f_back
    return trace


def _resolve_future(
    future: asyncio.Future[Any], result: object, failure: BaseException | None
) -> None:
    if future.done():
        return
    if failure is None:
        future.set_result(result)
    elif isinstance(failure, StopIteration):
        future.set_exception(RuntimeError("the function raised StopIteration"))
    else:
        future.set_exception(failure)


class SendApi:
    """Sends mail of one origin."""

    def __init__(self, outbox: Outbox, origin: SendOrigin) -> None:
        self._outbox = outbox
        self._origin = origin

    def for_effect(self, effect: str | None) -> "SendApi":
        """Return the send API of one effect of the same origin."""
        return SendApi(self._outbox, msgspec.structs.replace(self._origin, effect=effect))

    async def send(
        self, email: Email, *, wait: float = 0.0, **options: Unpack[SendOptions]
    ) -> SendAnswer:
        """Store a mail once, and wait up to so many seconds for its outcome."""
        stored = await self._outbox.send(self._origin, intent_from_options(email, **options))
        later = await self._outbox.outcomes.wait(stored.send, wait) if wait > 0 else None
        return to_answer(stored, self._outbox.clock(), later=later)

    def enqueue(self, tx: Any, email: Email, **options: Unpack[SendOptions]) -> SendAnswer:
        """Store a mail once, in a transaction; it is sent if and when that is committed."""
        stored = self._outbox.enqueue(tx, self._origin, intent_from_options(email, **options))
        return to_answer(stored, self._outbox.clock())

    def notify(self) -> None:
        """Wake the send worker, after a transaction."""
        self._outbox.notify()


class _EffectCall(msgspec.Struct, frozen=True, kw_only=True):
    """One effect as the handler asked for it."""

    name: str
    function: Function
    is_async: bool
    safe: Safety
    verify: Function | None
    timeout: float
    window: float


class _UserError(Exception):
    """Carries a user's error through the database layer, which converts those of drivers."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


class Once:
    """Side effects of one try, each journalled under its name."""

    def __init__(
        self,
        delivery: Delivery,
        ledger: Ledger,
        telemetry: Telemetry,
        *,
        lease: float,
        send_api: SendApi,
    ) -> None:
        """Journal the effects of one try; the ledger retries."""
        self._delivery = delivery
        self._ledger = ledger
        self._telemetry = telemetry
        self._lease = lease
        self._call_timeout = min(CALL_TIMEOUT, lease * 2 / 3)
        self._send_api = send_api
        self._has_enqueued = False
        self._used: set[str] = set()
        self._background: set[asyncio.Future[None]] = set()

    def key(self, name: str) -> str:
        """Return the idempotency key of an effect: the same for every repeat."""
        each = self._delivery
        return effect_key(each.tenant, each.source, each.key, each.variant, name)

    async def do(
        self,
        name: str,
        function: Function,
        /,
        *args: Any,
        safe: str | Function | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - it bounds the user's call, not ours
        window: float = KEY_WINDOW,
        **kwargs: Any,
    ) -> Any:
        """Call a function at most once per delivery and name; a repeat gets the stored result.

        ``NO_RESULT`` if it is done and no result is stored.

        ``safe`` says what to do when an earlier try began it and its outcome is unknown:
        ``"idempotent"`` calls it again with the same key while ``window`` lasts, ``"once"``
        holds the delivery for a person, a function asks the other side (it returns ``Done(…)``
        or raises ``NotDone``).

        Raises: EffectNameReused, EffectMisused, EffectOutcomeUnknown, LeaseLost; and whatever the
        function raises.
        """
        self._reserve_name(name)
        timeout = self._call_timeout if timeout is None else timeout
        if not 0 < timeout < self._lease:
            raise EffectMisused(
                f"the timeout of {name!r} must be shorter than the lease ({self._lease} s)"
            )
        call = _EffectCall(
            name=name,
            function=functools.partial(
                function, *args, **kwargs, **self._key_argument(function, name, kwargs)
            ),
            is_async=is_async(function),
            safe=choose_safety(safe, function),
            verify=safe if callable(safe) else None,
            timeout=timeout,
            window=window,
        )
        request = self._begin_request(call.name, call.safe, call.timeout)
        begun = await self._begin(request)
        if begun.go:
            return await self._call_and_journal(call, request)
        return await self._resume(call, begun.before)

    async def transaction(self, name: str, function: Function, /, *args: Any, **kwargs: Any) -> Any:
        """Run ``function(tx, …)`` in our own database, in one commit with the journal: truly once.

        Raises: EffectNameReused, EffectMisused, LeaseLost, and whatever the function raises.
        """
        self._reserve_name(name)
        if inspect.iscoroutinefunction(function):
            raise EffectMisused(
                f"the function of transaction {name!r} must be a plain one: no await inside"
            )

        def work(tx: Any) -> bytes | None:
            began = clock.steady()
            try:
                result = encode_result(function(tx, *args, **kwargs))
            except Exception as error:
                raise _UserError(error) from error
            took, limit = clock.steady() - began, self._ledger.transaction_limit
            if took > limit:  # others waited for it, and would do so at every retry
                raise EffectMisused(
                    f"transaction {name!r} took {took:.1f} s, over the limit of {limit:.0f} s"
                )
            return result

        request = self._begin_request(name, Safety.ONCE, self._call_timeout)
        now = self._ledger.clock()
        try:
            return self._stored_result(
                await self._ledger.write_alone(effects.transact, request, work, now)
            )
        except _UserError as failure:
            raise failure.error from None
        finally:
            if self._has_enqueued:
                self._send_api.notify()

    async def send(
        self,
        email: Email,
        *,
        name: str | None = None,
        wait: float = 0.0,
        **options: Unpack[SendOptions],
    ) -> SendAnswer:
        """Send a mail once, however often this is called.

        The same ``event_type``, ``entity_id`` and recipients, or the same ``key``, mean the same
        mail; the delivery and the ``name`` are stored with it. With ``wait``, wait up to so many
        seconds for its outcome.

        Raises: InputRefused, NotFound, StoreUnavailable.
        """
        send_api = self._send_api.for_effect(name or options.get("event_type"))
        return await send_api.send(email, wait=wait, **options)

    def enqueue(
        self, tx: Any, email: Email, *, name: str | None = None, **options: Unpack[SendOptions]
    ) -> SendAnswer:
        """Send a mail once, if the ``transaction`` around this call is committed.

        Raises: InputRefused, NotFound.
        """
        self._has_enqueued = True
        send_api = self._send_api.for_effect(name or options.get("event_type"))
        return send_api.enqueue(tx, email, **options)

    def _reserve_name(self, name: str) -> None:
        check_key(name, "effect name")
        if name in self._used:
            raise EffectNameReused(
                f"the effect name {name!r} was used twice in one run; give each its own"
            )
        self._used.add(name)

    def _key_argument(self, function: Function, name: str, given: dict[str, Any]) -> dict[str, str]:
        wanted = takes_key(function) and "idempotency_key" not in given
        return {"idempotency_key": self.key(name)} if wanted else {}

    def _begin_request(self, name: str, safe: Safety, timeout: float) -> BeginEffect:
        return BeginEffect(
            delivery_id=self._delivery.id,
            tenant=self._delivery.tenant,
            fence=self._delivery.fence,
            name=name,
            safe=safe,
            # Twice the timeout: the commit of the journal takes time too.
            surely_over_at=self._ledger.clock() + int(2 * timeout * 1000),
        )

    async def _begin(self, request: BeginEffect) -> BeginResult:
        """Journal an effect as started; if the try is cancelled meanwhile, as not done."""
        beginning = asyncio.ensure_future(self._ledger.submit(effects.begin, request))
        try:
            return await asyncio.shield(beginning)
        except asyncio.CancelledError:
            if (await beginning).go:
                await self._finish(request.name, EffectState.NOT_DONE, error="Stopped")
            raise

    async def _call_and_journal(self, call: _EffectCall, request: BeginEffect) -> Any:
        """Make the call and journal its outcome; without proof it stays started."""
        faults.point("effect.started")
        left = min(call.timeout, (request.surely_over_at - self._ledger.clock()) / 1000)
        if left <= 0:  # the process was paused: by the journal, the call is over already
            await self._finish(call.name, EffectState.NOT_DONE, error="TooLate")
            raise Transient(f"the process stood still before {call.name!r} was called")
        try:
            async with asyncio.timeout(left):
                result = await self._call(call)
        except Exception as error:
            if proves_not_done(error):
                await self._finish(call.name, EffectState.NOT_DONE, error=type(error).__name__)
            raise
        faults.point("effect.done-not-recorded")
        await self._finish(call.name, EffectState.DONE, result=encode_result(result))
        self._telemetry.effects.labels("called").inc()
        return result

    async def _call(self, call: _EffectCall) -> Any:
        """Make the call; the outcome of a plain function is unknown until its thread ends."""
        if call.is_async:
            return await call.function()
        thread = asyncio.ensure_future(_call_in_thread(call.function))
        try:
            return await asyncio.shield(thread)
        except asyncio.CancelledError:
            # A thread cannot be stopped, so the call may not be over.
            waiting = asyncio.ensure_future(self._record_late_result(call, thread))
            self._background.add(waiting)
            waiting.add_done_callback(self._background.discard)
            if call.verify is not None:
                await self._finish(call.name, EffectState.UNKNOWN, error="RequestInProgress")
            raise

    async def _record_late_result(self, call: _EffectCall, thread: asyncio.Future[Any]) -> None:
        """Record the success of a call that outlived its time limit."""
        result = await asyncio.gather(thread, return_exceptions=True)
        if not isinstance(result[0], BaseException):
            await self._finish(call.name, EffectState.DONE, result=encode_result(result[0]))

    async def _resume(self, call: _EffectCall, before: Effect | None) -> Any:
        """Continue an effect that an earlier try began."""
        if before is None:
            raise LeaseLost("the lease was lost, so the effect was not begun")
        if before.state is EffectState.DONE:
            return self._stored_result(before)
        if before.state is EffectState.NOT_DONE:
            return await self._restart(call, before)
        return await self._resolve_unknown(call, before)

    async def _resolve_unknown(self, call: _EffectCall, before: Effect) -> Any:
        """Follow the declared choice for an effect of unknown outcome."""
        started = before.state is EffectState.STARTED
        in_window = self._ledger.clock() <= before.first_started_at + call.window * 1000
        if started and call.safe is Safety.IDEMPOTENT and in_window:
            return await self._restart(call, before)
        if started and call.verify is not None:
            return await self._verify(call, call.verify, before)
        await self._finish(call.name, EffectState.UNKNOWN)
        self._telemetry.effects.labels("in_doubt").inc()
        raise EffectOutcomeUnknown(
            f"effect {call.name!r} was started and nobody knows whether it happened"
        )

    async def _restart(self, call: _EffectCall, before: Effect) -> Any:
        request = msgspec.structs.replace(
            self._begin_request(call.name, call.safe, call.timeout), known_fence=before.fence
        )
        if not await self._ledger.submit(effects.begin_again, request):
            raise LeaseLost("the lease was lost, so the effect was not repeated")
        self._telemetry.effects.labels("repeated").inc()
        return await self._call_and_journal(call, request)

    async def _verify(self, call: _EffectCall, verify: Function, before: Effect) -> Any:
        """Ask the other side, once the lost call can no longer be running."""
        await asyncio.sleep(max(0, before.surely_over_at - self._ledger.clock()) / 1000)
        asked = functools.partial(verify, **self._key_argument(verify, call.name, {}))
        try:
            async with asyncio.timeout(call.timeout):
                answer = await (asked() if is_async(asked) else _call_in_thread(asked))
        except NotDone:
            return await self._restart(call, before)
        if not isinstance(answer, Done):
            raise EffectMisused(
                f"the verify function of {call.name!r} must return Done(…) or raise NotDone"
            )
        await self._finish(call.name, EffectState.DONE, result=encode_result(answer.result))
        self._telemetry.effects.labels("verified").inc()
        return answer.result

    def _stored_result(self, effect: Effect) -> Any:
        """Return a stored result; ``NO_RESULT`` where there is none."""
        self._telemetry.effects.labels("returned").inc()
        if effect.result is None:
            self._telemetry.log.warning(
                "effect_result_not_stored", delivery=self._delivery.id, effect=effect.name
            )
        return decode_result(effect.result)

    async def _finish(
        self,
        name: str,
        state: EffectState,
        *,
        result: bytes | None = None,
        error: str | None = None,
    ) -> None:
        ending = FinishEffect(
            delivery_id=self._delivery.id,
            fence=self._delivery.fence,
            name=name,
            state=state,
            result=result,
            error=error,
        )
        await self._ledger.submit(effects.finish, ending)


async def _call_in_thread(function: Function) -> Any:
    """Run a plain function in a thread; what it returns may still have to be awaited."""
    result = await run_in_thread(function)
    return await result if inspect.isawaitable(result) else result


class SyncOnce:
    """``once`` for handlers that are plain functions."""

    def __init__(self, once: Once, loop: asyncio.AbstractEventLoop) -> None:
        self._once = once
        self._loop = loop
        self.key = once.key
        self.enqueue = once.enqueue

    def do(self, name: str, function: Function, /, *args: Any, **kwargs: Any) -> Any:
        """Call a function at most once per delivery and name; see ``Once.do``."""
        return self._wait(self._once.do(name, function, *args, **kwargs))

    def transaction(self, name: str, function: Function, /, *args: Any, **kwargs: Any) -> Any:
        """Run a function in our own database, truly once; see ``Once.transaction``."""
        return self._wait(self._once.transaction(name, function, *args, **kwargs))

    def send(
        self,
        email: Email,
        *,
        name: str | None = None,
        wait: float = 0.0,
        **options: Unpack[SendOptions],
    ) -> SendAnswer:
        """Send a mail once; see ``Once.send``."""
        answer: SendAnswer = self._wait(self._once.send(email, name=name, wait=wait, **options))
        return answer

    def _wait(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
