"""Handler and policy registry, and the execution of one try of a delivery."""

import asyncio
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from oncebox.core.metrics import Telemetry
from oncebox.errors import (
    ConfigInvalid,
    EffectMisused,
    HandlerRegisteredTwice,
)
from oncebox.ledger.sends.outbox import Outbox
from oncebox.ledger.transactions import Ledger
from oncebox.model.deliveries.delivery import (
    Delivery,
    DeliveryOutcome,
    DeliveryState,
    Settlement,
)
from oncebox.model.deliveries.effects import is_async
from oncebox.model.deliveries.retry import (
    RetryRules,
)
from oncebox.model.sends.intent import SendOrigin
from oncebox.model.validation import check_source_name, check_type
from oncebox.model.webhooks.source import Source
from oncebox.workers.deliveries import policies
from oncebox.workers.deliveries.middleware import Middleware, Process, compose
from oncebox.workers.deliveries.once import Once, SendApi, SyncOnce, run_in_thread
from oncebox.workers.deliveries.policies import PolicyCheck, PolicyFunction

ANY_TYPE = "*"

HandlerFunction = Callable[..., Any]
#: returns a source of the settings or the database
FindConfiguredSource = Callable[[str], Source | None]


class Handler(msgspec.Struct, frozen=True):
    """A user's function for one source and type."""

    source: str
    type: str
    function: HandlerFunction
    #: seconds one run may take; None is the worker's own limit
    limit: float | None
    is_async: bool


class SourceRules(msgspec.Struct, frozen=True, kw_only=True):
    """Rules for the deliveries of one source."""

    retry: RetryRules
    #: what a redelivery of failed or dead work does: ``rearm`` or ``count``
    redelivery: str = "rearm"
    #: deliveries begun per second, and worked on at the same time, by all workers together
    rate: int | None = None
    concurrency: int | None = None
    #: nothing of it is claimed
    paused: bool = False
    #: who works on it: a ``handler`` here, or workers that come to ``pull``
    mode: str = "handler"


class Handlers:
    """The handlers, policies and source rules of a program."""

    def __init__(self, retry: RetryRules) -> None:
        """Use ``retry`` for sources without rules of their own."""
        self._retry = retry
        self._handlers: dict[tuple[str, str], Handler] = {}
        self._policies: dict[str, PolicyFunction] = {}
        self._rules: dict[str, SourceRules] = {}
        self._find_configured: FindConfiguredSource = lambda _name: None

    def use_configured_sources(self, find: FindConfiguredSource) -> None:
        """Use rules of configured sources where the program sets none."""
        self._find_configured = find

    def add(self, source: str, type_: str, function: HandlerFunction, limit: float | None) -> None:
        """Register a handler."""
        check_source_name(source)
        check_type(type_)
        if (source, type_) in self._handlers:
            raise HandlerRegisteredTwice(
                f"there are two handlers for {source!r}, {type_!r}; remove one"
            )
        self._handlers[source, type_] = Handler(
            source, type_, function, limit, is_async(inspect.unwrap(function))
        )

    def add_policy(self, source: str, function: PolicyFunction) -> None:
        """Register a policy."""
        check_source_name(source)
        if source in self._policies:
            raise HandlerRegisteredTwice(f"there are two policies for {source!r}; remove one")
        self._policies[source] = function

    def set_rules(
        self,
        source: str,
        *,
        redelivery: str,
        retry: dict[str, int | None],
        rate: int | None,
        concurrency: int | None,
    ) -> None:
        """Set the rules of one source."""
        check_source_name(source)
        if redelivery not in {"rearm", "count"}:
            raise ConfigInvalid(f"redelivery of {source!r} is either 'rearm' or 'count'")
        for name, limit in (("rate", rate), ("concurrency", concurrency)):
            if limit is not None and limit < 1:
                raise ConfigInvalid(f"{name} of {source!r} is at least 1")
        given = {name: value for name, value in retry.items() if value is not None}
        rules = msgspec.structs.replace(self._retry, **given)
        self.put_rules(
            source,
            SourceRules(retry=rules, redelivery=redelivery, rate=rate, concurrency=concurrency),
        )

    def put_rules(self, source: str, rules: SourceRules) -> None:
        """Set the rules of one source, also while the worker runs."""
        self._rules[source] = rules

    def find(self, source: str, type_: str) -> Handler | None:
        """Return the handler for a type, or the one for any type."""
        exact = self._handlers.get((source, type_))
        return exact or self._handlers.get((source, ANY_TYPE))

    def policy(self, source: str) -> PolicyFunction | None:
        """Return the policy of a source."""
        return self._policies.get(source)

    def rules(self, source: str) -> SourceRules:
        """Return the rules of a source: the program's own, then those of its configuration."""
        own = self._rules.get(source)
        configured = self._find_configured(source)
        if configured is None:
            return own or SourceRules(retry=self._retry)
        return SourceRules(
            retry=own.retry if own else configured.retry_rules(self._retry),
            redelivery=own.redelivery if own else configured.redelivery,
            rate=(own and own.rate) or configured.rate,
            concurrency=(own and own.concurrency) or configured.concurrency,
            paused=configured.paused,
            mode=configured.mode,
        )

    @property
    def policies(self) -> list[str]:
        """The sources that have a policy."""
        return sorted(self._policies)

    def types(self, source: str) -> list[str]:
        """Return the types of a source that have a handler of their own."""
        return sorted(type_ for name, type_ in self._handlers if name == source)

    @property
    def sources(self) -> list[str]:
        """The sources that have a handler."""
        return sorted({source for source, _ in self._handlers})

    @property
    def claimable(self) -> list[str]:
        """The sources to claim from now: those with a handler, neither paused nor pulled."""
        rules = {source: self.rules(source) for source in self.sources}
        return [name for name, each in rules.items() if not each.paused and each.mode == "handler"]


