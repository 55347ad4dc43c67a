"""`client.deliveries` (accept, list, replay, claim, work), `client.quarantine` and `Work`."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from functools import cached_property, partial
from types import TracebackType
from typing import Any, Literal, Self

from oncebox.client.asynchronous.runner import AsyncHeartbeats, AsyncResource, AsyncRunner
from oncebox.client.core import work as plans
from oncebox.client.core.calls import delete_call, get_call, page_call, post_call
from oncebox.client.core.work import BaseWork, ClaimedWork, ClaimLoop
from oncebox.errors import LeaseLost, OnceboxError
from oncebox.model.deliveries.delivery import DeliveryState
from oncebox.model.deliveries.effects import KEY_WINDOW, Function
from oncebox.schemas.deliveries import (
    AcceptedDelivery,
    AdmitResult,
    BatchItem,
    Delivery,
    DeliveryInspection,
    DeliveryPage,
    DeliveryQuery,
    Effect,
    HoldDelivery,
    InspectQuery,
    QuarantineQuery,
    RejectedRequest,
    RejectedRequestDetail,
    RejectedRequestPage,
    ReplayDelivery,
    ReplayResult,
    SubmitDelivery,
)
from oncebox.schemas.fields import ReasonBody
from oncebox.schemas.pull import (
    BeginEffect,
    BeginEffectResult,
    ClaimResponse,
    FailTry,
    FinishEffect,
    LeaseRenewed,
    TryEnded,
)


class AsyncWork(BaseWork):
    """One claimed delivery: ``async with work: …`` completes it, or fails it if the block raises.

    Async only: if the lease is lost or the time limit is over, the block is cancelled.
    """

    def __init__(self, runner: AsyncRunner, claimed: ClaimedWork, time_limit: float) -> None:
        super().__init__(claimed, time_limit)
        self._run = runner.run
        self._lease = AsyncHeartbeats(runner)

    async def do(
        self,
        name: str,
        function: Function,
        /,
        *args: Any,
        safe: str | Function | None = None,
        timeout: float | None = None,
        window: float = KEY_WINDOW,
        **kwargs: Any,
    ) -> Any:
        """Call a function at most once per delivery and name; a repeat gets the stored result.

        ``safe`` decides what happens if an earlier try began the call and its outcome is
        unknown: ``"idempotent"`` calls it again with the same key while ``window`` lasts,
        ``"once"`` holds the delivery for a person, a function verifies with the other side (it
        returns ``Done(…)`` or raises ``NotDone``). With ``Client`` the function runs in this
        thread and cannot be interrupted: it must end within ``timeout`` seconds. With
        ``AsyncClient`` a plain function runs in a thread and is abandoned after ``timeout``.

        Raises: EffectNameReused, EffectMisused, EffectOutcomeUnknown, LeaseLost, and every error
        of the function.
        """
        bound = partial(function, *args, **kwargs)
        plan = self._do_plan(name, bound, safe=safe, timeout=timeout, window=window)
        return await self._run(plan)

    async def __aenter__(self) -> Self:
        self._enter()
        await self._lease.start(self._heartbeats())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Report the outcome; only what is no ``Exception`` is raised further."""
        stopped = await self._lease.leave(kind, error, trace)
        if stopped is not None:
            lost = LeaseLost("the lease was lost, so the work was stopped")
            error = lost if self.lost else stopped
        try:
            await self._run(self._settle(error))
        except OnceboxError as failure:
            plans.log_unreported(self, failure)
        finally:
            self._lease.stop()
        plans.log_failure(self, error)
        return isinstance(error, Exception)


class AsyncEffects(AsyncResource):
    """``client.deliveries.effects``."""

    async def begin(
        self,
        id: str,
        name: str,
        fence: int,
        *,
        safe: Literal["idempotent", "once", "verify"] = "once",
        timeout: float = 20,
        window: float = 86_400,
    ) -> BeginEffectResult:
        """Record a side effect before it happens; return whether it happened before.

        Raises: LeaseLost.
        """
        body = BeginEffect(fence=fence, safe=safe, timeout=timeout, window=window)
        return await self._run(plans.begin_effect_call(id, name, body))

    async def finish(
        self,
        id: str,
        name: str,
        fence: int,
        state: Literal["done", "not_done", "unknown"],
        *,
        result: Any = None,
        error: str | None = None,
        started_at: int | None = None,
    ) -> Effect:
        """Record the outcome of a side effect; return the effect as recorded.

        An outcome other than done applies to the start that ``started_at`` names, else to this
        claim's own.
        """
        body = FinishEffect(
            fence=fence, state=state, result=result, error=error, started_at=started_at
        )
        return await self._run(plans.finish_effect_call(id, name, body))


