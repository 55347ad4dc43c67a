"""Wrappers: who stands between a link and where it leads, told by form alone."""

import base64
import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncebox.mail.links import wrappers

TARGET = "https://acme.io/confirm?token=q7Zx9Lm2Vb4&u=1"
QUOTED = "https%3A%2F%2Facme.io%2Fconfirm%3Ftoken%3Dq7Zx9Lm2Vb4%26u%3D1"


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


MANDRILL = encoded(
    json.dumps({"p": json.dumps({"u": 1, "url": TARGET}), "s": "x"}).replace("/", "\\/").encode()
)
MAILGUN = encoded(zlib.compress(f"h=1&l={TARGET}".encode()))
DEFENSE_2 = "https-3A__acme.io_confirm-3Ftoken-3Dq7Zx9Lm2Vb4-26u-3D1"


@pytest.mark.parametrize(
    ("url", "name"),
    [
        (f"https://nam02.safelinks.protection.outlook.com/?url={QUOTED}&data=05%7C0", "safelinks"),
        (f"https://urldefense.proofpoint.com/v1/url?u={QUOTED}&k=x", "urldefense"),
        (f"https://urldefense.proofpoint.com/v2/url?u={DEFENSE_2}&d=Dw&c=x", "urldefense"),
        (f"https://urldefense.com/v3/__{TARGET}__;!!AbC!xyz$", "urldefense"),
        (f"https://mandrillapp.com/track/click/30/acme.io?p={MANDRILL}", "mandrill"),
        (f"https://email.mg.acme.io/c/{MAILGUN}", "mailgun"),
        (f"https://x7.r.eu.awstrack.me/L0/{QUOTED}/1/0102-abc/xyz=1", "ses"),
        (f"https://e.mail.io/e/c/{encoded(json.dumps({'href': TARGET}).encode())}/sig", "tracker"),
        (f"https://www.search.io/url?q={QUOTED}&sa=D", "redirect"),
        (f"https://link.check.io/url?a={QUOTED}&c=E,1,x", "redirect"),
        (f"https://eu.protection.check.io/?d=acme.io&u={encoded(TARGET.encode())}&i=1", "checked"),
    ],
)  # fmt: skip
def test_a_target_that_stands_in_a_link_is_read(url: str, name: str) -> None:
    found = wrappers.unwrap(url)

    assert found is not None
    assert (found.name, found.target) == (name, TARGET)


@pytest.mark.parametrize(
    "url",
    [
        "https://u7.ct.sendgrid.net/ls/click?upn=u001." + "aB3-2F" * 30,
        "https://email.mg.acme.io/c/eJ" + "wxVPLn_FQn-" * 12,
        "https://acme.us1.list-manage.com/track/click?u=aaaa&id=bbbb&e=cccc",
        "https://click.acme.io/?qs=" + "9f86d081884c7d65" * 5,
        "https://links.acme.io/a/click?_t=" + "0123456789abcdef" * 4,
        "https://x.acme.io/e3t/Ctc/" + "W3x9-" * 20,
    ],
)
def test_a_target_that_nobody_can_read_is_not_made_up(url: str) -> None:
    found = wrappers.unwrap(url)

    assert found is not None
    assert found.target == ""


@pytest.mark.parametrize(
    "url",
    [
        TARGET,
        "https://api.acme.io/auth/v1/verify?token=x&redirect_to=https://acme.io/welcome",
        "https://acme.io/login?next=https%3A%2F%2Facme.io%2Fhome",
        "https://acme.io/users/password/edit?reset_password_token=q7Zx9Lm2Vb4Kt8Rw1Ns5",
        "https://acme.io/c/team/board",
        "https://acme.io/",
        "not a link",
        "",
    ],
)
def test_a_link_that_leads_where_it_says_is_not_wrapped(url: str) -> None:
    assert wrappers.unwrap(url) is None


def test_marks_that_were_taken_out_are_put_back() -> None:
    taken = encoded("é?ü".encode())
    url = f"https://urldefense.com/v3/__https://acme.io/a*b*Cc__;{taken}!!x!y$"

    assert wrappers.unwrap(url) == wrappers.Wrapper("urldefense", "")  # not of ASCII: no link


def test_what_blows_up_when_it_is_opened_is_not_opened_far() -> None:
    bomb = encoded(zlib.compress(b"0" * 50_000_000, 9))

    assert wrappers.unwrap(f"https://email.mg.acme.io/c/{bomb}") is not None


@given(st.text(alphabet="https:/?&=%.-_*!;eJac3_v1v2v3u__", max_size=80))
def test_nothing_breaks_it(text: str) -> None:
    wrappers.unwrap(f"https://a.urldefense.com/v3/__{text}__;{text}!!x!y$")
    wrappers.unwrap(f"https://{text}")
    wrappers.unwrap(text)
