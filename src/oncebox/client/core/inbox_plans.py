"""Inbox requests without I/O: wait for a code, link or message by long poll, list messages, close.

Long polls come first. Where a proxy cuts or buffers them, short polls with the resume token and
pauses with backoff follow, until a long poll is tried again. All polls of a wait have one request
key, by which the service gives them the same artifact, so a lost answer is harmless.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal

from msgspec import UNSET

from oncebox.client.core.calls import (
    Call,
    PauseStep,
    Plan,
    PollSchedule,
    TimeoutStep,
    api_path,
    is_outcome_unknown,
    is_transient,
    page_call,
    perform,
    post_call,
)
from oncebox.client.core.work import new_request_key
from oncebox.client.errors import (
    DeadlinePassed,
    InboxClosed,
    WaitContested,
    WaitInFlight,
    WaitTimedOut,
)
from oncebox.errors import ConfigInvalid, OnceboxError
from oncebox.errors.mail import InboxInvalid
from oncebox.model.inboxes.wait_filter import wait_criteria
from oncebox.schemas.artifacts import (
    Artifact,
    ClaimArtifact,
    Grant,
    UseArtifact,
    WaitAnyRequest,
    WaitRequest,
    WaitResult,
)
from oncebox.schemas.inboxes import CloseInbox, Inbox, PolicyChange
from oncebox.schemas.messages import MessagePage, MessageQuery

WaitKind = Literal["code", "link", "message"]
#: seconds of one poll; a proxy may drop it silently, and then this much time is lost
_LONGEST_POLL = 20.0
#: seconds until a long poll is tried again
_LONG_POLL_RETRY = 30.0
#: seconds reserved for the last answer, at most this share of the whole
_ANSWER_RESERVE, _MAX_RESERVE_SHARE = 2.0, 0.5
#: seconds after which a late answer counts as lost
_ANSWER_TIMEOUT = 5.0


def wait_plan(
    kind: WaitKind,
    inboxes: str | Sequence[str],
    *,
    within: float,
    resume: str | None,
    grace: float,
    **filters: Any,
) -> Plan[Grant]:
    """Wait for a code, a link or a message, and claim it; filters that are None are left out."""
    sender = filters.pop("sender", None)
    if sender is not None:
        filters["sender"] = sender if isinstance(sender, str) else list(sender) or None
    wait = WaitPlan(
        inboxes=(inboxes,) if isinstance(inboxes, str) else tuple(dict.fromkeys(inboxes)),
        kind=kind,
        filters={name: value for name, value in filters.items() if value is not None},
        within=within,
        resume=resume,
        grace=grace,
    )
    return (yield from wait.plan())


@dataclass(slots=True, kw_only=True)
class WaitPlan:
    """One wait and its progress."""

    inboxes: tuple[str, ...]
    kind: WaitKind
    filters: dict[str, Any]
    #: seconds
    within: float
    #: the token by which the service recognises this wait
    resume: str | None
    #: seconds after ``within`` in which only an answer is awaited
    grace: float
    _polls: PollSchedule = field(init=False)
    #: when to try a long poll again
    _long_again_at: float = 0.0
    #: the last answer
    _last: WaitResult | None = None
    #: whether no poll follows this one
    _is_last: bool = False
    #: what the service knows this worker by
    _request_key: str = field(default_factory=new_request_key)

    def __post_init__(self) -> None:
        if not 0 < self.within < inf:
            raise ConfigInvalid(f"within is a number of seconds above zero, not {self.within}")
        if not 0 <= self.grace < inf:
            raise ConfigInvalid(f"grace is a number of seconds, not {self.grace}")
        if not self.inboxes:
            raise InboxInvalid("name at least one inbox to wait in")

    def plan(self) -> Plan[Grant]:
        """Return the grant."""
        allowed: float = yield TimeoutStep()
        polls = self._polls = PollSchedule(within=self.within + self.grace, longest=_LONGEST_POLL)
        while True:
            if polls.now() >= self._long_again_at:
                polls.longest = _LONGEST_POLL
            result = yield from self._poll(min(allowed, _ANSWER_TIMEOUT))
            if isinstance(result, Grant):
                return result
            pause, was_last = result, self._is_last
            self._is_last = polls.left - self.grace <= pause
            if self._is_last and (was_last or polls.left <= self.grace):
                raise self._timed_out()
            if pause and not self._is_last:
                yield PauseStep(pause)
            # Else one more at once, so that the service knows that the wait ends with it.

    def _poll(self, allowed: float) -> Plan[Grant | float]:
        """Ask once; return what was granted, or the pause before the next poll."""
        polls = self._polls
        reserve = self.grace or min(_ANSWER_RESERVE, self.within * _MAX_RESERVE_SHARE)
        began, poll = polls.now(), polls.next_poll(reserve)
        # An answer to a request that does not wait is always early, so its pause is known.
        early_pause = 0.0 if poll else polls.pause_after(began, inf)
        self._is_last |= polls.left - self.grace <= (poll or early_pause)
        try:
            answer = yield from perform(self._call(poll, allowed))
        except OnceboxError as error:
            return self._retry_or_raise(error)
        if answer.status not in {"timeout", "in_flight"}:
            return _grant_or_raise(answer)
        self._last, self.resume = answer, answer.resume or self.resume
        return polls.pause_after(began, poll) if poll else early_pause

    def _timed_out(self) -> WaitTimedOut:
        """Return the error of a wait whose time is over."""
        last, criteria = self._last, wait_criteria(self.filters)
        reports = [] if last is None else last.reports
        if last is None or last.in_flight is UNSET:
            return WaitTimedOut(
                self.kind, self.within, reports, resume=self.resume, criteria=criteria
            )
        return WaitInFlight(
            self.kind, self.within, reports, resume=self.resume, in_flight=last.in_flight
        )

    def _retry_or_raise(self, error: OnceboxError) -> float:
        """Return the pause after a transient error; raise others, and if no answer ever came."""
        if not is_transient(error):
            raise error
        if is_outcome_unknown(error):  # a proxy may have cut or buffered the poll
            self._polls.shorten()
            if isinstance(error, DeadlinePassed):
                self._polls.longest = 0.0
            self._long_again_at = self._polls.now() + _LONG_POLL_RETRY
        pause = self._polls.pause_after_error(error)
        if self._polls.left - self.grace <= pause and self._last is None:
            raise error
        return pause

    def _call(self, wait: float, allowed: float) -> Call[WaitResult]:
        """Return one poll; the plan repeats it, with the time that is left."""
        fields = {
            **self.filters,
            "wait": wait,
            "resume": self.resume,
            "request_key": self._request_key,
            "last": self._is_last,
        }
        path = api_path("inboxes", *self.inboxes, "wait")
        body = WaitRequest(kind=self.kind, **fields)
        if len(self.inboxes) > 1:
            path = api_path("inboxes", "wait")
            body = WaitAnyRequest(kind=self.kind, inboxes=list(self.inboxes), **fields)
        return Call(
            method="POST",
            path=path,
            answer=WaitResult,
            body=body,
            repeatable=True,
            no_retry=True,
            wait=wait,
            within=max(0.001, min(allowed, self._polls.left - wait)),
        )


def _grant_or_raise(answer: WaitResult) -> Grant:
    """Return the grant, or raise the reason why there will be none."""
    if answer.grant is not UNSET:
        return answer.grant
    if answer.conflict is not UNSET:
        raise WaitContested(answer.conflict, answer.reports)
    raise InboxClosed(answer.reports)


def claim_call(artifact_id: str, claim_key: str | None) -> Call[Grant]:
    """Return a call that claims an artifact; its repeats have the same request key."""
    body = ClaimArtifact(claim_key=claim_key, request_key=new_request_key())
    return post_call(Grant, body, "artifacts", artifact_id, "claim", repeatable=True)


def used_call(artifact_id: str) -> Call[Artifact]:
    """Return a call that reports that an artifact was used."""
    return post_call(Artifact, UseArtifact(), "artifacts", artifact_id, "used", repeatable=True)


def close_call(inbox_id: str, drain: float | None) -> Call[Inbox]:
    """Return a call that closes an inbox after ``drain`` seconds."""
    return post_call(Inbox, CloseInbox(drain=drain), "inboxes", inbox_id, "close", repeatable=True)


def change_policy_call(inbox_id: str, **changes: Any) -> Call[Inbox]:
    """Return a call that changes fields of the policy of an inbox."""
    lists = ("senders", "link_hosts", "link_origins")
    values: dict[str, Any] = {
        name: list(value) if name in lists and value is not UNSET else value
        for name, value in changes.items()
    }
    path = api_path("inboxes", inbox_id, "policy")
    return Call(method="PATCH", path=path, answer=Inbox, body=PolicyChange(**values))


def messages_call(inbox_id: str, **filters: Any) -> Call[MessagePage]:
    """Return a call for one page of the messages of an inbox."""
    return page_call(MessagePage, MessageQuery, "inboxes", inbox_id, "messages", **filters)
