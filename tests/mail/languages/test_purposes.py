"""Purposes of a mail, by its words."""

import pytest

from oncebox.mail.languages.purposes import find_purposes
from oncebox.mail.languages.tables import PurposeWords, load_languages
from oncebox.model.inboxes.purpose import Purpose

TABLES: dict[str, PurposeWords] = {
    tag: language.purpose for tag, language in load_languages().items() if language.purpose
}


@pytest.mark.parametrize("purpose", sorted(set(Purpose) - {Purpose.ANY}))
def test_every_stem_tells_its_purpose(purpose: Purpose) -> None:
    stems = [stem for table in TABLES.values() for stem in getattr(table, purpose)]

    assert len(stems) > len(TABLES)
    assert [
        stem for stem in stems if purpose not in find_purposes("", f"x ({stem.upper()}) y")
    ] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Please verify your email address", {Purpose.SIGNUP}),
        ("Your login code is 1234", {Purpose.LOGIN}),
        ("Reset your password", {Purpose.RESET}),
        ("Ada has invited you to the team", {Purpose.INVITE}),
        ("Passwort zurücksetzen", {Purpose.RESET}),
        ("Код подтверждения: 1234", {Purpose.LOGIN}),
        ("パスワードの再設定", {Purpose.RESET}),
        ("验证码 1234", {Purpose.LOGIN}),
        ("ŞIFRENIZI değiştirin", {Purpose.RESET}),
        ("Weekly news", set()),
        ("", set()),
        ("Αλλαγή κωδικού πρόσβασης", {Purpose.RESET}),
        ("Hướng dẫn xác nhận tài khoản", {Purpose.SIGNUP}),
        ("เข้าสู่ระบบ", {Purpose.LOGIN}),
        ("Jemputan ke pasukan Crew", {Purpose.INVITE}),
        ("دعوة لفريق Crew", {Purpose.INVITE}),
        ("Váš kód e-mailu je: 730482", {Purpose.LOGIN}),
        # a stem inside another word does not count
        ("A course in coding, and a Kodak", set()),
        ("The robotpark opens", set()),
        ("Your parcel is on its way", set()),
    ],
)
def test_words_of_many_languages_are_known(text: str, found: set[Purpose]) -> None:
    assert set(find_purposes("", text)) == set(find_purposes(text, "")) == found


def test_several_purposes_are_sorted() -> None:
    text = "Verify your email, then sign in"

    assert find_purposes("Reset your password", text) == (
        Purpose.LOGIN,
        Purpose.RESET,
        Purpose.SIGNUP,
    )
