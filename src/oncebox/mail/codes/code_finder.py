"""Code finder: the one-time code of a mail, and the ranked candidates.

No rule names a product, a sender or a template. Each piece of evidence adds points; the best
candidate is the code if it reaches the threshold and no other is equally good. Hidden text is
ignored.
"""

from collections.abc import Sequence

import msgspec

from oncebox.mail.codes import lexicon, scoring
from oncebox.mail.codes.context import MailContext, PageContext
from oncebox.mail.codes.lexicon import Lexicon
from oncebox.mail.codes.scoring import ScoredToken
from oncebox.mail.html.layout import Page, plain_page
from oncebox.mail.languages import folding
from oncebox.model.inboxes.received_mail import (
    ArtifactKind,
    Candidate,
    CandidateEvidence,
    CandidateLocation,
    RankedCandidates,
)

#: the score that a code must reach
THRESHOLD = 60
#: candidates whose scores differ by at most this are equally good
_TIE_DISTANCE = 4
#: the score from which a candidate casts doubt on one in a quotation
_POSSIBLE = 35
_MOST_RANKED = 20
#: characters of a text that are searched
_LONGEST_TEXT = 256 * 1024
_MOST_PAGES = 8


#: evidence that a number is called something else
_OTHER_NAMES = frozenset({"before_other", "before_gift", "before_event", "before_standing"})
#: evidence that a number is called a code
_CODE_NAMES = frozenset({"before_code", "behind_code", "above_code"})
#: the highest confidence of a candidate with evidence against it, or with a near rival
_DOUBTFUL, _CERTAIN = 0.9, 0.99
_AGAINST_POINTS, _NEAR_RIVAL = -10, 20

#: where a page comes from, and the page
_Place = tuple[CandidateLocation, PageContext]


def find_codes(
    subject: str, pages: Sequence[Page], words: Lexicon | None = None
) -> RankedCandidates:
    """Return the code of a mail, and all candidates, best first."""
    places: list[_Place] = [
        ("subject", PageContext(plain_page(subject[:1000].replace("\n", " ")))),
        *((page.origin, PageContext(_truncated(page))) for page in pages[:_MOST_PAGES]),
    ]
    mail = MailContext([context for _, context in places], words or lexicon.standard_lexicon())
    best: dict[str, Candidate] = {}
    tops: list[Candidate] = []
    named_otherwise: set[str] = set()
    for where, context in places:
        known = {value: candidate.score for value, candidate in best.items()}
        scored = scoring.score_tokens(mail, context, known, named_otherwise)
        ranked = sorted(
            (_code_candidate(where, context, each) for each in scored),
            key=lambda candidate: -candidate.score,
        )
        if ranked:
            tops.append(ranked[0])
        if where == "subject":
            named_otherwise.update(each.value for each in ranked if _is_named_otherwise(each))
        for candidate in ranked:
            if candidate.value not in best or best[candidate.value].score < candidate.score:
                best[candidate.value] = candidate
    ordered = sorted(best.values(), key=lambda candidate: (-candidate.score, candidate.start))
    return _chosen_codes(_quoted_behind(ordered), tops, places)


def _quoted_behind(ordered: list[Candidate]) -> list[Candidate]:
    """Lower the scores of candidates in a quotation below that of the mail's own code."""
    own = next((each.score for each in ordered if not _is_quoted(each)), 0)
    most = own - _TIE_DISTANCE - 1
    if own < THRESHOLD or not any(each.score > most and _is_quoted(each) for each in ordered):
        return ordered
    lowered = [_lowered(each, most) if _is_quoted(each) else each for each in ordered]
    return sorted(lowered, key=lambda candidate: -candidate.score)


def _lowered(candidate: Candidate, most: int) -> Candidate:
    if candidate.score <= most:
        return candidate
    reason = CandidateEvidence(name=scoring.QUOTED, points=most - candidate.score)
    evidence = (*candidate.evidence, reason)
    return msgspec.structs.replace(
        candidate, score=most, confidence=_confidence(most, evidence), evidence=evidence
    )


def _is_quoted(candidate: Candidate) -> bool:
    return any(reason.name == scoring.QUOTED for reason in candidate.evidence)


