"""Links: what real mails put beside them, and what only looks like the one that is meant."""

import pytest

from oncebox.mail import layout, links, visible
from oncebox.mail.layout import Page
from tests.mail.link_mails import H, T
from tests.mail.mails import LIMITS


def html(markup: str) -> Page:
    return visible.read(markup, LIMITS, set()).shown


def best(subject: str, page: Page) -> str | None:
    link = links.find(subject, [page], "acme.io").best
    return None if link is None else link.value


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        ("Load is high", f"Value: 48\nSilence: https://acme.io/#/silences/new?filter={T}\n"),
        ("Your stay", f"Hotel Harbour\nManage: https://acme.io/r?c={T}\n"),
        ("Your question", f"You can check the status here: https://acme.io/t?auth={T}\n"),
        ("Weekly", f"Click here to join the meeting <https://acme.io/l/meetup-join/{T}>\n"),
        ("Code", "Type the code here: https://acme.io/verifications?from_code_mail=true\n"),
    ],
)
def test_what_is_not_done_with_a_secret_is_not_taken(subject: str, text: str) -> None:
    assert best(subject, layout.of_plain(text)) is None


@pytest.mark.parametrize(
    ("subject", "lead", "label"),
    [
        ("Bob commented on Plan", "Bob: can you confirm this?", "View comment"),
        ("You have a gift card", "Bob sent you something.", "Redeem gift card"),
        ("Give 10, get 10", "Everybody wins.", "Invite friends"),
    ],
)
def test_what_a_button_says_counts_more_than_what_led_to_it(
    subject: str, lead: str, label: str
) -> None:
    button = f"<table><tr><td bgcolor='#36c'><a href='https://acme.io/g/{T}'>{label}</a></td></tr></table>"

    assert best(subject, html(f"<p>{lead}</p>{button}")) is None


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (f"confirm {H}", f"Answer this mail, or visit this web page:\n\n    https://acme.io/confirm/{H}\n"),
        ("Kata laluan", f"Klik untuk menetapkan semula kata laluan anda:\n\nhttps://acme.io/confirm/{H}\n"),
    ],
)  # fmt: skip
def test_words_beside_do_not_hide_it(subject: str, text: str) -> None:
    assert best(subject, layout.of_plain(text)) == f"https://acme.io/confirm/{H}"


def test_a_button_that_opens_what_a_sentence_led_to_is_taken() -> None:
    page = html(f"<p>Here is your magic link.</p><p><a href='https://acme.io/m/{T}'>Open</a></p>")

    assert best("Your magic link", page) == f"https://acme.io/m/{T}"
