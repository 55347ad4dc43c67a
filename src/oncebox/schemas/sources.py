"""Webhook sources and their secrets; durations in seconds."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from oncebox.schemas.fields import ListPage, SourceName, Timestamp

_SECONDS = msgspec.Meta(ge=0, le=3_000_000_000, description="seconds")
Seconds = Annotated[float, _SECONDS]
JsonPath = Annotated[
    str, msgspec.Meta(min_length=2, max_length=300, description="such as $.data.id")
]
Secret = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=65_536,
        description="the secret value; stored encrypted and never shown again",
    ),
]
Scheme = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$")]
PublicId = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._~-]{0,99}$")]
TextMap = Annotated[dict[str, str], msgspec.Meta(max_length=100)]


class SourceFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Optional fields of a source; null resets a field to its default."""

    #: options of the scheme, such as ``header``, ``algorithm`` or ``topics``
    options: dict[str, Any] | UnsetType | None = UNSET
    #: the URL known to the provider, for schemes that sign it
    public_url: Annotated[str, msgspec.Meta(max_length=2_000)] | UnsetType | None = UNSET
    #: what to do with a genuine request that arrives too late
    late: Literal["hold", "run"] | UnsetType | None = UNSET
    #: what to do with a known body under a new unsigned id
    replay: Literal["hold", "run", "drop"] | UnsetType | None = UNSET
    #: what a redelivery of a failed or dead delivery does
    redelivery: Literal["rearm", "count"] | UnsetType | None = UNSET
    #: path of the order key; deliveries with the same key run one at a time
    order_by: JsonPath | UnsetType | None = UNSET
    #: path of an increasing number
    sequence: JsonPath | UnsetType | None = UNSET
    #: what to do with a number below the last one
    stale: Literal["skip", "run"] | UnsetType | None = UNSET
    #: seconds to wait for a missing number
    gap_wait: Seconds | UnsetType | None = UNSET
    #: types that wait for another type in the same lane
    after: TextMap | UnsetType | None = UNSET
    #: how many seconds they wait
    after_wait: Seconds | UnsetType | None = UNSET
    #: maximum tries of a delivery; this and the next three default to the settings
    tries: Annotated[int, msgspec.Meta(ge=1, le=1_000)] | UnsetType | None = UNSET
    #: no try begins later than this many seconds after the first claim
    budget: Seconds | UnsetType | None = UNSET
    #: upper bound of the first, random wait between tries
    first_wait: Seconds | UnsetType | None = UNSET
    #: longest wait between tries
    longest_wait: Seconds | UnsetType | None = UNSET
    #: maximum deliveries started per second
    rate: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | UnsetType | None = UNSET
    #: maximum deliveries processed at the same time
    concurrency: Annotated[int, msgspec.Meta(ge=1, le=10_000)] | UnsetType | None = UNSET
    #: days for which bodies are kept; default: no limit
    retention: Annotated[int, msgspec.Meta(ge=1, le=36_500)] | UnsetType | None = UNSET
    #: who processes it: a handler in a program, or a pull worker
    mode: Literal["handler", "pull"] | UnsetType | None = UNSET
    #: networks that may send requests; empty: any
    cidrs: Annotated[list[str], msgspec.Meta(max_length=100)] | UnsetType | None = UNSET
    #: values that a request must contain, such as ``{"$.account": "acct_1"}``
    expect: TextMap | UnsetType | None = UNSET
    #: accept unsigned requests; only with the scheme ``none``
    allow_unsigned: bool | UnsetType | None = UNSET
    #: whether the mail in its requests goes to inboxes; default: as its scheme says
    inbound: bool | UnsetType | None = UNSET
    #: id of the inbox of all its mail; default: the inboxes of its recipients
    inbox: Annotated[str, msgspec.Meta(min_length=1, max_length=200)] | UnsetType | None = UNSET


class NewSource(SourceFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A source to add."""

    name: SourceName
    scheme: Scheme
    #: its path is ``/in/{public_id}``; default: generated
    public_id: PublicId | None = None
    secrets: Annotated[list[Secret], msgspec.Meta(max_length=20)] = []
    paused: bool = False

    def __repr__(self) -> str:
        """Show the name, never the secrets."""
        return f"NewSource(name={self.name!r})"


class SourceChange(SourceFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Changes to a source; fields left out stay unchanged."""

    scheme: Scheme | UnsetType = UNSET


class NewSecret(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A secret to add; it is tried before older ones."""

    secret: Secret

    def __repr__(self) -> str:
        """Show nothing."""
        return "NewSecret()"


class SourceSecret(msgspec.Struct, frozen=True, kw_only=True):
    """A secret without its value."""

    id: str
    #: where the value is stored, if not in the database
    reference: str | None
    created_at: Timestamp
    retired_at: Timestamp | None


class SourceTrouble(msgspec.Struct, frozen=True, kw_only=True):
    """A problem of a source or one of its secrets."""

    code: str
    message: str
    secret: str | None


class CreatedSource(msgspec.Struct, frozen=True, kw_only=True):
    """A new source."""

    name: str
    public_id: str
    #: path of its webhook endpoint on this service
    path: str
    secrets: list[SourceSecret]


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook source and its configuration."""

    name: str
    public_id: str
    path: str
    scheme: str
    #: ``file``: defined in oncebox.toml, and changed only there
    origin: Literal["file", "database"]
    #: whether it accepts requests
    state: Literal["ready", "paused", "unready"]
    troubles: list[SourceTrouble]
    secrets: list[SourceSecret]
    options: dict[str, Any]
    public_url: str | None
    late: str | None
    replay: str
    redelivery: str
    order_by: str | None
    sequence: str | None
    stale: str
    gap_wait: Seconds
    after: dict[str, str]
    after_wait: Seconds
    tries: int | None
    budget: Seconds | None
    first_wait: Seconds | None
    longest_wait: Seconds | None
    rate: int | None
    concurrency: int | None
    retention: int | None
    mode: Literal["handler", "pull"]
    cidrs: list[str]
    expect: dict[str, str]
    allow_unsigned: bool
    inbound: bool | None
    inbox: str | None


class SourcePage(ListPage, frozen=True, kw_only=True):
    """A page of sources, by name."""

    data: list[Source]
