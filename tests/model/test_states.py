"""The nouns: states and their table, headers, and the key an effect shows to the world."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from oncebox.model.deliveries.delivery import TRANSITIONS, Delivery, DeliveryState, encode_headers
from oncebox.model.deliveries.effects import effect_key

words = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=10)


def _delivery(**rest: Any) -> Delivery:
    plain: dict[str, Any] = dict.fromkeys(Delivery.__struct_fields__)
    return Delivery(**plain | rest)


def test_every_state_is_reached_from_the_first_and_none_is_a_trap() -> None:
    """A person can bring anything that has ended back."""
    for start in DeliveryState:
        reached = {start}
        while True:
            more = {after for before, after in TRANSITIONS if before in reached}
            if more <= reached:
                break
            reached |= more
        assert reached == set(DeliveryState), start


def test_work_is_only_ended_by_its_worker_unless_it_is_stale_or_dropped_by_a_person() -> None:
    ends = {DeliveryState.DONE, DeliveryState.DEAD, DeliveryState.FAILED}

    enders = {
        before
        for (before, after), why in TRANSITIONS.items()
        if after in ends and "stale" not in why and why != "dropped by a person"
    }
    assert enders == {DeliveryState.PROCESSING}


def test_every_transition_says_what_causes_it() -> None:
    assert all(cause for cause in TRANSITIONS.values())


@given(st.lists(st.tuples(words, words)))
def test_headers_come_back_in_order_with_repeats(headers: list[tuple[str, str]]) -> None:
    kept = tuple(headers)

    assert _delivery(raw_headers=encode_headers(kept)).headers == kept


def test_a_body_can_be_read_as_text_or_json() -> None:
    delivery = _delivery(body='{"a": "ü"}'.encode())

    assert (delivery.text, delivery.json) == ('{"a": "ü"}', {"a": "ü"})


def test_the_key_of_an_effect_never_changes_between_versions() -> None:
    """Others keep it; a new version must give out the same."""
    assert (
        effect_key("default", "stripe", "evt_1", "", "open-issue")
        == "once_a68de17ea02e65a2209c2f4fe364f07205845bdc"
    )


@given(st.lists(st.tuples(words, words, words, words, words), unique=True, max_size=8))
def test_different_effects_have_different_keys(
    parts: list[tuple[str, str, str, str, str]],
) -> None:
    assert len({effect_key(*each) for each in parts}) == len(parts)
