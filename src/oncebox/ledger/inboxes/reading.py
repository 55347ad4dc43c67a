"""Reading: the messages of an inbox by their numbers, and one with all that is known of it."""

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import msgspec

from oncebox.errors import NotFound
from oncebox.ledger import vault as vaults
from oncebox.ledger.vault import Vault
from oncebox.mail_errors import MailNotOpened
from oncebox.model.filing import NOT_OPENED, Copy, Document, Message
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
    #: by id, where they were wanted, are still there and can be opened
    documents: dict[str, Document]


class Whole(NamedTuple):
    """One message and all that is known of it."""

    message: Message
    #: none once its time is over, or where it cannot be opened
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
    documents: Vault | None = None,
) -> Page:
    """Return the messages of an inbox after a number; ``owner`` is the agent that asks.

    With a vault, what was read of them comes along. One that cannot be opened keeps none of the
    others away: it is missing, and its message warns.

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
    along = [(str(row[0]), row[-1]) for row in rows[: len(wanted)] if row[-1]]
    known = _opened(documents, tenant, along)
    known |= _documents(tx, documents, tenant, [each for each in wanted if each.id not in known])
    readable = {id_: document for id_, document in known.items() if document is not None}
    return Page([_warned(each, known) for each in wanted], len(found) > len(wanted), readable)


def get(tx: Transaction, vault: Vault, tenant: str, id_: str, *, owner: str | None = None) -> Whole:
    """Return one message with its document and its copies.

    Raises: NotFound.
    """
    message = _found(tx, tenant, id_, owner)
    rows = tx.all(_sql.copies, message_id=id_, tenant=tenant, most=_MOST_COPIES)
    copies = [_copy(row) for row in rows]
    known = _documents(tx, vault, tenant, [message])
    return Whole(_warned(message, known), known.get(id_), copies)


def raw(tx: Transaction, vault: Vault, tenant: str, id_: str) -> bytes:
    """Return a message exactly as it was received.

    Raises: NotFound; MailNotOpened.
    """
    row = tx.one(_sql.raw, id=id_, tenant=tenant)
    if row is None:
        _found(tx, tenant, id_, None)
        message = "this message's raw bytes are no longer kept"
        raise NotFound(message)
    payload_id, stored, start, size = row
    whole = vault.open(stored, vaults.mail(tenant, payload_id))
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


def _documents(
    tx: Transaction, vault: Vault, tenant: str, messages: Sequence[Message]
) -> dict[str, Document | None]:
    ids = [(each.id,) for each in messages if each.document_size]
    rows = tx.many(_sql.documents, ids, tenant=tenant)
    return _opened(vault, tenant, [(str(id_), stored) for id_, stored in rows if stored])


def _opened(
    vault: Vault, tenant: str, stored: Sequence[tuple[str, bytes]]
) -> dict[str, Document | None]:
    """Return what was read of messages; nothing where it cannot be opened."""
    found: dict[str, Document | None] = {}
    for id_, sealed in stored:
        try:
            encoded = vault.open(sealed, vaults.document(tenant, id_))
            found[id_] = msgspec.json.decode(encoded, type=Document)
        except (MailNotOpened, msgspec.MsgspecError):  # damaged, or of a later version
            found[id_] = None
    return found


def _warned(message: Message, known: dict[str, Document | None]) -> Message:
    """Return a message that warns if what was read of it cannot be opened."""
    if message.id not in known or known[message.id] is not None:
        return message
    return msgspec.structs.replace(message, warnings=(*message.warnings, NOT_OPENED))


def _message(row: Row) -> Message:
    values = dict(zip(_FIELDS, row, strict=True))
    values["matched"] = bool(values["matched"])
    values["warnings"] = msgspec.json.decode(values["warnings"], type=tuple[str, ...])
    return Message(**values)


def _copy(row: Row) -> Copy:
    delivery_id, at, road, differs = row
    codes = msgspec.json.decode(differs, type=tuple[str, ...])
    return Copy(delivery_id=delivery_id, at=at, road=road, differs=codes)
