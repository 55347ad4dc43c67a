"""Tables: the scores as Markdown, for a person and for the page about extraction."""

from collections.abc import Iterable, Iterator, Sequence

from tests.corpus import score
from tests.corpus.score import GROUPS, Score, Verdict
from tests.project.tree import ROOT

PAGE = ROOT / "docs/reference/extraction.md"
_BEGIN, _END = "<!-- tables -->", "<!-- end of tables -->"


def rows(scores: Iterable[tuple[str, Score, Score]]) -> Iterator[str]:
    """Yield the lines of a table: of each name the codes and the links."""
    yield "| | codes | false | links | false |"
    yield "| --- | --- | --- | --- | --- |"
    for name, codes, links in scores:
        yield f"| {name} | {_cells(codes)} | {_cells(links)} |"


def _cells(one: Score) -> str:
    right = f"{one.right}/{one.wanted}" if one.wanted else ""
    false = f"{one.false}/{one.unwanted}" if one.unwanted else ""
    return f"{right} | {false}"


def whole(verdicts: Sequence[Verdict]) -> list[str]:
    """Return the table of all mails."""
    return list(rows([("all", *_pair("all", verdicts))]))


def grouped(group: str, verdicts: Sequence[Verdict]) -> list[str]:
    """Return the table by language, product or trap."""
    names = sorted({name for verdict in verdicts for name in GROUPS[group](verdict.label)})
    return list(
        rows(
            (name, *_pair(name, [one for one in verdicts if name in GROUPS[group](one.label)]))
            for name in names
        )
    )


def _pair(name: str, verdicts: Sequence[Verdict]) -> tuple[Score, Score]:
    return (
        score.total(name, [one for one in verdicts if one.kind == "code"]),
        score.total(name, [one for one in verdicts if one.kind == "link"]),
    )


def of_page(verdicts: Sequence[Verdict]) -> str:
    """Return the tables as they stand on the page about extraction."""
    lines = ["", *whole(verdicts)]
    for group in ("language", "trap"):
        lines += ["", f"By {group}:", "", *grouped(group, verdicts)]
    return "\n".join([*lines, "", ""])


def on_page() -> str:
    """Return what stands on the page."""
    return PAGE.read_text("utf-8").partition(_BEGIN)[2].partition(_END)[0]


def write(verdicts: Sequence[Verdict]) -> None:
    """Put the tables on the page."""
    head, _, rest = PAGE.read_text("utf-8").partition(_BEGIN)
    tail = rest.partition(_END)[2]
    PAGE.write_text(f"{head}{_BEGIN}{of_page(verdicts)}{_END}{tail}", "utf-8")
