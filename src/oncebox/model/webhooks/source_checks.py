"""Source field checks: allowed values; each error names the field and the remedy."""

import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from oncebox.errors import ConfigInvalid, KeyInvalid
from oncebox.model import validation

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


class SourceRefusal:
    """Says which field of which source cannot be used, and what helps."""

    def __init__(self, source: str) -> None:
        """Speak of one source."""
        self._source = source

    def __call__(self, field: str, remedy: str) -> ConfigInvalid:
        """Return the error for one field."""
        return ConfigInvalid(f"{field} of source {self._source[:100]!r} cannot be used: {remedy}")


def is_url_segment(text: str) -> bool:
    """Say whether a text can stand as one segment of a URL's path, as it is."""
    return _SEGMENT.fullmatch(text) is not None


def text(refuse: SourceRefusal, field: str, value: str) -> None:
    """Refuse a text that is empty, too long or has control characters."""
    try:
        validation.check_key(value, "text")
    except KeyInvalid as error:
        raise refuse(field, str(error)) from error


def name(refuse: SourceRefusal, value: str) -> None:
    """Refuse what is no name of a source."""
    try:
        validation.check_source_name(value)
    except KeyInvalid as error:
        raise refuse("name", str(error)) from error


def public_id(refuse: SourceRefusal, value: str) -> None:
    """Refuse what cannot stand in ``/in/{public_id}``."""
    if not is_url_segment(value):
        remedy = "write 1 to 100 letters, digits and . _ ~ -, beginning with a letter or digit"
        raise refuse("public_id", remedy)


def scheme(refuse: SourceRefusal, value: str, *, allow_unsigned: bool) -> None:
    """Refuse what is no name of a scheme, and unsigned requests unless they are wanted."""
    if not _SCHEME.fullmatch(value):
        raise refuse("scheme", "write a scheme's name, such as stripe or generic-hmac")
    if value == "none" and not allow_unsigned:
        remedy = (
            "it lets anybody in who knows the address; choose a scheme that signs, or set "
            "allow_unsigned"
        )
        raise refuse("scheme", remedy)


def one_of(refuse: SourceRefusal, field: str, value: str | None, allowed: Iterable[str]) -> None:
    """Refuse a word that is not one of a few; None is left to the defaults."""
    words = tuple(allowed)
    if value is not None and value not in words:
        raise refuse(field, f"write {' or '.join(words)}")


def between(refuse: SourceRefusal, field: str, value: object, least: int, most: int) -> None:
    """Refuse what is no whole number within bounds; None is left to the defaults."""
    if value is not None and not _is_within(value, least, most):
        raise refuse(field, f"write a number from {least} to {most}")


def duration(refuse: SourceRefusal, field: str, value: object, most: int) -> None:
    """Refuse what is no time in milliseconds, or too long; None is left to the defaults."""
    if value is not None and not _is_within(value, 0, most):
        raise refuse(field, f"write a time of 0 to {most // _DAY} days")


def path(refuse: SourceRefusal, field: str, value: str | None) -> None:
    """Refuse what does not lead into a JSON body."""
    if value is not None and not _is_path(value):
        raise refuse(field, "write a path such as $.data.object.id or $.items[0].id")


def url(refuse: SourceRefusal, field: str, value: str | None) -> None:
    """Refuse what is not the beginning of a public address."""
    if value is None:
        return
    remedy = "write the address the provider knows, such as https://hooks.example.com/in/twilio"
    if len(value) > _LONGEST_URL or not _VISIBLE.fullmatch(value):
        raise refuse(field, remedy)
    try:
        parts = urlsplit(value)
        plain = parts.port != 0 and not (parts.query or parts.fragment or "@" in parts.netloc)
    except ValueError as error:
        raise refuse(field, remedy) from error
    if parts.scheme not in {"http", "https"} or not parts.hostname or not plain:
        raise refuse(field, remedy)


def networks(refuse: SourceRefusal, field: str, values: Iterable[str]) -> None:
    """Refuse what is no list of networks."""
    for number, value in enumerate(values):
        try:
            ipaddress.ip_network(value)
        except ValueError as error:
            remedy = "write networks such as 192.0.2.0/24 or 2001:db8::/32, with no host bits set"
            raise refuse(f"{field}[{number}]", remedy) from error
        _check_entry_count(refuse, field, number)


def expected(refuse: SourceRefusal, field: str, values: Mapping[str, str]) -> None:
    """Refuse expectations that no request could be held against."""
    for number, (where, what) in enumerate(values.items()):
        if not (_is_path(where) or _WORD.fullmatch(where)):
            remedy = 'write { "$.account" = "acct_1" } or a word of the scheme, such as topic'
            raise refuse(field, remedy)
        text(refuse, field, what)
        _check_entry_count(refuse, field, number)


def predecessors(refuse: SourceRefusal, values: Mapping[str, str], *, order_by: str | None) -> None:
    """Refuse waiting for others without a lane, or in a circle."""
    if values and order_by is None:
        remedy = "types wait for each other within a lane; set order_by too"
        raise refuse("after", remedy)
    for number, (later, earlier) in enumerate(values.items()):
        text(refuse, "after", later)
        text(refuse, "after", earlier)
        _check_entry_count(refuse, "after", number)
    for start in values:
        seen = {start}
        step = values.get(start)
        while step is not None:
            if step in seen:
                raise refuse("after", "these types wait for each other in a circle; break it")
            seen.add(step)
            step = values.get(step)


def options(refuse: SourceRefusal, values: Mapping[str, Any]) -> None:
    """Refuse scheme options that cannot be stored as JSON."""
    for each in values:
        if not _WORD.fullmatch(each):
            raise refuse(
                "options", "names are small letters, digits, _ and -, such as header or window"
            )
    try:
        size = len(msgspec.json.encode(values))
    except (TypeError, ValueError) as error:
        raise refuse("options", "write texts, numbers, lists and tables") from error
    if size > _LARGEST_OPTIONS:
        raise refuse("options", f"they are over {_LARGEST_OPTIONS} bytes; write fewer")


def _is_within(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_path(value: str) -> bool:
    return len(value) <= _LONGEST_PATH and _PATH.fullmatch(value) is not None


def _check_entry_count(refuse: SourceRefusal, field: str, number: int) -> None:
    if number >= _MOST_ENTRIES:
        raise refuse(field, f"write at most {_MOST_ENTRIES} entries")
