"""Sending: a mail is asked for until it is on disk, then how it ends is waited for.

Asking again is the same mail, so an answer may be lost without harm. Long polls have one deadline
between them; where they are cut or fail, short rests come between.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Unpack

import msgspec

from oncebox import clock
from oncebox.client.call import Allowance, Call, Pause, Plan, ask, checked_key, path
from oncebox.client.exchange import backoff, may_pass
from oncebox.errors import ConfigInvalid, KeyInvalid, OnceboxError
from oncebox.model import send as model
from oncebox.model.asking import SendOptions, meant
from oncebox.model.email import Email
from oncebox.model.send import SendState
from oncebox.wire import sends as wire

#: seconds of one poll; what is on the way may be silent about what it has cut
_LONGEST_POLL = 20.0
#: bytes of a mail from which on its end is not waited for with it: the service holds it so long
_LARGE = 64 * 1024
#: seconds that an answer may be late before the poll counts as lost
_ALLOWED = 5.0
_MILLISECONDS = 1_000


def wish(email: Email, **options: Unpack[SendOptions]) -> wire.SendWish:
    """Return a mail as it is asked for, such as one of a batch; without a key of its own.

    Raises: KeyInvalid.
    """
    if options.get("key") is not None:
        message = "a mail of a batch has event_type and entity_id, and no key of its own"
        raise KeyInvalid(message)
    return _wish(email, options)


def send(
    email: Email, *, wait: float = 10.0, **options: Unpack[SendOptions]
) -> Plan[wire.SendAnswer]:
    """Send a mail once, and wait up to so many seconds for what becomes of it.

    The same ``event_type``, ``entity_id``, ``version`` and recipients are the same mail, whoever
    asks and however often; or the same ``key``. The answer's ``status`` says what became of it;
    ``in_flight``: it is on disk, and not over yet.

    Raises: InputRefused, NotFound, and whatever does not pass by itself.
    """
    key = checked_key(options.get("key"))
    if key is None and not (options.get("event_type") and options.get("entity_id")):
        message = "say what the mail is about by event_type and entity_id, or give a key"
        raise KeyInvalid(message)
    wanted = _wish(email, options)
    polls, first = Polls(within=_checked(wait)), min(wait, _LONGEST_POLL)
    is_later = wanted.send_at is not None and wanted.send_at > clock.system() + wait * _MILLISECONDS
    if is_later or _size(wanted) >= _LARGE:
        first = 0.0
    call = Call(
        method="POST",
        path=path("sends"),
        answer=wire.SendAnswer,
        query=wire.SendWait(wait=first),
        body=wanted,
        idempotency_key=key,
        repeatable=True,
        wait=first,
    )
    return _asked(call, polls)


def wait(
    id: str,  # noqa: A002 - the word users know
    *,
    within: float = 60.0,
) -> Plan[wire.SendAnswer]:
    """Return how a send ended, or how it stands after so many seconds."""
    polls, first = Polls(within=_checked(within)), min(within, _LONGEST_POLL)
    call = Call(
        method="GET",
        path=path("sends", id),
        answer=wire.SendAnswer,
        query=wire.SendWait(wait=first),
        repeatable=True,
        wait=first,
    )
    return _looked(call, polls)


@dataclass(slots=True, kw_only=True)
class Polls:
    """The time that is left for polls, and how many in a row came to nothing."""

    #: seconds
    within: float
    now: Callable[[], float] = clock.steady
    dice: Callable[[], float] = random.random
    _until: float = field(init=False)
    _troubles: int = 0

    def __post_init__(self) -> None:
        """Begin to count the time."""
        self._until = self.now() + self.within

    @property
    def left(self) -> float:
        """Seconds until the deadline."""
        return self._until - self.now()

    def next(self) -> float:
        """Return how long the service shall wait now."""
        return max(0.0, min(_LONGEST_POLL, self.left))

    def rest(self) -> float:
        """Return how long to rest after a poll that came to nothing."""
        self._troubles += 1
        return backoff(self._troubles + 1, self.dice)

    def after(self, began: float, poll: float) -> float:
        """Return how long to rest after an answer; one that comes early is of who stops."""
        if self.now() - began < poll / 2:
            return self.rest()
        self._troubles = 0
        return 0.0


def _asked(first: Call[wire.SendAnswer], polls: Polls) -> Plan[wire.SendAnswer]:
    """Ask for a mail, and look how it ends."""
    began = polls.now()
    told = yield from ask(first)
    latest = yield from _followed(told, polls, polls.after(began, first.wait))
    if latest is told:
        return told
    mine = told.created or told.rearmed
    return msgspec.structs.replace(
        latest,
        status=model.answer(latest.state, repeated=not mine),
        created=told.created,
        rearmed=told.rearmed,
        drift=told.drift,
    )


def _looked(first: Call[wire.SendAnswer], polls: Polls) -> Plan[wire.SendAnswer]:
    began = polls.now()
    told = yield from ask(first)
    return (yield from _followed(told, polls, polls.after(began, first.wait)))


def _followed(latest: wire.SendAnswer, polls: Polls, pause: float) -> Plan[wire.SendAnswer]:
    """Look again and again until a send is over or the time is."""
    allowed: float = yield Allowance()
    while not _is_over(latest, polls.left - pause):
        if pause:
            yield Pause(pause)
        began, poll = polls.now(), polls.next()
        try:
            latest = yield from ask(_poll(latest.id, poll, min(allowed, _ALLOWED)))
        except OnceboxError as error:
            # It is on disk: that it cannot be looked at for a moment is not worth an error.
            if not may_pass(error):
                raise
            pause = polls.rest() + (error.retry_after or 0)
        else:
            pause = polls.after(began, poll)
    return latest


def _poll(id_: str, poll: float, allowed: float) -> Call[wire.SendAnswer]:
    return Call(
        method="GET",
        path=path("sends", id_),
        answer=wire.SendAnswer,
        query=wire.SendWait(wait=poll),
        repeatable=True,
        alone=True,
        wait=poll,
        within=allowed,
    )


def _is_over(answer: wire.SendAnswer, left: float) -> bool:
    """Say whether waiting on makes no sense: it has ended, or is not due before the deadline."""
    if answer.retry_after is None or left <= 0:
        return True
    return answer.state is SendState.PENDING and answer.retry_after > max(left, 1.0)


def _wish(email: Email, options: SendOptions) -> wire.SendWish:
    intent = meant(email, **options)
    return wire.wish_of(
        intent.email,
        event_type=intent.event_type,
        entity_id=intent.entity_id,
        version=intent.version,
        on_unknown=intent.on_unknown,
        send_at=intent.send_at,
        valid_until=intent.valid_until,
        retention=intent.retention,
        interval=intent.interval / _MILLISECONDS,
        transport=intent.transport,
        attempt_id=intent.attempt_id,
        answers=intent.answers,
        strict=intent.strict,
    )


def _size(wish: wire.SendWish) -> int:
    return len(wish.text) + len(wish.html) + sum(len(each.content) for each in wish.attachments)


def _checked(seconds: float) -> float:
    if not 0 <= seconds < inf:
        message = f"a wait is a number of seconds from zero on, not {seconds}"
        raise ConfigInvalid(message)
    return seconds
