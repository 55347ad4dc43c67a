"""`PollLoop`: polls an API of the user's once at a time and hands each message out once; no I/O.

A message that was listed is stored by the service together with the cursor after it. It is handed
out under a lease, and done when the next one is asked for.
See docs/decisions/0055-use-deliveries-and-a-leased-mailbox-for-polling-programs.md.
"""

import functools
import inspect
import logging
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from typing import Any, Literal, TypeVar

import msgspec

from oncebox.client.core import listings
from oncebox.client.core.calls import (
    Call,
    PauseStep,
    Plan,
    RunStep,
    backoff,
    is_transient,
    perform,
    post_call,
)
from oncebox.client.core.listings import ItemFunctions, Listing
from oncebox.client.core.work import BaseWork, ClaimedWork, new_request_key
from oncebox.client.errors import ClientClosed, MailboxInUse, PollMisused
from oncebox.core import clock, faults, ids
from oncebox.errors import LeaseLost, NotFound, OnceboxError, Transient
from oncebox.schemas import polls as wire
from oncebox.schemas.pull import ClaimResponse, LeaseRenewed

T = TypeVar("T")

#: seconds for which one request waits for a mailbox in use
_LONGEST_WAIT = 5.0
#: seconds of one sleep; ``stop`` is seen after each
_NAP = 0.25
#: seconds for reports that are useful but not worth waiting for
_SHORT_TIMEOUT = 5.0
#: seconds between two pages that bring nothing new, though the cursor advances
_KNOWN_PAGE_PAUSE = 1.0
_MIN_LEASE, _MAX_LEASE = 1, 900

#: takes a cursor, or a time with ``overlap``; returns items, or items and the next cursor
ListFunction = Callable[..., Any]

_log = logging.getLogger("oncebox.client")


class PollOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a mailbox is polled; times in seconds."""

    list_fn: ListFunction
    mailbox: str
    functions: ItemFunctions
    #: between two lists that bring nothing new
    interval: float
    #: the deadline of the whole loop; None: none
    within: float | None
    #: the list function takes a time, and lists so much before the newest message again
    overlap: float | None
    #: of one call of the list function
    timeout: float
    lease: float
    #: what to do if another loop has the mailbox: ``wait`` or ``raise``
    on_conflict: Literal["wait", "raise"]

    def __post_init__(self) -> None:
        """Check the options.

        Raises: PollMisused.
        """
        seconds = (self.interval, self.overlap or 0, self.within or 0, self.timeout)
        if not callable(self.list_fn):
            raise PollMisused("the first argument of Poller is the function that lists messages")
        if not all(isfinite(each) and each >= 0 for each in seconds) or not self.timeout:
            raise PollMisused("interval, within, overlap and timeout are seconds, and not negative")
        if not _MIN_LEASE <= self.lease <= _MAX_LEASE:
            raise PollMisused(f"the lease is {_MIN_LEASE} to {_MAX_LEASE} seconds")
        if self.on_conflict not in ("wait", "raise"):
            raise PollMisused("on_conflict is 'wait' or 'raise'")


@dataclass(slots=True, kw_only=True, eq=False)
class PollLoop:
    """One run of a loop: gets the mailbox, lists, hands messages out, gives the mailbox back."""

    options: PollOptions
    is_stopped: Callable[[], bool] = lambda: False
    now: Callable[[], float] = clock.steady
    #: milliseconds since 1970
    system: Callable[[], int] = clock.system
    jitter: Callable[[], float] = random.random
    #: unique to this loop
    worker: str = field(default_factory=lambda: ids.new("loop"))
    _until: float = field(init=False)
    #: of the lease; None while another loop may have the mailbox
    _fence: int | None = None
    _cursor: str | None = None
    _version: int = 0
    #: when to list again
    _list_at: float = 0.0
    _request_key: str = field(default_factory=new_request_key)
    _failures: int = 0
    #: why the mailbox could not be had, if it was never had
    _refused: wire.PollLease | None = None
    _was_counted: bool = False
    #: the message whose body runs
    _current: BaseWork | None = None
    #: reports its outcome
    _settle: Callable[..., Plan[None]] = field(init=False)
    _handed_out: int = 0
    _is_ending: bool = False

    def __post_init__(self) -> None:
        self._until = self.now() + (inf if self.options.within is None else self.options.within)

    # messages

    def next(self) -> Plan[ClaimedWork | None]:
        """Wait for the next message, also while the service is unavailable; None at the end.

        Raises: MailboxInUse, PollMisused, and errors of the service that no retry can change.
        """
        while not self._is_over():
            try:
                claimed = yield from self._advance()
            except (LeaseLost, NotFound):
                self._lose_lease()
            except OnceboxError as error:
                if isinstance(error, MailboxInUse) or not is_transient(error):
                    raise
                yield from self._rest_after(error)
            else:
                self._failures = 0
                if claimed is not None:
                    self._handed_out += 1
                    return claimed
        if self._refused is not None and self._refused.status == "in_use":
            raise self._in_use(self._refused)
        return None

    def hand_out(self, work: BaseWork, settle: Callable[..., Plan[None]]) -> None:
        """Note the message whose body runs now; its lease is renewed until it ends."""
        self._current, self._settle = work, settle

    def confirm(self) -> Plan[None]:
        """Complete the message whose body has ended, unless it was settled before."""
        faults.point("poller.body-done")
        while True:
            try:
                yield from self._settle()
                break
            except (LeaseLost, NotFound):
                _log.warning("%r: another loop has it now, and hands it out again", self._current)
                break
            except OnceboxError as error:
                if not is_transient(error) or self._is_over():
                    raise
                yield from self._rest_after(error)
        self._current = None
        faults.point("poller.confirmed")

    def end(self) -> Plan[None]:
        """Give everything back, once; a message whose body did not end is a failed try."""
        while self._is_ending:  # a generator is finalised in a task of its own
            yield PauseStep(_NAP / 10)
        self._is_ending = True
        try:
            yield from self._give_back()
        finally:
            self._is_ending = False

    def _give_back(self) -> Plan[None]:
        has_message, self._current = self._current is not None, None
        if has_message:
            with suppress(OnceboxError):
                left = Transient("the loop was left while this message was handled")
                yield from self._settle(left, within=_SHORT_TIMEOUT)
        fence, self._fence = self._fence, None
        if fence is not None:
            body = wire.EndPolls(fence=fence, timed_out=self._has_timed_out())
            call = self._call(type(None), body, "end")
            with suppress(OnceboxError):
                yield from perform(replace(call, within=_SHORT_TIMEOUT))

    def heartbeats(self) -> Plan[bool]:
        """Renew the lease of the mailbox and of the current message; the body is not stopped."""
        third = self.options.lease / 3
        while True:
            yield PauseStep(third)
            fence, work = self._fence, self._current
            if fence is None:
                continue
            body = wire.RenewPolls(
                fence=fence,
                lease=self.options.lease,
                delivery_id=None if work is None else work.id,
                delivery_fence=None if work is None else work.delivery.fence,
            )
            try:
                yield from perform(replace(self._call(LeaseRenewed, body, "renew"), within=third))
            except ClientClosed:
                return False
            except (LeaseLost, NotFound):
                if work is not None:
                    work.lost = True
            except OnceboxError:  # the fence decides, not the time: the lease may still be valid
                continue

    # the steps of a loop

    def _advance(self) -> Plan[ClaimedWork | None]:
        """Get the mailbox, else a message, else list, else rest."""
        if self._fence is None:
            yield from self._begin()
            return None
        claimed = yield from self._claim()
        if claimed is None and self.now() < self._list_at:
            yield from self._rest(self._list_at - self.now())
        elif claimed is None:
            yield from self._list()
        return claimed

    def _begin(self) -> Plan[None]:
        """Lease the mailbox, or wait a while for it."""
        may_wait = self.options.on_conflict == "wait"
        wait = min(_LONGEST_WAIT, max(0.0, self._until - self.now())) if may_wait else 0.0
        body = wire.BeginPolls(
            worker=self.worker, lease=self.options.lease, wait=wait, counted=self._was_counted
        )
        answer = yield from perform(replace(self._call(wire.PollLease, body), wait=wait))
        if answer.fence is not None:
            self._refused = None
            self._fence, self._cursor = answer.fence, answer.cursor
            self._version = answer.cursor_version
            return
        if self._handed_out == 0:
            self._refused = answer
        if answer.status == "in_use":
            self._was_counted = True
            if not may_wait:
                raise self._in_use(answer)
        yield from self._rest(max(_NAP, min(answer.retry_in, _LONGEST_WAIT)))

    def _claim(self) -> Plan[ClaimedWork | None]:
        requested_at = self.now()
        body = wire.ClaimListed(
            fence=self._held_fence(),
            worker=self.worker,
            request_key=self._request_key,
            lease=self.options.lease,
        )
        answer = yield from perform(self._call(ClaimResponse, body, "next"))
        self._request_key = new_request_key()
        if not answer.deliveries:
            return None
        return ClaimedWork(answer.deliveries[0], answer.lease, requested_at)

    def _list(self) -> Plan[None]:
        """Call the list function once, and store what it returned."""
        began = self.now()
        function = functools.partial(self.options.list_fn, self._position())
        if _takes_timeout(self.options.list_fn):
            function.keywords["timeout"] = self._time_limit()
        try:
            answer = yield RunStep(function, self._time_limit())
            if inspect.isawaitable(answer):
                awaited = _Awaited(answer)
                answer = yield RunStep(awaited, self._time_limit())
                awaited.check(answer)
            if _is_lazy(answer):
                answer = yield RunStep(functools.partial(_drain, answer), self._time_limit())
        except PollMisused:
            raise
        except Exception as error:  # noqa: BLE001 - a list function may raise anything
            yield from self._report_failure(error)
            return
        faults.point("poller.listed")
        before, listing = self._cursor, self._read(answer)
        new = yield from self._store(listing)
        pause = self.options.interval
        if listing.messages and self._cursor != before and self.options.overlap is None:
            # There may be more; pages that are all known are those of a resync.
            pause = 0.0 if new else min(pause, _KNOWN_PAGE_PAUSE)
        self._list_at = began + pause

    def _store(self, listing: Listing) -> Plan[int]:
        """Store messages, in parts if they are many; the cursor changes with the last part."""
        new, repeated = 0, listing.repeated
        parts = list(listings.in_requests(listing.messages))
        for number, part in enumerate(parts, 1):
            is_last = number == len(parts)
            cursor = listing.cursor if is_last else self._cursor or "null"
            body = wire.ListedPage(
                fence=self._held_fence(),
                version=self._version,
                cursor=cursor,
                messages=part,
                repeated=repeated if is_last else 0,
                last=is_last,
            )
            stored = yield from perform(self._call(wire.StoredListing, body, "page"))
            self._version, self._cursor = stored.cursor_version, cursor
            new += stored.new
        _log.debug(
            "mailbox %s: %d new, %d listed again, cursor version %d",
            self.options.mailbox,
            new,
            len(listing.messages) - new + repeated,
            self._version,
        )
        return new

    def _report_failure(self, error: Exception) -> Plan[None]:
        """Report that the list function failed; no loop lists before the time is over."""
        code = listings.failure_code(error)
        _log.debug("mailbox %s: the list function failed", self.options.mailbox, exc_info=error)
        body = wire.FailedPoll(
            fence=self._held_fence(), code=code, retry_after=listings.requested_wait(error)
        )
        delayed = yield from perform(self._call(wire.PollDelayed, body, "failed"))
        self._lose_lease()
        _log.warning(
            "mailbox %s: the list function failed (%s: %s), trying again in %.1f s",
            self.options.mailbox,
            code,
            type(error).__name__,
            delayed.retry_in,
        )
        yield from self._rest(delayed.retry_in)

    def _position(self) -> Any:
        """Return the argument of the list function."""
        if self.options.overlap is not None:
            return listings.since(self._cursor)
        return None if self._cursor is None else msgspec.json.decode(self._cursor)

    def _read(self, answer: Any) -> Listing:
        functions = self.options.functions
        if self.options.overlap is None:
            return listings.read_by_cursor(answer, self._cursor, functions)
        window = round(self.options.overlap * 1000)
        return listings.read_by_time(
            answer, self._cursor, functions, now=self.system(), window=window
        )

    # time and leases

    def _is_over(self) -> bool:
        return self.is_stopped() or self.now() >= self._until

    def _has_timed_out(self) -> bool:
        return self.now() >= self._until and self._handed_out == 0

    def _time_limit(self) -> float:
        """Return the seconds of one call of the list function, below the deadline."""
        return max(0.001, min(self.options.timeout, self._until - self.now()))

    def _rest(self, seconds: float) -> Plan[None]:
        """Sleep, at most until the deadline or ``stop``."""
        until = min(self._until, self.now() + seconds)
        while not self.is_stopped() and (left := until - self.now()) > 0:
            yield PauseStep(min(left, _NAP))

    def _rest_after(self, error: OnceboxError) -> Plan[None]:
        self._failures += 1
        if self._failures == 1:
            _log.warning("mailbox %s: trying again: %s", self.options.mailbox, error.code)
        yield from self._rest((error.retry_after or 0) + backoff(self._failures + 1, self.jitter))

    def _lose_lease(self) -> None:
        """Begin again: the cursor may have changed meanwhile."""
        self._fence, self._request_key = None, new_request_key()

    def _held_fence(self) -> int:
        if self._fence is None:
            raise LeaseLost
        return self._fence

    def _call(self, answer: type[T], body: msgspec.Struct, *path: str) -> Call[T]:
        # Each carries what makes a repeat harmless: a worker, a version, a request key or a fence.
        parts = ("mailboxes", self.options.mailbox, "polls", *path)
        return post_call(answer, body, *parts, repeatable=True)

    def _in_use(self, refused: wire.PollLease) -> MailboxInUse:
        error = MailboxInUse(
            f"another loop polls the mailbox {self.options.mailbox!r}, for "
            f"{refused.retry_in:.0f} s more unless it renews its lease"
        )
        error.retry_after = refused.retry_in
        return error


class _Awaited:
    """Something to await, as an async function."""

    def __init__(self, awaitable: Awaitable[Any]) -> None:
        self._awaitable = awaitable

    async def __call__(self) -> Any:
        return await self._awaitable

    def check(self, answer: Any) -> None:
        """Refuse a list function that the blocking client cannot await.

        Raises: PollMisused.
        """
        if inspect.isawaitable(answer):
            for each in (answer, self._awaitable):
                getattr(each, "close", lambda: None)()
            raise PollMisused("the list function is async; use it with AsyncClient or a box")


def _takes_timeout(function: ListFunction) -> bool:
    try:
        return "timeout" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # some built-in functions have no signature
        return False


def _is_lazy(answer: Any) -> bool:
    """Say whether a list, or the list beside a cursor, is still to be made: it may fail."""
    items = answer[0] if isinstance(answer, tuple) and answer else answer
    return isinstance(items, Iterator)


def _drain(answer: Any) -> Any:
    """Return the same answer with all its items."""
    return ([*answer[0]], *answer[1:]) if isinstance(answer, tuple) else [*answer]
