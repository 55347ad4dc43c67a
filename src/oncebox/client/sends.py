"""Sends: mail that goes out once, and what became of it."""

from collections.abc import Sequence

from oncebox.client.call import Call, checked_key, paged, path
from oncebox.client.room import Listing, Room, Verb, When
from oncebox.client.sending import send, wait
from oncebox.errors import KeyInvalid
from oncebox.model.send import SendState
from oncebox.wire import sends as wire

_ALL = path("sends")


def batch(sends: Sequence[wire.SendWish], *, key: str | None = None) -> Call[wire.BatchAnswer]:
    """Send several mails, each once, stored in one commit: all of them, or none.

    Make each with ``oncebox.client.wish``. Asking again with all of them is the same batch;
    ``key`` names it where mails have no event type and entity. ``wait`` tells how each ends.

    Raises: InputRefused, NotFound.
    """
    named = all(each.event_type and each.entity_id for each in sends)
    if key is None and not named:
        message = "every mail needs event_type and entity_id, or the batch a key"
        raise KeyInvalid(message)
    return Call(
        method="POST",
        path=path("sends", "batch"),
        answer=wire.BatchAnswer,
        body=wire.BatchWish(sends=list(sends)),
        idempotency_key=checked_key(key),
        repeatable=True,
    )


def list_(
    *, state: SendState | str | None = None, transport: str | None = None
) -> Call[wire.SendPage]:
    """Go through sends, newest first; an agent's key sees those it asked for."""
    return page(state=state, transport=transport)


def page(
    *,
    state: SendState | str | None = None,
    transport: str | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[wire.SendPage]:
    """Return some sends, newest first."""
    return paged(
        wire.SendPage,
        _ALL,
        wire.SendQuery,
        state=state,
        transport=transport,
        limit=limit,
        cursor=cursor,
    )


def get(id: str) -> Call[wire.SendAnswer]:  # noqa: A002 - the word users know
    """Return how a send stands."""
    return Call(method="GET", path=path("sends", id), answer=wire.SendAnswer, repeatable=True)


def cancel(id: str, *, why: str = "") -> Call[wire.SendAnswer]:  # noqa: A002 - as above
    """Call a send off, as long as nothing of it was on the wire.

    Raises: StateConflict, NotFound.
    """
    body = wire.CancelSend(why=why)
    return Call(method="POST", path=path("sends", id, "cancel"), answer=wire.SendAnswer, body=body)


def inspect(id: str) -> Call[wire.SendInspection]:  # noqa: A002 - as above
    """Return everything known of a send but what it says; for operators."""
    where = path("sends", id, "inspect")
    return Call(method="GET", path=where, answer=wire.SendInspection, repeatable=True)


def resolve(
    id: str,  # noqa: A002 - as above
    *,
    sent: bool,
    why: str,
    provider_id: str = "",
) -> Call[wire.SendAnswer]:
    """Say of a send in doubt whether it was sent; for operators.

    Raises: StateConflict, NotFound.
    """
    body = wire.ResolveSend(sent=sent, why=why, provider_id=provider_id)
    return Call(method="POST", path=path("sends", id, "resolve"), answer=wire.SendAnswer, body=body)


def resend(id: str, *, why: str) -> Call[wire.SendAnswer]:  # noqa: A002 - as above
    """Send what was proven not sent, or repeat one in doubt once; for operators.

    Raises: StateConflict, NotFound.
    """
    body = wire.ResendSend(why=why)
    return Call(method="POST", path=path("sends", id, "resend"), answer=wire.SendAnswer, body=body)


class Sends(Room[When]):
    """``client.sends``; ``client.send(…)`` is the first of its verbs."""

    send = Verb(send)
    batch = Verb(batch)
    wait = Verb(wait)
    list = Listing(list_)
    page = Verb(page)
    get = Verb(get)
    cancel = Verb(cancel)
    inspect = Verb(inspect)
    resolve = Verb(resolve)
    resend = Verb(resend)
