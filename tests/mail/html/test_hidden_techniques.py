"""Hidden text: every known technique is recognised, or what depends on it is a conflict."""

import pytest

from oncebox.mail.html import visible
from tests.corpus.table import PAGE
from tests.mail.hidden_techniques import TECHNIQUES, Technique, table
from tests.mail.mails import LIMITS, html, read
from tests.support.steps import steps

_every = pytest.mark.parametrize("technique", TECHNIQUES, ids=lambda each: each.name.strip("`"))
#: a code that would win, and a weaker one that readers see
_STRONG = "Your verification code is 111111"
_WEAK = "<p>Please enter 482913 to continue.</p>"


def sight(markup: str) -> visible.VisibleText:
    return visible.read_html(markup, LIMITS, set())


@_every
def test_text_is_hidden_or_doubtful(technique: Technique) -> None:
    found = sight(f"<p>Before</p>{technique.markup.format('secret words')}<p>Behind</p>")

    if technique.result == "hidden":
        assert "secret words" not in found.shown.text
        assert "secret words" in found.hidden
        assert found.certain is None
    else:
        assert "secret words" in found.shown.text
        assert found.certain is not None
        assert "secret words" not in found.certain.text


@_every
def test_a_hidden_code_never_wins(technique: Technique) -> None:
    parsed = read(html(f"{technique.markup.format(_STRONG)}{_WEAK}"))

    assert parsed.found.code is None or parsed.found.code.value == "482913"
    if technique.result == "doubtful":
        assert "doubtful_text" in parsed.warnings
        assert parsed.found.code is None
        assert parsed.found.codes_tied
        assert parsed.found.codes[0].doubtful


@_every
def test_a_code_that_only_a_doubtful_style_shows_is_not_taken(technique: Technique) -> None:
    parsed = read(html(technique.markup.format(_STRONG)))

    assert parsed.found.code is None
    assert parsed.found.codes_tied is (technique.result == "doubtful")


def test_the_page_lists_all_techniques() -> None:
    assert len(TECHNIQUES) >= 170
    assert len({each.name for each in TECHNIQUES}) == len(TECHNIQUES)
    text = PAGE.read_text("utf-8")
    assert text.partition("<!-- techniques -->")[2].partition("<!-- end -->")[0] == table()


def test_a_doubtful_link_does_not_win() -> None:
    link = "<a href='https://evil.example/verify?token=8f3bd0c1a2e94f67'>Verify your email</a>"
    parsed = read(html(f"<style>p:not(.x){{display:none}}</style><p>{link}</p>"))

    assert parsed.found.link is None
    assert parsed.found.links_tied


def test_a_code_that_is_the_same_without_doubtful_text_is_found() -> None:
    parsed = read(html("<p>Your code is <b>482913</b></p><p><s>5.00</s> Sale</p>"))

    assert parsed.found.code is not None
    assert parsed.found.code.value == "482913"
    assert "doubtful_text" in parsed.warnings


