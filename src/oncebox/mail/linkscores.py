"""Scores: how likely a link is the one that a mail is about, point by point."""

import re
from collections.abc import Sequence

import msgspec

from oncebox.mail import linkpaths, linkspeech, tokens, wrappers
from oncebox.mail.linkspeech import Said
from oncebox.mail.linkspots import Spot
from oncebox.mail.wrappers import Wrapping
from oncebox.model.candidate import Evidence

#: endings of what is shown or loaded, not done
_FILES = (
    ".png", ".gif", ".jpg", ".jpeg", ".svg", ".webp", ".ico", ".css", ".js", ".pdf", ".ics",
    ".woff", ".woff2", ".mp4", ".zip", ".apk", ".ipa", ".xml", ".rss",
)  # fmt: skip
#: what the texts of links say by which one leaves a list
_LEAVING = (
    "unsubscri", "opt out", "opt-out", "abmeld", "abbestell", "d\u00e9sinscri", "d\u00e9sabon",
    "darse de baja", "cancelar", "disiscri", "uitschrij", "wypisz",
    "\u043e\u0442\u043f\u0438\u0441", "\u9000\u8ba2", "\u914d\u4fe1\u505c\u6b62",
)  # fmt: skip
#: a secret that stands in so many links is not that of one of them
_MANY = 4
#: fewer points than this, and words say plainly what a link is not
_CLEAR = -40
#: as long as most codes are
_LIKE_A_CODE = 6
#: so many words before a colon say what a link is; more of them lead to it
_CAPTION = 2


#: in scripts from here on, commas are few
_COMMALESS = "\u0e00"
_COMMA = re.compile("[,\uff0c\u3001\u060c]")


class Seen(msgspec.Struct):
    """One link, at all of its spots."""

    url: str
    spots: list[Spot]
    wrapping: Wrapping | None = None
    #: the secret in it
    token: str = ""
    #: what makes up its score
    evidence: list[Evidence] = []

    @property
    def leads_to(self) -> str:
        """Where it leads, as far as that can be told."""
        return (self.wrapping.target if self.wrapping else "") or self.url

    @property
    def opaque(self) -> bool:
        """Whether nobody can tell where it leads."""
        return self.wrapping is not None and not self.wrapping.target

    @property
    def score(self) -> int:
        """All points."""
        return sum(each.points for each in self.evidence)

    @property
    def best(self) -> Spot:
        """The spot that says most."""
        return max(self.spots, key=lambda spot: (bool(spot.label), spot.button))

    def add(self, name: str, points: int, spot: Spot | None = None) -> None:
        """Note a reason."""
        place = (None, None) if spot is None else (spot.start, spot.end)
        self.evidence.append(Evidence(name=name, points=points, start=place[0], end=place[1]))


def seen(url: str, spots: list[Spot]) -> Seen:
    """Return a link that has not been judged."""
    wrapping = wrappers.unwrap(url)
    found = Seen(url, spots, wrapping, "", [])
    found.token = "" if found.opaque else tokens.token(found.leads_to)
    return found


def judge(link: Seen, *, common: frozenset[str]) -> None:
    """Judge a link by itself; ``common`` are secrets that stand in many links of the mail."""
    heard = [(spot, _speech(spot)) for spot in link.spots]
    spot, points = max(heard, key=_total)
    # A text that says what a link is not for counts more than all other places; a link that is
    # spelled out has no text of its own.
    labelled = [each for each in heard if each[0].label]
    if labelled and _total(worst := min(labelled, key=_total)) < _CLEAR:
        spot, points = worst
    for name, each in points:
        link.add(name, each, spot)
    _by_address(link)
    if not any(each.points > 0 and each.name != "captioned" for each in link.evidence):
        link.add("nothing_said", -25)
    _by_secret(link, common)
    _by_look(link)


def _total(heard: tuple[Spot, list[tuple[str, int]]]) -> int:
    return sum(points for _, points in heard[1])


