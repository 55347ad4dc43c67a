"""HTML written out again: what is text stays text, and nothing is taken for a tag that is none."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from oncebox.mail.html import visible
from tests.mail.mails import LIMITS

#: pieces that readers of tags stumble over
PIECES = st.sampled_from([
    "<b>", "</b>", "<p>", "</p>", "<div style='display:none'>", "</div>", "<td>", "<table>",
    "<br>", "</table>", "<svg>", "</svg>", "<math>", "</math>", "<style>", "</style>",
    "<script>", "<xmp>", "</script>", "<!--", "-->", "--!>", "<!", "<?", "</", "<x<y>",
    '<i "a>', "<u =b>", "<a href=x>", "</a>", "<plaintext>", "</plaintext>", "<iframe>",
    "</iframe>", "<template>", "</template>", "<title>", "</title>", "<textarea>",
    "</textarea>", "<link>", "</link>", "<select>", "<option>", "<noscript>", "</noscript>",
    "<foreignObject>", "&lt;", "&gt;", "&amp;", "&nbsp;", '"', "'", ">", "<", "=", "/", " ",
    "\n", "a", "word", "\x00", "\x1f", "<img alt='q>'>", "<img>",
])  # fmt: skip


def shown(html: str) -> str:
    return visible.read_html(html, LIMITS, set()).shown.text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>1 &lt;b&gt; 2 &amp;amp; 3</p>", "1 <b> 2 &amp; 3"),
        ("<p title='a>b'>one</p>", "one"),
        ('<p "x>one</p><p =y>two</p>', "one\ntwo"),
        ("<x<y>one</x<y>two", "onetwo"),
        ("a<x<y></x<y>b", "ab"),
        ("one<!-- <p>two</p> > -->three", "onethree"),
        ("<xmp><b>one</b></xmp>two", "<b>one</b>two"),
        ("one<plaintext><b>two</b></plaintext>three", "one<b>two</b></plaintext>three"),
        ("<svg><desc>no</desc><text>one</text></svg>two", "onetwo"),
        ("<textarea><b>one</b></textarea>", "<b>one</b>"),
    ],
)
def test_what_a_browser_shows_is_read(html: str, text: str) -> None:
    assert shown(html) == text


@pytest.mark.parametrize(
    "html",
    [
        "<svg><style>&lt;/style&gt;secret</style></svg>",
        "<svg><xmp>&lt;/xmp&gt;secret</xmp></svg>",
        "<svg><link style='display:none'>secret</link></svg>",
        '<script>"<!--<script></script>secret"</script>',
        '<template><script>"<!--<script></script></template>secret"</script></template>',
        "<iframe>secret</iframe>",
        "<div style='display:none' \"x>secret</div>",
        "<div style='display:none' <x>secret</div>",
    ],
)
def test_no_trick_of_spelling_makes_hidden_text_visible(html: str) -> None:
    assert shown(f"<p>before</p>{html}") == "before"


@given(st.lists(PIECES, max_size=30).map("".join))
@example("</plaintext><plaintext></b><xmp>")
def test_no_markup_breaks_the_walk(html: str) -> None:
    visible.read_html(html, LIMITS, set())

    straight = visible.serialize_html(html, straight=True).html
    assert visible.read_html(straight, LIMITS, set()) is not None


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\x00\r"), max_size=60))
def test_a_text_is_read_as_it_was_written(text: str) -> None:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;")

    assert shown(f"<p>{escaped}</p>") == " ".join(text.split())


def test_what_opens_again_everywhere_is_cut_by_its_size() -> None:
    warnings: set[str] = set()
    html = f'<p>a<font face="{"x" * 100_000}">' + "</p><p>a" * 2_000

    assert (
        len(visible.serialize_html(visible.truncate_html(html, LIMITS, warnings)).html) < 40_000_000
    )
    assert warnings == {"html_limit"}
