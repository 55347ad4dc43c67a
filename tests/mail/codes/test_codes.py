"""Codes: the right one in many languages and shapes, and none where there is none."""

import pytest

from tests.mail.code_pages import boxed, code, found, marked, plain
from tests.mail.samples.with_code import WITH_CODE
from tests.mail.samples.without_code import WITHOUT_CODE

_WITH = [pytest.param(*each, id=f"{each[0]}-{number}") for number, each in enumerate(WITH_CODE)]
_WITHOUT = [
    pytest.param(*each, id=f"{each[0]}-{number}") for number, each in enumerate(WITHOUT_CODE)
]


@pytest.mark.parametrize(("_language", "subject", "text", "wanted"), _WITH)
def test_a_code_is_found_in_its_language(
    _language: str, subject: str, text: str, wanted: str
) -> None:
    assert code(plain(text), subject=subject) == wanted
    assert code(boxed(text), subject=subject) == wanted
    assert code(plain(text), boxed(text), subject=subject) == wanted


@pytest.mark.parametrize(("_language", "subject", "text"), _WITHOUT)
def test_no_code_is_found_where_there_is_none(_language: str, subject: str, text: str) -> None:
    assert code(plain(text), subject=subject) is None
    assert code(boxed(text), subject=subject) is None


@pytest.mark.parametrize(
    ("shown", "wanted"),
    [
        ("482913", "482913"),
        ("482 913", "482913"),
        ("482-913", "482913"),
        ("48 29 13", "482913"),
        ("4 8 2 9 1 3", "482913"),
        ("4-8-2-9-1-3", "482913"),
        ("482\u00a0913", "482913"),
        ("482\u2013913", "482913"),
        ("482\u00ad913", "482913"),
        ("4\u200b8\u200b2\u200b9\u200b1\u200b3", "482913"),
        ("\u200e482913\u200e", "482913"),
        ("4\ufe0f\u20e38\ufe0f\u20e32\ufe0f\u20e39\ufe0f\u20e3", "4829"),
        ("\uff14\uff18\uff12\uff19\uff11\uff13", "482913"),
        ("٤٨٢٩١٣", "482913"),
        ("۴۸۲۹۱۳", "482913"),
        ("४८२९१३", "482913"),
        ("๔๘๒๙๑๓", "482913"),
        ("539-238-339", "539238339"),
        ("G-482913", "482913"),
        ("\uff21\uff22\uff11\uff12\uff23\uff24", "AB12CD"),
        ("R4TX9K", "R4TX9K"),
        ("r4tx9k", "r4tx9k"),
        ("NQWGBH", "NQWGBH"),
        ("CXHZ-GVDB", "CXHZ-GVDB"),
        ("CXHZ\u2011GVDB", "CXHZ-GVDB"),
        ("7KPM-22XR", "7KPM-22XR"),
        ("AB12 CD34", "AB12CD34"),
        ("R 4 T X 9 K", "R4TX9K"),
        ("amber-lantern-copper", "amber-lantern-copper"),
        ("0042", "0042"),
        ("04352398", "04352398"),
    ],
)
def test_a_code_is_one_however_it_is_written(shown: str, wanted: str) -> None:
    text = f"Enter this verification code:\n\n{shown}\n\nIt expires in 10 minutes."
    assert code(plain(text)) == wanted
    assert code(marked(f"<p>Your verification code</p><h1>{shown}</h1>")) == wanted


@pytest.mark.parametrize(
    "markup",
    [
        "<table><tr><td>4</td><td>8</td><td>2</td><td>9</td><td>1</td><td>3</td></tr></table>",
        "<div>4</div><div>8</div><div>2</div><div>9</div><div>1</div><div>3</div>",
        "<b>482</b>&nbsp;<b>913</b>",
        "<table><tr><td>482</td><td>-</td><td>913</td></tr></table>",
        "<span>482</span><span>913</span>",
        "<pre>\n  482913\n</pre>",
        "<a href='https://app.example/'>482913</a>",
    ],
)
def test_a_code_split_over_cells_is_one(markup: str) -> None:
    assert code(marked(f"<p>Your code:</p>{markup}<p>Valid for 5 minutes.</p>")) == "482913"


