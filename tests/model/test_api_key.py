"""The text of a key: random, recognised by its form, and refused when mistyped."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncebox.errors import KeyInvalid
from oncebox.model.admin import access as texts
from oncebox.model.admin.access import ApiKey

RANDOM = st.binary(min_size=20, max_size=20)
ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
#: what is told to secret scanners
FORM = re.compile(r"obx_[0-9a-hjkmnp-tv-z]{39}")


def _key(*scopes: str, **rest: int) -> ApiKey:
    return ApiKey(
        id="key_1",
        tenant="acme",
        name="",
        hint="obx_123456",
        scopes=scopes,
        created_at=0,
        **rest,
    )


@given(RANDOM)
def test_a_key_has_the_form_that_scanners_know(random: bytes) -> None:
    text = texts.make_key_text(random)

    assert FORM.fullmatch(text)
    assert texts.is_key_text(text)


@given(RANDOM, RANDOM)
def test_other_bytes_make_another_key(one: bytes, two: bytes) -> None:
    assert (texts.make_key_text(one) == texts.make_key_text(two)) is (one == two)


@given(RANDOM, st.integers(0, 38), st.sampled_from(ALPHABET))
def test_one_mistyped_character_is_always_noticed(random: bytes, at: int, other: str) -> None:
    text = texts.make_key_text(random)
    place = 4 + at
    typed = text[:place] + other + text[place + 1 :]

    assert texts.is_key_text(typed) is (typed == text)


@given(RANDOM, st.integers(0, 37))
def test_two_swapped_characters_are_noticed(random: bytes, at: int) -> None:
    text = texts.make_key_text(random)
    place = 4 + at
    typed = text[:place] + text[place + 1] + text[place] + text[place + 2 :]

    assert texts.is_key_text(typed) is (typed == text)


@given(RANDOM, st.data())
def test_what_is_cut_longer_or_padded_is_no_key(random: bytes, data: st.DataObject) -> None:
    text = texts.make_key_text(random)
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    extra = data.draw(st.sampled_from([" ", "\n", "\0", "0", "é", "=", "\u202e"]))

    for typed in (cut, text + extra, extra + text, text.upper(), text.replace("obx_", "obx-")):
        assert not texts.is_key_text(typed)


@given(st.text(max_size=60))
def test_no_stranger_text_raises(text: str) -> None:
    assert texts.is_key_text(text) in {True, False}


@given(RANDOM)
def test_what_is_shown_leaves_128_bits_to_guess(random: bytes) -> None:
    text = texts.make_key_text(random)
    shown = texts.key_hint(text)

    assert text.startswith(shown)
    assert 160 - 5 * (len(shown) - len("obx_")) >= 128
    assert random.hex() not in texts.key_digest(text).hex()


@pytest.mark.parametrize("size", [0, 16, 19, 21, 32])
def test_a_key_is_never_made_of_fewer_or_more_bytes(size: int) -> None:
    with pytest.raises(ValueError, match="20 random bytes"):
        texts.make_key_text(bytes(size))


@pytest.mark.parametrize(
    ("scopes", "wanted", "may"),
    [
        (("admin",), ("operator",), True),
        (("admin",), ("agent",), True),
        (("operator",), ("operator", "agent"), True),
        (("operator",), ("agent",), False),
        (("operator",), ("admin",), False),
        (("agent",), ("operator",), False),
        (("worker:shop",), ("operator", "agent", "admin"), False),
    ],
)
def test_a_key_may_what_its_scopes_say(
    scopes: tuple[str, ...], wanted: tuple[str, ...], may: bool
) -> None:
    assert _key(*scopes).may(*wanted) is may


def test_a_worker_may_take_work_of_its_source_only() -> None:
    assert _key("worker:shop").may_work("shop")
    assert not _key("worker:shop").may_work("shop2")
    assert not _key("worker:shop").may_work("sho")
    assert _key("worker:*").may_work("anything")
    assert _key("admin").may_work("anything")
    assert not _key("operator").may_work("shop")
    assert not _key("worker:other", "agent").may_work("shop")


def test_a_key_ends_when_it_expires_or_is_revoked() -> None:
    assert _key("admin").state(10) == "active"
    assert _key("admin", expires_at=11).state(10) == "active"
    assert _key("admin", expires_at=10).state(10) == "expired"
    assert _key("admin", expires_at=99, revoked_at=5).state(10) == "revoked"


@pytest.mark.parametrize(
    "scopes", [[], ["root"], ["admin", "x"], ["worker:"], ["worker:a b"], ["worker"], ["Admin"]]
)
def test_a_scope_that_means_nothing_is_refused(scopes: list[str]) -> None:
    with pytest.raises(KeyInvalid):
        texts.check_scopes(scopes)


def test_scopes_are_kept_once_and_in_order() -> None:
    given = ["worker:a", "agent", "worker:a", "worker:*"]

    assert texts.check_scopes(given) == ("worker:a", "agent", "worker:*")


@pytest.mark.parametrize("name", ["x" * 101, "a\nb", "\x1b[31m"])
def test_a_name_that_cannot_be_shown_is_refused(name: str) -> None:
    with pytest.raises(KeyInvalid):
        texts.check_key_name(name)
