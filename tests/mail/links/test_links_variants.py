"""Links: beside codes, through click trackers, under other names; in many languages."""

# ruff: noqa: E501, RUF001 - words of other alphabets, a mail to a line

import base64
import itertools
import random
from collections.abc import Callable

import pytest

from oncebox.mail.codes import code_finder
from oncebox.mail.html import layout, visible
from oncebox.mail.html.layout import Page
from oncebox.mail.links import link_finder, meaning, url_secrets
from oncebox.mail.links.meaning import LinkMeaning
from tests.mail.link_mails import H, T
from tests.mail.mails import LIMITS
from tests.mail.samples.beside_code import CODE_MAILS, HELP_PAGES
from tests.mail.samples.invitations import CHANGES, INVITATIONS, REFUSALS, WELCOMES

_CODE = "627428"
every_language = pytest.mark.parametrize(
    "mail", CODE_MAILS, ids=[f"{mail[0]}" for mail in CODE_MAILS]
)


def html(markup: str) -> Page:
    return visible.read_html(markup, LIMITS, set()).shown


def best(subject: str, *pages: Page) -> str | None:
    code = code_finder.find_codes(subject, pages).best
    link = link_finder.find_links(subject, pages, "harbour.example", code).best
    return None if link is None else link.value


def button(label: str, url: str) -> str:
    return f"<table><tr><td bgcolor='#36c'><a href='{url}'>{label}</a></td></tr></table>"


@every_language
def test_a_help_page_beside_a_code_is_not_taken(mail: tuple[str, ...]) -> None:
    _, subject, before, after, more = mail
    for url in HELP_PAGES:
        text = f"{before}\n\n{_CODE}\n\n{after}\n\n{more} {url}\n"
        assert best(subject, layout.plain_page(text)) is None, url
        shown = f"<p>{before}</p><h1>{_CODE}</h1><p>{after}</p>"
        assert best(subject, html(f"{shown}<p>{more} <a href='{url}'>{url}</a></p>")) is None, url
        assert best(subject, html(f"{shown}<p><a href='{url}'>{more}</a></p>")) is None, url


@pytest.mark.parametrize("url", HELP_PAGES)
def test_a_page_for_everybody_is_not_taken_for_a_secret_one(url: str) -> None:
    for subject, lead in (
        ("Your password was changed", "You changed your password. Read how to keep it safe:"),
        ("Verification finished", "Your address was verified. This is how codes work:"),
    ):
        assert best(subject, layout.plain_page(f"{lead}\n\n{url}\n")) is None


#: addresses that hold a code
_CODE_LINKS = (
    "https://harbour.example/verify?code={}",
    "https://harbour.example/?ott={}",
    "https://harbour.example/login/{}",
    "https://verify.harbour.example/{}",
    "https://harbour.example/v?otp={}&user=ann",
    "https://harbour.example/#/confirm/{}",
    "https://app.harbour.example/c?x={}",
    "https://harbour.example/signin?email=ann%40mail.example&pin={}",
)


@every_language
def test_a_link_with_the_code_in_it_is_found_beside_the_code(mail: tuple[str, ...]) -> None:
    _, subject, before, after, more = mail
    values = itertools.cycle(["627428", "R4TX9K", "NQWGBH", "amber-lantern-copper"])
    for form, value in zip(_CODE_LINKS, values, strict=False):
        url = form.format(value)
        text = f"{before}\n\n{value}\n\n{url}\n\n{after}\n\n{more} {HELP_PAGES[0]}\n"
        assert best(subject, layout.plain_page(text)) == url, form
        shown = f"<p>{before}</p><h1>{value}</h1><p><a href='{url}'>{url}</a></p><p>{after}</p>"
        assert best(subject, html(shown)) == url, form


@pytest.mark.parametrize(("language", "subject", "lead", "label"), INVITATIONS)
def test_an_invitation_is_found_in_its_language(
    language: str, subject: str, lead: str, label: str
) -> None:
    foot = "<p><a href='https://harbour.example/privacy'>§</a></p>"
    for url in (
        f"https://harbour.example/a/{T}",
        "https://harbour.example/user/invite?userID=516667139867445646&code=DGHQSH",
    ):
        assert best(subject, html(f"<p>{lead}</p>{button(label, url)}{foot}")) == url, language
        assert best(subject, html(f"<p>{lead}</p><p><a href='{url}'>{label}</a></p>{foot}")) == url
        assert best(subject, layout.plain_page(f"{lead}\n\n{label}:\n{url}\n")) == url


@pytest.mark.parametrize(("language", "welcome"), WELCOMES)
def test_a_welcome_refuses_nothing(language: str, welcome: str) -> None:
    said = meaning.text_meaning(welcome)

    against = (
        LinkMeaning.REFUSAL
        | LinkMeaning.IF_NOT_YOU
        | LinkMeaning.OTHER_PURPOSE
        | LinkMeaning.OTHER_LABEL
    )
    assert not said & against, language
    url = f"https://harbour.example/confirm?token={T}"
    assert best(welcome, html(f"<p>{welcome}</p>{button(welcome, url)}")) == url


