"""Link finder: the link of a mail, scored by wording, URL, secret and appearance.

No rule names a product, a host or a template. Where no word is known, layout, URL and secret
decide. No link is ever requested, and every value is in the mail.
"""

import math
import re
from collections.abc import Callable, Sequence
from urllib.parse import unquote

import msgspec

from oncebox.mail.html.layout import Page
from oncebox.mail.links import meaning, occurrences, url_secrets, wrappers
from oncebox.mail.links.meaning import LinkMeaning, Meanings
from oncebox.mail.links.occurrences import LinkOccurrence
from oncebox.mail.links.wrappers import Wrapper
from oncebox.model.inboxes.addresses import organisational_domain, public_suffixes
from oncebox.model.inboxes.received_mail import (
    ArtifactKind,
    Candidate,
    CandidateEvidence,
    RankedCandidates,
)

public_suffixes()  # at import, because it takes tens of milliseconds
#: file name extensions of resources, not actions
_FILE_ENDINGS = (
    ".png", ".gif", ".jpg", ".jpeg", ".svg", ".webp", ".ico", ".css", ".js", ".pdf", ".ics",
    ".woff", ".woff2", ".mp4", ".zip", ".apk", ".ipa", ".xml", ".rss",
)  # fmt: skip
#: texts of unsubscribe links
_UNSUBSCRIBE_WORDS = (
    "unsubscri", "opt out", "opt-out", "abmeld", "abbestell", "d\u00e9sinscri", "d\u00e9sabon",
    "darse de baja", "cancelar", "disiscri", "uitschrij", "wypisz",
    "\u043e\u0442\u043f\u0438\u0441", "\u9000\u8ba2", "\u914d\u4fe1\u505c\u6b62",
)  # fmt: skip
#: a secret in so many links does not belong to one of them
_SHARED_BY = 4
#: below this, the words exclude the link
_CLEARLY_NEGATIVE = -40
#: length of most codes
_CODE_LENGTH = 6
#: up to so many words before a colon are a label of the link
_CAPTION_WORDS = 2
_ANY_ACTION = LinkMeaning.ACTION | LinkMeaning.POSSIBLE_ACTION
#: scripts from here on rarely use commas
_FIRST_COMMALESS = "\u0e00"
_COMMA = re.compile("[,\uff0c\u3001\u060c]")


class ScoredLink(msgspec.Struct):
    """One link with all of its occurrences."""

    url: str
    occurrences: list[LinkOccurrence]
    wrapper: Wrapper | None = None
    #: the secret in its URL, and whether it is the code of the mail
    token: str = ""
    carries_code: bool = False
    #: the evidence of its score, and the sum of all points
    evidence: list[CandidateEvidence] = []
    score: int = 0

    @property
    def leads_to(self) -> str:
        """The target of the link, as far as it can be read."""
        return (self.wrapper.target if self.wrapper else "") or self.url

    @property
    def opaque(self) -> bool:
        """Whether the target cannot be read from the link."""
        return self.wrapper is not None and not self.wrapper.target

    @property
    def best(self) -> LinkOccurrence:
        """The most significant occurrence."""
        return max(self.occurrences, key=lambda spot: (bool(spot.label), spot.button))

    def add(self, name: str, points: int, spot: LinkOccurrence | None = None) -> None:
        """Add one piece of evidence."""
        start, end = (None, None) if spot is None else (spot.start, spot.end)
        self.evidence.append(CandidateEvidence(name=name, points=points, start=start, end=end))
        self.score += points


def score_link(link: ScoredLink, *, common: frozenset[str]) -> None:
    """Score a link by itself; ``common`` are secrets that occur in many links of the mail."""
    scored = [(spot, _wording_points(spot)) for spot in link.occurrences]
    spot, points = max(scored, key=_total_points)
    # A label that excludes the link outweighs all other occurrences; a bare URL has no label.
    labelled = [each for each in scored if each[0].label]
    if labelled and _total_points(worst := min(labelled, key=_total_points)) < _CLEARLY_NEGATIVE:
        spot, points = worst
    for name, each in points:
        link.add(name, each, spot)
    if link.carries_code:
        link.add("carries_code", 15)
    _score_url(link)
    if not any(each.points > 0 and each.name != "captioned" for each in link.evidence):
        link.add("nothing_said", -25)
    _score_secret(link, common)
    _score_appearance(link)


