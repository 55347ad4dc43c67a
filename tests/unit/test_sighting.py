"""Sightings: what a repeat most likely was, by a written table."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncebox.model.delivery import State
from oncebox.model.sighting import LATE_ACK_MS, RETRY_SPAN_MS, RULES, Repeat, Sighting, classify

repeats = st.builds(
    Repeat,
    same_body=st.booleans(),
    same_road=st.booleans(),
    state=st.sampled_from(State),
    ack_ms=st.integers(-(10**6), 10**6),
    gap_ms=st.integers(-(10**12), 10**12),
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
        ({"same_body": False}, Sighting.CONFLICT),
        ({"same_body": False, "same_road": False}, Sighting.CONFLICT),
        ({"same_road": False}, Sighting.CROSS_PATH),
        ({"ack_ms": LATE_ACK_MS, "gap_ms": LATE_ACK_MS}, Sighting.OUR_LATE_ACK),
        ({"ack_ms": LATE_ACK_MS, "gap_ms": 2 * LATE_ACK_MS}, Sighting.OUR_LATE_ACK),
        ({"ack_ms": LATE_ACK_MS, "gap_ms": 2 * LATE_ACK_MS + 1}, Sighting.PROVIDER_RETRY),
        ({"ack_ms": LATE_ACK_MS - 1, "gap_ms": 0}, Sighting.PROVIDER_RETRY),
        ({"state": State.DEAD}, Sighting.REDELIVERY),
        ({"gap_ms": RETRY_SPAN_MS}, Sighting.PROVIDER_RETRY),
        ({"gap_ms": RETRY_SPAN_MS + 1}, Sighting.REDELIVERY),
        ({"gap_ms": 0}, Sighting.PROVIDER_RETRY),
        ({"gap_ms": -1}, Sighting.UNCLEAR),
    ],
)
def test_a_repeat_is_classed_by_the_table(known: dict[str, object], expected: Sighting) -> None:
    assert classify(_repeat(**known)) is expected


@given(repeats)
def test_every_repeat_has_a_class_and_another_body_is_always_a_conflict(repeat: Repeat) -> None:
    sighting = classify(repeat)

    assert sighting in set(Sighting)
    assert (sighting is Sighting.CONFLICT) == (not repeat.same_body)


def test_every_class_has_a_rule_or_is_the_rest() -> None:
    assert {name for name, _ in RULES} | {Sighting.UNCLEAR} == set(Sighting)