class AsyncDeliveries(AsyncResource):
    """``client.deliveries``."""

    @cached_property
    def effects(self) -> AsyncEffects:
        """Effects of claimed deliveries."""
        return AsyncEffects(self._runner)

    async def accept(
        self,
        source: str,
        *,
        key: str | None = None,
        body: bytes | str = b"",
        type: str = "",
        headers: Iterable[tuple[str, str]] = (),
        order_key: str | None = None,
    ) -> AcceptedDelivery:
        """Store an event once. When this returns, it is on disk.

        The same ``key`` is the same event; without one, the same body is. ``arrival`` of the
        answer is ``new``, ``duplicate``, or ``conflict`` if the key is known with another body.

        Raises: InputRefused, SourceUnknown, SourcePaused, Forbidden, StoreUnavailable.
        """
        event = plans.submission(
            source, key=key, body=body, type=type, headers=headers, order_key=order_key
        )
        call = post_call(AcceptedDelivery, event, "deliveries", repeatable=True)
        return await self._run(call)

    async def accept_batch(self, deliveries: Iterable[SubmitDelivery]) -> Sequence[BatchItem]:
        """Store several events in their order, each once and by itself.

        Make each with ``oncebox.client.submission``. The answers have the order of the events;
        ``error`` of an answer says why its event was not stored. After an exception, submit all
        of them again: those that were stored are duplicates then.

        Raises: Forbidden, StoreUnavailable.
        """
        return await self._run(plans.accept_batch_plan(deliveries))

    def list(
        self, *, state: DeliveryState | str | None = None, source: str | None = None
    ) -> AsyncIterator[Delivery]:
        """Iterate over deliveries, newest first."""
        return self._runner.iterate(
            page_call(DeliveryPage, DeliveryQuery, "deliveries", state=state, source=source)
        )

    async def page(
        self,
        *,
        state: DeliveryState | str | None = None,
        source: str | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> DeliveryPage:
        """Return one page of deliveries, newest first."""
        filters = {"state": state, "source": source, "limit": limit, "cursor": cursor}
        return await self._run(page_call(DeliveryPage, DeliveryQuery, "deliveries", **filters))

    async def inspect(self, id: str, *, payload: bool = False) -> DeliveryInspection:
        """Return everything known of a delivery, with its body and headers if ``payload``."""
        query = InspectQuery(payload=payload)
        return await self._run(get_call(DeliveryInspection, "deliveries", id, query=query))

    async def replay(
        self,
        id: str,
        *,
        why: str,
        effects: Mapping[str, Literal["done", "not_done"]] | None = None,
        results: Mapping[str, Any] | None = None,
        dry_run: bool = False,
    ) -> ReplayResult:
        """Run a done or dead delivery again; effects that are done stay done.

        ``effects`` is your decision on effects with an unknown outcome, ``results`` what those
        that are done have returned; without it, their repeat returns ``NO_RESULT``.
        """
        body = ReplayDelivery(
            why=why, effects=dict(effects or {}), results=dict(results or {}), dry_run=dry_run
        )
        # Not repeatable: a second replay would run the delivery a second time.
        call = post_call(ReplayResult, body, "deliveries", id, "replay", repeatable=dry_run)
        return await self._run(call)

    async def hold(self, id: str, *, why: str) -> Delivery:
        """Keep a pending delivery from running."""
        return await self._run(post_call(Delivery, HoldDelivery(why=why), "deliveries", id, "hold"))

    async def release(
        self,
        id: str,
        *,
        why: str,
        effects: Mapping[str, Literal["done", "not_done"]] | None = None,
        results: Mapping[str, Any] | None = None,
        dry_run: bool = False,
    ) -> ReplayResult:
        """Run a held delivery; ``effects`` and ``results`` as in ``replay``."""
        body = ReplayDelivery(
            why=why, effects=dict(effects or {}), results=dict(results or {}), dry_run=dry_run
        )
        call = post_call(ReplayResult, body, "deliveries", id, "release", repeatable=dry_run)
        return await self._run(call)

    async def drop(
        self,
        id: str,
        *,
        why: str,
        effects: Mapping[str, Literal["done", "not_done"]] | None = None,
        results: Mapping[str, Any] | None = None,
        dry_run: bool = False,
    ) -> ReplayResult:
        """End a held delivery without running it; ``effects`` and ``results`` as in ``replay``.

        It is done then, with outcome ``dropped``; ``replay`` runs it after all.
        """
        body = ReplayDelivery(
            why=why, effects=dict(effects or {}), results=dict(results or {}), dry_run=dry_run
        )
        call = post_call(ReplayResult, body, "deliveries", id, "drop", repeatable=dry_run)
        return await self._run(call)

    async def claim(
        self,
        sources: Sequence[str] | str | None = None,
        *,
        limit: int = 1,
        wait: float = 0,
        lease: float | None = None,
        worker: str = "pull",
        request_key: str | None = None,
    ) -> ClaimResponse:
        """Claim deliveries of some sources, or of all that the key may work on.

        Waits up to ``wait`` seconds in long polls; where a proxy cuts those, in short ones. The
        same ``request_key`` returns the same claims, so none is lost with its answer.

        Raises: RequestKeyReused, NotFound if a source cannot be pulled.
        """
        plan = plans.claim_plan(
            sources, limit=limit, wait=wait, lease=lease, worker=worker, request_key=request_key
        )
        return await self._run(plan)

    async def heartbeat(self, id: str, fence: int, *, lease: float | None = None) -> LeaseRenewed:
        """Renew a claim for ``lease`` seconds from now.

        Raises: LeaseLost.
        """
        return await self._run(plans.heartbeat_call(id, fence, lease))

    async def complete(self, id: str, fence: int) -> TryEnded:
        """Complete a delivery.

        Raises: LeaseLost.
        """
        return await self._run(plans.complete_call(id, fence))

    async def fail(
        self,
        id: str,
        fence: int,
        error: str,
        *,
        permanent: bool = False,
        retry_after: float | None = None,
    ) -> TryEnded:
        """Fail a try: the delivery is retried after ``retry_after`` seconds, or given up.

        Raises: LeaseLost.
        """
        body = FailTry(fence=fence, error=error, permanent=permanent, retry_after=retry_after)
        return await self._run(plans.fail_call(id, body))

    async def work(
        self,
        *sources: str,
        lease: float | None = None,
        time_limit: float = 300,
        idle: float | None = None,
        worker: str | None = None,
    ) -> AsyncIterator[AsyncWork]:
        """Claim one delivery after another of these sources, or of all the key may work on.

        Use each in its own ``async with`` block, which renews its lease for up to ``time_limit``
        seconds and reports the outcome. With ``idle``, the loop ends after so many seconds
        without work; else it waits forever, also while the service is unavailable.
        """
        loop = ClaimLoop(
            sources=sources, lease=lease, idle=idle, worker=worker or plans.default_worker_name()
        )
        while (claimed := await self._run(loop.next())) is not None:
            work = AsyncWork(self._runner, claimed, time_limit)
            yield work
            work.check_used()


class AsyncQuarantine(AsyncResource):
    """``client.quarantine``."""

    def list(self, *, source: str | None = None) -> AsyncIterator[RejectedRequest]:
        """Iterate over rejected requests, newest first."""
        return self._runner.iterate(
            page_call(RejectedRequestPage, QuarantineQuery, "quarantine", source=source)
        )

    async def page(
        self, *, source: str | None = None, limit: int | None = None, cursor: str | None = None
    ) -> RejectedRequestPage:
        """Return one page of rejected requests, newest first."""
        filters = {"source": source, "limit": limit, "cursor": cursor}
        return await self._run(
            page_call(RejectedRequestPage, QuarantineQuery, "quarantine", **filters)
        )

    async def get(self, id: str) -> RejectedRequestDetail:
        """Return a rejected request with its headers and body, without possible secrets."""
        return await self._run(get_call(RejectedRequestDetail, "quarantine", id))

    async def retry(self, id: str, *, why: str = "") -> AdmitResult:
        """Verify a rejected request again with today's secrets; accept it if it is valid."""
        return await self._run(
            post_call(AdmitResult, ReasonBody(why=why), "quarantine", id, "retry")
        )

    async def forget(self, id: str) -> None:
        """Delete a rejected request."""
        await self._run(delete_call(type(None), "quarantine", id))
