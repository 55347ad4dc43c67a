"""``once``: what a handler uses so that a repeat of the delivery repeats no side effect."""

import asyncio
import functools
import inspect
from typing import Any, Unpack

import msgspec

from oncebox import clock, faults
from oncebox.errors import (
    EffectInDoubt,
    EffectMisused,
    EffectNameTwice,
    LeaseLost,
    NotDone,
    Transient,
)
from oncebox.ledger.deliveries.desk import Desk
from oncebox.ledger.deliveries.effects import Begun
from oncebox.model.arrival import check_key
from oncebox.model.asking import SendOptions
from oncebox.model.calling import (
    CALL_TIMEOUT,
    WINDOW,
    Function,
    choice,
    encoded,
    is_async,
    takes_key,
)
from oncebox.model.delivery import Delivery
from oncebox.model.effect import Begin, Done, Effect, EffectState, Finish, Safe, effect_key
from oncebox.model.email import Email
from oncebox.model.proof import is_not_done
from oncebox.telemetry import Telemetry
from oncebox.wire.sends import SendAnswer
from oncebox.worker.patience import patiently
from oncebox.worker.postbox import Postbox
from oncebox.worker.threads import in_thread


class _Call(msgspec.Struct, frozen=True, kw_only=True):
    """One effect as the handler asked for it."""

    name: str
    function: Function
    safe: Safe
    verify: Function | None
    timeout: float
    window: float