@pytest.mark.parametrize(("language", "label"), CHANGES)
def test_a_word_of_the_label_does_not_outvote_the_address_and_the_secret(
    language: str, label: str
) -> None:
    for url in (
        f"https://harbour.example/account/email/confirm?token={T}",
        f"https://harbour.example/verify-new-email/{H}",
    ):
        assert best(label, html(f"<p>{label}?</p>{button(label, url)}")) == url, language


_UNSUBSCRIBE = (
    "Unsubscribe", "Abmelden", "Se désabonner", "Cancelar suscripción", "Annulla iscrizione",
    "Uitschrijven", "Avregistrera", "Wypisz się", "Отписаться", "Відписатися", "退订",
    "配信停止", "구독 취소", "إلغاء الاشتراك", "Abonelikten çık",
)  # fmt: skip


@pytest.mark.parametrize(
    "labels", [_UNSUBSCRIBE, *(labels for _, labels in REFUSALS)],
    ids=["unsubscribe", *(language for language, _ in REFUSALS)],
)  # fmt: skip
def test_a_link_that_refuses_stays_refused_whatever_its_address(labels: tuple[str, ...]) -> None:
    for label in labels:
        for url in (f"https://harbour.example/x?token={T}", f"https://harbour.example/x?c={_CODE}"):
            shown = f"<p>Code: {_CODE}</p><p><a href='{url}'>{label}</a></p>"
            assert best("Hello", html(f"<p>Hello.</p><p><a href='{url}'>{label}</a></p>")) is None
            assert best("Your code", html(shown)) is None, label


#: click trackers: what they make of a link, given its number
_TRACKERS: dict[str, Callable[[int], str]] = {
    "query": lambda n: f"https://link.post.example/click?m=88412&t={_random(n, 44)}",
    "path": lambda n: f"https://post.example/c/88412/{_random(n, 70)}",
    "upn": lambda n: f"https://u88412.ct.post.example/ls/click?upn={_random(n, 120)}",
    "short": lambda n: f"https://go.harbour.example/{_random(n, 9)}",
    "tagged": lambda n: f"https://harbour.example/t.aspx?e={_random(n, 20)}&s=ann",
    "segments": lambda n: f"https://trk.post.example/f/{_random(n, 22)}/{_random(n + 50, 30)}",
    "numbered": lambda n: f"https://post.example/e/88412/{n}/{_random(n, 24)}",
    "base64": lambda n: f"https://post.example/tracking/{_packed(n)}",
}


def _random(seed: int, length: int) -> str:
    draw = random.Random(seed)
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
    return "".join(draw.choice(letters) for _ in range(length))


def _packed(number: int) -> str:
    return (
        base64.urlsafe_b64encode(f'{{"l":{number},"k":"{_random(number, 40)}"}}'.encode())
        .decode()
        .rstrip("=")
    )


#: language, subject, sentence, button
_ACTIONS = (
    ("en", "Confirm your email", "Thanks for signing up.", "Confirm email"),
    ("de", "Bitte bestätige deine Adresse", "Danke für deine Anmeldung.", "Adresse bestätigen"),
    ("fr", "Confirmez votre adresse", "Merci de votre inscription.", "Confirmer mon adresse"),
    ("es", "Confirma tu correo", "Gracias por registrarte.", "Confirmar correo"),
    ("pt", "Redefinição de senha", "Você pediu uma nova senha.", "Redefinir senha"),
    ("it", "Reimposta la password", "Hai chiesto una nuova password.", "Reimposta password"),
    ("pl", "Potwierdź adres", "Dziękujemy za rejestrację.", "Potwierdź adres e-mail"),
    ("ru", "Подтвердите почту", "Спасибо за регистрацию.", "Подтвердить почту"),
    ("tr", "E-postanızı doğrulayın", "Kaydolduğunuz için teşekkürler.", "E-postamı doğrula"),
    ("zh", "验证您的邮箱", "感谢注册。", "验证邮箱"),
    ("ja", "メールアドレスの確認", "ご登録ありがとうございます。", "メールアドレスを確認する"),
    ("ko", "이메일 인증", "가입해 주셔서 감사합니다.", "이메일 인증하기"),
    ("ar", "تأكيد البريد الإلكتروني", "شكرا لتسجيلك.", "تأكيد البريد الإلكتروني"),
)


@pytest.mark.parametrize("tracker", _TRACKERS)
def test_the_link_is_found_where_every_link_is_tracked(tracker: str) -> None:
    made = _TRACKERS[tracker]
    head = f"<p><a href='{made(1)}'><img src='l.png' alt='Harbour'></a></p>"
    social = "".join(
        f"<a href='{made(n)}'><img alt='{name}'></a> "
        for n, name in ((3, "Facebook"), (4, "X"), (5, "LinkedIn"), (6, "YouTube"))
    )
    foot = f"<p>{social}</p><p><a href='{made(7)}'>Harbour Ltd</a> <a href='{made(8)}'>Unsubscribe</a></p>"

    for language, subject, lead, label in _ACTIONS:
        for links in (foot, f"<p><a href='{made(7)}'>Harbour</a></p>"):
            page = html(f"{head}<p>{lead}</p>{button(label, made(2))}{links}")
            assert best(subject, page) == made(2), language


