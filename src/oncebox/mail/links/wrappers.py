"""Link wrappers (Safe Links, URL Defense, click trackers): recognised, and their target read.

The patterns follow the URL formats of the services, for all of their customers. The target is
read from the link itself, where it is included. No link is ever requested.
"""

import base64
import binascii
import re
import zlib
from collections.abc import Callable
from urllib.parse import unquote, unquote_plus

import msgspec

from oncebox.mail.links import url_secrets

_LONGEST = 8_192
_MOST_INFLATED = 16_384
_TARGET = re.compile(r"https?://[!-~]+", re.IGNORECASE)
_URL = re.compile(r"https?://([^/?#]*)([^?#]*)(?:\?([^#]*))?", re.IGNORECASE)
_HEX_ESCAPE = re.compile(r"-([0-9A-Fa-f]{2})")
_DEFENSE_3 = re.compile(r"https?://[^/]+/v3/__(.+?)__;([^!]*)!", re.IGNORECASE)
_STARS = re.compile(r"\*(\*[A-Za-z0-9_-])?")
_RUN_LENGTHS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_BASE64 = re.compile(r"[A-Za-z0-9_\-+/]{16,}={0,2}")


class Wrapper(msgspec.Struct, frozen=True):
    """The service that wraps a link, and the target if it can be read."""

    name: str
    target: str = ""


class _UrlParts(msgspec.Struct, frozen=True):
    """A URL split into its parts."""

    url: str
    host: str
    path: str
    query: dict[str, str]


def unwrap(url: str) -> Wrapper | None:
    """Return the wrapper of a link; None if it is not wrapped."""
    found = _URL.match(url[:_LONGEST])
    if found is None:
        return None
    query = dict(reversed([
        (name, value)
        for name, _, value in (pair.partition("=") for pair in (found[3] or "").split("&"))
    ]))  # fmt: skip
    parts = _UrlParts(url, found[1].lower(), found[2], query)
    for form in _WRAPPER_FORMS:
        wrapping = form(parts)
        if wrapping is not None:
            return wrapping
    return None


def _as_target(text: str) -> str:
    """Return a text if it is a URL and nothing else; otherwise an empty one."""
    return text if _TARGET.fullmatch(text) else ""


def _decode_base64(text: str) -> str:
    """Return decoded base64, if it is text."""
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


def _target_in_base64(text: str) -> str:
    """Return the URL in base64-encoded data."""
    if not _BASE64.fullmatch(text):
        return ""
    plain = _decode_base64(text).replace("\\/", "/")
    found = _TARGET.search(plain)
    return re.split(r"[\"\\<> ]|&(?:i|h|r)=", found[0], maxsplit=1)[0] if found else ""


def _link_scanner(parts: _UrlParts) -> Wrapper | None:
    """Return the wrapper of services that scan links at click time."""
    if ".safelinks." in f".{parts.host}" and "url" in parts.query:
        return Wrapper("safelinks", _as_target(unquote(parts.query["url"])))
    if parts.path.lower().startswith("/v1/url") and "u" in parts.query:
        return Wrapper("urldefense", _as_target(unquote(parts.query["u"])))
    if parts.path.lower().startswith("/v2/url") and "u" in parts.query:
        escaped = _HEX_ESCAPE.sub(r"%\1", parts.query["u"].replace("_", "/"))
        return Wrapper("urldefense", _as_target(unquote(escaped)))
    if "u" in parts.query and "d" in parts.query and parts.host.count(".") > 1:
        target = _as_target(_target_in_base64(parts.query["u"]))
        return Wrapper("checked", target) if target else None
    return None


def _url_defense_v3(parts: _UrlParts) -> Wrapper | None:
    """Restore characters that were removed from the URL and appended as base64."""
    found = _DEFENSE_3.match(parts.url)
    if found is None:
        return None
    taken = iter(_decode_base64(found[2]))

    def put_back(star: re.Match[str]) -> str:
        count = 1 if star[1] is None else _RUN_LENGTHS.index(star[1][1]) + 2
        return "".join(next(taken, "*") for _ in range(count))

    # Relays may have removed one slash of the scheme.
    target = re.sub(r"^(https?):/(?!/)", r"\1://", found[1], flags=re.IGNORECASE)
    return Wrapper("urldefense", _as_target(_STARS.sub(put_back, target)))


def _click_counter(parts: _UrlParts) -> Wrapper | None:
    """Return the wrapper of click trackers with known paths."""
    for name, path, wanted in _CLICK_COUNTERS:
        if path.match(parts.path) and (not wanted or wanted in parts.query):
            return Wrapper(name, _carried_target(parts))
    return None


