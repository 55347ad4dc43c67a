"""Codes: what real mails put beside them, and what only looks like one."""

# ruff: noqa: RUF001 - marks of other alphabets

import pytest

from oncebox.mail.html.layout import Page
from tests.mail.code_pages import boxed, code, marked, plain


@pytest.mark.parametrize(
    "text",
    [
        "您的验证码为582013，5分钟内有效，请勿告诉他人。",
        "认证码：582013，10分钟后失效",
        "確認コードは582013，5分以内に入力してください。",
    ],
)
def test_a_full_width_comma_ends_a_number(text: str) -> None:
    assert code(plain(text)) == "582013"


@pytest.mark.parametrize(
    "text",
    [
        "This confirmation code will expire at 10:42, 17 February 2025.",
        "Your OTP device was removed on Mon Feb 10 10:00:00 UTC 2025 from a browser.",
        "Somebody typed a wrong verification code on February 10, 2025.",
        "Tu código fue rechazado el 10 de febrero de 2025.",
        "Der Code wurde am 10. Februar 2025 gesperrt.",
    ],
)
def test_the_year_of_a_date_is_no_code(text: str) -> None:
    assert code(plain(text), subject="Verification code") is None


@pytest.mark.parametrize("text", ["Your 4 digit code is 2024.", "Enter the 4-digit code 2019"])
def test_a_code_may_look_like_a_year(text: str) -> None:
    assert code(plain(text), subject="Your login code") in {"2024", "2019"}


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        ("Your new account", "It is ready.\n\nUsername: ann\nPassword: 48291377\n"),
        ("Guest Wi-Fi", "Network: Harbour\nPassword: 48291377\nGood for 24 hours.\n"),
    ],
)
def test_a_password_that_stays_is_no_code(subject: str, text: str) -> None:
    assert code(plain(text), subject=subject) is None


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        ("A treat", "Enter code\n\nBD7K2Q9\n\nto save 15% on your next order. One use only."),
        ("A gift card for you", "It is worth $50.\n\nPIN\n\n4821\n\nEnjoy!"),
        ("Give $10, get $10", "Share your code with friends:\n\nANN4829\n\nThey will thank you."),
    ],
)
def test_what_is_worth_money_is_no_code(subject: str, text: str) -> None:
    assert code(boxed(text), subject=subject) is None


@pytest.mark.parametrize(
    "subject",
    [
        "Re: Verification code is refused",
        "AW: Code",
        "[harbour/boat] Verification code is refused (#12)",
        "[harbour/boat] Verification code is refused (Issue #12)",
        "harbour | Verification code is refused (!12)",
        "[PATCH 2/3] login: send the code once",
        "[Harbour - Bug #12] (New) Verification code is refused",
        "[Tracker] (HAR-12) Verification code is refused",
        "[Bug 4829] Verification code is refused",
    ],
)
def test_a_code_that_people_speak_of_is_not_theirs_to_type(subject: str) -> None:
    assert code(plain("The code 482913 is refused every time."), subject=subject) is None


def test_a_word_that_proves_the_sender_is_no_code() -> None:
    text = "Anti-phishing code: BLUEFOX\n\nYour verification code is:\n\n482913\n"

    assert code(plain(text), subject="Sign in") == "482913"
    assert code(plain("Your anti-phishing code: BLUEFOX\n"), subject="News") is None


@pytest.mark.parametrize(
    ("subject", "page", "wanted"),
    [
        ("Confirm your address", plain("Your token:\n\n3fa9c1\n\nPaste it there.\n"), "3fa9c1"),
        ("118209 - verification", plain("Hi Ann, type the code to go on."), "118209"),
        ("Hello", marked("<p>Use <code>F7X-K2P</code> to verify your address.</p>"), "F7X-K2P"),
        (
            "Confirm your identity",
            boxed("Please enter the following:\n\n7K2M9Q\n\nIt expires in an hour."),
            "7K2M9Q",
        ),
    ],
)
def test_a_code_need_not_be_called_one(subject: str, page: Page, wanted: str) -> None:
    assert code(page, subject=subject) == wanted


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        ("Your MFA was reset", "An administrator did so at noon (request 48291377)."),
        ("How do I reset the code?", "Bob answered:\n\nTry 482913 as the manual says.\n"),
    ],
)
def test_a_number_that_nothing_calls_a_code_is_none(subject: str, text: str) -> None:
    assert code(plain(text), subject=subject) is None


def test_the_text_of_a_link_is_no_code_of_letters() -> None:
    page = marked("<h2>Summer party</h2><p>Join us in July</p><p><a href='/r'><b>RSVP</b></a></p>")

    assert code(page, subject="You are invited") is None


def test_a_number_as_a_subject_is_no_code_if_the_mail_says_something_else() -> None:
    assert code(plain("Blah blah blah"), subject="64423") is None
    assert code(plain(""), subject="64423") == "64423"
    assert code(plain("2715\n")) == "2715"


@pytest.mark.parametrize("text", ["Type the 6-digit code in the app.", "Your 2-Step code expired."])
def test_how_many_digits_a_code_has_is_not_the_code(text: str) -> None:
    assert code(plain(text), subject="Your login code") is None


def test_a_code_may_count() -> None:
    cells = "".join(f"<td>{digit}</td>" for digit in "123456")

    assert code(marked(f"<p>Your code:</p><table><tr>{cells}</tr></table>")) == "123456"
    assert code(marked(f"<p>How did we do?</p><table><tr>{cells}</tr></table>")) is None


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        ("Möteskod", "Möteskod\n\n482913\n\nVi ses."),
        ("Mødekode", "Mødekode\n\n482913\n\nVi ses."),
        ("Σύσκεψη", "Κωδικός σύσκεψης\n\n482913\n\nΘα τα πούμε."),
        ("Tichet", "Număr tichet\n\n771204\n\nMulțumim."),
        ("ההזמנה שלך", "קוד הזמנה\n\nX7K2PQ\n\nתודה"),
    ],
)
def test_other_numbers_have_names_in_their_languages(subject: str, text: str) -> None:
    assert code(boxed(text), subject=subject) is None


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("<#> Harbour: OTP 482913 signs you in, good for 5 minutes\nQw7kT2mZ9pB", "482913"),
        ("5521 is your otp for 8840", "5521"),
        ("552187 is the one-time code for your account 884012", "552187"),
        ("552187 ist Ihr Code für das Konto 884012", "552187"),
        ("your otp of 8840 is 5521", "5521"),
        ("Harbour ID code is: 482913. Do not share it.", "482913"),
        ("Harbour Tickets: 482913 is your code", "482913"),
        ("Votre code de validation est 48291377. Montant : 59,90 EUR", "48291377"),
        ("TAC 482913 utk RM120.00", "482913"),
    ],
)
def test_texts_to_telephones_are_read_as_they_are_written(text: str, wanted: str) -> None:
    assert code(plain(text)) == wanted
