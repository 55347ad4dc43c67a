"""Sources: scheme, secrets, ordering and retry options; TOML and JSON table format.

The same table stands in ``oncebox.toml``, in the database and in what commands print.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from oncebox.model.deliveries.retry import RetryRules
from oncebox.model.webhooks import source_checks
from oncebox.model.webhooks.source_checks import SourceRefusal

_MINUTE = 60_000


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

    def __post_init__(self) -> None:
        source_checks.check(self)

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
