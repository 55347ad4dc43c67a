"""The quarantine: requests that were not believed, and checking them again."""

from oncebox.client.call import Call, paged, path
from oncebox.client.room import Listing, Room, Verb, When
from oncebox.wire import deliveries as wire
from oncebox.wire.fields import Because

_ALL = path("quarantine")


def list_(*, source: str | None = None) -> Call[wire.RejectedPage]:
    """Go through rejected requests, newest first."""
    return page(source=source)


def page(
    *, source: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Call[wire.RejectedPage]:
    """Return some rejected requests, newest first."""
    return paged(
        wire.RejectedPage, _ALL, wire.QuarantineQuery, source=source, limit=limit, cursor=cursor
    )


def get(id: str) -> Call[wire.RejectedDetail]:  # noqa: A002 - the word users know
    """Return a rejected request with its headers and body; what may be a secret is left out."""
    return Call(
        method="GET", path=path("quarantine", id), answer=wire.RejectedDetail, repeatable=True
    )


def retry(id: str, *, why: str = "") -> Call[wire.Admitted]:  # noqa: A002 - as above
    """Check a rejected request again with the secrets of today; take it in if it is good."""
    return Call(
        method="POST",
        path=path("quarantine", id, "retry"),
        answer=wire.Admitted,
        body=Because(why=why),
    )


def forget(id: str) -> Call[None]:  # noqa: A002 - as above
    """Throw a rejected request away."""
    return Call(method="DELETE", path=path("quarantine", id), answer=type(None))


class Quarantine(Room[When]):
    """``client.quarantine``."""

    list = Listing(list_)
    page = Verb(page)
    get = Verb(get)
    retry = Verb(retry)
    forget = Verb(forget)
