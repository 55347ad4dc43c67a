"""Links: the one that a mail is about, and never one that is beside it."""

from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncebox.mail.html import layout, visible
from oncebox.mail.html.layout import Page
from oncebox.mail.links import link_finder
from oncebox.model.inboxes.received_mail import RankedCandidates
from tests.mail.link_mails import (
    BUTTONS,
    FALLBACKS,
    NONE,
    PLAIN,
    TRAPS,
    WHOLE,
    WORDLESS,
    H,
    Mail,
    T,
    U,
)
from tests.mail.link_probes import PROBES
from tests.mail.mails import LIMITS
from tests.support.steps import steps

SENDER = "acme.io"


def html(markup: str) -> Page:
    return visible.read_html(markup, LIMITS, set()).shown


def found(mail: Mail, *, plain: bool = False) -> RankedCandidates:
    page = layout.plain_page(mail.body) if plain else html(mail.body)
    return link_finder.find_links(mail.subject, [page], SENDER)


def best(subject: str, *pages: Page) -> str | None:
    link = link_finder.find_links(subject, pages, SENDER).best
    return None if link is None else link.value


def named(mails: list[Mail]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("mail", mails, ids=[each.name for each in mails])


@named(BUTTONS)
def test_the_words_of_many_languages_are_known(mail: Mail) -> None:
    link = found(mail).best

    assert link is not None
    assert link.value == mail.link


@named(WORDLESS)
def test_where_no_word_is_known_layout_address_and_secret_decide(mail: Mail) -> None:
    link = found(mail).best

    assert link is not None
    assert link.value == mail.link


@named(PLAIN)
def test_a_link_of_plain_text_has_nothing_of_the_marks_around_it(mail: Mail) -> None:
    link = found(mail, plain=True).best

    assert link is not None
    assert link.value == mail.link


@named(TRAPS)
def test_what_stands_beside_it_is_not_taken_for_it(mail: Mail) -> None:
    link = found(mail).best

    assert link is not None
    assert link.value == mail.link


@named(FALLBACKS)
def test_a_link_that_is_spelled_out_for_those_who_cannot_click_is_the_same(mail: Mail) -> None:
    link = found(mail).best

    assert link is not None
    assert link.value == mail.link
    assert not [each.name for each in link.evidence if each.points < -2]


@named([*WHOLE, *PROBES])
def test_mails_as_they_are_sent_are_read_as_a_person_would(mail: Mail) -> None:
    seen = found(mail, plain="<" not in mail.body[:1]).best

    assert (seen.value if seen else None) == mail.link


@named(NONE)
def test_a_mail_without_such_a_link_has_none(mail: Mail) -> None:
    assert found(mail).best is None


@pytest.mark.parametrize(
    "broken",
    [
        "https://acme.io/confirm?u=1&amp;token={}",
        "https://acme.io/confirm?u=1&token={}.",
        "https://acme.io/confirm?u=1&token={})",
        "https://acme.io/confirm?u=3D1&token=3D{}",
        "https://acme.io/confirm?u=1&token=",
        "https://acme.io/confirm?u=1&token={}'s",
        "<https://acme.io/confirm?u=1&token={}>",
    ],
)
def test_a_broken_text_part_is_repaired_by_the_html(broken: str) -> None:
    whole = f"https://acme.io/confirm?u=1&token={T}"
    plain = layout.plain_page(f"Confirm your address: {broken.format(T)}\n")

    assert best("Hi", plain, html(f"<a href='{whole}'>Confirm</a>")) == whole
    assert (
        len(
            link_finder.find_links("Hi", [plain, html(f"<a href='{whole}'>Confirm</a>")], "").ranked
        )
        == 1
    )


def test_a_link_broken_at_the_width_of_a_line_is_joined() -> None:
    whole = f"https://acme.io/accounts/confirm-email?user=42&token={H}{H}"
    start, rest = whole[:74], whole[74:]

    assert best("Hi", layout.plain_page(f"Please confirm:\n\n{start}\n{rest}\n\nBye")) == whole


def test_two_links_as_good_as_each_other_are_a_tie_and_no_answer() -> None:
    page = html(
        f"<p><a href='https://acme.io/confirm/{T}'>Confirm</a></p>"
        f"<p><a href='https://acme.io/confirm/{U}'>Confirm</a></p>"
    )
    seen = link_finder.find_links("Hi", [page], SENDER)

    assert (seen.best, seen.tied, len(seen.ranked)) == (None, True, 2)


def test_parts_that_disagree_are_a_tie() -> None:
    plain = layout.plain_page(f"Confirm: https://acme.io/confirm/{T}")
    other = html(
        f"<p>Confirm: <a href='https://acme.io/confirm/{U}'>https://acme.io/confirm/{U}</a>"
    )
    seen = link_finder.find_links("Hi", [plain, other], SENDER)

    assert (seen.best, seen.tied) == (None, True)


def test_where_only_the_html_was_wrapped_the_plain_link_is_given() -> None:
    plain = layout.plain_page(f"Confirm: https://acme.io/confirm/{T}")
    wrapped = html(f"<a href='https://click.mail.io/ls/click?upn={H}{H}'>Confirm</a>")

    assert best("Hi", plain, wrapped) == f"https://acme.io/confirm/{T}"


def test_a_wrapped_link_is_given_as_it_stands_and_shows_where_it_leads() -> None:
    target = f"https%3A%2F%2Facme.io%2Fconfirm%2F{T}"
    url = f"https://eur01.safelinks.protection.outlook.com/?url={target}&data=05%7C01&reserved=0"
    link = link_finder.find_links("Hi", [html(f"<a href='{url}'>Confirm</a>")], SENDER).best

    assert link is not None
    assert (link.value, link.wrapped) == (url, "safelinks")
    assert link.target == f"https://acme.io/confirm/{T}"


def test_a_choice_tells_its_reasons_and_where_they_stand() -> None:
    page = html(f"<p>Hello, <a href='https://acme.io/confirm/{T}'>confirm it</a></p>")
    link = link_finder.find_links("Hi", [page], SENDER).best

    assert link is not None
    assert page.text[link.start : link.end] == "confirm it"
    reasons = {each.name: each for each in link.evidence}
    assert {"label_does", "address_does", "secret", "sender_aligned"} <= set(reasons)
    where = reasons["label_does"]
    assert page.text[where.start : where.end] == "confirm it"
    assert link.score == sum(each.points for each in link.evidence)
    assert 0.5 < link.confidence <= 1


def test_runners_up_come_behind_and_are_bounded() -> None:
    many = "".join(f"<p><a href='https://acme.io/n/{number}'>News</a></p>" for number in range(99))
    seen = link_finder.find_links(
        "Hi", [html(f"<a href='https://acme.io/c/{T}'>Confirm</a>{many}")], SENDER
    )

    assert seen.best == seen.ranked[0]
    assert len(seen.ranked) == 20
    assert [each.score for each in seen.ranked] == sorted(
        (each.score for each in seen.ranked), reverse=True
    )


_PIECES = st.sampled_from([
    "https://", "http://a.b/", "a.io/x", "confirm", "?token=", T, "&amp;", "=3D", "\n", " ", ")",
    "(", "]", "[", "<", ">", ".", ",", "https://urldefense.com/v3/__https:/*a.b/c__;Lw!!x!y$",
    "\u3002", "\u4f60", "/c/eJ", H, "=", "%", "https://x.y/?u=aHR0cHM6Ly9hLmIvYw", "\ud800", "\x00",
    "#", "//",
])  # fmt: skip


@given(st.lists(_PIECES, max_size=30).map("".join), st.lists(_PIECES, max_size=12).map("".join))
def test_nothing_breaks_it_and_no_value_is_made_up(text: str, href: str) -> None:
    pages = [layout.plain_page(text), html(f"<p>{text}</p><a href='{href}'>{text[:20]}</a>")]
    seen = link_finder.find_links(text[:30], pages, SENDER)
    hrefs = "".join(each.href for page in pages for each in page.anchors)
    written = _plain("".join(page.text for page in pages) + hrefs)

    assert all(_plain(each.value) in written for each in seen.ranked)


def _plain(text: str) -> str:
    """Return a text without what mail programs put into links."""
    return unescape("".join(text.split()).replace("=3D", "=")).replace("=3D", "=")


@pytest.mark.parametrize(
    "unit",
    [
        "1",
        "a.",
        "a.b/c ",
        "https://",
        "https://a.b/c) ",
        "((((",
        "[",
        "https://a.b/" + ")" * 50 + " ",
        "-",
        "x/ ",
    ],
)
def test_steps_grow_with_the_size_of_a_text(unit: str) -> None:
    def spent(size: int) -> int:
        page = layout.plain_page(unit * (size // len(unit)))
        return steps(lambda: link_finder.find_links("x", [page], SENDER))

    spent(1_000)
    assert spent(160_000) <= 8 * spent(20_000) + 2_000
