"""Wrappers: links that lead through somebody who counts or checks clicks, known by their form.

The forms are those of the services' own grammars, whoever their customer is. What a link leads
to is read from the link itself where it stands in it. Nothing is ever followed.
"""

import base64
import binascii
import re
import zlib
from collections.abc import Callable
from urllib.parse import unquote, unquote_plus

import msgspec

from oncebox.mail import tokens

_LONGEST = 8_192
_MOST_INFLATED = 16_384
_TARGET = re.compile(r"https?://[!-~]+", re.IGNORECASE)
_URL = re.compile(r"https?://([^/?#]*)([^?#]*)(?:\?([^#]*))?", re.IGNORECASE)
_HEX_ESCAPE = re.compile(r"-([0-9A-Fa-f]{2})")
_DEFENSE_3 = re.compile(r"https?://[^/]+/v3/__(.+?)__;([^!]*)!", re.IGNORECASE)
_STARS = re.compile(r"\*(\*[A-Za-z0-9_-])?")
_RUN = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_BASE64 = re.compile(r"[A-Za-z0-9_\-+/]{16,}={0,2}")


class Wrapping(msgspec.Struct, frozen=True):
    """What a link is wrapped by, and where it leads if that can be read."""

    name: str
    target: str = ""


class _Parts(msgspec.Struct, frozen=True):
    """A link in pieces."""

    url: str
    host: str
    path: str
    query: dict[str, str]


def unwrap(url: str) -> Wrapping | None:
    """Return what a link is wrapped by; None if it leads where it says."""
    found = _URL.match(url[:_LONGEST])
    if found is None:
        return None
    query = dict(reversed([
        (name, value)
        for name, _, value in (pair.partition("=") for pair in (found[3] or "").split("&"))
    ]))  # fmt: skip
    parts = _Parts(url, found[1].lower(), found[2], query)
    for form in _FORMS:
        wrapping = form(parts)
        if wrapping is not None:
            return wrapping
    return None


def _is_target(text: str) -> str:
    """Return a text that is a link and nothing else."""
    return text if _TARGET.fullmatch(text) else ""


def _decoded(text: str) -> str:
    """Return what base64 stands for, as far as it is text."""
    padded = text.translate(str.maketrans("-_", "+/")) + "=" * (-len(text) % 4)
    try:
        data = base64.b64decode(padded, validate=True)
    except (binascii.Error, ValueError):
        return ""
    if data[:1] == b"\x78":  # compressed
        inflate = zlib.decompressobj()
        try:
            data = inflate.decompress(data, _MOST_INFLATED)
        except zlib.error:
            return ""
    return data.decode("utf-8", "replace")


def _inside(text: str) -> str:
    """Return the link that stands in what base64 stands for."""
    if not _BASE64.fullmatch(text):
        return ""
    plain = _decoded(text).replace("\\/", "/")
    found = _TARGET.search(plain)
    return re.split(r"[\"\\<> ]|&(?:i|h|r)=", found[0], maxsplit=1)[0] if found else ""


def _checked(parts: _Parts) -> Wrapping | None:
    """Services that check links when they are clicked, and carry them as a parameter."""
    if ".safelinks." in f".{parts.host}" and "url" in parts.query:
        return Wrapping("safelinks", _is_target(unquote(parts.query["url"])))
    if parts.path.lower().startswith("/v1/url") and "u" in parts.query:
        return Wrapping("urldefense", _is_target(unquote(parts.query["u"])))
    if parts.path.lower().startswith("/v2/url") and "u" in parts.query:
        escaped = _HEX_ESCAPE.sub(r"%\1", parts.query["u"].replace("_", "/"))
        return Wrapping("urldefense", _is_target(unquote(escaped)))
    if "u" in parts.query and "d" in parts.query and parts.host.count(".") > 1:
        target = _is_target(_inside(parts.query["u"]))
        return Wrapping("checked", target) if target else None
    return None


def _defense_3(parts: _Parts) -> Wrapping | None:
    """Marks that were taken out of the link stand behind it, as base64, in their order."""
    found = _DEFENSE_3.match(parts.url)
    if found is None:
        return None
    taken = iter(_decoded(found[2]))

    def put_back(star: re.Match[str]) -> str:
        count = 1 if star[1] is None else _RUN.index(star[1][1]) + 2
        return "".join(next(taken, "*") for _ in range(count))

    # One slash of the scheme may have been lost on the way.
    target = re.sub(r"^(https?):/(?!/)", r"\1://", found[1], flags=re.IGNORECASE)
    return Wrapping("urldefense", _is_target(_STARS.sub(put_back, target)))


