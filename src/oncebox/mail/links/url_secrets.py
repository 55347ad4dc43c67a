"""Secrets in URLs: reads parameters, finds a link's token, rates how secret a text looks."""

import functools
import re
from urllib.parse import unquote

from oncebox.mail.languages import readability

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
    "fbclid", "cid", "eid", "version", "client", "name", "style", "theme",
})  # fmt: skip
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_SECRET_LIKE = re.compile(r"[A-Za-z0-9_\-.:~=+%|@!$()*,']{6,}")
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_HEX = re.compile(r"[0-9a-f]{16,}", re.IGNORECASE)
_DATE = re.compile(r"(?:19|20)[0-9]{2}-[01][0-9]-[0-3][0-9](?:[T ].*)?")
_YEAR = re.compile(r"(?:19|20)[0-9]{2}")
_ADDRESS = re.compile(r"[^@/]+(?:@|%40)[^@/]+\.[a-z]+", re.IGNORECASE)
_WORDLIKE = re.compile(r"[a-z]+(?:[-_.][a-z]+)*[0-9]{0,2}|[A-Z]?[a-z]+(?:[A-Z][a-z]+)*|[A-Z]+")
#: characters between the words of a title
_SEPARATOR = re.compile(r"[^A-Za-z0-9]+")
_DIGITS = "0123456789"
#: a part of the path, a name or a value
_URL_PIECE = re.compile(r"[^/?&=#;]+")
#: random characters of this length are unlikely to be a word
_SHORTEST_RANDOM, _LONG_SECRET = 8, 16


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
        elif len(secret) > len(alike) and _OTHER_NAMES.isdisjoint(words):
            alike = secret if secret_likeness(secret) else alike
    return named or alike or _secret_in_path(url)


def _secret_in_path(url: str) -> str:
    rest, _, fragment = url.partition("#")
    path = rest.partition("?")[0].partition("://")[2].partition("/")[2]
    segments = [*path.split("/"), *fragment.partition("?")[0].split("/")]
    likely = [each for each in map(unquote, segments) if secret_likeness(each)]
    return max(likely, key=len, default="")


@functools.lru_cache(maxsize=256)
def secret_likeness(text: str, *, named: bool = False) -> int:
    """Return how likely a text is a secret: 0 unlikely, 1 possible, 2 certain.

    ``named`` says that its position is that of a secret, so a shorter one counts too.
    """
    if not _SECRET_LIKE.fullmatch(text) or _DATE.fullmatch(text) or _ADDRESS.fullmatch(text):
        short = named and 4 <= len(text) < 6 and text.isalnum()  # noqa: PLR2004
        return 1 if short and not (text.isalpha() and text[1:].islower()) else 0
    if text.isdigit():
        # A number under another name identifies a person, a team or a page.
        return 1 if named else 0
    if _UUID.fullmatch(text) or _HEX.fullmatch(text):
        return 2
    return _random_likeness(text, named=named)


def _random_likeness(text: str, *, named: bool) -> int:
    """Return the same by the characters that are neither words nor numbers between them."""
    words = [word for word in _SEPARATOR.split(text) if word]
    random = sum(len(word) for word in words if not _is_readable(word))
    whole = sum(map(len, words))
    if random * 5 <= whole * 2:  # the words of a title, with a number or a short code
        return 0
    if whole >= _LONG_SECRET:
        return 2
    return 1 if named or whole >= _SHORTEST_RANDOM else 0


def _is_readable(word: str) -> bool:
    """Say whether letters and digits are a number, a word, or a name with a number."""
    if word.isdigit():
        return True
    if not word.isalpha():
        return _WORDLIKE.fullmatch(word) is not None and readability.is_readable(
            word.rstrip(_DIGITS)
        )
    if word.isupper() or word.islower() or word.istitle():
        return readability.is_readable(word)
    parts = _WORDS.findall(word)
    plain = sum(len(part) for part in parts if len(part) > 2 and readability.is_readable(part))  # noqa: PLR2004
    return plain * 3 >= len(word) * 2


def is_short_secret(text: str) -> bool:
    """Say whether a text is a short code, and no word, number or year."""
    if not text.isalnum() or not any(map(str.isdigit, text)) or _WORDLIKE.fullmatch(text):
        return False
    return len(text) > 3 and not _YEAR.fullmatch(text)  # noqa: PLR2004


def without_secrets(url: str) -> str:
    """Return a URL with an asterisk in place of every secret and every number."""
    scheme, _, address = url.partition("://")
    return f"{scheme}://" + _URL_PIECE.sub(_hidden_secret, address)


def _hidden_secret(piece: re.Match[str]) -> str:
    text = unquote(piece[0])
    return "*" if text.isdigit() or secret_likeness(text, named=True) else piece[0]


def contains_code(url: str, code: str) -> bool:
    """Say whether a code is a parameter, a part of the path, or the fragment of a URL."""
    wanted = _plain_code(code)
    if len(wanted) < 4 or wanted not in _plain_code(unquote(url)):  # noqa: PLR2004
        return False
    rest, _, fragment = url.partition("#")
    address = rest.partition("?")[0]
    path = (address.partition("://")[2] or address).partition("/")[2]
    pieces = [*path.split("/"), *fragment.partition("?")[0].split("/")]
    pieces += [value for _, value in url_parameters(url)]
    return any(_plain_code(unquote(piece)) == wanted for piece in pieces)


def _plain_code(text: str) -> str:
    return re.sub(r"[\s+-]", "", text).lower()
