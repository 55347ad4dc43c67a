"""Secrets in URLs: reads parameters, finds a link's token, rates how secret a text looks."""

import re
from urllib.parse import unquote

_MOST_PARAMETERS = 100
#: parameter names of secrets, as whole words of a name
_SECRET_NAMES = frozenset({
    "token", "secret", "ticket", "otp", "otl", "otc", "nonce", "jwt", "magic", "signature", "sig",
    "hmac", "hash", "key", "code", "auth", "invite", "invitation", "verification", "confirmation",
    "activation", "verify", "confirm", "activate", "tok", "passcode", "digest", "challenge", "oob",
    "oobcode", "reset", "credential", "proof", "payload", "t", "k", "c", "h",
})  # fmt: skip
#: parameter names of other values: recipient, campaign, next page
_OTHER_NAMES = frozenset({
    "utm", "email", "mail", "user", "username", "login", "redirect", "next", "return", "continue",
    "lang", "locale", "language", "expires", "expire", "expiry", "exp", "expiration", "timestamp",
    "ts", "time", "date", "ref", "referrer", "source", "src", "campaign", "medium", "gclid",
    "fbclid", "version", "client", "name", "style", "theme",
})  # fmt: skip
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_SECRET_LIKE = re.compile(r"[A-Za-z0-9_\-.:~=+%|@!$()*,']{6,}")
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_HEX = re.compile(r"[0-9a-f]{16,}", re.IGNORECASE)
_DATE = re.compile(r"(?:19|20)[0-9]{2}-[01][0-9]-[0-3][0-9](?:[T ].*)?")
_YEAR = re.compile(r"(?:19|20)[0-9]{2}")
_ADDRESS = re.compile(r"[^@/]+(?:@|%40)[^@/]+\.[a-z]+", re.IGNORECASE)
_WORDLIKE = re.compile(r"[a-z]+(?:[-_.][a-z]+)*[0-9]{0,2}|[A-Z]?[a-z]+(?:[A-Z][a-z]+)*|[A-Z]+")
#: a mix of letters and digits of this length is unlikely to be a word
_SHORTEST_MIXED, _LONG_SECRET = 8, 16


def url_parameters(url: str) -> tuple[tuple[str, str], ...]:
    """Return the names and values of the query, then those of the fragment."""
    rest, _, fragment = url.partition("#")
    query = rest.partition("?")[2]
    if "=" in fragment:
        inner = fragment.partition("?")[2] if "?" in fragment else fragment
        query = f"{query}&{inner}" if query else inner
    found = []
    for pair in query.split("&")[:_MOST_PARAMETERS]:
        name, equals, value = pair.partition("=")
        if name or equals:
            found.append((_unquoted(name), _unquoted(value)))
    return tuple(found)


def _unquoted(text: str) -> str:
    return unquote(text.replace("+", " ")) if "%" in text or "+" in text else text


def secret_token(url: str) -> str:
    """Return the secret of a link; empty if it has none.

    A parameter with the name of a secret comes first, then a value that looks like one: in a
    parameter, at the end of the path, in the fragment.
    """
    named = ""
    alike = ""
    given = url_parameters(url)
    # The URL of the next page may contain the secret.
    nested = [pair for _, value in given if "?" in value for pair in url_parameters(value)]
    # Some programs separate parameters by semicolons.
    listed = [part for _, value in given if ";" in value for part in value.split(";")[1:]]
    nested += [(name, value) for name, _, value in (part.partition("=") for part in listed)]
    for name, value in (*given, *nested[:_MOST_PARAMETERS]):
        words = {word.lower() for word in _WORDS.findall(name)}
        secret = max(value.split("/"), key=len) if "://" not in value else ""
        if not _SECRET_NAMES.isdisjoint(words):
            if secret_likeness(secret, named=True) and len(secret) > len(named):
                named = secret
        elif len(secret) > len(alike) and _OTHER_NAMES.isdisjoint(words) and not secret.isdigit():
            # A number under another name identifies a person, a team or a page.
            alike = secret if secret_likeness(secret) else alike
    return named or alike or _secret_in_path(url)


def _secret_in_path(url: str) -> str:
    rest, _, fragment = url.partition("#")
    path = rest.partition("?")[0].partition("://")[2].partition("/")[2]
    segments = [*path.split("/"), *fragment.partition("?")[0].split("/")]
    likely = [each for each in map(unquote, segments) if secret_likeness(each)]
    return max(likely, key=len, default="")


def secret_likeness(text: str, *, named: bool = False) -> int:
    """Return how likely a text is a secret: 0 unlikely, 1 possible, 2 certain.

    ``named`` says that its position is that of a secret, so a shorter one counts too.
    """
    if not _SECRET_LIKE.fullmatch(text) or _DATE.fullmatch(text) or _ADDRESS.fullmatch(text):
        short = named and 4 <= len(text) < 6 and text.isalnum()  # noqa: PLR2004
        return 1 if short and not (text.isalpha() and text[1:].islower()) else 0
    if _UUID.fullmatch(text) or (_HEX.fullmatch(text) and not text.isdigit()):
        return 2
    return _mixture_likeness(text, named=named)


def _mixture_likeness(text: str, *, named: bool) -> int:
    """Return the same by the mix of letters and digits."""
    digits = sum(map(str.isdigit, text))
    letters = sum(map(str.isalpha, text))
    if not letters:
        return 1 if named or digits >= _SHORTEST_MIXED else 0
    if not digits:
        lower = sum(map(str.islower, text))
        random = 1 < lower < letters - 1 and not _WORDLIKE.fullmatch(text)
        if not random or len(text) < _SHORTEST_MIXED:
            return 0
        return 2 if len(text) >= _LONG_SECRET else 1
    if _WORDLIKE.fullmatch(text) or _is_slug(text):
        return 0
    if len(text) >= _LONG_SECRET:
        return 2
    return 1 if named or len(text) >= _SHORTEST_MIXED else 0


def is_short_secret(text: str) -> bool:
    """Say whether a text is a short code, and no word, number or year."""
    if not text.isalnum() or not any(map(str.isdigit, text)) or _WORDLIKE.fullmatch(text):
        return False
    return len(text) > 3 and not _YEAR.fullmatch(text)  # noqa: PLR2004


def _is_slug(text: str) -> bool:
    """Say whether most of a text is words, as in the URL of an article."""
    words = [word for word in re.split(r"[-_.+~ ]", text) if word]
    plain = sum(
        len(word) for word in words if word.isalpha() and (word.islower() or word.istitle())
    )
    return len(words) > 1 and plain * 5 >= sum(map(len, words)) * 3