class _TheirError(Exception):
    """Carries a user's error past the store, which would take a driver's for its own."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


class Once:
    """Side effects of one try, each journalled under its name."""

    def __init__(
        self,
        delivery: Delivery,
        desk: Desk,
        telemetry: Telemetry,
        *,
        lease: float,
        postbox: Postbox,
    ) -> None:
        """Serve one try at one delivery."""
        self._delivery = delivery
        self._desk = desk
        self._telemetry = telemetry
        self._lease = lease
        self._call_timeout = min(CALL_TIMEOUT, lease * 2 / 3)
        self._postbox = postbox
        self._has_enqueued = False
        self._used: set[str] = set()
        self._background: set[asyncio.Future[None]] = set()

    def key(self, name: str) -> str:
        """Return the key for an effect: the same for every repeat, fit for other services."""
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
        window: float = WINDOW,
        **kwargs: Any,
    ) -> Any:
        """Call a function at most once per delivery and name; a repeat gets the stored result.

        ``safe`` says what to do when an earlier try began it and was never heard of again:
        ``"idempotent"`` calls it again with the same key while ``window`` lasts, ``"once"``
        holds the delivery for a person, a function asks the other side (it returns ``Done(…)``
        or raises ``NotDone``).

        Raises: EffectNameTwice, EffectMisused, EffectInDoubt, LeaseLost, and whatever it raises.
        """
        self._use(name)
        timeout = self._call_timeout if timeout is None else timeout
        if not 0 < timeout < self._lease:
            message = f"the timeout of {name!r} must be shorter than the lease ({self._lease} s)"
            raise EffectMisused(message)
        call = _Call(
            name=name,
            function=functools.partial(
                function, *args, **kwargs, **self._offer(function, name, kwargs)
            ),
            safe=choice(safe, function),
            verify=safe if callable(safe) else None,
            timeout=timeout,
            window=window,
        )
        wish = self._wish(call)
        begun = await self._begin(wish)
        if begun.go:
            return await self._perform(call, wish)
        return await self._repeat(call, begun.before)

    async def transaction(
        self,
        name: str,
        function: Function,
        /,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        """Run ``function(tx, …)`` in our own database, in one commit with the journal: truly once.

        Raises: EffectNameTwice, EffectMisused, LeaseLost, and whatever the function raises.
        """
        self._use(name)
        if inspect.iscoroutinefunction(function):
            message = f"the function of transaction {name!r} must be a plain one: no await inside"
            raise EffectMisused(message)

        def work(tx: Any) -> bytes | None:
            began = clock.steady()
            try:
                result = encoded(function(tx, *args, **kwargs))
            except Exception as error:
                raise _TheirError(error) from error
            self._refuse_slow(name, clock.steady() - began)
            return result

        wish = self._new_wish(name, Safe.ONCE, self._call_timeout)
        try:
            return self._stored(await patiently(lambda: self._desk.transact(wish, work)))
        except _TheirError as failure:
            raise failure.error from None
        finally:
            if self._has_enqueued:
                self._postbox.ring()

    async def send(
        self,
        email: Email,
        *,
        name: str | None = None,
        wait: float = 0.0,
        **options: Unpack[SendOptions],
    ) -> SendAnswer:
        """Send a mail once, by whomever and however often it is asked for.

        What makes it the same is ``event_type``, ``entity_id`` and who it is for, or a ``key``;
        the delivery and the ``name`` are kept with it. With ``wait`` it waits up to so many
        seconds for what becomes of it.

        Raises: InputRefused, NotFound, StoreUnavailable.
        """
        postbox = self._postbox.of_effect(name or options.get("event_type"))
        return await postbox.send(email, wait=wait, **options)

    def enqueue(
        self, tx: Any, email: Email, *, name: str | None = None, **options: Unpack[SendOptions]
    ) -> SendAnswer:
        """Send a mail once, if the ``transaction`` is committed that this is called in.

        Raises: InputRefused, NotFound.
        """
        self._has_enqueued = True
        postbox = self._postbox.of_effect(name or options.get("event_type"))
        return postbox.enqueue(tx, email, **options)

    def _refuse_slow(self, name: str, took: float) -> None:
        """Undo a transaction that made the others wait; it would do so every time."""
        limit = self._desk.transaction_limit
        if took > limit:
            message = f"transaction {name!r} took {took:.1f} s, over the limit of {limit:.0f} s"
            raise EffectMisused(message)

    def _use(self, name: str) -> None:
        check_key(name, "effect name")
        if name in self._used:
            message = f"the effect name {name!r} was used twice in one run; give each its own"
            raise EffectNameTwice(message)
        self._used.add(name)

    def _offer(self, function: Function, name: str, given: dict[str, Any]) -> dict[str, str]:
        """Return the key as an argument, for a function that takes one."""
        wanted = takes_key(function) and "idempotency_key" not in given
        return {"idempotency_key": self.key(name)} if wanted else {}

    def _wish(self, call: _Call) -> Begin:
        return self._new_wish(call.name, call.safe, call.timeout)

    def _new_wish(self, name: str, safe: Safe, timeout: float) -> Begin:
        now = self._desk.clock()
        return Begin(
            delivery_id=self._delivery.id,
            tenant=self._delivery.tenant,
            fence=self._delivery.fence,
            name=name,
            safe=safe,
            now=now,
            surely_over_at=now + int(2 * timeout * 1000),  # the journal's commit takes time too
        )

    async def _begin(self, wish: Begin) -> Begun:
        """Journal an effect as started; if we are stopped meanwhile, it was not begun."""
        beginning = asyncio.ensure_future(patiently(lambda: self._desk.begin(wish)))
        try:
            return await asyncio.shield(beginning)
        except asyncio.CancelledError:
            if (await beginning).go:
                await self._finish(wish.name, EffectState.NOT_DONE, error="Stopped")
            raise

    async def _perform(self, call: _Call, wish: Begin) -> Any:
        """Make the call and journal how it ended; silence leaves it started."""
        faults.point("effect.started")
        left = min(call.timeout, (wish.surely_over_at - self._desk.clock()) / 1000)
        if left <= 0:  # paused since: by the journal the call is over, and others may rely on it
            await self._finish(call.name, EffectState.NOT_DONE, error="TooLate")
            message = f"the process stood still before {call.name!r} was called"
            raise Transient(message)
        try:
            async with asyncio.timeout(left):
                result = await self._run(call)
        except Exception as error:
            if is_not_done(error):
                await self._finish(call.name, EffectState.NOT_DONE, error=type(error).__name__)
            raise
        faults.point("effect.done-not-recorded")
        await self._finish(call.name, EffectState.DONE, result=encoded(result))
        self._telemetry.effects.labels("called").inc()
        return result

    async def _run(self, call: _Call) -> Any:
        """Make the call; a plain function that outlives its time is in doubt until it ends."""
        if is_async(call.function):
            return await call.function()
        thread = asyncio.ensure_future(_in_thread(call.function))
        try:
            return await asyncio.shield(thread)
        except asyncio.CancelledError:
            # A thread cannot be stopped, so nobody may conclude that the call is over.
            waiting = asyncio.ensure_future(self._outlived(call, thread))
            self._background.add(waiting)
            waiting.add_done_callback(self._background.discard)
            if call.verify is not None:
                await self._finish(call.name, EffectState.UNKNOWN, error="StillRunning")
            raise

    async def _outlived(self, call: _Call, thread: asyncio.Future[Any]) -> None:
        """Record the late success of a call that outlived its time: it is proof."""
        result = await asyncio.gather(thread, return_exceptions=True)
        if not isinstance(result[0], BaseException):
            await self._finish(call.name, EffectState.DONE, result=encoded(result[0]))

    async def _repeat(self, call: _Call, before: Effect | None) -> Any:
        """Decide what an earlier try's journal means for this one."""
        if before is None:
            message = "the lease was lost, so the effect was not begun"
            raise LeaseLost(message)
        if before.state is EffectState.DONE:
            return self._stored(before)
        if before.state is EffectState.NOT_DONE:
            return await self._again(call, before)
        return await self._in_doubt(call, before)

    async def _in_doubt(self, call: _Call, before: Effect) -> Any:
        """Follow the declared choice for an effect nobody heard of again."""
        started = before.state is EffectState.STARTED
        in_window = self._desk.clock() <= before.first_started_at + call.window * 1000
        if started and call.safe is Safe.IDEMPOTENT and in_window:
            return await self._again(call, before)
        if started and call.verify is not None:
            return await self._verify(call, call.verify, before)
        await self._finish(call.name, EffectState.UNKNOWN)
        self._telemetry.effects.labels("in_doubt").inc()
        message = f"effect {call.name!r} was started and nobody knows whether it happened"
        raise EffectInDoubt(message)

    async def _again(self, call: _Call, before: Effect) -> Any:
        wish = msgspec.structs.replace(self._wish(call), seen=before.fence)
        if not await patiently(lambda: self._desk.begin_again(wish)):
            message = "the lease was lost, so the effect was not repeated"
            raise LeaseLost(message)
        self._telemetry.effects.labels("repeated").inc()
        return await self._perform(call, wish)

    async def _verify(self, call: _Call, verify: Function, before: Effect) -> Any:
        """Ask the other side, once the lost call can no longer be under way."""
        await asyncio.sleep(max(0, before.surely_over_at - self._desk.clock()) / 1000)
        asked = functools.partial(verify, **self._offer(verify, call.name, {}))
        try:
            async with asyncio.timeout(call.timeout):
                answer = await (asked() if is_async(asked) else _in_thread(asked))
        except NotDone:
            return await self._again(call, before)
        if not isinstance(answer, Done):
            message = f"the verify function of {call.name!r} must return Done(…) or raise NotDone"
            raise EffectMisused(message)
        await self._finish(call.name, EffectState.DONE, result=encoded(answer.result))
        self._telemetry.effects.labels("verified").inc()
        return answer.result

    def _stored(self, effect: Effect) -> Any:
        """Return a stored result; None where it could not be stored."""
        self._telemetry.effects.labels("returned").inc()
        if effect.result is None:
            self._telemetry.log.warning(
                "effect_result_not_stored", delivery=self._delivery.id, effect=effect.name
            )
            return None
        return msgspec.json.decode(effect.result)

    async def _finish(
        self,
        name: str,
        state: EffectState,
        *,
        result: bytes | None = None,
        error: str | None = None,
    ) -> None:
        ending = Finish(
            delivery_id=self._delivery.id,
            fence=self._delivery.fence,
            name=name,
            state=state,
            now=self._desk.clock(),
            result=result,
            error=error,
        )
        await patiently(lambda: self._desk.finish(ending))


async def _in_thread(function: Function) -> Any:
    """Run a plain function in a thread; what it returns may still have to be awaited."""
    result = await in_thread(function)
    return await result if inspect.isawaitable(result) else result