def _total_points(scored: tuple[LinkOccurrence, list[tuple[str, int]]]) -> int:
    return sum(points for _, points in scored[1])


def _wording_points(spot: LinkOccurrence) -> list[tuple[str, int]]:
    """Return the points of the words of an occurrence."""
    label = meaning.text_meaning(spot.label) if spot.label else LinkMeaning.NOTHING
    found = _label_points(label)
    before = _meaning_before(spot.before) if spot.before else LinkMeaning.NOTHING
    around = before | (meaning.text_meaning(spot.after) if spot.after else LinkMeaning.NOTHING)
    if before & LinkMeaning.IF_NOT_YOU:
        found.append(("unless", -20 if before & LinkMeaning.MAY_IGNORE else -80))
    elif spot.before.endswith((":", "\uff1a")) and not spot.label:
        words = len(spot.before[:-1].rpartition(":")[2].split())
        found.append(("announced" if words > _CAPTION_WORDS else "captioned", 4))
    if label & _ANY_ACTION:
        if around & LinkMeaning.ACTION:
            found.append(("sentence_does", 6))
        if spot.lead and _is_if_not_you(meaning.text_meaning(spot.lead)):
            found.append(("lead_unless", -90 if _lead_in_names_link(spot.lead) else -15))
        return found
    found += _sentence_points(before, around)
    if spot.lead and not before & (_ANY_ACTION | LinkMeaning.OTHER_PURPOSE):
        lead = _lead_in_points(spot.lead)
        if label & LinkMeaning.BUSINESS:  # the label outweighs the text before the link
            business = any(name == "lead_business" for name, _ in lead)
            lead = [(name, each // 2) for name, each in lead if each < 0 or not business]
        found += lead
    return found


def _label_points(said: Meanings) -> list[tuple[str, int]]:
    found = []
    if said & LinkMeaning.ACTION:
        found.append(("label_does", 40))
    elif said & LinkMeaning.POSSIBLE_ACTION:
        found.append(("label_may", 22))
    if said & (LinkMeaning.REFUSAL | LinkMeaning.MAY_IGNORE):
        found.append(("label_against", -80))
    elif said & (LinkMeaning.OTHER_PURPOSE | LinkMeaning.OTHER_LABEL):
        found.append(("label_other", -45 if said & LinkMeaning.ACTION else -80))
    if said & LinkMeaning.BUSINESS:
        found.append(("label_business", -24 if said & _ANY_ACTION else -15))
    return found


def _meaning_before(text: str) -> Meanings:
    """Return the meaning of a sentence: ``unsubscribe from invitations`` is no invitation."""
    said = meaning.text_meaning(text)
    if said & LinkMeaning.OTHER_PURPOSE and said & LinkMeaning.POSSIBLE_ACTION:
        opening = meaning.text_meaning(" ".join(text.split(maxsplit=2)[:2]))
        if opening & LinkMeaning.OTHER_PURPOSE and not opening & LinkMeaning.POSSIBLE_ACTION:
            return said & ~LinkMeaning.POSSIBLE_ACTION
    return said


def _sentence_points(before: Meanings, around: Meanings) -> list[tuple[str, int]]:
    found = []
    if around & LinkMeaning.ACTION:
        found.append(("sentence_does", 32))
    elif around & LinkMeaning.POSSIBLE_ACTION:
        found.append(("sentence_may", 14))
    if before & LinkMeaning.OTHER_PURPOSE and not around & _ANY_ACTION:
        found.append(("sentence_other", -45))
    if (
        before & LinkMeaning.REFUSAL
        and not before & LinkMeaning.IF_NOT_YOU
        and not around & LinkMeaning.ACTION
    ):
        found.append(("sentence_against", -60))
    if around & LinkMeaning.BUSINESS:
        found.append(("sentence_business", -16))
    return found


def _is_if_not_you(said: Meanings) -> bool:
    """Say whether the next text is for readers who did not ask for the mail.

    "If it was not you, ignore this" does not refer to the link below; without its end, it does.
    """
    return bool(said & LinkMeaning.IF_NOT_YOU) and not said & LinkMeaning.MAY_IGNORE


def _lead_in_names_link(lead: str) -> bool:
    """Say whether the link is the action "if it was not you": ``…, reset your password``."""
    if lead.endswith((":", ",", "\uff1a", "\uff0c", "\u3001", "\u060c")):
        return True
    condition = _COMMA.search(lead)
    if condition is None and max(lead) < _FIRST_COMMALESS:
        return False
    action = lead[condition.end() :] if condition else lead
    return bool(meaning.text_meaning(action) & LinkMeaning.ACTION)


def _lead_in_points(lead: str) -> list[tuple[str, int]]:
    found = []
    said = meaning.text_meaning(lead)
    if said & (LinkMeaning.IF_NOT_YOU | LinkMeaning.MAY_IGNORE):
        unless = [("lead_unless", -90 if _lead_in_names_link(lead) else -35)]
        return unless if _is_if_not_you(said) else []
    if said & LinkMeaning.ACTION:
        found.append(("lead_does", 24))
    elif said & LinkMeaning.POSSIBLE_ACTION:
        found.append(("lead_may", 10))
    if said & (LinkMeaning.OTHER_PURPOSE | LinkMeaning.REFUSAL) and not said & LinkMeaning.ACTION:
        found.append(("lead_other", -30))
    if said & LinkMeaning.BUSINESS:
        found.append(("lead_business", -10))
    return found


def _score_url(link: ScoredLink) -> None:
    if link.opaque:
        return
    said, rather_not = meaning.url_meaning(link.leads_to)
    if said & LinkMeaning.ACTION:
        link.add("address_does", 20)
    elif said & LinkMeaning.POSSIBLE_ACTION:
        link.add("address_may", 8)
    if said & LinkMeaning.OTHER_PURPOSE:
        link.add("address_other", -35 if said & LinkMeaning.ACTION else -75)
    elif rather_not:
        link.add("address_rather_not", -12)
    if said & LinkMeaning.BUSINESS:
        link.add("address_business", -25)


def _score_secret(link: ScoredLink, common: frozenset[str]) -> None:
    """Score whether the link was made for one person."""
    if link.opaque:
        link.add("wrapped", 5)
        return
    path = link.leads_to.partition("#")[0].partition("?")[0]
    bare = path.partition("://")[2] or path
    if path.lower().endswith(_FILE_ENDINGS):
        link.add("file", -80)
    if not link.token:
        last = bare.partition("/")[2].rstrip("/").rpartition("/")[2]
        short = url_secrets.is_short_secret(last) and _is_code_page(link, bare)
        points = 6 if len(last) >= _CODE_LENGTH else 0
        link.add("secret_short" if short else "no_secret", points if short else -60)
    elif link.token in common:
        link.add("secret_common", -40)
    else:
        sure = link.carries_code or url_secrets.secret_likeness(link.token) > 1
        link.add("secret" if sure else "secret_likely", 25 if sure else 10)


def _is_code_page(link: ScoredLink, bare: str) -> bool:
    """Say whether the end of a path may be a code: a number is only below the host or an action."""
    if not bare.rstrip("/").rpartition("/")[2].isdigit() or bare.rstrip("/").count("/") == 1:
        return True
    said = {each.name for each in link.evidence}
    return "address_does" in said and "address_rather_not" not in said


def _score_appearance(link: ScoredLink) -> None:
    spots = link.occurrences
    if button := next((spot for spot in spots if spot.button), None):
        link.add("button", 10, button)
    elif all(spot.picture for spot in spots) and not _is_labelled(link):
        link.add("picture", -20, spots[0])
    spelled_out = next((spot for spot in spots if spot.spelled_out), None)
    if spelled_out and len(spots) > 1:
        link.add("spelled_out", 8, spelled_out)
    other = next((spot for spot in spots if spot.other), None)
    if other and link.wrapper is None:
        link.add("shows_another", -30, other)


def _is_labelled(link: ScoredLink) -> bool:
    return any(each.name in {"label_does", "label_may"} for each in link.evidence)


def is_unsubscribe(link: ScoredLink) -> bool:
    """Say whether it is an unsubscribe link; mails to many recipients have one."""
    said = [each.name for each in link.evidence]
    if "label_other" not in said and "address_other" not in said:
        return False
    return any(
        word in spot.label.lower() for spot in link.occurrences for word in _UNSUBSCRIBE_WORDS
    )


def shared_secrets(links: Sequence[ScoredLink]) -> frozenset[str]:
    """Return the secrets that occur in many links, or under one parameter name in many links.

    Click trackers give every link its own value under the same name.
    """
    by_secret: dict[str, int] = {}
    by_name: dict[str, set[str]] = {}
    for link in links:
        if link.token:
            by_secret[link.token] = by_secret.get(link.token, 0) + 1
            for name, value in url_secrets.url_parameters(link.leads_to):
                if value == link.token:
                    by_name.setdefault(name, set()).add(value)
    found = {secret for secret, count in by_secret.items() if count >= _SHARED_BY}
    for secrets in by_name.values():
        if len(secrets) >= _SHARED_BY:
            found |= secrets
    return frozenset(found)


_MOST_LINKS = 120
#: so many links that differ in their secrets alone are tracked
_FEWEST_TRACKED = 3
_MOST_RANKED = 20
#: the score that a link must reach
_THRESHOLD = 40
#: links whose scores differ by at most this are equally good
_TIE_DISTANCE = 3
#: evidence without which a link is doubtful, and the highest confidence of a doubtful link
_CERTAIN_EVIDENCE = frozenset({"label_does", "sentence_does", "lead_does", "address_does"})
_DOUBTFUL, _CERTAIN = 0.9, 0.99
_AGAINST_POINTS = -10
#: a shorter common prefix does not prove that a link was cut
_SHORTEST_REPAIRED = 24


def find_links(
    subject: str, pages: Sequence[Page], sender_domain: str, code: Candidate | None = None
) -> RankedCandidates:
    """Return the link of a mail, and all candidates, best first; ``code`` is that of the mail."""
    spots = occurrences.find_occurrences(pages)
    if not spots:
        return RankedCandidates()
    links = _collected_links(spots)
    _mark_tracked(links)
    if code is not None:
        _mark_code(links, code.value)
    common = shared_secrets(links)
    for link in links:
        score_link(link, common=common)
    _score_in_mail(links, subject, sender_domain, beside_code=code is not None)
    ranked = _prefer_unwrapped(sorted(links, key=lambda link: -link.score))
    best = ranked[0] if ranked[0].score >= _THRESHOLD else None
    tied = best is not None and _is_tied(best, ranked[1:])
    rest = ranked[1].score if len(ranked) > 1 else -100
    return RankedCandidates(
        best=None if best is None or tied else _link_candidate(best, rest),
        ranked=tuple(
            _link_candidate(link, rest if link is ranked[0] else ranked[0].score)
            for link in ranked[:_MOST_RANKED]
        ),
        tied=tied,
    )


def _collected_links(spots: Sequence[LinkOccurrence]) -> list[ScoredLink]:
    """Return every link once, with all of its occurrences; broken links are repaired."""
    by_url: dict[str, list[LinkOccurrence]] = {}
    for spot in spots:
        if spot.where == "html":
            by_url.setdefault(spot.url, []).append(spot)
    whole = sorted(by_url)
    for spot in spots:
        if spot.where != "html":
            by_url.setdefault(_repaired_url(spot.url, by_url, whole), []).append(spot)
    links = []
    for url, each in list(by_url.items())[:_MOST_LINKS]:
        link = ScoredLink(url, each, wrappers.unwrap(url))
        link.token = "" if link.opaque else url_secrets.secret_token(link.leads_to)
        links.append(link)
    return links


def _mark_tracked(links: Sequence[ScoredLink]) -> None:
    """Mark links as wrapped that differ in their secrets alone: those of a click tracker."""
    secret = [link for link in links if link.wrapper is None and link.token]
    # Counting is cheap, and rules out most mails.
    for several in _several(secret, lambda link: (link.url.count("/"), link.url.count("="))):
        for tracked in _several(several, lambda link: url_secrets.without_secrets(link.url)):
            for link in tracked:
                link.wrapper, link.token = Wrapper("tracker"), ""


def _several(
    links: Sequence[ScoredLink], form: Callable[[ScoredLink], object]
) -> list[list[ScoredLink]]:
    """Return the links of every form that enough of them have."""
    by_form: dict[object, list[ScoredLink]] = {}
    for link in links:
        by_form.setdefault(form(link), []).append(link)
    return [several for several in by_form.values() if len(several) >= _FEWEST_TRACKED]


def _mark_code(links: Sequence[ScoredLink], code: str) -> None:
    """Mark the links that contain the code of the mail."""
    for link in links:
        if not link.opaque and url_secrets.contains_code(link.leads_to, code):
            link.token, link.carries_code = code, True


def _repaired_url(url: str, known: dict[str, list[LinkOccurrence]], whole: Sequence[str]) -> str:
    """Return the link of the HTML part for a broken link of the text part."""
    if url in known:
        return url
    for form in (url, url.rstrip("="), url.replace("=3D", "=").rstrip("="), unquote(url)):
        if form in known:
            return form
        if len(form) >= _SHORTEST_REPAIRED:
            longer = [each for each in whole if each.startswith(form)]
            shorter = [each for each in whole
                       if len(each) >= _SHORTEST_REPAIRED and form.startswith(each)
                       and not form[len(each)].isalnum()]  # fmt: skip
            if len(longer) == 1 and form.count("/") > 2:  # noqa: PLR2004 - more than a host
                return longer[0]
            if not longer and len(shorter) == 1 and shorter[0].count("/") > 2:  # noqa: PLR2004
                return url if _continues_url(form, shorter[0]) else shorter[0]
    return url


def _continues_url(url: str, start: str) -> bool:
    """Say whether the rest continues the URL, and is not punctuation."""
    rest = url[len(start) :]
    return rest[:1] in "/?#&=" and len(rest) > 1


def _score_in_mail(
    links: Sequence[ScoredLink], subject: str, sender_domain: str, *, beside_code: bool
) -> None:
    home = organisational_domain(sender_domain) if sender_domain else ""
    candidates = [link for link in links if link.score > -_THRESHOLD]
    _score_by_subject(links, meaning.text_meaning(subject), beside_code=beside_code)
    for link in links:
        if home and not link.opaque:
            same = organisational_domain(_url_host(link.leads_to)) == home
            link.add("sender_aligned" if same else "sender_other", 6 if same else -2)
    if len(candidates) == 1:
        candidates[0].add("only_one", 10)
    elif candidates:
        candidates[0].add("first", 3)
    if beside_code:
        for link in links:
            _score_beside_code(link)


#: evidence that a link does what the mail asks for
_MEANT = frozenset({
    "label_does", "label_may", "sentence_does", "lead_does", "address_does",
})  # fmt: skip


def _score_beside_code(link: ScoredLink) -> None:
    """Score a link of a mail with a code: the mail is about the code, so a link must be certain."""
    said = {each.name for each in link.evidence}
    if link.carries_code:
        return
    meant = not said.isdisjoint(_MEANT)
    if "secret" in said or "wrapped" in said:
        points = 0 if meant else -25
    else:
        points = -5 if meant and {"secret_likely", "sender_aligned"} <= said else -35
    if points:
        link.add("beside_code", points)


def _score_by_subject(links: Sequence[ScoredLink], about: Meanings, *, beside_code: bool) -> None:
    business = bool(about & LinkMeaning.BUSINESS)
    asks = about & LinkMeaning.ACTION or (about & LinkMeaning.POSSIBLE_ACTION and not business)
    circular = not asks and any(map(is_unsubscribe, links))
    for link in links:
        said = {each.name for each in link.evidence}
        if about & LinkMeaning.ACTION:
            # "Order confirmed" is weaker than "Confirm".
            alone = "nothing_said" in said and not beside_code
            points = (24 if alone else 8) - (7 if business else 0)
            link.add("subject_does", points)
        elif about & LinkMeaning.POSSIBLE_ACTION:
            link.add("subject_may", 4)
        if about & _ANY_ACTION and _outweighs_label(said):
            link.add("address_outweighs", 55)
        if business and not about & LinkMeaning.ACTION:
            link.add("subject_business", -10)
        if circular and "label_may" in said:
            link.add("circular", -35)


def _outweighs_label(said: set[str]) -> bool:
    """Say whether a URL with a secret names the action, whatever one word of the label says."""
    named = "address_does" in said or ("address_may" in said and "button" in said)
    return named and {"label_other", "secret"} <= said and "address_other" not in said


def _url_host(url: str) -> str:
    rest = url.partition("://")[2] or url
    return rest.partition("/")[0].partition("?")[0].partition(":")[0].lower()


def _prefer_unwrapped(ranked: list[ScoredLink]) -> list[ScoredLink]:
    """Prefer a link with a readable target to a wrapped link of another part."""
    if len(ranked) > 1 and ranked[0].opaque:
        pages = {spot.page for spot in ranked[0].occurrences}
        for link in ranked[1:]:
            elsewhere = pages.isdisjoint(spot.page for spot in link.occurrences)
            if link.score >= _THRESHOLD and link.wrapper is None and elsewhere:
                return [link, *(each for each in ranked if each is not link)]
    return ranked


def _is_tied(best: ScoredLink, others: Sequence[ScoredLink]) -> bool:
    """Say whether another link is equally good and has another target."""
    return any(
        other.score >= max(_THRESHOLD, best.score - _TIE_DISTANCE) and not _same_link(best, other)
        for other in others
    )


def _same_link(one: ScoredLink, other: ScoredLink) -> bool:
    """Say whether two links are equivalent: the same secret, or one hides its target."""
    if one.token and one.token == other.token:
        return True
    apart = {spot.page for spot in one.occurrences}.isdisjoint(
        spot.page for spot in other.occurrences
    )
    return apart and (one.opaque or other.opaque)


def _link_candidate(link: ScoredLink, rival: int) -> Candidate:
    spot = link.best
    return Candidate(
        kind=ArtifactKind.LINK,
        value=link.url,
        shown=spot.url,
        where=spot.where,
        start=spot.start,
        end=spot.end,
        score=link.score,
        confidence=_confidence(link, rival),
        evidence=tuple(sorted(link.evidence, key=lambda each: -abs(each.points))),
        wrapped=link.wrapper.name if link.wrapper else "",
        target=link.wrapper.target if link.wrapper else "",
    )


def _confidence(link: ScoredLink, rival: int) -> float:
    """Return the confidence, by the score and the distance to the next candidate.

    It is high only if words or the URL name the action and nothing speaks against the link.
    """
    by_score = 1 / (1 + math.exp(-(link.score - _THRESHOLD) / 15))
    by_lead = 1 / (1 + math.exp(-(link.score - rival) / 15))
    said = {each.name for each in link.evidence}
    doubted = any(each.points <= _AGAINST_POINTS for each in link.evidence)
    most = _CERTAIN if said & _CERTAIN_EVIDENCE and not doubted else _DOUBTFUL
    return round(min(most, by_score * 0.6 + by_lead * 0.4), 2)
