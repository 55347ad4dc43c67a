"""Purposes of a mail, by its words."""

import pytest

from oncebox.mail.languages.purposes import find_purposes
from oncebox.mail.languages.tables import PurposeWords, load_languages
from oncebox.mail.parser import parse
from oncebox.model.inboxes.purpose import Purpose
from tests.corpus import labels
from tests.mail.purpose_subjects import SUBJECTS
from tests.support.shared import shared

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
        ("Код подтверждения: 1234", set()),
        ("パスワードの再設定", {Purpose.RESET}),
        ("验证码 1234", set()),
        ("ŞIFRENIZI değiştirin", {Purpose.RESET}),
        ("Weekly news", set()),
        ("", set()),
        ("Αλλαγή κωδικού πρόσβασης", {Purpose.RESET}),
        ("Hướng dẫn xác nhận tài khoản", {Purpose.SIGNUP}),
        ("เข้าสู่ระบบ", {Purpose.LOGIN}),
        ("Jemputan ke pasukan Crew", {Purpose.INVITE}),
        ("دعوة لفريق Crew", {Purpose.INVITE}),
        ("Váš kód e-mailu je: 730482", set()),
        # a stem inside another word does not count
        ("A course in coding, and a Kodak", set()),
        ("The robotpark opens", set()),
        ("Your parcel is on its way", set()),
    ],
)
def test_words_of_many_languages_are_known(text: str, found: set[Purpose]) -> None:
    assert set(find_purposes("", text)) == set(find_purposes(text, "")) == found


@pytest.mark.parametrize("language", SUBJECTS)
def test_specific_words_name_a_purpose_and_generic_words_name_none(language: str) -> None:
    subjects = [
        (subject, purpose) for purpose, each in SUBJECTS[language].items() for subject in each
    ]
    found = {subject: "".join(find_purposes(subject, "")) or "unclear" for subject, _ in subjects}

    assert found == dict(subjects)


def test_twenty_languages_are_tested() -> None:
    assert len(SUBJECTS) >= 20


@pytest.mark.parametrize("tag", [tag for tag, table in TABLES.items() if table.unclear])
def test_no_generic_word_tells_a_purpose(tag: str) -> None:
    assert [word for word in TABLES[tag].unclear if find_purposes("", f"x ({word}) y")] == []


@pytest.mark.parametrize(
    ("subject", "text", "found"),
    [
        # the subject decides
        ("Reset your password", "Verify your email, then sign in", {Purpose.RESET}),
        ("Reset your password", "Your verification code is 111999", {Purpose.RESET}),
        ("Your sign-in code", "If this was not you, reset your password", {Purpose.LOGIN}),
        # else what the text names first
        ("Your code", "Use it to sign in. Not you? Reset your password at once.", {Purpose.LOGIN}),
        ("Your code", "We got a request to reset your password. Or log in.", {Purpose.RESET}),
        ("Your code", "Confirm your sign-in to Acme", {Purpose.LOGIN}),
        # neither
        ("Your verification code", "Your verification code is 1234. It expires soon.", set()),
        ("Ваш код", "Ваш одноразовый пароль: 1234", set()),
    ],
)  # fmt: skip
def test_the_subject_decides_and_then_what_the_text_names_first(
    subject: str, text: str, found: set[Purpose]
) -> None:
    assert set(find_purposes(subject, text)) == found


def test_no_labelled_mail_is_granted_to_another_purpose_of_a_password() -> None:
    """Reset mails are never taken for another purpose, and nearly all others for their own."""
    kinds = {"verify": "signup", "magic": "login", "reset": "reset", "invite": "invite"}
    wrong = right = 0
    for folder in (shared("data/mail-corpus"), shared("data/mail-corpus-2")):
        for label in labels.read(folder):
            kind = kinds.get(label.link_kind or "")
            if kind is None or label.ambiguous:
                continue
            parsed = parse((folder / label.file).read_bytes())
            named = "".join(parsed.purposes)
            assert kind != "reset" or named in {"reset", ""}, label.file
            right += named == kind
            wrong += named not in {kind, ""}

    assert right > 200
    assert wrong <= 12
