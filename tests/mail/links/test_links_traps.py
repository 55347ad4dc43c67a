"""Links: what real mails put beside them, and what only looks like the one that is meant."""

# ruff: noqa: RUF001 - words of other alphabets, a mail to a line

import pytest

from oncebox.mail.html import layout, visible
from oncebox.mail.html.layout import Page
from oncebox.mail.links import link_finder
from tests.mail.link_mails import H, T
from tests.mail.mails import LIMITS


def html(markup: str) -> Page:
    return visible.read_html(markup, LIMITS, set()).shown


def best(subject: str, page: Page) -> str | None:
    link = link_finder.find_links(subject, [page], "acme.io").best
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
    assert best(subject, layout.plain_page(text)) is None


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
    assert best(subject, layout.plain_page(text)) == f"https://acme.io/confirm/{H}"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Verify your address: [{0}]({0})\n", f"https://acme.io/verify/{T}?a=1"),
        ("Please activate it by visiting {0}\n", f"https://acme.io/i.php?action=activate;u=1;code={T}"),
        ("To get started, click the link below.\n    <{0}>\n", f"https://acme.io/join/{T}"),
        ("Use this link for a new password: {0}\n", f"https://acme.io/start?do=resendpwd&pwauth={H}"),
    ],
)  # fmt: skip
def test_a_link_is_read_as_programs_write_it(text: str, wanted: str) -> None:
    assert best("", layout.plain_page(text.format(wanted))) == wanted


def test_a_link_may_carry_the_code_alone() -> None:
    text = "Your code is 105-876, or tap on this to verify your telephone: v.acme.io/105876\n"

    assert best("A message for you", layout.plain_page(text)) == "v.acme.io/105876"


def test_who_leaves_a_list_of_invitations_is_not_invited() -> None:
    text = (
        f"To get started, click the link below.\n\nhttps://acme.io/join/{T}\n\n"
        f"Unsubscribe from invitation reminders: https://acme.io/x/{H}\n"
    )

    assert best("Bob has invited you", layout.plain_page(text)) == f"https://acme.io/join/{T}"


@pytest.mark.parametrize("name", ["orgID", "page", "id"])
def test_the_number_of_a_team_is_no_secret(name: str) -> None:
    page = html(f"<p><a href='https://acme.io/login?{name}=112233445566778899'>Login</a></p>")

    assert best("Password changed", page) is None


def test_a_button_that_opens_what_a_sentence_led_to_is_taken() -> None:
    page = html(f"<p>Here is your magic link.</p><p><a href='https://acme.io/m/{T}'>Open</a></p>")

    assert best("Your magic link", page) == f"https://acme.io/m/{T}"


_NOT_YOU = [
    ("en", "If you did not change it, please reset your password.", "Reset password"),
    ("de", "Falls du das nicht warst, setze dein Passwort zurück.", "Passwort zurücksetzen"),
    ("fr", "Si ce n'était pas vous, changez votre mot de passe.", "Changer le mot de passe"),
    ("nl", "Als jij dit niet was, herstel dan je wachtwoord.", "Wachtwoord herstellen"),
    ("ro", "Dacă nu ai fost tu, resetează parola.", "Resetează parola"),
    ("el", "Αν δεν το κάνατε εσείς, επαναφέρετε τον κωδικό.", "Επαναφορά κωδικού"),
    ("fi", "Jos et tehnyt tätä itse, nollaa salasanasi.", "Nollaa salasana"),
    ("hr", "Ako to niste bili vi, resetirajte lozinku.", "Resetiraj lozinku"),
    ("ru", "Если вы этого не делали, смените пароль.", "Сменить пароль"),
    ("ko", "본인이 아닌 경우 비밀번호를 재설정하세요.", "비밀번호 재설정"),
    ("ja", "心当たりがない場合はパスワードをリセットしてください。", "リセット"),
]


@pytest.mark.parametrize(("lead", "label"), [each[1:] for each in _NOT_YOU],
                         ids=[each[0] for each in _NOT_YOU])  # fmt: skip
def test_a_button_for_those_who_did_not_do_it_is_not_taken(lead: str, label: str) -> None:
    button = f"<table><tr><td bgcolor='#36c'><a href='https://acme.io/reset/{T}'>{label}</a></td></tr></table>"

    assert best("", html(f"<p>{lead}</p>{button}")) is None


@pytest.mark.parametrize(
    ("lead", "label"),
    [
        ("If you did not ask for it, please contact us.", "Reset password"),
        ("If you did not ask for it, your password stays as it is.", "Reset password"),
        ("If you didn't ask for a reset, you can delete this mail.", "Reset password"),
        ("Wenn du das nicht warst, ist nichts weiter zu tun.", "Passwort zurücksetzen"),
        ("心当たりがない場合は破棄してください。", "パスワードをリセット"),
    ],
)
def test_a_button_below_such_a_sentence_is_for_those_who_did(lead: str, label: str) -> None:
    button = f"<table><tr><td bgcolor='#36c'><a href='https://acme.io/x/{T}'>{label}</a></td></tr></table>"

    assert best("", html(f"<p>{lead}</p>{button}")) == f"https://acme.io/x/{T}"


@pytest.mark.parametrize(
    ("subject", "lead", "label"),
    [
        ("Order confirmed", "Order 4829 is confirmed.", "View order"),
        ("New in Acme", "Dark mode and more.", "Get started"),
        ("Join our webinar", "Save your seat.", "Register now"),
        ("Bob wrote to you", "Bob would like to meet.", "Accept"),
    ],
)
def test_a_circular_asks_nobody_for_anything(subject: str, lead: str, label: str) -> None:
    markup = (
        f"<p>{lead}</p><table><tr><td bgcolor='#36c'><a href='https://acme.io/x/{T}'>{label}</a></td></tr></table>"
        "<p><a href='https://acme.io/leave'>Unsubscribe</a></p>"
    )

    assert best(subject, html(markup)) is None


def test_an_invitation_may_be_left_like_a_list() -> None:
    markup = (
        f"<p>Bob invited you.</p><p><a href='https://acme.io/x/{T}'>Join the team</a></p>"
        "<p><a href='https://acme.io/leave'>Unsubscribe</a></p>"
    )

    assert best("Bob invited you to Acme", html(markup)) == f"https://acme.io/x/{T}"