def _is_named_otherwise(candidate: Candidate) -> bool:
    """Say whether the words before a number call it something else, as in "order 4829"."""
    return any(reason.name in _OTHER_NAMES for reason in candidate.evidence)


def _truncated(page: Page) -> Page:
    if len(page.text) <= _LONGEST_TEXT:
        return page
    blocks = tuple(block for block in page.blocks if block.end <= _LONGEST_TEXT)
    return msgspec.structs.replace(page, text=page.text[:_LONGEST_TEXT], blocks=blocks)


def _code_candidate(
    where: CandidateLocation, context: PageContext, scored: ScoredToken
) -> Candidate:
    token = scored.token
    return Candidate(
        kind=ArtifactKind.CODE,
        value=token.value,
        shown=context.page.text[token.start : token.end],
        where=where,
        start=token.start,
        end=token.end,
        score=scored.score,
        confidence=_confidence(scored.score, scored.evidence),
        evidence=scored.evidence,
    )


def _confidence(score: int, evidence: Sequence[CandidateEvidence]) -> float:
    """Return the confidence, from 0 to 1; the threshold is 0.5.

    It is high only if words call the token a code and nothing speaks against it.
    """
    named = any(reason.name in _CODE_NAMES for reason in evidence)
    doubted = any(reason.points <= _AGAINST_POINTS for reason in evidence)
    most = _CERTAIN if named and not doubted else _DOUBTFUL
    return round(min(most, max(0.01, 0.5 + (score - THRESHOLD) / 80)), 2)


def _chosen_codes(
    ordered: list[Candidate], tops: list[Candidate], places: Sequence[_Place]
) -> RankedCandidates:
    """Return the best candidate; if several are equally good, none, and those first."""
    if not ordered or ordered[0].score < THRESHOLD:
        return RankedCandidates(ranked=tuple(ordered[:_MOST_RANKED]))
    first = ordered[0]
    tied = [
        other
        for other in ordered[1:]
        if other.score >= THRESHOLD
        and other.value.replace("-", "") != first.value.replace("-", "")
        and (
            other.score >= first.score - _TIE_DISTANCE
            or _share_label(first, other)
            or _parts_differ(first, other, tops, places)
        )
    ]
    if _is_quoted(first):  # no other one reaches the threshold
        tied += [each for each in ordered if not _is_quoted(each) and each.score >= _POSSIBLE]
    if not tied:
        near = len(ordered) > 1 and ordered[1].score > first.score - _NEAR_RIVAL
        best = _doubted(first) if near else first
        return RankedCandidates(best=best, ranked=(best, *map(_doubted, ordered[1:_MOST_RANKED])))
    rest = [other for other in ordered[1:] if other not in tied]
    ranked = [first, *tied, *rest][:_MOST_RANKED]
    return RankedCandidates(ranked=tuple(map(_doubted, ranked)), tied=True)


def _doubted(candidate: Candidate) -> Candidate:
    """Return a candidate that has a rival: it is not certain."""
    if candidate.confidence <= _DOUBTFUL:
        return candidate
    return msgspec.structs.replace(candidate, confidence=_DOUBTFUL)


def _share_label(one: Candidate, other: Candidate) -> bool:
    """Say whether both are named a code by the same word, as in "code 12 or 34"."""
    names = [
        (each.where, len(each.value), reason.start)
        for each in (one, other)
        for reason in each.evidence
        if reason.name == "before_code"
    ]
    return len(names) == 2 and names[0] == names[1]  # noqa: PLR2004


def _parts_differ(
    first: Candidate, other: Candidate, tops: list[Candidate], places: Sequence[_Place]
) -> bool:
    """Say whether two parts of the mail have different codes, and neither part has both."""
    if first.where == other.where or all(top.value != other.value for top in tops):
        return False
    theirs = [context.text for where, context in places if where == other.where]
    ours = [context.text for where, context in places if where == first.where]
    return not _occurs_in(first, theirs) and not _occurs_in(other, ours)


def _occurs_in(candidate: Candidate, texts: list[str]) -> bool:
    shown = folding.fold_digits(candidate.shown)
    return any(candidate.value in text or shown in text for text in texts)
