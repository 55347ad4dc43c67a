"""A source cannot hold a bad value, and says of each which field it is and what helps."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncebox.errors import ConfigInvalid
from oncebox.model.deliveries.retry import RetryRules
from oncebox.model.webhooks import source as webhooks_source
from oncebox.model.webhooks.source import (
    Source,
    SourceEntry,
    SourceOrigin,
    SourceSecret,
    SourceState,
    SourceTrouble,
)

PLAIN: dict[str, Any] = {
    "tenant": "default",
    "name": "stripe",
    "public_id": "stripe",
    "scheme": "stripe",
}
BAD: list[tuple[str, Any, str]] = [
    ("tenant", "", "tenant"),
    ("name", "", "name"),
    ("name", "a b", "name"),
    ("name", "x" * 101, "name"),
    ("public_id", "", "public_id"),
    ("public_id", "../etc", "public_id"),
    ("public_id", "a/b", "public_id"),
    ("public_id", "a%2fb", "public_id"),
    ("public_id", "..", "public_id"),
    ("scheme", "", "scheme"),
    ("scheme", "Stripe", "scheme"),
    ("scheme", "none", "allow_unsigned"),
    ("options", {"A b": 1}, "options"),
    ("options", {"header": object()}, "options"),
    ("options", {"header": "x" * 9000}, "options"),
    ("public_url", "hooks.example.com", "public_url"),
    ("public_url", "ftp://example.com", "public_url"),
    ("public_url", "https://", "public_url"),
    ("public_url", "https://user:secret@example.com", "public_url"),
    ("public_url", "https://example.com/?a=b", "public_url"),
    ("public_url", "https://example.com/#a", "public_url"),
    ("public_url", "https://example.com/a b", "public_url"),
    ("public_url", "https://example.com:99999/", "public_url"),
    ("public_url", "https://[::1", "public_url"),
    ("late", "maybe", "hold or run"),
    ("late", "drop", "hold or run"),
    ("replay", "", "hold or run or drop"),
    ("redelivery", "again", "rearm or count"),
    ("stale", "hold", "skip or run"),
    ("mode", "push", "handler or pull"),
    ("order_by", "data.id", "order_by"),
    ("order_by", "$", "order_by"),
    ("order_by", "$..id", "order_by"),
    ("order_by", "$.a[x]", "order_by"),
    ("order_by", "$.a b", "order_by"),
    ("order_by", "$" + ".a" * 200, "order_by"),
    ("sequence", "", "sequence"),
    ("after", {"b": "a"}, "order_by"),
    ("tries", 0, "tries"),
    ("tries", 1_001, "tries"),
    ("tries", True, "tries"),
    ("tries", "3", "tries"),
    ("budget", -1, "budget"),
    ("first_wait", 1.5, "first_wait"),
    ("longest_wait", 10**15, "longest_wait"),
    ("gap_wait", -1, "gap_wait"),
    ("after_wait", 10**12, "after_wait"),
    ("rate", 0, "rate"),
    ("concurrency", 0, "concurrency"),
    ("retention", 0, "retention"),
    ("inbox", "", "inbox"),
    ("inbox", "inb\x00", "inbox"),
    ("cidrs", ("300.0.0.0/8",), "cidrs"),
    ("cidrs", ("10.0.0.1/8",), "cidrs"),
    ("cidrs", ("10.0.0.0/8", "anywhere"), r"cidrs\[1\]"),
    ("expect", {"": "x"}, "expect"),
    ("expect", {"$.a": ""}, "expect"),
    ("expect", {"Not A Path": "x"}, "expect"),
]


@pytest.mark.parametrize(("field", "value", "named"), BAD)
def test_a_bad_value_names_its_field_and_the_remedy(field: str, value: Any, named: str) -> None:
    with pytest.raises(ConfigInvalid, match=named) as caught:
        Source(**{**PLAIN, field: value})

    assert field in str(caught.value)


def test_every_field_that_can_be_wrong_is_tried() -> None:
    tried = {field for field, _, _ in BAD}

    assert set(Source.__struct_fields__) - tried == {
        "secrets", "paused", "allow_unsigned", "inbound",
    }  # fmt: skip


def test_an_inbox_is_for_mail_only() -> None:
    with pytest.raises(ConfigInvalid, match="inbound"):
        Source(**PLAIN, inbound=False, inbox="inb_1")


def test_types_that_wait_for_each_other_in_a_circle_are_refused() -> None:
    for circle in ({"a": "a"}, {"a": "b", "b": "a"}, {"x": "a", "a": "b", "b": "c", "c": "a"}):
        with pytest.raises(ConfigInvalid, match="circle"):
            Source(**PLAIN, order_by="$.id", after=circle)

    Source(**PLAIN, order_by="$.id", after={"c": "b", "b": "a"})


@pytest.mark.parametrize("path", ["$.data.object.id", "$.items[0].id", "$[3]", "$.a-b_c.Ü"])
def test_paths_lead_into_objects_and_lists(path: str) -> None:
    assert Source(**PLAIN, order_by=path, sequence=path, expect={path: "1"}).order_by == path


def test_unsigned_requests_are_let_in_only_when_that_is_said() -> None:
    assert Source(**{**PLAIN, "scheme": "none"}, allow_unsigned=True).scheme == "none"


def test_a_secret_is_shown_by_nothing_that_prints_it() -> None:
    secret = SourceSecret(id="sec_1", value="CANARY", reference="env:X")
    source = Source(**PLAIN, secrets=(secret,))
    entry = SourceEntry(source=source, origin=SourceOrigin.FILE, ready=True)

    shown = f"{secret!r} {secret} {source!r} {source} {entry!r} {secret.__rich_repr__()}"
    assert "CANARY" not in shown
    assert "sec_1" in shown


def test_retries_are_those_of_the_settings_where_a_source_says_nothing() -> None:
    rules = RetryRules(tries=5, budget=9)

    assert Source(**PLAIN).retry_rules(rules) == rules
    assert Source(**PLAIN, tries=1, budget=0).retry_rules(rules) == RetryRules(tries=1, budget=0)


@pytest.mark.parametrize(
    ("ready", "paused", "state"),
    [
        (True, False, SourceState.READY),
        (True, True, SourceState.PAUSED),
        (False, False, SourceState.UNREADY),
        (False, True, SourceState.UNREADY),
    ],
)
def test_a_source_that_cannot_check_is_unready_even_when_paused(
    ready: bool, paused: bool, state: SourceState
) -> None:
    source = Source(**PLAIN, paused=paused)
    troubles = (SourceTrouble("secret_unavailable", "set it"), SourceTrouble("x", "mend it"))

    entry = SourceEntry(source=source, origin=SourceOrigin.DATABASE, ready=ready, troubles=troubles)

    assert entry.state is state
    assert entry.note == "set it; mend it"


# the table


def _parse(table: dict[str, Any]) -> Source:
    return webhooks_source.source_from_table(
        table, tenant="default", name="stripe", public_id="stripe"
    )


def test_times_are_written_in_seconds() -> None:
    source = _parse({"scheme": "stripe", "budget": 1.5, "gap_wait": 2, "first_wait": "0.25"})

    assert (source.budget, source.gap_wait, source.first_wait) == (1_500, 2_000, 250)
    assert webhooks_source.source_to_table(source)["budget"] == 1.5


def test_a_table_holds_only_what_is_not_as_by_default() -> None:
    table = {"scheme": "stripe", "replay": "hold", "gap_wait": 60, "rate": 3, "paused": False}

    assert webhooks_source.source_to_table(_parse(table)) == {"scheme": "stripe", "rate": 3}


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ({}, "scheme"),
        ({"scheme": "x", "colour": 1}, "colour"),
        ({"scheme": "x", "tenant": "y"}, "tenant"),
        ({"scheme": 5}, "scheme"),
        ({"scheme": "x", "rate": "many"}, "rate"),
        ({"scheme": "x", "rate": 1.5}, "rate"),
        ({"scheme": "x", "budget": "long"}, "budget"),
        ({"scheme": "x", "budget": "nan"}, "budget"),
        ({"scheme": "x", "budget": float("inf")}, "budget"),
        ({"scheme": "x", "budget": []}, "budget"),
        ({"scheme": "x", "paused": "perhaps"}, "paused"),
        ({"scheme": "x", "cidrs": "10.0.0.0/8"}, "cidrs"),
        ({"scheme": "x", "cidrs": [1]}, r"cidrs\[0\]"),
        ({"scheme": "x", "expect": {"$.a": 1}}, "expect"),
        ({"scheme": "x", "options": []}, "options"),
    ],
)
def test_a_mistake_in_a_table_names_its_field(table: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigInvalid, match=f"^{named}.* of source 'stripe'"):
        _parse(table)


_TABLES = st.fixed_dictionaries(
    {"scheme": st.sampled_from(["stripe", "github", "generic-hmac"])},
    optional={
        "options": st.dictionaries(st.sampled_from(["header", "window"]), st.integers(0, 9)),
        "late": st.sampled_from(["hold", "run"]),
        "replay": st.sampled_from(["hold", "run", "drop"]),
        "order_by": st.just("$.id"),
        "gap_wait": st.integers(0, 10_000).map(lambda each: each / 1000),
        "budget": st.integers(0, 10**7).map(lambda each: each / 1000),
        "tries": st.integers(1, 1_000),
        "paused": st.booleans(),
        "cidrs": st.lists(st.sampled_from(["10.0.0.0/8", "::/0"]), max_size=2),
        "expect": st.dictionaries(st.just("$.a"), st.text("abc", min_size=1), max_size=1),
    },
)


@given(_TABLES)
def test_what_is_written_reads_the_same_again_also_from_json(table: dict[str, Any]) -> None:
    source = _parse(table)
    written = webhooks_source.source_to_table(source)

    assert _parse(written) == source
    assert _parse(msgspec.json.decode(msgspec.json.encode(written))) == source
    assert "secrets" not in written
