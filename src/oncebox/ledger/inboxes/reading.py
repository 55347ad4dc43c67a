"""Reading: the messages of an inbox by their numbers, and one with all that is known of it."""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import msgspec

from oncebox.errors import NotFound
from oncebox.model.filing import Copy, Document, Message
from oncebox.store.database import Row, Transaction
from oncebox.store.queries import load

_sql = load(__package__, "reading.sql")

#: bytes of documents that one page may bring into memory
_MOST_BYTES = 8 * 1024 * 1024
#: bytes of a document that is read along with its message; a larger one is fetched apart
_READ_ALONG = 64 * 1024
#: copies that are shown of one message
_MOST_COPIES = 100
_FIELDS = Message.__struct_fields__


class Page(NamedTuple):
    """Some messages of an inbox, and whether there are more."""

    messages: list[Message]
    has_more: bool
    #: by id, where they were wanted and are still there
    documents: dict[str, Document]


class Whole(NamedTuple):
    """One message and all that is known of it."""

    message: Message
    #: none once its time is over
    document: Document | None
    copies: list[Copy]


def page(  # noqa: PLR0913 - which ones, for whom, and how much of them
    tx: Transaction,
    tenant: str,
    inbox_id: str,
    *,
    owner: str | None = None,
    after: int = 0,
    most: int = 50,
    documents: bool = False,
) -> Page:
    """Return the messages of an inbox after a number; ``owner`` is the agent that asks.

    Raises: NotFound, when there is no such inbox for who asks.
    """
    if tx.one(_sql.inbox, id=inbox_id, tenant=tenant, owner=owner) is None:
        message = "there is no such inbox"
        raise NotFound(message)
    rows = tx.all(
        _sql.page,
        inbox_id=inbox_id,
        tenant=tenant,
        after=after,
        most=most + 1,
        longest=_READ_ALONG if documents else -1,
    )
    found = [_message(row[:-1]) for row in rows]
    wanted = found[:most]
    if not documents:
        return Page(wanted, len(found) > most, {})
    wanted = _within_memory(wanted)
    known = {str(row[0]): _document(row[-1]) for row in rows[: len(wanted)] if row[-1]}
    known |= _documents(tx, tenant, [each for each in wanted if each.id not in known])
    return Page(wanted, len(found) > len(wanted), known)


def get(tx: Transaction, tenant: str, id_: str, *, owner: str | None = None) -> Whole:
    """Return one message with its document and its copies.

    Raises: NotFound.
    """
    message = _found(tx, tenant, id_, owner)
    rows = tx.all(_sql.copies, message_id=id_, tenant=tenant, most=_MOST_COPIES)
    copies = [_copy(row) for row in rows]
    return Whole(message, _documents(tx, tenant, [message]).get(id_), copies)


def raw(tx: Transaction, tenant: str, id_: str) -> bytes:
    """Return a message exactly as it was received.

    Raises: NotFound.
    """
    row = tx.one(_sql.raw, id=id_, tenant=tenant)
    if row is None:
        _found(tx, tenant, id_, None)
        message = "this message's raw bytes are no longer kept"
        raise NotFound(message)
    body, start, size = row
    whole = bytes(body)
    return whole if (start, size) == (0, len(whole)) else whole[start : start + size]


def _found(tx: Transaction, tenant: str, id_: str, owner: str | None) -> Message:
    row = tx.one(_sql.one, id=id_, tenant=tenant, owner=owner)
    if row is None:
        message = "there is no such message"
        raise NotFound(message)
    return _message(row)


def _within_memory(messages: list[Message]) -> list[Message]:
    """Take messages until their documents would fill the memory, but always the first."""
    totals = accumulate(each.document_size for each in messages)
    fits = [each for each, total in zip(messages, totals, strict=True) if total <= _MOST_BYTES]
    return fits or messages[:1]


def _documents(tx: Transaction, tenant: str, messages: Sequence[Message]) -> dict[str, Document]:
    ids = [(each.id,) for each in messages if each.document_size]
    rows = tx.many(_sql.documents, ids, tenant=tenant)
    return {str(id_): _document(document) for id_, document in rows if document}


def _document(encoded: bytes) -> Document:
    return msgspec.json.decode(encoded, type=Document)


def _message(row: Row) -> Message:
    values = dict(zip(_FIELDS, row, strict=True))
    values["matched"] = bool(values["matched"])
    values["warnings"] = msgspec.json.decode(values["warnings"], type=tuple[str, ...])
    return Message(**values)


def _copy(row: Row) -> Copy:
    delivery_id, at, road, differs = row
    codes = msgspec.json.decode(differs, type=tuple[str, ...])
    return Copy(delivery_id=delivery_id, at=at, road=road, differs=codes)
