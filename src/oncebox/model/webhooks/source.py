"""Sources: scheme, secrets, ordering and retry options; TOML and JSON table format.

The same table is in ``oncebox.toml``, in the database and in the output of commands.
"""

import ipaddress
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

import msgspec

from oncebox.errors import ConfigInvalid, KeyInvalid, SecretUnavailable
from oncebox.model import validation
from oncebox.model.deliveries.delivery import LaneRules
from oncebox.model.deliveries.retry import RetryRules

#: how a delivery came that was a webhook
WEBHOOK_CHANNEL = "hook"

_MINUTE = 60_000
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


class SourceSecret(msgspec.Struct, frozen=True, kw_only=True):
    """One secret of a source, decrypted; nothing that prints it shows its value."""

    id: str
    value: str
    #: ``env:NAME`` or ``file:PATH``, where the value is kept outside the database
    reference: str | None = None
    created_at: int = 0
    retired_at: int | None = None

    def __repr__(self) -> str:
        return f"SourceSecret(id={self.id!r}, reference={self.reference!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("id", self.id), ("reference", self.reference)]


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Where deliveries come from; all times in milliseconds. All values are checked.

    Raises: ConfigInvalid, naming the field and the remedy.
    """

    tenant: str
    name: str
    #: where it listens: ``/in/{public_id}``
    public_id: str
    #: name of the signature scheme
    scheme: str
    #: options of the scheme, such as ``header``, ``algorithm`` or ``topics``
    options: dict[str, Any] = {}
    #: in the order in which they are tried
    secrets: tuple[SourceSecret, ...] = ()
    #: the address as the provider knows it, for schemes that sign it
    public_url: str | None = None
    #: what to do with an authentic request that is late: ``hold`` or ``run``; unless set, as its
    #: scheme says
    late: str | None = None
    #: what becomes of a known body under a new unsigned id: ``hold``, ``run`` or ``drop``
    replay: str = "hold"
    #: what a redelivery of failed or dead work does: ``rearm`` or ``count``
    redelivery: str = "rearm"
    #: where in the body the order key stands; deliveries with the same one run one at a time
    order_by: str | None = None
    #: where in the body a rising number stands
    sequence: str | None = None
    #: what becomes of a number below the last one: ``skip`` or ``run``
    stale: str = "run"
    #: how long a missing number is waited for
    gap_wait: int = _MINUTE
    #: types that wait for another type of the same lane
    after: dict[str, str] = {}
    #: how long they wait
    after_wait: int = _MINUTE
    #: tries of one delivery; as in the settings unless set, like the next three
    tries: int | None = None
    #: time from the first claim after which no try is begun
    budget: int | None = None
    #: the first wait between tries is drawn between zero and this
    first_wait: int | None = None
    #: no wait between tries is longer than this
    longest_wait: int | None = None
    #: deliveries begun per second at most
    rate: int | None = None
    #: deliveries worked on at the same time at most
    concurrency: int | None = None
    #: nothing is accepted and nothing is processed
    paused: bool = False
    #: days for which bodies are kept; for ever unless set
    retention: int | None = None
    #: who works on it: a ``handler`` in a program, or a worker that comes to ``pull``
    mode: str = "handler"
    #: networks that requests may come from; anywhere if there are none
    cidrs: tuple[str, ...] = ()
    #: values a request must contain, such as ``{"$.account" = "acct_1"}``
    expect: dict[str, str] = {}
    #: accept unsigned requests; only with the scheme ``none``
    allow_unsigned: bool = False
    #: whether the mail in its requests goes to inboxes; unless set, as its scheme says
    inbound: bool | None = None
    #: the inbox of all its mail; unless set, mail goes to the inboxes of its recipients
    inbox: str | None = None

    def __post_init__(self) -> None:
        _check(self)

    @property
    def lane_rules(self) -> LaneRules:
        """The rules for its lanes."""
        return LaneRules(
            stale=self.stale,
            gap_wait=self.gap_wait,
            after=self.after,
            after_wait=self.after_wait,
        )

    def retry_rules(self, otherwise: RetryRules) -> RetryRules:
        """Return how often and how long its deliveries are tried."""
        given = {
            field: value
            for field in RetryRules.__struct_fields__
            if (value := getattr(self, field)) is not None
        }
        return msgspec.structs.replace(otherwise, **given)


class SchemeLookup(msgspec.Struct, frozen=True, kw_only=True):
    """What sources need to know of schemes, whose package may not be imported here."""

    #: whether there is a scheme of that name
    known: Callable[[str], bool]
    #: whether a scheme checks requests without any secret, as one with fetched keys does
    keyless: Callable[[str], bool]
    #: the sentence about a name that is no scheme
    unknown: Callable[[str], str]


class SourceOrigin(StrEnum):
    """Where a source is written."""

    #: in ``oncebox.toml``; it wins, and is changed there only
    FILE = "file"
    #: in the database, by command or API
    DATABASE = "database"


class SourceState(StrEnum):
    """Whether a source takes requests."""

    #: it accepts requests
    READY = "ready"
    #: an operator paused it
    PAUSED = "paused"
    #: it cannot verify requests; ``troubles`` say why
    UNREADY = "unready"


class SourceTrouble(msgspec.Struct, frozen=True):
    """A problem of a source or of one of its secrets."""

    code: str
    #: with the remedy
    message: str
    #: the secret it is about
    secret: str | None = None

    @property
    def is_missing_secret(self) -> bool:
        """Whether the source has no secret at all."""
        return self.code == SecretUnavailable.code and self.secret is None


class SourceEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A source, where it is written, and whether it works."""

    source: Source
    origin: SourceOrigin
    ready: bool
    troubles: tuple[SourceTrouble, ...] = ()

    @property
    def state(self) -> SourceState:
        """Whether it takes requests."""
        if not self.ready:
            return SourceState.UNREADY
        return SourceState.PAUSED if self.source.paused else SourceState.READY

    @property
    def note(self) -> str:
        """What is wrong with it, in words."""
        return "; ".join(trouble.message for trouble in self.troubles)


