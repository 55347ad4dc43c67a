"""Messages: what came to inboxes, read by cursor."""

from oncebox.client.call import Call, paged, path
from oncebox.client.room import Room, Verb, When
from oncebox.client.tail import Tail
from oncebox.wire import messages as wire


def of_inbox(
    inbox_id: str,
    *,
    cursor: str | None = None,
    text: bool = False,
    follow: bool = False,
    idle: float | None = None,
) -> Tail[wire.MessagePage, wire.Message]:
    """Go through the messages of an inbox, in the order in which they were filed.

    Begins after ``cursor``, which every message has for itself. With ``follow`` it waits for
    more at the end, for ever or until nothing has come for ``idle`` seconds. With ``text``, what
    was written is there too, if the key may read it.
    """
    first = page(inbox_id, cursor=cursor, text=text or None)
    return Tail(call=first, follow=follow, idle=idle)


def page(
    inbox_id: str,
    *,
    limit: int | None = None,
    cursor: str | None = None,
    text: bool | None = None,
) -> Call[wire.MessagePage]:
    """Return some messages of an inbox; ``next_cursor`` is there also after the last one."""
    return paged(
        wire.MessagePage,
        path("inboxes", inbox_id, "messages"),
        wire.MessageQuery,
        limit=limit,
        cursor=cursor,
        text=text,
    )


def get(id: str) -> Call[wire.Message]:  # noqa: A002 - the word users know
    """Return one message: typed fields to agents, everything to operators."""
    return Call(method="GET", path=path("messages", id), answer=wire.Message, repeatable=True)


def raw(id: str) -> Call[bytes]:  # noqa: A002 - as above
    """Return a message exactly as it was received; for operators."""
    return Call(method="GET", path=path("messages", id, "raw"), answer=bytes, repeatable=True)


def attachment(id: str, number: int) -> Call[bytes]:  # noqa: A002 - as above
    """Return what is in an attachment; for operators."""
    where = path("messages", id, "attachments", str(number))
    return Call(method="GET", path=where, answer=bytes, repeatable=True)


class Messages(Room[When]):
    """``client.messages``."""

    page = Verb(page)
    get = Verb(get)
    raw = Verb(raw)
    attachment = Verb(attachment)
