"""Source field checks: allowed values; each error names the field and the remedy."""

import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from oncebox.errors import ConfigInvalid, KeyInvalid
from oncebox.model import validation

if TYPE_CHECKING:
    from oncebox.model.webhooks.source import Source

_SEGMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,99}")
_SCHEME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
_PATH = re.compile(r"\$(?:\.[^\s.\[\]$]{1,100}|\[[0-9]{1,6}\])+")
_WORD = re.compile(r"[a-z][a-z0-9_-]{0,99}")
_VISIBLE = re.compile(r"[!-~]+")
_LONGEST_PATH = 300
_LONGEST_URL = 2_000
_LARGEST_OPTIONS = 8_192
_MOST_ENTRIES = 100
_DAY = 24 * 60 * 60 * 1000

_CHOICES = {
    "late": ("hold", "run"),
    "replay": ("hold", "run", "drop"),
    "redelivery": ("rearm", "count"),
    "stale": ("skip", "run"),
    "mode": ("handler", "pull"),
}
_BOUNDS = {
    "tries": (1, 1_000),
    "rate": (1, 1_000_000),
    "concurrency": (1, 10_000),
    "retention": (1, 36_500),
}
_LONGEST_DAYS = {
    "gap_wait": 30,
    "after_wait": 30,
    "budget": 36_500,
    "first_wait": 36_500,
    "longest_wait": 36_500,
}

#: a field and what to write instead
Problem = tuple[str, str]


class SourceRefusal:
    """Makes errors that name a field of one source, and the remedy."""

    def __init__(self, source: str) -> None:
        self._source = source

    def __call__(self, field: str, remedy: str) -> ConfigInvalid:
        """Return the error for one field."""
        return ConfigInvalid(f"{field} of source {self._source[:100]!r} cannot be used: {remedy}")


def is_url_segment(text: str) -> bool:
    """Say whether a text can be one segment of a URL's path, unescaped."""
    return _SEGMENT.fullmatch(text) is not None


def check(source: "Source") -> None:
    """Refuse the first bad value.

    Raises: ConfigInvalid.
    """
    for problems in (_identity_problems, _value_problems, _lane_problems, _sender_problems):
        for field, remedy in problems(source):
            raise SourceRefusal(source.name)(field, remedy)


def _identity_problems(source: "Source") -> Iterator[Problem]:
    try:
        validation.check_source_name(source.name)
    except KeyInvalid as error:
        yield "name", str(error)
    yield from _text_problems("tenant", source.tenant)
    if not is_url_segment(source.public_id):
        yield (
            "public_id",
            "write 1 to 100 letters, digits and . _ ~ -, beginning with a letter or digit",
        )
    if not _SCHEME.fullmatch(source.scheme):
        yield "scheme", "write a scheme's name, such as stripe or generic-hmac"
    elif source.scheme == "none" and not source.allow_unsigned:
        remedy = "choose a scheme that signs, or set allow_unsigned"
        yield "scheme", f"it lets anybody in who knows the address; {remedy}"
    yield from _option_problems(source.options)
    if source.public_url is not None and not _is_public_url(source.public_url):
        yield (
            "public_url",
            "write the address the provider knows, such as https://hooks.example.com/in/twilio",
        )


def _value_problems(source: "Source") -> Iterator[Problem]:
    for field, words in _CHOICES.items():
        if getattr(source, field) not in (None, *words):
            yield field, f"write {' or '.join(words)}"
    for field, (least, most) in _BOUNDS.items():
        if not _is_within(getattr(source, field), least, most):
            yield field, f"write a number from {least} to {most}"
    for field, days in _LONGEST_DAYS.items():
        if not _is_within(getattr(source, field), 0, days * _DAY):
            yield field, f"write a time of 0 to {days} days"


def _lane_problems(source: "Source") -> Iterator[Problem]:
    for field in ("order_by", "sequence"):
        path = getattr(source, field)
        if path is not None and not _is_path(path):
            yield field, "write a path such as $.data.object.id or $.items[0].id"
    if source.after and source.order_by is None:
        yield "after", "types wait for each other within a lane; set order_by too"
    for number, (later, earlier) in enumerate(source.after.items()):
        yield from _text_problems("after", later)
        yield from _text_problems("after", earlier)
        yield from _count_problems("after", number)
    if any(_leads_into_circle(source.after, start) for start in source.after):
        yield "after", "these types wait for each other in a circle; break it"


def _sender_problems(source: "Source") -> Iterator[Problem]:
    for number, network in enumerate(source.cidrs):
        try:
            ipaddress.ip_network(network)
        except ValueError:
            remedy = "write networks such as 192.0.2.0/24 or 2001:db8::/32, with no host bits set"
            yield f"cidrs[{number}]", remedy
        yield from _count_problems("cidrs", number)
    for number, (where, what) in enumerate(source.expect.items()):
        if not (_is_path(where) or _WORD.fullmatch(where)):
            yield (
                "expect",
                'write { "$.account" = "acct_1" } or a word of the scheme, such as topic',
            )
        yield from _text_problems("expect", what)
        yield from _count_problems("expect", number)


def _text_problems(field: str, value: str) -> Iterator[Problem]:
    try:
        validation.check_key(value, "text")
    except KeyInvalid as error:
        yield field, str(error)


def _option_problems(options: Mapping[str, Any]) -> Iterator[Problem]:
    if not all(map(_WORD.fullmatch, options)):
        yield "options", "names are small letters, digits, _ and -, such as header or window"
    try:
        size = len(msgspec.json.encode(options))
    except (TypeError, ValueError):
        yield "options", "write texts, numbers, lists and tables"
    else:
        if size > _LARGEST_OPTIONS:
            yield "options", f"they are over {_LARGEST_OPTIONS} bytes; write fewer"


def _count_problems(field: str, number: int) -> Iterator[Problem]:
    if number >= _MOST_ENTRIES:
        yield field, f"write at most {_MOST_ENTRIES} entries"


def _is_public_url(url: str) -> bool:
    if len(url) > _LONGEST_URL or not _VISIBLE.fullmatch(url):
        return False
    try:
        parts = urlsplit(url)
        plain = parts.port != 0 and not (parts.query or parts.fragment or "@" in parts.netloc)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and plain


def _leads_into_circle(after: Mapping[str, str], start: str) -> bool:
    seen = {start}
    while (step := after.get(start)) is not None:
        if step in seen:
            return True
        seen.add(step)
        start = step
    return False


def _is_within(value: object, least: int, most: int) -> bool:
    """Say whether a value is a whole number within bounds, or None, which is the default."""
    if value is None:
        return True
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_path(value: str) -> bool:
    return len(value) <= _LONGEST_PATH and _PATH.fullmatch(value) is not None
