"""Sightings: what a repeat or a rejected request most likely was, by written tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncebox.model.deliveries.delivery import DeliveryState
from oncebox.model.deliveries.duplicates import (
    ACK_TIMEOUT_MS,
    DUPLICATE_RULES,
    REJECTION_RULES,
    RETRY_SPAN_MS,
    DuplicateClass,
    DuplicateFacts,
    classify_duplicate,
    classify_rejection,
)

repeats = st.builds(
    DuplicateFacts,
    same_body=st.booleans(),
    same_channel=st.booleans(),
    state=st.sampled_from(DeliveryState),
    ack_ms=st.integers(-(10**6), 10**6),
    gap_ms=st.integers(-(10**12), 10**12),
    echo=st.booleans(),
    replay=st.booleans(),
    late=st.booleans(),
)


def _repeat(**known: object) -> DuplicateFacts:
    plain = {
        "same_body": True,
        "same_channel": True,
        "state": DeliveryState.DONE,
        "ack_ms": 10,
        "gap_ms": 1_000,
    }
    return DuplicateFacts(**plain | known)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({}, DuplicateClass.PROVIDER_RETRY),
        ({"echo": True, "same_body": False}, DuplicateClass.ECHO),
        ({"same_body": False}, DuplicateClass.CONFLICT),
        ({"same_body": False, "same_channel": False}, DuplicateClass.CONFLICT),
        ({"same_body": False, "replay": True}, DuplicateClass.CONFLICT),
        ({"replay": True, "same_channel": False}, DuplicateClass.SUSPICIOUS_REPLAY),
        ({"same_channel": False}, DuplicateClass.CROSS_PATH),
        ({"ack_ms": ACK_TIMEOUT_MS, "gap_ms": ACK_TIMEOUT_MS}, DuplicateClass.ACK_TIMEOUT),
        ({"ack_ms": ACK_TIMEOUT_MS, "gap_ms": 2 * ACK_TIMEOUT_MS}, DuplicateClass.ACK_TIMEOUT),
        (
            {"ack_ms": ACK_TIMEOUT_MS, "gap_ms": 2 * ACK_TIMEOUT_MS + 1},
            DuplicateClass.PROVIDER_RETRY,
        ),
        ({"ack_ms": ACK_TIMEOUT_MS - 1, "gap_ms": 0}, DuplicateClass.PROVIDER_RETRY),
        ({"state": DeliveryState.DEAD}, DuplicateClass.REDELIVERY),
        ({"state": DeliveryState.DEAD, "late": True}, DuplicateClass.REDELIVERY),
        ({"gap_ms": RETRY_SPAN_MS}, DuplicateClass.PROVIDER_RETRY),
        ({"gap_ms": RETRY_SPAN_MS + 1}, DuplicateClass.REDELIVERY),
        ({"late": True}, DuplicateClass.STALE),
        ({"late": True, "gap_ms": -1}, DuplicateClass.STALE),
        ({"gap_ms": 0}, DuplicateClass.PROVIDER_RETRY),
        ({"gap_ms": -1}, DuplicateClass.UNCLEAR),
    ],
)
def test_a_repeat_is_classed_by_the_table(
    known: dict[str, object], expected: DuplicateClass
) -> None:
    assert classify_duplicate(_repeat(**known)) is expected


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("mismatch", DuplicateClass.FORGED),
        ("signature_mismatch", DuplicateClass.FORGED),
        ("wrong_algorithm", DuplicateClass.FORGED),
        ("missing_signature", DuplicateClass.UNCLEAR),
        ("malformed_timestamp", DuplicateClass.UNCLEAR),
        ("too_many_signatures", DuplicateClass.UNCLEAR),
        ("unusable_secret", DuplicateClass.UNCLEAR),
        ("anything else", DuplicateClass.FORGED),
        ("address_not_allowed", DuplicateClass.WRONG_SOURCE),
        ("unexpected_sender", DuplicateClass.WRONG_SOURCE),
        ("topic_not_allowed", DuplicateClass.WRONG_SOURCE),
        ("future", DuplicateClass.STALE),
        ("stale", DuplicateClass.STALE),
        ("missing", DuplicateClass.UNCLEAR),
        ("malformed", DuplicateClass.UNCLEAR),
    ],
)
def test_a_rejected_request_is_classed_by_its_reason(reason: str, expected: DuplicateClass) -> None:
    assert classify_rejection(reason) is expected


@given(repeats)
def test_every_repeat_has_a_class_and_another_body_is_a_conflict_or_our_own(
    repeat: DuplicateFacts,
) -> None:
    sighting = classify_duplicate(repeat)

    assert (sighting is DuplicateClass.ECHO) == repeat.echo
    assert (sighting is DuplicateClass.CONFLICT) == (not repeat.same_body and not repeat.echo)


def test_every_class_has_a_rule() -> None:
    assert {rule.duplicate_class for rule in (*DUPLICATE_RULES, *REJECTION_RULES)} == set(
        DuplicateClass
    )


@pytest.mark.parametrize("rules", [DUPLICATE_RULES, REJECTION_RULES])
def test_the_last_rule_takes_what_is_left(rules: tuple[object, ...]) -> None:
    assert "none of these" in str(rules[-1])
