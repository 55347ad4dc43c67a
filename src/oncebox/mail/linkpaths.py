"""What the address of a link says: words of its path and of its parameters' names."""

import re
from itertools import pairwise
from urllib.parse import unquote

from oncebox.mail import tokens
from oncebox.mail.linkspeech import Said

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_LONGEST = 500
#: parameters whose values say what a link is for
_TELLING = frozenset({"action", "type", "mode", "flow", "op", "intent", "do", "task", "act", "cmd",
                      "event", "purpose", "page", "route", "view", "step"})  # fmt: skip

#: beginnings of words, for programs write no accents and few languages but English
_DO = (
    "verif", "confirm", "activat", "validat", "reset", "recover", "unlock", "unblock", "magic",
    "passwordless", "reactivat", "restore", "setpassword", "newpassword", "changepassword",
    "passwordchange", "passwordreset", "createpassword", "resetpassword", "emailverif", "optin",
    "onetime", "otl", "passreset", "pwreset", "bestaetig", "bestatig", "aktivier", "zuruecksetz",
    "confirmar", "activar", "restablecer", "recuperar", "redefinir", "verifier", "reinitialis",
    "conferma", "attiva", "reimposta", "potwierd", "podtver", "dogrula", "aktivasi", "verifikasi",
    "konfirmasi", "bekraft", "bekraeft", "bekreft", "bevestig", "aktivera", "aktiver",
    "lostpassword", "forgotpassword", "accountrecovery", "authenticate", "devalid",
)  # fmt: skip
_SOFT = (
    "login", "signin", "logon", "auth", "sso", "session", "callback", "invit", "join", "accept",
    "enroll", "enrol", "onboard", "signup", "register", "registration", "subscribe", "password",
    "passwd", "token", "ticket", "claim", "approve", "authoriz", "delete", "deletion", "complete",
    "finish", "member", "rp", "welcome", "access", "einladung", "anmeld", "connexion", "convite",
    "oauth", "link", "code", "resendp", "pwauth", "pwd", "key", "secret", "otp", "grant", "redeem",
)  # fmt: skip
_NEVER = (
    "unsub", "optout", "abmeld", "desinscri", "desabon", "disiscri", "baja", "uitschrij", "privacy",
    "terms", "tos", "legal", "polic", "imprint", "impressum", "datenschutz", "agb", "cookie",
    "report", "abuse", "decline", "reject", "deny", "revoke", "cancel", "undo", "revert", "notme",
    "wasnt", "disavow", "spam", "refuse", "ignore", "dismiss", "ablehn", "optedout", "removeme",
    "viewinbrowser", "webversion", "viewonline", "browserview", "viewemail", "mirror", "pixel",
    "faq", "helpcenter", "appstore", "playstore", "unfollow", "mute", "listunsub", "lock",
    "invalidat", "contact", "feedback", "survey", "careers", "press", "sitemap",
)  # fmt: skip
_RATHER_NOT = (
    "preference", "setting", "notification", "help", "support", "about", "blog", "news", "docs",
    "documentation", "download", "share", "home", "status", "guide", "learn", "community", "forum",
    "resend", "manage", "profile", "dashboard", "explore", "pricing", "features",
)  # fmt: skip
_BUSINESS = (
    "track", "order", "invoice", "receipt", "shipping", "shipment", "delivery", "cart", "checkout",
    "product", "shop", "store", "booking", "reservation", "payment", "billing", "pay", "event",
    "calendar", "offer", "coupon", "promo", "sale", "article", "story", "issue", "ticketing",
    "campaign", "webinar", "gift", "voucher", "reward", "meeting", "meetup", "refer",
)  # fmt: skip


def hear(url: str) -> tuple[Said, bool]:
    """Return what an address says, and whether it is of a kind that is rather not meant."""
    words = _words(url)
    said = Said.NOTHING
    rather_not = False
    for word in words:
        if word.startswith(_NEVER):
            said |= Said.NEVER
        elif word.startswith(_DO):
            said |= Said.DO
        elif word.startswith(_BUSINESS):
            said |= Said.BUSINESS
        elif word.startswith(_SOFT):
            said |= Said.SOFT
        elif word.startswith(_RATHER_NOT):
            rather_not = True
    return said, rather_not


def _words(url: str) -> list[str]:
    """Return words and pairs of words, in lower case, without what looks like a secret."""
    address = url.partition("://")[2] or url
    rest, _, fragment = address[:_LONGEST].partition("#")
    path = rest.partition("?")[0].partition("/")[2]
    found: list[str] = []
    for segment in (*path.split("/"), *fragment.partition("?")[0].split("/")):
        if segment and not tokens.likeness(unquote(segment)):
            found += _split(segment)
    for name, value in tokens.parameters(url):
        found += _split(name)
        if name.lower() in _TELLING and not tokens.likeness(value):
            found += _split(value)
    return found


def _split(text: str) -> list[str]:
    words = [word.lower() for word in _WORDS.findall(text)]
    return words + [one + other for one, other in pairwise(words)]
