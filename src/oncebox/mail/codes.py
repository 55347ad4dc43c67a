"""Codes: the one-time code that a mail is about, by evidence, and what else came into question.

Nothing here knows a product, a sender or a template. Every reason counts some points; what
reaches the bar and is better than all others is the code. Hidden text is not looked at.
"""

from collections.abc import Sequence

import msgspec

from oncebox.mail import codes_evidence, codes_folding, codes_lexicon
from oncebox.mail.codes_evidence import Weighed
from oncebox.mail.codes_lexicon import Lexicon
from oncebox.mail.codes_mail import Mail
from oncebox.mail.codes_place import Sheet
from oncebox.mail.layout import Page, of_plain
from oncebox.model.candidate import Candidate, Kind, Where

#: what a code must reach
BAR = 60
#: so close to each other nobody can tell two apart
_CLOSE = 4
_MOST = 20
#: a text is looked at up to here; what comes later no reader looks for
_LONGEST = 256 * 1024
_MOST_PAGES = 8


class Codes(msgspec.Struct, frozen=True, kw_only=True):
    """The codes of a mail."""

    best: Candidate | None = None
    ranked: tuple[Candidate, ...] = ()
    #: two are as good as each other, and differ
    tied: bool = False


class _Place(msgspec.Struct, frozen=True):
    """A page and where it is from."""

    where: Where
    sheet: Sheet


def find(subject: str, pages: Sequence[Page], words: Lexicon | None = None) -> Codes:
    """Return the code that a mail is about, and what else came into question, best first."""
    places = [_Place(page.origin, Sheet(_cut(page))) for page in pages[:_MOST_PAGES]]
    places.insert(0, _Place("subject", Sheet(of_plain(subject[:1000].replace("\n", " ")))))
    mail = Mail([place.sheet for place in places], words or codes_lexicon.standard())
    best: dict[str, Candidate] = {}
    tops: list[Candidate] = []
    for place in places:
        known = {value: candidate.score for value, candidate in best.items()}
        weighed = codes_evidence.weigh(mail, place.sheet, known)
        ranked = sorted(
            (_candidate(place, each) for each in weighed), key=lambda candidate: -candidate.score
        )
        if ranked:
            tops.append(ranked[0])
        for candidate in ranked:
            if candidate.value not in best or best[candidate.value].score < candidate.score:
                best[candidate.value] = candidate
    ordered = sorted(best.values(), key=lambda candidate: (-candidate.score, candidate.start))
    return _chosen(ordered, tops, places)


def _cut(page: Page) -> Page:
    if len(page.text) <= _LONGEST:
        return page
    blocks = tuple(block for block in page.blocks if block.end <= _LONGEST)
    return msgspec.structs.replace(page, text=page.text[:_LONGEST], blocks=blocks)


def _candidate(place: _Place, weighed: Weighed) -> Candidate:
    token = weighed.token
    return Candidate(
        kind=Kind.CODE,
        value=token.value,
        shown=place.sheet.page.text[token.start : token.end],
        where=place.where,
        start=token.start,
        end=token.end,
        score=weighed.score,
        confidence=_confidence(weighed.score),
        evidence=weighed.evidence,
    )


def _confidence(score: int) -> float:
    """Return a score as a share of certainty: one half at the bar."""
    return round(min(0.99, max(0.01, 0.5 + (score - BAR) / 80)), 2)


def _chosen(ordered: list[Candidate], tops: list[Candidate], places: Sequence[_Place]) -> Codes:
    """Return the best, or those first of which nobody can tell which one is."""
    if not ordered or ordered[0].score < BAR:
        return Codes(ranked=tuple(ordered[:_MOST]))
    first = ordered[0]
    tied = [
        other
        for other in ordered[1:]
        if other.score >= BAR
        and not _same(first.value, other.value)
        and (
            other.score >= first.score - _CLOSE
            or _share_a_name(first, other)
            or _parts_differ(first, other, tops, places)
        )
    ]
    if not tied:
        return Codes(best=first, ranked=tuple(ordered[:_MOST]))
    rest = [other for other in ordered[1:] if other not in tied]
    return Codes(ranked=tuple([first, *tied, *rest][:_MOST]), tied=True)


def _share_a_name(one: Candidate, other: Candidate) -> bool:
    """Say whether one and the same word calls both a code: this one or that one."""
    names = [
        (each.where, len(each.value), reason.start)
        for each in (one, other)
        for reason in each.evidence
        if reason.name == "before_code"
    ]
    return len(names) == 2 and names[0] == names[1]  # noqa: PLR2004


def _same(one: str, other: str) -> bool:
    return one.replace("-", "") == other.replace("-", "")


def _parts_differ(
    first: Candidate, other: Candidate, tops: list[Candidate], places: Sequence[_Place]
) -> bool:
    """Say whether another part has another code, and neither part has both."""
    if first.where == other.where or all(top.value != other.value for top in tops):
        return False
    theirs = [place.sheet.text for place in places if place.where == other.where]
    ours = [place.sheet.text for place in places if place.where == first.where]
    return not _within(first, theirs) and not _within(other, ours)


def _within(candidate: Candidate, texts: list[str]) -> bool:
    shown = codes_folding.digits(candidate.shown)
    return any(candidate.value in text or shown in text for text in texts)
