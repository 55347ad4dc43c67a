"""What a message is about, by its words."""

import pytest

from oncebox.model import purpose_words
from oncebox.model.purpose import Purpose, purposes

TABLES = {
    Purpose.SIGNUP: purpose_words.SIGNUP,
    Purpose.LOGIN: purpose_words.LOGIN,
    Purpose.RESET: purpose_words.RESET,
    Purpose.INVITE: purpose_words.INVITE,
}


def test_every_language_has_words_for_every_purpose() -> None:
    languages = {frozenset(table) for table in TABLES.values()}

    assert len(languages) == 1
    assert all(stem for table in TABLES.values() for stems in table.values() for stem in stems)


@pytest.mark.parametrize("purpose", TABLES)
def test_every_stem_tells_its_purpose(purpose: Purpose) -> None:
    stems = [stem for stems in TABLES[purpose].values() for stem in stems.split("|")]

    assert [stem for stem in stems if purpose not in purposes(f"x ({stem.upper()}) y")] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Αλλαγή κωδικού πρόσβασης", {Purpose.RESET}),
        ("Hướng dẫn xác nhận tài khoản", {Purpose.SIGNUP}),
        ("เข้าสู่ระบบ", {Purpose.LOGIN}),
        ("Jemputan ke pasukan Crew", {Purpose.INVITE}),
        ("دعوة لفريق Crew", {Purpose.INVITE}),
        ("Váš kód e-mailu je: 730482", {Purpose.LOGIN}),
        # inside another word a stem says nothing
        ("A course in coding, and a Kodak", set()),
        ("The robotpark opens", set()),
        ("Your parcel is on its way", set()),
    ],
)
def test_words_of_many_languages_are_known(text: str, found: set[Purpose]) -> None:
    assert purposes(text) == found
