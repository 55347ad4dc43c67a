"""Sources: where deliveries come from, how they are checked, ordered and worked."""

from collections.abc import Sequence
from typing import Any, Literal, TypedDict, Unpack

from oncebox.client.call import Call, creating, paged, path
from oncebox.client.room import Listing, Room, Verb, When
from oncebox.wire import sources as wire
from oncebox.wire.fields import Because, ListQuery

_ALL = path("sources")


class Fields(TypedDict, total=False):
    """What may be said of a source, as in ``wire.sources.SourceFields``; None is the default."""

    options: dict[str, Any] | None
    public_url: str | None
    late: Literal["hold", "run"] | None
    replay: Literal["hold", "run", "drop"] | None
    redelivery: Literal["rearm", "count"] | None
    order_by: str | None
    sequence: str | None
    stale: Literal["skip", "run"] | None
    gap_wait: float | None
    after: dict[str, str] | None
    after_wait: float | None
    tries: int | None
    budget: float | None
    first_wait: float | None
    longest_wait: float | None
    rate: int | None
    concurrency: int | None
    retention: int | None
    mode: Literal["handler", "pull"] | None
    cidrs: list[str] | None
    expect: dict[str, str] | None
    allow_unsigned: bool | None


class Changes(Fields, total=False):
    """What may be changed about a source."""

    scheme: str


def list_() -> Call[wire.SourcePage]:
    """Go through all sources, by name."""
    return page()


def page(*, limit: int | None = None, cursor: str | None = None) -> Call[wire.SourcePage]:
    """Return some of the sources, by name."""
    return paged(wire.SourcePage, _ALL, ListQuery, limit=limit, cursor=cursor)


def get(name: str) -> Call[wire.Source]:
    """Return one source, and whether it takes requests."""
    return Call(method="GET", path=path("sources", name), answer=wire.Source, repeatable=True)


def add(
    name: str,
    scheme: str,
    *,
    secrets: Sequence[str] = (),
    public_id: str | None = None,
    paused: bool = False,
    idempotency_key: str | None = None,
    **fields: Unpack[Fields],
) -> Call[wire.MadeSource]:
    """Add a source; its secrets are sealed over there and never shown again."""
    body = wire.NewSource(
        name=name,
        scheme=scheme,
        secrets=list(secrets),
        public_id=public_id,
        paused=paused,
        **fields,
    )
    return creating(wire.MadeSource, _ALL, body, idempotency_key)


def change(name: str, **changes: Unpack[Changes]) -> Call[wire.Source]:
    """Change a source; what is not named stays, None is the default again."""
    return Call(
        method="PATCH",
        path=path("sources", name),
        answer=wire.Source,
        body=wire.SourceChange(**changes),
    )


def remove(name: str) -> Call[None]:
    """Forget a source and its secrets; its deliveries stay."""
    return Call(method="DELETE", path=path("sources", name), answer=type(None))


def pause(name: str, *, why: str = "") -> Call[wire.Source]:
    """Stop taking in and working on a source."""
    return _told(name, "pause", why)


def resume(name: str, *, why: str = "") -> Call[wire.Source]:
    """Go on with a source."""
    return _told(name, "resume", why)


def add_secret(
    name: str, secret: str, *, idempotency_key: str | None = None
) -> Call[wire.SourceSecret]:
    """Add a secret, which is tried before the older ones."""
    where = path("sources", name, "secrets")
    return creating(wire.SourceSecret, where, wire.NewSecret(secret=secret), idempotency_key)


def retire_secret(name: str, id: str) -> Call[wire.Source]:  # noqa: A002 - the word users know
    """Let a secret count no longer; its value is erased."""
    return Call(method="DELETE", path=path("sources", name, "secrets", id), answer=wire.Source)


def _told(name: str, verb: str, why: str) -> Call[wire.Source]:
    return Call(
        method="POST", path=path("sources", name, verb), answer=wire.Source, body=Because(why=why)
    )


class Sources(Room[When]):
    """``client.sources``."""

    list = Listing(list_)
    page = Verb(page)
    get = Verb(get)
    add = Verb(add)
    change = Verb(change)
    remove = Verb(remove)
    pause = Verb(pause)
    resume = Verb(resume)
    add_secret = Verb(add_secret)
    retire_secret = Verb(retire_secret)