def _speech(spot: Spot) -> list[tuple[str, int]]:
    """Return what the words of a spot count."""
    label = linkspeech.hear(spot.label) if spot.label else Said.NOTHING
    found = _of_label(label)
    before = _hear_before(spot.before) if spot.before else Said.NOTHING
    around = before | (linkspeech.hear(spot.after) if spot.after else Said.NOTHING)
    if Said.UNLESS in before:
        found.append(("unless", -20 if Said.IGNORE in before else -80))
    elif spot.before.endswith((":", "\uff1a")) and not spot.label:
        words = len(spot.before[:-1].rpartition(":")[2].split())
        found.append(("announced" if words > _CAPTION else "captioned", 4))
    if label & (Said.DO | Said.SOFT):
        if Said.DO in around:
            found.append(("sentence_does", 6))
        if spot.lead and _is_unless(linkspeech.hear(spot.lead)):
            found.append(("lead_unless", -90 if _leads_on(spot.lead) else -15))
        return found
    found += _of_sentence(before, around)
    if spot.lead and not before & (Said.DO | Said.SOFT | Said.NEVER):
        lead = _of_lead(spot.lead)
        if Said.BUSINESS in label:  # what a link says itself counts more than what led to it
            business = any(name == "lead_business" for name, _ in lead)
            lead = [(name, each // 2) for name, each in lead if each < 0 or not business]
        found += lead
    return found


def _of_label(said: Said) -> list[tuple[str, int]]:
    found = []
    if Said.DO in said:
        found.append(("label_does", 40))
    elif Said.SOFT in said:
        found.append(("label_may", 22))
    if said & (Said.AGAINST | Said.IGNORE):
        found.append(("label_against", -80))
    elif said & (Said.NEVER | Said.ASIDE):
        found.append(("label_other", -45 if Said.DO in said else -80))
    if Said.BUSINESS in said:
        found.append(("label_business", -24 if said & (Said.DO | Said.SOFT) else -15))
    return found


def _hear_before(text: str) -> Said:
    """Return what a sentence says: ``unsubscribe from invitations`` invites nobody."""
    said = linkspeech.hear(text)
    if Said.NEVER in said and Said.SOFT in said:
        opening = linkspeech.hear(" ".join(text.split(maxsplit=2)[:2]))
        if opening & (Said.NEVER | Said.SOFT) == Said.NEVER:
            return said & ~Said.SOFT
    return said


def _of_sentence(before: Said, around: Said) -> list[tuple[str, int]]:
    found = []
    if Said.DO in around:
        found.append(("sentence_does", 32))
    elif Said.SOFT in around:
        found.append(("sentence_may", 14))
    if Said.NEVER in before and not around & (Said.DO | Said.SOFT):
        found.append(("sentence_other", -45))
    if Said.AGAINST in before and Said.UNLESS not in before and Said.DO not in around:
        found.append(("sentence_against", -60))
    if Said.BUSINESS in around:
        found.append(("sentence_business", -16))
    return found


def _is_unless(said: Said) -> bool:
    """Say whether what follows is for those who did not ask for the mail.

    "If it was not you, ignore this" says nothing of the link below; without the end, it does.
    """
    return Said.UNLESS in said and Said.IGNORE not in said


def _leads_on(lead: str) -> bool:
    """Say whether what to do "if it was not you" is the link: ``…, reset your password``."""
    if lead.endswith((":", ",", "\uff1a", "\uff0c", "\u3001", "\u060c")):
        return True
    condition = _COMMA.search(lead)
    if condition is None:
        return max(lead) >= _COMMALESS and Said.DO in linkspeech.hear(lead)
    return Said.DO in linkspeech.hear(lead[condition.end() :])


def _of_lead(lead: str) -> list[tuple[str, int]]:
    found = []
    said = linkspeech.hear(lead)
    if said & (Said.UNLESS | Said.IGNORE):
        unless = [("lead_unless", -90 if _leads_on(lead) else -35)]
        return unless if _is_unless(said) else []
    if Said.DO in said:
        found.append(("lead_does", 24))
    elif Said.SOFT in said:
        found.append(("lead_may", 10))
    if said & (Said.NEVER | Said.AGAINST) and Said.DO not in said:
        found.append(("lead_other", -30))
    if Said.BUSINESS in said:
        found.append(("lead_business", -10))
    return found


def _by_address(link: Seen) -> None:
    """Judge the words of an address."""
    if link.opaque:
        return
    said, rather_not = linkpaths.hear(link.leads_to)
    if Said.DO in said:
        link.add("address_does", 20)
    elif Said.SOFT in said:
        link.add("address_may", 8)
    if Said.NEVER in said:
        link.add("address_other", -35 if Said.DO in said else -75)
    elif rather_not:
        link.add("address_rather_not", -12)
    if Said.BUSINESS in said:
        link.add("address_business", -25)


def _by_secret(link: Seen, common: frozenset[str]) -> None:
    """Judge whether a link was made for one person."""
    if link.opaque:
        link.add("wrapped", 5)
        return
    path = link.leads_to.partition("#")[0].partition("?")[0]
    bare = path.partition("://")[2] or path
    if path.lower().endswith(_FILES):
        link.add("file", -80)
    if not link.token:
        short = _short_secret(bare)
        points = 6 if len(short) >= _LIKE_A_CODE else 0
        link.add("secret_short" if short else "no_secret", points if short else -60)
    elif link.token in common:
        link.add("secret_common", -40)
    else:
        sure = tokens.likeness(link.token) > 1
        link.add("secret" if sure else "secret_likely", 25 if sure else 10)


def _short_secret(path: str) -> str:
    """Return the few digits or letters that are no word, with which a path ends."""
    last = path.partition("/")[2].rstrip("/").rpartition("/")[2]
    return last if tokens.is_short(last) else ""


def _by_look(link: Seen) -> None:
    spots = link.spots
    if any(spot.button for spot in spots):
        link.add("button", 10, next(spot for spot in spots if spot.button))
    if len(spots) > 1 and any(spot.spelled for spot in spots):
        link.add("spelled_out", 8, next(spot for spot in spots if spot.spelled))
    if any(spot.other for spot in spots) and link.wrapping is None:
        link.add("shows_another", -30, next(spot for spot in spots if spot.other))


def leaves(link: Seen) -> bool:
    """Say whether a link leaves a list: whoever may leave one was written to with many others."""
    said = [each.name for each in link.evidence]
    if "label_other" not in said and "address_other" not in said:
        return False
    return any(word in spot.label.lower() for spot in link.spots for word in _LEAVING)


def commons(links: Sequence[Seen]) -> frozenset[str]:
    """Return secrets of a campaign or a reader: those in many links, or under one name in many.

    What counts clicks gives every link a value of its own under the same name.
    """
    by_secret: dict[str, int] = {}
    by_name: dict[str, set[str]] = {}
    for link in links:
        if link.token:
            by_secret[link.token] = by_secret.get(link.token, 0) + 1
            for name, value in tokens.parameters(link.leads_to):
                if value == link.token:
                    by_name.setdefault(name, set()).add(value)
    found = {secret for secret, count in by_secret.items() if count >= _MANY}
    for secrets in by_name.values():
        if len(secrets) >= _MANY:
            found |= secrets
    return frozenset(found)