_OPAQUE_CHARACTER = r"[\w\-+=/*.~%]"
_CLICK_WORDS = "click|clicks|track|trk|redirect|redir|rd|r|cl|lc|link|links|l|ct|c|t|u|go|out|url"
_CLICK_COUNTERS = [
    (name, re.compile(path, re.IGNORECASE), wanted)
    for name, path, wanted in (
        ("mandrill", r"/track/click/[0-9]+/[^/]+/?$", "p"),
        ("mailgun", r"/c/eJ[\w\-+=]{20,}", ""),
        ("sendgrid", r"/(?:ls|wf|ss|uni)/(?:click|c)(?:/|$)", ""),
        ("ses", r"/(?:L0|CL0|I0)/https?[:%]", ""),
        ("postmark", r"/[0-9]s/[^/]+(?:%2F[^/]*|\.[a-z]+)/[\w-]{2,}/[\w-]{2,}", ""),
        ("tracker", r"/(?:e|t|r)/c/ey[\w-]{20,}", ""),
        ("tracker", r"/track/click/?$", "u"),
        ("tracker",
         rf"/(?:lnk|tr/cl|tr/op|mk/cl|e2t|e3t|ctc|wf|f/a)/{_OPAQUE_CHARACTER}{{20,}}", ""),
        ("tracker", rf"/events/public/v1/encoded/track/{_OPAQUE_CHARACTER}{{20,}}", ""),
        ("tracker", r"/lt\.php$", ""),
        ("tracker", rf"/(?:{_CLICK_WORDS})(?:/[\w-]{{1,24}}){{0,3}}/[\w\-+=.~%]{{60,}}/?$", ""),
    )
]  # fmt: skip
#: first labels of hosts for click tracking only
_CLICK_HOSTS = re.compile(
    r"(?:click|clicks|clk|track|trk|tracking|links?|lnk|ct|cl|redirect|t|r|url\d*|go|email)\d*$"
)
_CLICK_PATH = re.compile(
    rf"/(?:.*/)?(?:{_CLICK_WORDS}|goto|exit|away|l\.php|lt\.php)/?$", re.IGNORECASE
)


def _is_click_word(word: str) -> bool:
    named = re.fullmatch(_CLICK_WORDS, word, re.IGNORECASE)
    return named is not None or bool(url_secrets.secret_likeness(word))


def _carried_target(parts: _UrlParts) -> str:
    """Return the URL inside a tracked link, plain or encoded, in a parameter or the path."""
    for value in parts.query.values():
        plain = unquote(value)
        target = _as_target(plain) or _target_in_base64(plain) or _target_in_json(plain)
        if target:
            return target
    for segment in parts.path.split("/"):
        plain = unquote(segment)
        target = _as_target(plain) or _target_in_base64(plain)
        if target:
            return target
    return ""


def _target_in_json(text: str) -> str:
    """Return a URL from JSON inside JSON inside base64."""
    plain = _decode_base64(text) if _BASE64.fullmatch(text) else ""
    found = re.search(r"https?:[\\/]+[^\"\s]+", plain)
    return _as_target(re.sub(r"\\+/", "/", found[0]).rstrip("\\")) if found else ""


#: parameters that hold a URL: for tracking paths, and for the root of a host
_TARGET_PARAMETERS: tuple[str, ...] = (
    "url", "u", "q", "a", "target", "dest", "destination", "link", "to", "goto", "r",
)  # fmt: skip
_ROOT_TARGET_PARAMETERS: tuple[str, ...] = ("url", "link", "target")


def _redirector(parts: _UrlParts) -> Wrapper | None:
    """Return the wrapper of any redirector with the URL in a parameter."""
    home = parts.path in {"", "/"}
    if not home and not _CLICK_PATH.match(parts.path):
        return None
    for name in _ROOT_TARGET_PARAMETERS if home else _TARGET_PARAMETERS:
        target = _as_target(unquote_plus(parts.query.get(name, "")))
        if target:
            return Wrapper("redirect", target)
    return None


def _opaque_tracker(parts: _UrlParts) -> Wrapper | None:
    """Return the wrapper of a tracking host whose path is one long token."""
    if not _CLICK_HOSTS.match(parts.host.partition(".")[0]) or parts.host.count(".") < 2:  # noqa: PLR2004
        return None
    words = [each for each in parts.path.split("/") if each]
    long = [each for each in (*words, *parts.query.values()) if len(each) >= 40]  # noqa: PLR2004
    others = [each for each in words if not (len(each) < 4 or _is_click_word(each))]  # noqa: PLR2004
    return Wrapper("tracker", _carried_target(parts)) if long and not others else None


_WRAPPER_FORMS: tuple[Callable[[_UrlParts], Wrapper | None], ...] = (
    _url_defense_v3,
    _link_scanner,
    _click_counter,
    _redirector,
    _opaque_tracker,
)
