"""Candidates: the codes and links that a mail may be about, best first, and why."""

from enum import StrEnum
from typing import Literal

import msgspec

#: where something was found: the subject, or the text of a part
Where = Literal["subject", "plain", "html"]


class Kind(StrEnum):
    """What can be found in a mail."""

    CODE = "code"
    LINK = "link"


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One reason for or against a candidate."""

    #: a word of ours, never of the mail
    name: str
    #: what it counts; less than nothing speaks against
    points: int
    #: where it stands, in the text that holds the candidate; none: in what surrounds it
    start: int | None = None
    end: int | None = None


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A code or a link that stands in a mail."""

    kind: Kind
    #: what a person would type or follow
    value: str
    #: as it stands in the mail
    shown: str
    where: Where
    start: int
    end: int
    score: int
    #: from 0 to 1
    confidence: float
    evidence: tuple[Evidence, ...] = ()
    #: of a link: which service wrapped it, and where it leads if that can be read from it
    wrapped: str = ""
    target: str = ""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """All that was found in a mail."""

    #: the one of each kind that the mail is about, if there is one
    code: Candidate | None = None
    link: Candidate | None = None
    #: everything that came into question, best first, bounded
    codes: tuple[Candidate, ...] = ()
    links: tuple[Candidate, ...] = ()
    #: two differ and are as good as each other: nobody can tell which is meant
    codes_tied: bool = False
    links_tied: bool = False