def test_a_code_in_the_subject_is_enough() -> None:
    assert code(plain("It expires in 15 minutes."), subject="Use code 028352 to log in") == "028352"
    assert code(subject="Use code 028352 to log in") == "028352"


def test_a_code_alone_in_a_mail_is_it() -> None:
    assert code(plain("2715")) == "2715"


@pytest.mark.parametrize(
    "text",
    [
        "Your code is 482913. Your code is 111111.",
        "Code: 482913\nCode: 111111",
        "Your verification code is 482913 or 111111.",
    ],
)
def test_two_that_are_as_good_are_tied(text: str) -> None:
    answer = found(plain(text))

    assert answer.best is None
    assert answer.tied
    assert {candidate.value for candidate in answer.ranked[:2]} == {"482913", "111111"}


def test_parts_that_have_different_codes_are_tied() -> None:
    answer = found(
        plain("Your code is 482913"), marked("<p>Your code is</p><h1 style='x'>111111</h1>")
    )

    assert answer.best is None
    assert answer.tied
    assert {candidate.value for candidate in answer.ranked[:2]} == {"482913", "111111"}


@pytest.mark.parametrize(
    "hidden",
    [
        "<span style='display:none'>Your code is 111111</span>",
        "<title>Your code is 111111</title>",
        "<!-- Your code is 111111 -->",
        "<p style='color:#fff;background:#fff'>Your code is 111111</p>",
    ],
)
def test_hidden_text_is_no_evidence(hidden: str) -> None:
    assert code(marked(f"{hidden}<p>Your code is 482913</p>")) == "482913"
    assert code(marked(f"{hidden}<p>Welcome, and thank you for joining us.</p>")) is None


@pytest.mark.parametrize(
    "text",
    [
        "Your code is \u202e319284\u202c now",
        "Your code is 48\u041e913 now",
        "Your code is 48291\u0663x now",
    ],
)
def test_what_is_not_what_it_looks_like_is_not_taken(text: str) -> None:
    assert code(plain(text)) is None


@pytest.mark.parametrize(
    "older",
    [
        "> On Monday we wrote:\n> Your code is 111111.",
        "-----Original Message-----\nYour code is 111111.",
        "---------- Forwarded message ---------\nYour code is 111111.",
    ],
)
def test_an_older_mail_below_does_not_count(older: str) -> None:
    assert code(plain(f"Your code is 482913.\n\n{older}")) == "482913"


@pytest.mark.parametrize(
    "text",
    [
        "Your code: https://app.example/482913",
        "Your code: www.app.example/482913",
        "Your code: app.example/go/482913",
        "Your code: ann482913@app.example",
        "Your code costs $482913",
        "Your code costs 482913 EUR",
        "Your code grew by 4829%",
        "Your code ran 4829 km",
        "Your code runs on 198.51.100.14 since 12:48:29",
        "Your code is for the card **** 4829",
        "Your code is for +1 503 555 0148",
        "Your code has version 4829.1.3",
        "Your code is in #482913",
    ],
)
def test_what_belongs_to_something_else_is_not_taken(text: str) -> None:
    assert code(plain(text)) is None


def test_a_code_is_found_among_all_the_others() -> None:
    text = (
        "Amount $1,249.00, card ending 4417, order 20260115, invoice INV-2026-0117.\n"
        "Call 1-800-555-0123. IP 203.0.113.9, 2026-05-03 10:22:31 UTC, build 48.29.13.\n"
        "\n"
        "Enter 662091 to confirm.\n"
        "\n"
        "(c) 2026 Alder, 1200 Main Street, Springfield 62701"
    )

    assert code(plain(text), subject="Confirm your payment") == "662091"


def test_the_places_of_a_candidate_and_of_its_evidence_are_in_the_text() -> None:
    page = marked("<p>Your verification code is</p><h1>48\uff12 913</h1>")
    best = found(page).best
    assert best is not None

    assert page.text[best.start : best.end] == best.shown == "48\uff12 913"
    assert best.value == "482913"
    above = next(reason for reason in best.evidence if reason.name == "above_code")
    assert page.text[above.start : above.end] == "code"
    assert best.score == sum(reason.points for reason in best.evidence)
    assert 0 < best.confidence < 1
