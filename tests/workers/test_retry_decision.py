"""What comes after a try at a send: decided without a clock, a database or chance."""

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from oncebox.model.sends.send import OnUnknown, Retention, Send, SendState
from oncebox.model.sends.transports import (
    GIVEN_BACK,
    NotSent,
    SendAccepted,
    SendOutcome,
    SendPhase,
    SendRejected,
    SendUnknown,
    counts_as_failure,
)
from oncebox.settings import SendSettings
from oncebox.transports.transport import CAPABILITIES, Idempotency
from oncebox.workers.sends.send_worker import decide_retry, replay_until

NOW = 1_000_000_000
RULES = SendSettings(tries=5, first_wait=1.0, longest_wait=10.0)

_codes = st.sampled_from(["connect_failed", "recipient_deferred", "fence_lost", GIVEN_BACK])
_phases = st.sampled_from(list(SendPhase))
_not_sent = st.builds(
    NotSent,
    code=_codes,
    phase=_phases,
    retry_after=st.none() | st.integers(0, 10**8),
    opens_circuit=st.booleans(),
    reply=st.sampled_from([0, 421, 429, 451]),
)
_outcomes: st.SearchStrategy[SendOutcome] = st.one_of(
    st.just(SendAccepted()),
    _not_sent,
    st.builds(SendRejected, code=_codes, phase=_phases),
    st.builds(SendUnknown, code=_codes, phase=_phases),
)
_ways = st.sampled_from([None, "b"])


def send(tries: int = 1, **more: Any) -> Send:
    """Return a send as it was claimed."""
    empty: dict[str, Any] = dict.fromkeys(Send.__struct_fields__)
    known: dict[str, Any] = {
        "id": "snd_1",
        "tenant": "acme",
        "state": SendState.CLAIMED,
        "transport": "a",
        "on_unknown": OnUnknown.HOLD,
        "retention": Retention.TRANSACTIONAL,
        "fence": 7,
        "tries": tries,
    }
    return Send(**{**empty, **known, **more})


@given(
    outcome=_outcomes,
    tries=st.integers(1, 8),
    random=st.floats(0, 0.999),
    in_doubt=st.booleans(),
    other=_ways,
)
def test_a_word_never_promises_more_than_is_known(
    outcome: SendOutcome,
    tries: int,
    random: float,
    in_doubt: bool,
    other: str | None,
) -> None:
    one = send(tries, unknown_since=NOW - 5 if in_doubt else None)
    word = decide_retry(one, outcome, RULES, now=NOW, random=lambda: random, failover=other)

    assert (word.id, word.fence, word.outcome, word.transport) == ("snd_1", 7, outcome, "a")
    if isinstance(outcome, SendAccepted | SendRejected):
        assert (word.due_at, word.move_to, word.uncounted) == (None, None, False)
    if word.due_at is not None:
        assert word.due_at >= NOW
    if tries >= RULES.tries and not word.uncounted:
        assert word.due_at is None
    assert word.move_to is None or isinstance(outcome, NotSent)
    asked = outcome.retry_after if isinstance(outcome, NotSent) else None
    if asked and word.due_at is not None and word.move_to is None and outcome.code != GIVEN_BACK:  # type: ignore[union-attr]
        assert word.due_at >= NOW + asked


@settings(max_examples=300)
@given(outcome=_not_sent, in_doubt=st.booleans(), pinned=st.booleans(), other=_ways)
def test_another_way_is_taken_only_from_what_was_certainly_not_sent_and_not_pinned(
    outcome: NotSent, in_doubt: bool, pinned: bool, other: str | None
) -> None:
    one = send(unknown_since=NOW - 5 if in_doubt else None, pinned=pinned)
    word = decide_retry(one, outcome, RULES, now=NOW, random=lambda: 0, failover=other)

    may = counts_as_failure(outcome) and not in_doubt and not pinned
    assert word.move_to == (other if may else None)


@given(tries=st.integers(1, 4), random=st.floats(0, 0.999))
def test_waits_double_between_half_and_all_of_a_bound(tries: int, random: float) -> None:
    outcome = NotSent(code="recipient_deferred", phase=SendPhase.ENVELOPE, reply=452)
    word = decide_retry(send(tries), outcome, RULES, now=NOW, random=lambda: random)

    bound = 1_000 * min(RULES.longest_wait, RULES.first_wait * 2 ** (tries - 1))
    assert word.due_at is not None
    assert bound // 2 <= word.due_at - NOW <= bound


def test_what_is_wrong_with_the_way_costs_the_send_no_try() -> None:
    refused = NotSent(code="login_refused", phase=SendPhase.GREETED, opens_circuit=True)
    word = decide_retry(send(RULES.tries), refused, RULES, now=NOW, random=lambda: 0)

    assert word.uncounted
    assert word.due_at is not None


def test_the_first_change_of_ways_costs_no_time_and_the_next_ones_do() -> None:
    lost = NotSent(code="connect_failed", phase=SendPhase.CONNECT)
    first, second = (
        decide_retry(send(tries), lost, RULES, now=NOW, random=lambda: 0, failover="b")
        for tries in (1, 2)
    )

    assert (first.move_to, first.due_at) == ("b", NOW)
    assert second.due_at is not None
    assert second.due_at > NOW


def test_only_who_replays_keys_is_relied_on_and_not_to_the_last_minute() -> None:
    for capability in CAPABILITIES.values():
        until = replay_until(capability, NOW)
        if capability.idempotency is Idempotency.REPLAY:
            assert until is not None
            assert NOW < until < NOW + capability.window_ms
        else:
            assert until is None
    assert msgspec.structs.asdict(CAPABILITIES["resend"])["window_ms"] == 86_400_000
