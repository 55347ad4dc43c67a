"""Links: the one that a mail is about, found by words, address, secret, look and place.

No rule names a product, a host or a template. Where no word is known, layout, address and
secret decide. Nothing is ever followed, and no value is given that is not in the mail.
"""

import math
from collections.abc import Sequence
from urllib.parse import unquote

import msgspec

from oncebox.mail import dmarc, linkscores, linkspeech, linkspots
from oncebox.mail.layout import Page
from oncebox.mail.linkscores import Seen
from oncebox.mail.linkspeech import Said
from oncebox.mail.linkspots import Spot
from oncebox.model.candidate import Candidate, Evidence, Kind

_MOST = 120
_MOST_RANKED = 20
#: from here on it is an answer
_ENOUGH = 40
#: nearer than this nobody can tell
_TIE = 3
#: shorter pieces are no sign that a link was cut
_LONG_ENOUGH = 24


class Links(msgspec.Struct, frozen=True, kw_only=True):
    """The links of a mail."""

    best: Candidate | None = None
    #: best first, bounded
    ranked: tuple[Candidate, ...] = ()
    #: two differ and are as good as each other
    tied: bool = False


def find(subject: str, pages: Sequence[Page], sender_domain: str) -> Links:
    """Return the link that a mail is about, and those that came into question."""
    spots = linkspots.find(pages)
    if not spots:
        return Links()
    links = _collected(spots)
    common = linkscores.commons(links)
    for link in links:
        linkscores.judge(link, common=common)
    _compare(links, subject, sender_domain)
    ranked = sorted(links, key=lambda link: -link.score)
    ranked = _unwrapped_first(ranked)
    best = ranked[0] if ranked[0].score >= _ENOUGH else None
    tied = best is not None and _is_tied(best, ranked[1:])
    rest = ranked[1].score if len(ranked) > 1 else -100
    return Links(
        best=None if best is None or tied else _candidate(best, rest),
        ranked=tuple(
            _candidate(link, rest if link is ranked[0] else ranked[0].score)
            for link in ranked[:_MOST_RANKED]
        ),
        tied=tied,
    )


def _collected(spots: Sequence[Spot]) -> list[Seen]:
    """Return every link once, with all of its spots; broken ones are those of the HTML."""
    by_url: dict[str, list[Spot]] = {}
    for spot in spots:
        if spot.where == "html":
            by_url.setdefault(spot.url, []).append(spot)
    whole = sorted(by_url)
    for spot in spots:
        if spot.where != "html":
            by_url.setdefault(_repaired(spot.url, by_url, whole), []).append(spot)
    return [linkscores.seen(url, each) for url, each in list(by_url.items())[:_MOST]]


def _repaired(url: str, known: dict[str, list[Spot]], whole: Sequence[str]) -> str:
    """Return the link of the HTML that a link of the text part was before it was broken."""
    if url in known:
        return url
    for form in (url, url.rstrip("="), url.replace("=3D", "=").rstrip("="), unquote(url)):
        if form in known:
            return form
        if len(form) >= _LONG_ENOUGH:
            longer = [each for each in whole if each.startswith(form)]
            shorter = [each for each in whole if len(each) >= _LONG_ENOUGH and form.startswith(each)
                       and not form[len(each)].isalnum()]  # fmt: skip
            if len(longer) == 1 and form.count("/") > 2:  # noqa: PLR2004 - more than a host
                return longer[0]
            if not longer and len(shorter) == 1 and shorter[0].count("/") > 2:  # noqa: PLR2004
                return url if _goes_on(form, shorter[0]) else shorter[0]
    return url


def _goes_on(url: str, start: str) -> bool:
    """Say whether what follows is a part of a link, and not a mark that was glued to it."""
    rest = url[len(start) :]
    return rest[:1] in "/?#&=" and len(rest) > 1


def _compare(links: Sequence[Seen], subject: str, sender_domain: str) -> None:
    """Judge links by what the mail is like."""
    home = dmarc.organisation(sender_domain) if sender_domain else ""
    candidates = [link for link in links if link.score > -_ENOUGH]
    _by_subject(links, linkspeech.hear(subject))
    for link in links:
        if home and not link.opaque:
            same = dmarc.organisation(_host(link.leads_to)) == home
            link.add("sender_aligned" if same else "sender_other", 6 if same else -2)
    if len(candidates) == 1:
        candidates[0].add("only_one", 10)
    elif candidates:
        candidates[0].add("first", 3)


def _by_subject(links: Sequence[Seen], about: Said) -> None:
    """Judge links by what the subject speaks of."""
    business = Said.BUSINESS in about
    asks = Said.DO in about or (Said.SOFT in about and not business)
    circular = not asks and any(map(linkscores.leaves, links))
    for link in links:
        said = {each.name for each in link.evidence}
        if Said.DO in about:
            # "Order confirmed" asks for less than "Confirm" does.
            points = (24 if "nothing_said" in said else 8) - (7 if business else 0)
            link.add("subject_does", points)
        elif Said.SOFT in about:
            link.add("subject_may", 4)
        if business and Said.DO not in about:
            link.add("subject_business", -10)
        if circular and "label_may" in said:
            link.add("circular", -35)


def _host(url: str) -> str:
    rest = url.partition("://")[2] or url
    return rest.partition("/")[0].partition("?")[0].partition(":")[0].lower()


def _unwrapped_first(ranked: list[Seen]) -> list[Seen]:
    """Put a link that shows where it leads before one of another part that does not."""
    if len(ranked) > 1 and ranked[0].opaque:
        pages = {spot.page for spot in ranked[0].spots}
        for link in ranked[1:]:
            elsewhere = pages.isdisjoint(spot.page for spot in link.spots)
            if link.score >= _ENOUGH and link.wrapping is None and elsewhere:
                return [link, *(each for each in ranked if each is not link)]
    return ranked


def _is_tied(best: Seen, others: Sequence[Seen]) -> bool:
    """Say whether another is as good and leads elsewhere."""
    return any(
        other.score >= max(_ENOUGH, best.score - _TIE) and not _same(best, other)
        for other in others
    )


def _same(one: Seen, other: Seen) -> bool:
    """Say whether two links do the same: they carry one secret, or one hides where it leads."""
    if one.token and one.token == other.token:
        return True
    apart = {spot.page for spot in one.spots}.isdisjoint(spot.page for spot in other.spots)
    return apart and (one.opaque or other.opaque)


def _candidate(link: Seen, rival: int) -> Candidate:
    spot = link.best
    return Candidate(
        kind=Kind.LINK,
        value=link.url,
        shown=spot.url,
        where=spot.where,
        start=spot.start,
        end=spot.end,
        score=link.score,
        confidence=_confidence(link.score, rival),
        evidence=tuple(_sorted(link.evidence)),
        wrapped=link.wrapping.name if link.wrapping else "",
        target=link.wrapping.target if link.wrapping else "",
    )


def _sorted(evidence: Sequence[Evidence]) -> list[Evidence]:
    return sorted(evidence, key=lambda each: -abs(each.points))


def _confidence(score: int, rival: int) -> float:
    """Return how sure the choice is, by its points and by how far the next one is behind."""
    by_score = 1 / (1 + math.exp(-(score - _ENOUGH) / 15))
    by_lead = 1 / (1 + math.exp(-(score - rival) / 15))
    return round(min(0.99, by_score * 0.6 + by_lead * 0.4), 2)