#: fields that are not in the table
_SEPARATE_FIELDS = frozenset({"tenant", "name", "public_id", "secrets"})
_DURATION_FIELDS = frozenset({"gap_wait", "after_wait", "budget", "first_wait", "longest_wait"})
_DEFAULTS = {
    field.name: field.default_factory()
    if field.default_factory is not msgspec.NODEFAULT
    else field.default
    for field in msgspec.structs.fields(Source)
}

#: every name a table may hold
SOURCE_FIELDS = tuple(name for name in Source.__struct_fields__ if name not in _SEPARATE_FIELDS)


def source_from_table(
    table: Mapping[str, Any],
    *,
    tenant: str,
    name: str,
    public_id: str,
    secrets: Sequence[SourceSecret] = (),
) -> Source:
    """Read a table; numbers may be written as text, as in the environment."""
    refuse = SourceRefusal(name)
    for field in table:
        if field not in SOURCE_FIELDS:
            raise refuse(
                str(field)[:100], f"there is no such field; write {', '.join(SOURCE_FIELDS)}"
            )
    if "scheme" not in table:
        raise refuse("scheme", "it is missing; write a scheme's name, such as stripe")
    values = {
        field: _milliseconds(refuse, field, value) if field in _DURATION_FIELDS else value
        for field, value in table.items()
    }
    others = {"tenant": tenant, "name": name, "public_id": public_id, "secrets": tuple(secrets)}
    try:
        return msgspec.convert(values | others, Source, strict=False)
    except msgspec.ValidationError as error:
        said, _, place = str(error).partition(" - at ")
        raise refuse(
            place.strip("`").removeprefix("$."), f"{said[:1].lower()}{said[1:]}"
        ) from error


def source_to_table(source: Source) -> dict[str, Any]:
    """Return the table of a source: its scheme and all fields that are not the default."""
    changed = {
        field: value
        for field in SOURCE_FIELDS
        if (value := getattr(source, field)) != _DEFAULTS[field]
    }
    return {
        field: value / 1000 if field in _DURATION_FIELDS and value is not None else value
        for field, value in changed.items()
    }


def _milliseconds(refuse: SourceRefusal, field: str, value: object) -> int | None:
    if value is None:
        return None
    try:
        seconds = msgspec.convert(value, float, strict=False)
    except msgspec.ValidationError as error:
        raise refuse(field, "write a number of seconds") from error
    if not math.isfinite(seconds):
        raise refuse(field, "write a number of seconds")
    return round(seconds * 1000)


# checks: each problem names the field and the remedy


def _check(source: Source) -> None:
    for problems in (_identity_problems, _value_problems, _lane_problems, _sender_problems):
        for field, remedy in problems(source):
            raise SourceRefusal(source.name)(field, remedy)


def _identity_problems(source: Source) -> Iterator[Problem]:
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
    if source.inbox is not None:
        yield from _text_problems("inbox", source.inbox)
        if source.inbound is False:
            yield "inbox", "it is for mail; remove it, or set inbound"
    yield from _option_problems(source.options)
    if source.public_url is not None and not _is_public_url(source.public_url):
        yield (
            "public_url",
            "write the address the provider knows, such as https://hooks.example.com/in/twilio",
        )


def _value_problems(source: Source) -> Iterator[Problem]:
    for field, words in _CHOICES.items():
        if getattr(source, field) not in (None, *words):
            yield field, f"write {' or '.join(words)}"
    for field, (least, most) in _BOUNDS.items():
        if not _is_within(getattr(source, field), least, most):
            yield field, f"write a number from {least} to {most}"
    for field, days in _LONGEST_DAYS.items():
        if not _is_within(getattr(source, field), 0, days * _DAY):
            yield field, f"write a time of 0 to {days} days"


def _lane_problems(source: Source) -> Iterator[Problem]:
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


def _sender_problems(source: Source) -> Iterator[Problem]:
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
