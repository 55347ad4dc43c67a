"""Codes: what real mails put beside them, and what only looks like one."""

import pytest

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
