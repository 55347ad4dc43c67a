"""The corpus: codes and links are found as often as we say, by rules that name nobody."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from oncebox.mail import parser
from oncebox.mail.codes import code_finder
from oncebox.mail.codes.lexicon import Lexicon
from oncebox.mail.html.layout import Page
from oncebox.mail.languages.tables import load_languages
from oncebox.mail.limits import ParseLimits
from oncebox.mail.mime import header_fields, parts
from oncebox.mail.parser import parse
from tests.corpus import labels, score, table
from tests.corpus.__main__ import CORPORA, main
from tests.corpus.score import BARS, MOST_WRONG, Kind, Score, Verdict
from tests.project.tree import ROOT
from tests.support.shared import shared


@pytest.fixture(scope="module")
def verdicts() -> list[Verdict]:
    return [verdict for corpus in CORPORA for verdict in score.judge(shared(corpus))]


@pytest.mark.parametrize("kind", BARS)
def test_what_mails_are_about_is_found_as_often_as_we_say(
    kind: Kind, verdicts: list[Verdict]
) -> None:
    result = score.total(kind, [verdict for verdict in verdicts if verdict.kind == kind])

    assert result.passes(kind), f"{result.rate:.1%} right, {result.false_rate:.1%} false"


def test_no_wrong_answer_is_called_certain(verdicts: list[Verdict]) -> None:
    certain = [
        verdict.label.file
        for verdict in verdicts
        if verdict.found and not verdict.right and verdict.confidence > MOST_WRONG
    ]

    assert not certain


@pytest.mark.parametrize("half", range(2))
@pytest.mark.parametrize("kind", BARS)
def test_what_holds_for_one_half_of_the_mails_holds_for_the_other(
    kind: Kind, half: int, verdicts: list[Verdict]
) -> None:
    """Rules fitted to single mails would show in one of the halves."""
    products = sorted({verdict.label.product for verdict in verdicts})
    chosen = set(products[half::2])
    result = score.total(
        kind, [one for one in verdicts if one.kind == kind and one.label.product in chosen]
    )

    assert result.rate >= BARS[kind][0] - 0.01
    assert result.false_rate <= BARS[kind][1] + 0.01


def test_the_page_shows_what_is_measured(verdicts: list[Verdict]) -> None:
    """``python -m tests.corpus --page`` writes it."""
    assert table.on_page() == table.of_page(verdicts)


def test_no_word_and_no_rule_names_a_product(verdicts: list[Verdict]) -> None:
    products = {verdict.label.product for verdict in verdicts}
    names = {re.split(r"[-_]", product)[0] for product in products} - {"raw", "sms", "acme"}
    source = "\n".join(
        path.read_text("utf-8").lower()
        for path in sorted((ROOT / "src/oncebox/mail").rglob("code*.py"))
    )

    assert not [name for name in sorted(names) if re.search(rf"\b{name}\b", source)]


def test_a_folder_without_labels_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path)]) == 2
    assert "no labels.jsonl" in capsys.readouterr().out


def test_a_corpus_below_the_bar_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.eml").write_bytes(b"Subject: hi\r\n\r\nHello, how are you?\r\n")
    label = '{"file": "a.eml", "lang": "en", "kind": "otp", "otp": "1234", "otp_accept": ["1234"]}'
    (tmp_path / "labels.jsonl").write_text(label + "\n", "utf-8")

    assert main([str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "code missed: a.eml (en)" in out
    assert "1234" not in out


def test_ambiguous_labels_do_not_count() -> None:
    doubtful = labels.Label(file="a__b.eml", lang="en", kind="none", ambiguous=True)

    assert score.total("", [Verdict(doubtful, "code", False, True, False)]) == Score("", 0, 0, 0, 0)


def test_every_language_that_was_asked_for_has_a_table() -> None:
    asked = """
        en es pt fr de it nl pl cs tr ru uk ar he fa hi zh ja ko vi id th sv da no fi el ro hu
    """

    assert not set(asked.split()) - {tag for tag, each in load_languages().items() if each.code}


@pytest.mark.parametrize(
    ("kept", "least"),
    [
        pytest.param(lambda _own, _language: False, 44, id="no tables"),
        pytest.param(lambda _own, language: language == "en", 56, id="English only"),
        pytest.param(lambda own, language: language != own, 58, id="all but its own"),
    ],
)
def test_layout_and_shape_find_codes_where_words_are_not_known(
    kept: Callable[[str, str], bool], least: int
) -> None:
    folder = shared(CORPORA[0])
    lexicons: dict[str, Lexicon] = {}
    right = false = 0
    for label in labels.read(folder):
        own = _SPELLED.get(label.lang[:2], label.lang[:2])
        if own not in lexicons:
            tables = load_languages().items()
            lexicons[own] = Lexicon({name: words for name, words in tables if kept(own, name)})
        subject, pages = _pages((folder / label.file).read_bytes())
        best = code_finder.find_codes(subject, pages, lexicons[own]).best
        right += best is not None and labels.canonical(best.value) in label.code
        false += best is not None and not label.code and not label.ambiguous

    assert false == 0
    assert right >= least


#: Norwegian has one table
_SPELLED = {"nb": "no"}


def _pages(raw: bytes) -> tuple[str, Sequence[Page]]:
    limits = ParseLimits()
    leaves = parts.leaf_parts(
        raw, header_fields.split_header(raw, 0, len(raw), limits), limits, set()
    )
    shown = [leaf for leaf in leaves if not parts.is_attachment(leaf)]
    return parse(raw).subject, parser.read_body(raw, shown, limits, set()).pages
