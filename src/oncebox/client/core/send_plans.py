"""Plans without I/O: send a mail, long-poll for its outcome, send many; batch request bodies.

A repeated request is the same mail, so a lost answer is harmless. All long polls of one wait
share one deadline; after a poll that failed or was cut comes a pause with backoff.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf

import msgspec

from oncebox.client.core.calls import (
    Call,
    PauseStep,
    Plan,
    PollSchedule,
    TimeoutStep,
    api_path,
    check_idempotency_key,
    get_call,
    is_transient,
    perform,
)
from oncebox.core import clock
from oncebox.errors import (
    BodyTooLarge,
    ConfigInvalid,
    InputRefused,
    KeyInvalid,
    NotFound,
    OnceboxError,
    StateConflict,
)
from oncebox.errors.http import FieldsInvalid, IdempotencyKeyMissing
from oncebox.model.sends.email import Email
from oncebox.model.sends.intent import Instant, SendOptions
from oncebox.model.sends.send import OnUnknown, Retention, SendState, answer_status
from oncebox.schemas.sends import (
    BatchAnswer,
    BatchRequest,
    SendAnswer,
    SendRequest,
    SendWait,
    request_from_options,
)

#: seconds of one poll; proxies may drop a longer one silently
_LONGEST_POLL = 20.0
#: bytes; the service would hold a larger mail in memory for the whole poll
_LARGE_MAIL = 64 * 1024
#: seconds after which a late answer counts as lost
_ANSWER_TIMEOUT = 5.0
#: mails and bytes of one request of ``send_many``, at first
_MANY, _MANY_BYTES = 100, 8 * 1024 * 1024
#: errors of single mails, because of which the others of a request are sent without them
_ABOUT_MAILS = (
    InputRefused, BodyTooLarge, FieldsInvalid, IdempotencyKeyMissing, StateConflict, NotFound,
)  # fmt: skip


def send_request(  # noqa: PLR0913 - the options of a send
    email: Email,
    *,
    event_type: str = "",
    entity_id: str = "",
    version: int = 1,
    key: str | None = None,
    on_unknown: OnUnknown | str = "replay",
    send_at: Instant | None = None,
    valid_until: Instant | None = None,
    transport: str = "",
    failover_group: str = "",
    retention: Retention | str = "transactional",
    interval: float = 0,
    attempt_id: str | None = None,
    answers: str | None = None,
    strict: bool = False,
) -> SendRequest:
    """Return a mail of a batch: the body of a send request, without a key of its own.

    Raises: KeyInvalid.
    """
    if key is not None:
        raise KeyInvalid("a mail of a batch has event_type and entity_id, and no key of its own")
    return request_from_options(
        email,
        SendOptions(
            event_type=event_type,
            entity_id=entity_id,
            version=version,
            on_unknown=on_unknown,
            send_at=send_at,
            valid_until=valid_until,
            transport=transport,
            failover_group=failover_group,
            retention=retention,
            interval=interval,
            attempt_id=attempt_id,
            answers=answers,
            strict=strict,
        ),
    )


def send_plan(email: Email, wait: float, options: SendOptions) -> Plan[SendAnswer]:
    """Send a mail once, and wait up to ``wait`` seconds for its outcome."""
    key = options.get("key")
    if key is None and not (options.get("event_type") and options.get("entity_id")):
        raise KeyInvalid("say what the mail is about by event_type and entity_id, or give a key")
    body = request_from_options(email, options)
    first = min(_check_wait(wait), _LONGEST_POLL)
    is_later = body.send_at is not None and body.send_at > clock.system() + wait * 1000
    if is_later or _size(body) >= _LARGE_MAIL:
        first = 0.0
    call = Call(
        method="POST",
        path=api_path("sends"),
        answer=SendAnswer,
        query=SendWait(wait=first),
        body=body,
        idempotency_key=check_idempotency_key(key),
        repeatable=True,
        wait=first,
    )
    polls = PollSchedule(within=wait, longest=_LONGEST_POLL)
    began = polls.now()
    answer = yield from perform(call)
    latest = yield from _follow_until_settled(answer, polls, polls.pause_after(began, first))
    if latest is answer:
        return answer
    is_first = answer.created or answer.rearmed
    return msgspec.structs.replace(
        latest,
        status=answer_status(latest.state, repeated=not is_first),
        created=answer.created,
        rearmed=answer.rearmed,
        drift=answer.drift,
    )


def wait_plan(send_id: str, within: float) -> Plan[SendAnswer]:
    """Wait up to ``within`` seconds for the outcome of a send."""
    first = min(_check_wait(within), _LONGEST_POLL)
    polls = PollSchedule(within=within, longest=_LONGEST_POLL)
    began = polls.now()
    answer = yield from perform(_poll_call(send_id, first))
    return (yield from _follow_until_settled(answer, polls, polls.pause_after(began, first)))


def _follow_until_settled(
    latest: SendAnswer, polls: PollSchedule, pause: float
) -> Plan[SendAnswer]:
    """Poll until the send has ended or the time is over."""
    allowed: float = yield TimeoutStep()
    while not _is_settled(latest, polls.left - pause):
        if pause:
            yield PauseStep(pause)
        began, poll = polls.now(), polls.next_poll()
        call = _poll_call(latest.id, poll)
        try:
            latest = yield from perform(
                replace(call, no_retry=True, within=min(allowed, _ANSWER_TIMEOUT))
            )
        except OnceboxError as error:
            # The mail is stored: a failed poll is not an error.
            if not is_transient(error):
                raise
            pause = polls.pause_after_error(error)
        else:
            pause = polls.pause_after(began, poll)
    return latest


def _poll_call(id_: str, poll: float) -> Call[SendAnswer]:
    return replace(get_call(SendAnswer, "sends", id_, query=SendWait(wait=poll)), wait=poll)


def _is_settled(answer: SendAnswer, left: float) -> bool:
    """Return whether the send has ended or is not due before the deadline."""
    if answer.retry_after is None or left <= 0:
        return True
    return answer.state is SendState.PENDING and answer.retry_after > max(left, 1.0)


def _size(body: SendRequest) -> int:
    return len(body.text) + len(body.html) + sum(len(each.content) for each in body.attachments)


def _check_wait(seconds: float) -> float:
    if not 0 <= seconds < inf:
        raise ConfigInvalid(f"a wait is a number of seconds from zero on, not {seconds}")
    return seconds


_Outcome = tuple[SendAnswer | None, OnceboxError | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyResult:
    """The result of one mail of ``send_many``: its answer, or the error that refused it."""

    #: its position in the input, from 0
    number: int
    request: SendRequest
    answer: SendAnswer | None = None
    error: OnceboxError | None = None

    @property
    def repeated(self) -> bool:
        """Whether it was stored before, by an earlier run or by an equal mail."""
        return self.answer is not None and not (self.answer.created or self.answer.rearmed)


class ManyProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How many mails of ``send_many`` were answered so far."""

    done: int = 0
    #: stored by this run
    created: int = 0
    #: stored before
    repeated: int = 0
    #: refused; their results have an ``error``
    refused: int = 0


