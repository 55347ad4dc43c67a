"""Whatever was stored, what is printed cannot steer a terminal, hide or swap text."""

import json
import re
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncebox.cli.output import failures
from oncebox.cli.output.printer import Block, Printer, escape, to_json
from oncebox.errors import ConfigInvalid

#: the hidden ones far more often than chance would bring them
ANY_TEXT = st.text(
    st.one_of(
        st.characters(),
        st.characters(categories=["Cc", "Cf", "Cs", "Zl", "Zp"]),
        st.sampled_from("\\\x1b\x7f\x9b\u202e\u200b\ud800\ufeff\U000e0041x1bu202e"),
    )
)
CONTROLS = {"Cc", "Cs", "Zl", "Zp"}
#: format characters that are visible signs of their script
VISIBLE = set("؀؁؂؃؄؅۝܏࢐࢑࣢") | {chr(0x110BD), chr(0x110CD), *map(chr, range(0x13430, 0x13440))}
SPELLED = re.compile(r"\\(\\|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})")


def is_hidden(character: str) -> bool:
    category = unicodedata.category(character)
    return category in CONTROLS or (category == "Cf" and character not in VISIBLE)


def read_back(shown: str) -> str:
    return SPELLED.sub(
        lambda match: "\\" if match[1] == "\\" else chr(int(match[1][1:], 16)), shown
    )


@given(ANY_TEXT)
def test_nothing_hidden_is_ever_printed(text: str) -> None:
    assert not any(map(is_hidden, escape(text)))


@given(ANY_TEXT)
def test_what_is_printed_can_be_read_back_exactly(text: str) -> None:
    assert read_back(escape(text)) == text


@given(ANY_TEXT)
def test_json_hides_nothing_and_means_the_same(text: str) -> None:
    printed = to_json({text: [text]})

    assert not any(map(is_hidden, printed))
    # A JSON reader joins two surrogate escapes; apart from that nothing changes.
    joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    assert json.loads(printed) == {joined: [joined]}


def test_every_hidden_character_of_unicode_is_known() -> None:
    characters = map(chr, range(sys.maxunicode + 1))

    assert [
        f"{ord(each):x}" for each in characters if is_hidden(each) and escape(each) == each
    ] == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("Größe 東京 🎉", "Größe 東京 🎉"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\tb\nc", "a\\x09b\\x0ac"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202etxt.exe", "\\u202etxt.exe"),
        ("pay\u200bpal", "pay\\u200bpal"),
        ("\udc80", "\\udc80"),
        ("\U000e0041", "\\U000e0041"),
        ("C:\\x1b", "C:\\\\x1b"),
    ],
)
def test_characters_are_spelled_as_python_does(text: str, shown: str) -> None:
    assert escape(text) == shown


def test_json_spells_what_is_outside_the_first_plane_as_two_units() -> None:
    assert to_json("\U000e0041\x7f") == '"\\udb40\\udc41\\u007f"'


def test_a_block_is_shown_as_lines_and_everything_else_in_it_is_escaped(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = Printer(as_json=False, quiet=False)
    out.outline([("subject", "a\nb"), ("text", Block("one\r\ntwo\x1b[2J\rthree\u2028\n\nfour\n"))])
    out.outline([("nothing", Block(""))])

    assert capsys.readouterr().out.splitlines() == [
        "subject\ta\\x0ab",
        "text\tone",
        "text\ttwo\\x1b[2J\\x0dthree\\u2028",
        "text\t",
        "text\tfour",
    ]


def test_an_error_of_several_lines_is_shown_as_lines(capsys: pytest.CaptureFixture[str]) -> None:
    error = ConfigInvalid("first\n  second\nerror: forged\x07")
    failures.print_error(error, as_json=False)

    assert capsys.readouterr().err.splitlines() == [
        "error: config_invalid: first",
        "    second",
        "  error: forged\\x07",
    ]
