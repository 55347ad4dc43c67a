"""Inboxes: addresses for attempts, and what came of them."""

from collections.abc import Mapping, Sequence

from oncebox.client import attempts, messages, waiting
from oncebox.client.call import Call, creating, paged, path
from oncebox.client.inbox import Making, ended
from oncebox.client.room import Listing, Room, Tailing, Verb, When
from oncebox.model.inbox import InboxState
from oncebox.wire import inboxes as wire

_ALL = path("inboxes")


def create(  # noqa: PLR0913 - an inbox simply has this many sides
    *,
    attempt_id: str | None = None,
    label: str = "",
    policy: wire.Policy | None = None,
    metadata: Mapping[str, str] | None = None,
    lifetime: float | None = None,
    domain: str | None = None,
    local: str | None = None,
    idempotency_key: str | None = None,
) -> Call[wire.MadeInbox]:
    """Make an inbox, or return the one that the attempt has of this label.

    What comes back has all its fields and can be waited for: ``wait_for_code``,
    ``wait_for_link``, ``messages``, ``close``. ``lifetime`` is in seconds; 0 is for ever.
    """
    body = wire.NewInbox(
        attempt_id=attempt_id,
        label=label,
        policy=policy or wire.Policy(),
        metadata=dict(metadata or {}),
        lifetime=lifetime,
        domain=domain,
        local=local,
    )
    return creating(wire.MadeInbox, _ALL, body, idempotency_key)


def create_many(
    inboxes: Sequence[wire.NewInbox], *, idempotency_key: str | None = None
) -> Call[wire.MadeInboxes]:
    """Make inboxes, all or none, in one commit; they come back in the same order."""
    body = wire.NewInboxes(inboxes=list(inboxes))
    return creating(wire.MadeInboxes, path("inboxes", "batch"), body, idempotency_key)


def list_(
    *, attempt_id: str | None = None, state: InboxState | str | None = None
) -> Call[wire.InboxPage]:
    """Go through inboxes, newest first."""
    return page(attempt_id=attempt_id, state=state)


def page(
    *,
    attempt_id: str | None = None,
    state: InboxState | str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[wire.InboxPage]:
    """Return some inboxes, newest first."""
    return paged(
        wire.InboxPage,
        _ALL,
        wire.InboxQuery,
        attempt_id=attempt_id,
        state=state,
        limit=limit,
        cursor=cursor,
    )


def get(id: str) -> Call[wire.Inbox]:  # noqa: A002 - the word users know
    """Return one inbox."""
    return Call(method="GET", path=path("inboxes", id), answer=wire.Inbox, repeatable=True)


def close(id: str, *, drain: float | None = None) -> Call[wire.Inbox]:  # noqa: A002 - as above
    """Take mail for ``drain`` seconds more, then close; a second time changes nothing."""
    return ended(id, "close", drain)


def rotate(id: str, *, drain: float | None = None) -> Call[wire.Inbox]:  # noqa: A002 - as above
    """Return a new address for the same attempt and label; the old one drains.

    A repeat for the same inbox returns the same new one.
    """
    return ended(id, "rotate", drain)


def stats(id: str) -> Call[wire.InboxStats]:  # noqa: A002 - as above
    """Return what came of an inbox."""
    return Call(
        method="GET", path=path("inboxes", id, "stats"), answer=wire.InboxStats, repeatable=True
    )


class Inboxes(Room[When]):
    """``client.inboxes``."""

    create = Making(create)
    create_many = Verb(create_many)
    list = Listing(list_)
    page = Verb(page)
    get = Verb(get)
    close = Verb(close)
    rotate = Verb(rotate)
    stats = Verb(stats)
    attempt_stats = Verb(attempts.stats)
    messages = Tailing(messages.of_inbox)
    wait_for_code = Verb(waiting.wait_for_code)
    wait_for_link = Verb(waiting.wait_for_link)