def _counted(parts: _Parts) -> Wrapping | None:
    """Services that count clicks, each with a path of its own."""
    for name, path, wanted in _COUNTERS:
        if path.match(parts.path) and (not wanted or wanted in parts.query):
            return Wrapping(name, _carried(parts))
    return None


_OPAQUE = r"[\w\-+=/*.~%]"
_CLICK_WORDS = "click|clicks|track|trk|redirect|redir|rd|r|cl|lc|link|links|l|ct|c|t|u|go|out|url"
_COUNTERS = [
    (name, re.compile(path, re.IGNORECASE), wanted)
    for name, path, wanted in (
        ("mandrill", r"/track/click/[0-9]+/[^/]+/?$", "p"),
        ("mailgun", r"/c/eJ[\w\-+=]{20,}", ""),
        ("sendgrid", r"/(?:ls|wf|ss|uni)/(?:click|c)(?:/|$)", ""),
        ("ses", r"/(?:L0|CL0|I0)/https?[:%]", ""),
        ("postmark", r"/[0-9]s/[^/]+(?:%2F[^/]*|\.[a-z]+)/[\w-]{2,}/[\w-]{2,}", ""),
        ("tracker", r"/(?:e|t|r)/c/ey[\w-]{20,}", ""),
        ("tracker", r"/track/click/?$", "u"),
        ("tracker", rf"/(?:lnk|tr/cl|tr/op|mk/cl|e2t|e3t|ctc|wf|f/a)/{_OPAQUE}{{20,}}", ""),
        ("tracker", rf"/events/public/v1/encoded/track/{_OPAQUE}{{20,}}", ""),
        ("tracker", r"/lt\.php$", ""),
        ("tracker", rf"/(?:{_CLICK_WORDS})(?:/[\w-]{{1,24}}){{0,3}}/[\w\-+=.~%]{{60,}}/?$", ""),
    )
]  # fmt: skip
#: hosts that are for clicks and nothing else, by their first label
_CLICK_HOSTS = re.compile(
    r"(?:click|clicks|clk|track|trk|tracking|links?|lnk|ct|cl|redirect|t|r|url\d*|go|email)\d*$"
)
_CLICK_PATH = re.compile(
    rf"/(?:.*/)?(?:{_CLICK_WORDS}|goto|exit|away|l\.php|lt\.php)/?$", re.IGNORECASE
)


def _is_click(word: str) -> bool:
    return bool(tokens.likeness(word) or re.fullmatch(_CLICK_WORDS, word, re.IGNORECASE))


def _carried(parts: _Parts) -> str:
    """Return the link that a counter carries, plain or encoded, in a parameter or the path."""
    for value in parts.query.values():
        target = _is_target(unquote(value)) or _inside(unquote(value)) or _nested(unquote(value))
        if target:
            return target
    for segment in parts.path.split("/"):
        plain = unquote(segment)
        target = _is_target(plain) or _inside(plain)
        if target:
            return target
    return ""


def _nested(text: str) -> str:
    """Return a link from JSON inside JSON inside base64."""
    plain = _decoded(text) if _BASE64.fullmatch(text) else ""
    found = re.search(r"https?:[\\/]+[^\"\s]+", plain)
    return _is_target(re.sub(r"\\+/", "/", found[0]).rstrip("\\")) if found else ""


#: parameters that hold a link, of anything for clicks and of the root of a host
_NAMES: tuple[str, ...] = (
    "url", "u", "q", "a", "target", "dest", "destination", "link", "to", "goto", "r",
)  # fmt: skip
_HOME_NAMES: tuple[str, ...] = ("url", "link", "target")


def _redirected(parts: _Parts) -> Wrapping | None:
    """Any link to something that does nothing but lead to the link that it carries."""
    home = parts.path in {"", "/"}
    if not home and not _CLICK_PATH.match(parts.path):
        return None
    for name in _HOME_NAMES if home else _NAMES:
        target = _is_target(unquote_plus(parts.query.get(name, "")))
        if target:
            return Wrapping("redirect", target)
    return None


def _opaque(parts: _Parts) -> Wrapping | None:
    """A host for clicks, and nothing behind it but one long secret."""
    if not _CLICK_HOSTS.match(parts.host.partition(".")[0]) or parts.host.count(".") < 2:  # noqa: PLR2004
        return None
    words = [each for each in parts.path.split("/") if each]
    long = [each for each in (*words, *parts.query.values()) if len(each) >= 40]  # noqa: PLR2004
    others = [each for each in words if not (len(each) < 4 or _is_click(each))]  # noqa: PLR2004
    return Wrapping("tracker", _carried(parts)) if long and not others else None


_FORMS: tuple[Callable[[_Parts], Wrapping | None], ...] = (
    _defense_3,
    _checked,
    _counted,
    _redirected,
    _opaque,
)
