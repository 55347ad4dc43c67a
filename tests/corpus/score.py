"""Scores: how often the right thing is found, by language, product and trap."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from oncebox.mail.parser import parse
from oncebox.model.inboxes.received_mail import Candidate
from tests.corpus import labels
from tests.corpus.labels import Label

Kind = Literal["code", "link"]
#: what must be reached: right where there is one, and wrong where there is none
BARS: dict[Kind, tuple[float, float]] = {"code": (0.995, 0.003), "link": (0.99, 0.005)}
#: the confidence that no wrong answer exceeds
MOST_WRONG = 0.9


class Verdict(msgspec.Struct, frozen=True):
    """What was found in one mail, compared with its label."""

    label: Label
    kind: Kind
    #: there is one to be found
    wanted: bool
    #: something was found
    found: bool
    #: it is right that this was found, or nothing
    right: bool
    #: of what was found
    confidence: float = 0.0


class Score(msgspec.Struct, frozen=True):
    """How often it was right."""

    name: str
    wanted: int
    right: int
    unwanted: int
    false: int

    @property
    def rate(self) -> float:
        """How many of those that are there are found."""
        return self.right / self.wanted if self.wanted else 1.0

    @property
    def false_rate(self) -> float:
        """In how many mails without one something is found."""
        return self.false / self.unwanted if self.unwanted else 0.0

    def passes(self, kind: Kind) -> bool:
        """Say whether it is good enough."""
        least, most = BARS[kind]
        return self.rate >= least and self.false_rate <= most


def judge(folder: Path) -> Iterator[Verdict]:
    """Read every mail of a corpus and compare what is found with its label."""
    for label in labels.read(folder):
        found = parse((folder / label.file).read_bytes()).found
        yield _verdict(label, "code", label.code, found.code)
        yield _verdict(label, "link", label.links, found.link)


def _verdict(label: Label, kind: Kind, wanted: frozenset[str], found: Candidate | None) -> Verdict:
    if found is None:
        return Verdict(label, kind, bool(wanted), found=False, right=not wanted)
    value = labels.canonical(found.value) if kind == "code" else found.value
    right = value in wanted
    return Verdict(label, kind, bool(wanted), True, right, found.confidence)


def total(name: str, verdicts: Iterable[Verdict]) -> Score:
    """Return the score of some verdicts; ambiguous labels are left out."""
    counted = [verdict for verdict in verdicts if not verdict.label.ambiguous]
    wanted = [verdict for verdict in counted if verdict.wanted]
    unwanted = [verdict for verdict in counted if not verdict.wanted]
    return Score(
        name,
        len(wanted),
        sum(verdict.right for verdict in wanted),
        len(unwanted),
        sum(verdict.found for verdict in unwanted),
    )


#: what scores are given by
GROUPS: dict[str, Callable[[Label], Sequence[str]]] = {
    "language": lambda label: (label.lang.split("-")[0],),
    "product": lambda label: (label.product,),
    "trap": lambda label: label.traps,
}