@pytest.mark.parametrize("tracker", _TRACKERS)
def test_the_logo_is_not_taken_where_every_link_is_tracked(tracker: str) -> None:
    made = _TRACKERS[tracker]
    head = f"<p><a href='{made(1)}'><img src='l.png' alt='Harbour'></a></p>"
    foot = f"<p><a href='{made(7)}'>Harbour Ltd</a> <a href='{made(8)}'>Unsubscribe</a></p>"

    for subject in ("Your address was confirmed", "Password changed", "Welcome", "Verify"):
        assert best(subject, html(f"{head}<p>All is well.</p>{foot}")) is None, subject
        assert best(subject, html(f"{head}<p>All is well.</p>")) is None, subject


_READABLE = (
    "getting-started-with-harbour", "Help:Extension:EmailAuth", "TwoFactorAuthentication",
    "360012345678-Login-codes", "how_to_reset_2fa", "zwei-faktor-authentifizierung",
    "verification-en-deux-etapes", "HowToUseTheAPI", "ResetYourPasswordFAQ", "iPhoneAndMacOS",
    "wachtwoord-vergeten", "olvide-mi-contrasena", "esqueci-minha-senha", "logowanie-dwuetapowe",
    "kak-sbrosit-parol", "pasuwado-no-risetto", "dang-nhap-hai-buoc",
    "iki-asamali-dogrulama", "kaksivaiheinen-tunnistautuminen", "tvafaktorsautentisering",
    "ketlepcsos-azonositas", "dvoufazove-overeni", "autentificare-in-doi-pasi",
    "AccountSecurityOverview", "onetimepasscodes", "signinandsecurity", "Special:MyLanguage",
    "2026-05-release-notes", "windows-11-setup", "index.en-us.html", "privacy_policy_v3",
    "emailVerificationSettings", "user@harbour.example",
)  # fmt: skip


@pytest.mark.parametrize("text", _READABLE)
def test_words_are_no_secret(text: str) -> None:
    assert not url_secrets.secret_likeness(text)
    assert not url_secrets.secret_likeness(text, named=True) or "@" in text


@pytest.mark.parametrize(
    ("alphabet", "length"),
    [
        ("0123456789abcdef", 24),
        ("abcdefghijklmnopqrstuvwxyz234567", 16),
        ("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", 20),
        ("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", 22),
        ("bcdfghjklmnpqrstvwxz", 16),
        ("abcdefghijklmnopqrstuvwxyz", 24),
        ("ABCDEFGHIJKLMNOPQRSTUVWXYZ", 24),
    ],
)
def test_random_texts_are_secrets(alphabet: str, length: int) -> None:
    draw = random.Random(4829)
    texts = ["".join(draw.choice(alphabet) for _ in range(length)) for _ in range(200)]
    missed = [text for text in texts if url_secrets.secret_likeness(text) < 2]

    assert len(missed) <= 4
    text = next(text for text in texts if text not in missed and text[0] not in "-_")
    assert url_secrets.secret_token(f"https://harbour.example/x/{text}") == text


@pytest.mark.parametrize("value", ["DGHQSH", "LVQMCC", "qzrtkw", "XkTbWq", "HJKLPW", "bvcxzq"])
def test_a_short_secret_may_be_letters_alone_under_its_name(value: str) -> None:
    for name in ("code", "token", "invite_code", "otp"):
        assert url_secrets.secret_token(f"https://harbour.example/x?a=1&{name}={value}") == value


@pytest.mark.parametrize(
    ("subject", "markup"),
    [
        ("Hello", f"<a href='https://harbour.example/a/{T}'>Qo xa wu</a>"),
        ("Hello", f"<a href='https://harbour.example/login/{T}'>Log in</a>"),
        ("Order", f"<p>Your order.</p><a href='https://harbour.example/order/{T}'>Confirm</a>"),
        (
            "Hello",
            f"<a href='https://harbour.example/x/{T}'>Confirm</a> <a href='https://harbour.example/y/{H}'>Confirm</a>",
        ),
    ],
)
def test_a_link_is_certain_only_if_its_action_is_named_and_nothing_speaks_against_it(
    subject: str, markup: str
) -> None:
    found = link_finder.find_links(subject, [html(markup)], "harbour.example")
    sure = link_finder.find_links(
        "Confirm", [html(button("Confirm", f"https://harbour.example/c/{T}"))], "harbour.example"
    )

    assert all(each.confidence <= 0.9 for each in found.ranked)
    assert sure.best is not None
    assert sure.best.confidence > 0.9