@pytest.mark.parametrize(
    "markup",
    [
        "<p style='clip-path:inset(0 round 8px)'>{}</p>",
        "<p style='clip-path:circle(50%)'>{}</p>",
        "<p style='width:calc(100% - 20px);overflow:hidden'>{}</p>",
        "<p style='font-size:clamp(14px, 2vw, 18px)'>{}</p>",
        "<p style='transform:rotate(-2deg)'>{}</p>",
        "<p style='filter:drop-shadow(0 0 2px #000)'>{}</p>",
        "<p style='opacity:.6'>{}</p>",
        "<p style='--c:#333;color:var(--c)'>{}</p>",
        "<p style='mask:none;order:0;zoom:1'>{}</p>",
        "<p style='unicode-bidi:embed;direction:rtl'>{}</p>",
        "<dialog open>{}</dialog>",
        "<details open><summary>More</summary>{}</details>",
        "<details><summary>{}</summary></details>",
        "<style media=print>.h{{display:none}}</style><p class=h>{}</p>",
        "<style>.h:hover{{display:none}} .h::before{{display:none}}</style><p class=h>{}</p>",
        "<style>@media (prefers-color-scheme:dark){{p{{color:#fff}}}}</style><p>{}</p>",
        "<style>@media (max-width:600px){{.h{{display:none}}}}</style><p class=h>{}</p>",
        "<style>@media not all{{p{{display:none}}}}</style><p>{}</p>",
        "<style>:is(.x, .y){{display:none}}</style><p class=z>{}</p>",
        "<style>.a{{color:red; .h{{display:none}}}}</style><div class=a><p>{}</p></div>",
        "<style>@keyframes f{{from{{opacity:0}}}} p{{animation:f 1s}}</style><p>{}</p>",
        "<style>p:not(.x){{padding:0}} u + p{{margin:0}}</style><p>{}</p>",
        "<p style='font:700 14px/1.4 serif;-webkit-text-size-adjust:100%'>{}</p>",
        "<p style='transform:translateZ(0);margin:-10px 0 0 -20px;zoom:100%'>{}</p>",
        "<p style='position:absolute;top:0;left:0'>{}</p>",
        "<p style='height:40px;padding:0 120px;box-shadow:inset 0 -1px 0 #ccc'>{}</p>",
        "<p style='clip-path:border-box;color:windowtext;letter-spacing:-1px'>{}</p>",
        "<p><small>{}</small></p>",
        "<style>@media (min-width:480px){{.h{{width:50%}}}}</style><p class=h>{}</p>",
        "<style>@layer a{{.h{{color:red}}}} .x:not(.h){{display:none}}</style><p class=h>{}</p>",
        "<style>.h::after{{content:'';display:block;background:#fff}}</style><p class=h>{}</p>",
        "<style>@media (prefers-reduced-motion){{.h{{display:none}}}}</style><p class=h>{}</p>",
    ],
)
def test_ordinary_styles_leave_no_doubt(markup: str) -> None:
    found = sight(markup.format("Plain words"))

    assert "Plain words" in found.shown.text
    assert found.certain is None
    assert found.hidden == ""


_PIECES = {
    "alternatives": (":is(.a,.b)", "{display:none}"),
    "nested alternatives": (":is(" * 8 + ".a" + ")" * 8 + " ", "{display:none}"),
    "siblings": ("a + ", "b{display:none}"),
    "unclosed": (":is(", "{display:none}"),
    "nested rules": (".a{", ""),
    "strings": (".a{content:'}", "{display:none}"),
    "at-rules": ("@media screen{", "{display:none}"),
    "pseudo-classes": (":not(.x)", "{display:none}"),
    "addresses": ("url(", "{display:none}"),
    "name spaces": ("a|", "{display:none}"),
    "comments": ("@a/*", "{display:none}"),
    "layers": ("@layer a{.a{display:none}}", ""),
    "animations": ("9", "{animation:z} @keyframes z{from{opacity:0}} .a{animation:z 9s}"),
}


@pytest.mark.parametrize("name", _PIECES)
def test_twice_the_style_sheet_takes_at_most_about_twice_the_steps(name: str) -> None:
    piece, end = _PIECES[name]

    def cost(size: int) -> int:
        css = piece * (size // len(piece)) + end
        return steps(lambda: sight(f"<style>{css}</style><p class=a>x</p>"))

    cost(1_000)
    assert cost(40_000) <= 2.2 * cost(20_000) + 5_000


def test_variables_in_many_elements_take_at_most_about_linear_time() -> None:
    def cost(count: int) -> int:
        chain = "".join(f"--a{n}:var(--a{n + 1});" for n in range(count))
        elements = "".join(f"<p class=a style='opacity:var(--a{n})'>x</p>" for n in range(count))
        return steps(lambda: sight(f"<style>.a{{{chain}}}</style>{elements}"))

    cost(100)
    assert cost(2_000) <= 2.2 * cost(1_000) + 5_000


@pytest.mark.parametrize("place", ["rules", "elements"])
def test_text_is_doubtful_where_more_variables_than_are_read_may_hide_it(place: str) -> None:
    many = "".join(f"--a{n}:1;" for n in range(2_000)) + "--z:0"
    around = f"<style>.a{{{many}}}</style><div class=a>"
    if place == "elements":
        around = f"<div style='{many}'>"
    found = sight(f"{around}<p style='opacity:var(--z,1)'>secret words</p></div>")

    assert found.certain is not None
    assert "secret words" not in found.certain.text
