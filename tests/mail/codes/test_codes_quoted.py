"""Codes in quoted and forwarded mail: the mail's own code wins, or it is a conflict."""

import pytest

from tests.mail.mails import alternative, html, plain, read

_OLD = "Your verification code is 111111"
_WEAK = "Please enter 482913 to continue."
_OWN = "Your code is 482913."

_QUOTED_HTML = [
    "<blockquote type=cite><p>{}</p></blockquote>",
    "<div class=gmail_quote><div>{}</div></div>",
    "<div class=yahoo_quoted>{}</div>",
    "<div class='moz-cite-prefix'>{}</div>",
    "<p>-----Original Message-----</p><p>{}</p>",
    "<p>---------- Forwarded message ----------</p><p>{}</p>",
    "<p>From: Acme<br>Sent: Monday<br>To: Ada</p><p>{}</p>",
    "<p>On Mon, 16 Nov 2026 at 04:00, Acme wrote:</p><p>{}</p>",
    "<p>Am 16.11.2026 um 04:00 schrieb Acme:</p><p>{}</p>",
    "<p>Le 16 nov. 2026, Acme a écrit :</p><p>{}</p>",
]
_QUOTED_TEXT = [
    "> {}",
    "On Mon, 16 Nov 2026 at 04:00, Acme wrote:\n> {}",
    "-----Original Message-----\n{}",
    "-----Ursprüngliche Nachricht-----\n{}",
    "From: Acme <a@acme.example>\nSent: Monday\nTo: Ada\n\n{}",
]


@pytest.mark.parametrize("quotation", _QUOTED_HTML)
def test_a_code_in_quoted_html_never_wins_against_the_mails_own(quotation: str) -> None:
    strong = f"<h1><b>{_OLD}</b></h1>"
    own = read(html(f"<p>{_OWN}</p>{quotation.format(strong)}")).found
    weak = read(html(f"<p>{_WEAK}</p>{quotation.format(strong)}")).found

    assert own.code is not None
    assert own.code.value == "482913"
    assert weak.code is None or weak.code.value == "482913"


@pytest.mark.parametrize("quotation", _QUOTED_TEXT)
def test_a_code_in_quoted_text_never_wins_against_the_mails_own(quotation: str) -> None:
    own = read(plain(f"{_OWN}\n\n{quotation.format(_OLD)}")).found
    weak = read(plain(f"{_WEAK}\n\n{quotation.format(_OLD)}", subject="Your code")).found

    assert own.code is not None
    assert own.code.value == "482913"
    assert weak.code is None or weak.code.value == "482913"


def test_a_quoted_code_that_stands_out_more_does_not_win() -> None:
    old = (
        "<p>Your verification code is:</p>"
        "<h1 style='font-size:30px;letter-spacing:4px'>111111</h1>"
        "<p>The code is valid for 10 minutes.</p>"
    )
    found = read(html(f"<p>The code 482913</p><blockquote type=cite>{old}</blockquote>")).found

    assert found.code is not None
    assert found.code.value == "482913"


def test_a_reply_below_a_quotation_is_the_mails_own() -> None:
    text = f"On Mon, 16 Nov 2026 at 04:00, Acme wrote:\n> {_OLD}\n\n{_OWN}"
    found = read(plain(text)).found.code

    assert found is not None
    assert found.value == "482913"


def test_the_code_of_a_forwarded_mail_is_found_if_it_is_the_only_one() -> None:
    text = f"---------- Forwarded message ----------\nSubject: Your code\n\n{_OLD}"
    found = read(plain(text, subject="Fwd: Your verification code")).found.code

    assert found is not None
    assert found.value == "111111"


def test_a_quoted_code_in_one_part_and_another_in_the_other_part_is_a_conflict() -> None:
    mail = alternative(_OWN, f"<blockquote type=cite><p><b>{_OLD}</b></p></blockquote>")

    assert read(mail).found.code is None


def test_an_ordinary_blockquote_is_no_quotation() -> None:
    page = "<p>Your verification code is</p><blockquote><b>482913</b></blockquote>"
    found = read(html(page)).found.code

    assert found is not None
    assert found.value == "482913"
