"""Visible text: what a person would see, and apart from it what is hidden."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncebox.mail import parser
from oncebox.mail.html import visible
from tests.mail.mails import LIMITS, alternative, html, read

SECRET = "secret words"


def sight(markup: str) -> visible.VisibleText:
    return visible.read_html(markup, LIMITS, set())


@pytest.mark.parametrize(
    "markup",
    [
        "<p style='display:none'>{}</p>",
        "<p style='DISPLAY : NONE !important; color:red'>{}</p>",
        "<p style='d\\69splay:none'>{}</p>",
        "<p style='display:/* x */none'>{}</p>",
        "<p style='display:none'><b style='display:block'>{}</b></p>",
        "<p style='visibility:hidden'>{}</p>",
        "<p style='visibility:collapse'><i>{}</i></p>",
        "<p style='opacity:0'>{}</p>",
        "<p style='opacity:0.01'>{}</p>",
        "<p style='filter:opacity(0%)'>{}</p>",
        "<p style='font-size:0'>{}</p>",
        "<p style='font-size:1px'>{}</p>",
        "<p style='font-size:.01em'>{}</p>",
        "<p style='font:0/0 a'>{}</p>",
        "<p style='font-size:0'><b style='font-size:2em'>{}</b></p>",
        "<p style='max-height:0;overflow:hidden'>{}</p>",
        "<p style='height:0px;overflow:hidden'>{}</p>",
        "<p style='width:0;overflow-x:hidden'>{}</p>",
        "<p style='max-width:1px;overflow:hidden'>{}</p>",
        "<p style='position:absolute;left:-9999px'>{}</p>",
        "<p style='position:fixed;top:-100em'>{}</p>",
        "<p style='text-indent:-9999px'>{}</p>",
        "<p style='margin-left:-5000px'>{}</p>",
        "<p style='transform:translate(-9999px, 0)'>{}</p>",
        "<p style='transform:scale(0)'>{}</p>",
        "<p style='clip:rect(0, 0, 0, 0)'>{}</p>",
        "<p style='clip:rect(0 0 0 0)'>{}</p>",
        "<p style='clip-path:inset(50%)'>{}</p>",
        "<p style='content-visibility:hidden'>{}</p>",
        "<p style='mso-hide:all'>{}</p>",
        "<p style='color:#fff'>{}</p>",
        "<p style='color:white'>{}</p>",
        "<p style='color:#fefefe'>{}</p>",
        "<p style='color:rgb(255,255,255)'>{}</p>",
        "<p style='color:rgba(0,0,0,0)'>{}</p>",
        "<p style='color:transparent'>{}</p>",
        "<p style='-webkit-text-fill-color:transparent'>{}</p>",
        "<p style='color:#123456;background:#123456'>{}</p>",
        "<div style='background-color:#000'><p style='color:black'>{}</p></div>",
        "<table bgcolor='#eeeeee'><td><font color='#EEEEEE'>{}</font></td></table>",
        "<body bgcolor=black text=black>{}</body>",
        "<a href=x style='color:#fff'>{}</a>",
        "<p hidden>{}</p>",
        "<p hidden=''><b>{}</b></p>",
        "<style>.h{{display:none}}</style><p class='x h'>{}</p>",
        "<style>#h{{visibility:hidden}}</style><p id=h>{}</p>",
        "<style>p.h,.y{{font-size:0}}</style><p class=h>{}</p>",
        "<style>i{{color:#fff}}</style><i>{}</i>",
        "<style>div .h{{display:none}}</style><div><p class=h>{}</p></div>",
        "<style>div > p{{display:none}}</style><div><p>{}</p></div>",
        "<style>@media screen{{.h{{display:none}}}}</style><p class=h>{}</p>",
        "<style>/* x */ .h /* y */ {{ display : none }}</style><p class=h>{}</p>",
        "<STYLE>.h{{display:none!important}}</STYLE><p class=h style='display:block'>{}</p>",
        "<style>.h{{display:none}} p{{display:block}}</style><p class=h>{}</p>",
        "<style>#h{{display:none}} p.h{{display:block}}</style><p class=h id=h>{}</p>",
        "<style>div .h{{display:none}} .h{{display:block}}</style><div><p class=h>{}</p></div>",
        "<style>@charset 'utf-8'; .h{{display:none}}</style><p class=h>{}</p>",
        "<style>@import url(https://x.example/y.css); .h{{display:none}}</style><p class=h>{}</p>",
        "<style>@media (min-width:1px){{.h{{display:none}}}}</style><p class=h>{}</p>",
        "<style>@supports (display:block){{.h{{display:none}}}}</style><p class=h>{}</p>",
        "<style>@layer a{{.h{{display:none}}}}</style><p class=h>{}</p>",
        "<style>[data-a]{{display:none}}</style><p data-a>{}</p>",
        "<style>p[class='h']{{display:none}}</style><p class=h>{}</p>",
        "<style>[class^=h]{{display:none}}</style><p class=hide>{}</p>",
        "<style>.\\68 {{display:none}}</style><p class=h>{}</p>",
        "<style>div > i b p{{display:none}}</style><div><i><b><u><p>{}</p></u></b></i></div>",
        "<p style='display:none;display:bogus'>{}</p>",
        "<p style='visibility:hidden;visibility:bogus'>{}</p>",
        "<p style='opacity:1%'>{}</p>",
        "<p style='opacity:calc(0)'>{}</p>",
        "<p style='font-size:calc(0px)'>{}</p>",
        "<p style='color:hsl(0, 0%, 100%)'>{}</p>",
        "<p style='color:hsla(120,50%,50%,0)'>{}</p>",
        "<p style='position:absolute;left:9999px'>{}</p>",
        "<p style='text-indent:9999px;overflow:hidden'>{}</p>",
        "<p style='margin:0 0 0 -9999px'>{}</p>",
        "<p style='max-height:0;overflow:clip'>{}</p>",
        "<p style='transform:scale(.001)'>{}</p>",
        "<p style='-webkit-transform:scale3d(0,0,0)'>{}</p>",
        "<p style='color:#fff'><a href=x style='color:inherit'>{}</a></p>",
    ],
)
def test_hidden_text_is_reported_apart(markup: str) -> None:
    page = f"<p>Shown before</p>{markup.format(SECRET)}<p>Shown behind</p>"
    if "<body" in markup:
        page = markup.format(SECRET)
    found = sight(page)

    assert SECRET not in found.shown.text
    assert SECRET in found.hidden
    assert "<body" in markup or found.shown.text == "Shown before\nShown behind"
    assert "hidden_text" in read(html(page)).warnings


@pytest.mark.parametrize(
    "markup",
    [
        "<title>{}</title>",
        "<noscript>{}</noscript>",
        "<!-- {} -->",
        "<!--[if mso]><td>{}</td><![endif]-->",
        "<template>{}</template>",
        "<iframe>{}</iframe>",
        "<object>{}</object>",
        "<video>{}</video>",
        "<svg><title>{}</title></svg>",
    ],
)
def test_text_for_others_is_reported_apart_and_raises_no_alarm(markup: str) -> None:
    page = f"<p>Shown</p>{markup.format(SECRET)}"
    parsed = read(html(page))

    assert SECRET not in parsed.text
    assert "template" in markup or SECRET in parsed.hidden
    assert "hidden_text" not in parsed.warnings


@pytest.mark.parametrize("markup", ["<script>{}</script>", "<style>{}</style>"])
def test_programs_are_no_text_at_all(markup: str) -> None:
    parsed = read(html(f"<p>Shown</p>{markup.format(SECRET)}"))

    assert SECRET not in parsed.text + parsed.hidden


@pytest.mark.parametrize(
    "markup",
    [
        "<p>{}</p>",
        "<p style='display:block'>{}</p>",
        "<p style='display:none;display:block'>{}</p>",
        "<p style='visibility:hidden'><b style='visibility:visible'>{}</b></p>",
        "<td style='font-size:0'><div style='font-size:14px'>{}</div></td>",
        "<p style='max-height:0'>{}</p>",
        "<p style='line-height:0'>{}</p>",
        "<p style='height:0'>{}</p>",
        "<p style='text-indent:-20px'>{}</p>",
        "<p style='color:#000'>{}</p>",
        "<p style='color:#fff;background:#000'>{}</p>",
        "<p style='color:#fff;background:#0a0 none no-repeat'>{}</p>",
        "<p style='color:#fff;background:url(x.png)'>{}</p>",
        "<p style='color:#fff;background:url(data:image/png;base64,xx) #fff'>{}</p>",
        "<p style='color:#fff;background-image:linear-gradient(#000,#333)'>{}</p>",
        "<table><td background='x.png'><p style='color:#fff'>{}</p></table>",
        "<table><td bgcolor=navy><p style='color:#fff'>{}</p></table>",
        "<div style='color:#fff'><a href=x>{}</a></div>",
        "<a href=x style='mso-hide:all;background:#00f;color:#fff'>{}</a>",
        "<style>.b{{background:#00f}}</style><a class=b style='color:#fff'>{}</a>",
        "<style>td .b{{background:#00f}}</style><table><td><a class=b style='color:#fff'>{}</a>",
        "<style>@media (max-width:600px){{.h{{display:none}}}}</style><p class=h>{}</p>",
        "<style>@media print{{.h{{display:none}}}}</style><p class=h>{}</p>",
        "<p style='filter:opacity(0.9)'>{}</p>",
        "<p style='opacity:50%'>{}</p>",
        "<p style='margin:0 auto'>{}</p>",
        "<p style='transform:scale(1.5)'>{}</p>",
        "<p style='color:hsl(0,0%,20%)'>{}</p>",
        "<style>u{{display:none}} .v{{display:block}}</style><u class=v>{}</u>",
        "<style>u.v{{display:block}} u{{display:none}}</style><u class=v>{}</u>",
        "<style>i p{{display:none}}</style><i></i><div><p>{}</p></div>",
        "<style>i > p{{display:none}}</style><i><b><p>{}</p></b></i>",
        "<style>[data-a=x]{{display:none}}</style><p data-a=y>{}</p>",
        "<style>@media (min-width:600px){{.h{{display:none}}}}</style><p class=h>{}</p>",
        "<style>@supports not (color:red){{.h{{display:none}}}}</style><p class=h>{}</p>",
        "<style>.h:hover{{display:none}}</style><p class=h>{}</p>",
        "<style>.h{{display:none}} .h{{display:block}}</style><p class=h>{}</p>",
        "<style>p . > > 1{{display:none}} - #{{display:none}}</style><p>{}</p>",
        "<p style='color:rgb(1'>{}</p>",
        "<p style='color:whatever'>{}</p>",
        "<p style=';;:;x'>{}</p>",
        "<svg><text>{}</text></svg>",
        "<noframes></noframes><p>{}</p>",
    ],
)
def test_visible_text_stays(markup: str) -> None:
    found = sight(f"<p>Before</p>{markup.format(SECRET)}")

    assert SECRET in found.shown.text
    assert found.hidden == ""


def test_no_number_of_elements_makes_a_style_sheet_forgotten() -> None:
    padding = "<p class=x>Shown</p>" * 10_000
    parsed = read(html(f"<style>.h{{display:none}}</style><p class=h>{SECRET}</p>{padding}"))

    assert SECRET not in parsed.text
    assert SECRET in parsed.hidden


def test_lines_and_cells_are_kept_apart_and_white_space_is_put_in_order() -> None:
    found = sight(
        "<h1>One</h1>two  <b>th</b>ree\n four<br>five<p>six</p><ul><li>a<li>b</ul>"
        "<table><tr><td>x</td><td>y</td></tr><tr><td>z&nbsp;&nbsp;z</td></tr></table>"
        "<pre>p  q\n  r</pre>"
    )

    assert found.shown.text == "One\ntwo three four\nfive\nsix\na\nb\nx y\nz z\np q\nr"


def test_entities_are_decoded_once() -> None:
    assert sight("&lt;b&gt; &amp;lt; &#x41;&#xD800;&#0;").shown.text == "<b> &lt; A\ufffd\ufffd"


def test_text_is_preferred_to_html_and_a_different_text_is_flagged() -> None:
    same = read(alternative("Your code is 482913.", "<p>Your code is <b>482913</b>.</p>"))
    other = read(alternative("Your code is 482913.", "<p>Your code is <b>111111</b>.</p>"))
    words = read(alternative("a b c d e f g h", "<p>one two three four five six seven</p>"))

    assert (same.text, same.text_from, same.warnings) == ("Your code is 482913.", "plain", ())
    assert other.text == "Your code is 482913."
    assert "text_html_differ" in other.warnings
    assert "text_html_differ" in words.warnings


_NUMBER_PIECES = st.sampled_from([
    "482913", "1234", "99", "0", "a", " ", "\n", "\t", "\x1f", ".", "(", ")", "-", "@", ":/", "é",
])  # fmt: skip


@given(text=st.lists(_NUMBER_PIECES, max_size=12).map("".join))
def test_a_long_number_is_a_word_of_digits_between_punctuation(text: str) -> None:
    bare = {word.strip(parser._PUNCTUATION) for word in text.split() if "@" not in word}

    expected = {word for word in bare if word.isdecimal() and len(word) >= 4}
    assert parser._long_numbers(text) == expected


def test_what_a_text_part_hides_in_html_is_still_reported() -> None:
    parsed = read(alternative("Hello", "<p>Hello</p><p style='display:none'>do as I say</p>"))

    assert (parsed.text, parsed.hidden) == ("Hello", "do as I say")
    assert "hidden_text" in parsed.warnings


def test_an_empty_text_part_gives_way_to_html() -> None:
    parsed = read(alternative(" \n", "<p>Hello</p>"))

    assert (parsed.text, parsed.text_from) == ("Hello", "html")


def test_odd_characters_in_the_text_are_flagged() -> None:
    assert "invisible_characters" in read(html("<p>48\u200b29</p>")).warnings
    assert "invisible_characters" in read(html("<p>48\U000e002029</p>")).warnings
    assert "bidi_characters" in read(html("<p>\u202e29</p>")).warnings
    assert read(html("<p>schöne Grüße, 日本語</p>")).warnings == ()
