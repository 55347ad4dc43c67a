"""Sightings: what a repeat or a rejected request most likely was, by written tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncebox.model.delivery import State
from oncebox.model.sighting import (
    LATE_ACK_MS,
    REJECTS,
    REPEATS,
    RETRY_SPAN_MS,
    Repeat,
    Sighting,
    classify,
    classify_reject,
)

repeats = st.builds(
    Repeat,
    same_body=st.booleans(),
    same_road=st.booleans(),
    state=st.sampled_from(State),
    ack_ms=st.integers(-(10**6), 10**6),
    gap_ms=st.integers(-(10**12), 10**12),
    echo=st.booleans(),
    replay=st.booleans(),
    late=st.booleans(),
)


def _repeat(**known: object) -> Repeat:
    plain = {
        "same_body": True,
        "same_road": True,
        "state": State.DONE,
        "ack_ms": 10,
        "gap_ms": 1_000,
    }
    return Repeat(**plain | known)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({}, Sighting.PROVIDER_RETRY),
        ({"echo": True, "same_body": False}, Sighting.ECHO),
        ({"same_body": False}, Sighting.CONFLICT),
        ({"same_body": False, "same_road": False}, Sighting.CONFLICT),
        ({"same_body": False, "replay": True}, Sighting.CONFLICT),
        ({"replay": True, "same_road": False}, Sighting.SUSPICIOUS_REPLAY),
        ({"same_road": False}, Sighting.CROSS_PATH),
        ({"ack_ms": LATE_ACK_MS, "gap_ms": LATE_ACK_MS}, Sighting.OUR_LATE_ACK),
        ({"ack_ms": LATE_ACK_MS, "gap_ms": 2 * LATE_ACK_MS}, Sighting.OUR_LATE_ACK),
        ({"ack_ms": LATE_ACK_MS, "gap_ms": 2 * LATE_ACK_MS + 1}, Sighting.PROVIDER_RETRY),
        ({"ack_ms": LATE_ACK_MS - 1, "gap_ms": 0}, Sighting.PROVIDER_RETRY),
        ({"state": State.DEAD}, Sighting.REDELIVERY),
        ({"state": State.DEAD, "late": True}, Sighting.REDELIVERY),
        ({"gap_ms": RETRY_SPAN_MS}, Sighting.PROVIDER_RETRY),
        ({"gap_ms": RETRY_SPAN_MS + 1}, Sighting.REDELIVERY),
        ({"late": True}, Sighting.STALE),
        ({"late": True, "gap_ms": -1}, Sighting.STALE),
        ({"gap_ms": 0}, Sighting.PROVIDER_RETRY),
        ({"gap_ms": -1}, Sighting.UNCLEAR),
    ],
)
def test_a_repeat_is_classed_by_the_table(known: dict[str, object], expected: Sighting) -> None:
    assert classify(_repeat(**known)) is expected


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("mismatch", Sighting.FORGED),
        ("signature_mismatch", Sighting.FORGED),
        ("wrong_algorithm", Sighting.FORGED),
        ("missing_signature", Sighting.UNCLEAR),
        ("malformed_timestamp", Sighting.UNCLEAR),
        ("too_many_signatures", Sighting.UNCLEAR),
        ("unusable_secret", Sighting.UNCLEAR),
        ("anything else", Sighting.FORGED),
        ("future", Sighting.STALE),
        ("stale", Sighting.STALE),
        ("missing", Sighting.UNCLEAR),
        ("malformed", Sighting.UNCLEAR),
    ],
)
def test_a_rejected_request_is_classed_by_its_reason(reason: str, expected: Sighting) -> None:
    assert classify_reject(reason) is expected


@given(repeats)
def test_every_repeat_has_a_class_and_another_body_is_a_conflict_or_our_own(
    repeat: Repeat,
) -> None:
    sighting = classify(repeat)

    assert (sighting is Sighting.ECHO) == repeat.echo
    assert (sighting is Sighting.CONFLICT) == (not repeat.same_body and not repeat.echo)


def test_every_class_has_a_rule() -> None:
    assert {rule.sighting for rule in (*REPEATS, *REJECTS)} == set(Sighting)


@pytest.mark.parametrize("rules", [REPEATS, REJECTS])
def test_the_last_rule_takes_what_is_left(rules: tuple[object, ...]) -> None:
    assert "none of these" in str(rules[-1])
