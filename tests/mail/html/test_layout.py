"""Layout: what stands apart in a mail, and what can be clicked, by offsets into its text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncebox.mail.html import layout, visible
from oncebox.mail.html.layout import Block, Page
from tests.mail.mails import LIMITS
from tests.support.steps import steps


def page(markup: str) -> Page:
    return visible.read_html(markup, LIMITS, set()).shown


def blocks(markup: str) -> list[tuple[str, str]]:
    seen = page(markup)
    return [(each.kind, seen.text[each.start : each.end]) for each in seen.blocks]


def block(markup: str, text: str) -> Block:
    seen = page(markup)
    return next(each for each in seen.blocks if seen.text[each.start : each.end] == text)


def anchors(markup: str) -> list[tuple[str, str]]:
    seen = page(markup)
    return [(each.href, seen.text[each.start : each.end]) for each in seen.anchors]


def test_a_line_of_plain_text_is_a_block_without_its_white_space() -> None:
    seen = layout.plain_page("  one \n\n\ttwo\nthree")

    assert [seen.text[each.start : each.end] for each in seen.blocks] == ["one", "two", "three"]


def test_lines_cells_and_headings_are_told_apart() -> None:
    seen = blocks("<h1>Title</h1><p>a  line</p><table><tr><td>left<td> <b>right</b> </table>")

    assert seen == [("heading", "Title"), ("line", "a line"), ("cell", "left"), ("cell", "right")]


@pytest.mark.parametrize(
    "markup",
    [
        "<table><tr>" + "".join(f"<td>{digit}</td>" for digit in "482913") + "</tr></table>",
        "".join(f"<div style='display:inline-block'>{digit}</div>" for digit in "482913"),
        "".join(f"<p style='display: inline-block; width:9px'>{digit}</p>" for digit in "482913"),
    ],
)
def test_characters_in_cells_are_neighbours(markup: str) -> None:
    seen = page(markup)
    cells = [each for each in seen.blocks if each.kind == "cell"]

    assert seen.text == "4 8 2 9 1 3"
    assert [(each.start, each.end) for each in cells] == [(at, at + 1) for at in range(0, 11, 2)]


def test_a_code_in_spans_is_one_block() -> None:
    markup = "<p>" + "".join(f"<span style='padding:3px'>{digit}</span>" for digit in "482913")

    assert blocks(markup) == [("line", "482913")]


@pytest.mark.parametrize(
    ("markup", "strong", "size", "spaced"),
    [
        ("<p><b>48</b></p>", True, 0, False),
        ("<p style='font-weight:700'>48</p>", True, 0, False),
        ("<p style='font: bold 24px/1 x'>48</p>", True, 24, False),
        ("<p style='font-size:30px'>48</p>", False, 30, False),
        ("<p style='font-size:18pt'>48</p>", False, 24, False),
        ("<p style='font-size:2em'>48</p>", False, 32, False),
        ("<p style='letter-spacing:4px'>48</p>", False, 0, True),
        ("<p style='letter-spacing:.3em'><strong>48</strong></p>", True, 0, True),
        ("<p style='font-size:14px;font-weight:400;letter-spacing:0'>48</p>", False, 0, False),
        ("<b style='font-weight:normal'>48</b>", False, 0, False),
        ("<style>.c{font-size:32px;letter-spacing:6px}</style><p class=c>48</p>", False, 32, True),
    ],
)
def test_how_a_block_looks_is_known(markup: str, strong: bool, size: int, spaced: bool) -> None:
    seen = block(markup, "48")

    assert (seen.strong, seen.size, seen.spaced) == (strong, size, spaced)


def test_what_stands_out_in_a_line_is_a_run_of_its_own() -> None:
    markup = "<p>Your code is <b>48<i>2</i></b><b>913</b> until  <b>noon</b>.</p>"

    assert blocks(markup) == [
        ("line", "Your code is 482913 until noon."),
        ("run", "482913"),
        ("run", "noon"),
    ]


def test_anchors_stand_where_their_text_stands() -> None:
    markup = """<p>Please  <a href='https://a.test/1?x=1&amp;y=2'> click
      <b>here</b> </a>, or <a href=https://a.test/2>there</a>.</p>
      <a href='/3'><div>two</div><div>lines</div></a><a name=x>no link</a>"""

    assert anchors(markup) == [
        ("https://a.test/1?x=1&y=2", "click here"),
        ("https://a.test/2", "there"),
        ("/3", "two\nlines"),
    ]


@pytest.mark.parametrize(
    "markup",
    [
        "<div style='display:none'><a href=x>no</a></div>",
        "<a href=x style='font-size:0'>no</a>",
        "<a href=x style='color:#fff'>no</a>",
        "<a href=x></a>",
        "<!-- <a href=x>no</a> -->",
        "<p><noscript><a href=x>no</a></noscript>",
        "<p><template><a href=x>no</a></template>",
        "<a href=x hidden>no</a>",
        "<form action=x><button>no</button></form><map><area href=x></map>",
    ],
)
def test_an_anchor_that_nobody_sees_is_none(markup: str) -> None:
    assert anchors(markup) == []


def test_a_picture_speaks_for_its_link() -> None:
    seen = page("<p>Hello <a href=x><img src=y alt='Confirm  now'></a> you</p>").anchors[0]

    assert (seen.alt, seen.start, seen.end) == ("Confirm now", 5, 5)


@pytest.mark.parametrize(
    "markup",
    [
        "<a href=x style='background:#36c;color:#fff'>Go</a>",
        "<a href=x style='background-image:url(y)'>Go</a>",
        "<a href=x style='border:1px solid #36c;padding:9px 20px'>Go</a>",
        "<a href=x class='btn btn-primary'>Go</a>",
        "<a href=x role=button>Go</a>",
        "<table><td bgcolor='#3366cc'><a href=x style='color:#fff'>Go</a></table>",
        "<style>.c{background:#36c}</style><a href=x class=c>Go</a>",
    ],
)
def test_a_button_is_known_by_its_look(markup: str) -> None:
    assert page(markup).anchors[0].button


@pytest.mark.parametrize(
    "markup",
    [
        "<a href=x>Go</a>",
        "<a href=x style='background:#fff'>Go</a>",
        "<p style='background:#eee'><a href=x>Go</a></p>",
        "<div style='background:#123;color:#eee'>See <a href=x>this</a></div>",
    ],
)
def test_a_plain_link_is_no_button(markup: str) -> None:
    assert not page(markup).anchors[0].button


_WORDS = st.sampled_from(["a", "bb", " ", "  ", "\n", "\u00a0", "\t", "", "\u4f60", "\x1f"])
_TAGS = st.sampled_from(["b", "p", "td", "a href=x", "span", "pre", "h2", "i", "li"])


@st.composite
def _markup(draw: st.DrawFn) -> str:
    return "".join(
        f"<{tag}>{word}</{tag.split()[0]}>{after}"
        for tag, word, after in draw(st.lists(st.tuples(_TAGS, _WORDS, _WORDS), max_size=12))
    )


@given(_markup())
def test_every_offset_is_into_the_text_and_at_a_word(markup: str) -> None:
    seen = page(markup)

    stretches = [(each.start, each.end) for each in seen.blocks]
    for start, end in [*stretches, *((each.start, each.end) for each in seen.anchors)]:
        assert 0 <= start <= end <= len(seen.text)
        assert seen.text[start:end] == seen.text[start:end].strip()
    flat = [each for each in seen.blocks if each.kind != "run"]
    assert "".join(seen.text[each.start : each.end] + " " for each in flat).split() == (
        seen.text.split()
    )


def test_a_line_with_many_pieces_takes_steps_that_grow_with_its_size() -> None:
    def spent(count: int) -> int:
        markup = "<p>" + "<b>a</b> x " * count
        return steps(lambda: page(markup))

    spent(1_000)
    assert spent(8_000) <= 8 * spent(1_000) + 1_000
