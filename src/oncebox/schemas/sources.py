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
        description="the secret itself; it is sealed, and never shown again",
    ),
]
Scheme = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$")]
PublicId = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._~-]{0,99}$")]
TextMap = Annotated[dict[str, str], msgspec.Meta(max_length=100)]


class SourceFields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be said of a source; null is the default."""

    #: what the scheme wants to know, such as ``header``, ``algorithm`` or ``topics``
    options: dict[str, Any] | UnsetType | None = UNSET
    #: the address as the provider knows it, for schemes that sign it
    public_url: Annotated[str, msgspec.Meta(max_length=2_000)] | UnsetType | None = UNSET
    #: what becomes of a genuine request that comes after its time
    late: Literal["hold", "run"] | UnsetType | None = UNSET
    #: what becomes of a known body under a new unsigned id
    replay: Literal["hold", "run", "drop"] | UnsetType | None = UNSET
    #: what a redelivery of failed or dead work does
    redelivery: Literal["rearm", "count"] | UnsetType | None = UNSET
    #: where in the body the order key stands; what has the same one runs one at a time
    order_by: JsonPath | UnsetType | None = UNSET
    #: where in the body a rising number stands
    sequence: JsonPath | UnsetType | None = UNSET
    #: what becomes of a number below the last one
    stale: Literal["skip", "run"] | UnsetType | None = UNSET
    #: seconds a missing number is waited for
    gap_wait: Seconds | UnsetType | None = UNSET
    #: types that wait for another type of the same lane
    after: TextMap | UnsetType | None = UNSET
    #: seconds they wait
    after_wait: Seconds | UnsetType | None = UNSET
    #: tries of one delivery; as in the settings unless set, like the next three
    tries: Annotated[int, msgspec.Meta(ge=1, le=1_000)] | UnsetType | None = UNSET
    #: seconds from the first claim after which no try is begun
    budget: Seconds | UnsetType | None = UNSET
    #: the first wait between tries is drawn between zero and this
    first_wait: Seconds | UnsetType | None = UNSET
    #: no wait between tries is longer than this
    longest_wait: Seconds | UnsetType | None = UNSET
    #: deliveries begun per second at most
    rate: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | UnsetType | None = UNSET
    #: deliveries worked on at the same time at most
    concurrency: Annotated[int, msgspec.Meta(ge=1, le=10_000)] | UnsetType | None = UNSET
    #: days for which bodies are kept; for ever unless set
    retention: Annotated[int, msgspec.Meta(ge=1, le=36_500)] | UnsetType | None = UNSET
    #: who works on it: a handler in a program, or a worker that comes to pull
    mode: Literal["handler", "pull"] | UnsetType | None = UNSET
    #: networks that requests may come from; anywhere if there are none
    cidrs: Annotated[list[str], msgspec.Meta(max_length=100)] | UnsetType | None = UNSET
    #: what a request must say besides its signature, such as ``{"$.account": "acct_1"}``
    expect: TextMap | UnsetType | None = UNSET
    #: let requests in that nobody signed; only with the scheme ``none``
    allow_unsigned: bool | UnsetType | None = UNSET


class NewSource(SourceFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A source to be added."""

    name: SourceName
    scheme: Scheme
    #: where it listens: ``/in/{public_id}``; chosen for you unless set
    public_id: PublicId | None = None
    secrets: Annotated[list[Secret], msgspec.Meta(max_length=20)] = []
    paused: bool = False

    def __repr__(self) -> str:
        """Show which one it is, never its secrets."""
        return f"NewSource(name={self.name!r})"


class SourceChange(SourceFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to be different about a source; what is not named stays."""

    scheme: Scheme | UnsetType = UNSET


class NewSecret(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A secret to be added; it is tried before the older ones."""

    secret: Secret

    def __repr__(self) -> str:
        """Show nothing of it."""
        return "NewSecret()"


class SourceSecret(msgspec.Struct, frozen=True, kw_only=True):
    """A secret without its value."""

    id: str
    #: where the value is kept, if not in the database
    reference: str | None
    created_at: Timestamp
    retired_at: Timestamp | None


class SourceTrouble(msgspec.Struct, frozen=True, kw_only=True):
    """What keeps a source, or one of its secrets, from working."""

    code: str
    message: str
    secret: str | None


class CreatedSource(msgspec.Struct, frozen=True, kw_only=True):
    """A new source."""

    name: str
    public_id: str
    #: where its provider sends to, below the address of this service
    path: str
    secrets: list[SourceSecret]


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Where deliveries come from, how they are checked, ordered and worked."""

    name: str
    public_id: str
    path: str
    scheme: str
    #: ``file`` is written in oncebox.toml and changed only there
    origin: Literal["file", "database"]
    #: whether it takes requests
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


class SourcePage(ListPage, frozen=True, kw_only=True):
    """Some of the sources, by name."""

    data: list[Source]