class HandlerProcessor:
    """Runs the policy and the handler of a delivery."""

    def __init__(  # noqa: PLR0913 - its collaborators
        self,
        handlers: Handlers,
        ledger: Ledger,
        telemetry: Telemetry,
        *,
        lease: float,
        random: Callable[[], float],
        outbox: Outbox,
        middleware: Sequence[Middleware] = (),
    ) -> None:
        """Run these handlers, with ``middleware`` before the policy."""
        self._handlers = handlers
        self._ledger = ledger.retrying()
        self._telemetry = telemetry
        self._policies = PolicyCheck(handlers.policy, ledger, telemetry)
        self._lease = lease
        self._random = random
        self._outbox = outbox
        self.process: Process = compose((*middleware, self._check_policy), self._call_handler)

    def time_limit(self, delivery: Delivery) -> float | None:
        """Return the time limit of the handler, in seconds."""
        handler = self._find(delivery)
        return handler.limit if handler else None

    def settle_failure(self, delivery: Delivery, error: BaseException) -> Settlement:
        """Return the settlement of a failed try: repeated later, held or given up."""
        rules, clock = self._handlers.rules(delivery.source).retry, self._ledger.clock
        return policies.settle_error(
            delivery, error, rules, now=clock(), random=self._random, log=self._telemetry.log
        )

    async def _check_policy(self, process: Process, delivery: Delivery) -> Settlement | None:
        """Middleware: ask the policy once per delivery; it may hold or drop the delivery."""
        return await self._policies.refusal(delivery) or await process(delivery)

    async def _call_handler(self, delivery: Delivery) -> Settlement:
        handler = self._find(delivery)
        if handler is None:
            return _done_settlement(delivery, DeliveryOutcome.IGNORED)
        origin = SendOrigin(tenant=delivery.tenant, delivery_id=delivery.id)
        send_api = SendApi(self._outbox, origin)
        once = Once(delivery, self._ledger, self._telemetry, lease=self._lease, send_api=send_api)
        if handler.is_async:
            await handler.function(delivery, once)
        else:
            sync_once = SyncOnce(once, asyncio.get_running_loop())
            _refuse_awaitable(await run_in_thread(lambda: handler.function(delivery, sync_once)))
        return _done_settlement(delivery, DeliveryOutcome.HANDLED)

    def _find(self, delivery: Delivery) -> Handler | None:
        return self._handlers.find(delivery.source, delivery.type)


def release_settlement(delivery: Delivery, now: int) -> Settlement:
    """Return the settlement of a try that a stopping worker did not finish."""
    return Settlement(
        delivery=delivery,
        state=DeliveryState.RECEIVED,
        outcome=DeliveryOutcome.GIVEN_BACK,
        due_at=now,
    )


def _refuse_awaitable(result: object) -> None:
    """Refuse an awaitable that a plain handler returned; it would never be awaited."""
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise EffectMisused(
            "a plain handler returned something to await; make it an async function"
        )


def _done_settlement(delivery: Delivery, outcome: DeliveryOutcome) -> Settlement:
    return Settlement(delivery=delivery, state=DeliveryState.DONE, outcome=outcome)