class ManySends:
    """Sends any number of mails, some in each request; keeps none of them.

    A request that is refused because of a mail is divided until only that mail is left, so
    the others are sent. A mail is recognised by its event type, entity and recipients, so a
    request may be repeated, by this run or by the next one.
    """

    def __init__(
        self,
        on_progress: Callable[[ManyProgress], object] | None,
        patience: float,
    ) -> None:
        self._on_progress = on_progress
        self._patience = _check_wait(patience)
        self._most = _MANY
        self._bytes = 0
        self.progress = ManyProgress()

    def is_full(self, chunk: Sequence[SendRequest], following: SendRequest) -> bool:
        """Return whether these mails are sent before the next one is added."""
        size = _size(following)
        self._bytes = self._bytes + size if chunk else size
        if len(chunk) < self._most and self._bytes <= _MANY_BYTES:
            return False
        self._bytes = size
        return bool(chunk)

    def plan(self, chunk: Sequence[SendRequest]) -> Plan[list[ManyResult]]:
        """Send these mails; return their results in the same order."""
        first = self.progress.done
        outcomes = yield from self._store(chunk)
        results = [
            ManyResult(number=first + at, request=request, answer=answer, error=error)
            for at, (request, (answer, error)) in enumerate(zip(chunk, outcomes, strict=True))
        ]
        repeated = sum(each.repeated for each in results)
        refused = sum(each.error is not None for each in results)
        before = self.progress
        self.progress = ManyProgress(
            done=before.done + len(results),
            created=before.created + len(results) - repeated - refused,
            repeated=before.repeated + repeated,
            refused=before.refused + refused,
        )
        if self._on_progress is not None:
            self._on_progress(self.progress)
        return results

    def _store(self, chunk: Sequence[SendRequest]) -> Plan[list[_Outcome]]:
        if len(chunk) > self._most:
            return (yield from self._store_halves(chunk))
        try:
            answer = yield from self._store_patiently(chunk)
        except _ABOUT_MAILS as error:
            if len(chunk) == 1:
                return [(None, error)]
            if isinstance(error, FieldsInvalid) and error.pointer == "/sends":
                self._most = len(chunk) // 2  # the limit of this service is lower
            return (yield from self._store_halves(chunk))
        return [(each, None) for each in answer.data]

    def _store_halves(self, chunk: Sequence[SendRequest]) -> Plan[list[_Outcome]]:
        middle = len(chunk) // 2
        before = yield from self._store(chunk[:middle])
        return before + (yield from self._store(chunk[middle:]))

    def _store_patiently(self, chunk: Sequence[SendRequest]) -> Plan[BatchAnswer]:
        """Repeat a request that may succeed later, after the pause that the service asks for."""
        polls = PollSchedule(within=self._patience, longest=0.0)
        call = Call(
            method="POST",
            path=api_path("sends", "batch"),
            answer=BatchAnswer,
            body=BatchRequest(sends=[*chunk]),
            repeatable=True,
        )
        while True:
            try:
                return (yield from perform(call))
            except OnceboxError as error:
                pause = polls.pause_after_error(error)
                if not is_transient(error) or pause > polls.left:
                    raise
            yield PauseStep(pause)
