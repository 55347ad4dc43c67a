"""Judge the corpora: ``python -m tests.corpus [FOLDER]``; it fails below what is promised.

Values are not printed: only what file, and whether it was missed, mistaken or false.
``--page`` writes the tables into the page about extraction.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from tests.corpus import score, table
from tests.corpus.score import BARS, GROUPS, Verdict
from tests.support.shared import lies

CORPORA = ("data/mail-corpus", "data/mail-corpus-2")


def main(arguments: Sequence[str]) -> int:
    """Print the tables and return 0 only if every bar is reached."""
    named = [argument for argument in arguments if argument != "--page"]
    folders = [Path(named[0])] if named else [lies(corpus) for corpus in CORPORA]
    for folder in folders:
        if not (folder / "labels.jsonl").exists():
            _print(f"no labels.jsonl in {folder}: name the folder of a corpus")
            return 2
    verdicts = [verdict for folder in folders for verdict in score.judge(folder)]
    if "--page" in arguments:
        table.write(verdicts)
    for group in GROUPS:
        _print("", f"by {group}", "", *table.grouped(group, verdicts))
    _print("", "all", "", *table.whole(verdicts), "", *table.reliability(verdicts), "")
    _print(*(_complaint(one) for one in verdicts if not one.right))
    passed = True
    for kind, (least, most) in BARS.items():
        result = score.total(kind, [one for one in verdicts if one.kind == kind])
        passed = passed and result.passes(kind)
        _print(
            f"{kind}: {result.rate:.1%} right (at least {least:.1%}),"
            f" {result.false_rate:.1%} false (at most {most:.1%})"
        )
    return 0 if passed else 1


def _complaint(one: Verdict) -> str:
    what = ("mistaken" if one.wanted else "false") if one.found else "missed"
    doubtful = ", ambiguous" if one.label.ambiguous else ""
    return f"{one.kind} {what}: {one.label.file} ({one.label.lang}{doubtful})"


def _print(*lines: str) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
