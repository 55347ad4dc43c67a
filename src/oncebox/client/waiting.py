"""Waiting for a code or a link: one deadline, whatever happens to the connections meanwhile.

Long polls first. Where those are cut or kept back on the way, short ones by the resume token,
with longer and longer rests between, until a long one is worth a trial again. The service grants
the same to a repeated request, so that an answer may be lost without harm.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal

from msgspec import UNSET

from oncebox import clock
from oncebox.client.call import Allowance, Call, Pause, Plan, ask, path
from oncebox.client.exchange import backoff, is_unclear, may_pass
from oncebox.client.failures import (
    DeadlinePassed,
    InboxClosed,
    WaitContested,
    WaitTimedOut,
)
from oncebox.errors import ConfigInvalid, OnceboxError
from oncebox.mail_errors import InboxInvalid
from oncebox.wire import waits as wire
from oncebox.wire.artifacts import Grant

#: seconds of one poll; what is on the way may be silent about what it has cut, and then this is
#: how long nobody knows
_LONGEST_POLL = 20.0
#: a poll that is cut this short is not worth a long one: the service is asked and left at once
_SHORTEST_POLL = 2.0
#: seconds until a long poll is tried again
_NEXT_TRIAL = 30.0
#: seconds that the last answer of all is given to arrive, at most this part of the whole
_FOR_THE_ANSWER, _PART = 2.0, 0.5
#: seconds that an answer may be late before the poll counts as kept back
_ALLOWED = 5.0


def wait_for_code(  # noqa: PLR0913 - a message simply has this many sides
    inboxes: str | Sequence[str],
    *,
    sender: str | None = None,
    within: float = 60.0,
    purpose: str | None = None,
    token: str | None = None,
    subject: str | None = None,
    recipient: str | None = None,
    claim_key: str | None = None,
    after: int = 0,
    resume: str | None = None,
    grace: float = 0.0,
) -> Plan[Grant]:
    """Wait for a code in an inbox, or in any of several, and claim it.

    ``sender`` is an address, a domain, or ``*.`` and a domain. ``subject`` is a pattern with
    ``*`` and ``?``. ``after`` leaves out messages up to that number. A repeat with the same key
    and ``claim_key`` (the attempt, unless set) gets the same again. ``resume`` goes on with a
    wait that timed out, in the same words. ``grace`` comes on top of ``within``, only for the
    last answer to arrive.

    Raises: WaitTimedOut, ArtifactConflict, AlreadyClaimed, InboxClosed, NotFound.
    """
    wishes = _wishes(sender, purpose, token, subject, recipient, claim_key, after)
    return Waiting(
        inboxes=_named(inboxes),
        kind="code",
        wishes=wishes,
        within=within,
        resume=resume,
        grace=grace,
    ).plan()


def wait_for_link(  # noqa: PLR0913 - as above
    inboxes: str | Sequence[str],
    *,
    host: str | None = None,
    sender: str | None = None,
    within: float = 60.0,
    purpose: str | None = None,
    token: str | None = None,
    subject: str | None = None,
    recipient: str | None = None,
    claim_key: str | None = None,
    after: int = 0,
    resume: str | None = None,
    grace: float = 0.0,
) -> Plan[Grant]:
    """Wait for a link in an inbox, or in any of several, and claim it.

    A link is only granted if it leads to one of the inbox's ``link_hosts``, and to ``host``
    where that is given. The rest is as for codes.

    Raises: WaitTimedOut, ArtifactConflict, AlreadyClaimed, LinkRefused, InboxClosed, NotFound.
    """
    wishes = _wishes(sender, purpose, token, subject, recipient, claim_key, after)
    if host is not None:
        wishes["host"] = host
    return Waiting(
        inboxes=_named(inboxes),
        kind="link",
        wishes=wishes,
        within=within,
        resume=resume,
        grace=grace,
    ).plan()


@dataclass(slots=True, kw_only=True)
class Waiting:
    """One wait, and how far it has come."""

    inboxes: tuple[str, ...]
    kind: Literal["code", "link"]
    wishes: dict[str, Any]
    #: seconds
    within: float
    #: the token of an earlier wait for the same, to go on with
    resume: str | None = None
    #: seconds after that in which nothing is waited for but an answer
    grace: float = 0.0
    now: Callable[[], float] = clock.steady
    dice: Callable[[], float] = random.random
    _until: float = field(init=False)
    #: seconds that a poll may be held open at most, and when to try a longer one again
    _longest: float = field(init=False)
    _long_again_at: float = 0.0
    #: troubles and early answers in a row
    _troubles: int = 0
    #: what the service said last
    _last: wire.Waited | None = None

    def __post_init__(self) -> None:
        """Begin to count the time.

        Raises: ConfigInvalid, InboxInvalid.
        """
        if not 0 < self.within < inf:
            message = f"within is a number of seconds above zero, not {self.within}"
            raise ConfigInvalid(message)
        if not 0 <= self.grace < inf:
            message = f"grace is a number of seconds, not {self.grace}"
            raise ConfigInvalid(message)
        if not self.inboxes:
            message = "name at least one inbox to wait in"
            raise InboxInvalid(message)
        self._until = self.now() + self.within + self.grace
        self._longest = _LONGEST_POLL

    def plan(self) -> Plan[Grant]:
        """Return what is granted.

        Raises: WaitTimedOut, ArtifactConflict, InboxClosed, and whatever does not pass by itself.
        """
        allowed: float = yield Allowance()
        while True:
            began, poll = self.now(), self._poll()
            try:
                answer = yield from ask(self._call(poll, min(allowed, _ALLOWED)))
            except OnceboxError as error:
                pause = self._endure(error)
            else:
                if answer.status != "timeout":
                    return _ended(answer)
                pause = self._go_on(answer, early=self.now() - began < poll / 2 or poll <= 0)
            if self._left() - self.grace <= pause:
                raise self._timed_out()
            if pause:
                yield Pause(pause)

    def _poll(self) -> float:
        """Return how long the service shall wait now."""
        if self._longest < _LONGEST_POLL and self.now() >= self._long_again_at:
            self._longest = _LONGEST_POLL
        spare = self.grace or min(_FOR_THE_ANSWER, self.within * _PART)
        return max(0.0, min(self._longest, self._left() - spare))

    def _go_on(self, answer: wire.Waited, *, early: bool) -> float:
        """Take an answer without a grant; return how long to rest.

        One that came before its time is of a service that is stopping, or of one that was not
        to wait.
        """
        self._last = answer
        if not early:
            self._troubles = 0
            return 0.0
        return self._rest()

    def _endure(self, error: OnceboxError) -> float:
        """Let trouble pass by that may be gone in a moment; return how long to rest.

        Raises: the error, if it will not be gone, or if nothing else was ever heard.
        """
        if not may_pass(error):
            raise error
        if is_unclear(error):  # it may have been cut, or kept back, for being silent too long
            half = 0.0 if isinstance(error, DeadlinePassed) else self._longest / 2
            self._longest = half if half >= _SHORTEST_POLL else 0.0
            self._long_again_at = self.now() + _NEXT_TRIAL
        pause = self._rest() + (error.retry_after or 0)
        if self._left() - self.grace <= pause and self._last is None:
            raise error
        return pause

    def _rest(self) -> float:
        self._troubles += 1
        return backoff(self._troubles + 1, self.dice)

    def _call(self, wait: float, allowed: float) -> Call[wire.Waited]:
        """Return one poll; a lost answer is not asked for again in the same words."""
        said = {**self.wishes, "wait": wait, "resume": self._token()}
        many = len(self.inboxes) > 1
        body = (
            wire.WaitForAny(kind=self.kind, inboxes=list(self.inboxes), **said)
            if many
            else wire.WaitFor(kind=self.kind, **said)
        )
        where = path("inboxes", "wait") if many else path("inboxes", self.inboxes[0], "wait")
        return Call(
            method="POST",
            path=where,
            answer=wire.Waited,
            body=body,
            repeatable=True,
            alone=True,
            wait=wait,
            within=max(0.001, min(allowed, self._left() - wait)),
        )

    def _timed_out(self) -> WaitTimedOut:
        reports = self._last.reports if self._last is not None else []
        return WaitTimedOut(self.kind, self.within, reports, resume=self._token())

    def _token(self) -> str | None:
        """Return by what the service knows this wait again."""
        if self._last is None or self._last.resume is UNSET:
            return self.resume
        return self._last.resume

    def _left(self) -> float:
        return self._until - self.now()


def _ended(answer: wire.Waited) -> Grant:
    """Return what was granted, or raise why nothing ever will be."""
    if answer.grant is not UNSET:
        return answer.grant
    if answer.conflict is not UNSET:
        raise WaitContested(answer.conflict, answer.reports)
    raise InboxClosed(answer.reports)


def _named(inboxes: str | Sequence[str]) -> tuple[str, ...]:
    return (inboxes,) if isinstance(inboxes, str) else tuple(dict.fromkeys(inboxes))


def _wishes(*values: Any) -> dict[str, Any]:
    names = ("sender", "purpose", "token", "subject", "recipient", "claim_key", "after")
    named = dict(zip(names, values, strict=True))
    return {name: value for name, value in named.items() if value is not None}
