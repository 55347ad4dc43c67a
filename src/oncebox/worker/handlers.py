"""Handlers, policies and source rules, as a program registers them."""

import inspect
from collections.abc import Callable
from typing import Any

import msgspec

from oncebox.errors import ConfigInvalid, HandlerTwice
from oncebox.model.arrival import check_source, check_type
from oncebox.model.retry import RetryRules
from oncebox.model.source import Source

ANY_TYPE = "*"

HandlerFunction = Callable[..., Any]
PolicyFunction = Callable[..., Any]
#: returns what is written of a source in the settings or the database
FindSource = Callable[[str], Source | None]


class Handler(msgspec.Struct, frozen=True):
    """A user's function for one source and type."""

    source: str
    type: str
    function: HandlerFunction
    #: seconds one run may take; None is the worker's own limit
    limit: float | None
    is_async: bool


class SourceRules(msgspec.Struct, frozen=True, kw_only=True):
    """What is particular to one source."""

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
    """Everything a program registered."""

    def __init__(self, retry: RetryRules) -> None:
        """Begin with nothing registered; ``retry`` holds where a source says nothing."""
        self._retry = retry
        self._handlers: dict[tuple[str, str], Handler] = {}
        self._policies: dict[str, PolicyFunction] = {}
        self._rules: dict[str, SourceRules] = {}
        self._written: FindSource = lambda _name: None

    def follow(self, find: FindSource) -> None:
        """Keep to what is written of sources elsewhere, where the program says nothing."""
        self._written = find

    def add(self, source: str, type_: str, function: HandlerFunction, limit: float | None) -> None:
        """Register a handler.

        Raises: HandlerTwice, KeyInvalid.
        """
        check_source(source)
        check_type(type_)
        if (source, type_) in self._handlers:
            message = f"there are two handlers for {source!r}, {type_!r}; remove one"
            raise HandlerTwice(message)
        handler = Handler(source, type_, function, limit, _is_async(function))
        self._handlers[source, type_] = handler

    def add_policy(self, source: str, function: PolicyFunction) -> None:
        """Register a policy.

        Raises: HandlerTwice, KeyInvalid.
        """
        check_source(source)
        if source in self._policies:
            message = f"there are two policies for {source!r}; remove one"
            raise HandlerTwice(message)
        self._policies[source] = function

    def set_rules(
        self, source: str, *, redelivery: str, retry: dict[str, int | None], **limits: int | None
    ) -> None:
        """Set what is particular to one source; ``limits`` are its rate and concurrency.

        Raises: ConfigInvalid, KeyInvalid.
        """
        check_source(source)
        if redelivery not in {"rearm", "count"}:
            message = f"redelivery of {source!r} is either 'rearm' or 'count'"
            raise ConfigInvalid(message)
        for name, limit in limits.items():
            if limit is not None and limit < 1:
                message = f"{name} of {source!r} is at least 1"
                raise ConfigInvalid(message)
        given = {name: value for name, value in retry.items() if value is not None}
        rules = msgspec.structs.replace(self._retry, **given)
        self.put_rules(
            source,
            SourceRules(
                retry=rules,
                redelivery=redelivery,
                rate=limits.get("rate"),
                concurrency=limits.get("concurrency"),
            ),
        )

    def put_rules(self, source: str, rules: SourceRules) -> None:
        """Let these rules hold from now on, also while the worker runs."""
        self._rules[source] = rules

    def find(self, source: str, type_: str) -> Handler | None:
        """Return the handler for a type, or the one for any type."""
        exact = self._handlers.get((source, type_))
        return exact or self._handlers.get((source, ANY_TYPE))

    def limit(self, source: str, type_: str) -> float | None:
        """Return the time limit a handler asked for."""
        handler = self.find(source, type_)
        return handler.limit if handler else None

    def policy(self, source: str) -> PolicyFunction | None:
        """Return the policy of a source."""
        return self._policies.get(source)

    def rules(self, source: str) -> SourceRules:
        """Return the rules of a source: what the program says, then what is written elsewhere."""
        mine = self._rules.get(source)
        written = self._written(source)
        if written is None:
            return mine or SourceRules(retry=self._retry)
        its_own = SourceRules(
            retry=written.retry(self._retry),
            redelivery=written.redelivery,
            rate=written.rate,
            concurrency=written.concurrency,
            paused=written.paused,
            mode=written.mode,
        )
        if mine is None:
            return its_own
        return msgspec.structs.replace(
            its_own,
            retry=mine.retry,
            redelivery=mine.redelivery,
            rate=mine.rate or written.rate,
            concurrency=mine.concurrency or written.concurrency,
        )

    @property
    def sources(self) -> list[str]:
        """The sources that have a handler."""
        return sorted({source for source, _ in self._handlers})

    @property
    def claimable(self) -> list[str]:
        """The sources to claim from now: those with a handler, neither paused nor pulled."""
        return [source for source in self.sources if _is_claimable(self.rules(source))]


def _is_claimable(rules: SourceRules) -> bool:
    return not rules.paused and rules.mode == "handler"


def _is_async(function: HandlerFunction) -> bool:
    """Look behind decorators and into objects that can be called."""
    inner = inspect.unwrap(function)
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(
        getattr(inner, "__call__", None)  # noqa: B004 - an object with an async __call__
    )
