"""Meaning of links: their text, sentence and URL, in many languages."""

import functools
import re
from itertools import pairwise
from typing import Final
from urllib.parse import unquote

from oncebox.mail.languages.folding import fold_text
from oncebox.mail.languages.tables import load_languages
from oncebox.mail.links import url_secrets

#: characters of a text that are examined
_LONGEST_TEXT = 400
_KEY, _UNSPACED_KEY = 3, 2
#: scripts with spaces between words: Latin, Greek, Cyrillic, Armenian, Georgian; in all others a
#: word may follow a particle or another word directly
_LAST_SPACED = "\u058f"
_GEORGIAN = ("\u10a0", "\u10ff")
_EMPHASIS_MARKS = str.maketrans("", "", "*_")
#: possible starts of a word
_ASCII_WORD_STARTS = re.compile(r"(?<![a-z0-9])[a-z0-9]")
_WORD_STARTS = re.compile(
    f"(?<![^\\W_])[^\\W_]|[{chr(ord(_LAST_SPACED) + 1)}-\u109f\u1100-\U0010ffff]"
)


#: the meanings of a text: a sum of bits
Meanings = int


class LinkMeaning:
    """The bits of meanings; an enum of flags takes ten times as long to test."""

    NOTHING: Final = 0
    #: an action of a link made for one person
    ACTION: Final = 1
    #: an action of such links and of others
    POSSIBLE_ACTION: Final = 2
    #: the purpose of other links
    OTHER_PURPOSE: Final = 4
    #: as before, but only in the text of the link
    OTHER_LABEL: Final = 8
    #: undo, report, refuse
    REFUSAL: Final = 16
    #: "if it was not you"
    IF_NOT_YOU: Final = 32
    #: the mail may be ignored
    MAY_IGNORE: Final = 64
    #: other things to confirm and accept
    BUSINESS: Final = 128


def text_meaning(text: str) -> Meanings:
    """Return all meanings in a text."""
    # A phrase may end with the space after a word; asterisks and underscores are emphasis.
    folded = fold_text(text[:_LONGEST_TEXT]).translate(_EMPHASIS_MARKS) + " "
    starts = _ASCII_WORD_STARTS if folded.isascii() else _WORD_STARTS
    phrases, unspaced_phrases = _phrases()
    said = 0
    for start in starts.finditer(folded):
        at = start.start()
        known = phrases.get(folded[at : at + _KEY])
        if known is None and folded[at] > _LAST_SPACED:
            known = unspaced_phrases.get(folded[at : at + _UNSPACED_KEY])
        if known is not None and folded.startswith(known[0], at):
            for phrase, meaning in known[1]:
                if folded.startswith(phrase, at):
                    said |= meaning
    return said


#: all phrases with the same beginning, and the meaning of each
_PhraseGroup = tuple[tuple[str, ...], list[tuple[str, int]]]
_MEANING_BY_KEY = {
    "action": LinkMeaning.ACTION,
    "possible_action": LinkMeaning.POSSIBLE_ACTION,
    "other_purpose": LinkMeaning.OTHER_PURPOSE,
    "other_label": LinkMeaning.OTHER_LABEL,
    "not_you": LinkMeaning.REFUSAL | LinkMeaning.IF_NOT_YOU,
    "refusal": LinkMeaning.REFUSAL,
    "may_ignore": LinkMeaning.MAY_IGNORE,
    "business": LinkMeaning.BUSINESS,
}


@functools.cache
def _phrases() -> tuple[dict[str, _PhraseGroup], dict[str, _PhraseGroup]]:
    """Return the phrases of all languages by their beginning: spaced scripts, then the others."""
    meanings: dict[str, int] = {}
    for language in load_languages().values():
        for key, meaning in _MEANING_BY_KEY.items():
            for written in getattr(language.link, key, ()):
                phrase = fold_text(written)
                meanings[phrase] = meanings.get(phrase, 0) | meaning
    groups: tuple[dict[str, dict[str, int]], dict[str, dict[str, int]]] = ({}, {})
    for phrase, flags in meanings.items():
        # A word may start after another letter.
        unspaced = phrase[0] > _LAST_SPACED and not _GEORGIAN[0] <= phrase[0] <= _GEORGIAN[1]
        start = phrase[: _UNSPACED_KEY if unspaced else _KEY]
        groups[unspaced].setdefault(start, {})[phrase] = flags
    spaced, others = (
        {start: (tuple(each), list(each.items())) for start, each in group.items()}
        for group in groups
    )
    return spaced, others


