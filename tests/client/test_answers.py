"""Answers: every problem becomes the error that the service raised, whatever comes back."""

import json
from collections.abc import Callable
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncebox import errors
from oncebox.client.core import calls
from oncebox.client.core.calls import (
    Call,
    HttpReply,
    PauseStep,
    Plan,
    SendStep,
    backoff,
    call_with_retries,
)
from oncebox.client.errors import NoAnswer, ServiceRefused, ServiceUnreachable
from oncebox.core import clock
from oncebox.errors import OnceboxError
from oncebox.errors import http as http_errors
from oncebox.schemas.access import CurrentKey
from oncebox.server.http import problems

MINE = Call(method="GET", path="/v1/self", answer=CurrentKey, repeatable=True)
KINDS = {
    kind.code: kind
    for module in (errors, http_errors)
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, OnceboxError)
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


def _reply(status: int, body: bytes, **headers: str) -> HttpReply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpReply(status, {"content-type": "application/problem+json"} | named, body)


def _raised(reply: HttpReply) -> OnceboxError:
    with pytest.raises(OnceboxError) as caught:
        calls.decode_answer(MINE, reply)
    return caught.value


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_error_of_the_service_arrives_as_itself(kind: type[OnceboxError]) -> None:
    described = problems.describe(kind, "req_1")
    headers, body = problems.response(described)
    named = {name.decode(): value.decode() for name, value in headers}

    error = _raised(HttpReply(described.status, named, body))

    assert type(error) is kind
    assert (error.code, error.retry_safe) == (kind.code, kind.retry_safe)
    assert (error.status, error.request_id) == (described.status, "req_1")
    assert str(error) == described.detail
    assert (error.retry_after is not None) == ("retry-after" in named)


@given(
    code=st.text(min_size=1, max_size=30) | st.sampled_from(sorted(KINDS)),
    status=st.integers(300, 599),
    retry_safe=st.booleans(),
    detail=st.text(max_size=30),
)
def test_any_problem_keeps_what_it_says(
    code: str, status: int, retry_safe: bool, detail: str
) -> None:
    told = {
        "type": "/problems/x",
        "title": "x",
        "status": status,
        "detail": detail,
        "instance": "x",
        "code": code,
        "retry_safe": retry_safe,
        "request_id": "req_9",
        "more": "than is known today",
    }
    error = _raised(_reply(status, json.dumps(told).encode()))

    assert type(error) is KINDS.get(code, ServiceRefused)
    assert (error.code, error.retry_safe, str(error)) == (code, retry_safe, detail)
    assert (error.status, error.request_id) == (status, "req_9")


@given(
    status=st.integers(100, 999),
    body=st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()),
    content_type=st.sampled_from(["application/problem+json", "application/json", "", ";;"])
    | st.text(max_size=20),
    wait=st.none() | st.text(max_size=30),
)
def test_nothing_foreign_comes_out_of_an_answer(
    status: int, body: bytes, content_type: str, wait: str | None
) -> None:
    headers = {"content-type": content_type} | ({} if wait is None else {"retry-after": wait})
    found: CurrentKey | OnceboxError
    try:
        found = calls.decode_answer(MINE, HttpReply(status, headers, body))
    except OnceboxError as error:
        found = error

    if isinstance(found, OnceboxError):
        assert found.status == status
        assert found.retry_after is None or 0 <= found.retry_after < float("inf")


@given(st.integers(0, 10**9))
def test_retry_after_in_seconds_is_read(seconds: int) -> None:
    assert calls.parse_retry_after(str(seconds)) == seconds


def test_retry_after_as_a_date_is_read() -> None:
    now = clock.system() / 1000

    assert calls.parse_retry_after(formatdate(now + 100, usegmt=True)) == pytest.approx(100, abs=2)
    assert calls.parse_retry_after(formatdate(now - 100, usegmt=True)) == 0


@pytest.mark.parametrize("text", [None, "", "soon", "-5", "1e3", "nan", "٣", "²"])
def test_a_retry_after_that_says_nothing_is_no_wish(text: str | None) -> None:
    assert calls.parse_retry_after(text) in {None, 3.0}


class _Line:
    """A line that answers by a script, in time that only it moves."""

    def __init__(self, steps: list[tuple[float, OnceboxError | HttpReply]]) -> None:
        self._steps = steps
        self.now = 0.0
        self.sent_at: list[float] = []
        self.allowed: list[float] = []

    def drive(self, plan: Plan[CurrentKey]) -> CurrentKey:
        try:
            step = next(plan)
            while True:
                if isinstance(step, PauseStep):
                    self.now += step.seconds
                    step = plan.send(None)
                    continue
                assert isinstance(step, SendStep)
                self.sent_at.append(self.now)
                self.allowed.append(step.within)
                took, came = self._steps[min(len(self.sent_at), len(self._steps)) - 1]
                self.now += min(took, step.within)
                if took > step.within:
                    step = plan.throw(NoAnswer("late"))
                elif isinstance(came, OnceboxError):
                    step = plan.throw(came)
                else:
                    step = plan.send(came)
        except StopIteration as end:
            found: CurrentKey = end.value
            return found


def _trouble() -> st.SearchStrategy[OnceboxError]:
    makers: list[Callable[[], OnceboxError]] = [
        lambda: ServiceUnreachable("broke"),
        lambda: ServiceUnreachable("never", sent=False),
        lambda: _raised(_busy("1")),
        lambda: _raised(_busy("soon")),
    ]
    return st.sampled_from(makers).map(lambda make: make())


def _busy(wait: str) -> HttpReply:
    _, body = problems.response(problems.describe(http_errors.ServerBusy, "req_1"))
    return _reply(503, body, retry_after=wait)


@given(
    steps=st.lists(st.tuples(st.floats(0.1, 20), _trouble()), min_size=1, max_size=8),
    within=st.floats(0.1, 60),
    dice=st.floats(0, 1, exclude_max=True),
    repeatable=st.booleans(),
)
def test_a_call_ends_by_its_deadline_and_repeats_only_what_is_safe(
    steps: list[tuple[float, OnceboxError]], within: float, dice: float, repeatable: bool
) -> None:
    line = _Line([(took, came) for took, came in steps])
    call = Call(method="GET", path="/v1/self", answer=CurrentKey, repeatable=repeatable)
    with pytest.raises(OnceboxError) as caught:
        line.drive(
            call_with_retries(call, within=within, now=lambda: line.now, jitter=lambda: dice)
        )

    assert line.now <= within + 1e-6
    assert all(at < within for at in line.sent_at)
    assert all(
        at + share <= within + 1e-6 for at, share in zip(line.sent_at, line.allowed, strict=True)
    )
    if isinstance(caught.value, NoAnswer) and caught.value.sent and not repeatable:
        assert not caught.value.retry_safe


def test_waits_double_up_to_a_bound_and_are_drawn_from_all_of_it() -> None:
    assert [backoff(tries, lambda: 1.0) for tries in range(1, 9)] == [
        0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0,
    ]  # fmt: skip
    assert backoff(5, lambda: 0.0) == 0
    assert backoff(10_000, lambda: 0.5) == 2.5
