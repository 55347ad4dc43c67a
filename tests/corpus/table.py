"""Tables: the scores as Markdown, for a person and for the page about extraction."""

import math
from collections.abc import Iterable, Iterator, Sequence

from tests.corpus import score
from tests.corpus.score import GROUPS, Score, Verdict
from tests.project.tree import ROOT

PAGE = ROOT / "docs/reference/extraction.md"
#: no answer is less confident
_LEAST_TENTH = 4
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


def reliability(verdicts: Sequence[Verdict]) -> list[str]:
    """Return the table of right answers by confidence, in steps of a tenth."""
    answers = [one for one in verdicts if one.found and not one.label.ambiguous]
    lines = ["| confidence | codes right | links right |", "| --- | --- | --- |"]
    for low in range(_LEAST_TENTH, 10):
        inside = [one for one in answers if low <= tenth(one.confidence) < low + 1]
        cells = [
            f"{sum(one.right for one in of_kind)}/{len(of_kind)}" if of_kind else ""
            for kind in ("code", "link")
            for of_kind in [[one for one in inside if one.kind == kind]]
        ]
        lines.append(f"| over {low / 10} to {(low + 1) / 10} | {cells[0]} | {cells[1]} |")
    return lines


def tenth(confidence: float) -> int:
    """Return the step of a confidence: 0.9 is in the step from 0.8 to 0.9."""
    return max(0, math.ceil(round(confidence * 10, 6)) - 1)


def _pair(name: str, verdicts: Sequence[Verdict]) -> tuple[Score, Score]:
    return (
        score.total(name, [one for one in verdicts if one.kind == "code"]),
        score.total(name, [one for one in verdicts if one.kind == "link"]),
    )


def of_page(verdicts: Sequence[Verdict]) -> str:
    """Return the tables as they stand on the page about extraction."""
    lines = ["", *whole(verdicts), "", "By confidence:", "", *reliability(verdicts)]
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