_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_LONGEST_URL = 500
#: parameters whose values name an action
_ACTION_PARAMETERS = frozenset({
    "action", "type", "mode", "flow", "op", "intent", "do", "task", "act", "cmd", "event",
    "purpose", "page", "route", "view", "step",
})  # fmt: skip
#: stems without accents, mostly English, as in URLs
_ACTION_WORDS = (
    "verif", "confirm", "activat", "validat", "reset", "recover", "unlock", "unblock", "magic",
    "passwordless", "reactivat", "restore", "setpassword", "newpassword", "changepassword",
    "passwordchange", "passwordreset", "createpassword", "resetpassword", "emailverif", "optin",
    "onetime", "otl", "passreset", "pwreset", "bestaetig", "bestatig", "aktivier", "zuruecksetz",
    "confirmar", "activar", "restablecer", "recuperar", "redefinir", "verifier", "reinitialis",
    "conferma", "attiva", "reimposta", "potwierd", "podtver", "dogrula", "aktivasi", "verifikasi",
    "konfirmasi", "bekraft", "bekraeft", "bekreft", "bevestig", "aktivera", "aktiver",
    "lostpassword", "forgotpassword", "accountrecovery", "authenticate", "devalid",
)  # fmt: skip
_POSSIBLE_ACTION_WORDS = (
    "login", "signin", "logon", "auth", "sso", "session", "callback", "invit", "join", "accept",
    "enroll", "enrol", "onboard", "signup", "register", "registration", "subscribe", "password",
    "passwd", "token", "ticket", "claim", "approve", "authoriz", "delete", "deletion", "complete",
    "finish", "member", "rp", "welcome", "access", "einladung", "anmeld", "connexion", "convite",
    "oauth", "link", "code", "resendp", "pwauth", "pwd", "key", "secret", "otp", "grant", "redeem",
)  # fmt: skip
_OTHER_PURPOSE_WORDS = (
    "unsub", "optout", "abmeld", "desinscri", "desabon", "disiscri", "baja", "uitschrij", "privacy",
    "terms", "tos", "legal", "polic", "imprint", "impressum", "datenschutz", "agb", "cookie",
    "report", "abuse", "decline", "reject", "deny", "revoke", "cancel", "undo", "revert", "notme",
    "wasnt", "disavow", "spam", "refuse", "ignore", "dismiss", "ablehn", "optedout", "removeme",
    "viewinbrowser", "webversion", "viewonline", "browserview", "viewemail", "mirror", "pixel",
    "faq", "helpcenter", "appstore", "playstore", "unfollow", "mute", "listunsub", "lock",
    "invalidat", "contact", "feedback", "survey", "careers", "press", "sitemap",
)  # fmt: skip
_UNLIKELY_WORDS = (
    "preference", "setting", "notification", "help", "support", "about", "blog", "news", "docs",
    "documentation", "download", "share", "home", "status", "guide", "learn", "community", "forum",
    "resend", "manage", "profile", "dashboard", "explore", "pricing", "features",
)  # fmt: skip
_BUSINESS_WORDS = (
    "track", "order", "invoice", "receipt", "shipping", "shipment", "delivery", "cart", "checkout",
    "product", "shop", "store", "booking", "reservation", "payment", "billing", "pay", "event",
    "calendar", "offer", "coupon", "promo", "sale", "article", "story", "issue", "ticketing",
    "campaign", "webinar", "gift", "voucher", "reward", "meeting", "meetup", "refer",
)  # fmt: skip


def url_meaning(url: str) -> tuple[Meanings, bool]:
    """Return the meaning of a URL, and whether it is unlikely to be the link of a mail."""
    path, parameters = _url_words(url)
    said, rather_not = _words_meaning(path)
    beside, unlikely = _words_meaning(parameters)
    if said & LinkMeaning.OTHER_PURPOSE:  # the path tells the purpose
        beside &= ~LinkMeaning.ACTION
    return said | beside, rather_not or unlikely


def _words_meaning(words: list[str]) -> tuple[Meanings, bool]:
    said: Meanings = LinkMeaning.NOTHING
    rather_not = False
    for word in words:
        if word.startswith(_OTHER_PURPOSE_WORDS):
            said |= LinkMeaning.OTHER_PURPOSE
        elif word.startswith(_ACTION_WORDS):
            said |= LinkMeaning.ACTION
        elif word.startswith(_BUSINESS_WORDS):
            said |= LinkMeaning.BUSINESS
        elif word.startswith(_POSSIBLE_ACTION_WORDS):
            said |= LinkMeaning.POSSIBLE_ACTION
        elif word.startswith(_UNLIKELY_WORDS):
            rather_not = True
    return said, rather_not


def _url_words(url: str) -> tuple[list[str], list[str]]:
    """Return the words and word pairs of a URL, in lower case, without likely secrets.

    Those of the path and of the parameters are apart.
    """
    address = url.partition("://")[2] or url
    rest, _, fragment = address[:_LONGEST_URL].partition("#")
    path = rest.partition("?")[0].partition("/")[2]
    found: list[str] = []
    for segment in (*path.split("/"), *fragment.partition("?")[0].split("/")):
        if segment and not url_secrets.secret_likeness(unquote(segment)):
            found += _split_words(segment)
    beside: list[str] = []
    for name, value in url_secrets.url_parameters(url):
        beside += _split_words(name)
        if name.lower() in _ACTION_PARAMETERS and not url_secrets.secret_likeness(value):
            beside += _split_words(value)
    return found, beside


def _split_words(text: str) -> list[str]:
    words = [word.lower() for word in _WORDS.findall(text)]
    return words + [one + other for one, other in pairwise(words)]
