"""Messages: file mail once per inbox, number it, read it back decrypted."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, groupby
from typing import NamedTuple

import msgspec

from oncebox.core import faults
from oncebox.db.database import Row, Transaction
from oncebox.db.queries import load
from oncebox.errors import DatabaseBusy, NotFound, RowRefused
from oncebox.errors.mail import MailDecryptionFailed
from oncebox.ledger import ciphers as vaults
from oncebox.ledger.artifacts import artifacts
from oncebox.ledger.artifacts.artifacts import FiledMessage
from oncebox.ledger.ciphers import MailCipher
from oncebox.ledger.events import event_log
from oncebox.model.events import NewEvent
from oncebox.model.inboxes.inbox import InboxPolicy
from oncebox.model.inboxes.message import (
    COPIES_DIFFER,
    DOCUMENT_UNREADABLE,
    MESSAGE_ID_REUSED,
    Message,
    MessageCopy,
    MessageDocument,
    NewMessage,
    NewMessageResult,
    differing_parts,
    message_event_data,
    sender_verdict,
    storable_text,
)
from oncebox.model.inboxes.received_mail import ArtifactKind, ParsedMail

_sql = load(__package__, "messages.sql")

#: the event of a new message
MESSAGE_RECEIVED = "message.received"

#: what makes a message: its inbox and its identity
MessageKey = tuple[str, bytes]


class _OriginalMessage(NamedTuple):
    """A message that copies are compared with."""

    message_id: str
    warnings: tuple[str, ...]
    #: what was read of it; none once its time is over, or where it cannot be opened
    parsed: ParsedMail | None
    #: it is in this very batch
    new: bool


class _DuplicateMail(NamedTuple):
    """A further delivery of a message."""

    filing: NewMessage
    original: _OriginalMessage
    differs: tuple[str, ...]


def file(
    tx: Transaction, filings: Sequence[NewMessage], now: int, *, vault: MailCipher
) -> list[NewMessageResult]:
    """File mail into its inboxes; answer each in order.

    The vault opens what copies are compared with. Whoever files locks the inboxes first, so
    nobody else numbers meanwhile. If that were not so, the unique indexes would refuse the
    second, and all is undone and tried again.

    Raises: RowRefused, when an inbox is missing; DatabaseBusy.
    """
    ordered = sorted(filings, key=_arrival_order)
    inboxes = sorted({each.inbox_id for each in ordered})
    if len(tx.many(_sql.lock, [(id_,) for id_ in inboxes])) < len(inboxes):
        raise RowRefused("there is no such inbox")
    brought = _already_filed(tx, ordered)
    fresh = [each for each in ordered if each.delivery.id not in brought]
    first, copies = _split_duplicates(tx, vault, fresh)
    reused = _reused_message_ids(tx, first)
    counters = _advance_counters(tx, first, copies)
    numbers = _assign_numbers(first, counters)
    _insert_messages(tx, first, copies, numbers, reused, now)
    ends = artifacts.file(
        tx, (FiledMessage(each, *numbers[each.message_id]) for each in first), now
    )
    faults.point("mail.filed")
    answers = {id_: NewMessageResult(message_id=message) for id_, message in brought.items()}
    answers |= {
        each.delivery.id: _filed_new(each, numbers, reused, ends.get(each.message_id, ()))
        for each in first
    }
    answers |= {each.filing.delivery.id: _filed_duplicate(each) for each in copies}
    return [answers[each.delivery.id] for each in filings]


def inbox_policies(tx: Transaction, inboxes: Sequence[tuple[str, str]]) -> list[InboxPolicy | None]:
    """Return the policies of inboxes, in order; each is named by its id and its tenant."""
    rows = tx.many(_sql.policies, sorted(set(inboxes)))
    found = {str(id_): msgspec.json.decode(policy, type=InboxPolicy) for id_, policy in rows}
    return [found.get(id_) for id_, _tenant in inboxes]


def tenants_with_mail(tx: Transaction, now: int) -> list[str]:
    """Return the tenants that have unprocessed mail."""
    return [str(tenant) for (tenant,) in tx.all(_sql.waiting, now=now)]


def _arrival_order(filing: NewMessage) -> tuple[str, int, str]:
    return (filing.inbox_id, filing.delivery.received_at, filing.delivery.id)


def _message_key(filing: NewMessage) -> MessageKey:
    return (filing.inbox_id, filing.identity)


# what is known already


def _already_filed(tx: Transaction, filings: Iterable[NewMessage]) -> dict[str, str]:
    """Return the messages that these very deliveries have brought before.

    A first try cannot have: its delivery and its message would be done together.
    """
    again = [(each.delivery.id,) for each in filings if each.delivery.fence > 1]
    return {str(id_): str(message) for id_, message in tx.many(_sql.brought, again)}


def _split_duplicates(
    tx: Transaction, vault: MailCipher, fresh: Sequence[NewMessage]
) -> tuple[list[NewMessage], list[_DuplicateMail]]:
    """Tell new messages from copies of those that their inbox has, or that came just before."""
    asked = {(each.inbox_id, identity) for each in fresh for identity in each.identities}
    rows = tx.many(_sql.known, sorted(asked))
    originals = {(str(row[0]), bytes(row[1])): _stored_original(vault, row) for row in rows}
    first, copies = [], []
    for each in fresh:
        known = (originals.get((each.inbox_id, identity)) for identity in each.identities)
        original = next(filter(None, known), None)
        if original is None:
            originals[_message_key(each)] = _OriginalMessage(
                each.message_id, (), each.parsed, new=True
            )
            first.append(each)
        else:
            unknown = original.parsed is None
            differs = () if unknown else differing_parts(original.parsed, each.parsed)  # type: ignore[arg-type]
            copies.append(_DuplicateMail(each, original, differs))
    return first, copies


def _stored_original(vault: MailCipher, row: Row) -> _OriginalMessage:
    _inbox, _identity, id_, tenant, warnings, document = row
    known = msgspec.json.decode(warnings, type=tuple[str, ...])
    return _OriginalMessage(
        str(id_), known, _decrypted_parsed(vault, tenant, id_, document), new=False
    )


def _decrypted_parsed(
    vault: MailCipher, tenant: str, id_: str, document: bytes
) -> ParsedMail | None:
    """Return what was read of a message; a copy is a copy also where that cannot be opened."""
    if not document:
        return None
    try:
        encoded = vault.decrypt(document, vaults.document_aad(tenant, id_))
        return msgspec.json.decode(encoded, type=MessageDocument).parsed
    except (MailDecryptionFailed, msgspec.MsgspecError):  # damaged, or of a later version
        return None


def _reused_message_ids(tx: Transaction, first: Sequence[NewMessage]) -> set[str]:
    """Return which new messages bear a Message-ID under which another text came before."""
    marks = {(each.inbox_id, each.parsed.message_mark) for each in first}
    rows = sorted((inbox, mark) for inbox, mark in marks if mark is not None)
    taken = {(str(inbox), bytes(mark)) for inbox, mark in tx.many(_sql.marked, rows)}
    reused = set()
    for each in first:
        if each.parsed.message_mark is None:
            continue
        mark = (each.inbox_id, each.parsed.message_mark)
        if mark in taken:
            reused.add(each.message_id)
        taken.add(mark)
    return reused


# numbers


class _InboxCounter(NamedTuple):
    """What is known of an inbox where mail was counted."""

    last: int
    attempt_id: str | None
    created_at: int


def _advance_counters(
    tx: Transaction, first: Sequence[NewMessage], copies: Sequence[_DuplicateMail]
) -> dict[str, _InboxCounter]:
    """Count what came to each inbox; return its last number, its attempt and its age."""
    copied = Counter(each.filing.inbox_id for each in copies)
    new: defaultdict[str, list[NewMessage]] = defaultdict(list)
    for filing in first:
        new[filing.inbox_id].append(filing)
    tenants = {each.inbox_id: each.delivery.tenant for each in first}
    tenants |= {each.filing.inbox_id: each.filing.delivery.tenant for each in copies}
    rows = []
    for inbox, tenant in sorted(tenants.items()):
        times = [each.delivery.received_at for each in new[inbox]]
        matched = sum(each.matched for each in new[inbox])
        rows.append((
            inbox, tenant, len(times), copied[inbox], matched,
            min(times, default=None), max(times, default=None),
        ))  # fmt: skip
    found = tx.many(_sql.advance, rows)
    if len(found) < len(rows):
        raise RowRefused("the inbox is not this tenant's")
    return {str(inbox): _InboxCounter(int(cursor), *rest) for inbox, cursor, *rest in found}


class _MessageNumber(NamedTuple):
    """Where a new message stands."""

    sequence: int
    attempt_id: str | None
    #: when its inbox was made
    inbox_created_at: int


def _assign_numbers(
    first: Sequence[NewMessage], counters: Mapping[str, _InboxCounter]
) -> dict[str, _MessageNumber]:
    """Give the numbers out, in turn; the counter already stands at the last."""
    places = {}
    for inbox, group in groupby(first, key=lambda each: each.inbox_id):
        filings = list(group)
        last, attempt, since = counters[inbox]
        for number, each in enumerate(filings, last - len(filings) + 1):
            places[each.message_id] = _MessageNumber(number, attempt, since)
    return places


# writing


def _insert_messages(
    tx: Transaction,
    first: Sequence[NewMessage],
    copies: Sequence[_DuplicateMail],
    places: Mapping[str, _MessageNumber],
    reused: set[str],
    now: int,
) -> None:
    count, differing = Counter[str](), set()
    for copy in copies:
        count[copy.original.message_id] += 1
        if copy.differs:
            differing.add(copy.original.message_id)
    warned = {each.message_id: _all_warnings(each, differing, reused) for each in first}
    rows = [
        _message_row(each, places[each.message_id].sequence, count[each.message_id], warned)
        for each in first
    ]
    links = [_copy_row(each, each.message_id, ()) for each in first]
    links += [_copy_row(each.filing, each.original.message_id, each.differs) for each in copies]
    if tx.run_many(_sql.insert, rows) < len(rows) or (
        tx.run_many(_sql.copy, sorted(links), now=now) < len(links)
    ):
        raise DatabaseBusy("somebody else filed the same mail; try again")
    tx.run_many(_sql.count_copies, _copy_count_rows(copies, count, differing))
    event_log.record(
        tx, [_received_event(each, places[each.message_id], warned, now) for each in first]
    )


def _all_warnings(filing: NewMessage, differing: set[str], reused: set[str]) -> tuple[str, ...]:
    own = ((MESSAGE_ID_REUSED, reused), (COPIES_DIFFER, differing))
    return (*filing.parsed.warnings, *(code for code, ids in own if filing.message_id in ids))


def _message_row(
    filing: NewMessage, sequence: int, duplicates: int, warned: Mapping[str, tuple[str, ...]]
) -> Row:
    parsed, delivery = filing.parsed, filing.delivery
    return (
        filing.message_id, delivery.tenant, filing.inbox_id, sequence, filing.identity,
        parsed.message_mark, delivery.id, str(parsed.status), delivery.received_at,
        len(delivery.body), storable_text(filing.recipient), storable_text(parsed.sender.address),
        storable_text(parsed.sender.domain), sender_verdict(parsed, filing.document.verdict),
        int(filing.matched), duplicates, msgspec.json.encode(warned[filing.message_id]),
        filing.encoded,
    )  # fmt: skip


def _copy_row(filing: NewMessage, message_id: str, differs: tuple[str, ...]) -> Row:
    delivery = filing.delivery
    return (delivery.id, delivery.tenant, message_id, msgspec.json.encode(differs))


def _copy_count_rows(
    copies: Sequence[_DuplicateMail], count: Counter[str], differing: set[str]
) -> list[Row]:
    """Return what changes about messages that were there before."""
    rows = {}
    for _filing, original, _differs in copies:
        if original.new:
            continue
        more = {COPIES_DIFFER} if original.message_id in differing else set()
        warnings = (*original.warnings, *(more - set(original.warnings)))
        encoded = msgspec.json.encode(warnings)
        rows[original.message_id] = (original.message_id, count[original.message_id], encoded)
    return sorted(rows.values())


def _received_event(
    filing: NewMessage, place: _MessageNumber, warned: Mapping[str, tuple[str, ...]], now: int
) -> NewEvent:
    return NewEvent(
        id=filing.event_id,
        tenant=filing.delivery.tenant,
        type=MESSAGE_RECEIVED,
        inbox_id=filing.inbox_id,
        attempt_id=place.attempt_id,
        subject_id=filing.message_id,
        at=now,
        data=message_event_data(filing, place.sequence, warned[filing.message_id]),
    )


# answers


def _filed_new(
    filing: NewMessage,
    places: Mapping[str, _MessageNumber],
    reused: set[str],
    ends: Sequence[tuple[ArtifactKind, str]],
) -> NewMessageResult:
    return NewMessageResult(
        message_id=filing.message_id,
        status=str(filing.parsed.status),
        sequence=places[filing.message_id].sequence,
        reused=filing.message_id in reused,
        artifacts=tuple(ends),
    )


def _filed_duplicate(copy: _DuplicateMail) -> NewMessageResult:
    return NewMessageResult(
        message_id=copy.original.message_id, duplicate=True, differs=copy.differs
    )


#: bytes of documents that one page may bring into memory
_MOST_PAGE_BYTES = 8 * 1024 * 1024
#: bytes of a document that is read along with its message; a larger one is fetched apart
_READ_ALONG = 64 * 1024
#: copies that are shown of one message
_MOST_COPIES = 100
_FIELDS = Message.__struct_fields__


class MessagePage(NamedTuple):
    """Some messages of an inbox, and whether there are more."""

    messages: list[Message]
    has_more: bool
    #: by id, where they were wanted, are still there and can be opened
    documents: dict[str, MessageDocument]


class FullMessage(NamedTuple):
    """One message and all that is known of it."""

    message: Message
    #: none once its time is over, or where it cannot be opened
    document: MessageDocument | None
    copies: list[MessageCopy]


def page(  # noqa: PLR0913 - which ones, for whom, and how much of them
    tx: Transaction,
    tenant: str,
    inbox_id: str,
    *,
    owner: str | None = None,
    after: int = 0,
    most: int = 50,
    documents: MailCipher | None = None,
) -> MessagePage:
    """Return the messages of an inbox after a number; ``owner`` is the agent that asks.

    With a vault, what was read of them comes along. One that cannot be opened keeps none of the
    others away: it is missing, and its message warns.

    Raises: NotFound, when there is no such inbox for who asks.
    """
    if tx.one(_sql.inbox, id=inbox_id, tenant=tenant, owner=owner) is None:
        raise NotFound("there is no such inbox")
    rows = tx.all(
        _sql.page,
        inbox_id=inbox_id,
        tenant=tenant,
        after=after,
        most=most + 1,
        longest=_READ_ALONG if documents else -1,
    )
    found = [_to_message(row[:-1]) for row in rows]
    wanted = found[:most]
    if not documents:
        return MessagePage(wanted, len(found) > most, {})
    wanted = _within_memory(wanted)
    along = [(str(row[0]), row[-1]) for row in rows[: len(wanted)] if row[-1]]
    known = _decrypt_documents(documents, tenant, along)
    known |= _read_documents(
        tx, documents, tenant, [each for each in wanted if each.id not in known]
    )
    readable = {id_: document for id_, document in known.items() if document is not None}
    return MessagePage(
        [_with_warning(each, known) for each in wanted], len(found) > len(wanted), readable
    )


def get(
    tx: Transaction, vault: MailCipher, tenant: str, id_: str, *, owner: str | None = None
) -> FullMessage:
    """Return one message with its document and its copies.

    Raises: NotFound.
    """
    message = _find_message(tx, tenant, id_, owner)
    rows = tx.all(_sql.copies, message_id=id_, tenant=tenant, most=_MOST_COPIES)
    copies = [_to_copy(row) for row in rows]
    known = _read_documents(tx, vault, tenant, [message])
    return FullMessage(_with_warning(message, known), known.get(id_), copies)


def raw(tx: Transaction, vault: MailCipher, tenant: str, id_: str) -> bytes:
    """Return a message exactly as it was received.

    Raises: NotFound; MailDecryptionFailed.
    """
    row = tx.one(_sql.raw, id=id_, tenant=tenant)
    if row is None:
        _find_message(tx, tenant, id_, None)
        raise NotFound("this message's raw bytes are no longer kept")
    payload_id, stored, start, size = row
    whole = vault.decrypt(stored, vaults.mail_aad(tenant, payload_id))
    return whole if (start, size) == (0, len(whole)) else whole[start : start + size]


def _find_message(tx: Transaction, tenant: str, id_: str, owner: str | None) -> Message:
    row = tx.one(_sql.one, id=id_, tenant=tenant, owner=owner)
    if row is None:
        raise NotFound("there is no such message")
    return _to_message(row)


def _within_memory(messages: list[Message]) -> list[Message]:
    """Take messages until their documents would fill the memory, but always the first."""
    totals = accumulate(each.document_size for each in messages)
    fits = [each for each, total in zip(messages, totals, strict=True) if total <= _MOST_PAGE_BYTES]
    return fits or messages[:1]


def _read_documents(
    tx: Transaction, vault: MailCipher, tenant: str, messages: Sequence[Message]
) -> dict[str, MessageDocument | None]:
    ids = [(each.id,) for each in messages if each.document_size]
    rows = tx.many(_sql.documents, ids, tenant=tenant)
    return _decrypt_documents(vault, tenant, [(str(id_), stored) for id_, stored in rows if stored])


def _decrypt_documents(
    vault: MailCipher, tenant: str, stored: Sequence[tuple[str, bytes]]
) -> dict[str, MessageDocument | None]:
    """Return what was read of messages; nothing where it cannot be opened."""
    found: dict[str, MessageDocument | None] = {}
    for id_, sealed in stored:
        try:
            encoded = vault.decrypt(sealed, vaults.document_aad(tenant, id_))
            found[id_] = msgspec.json.decode(encoded, type=MessageDocument)
        except (MailDecryptionFailed, msgspec.MsgspecError):  # damaged, or of a later version
            found[id_] = None
    return found


def _with_warning(message: Message, known: dict[str, MessageDocument | None]) -> Message:
    """Return a message that warns if what was read of it cannot be opened."""
    if message.id not in known or known[message.id] is not None:
        return message
    return msgspec.structs.replace(message, warnings=(*message.warnings, DOCUMENT_UNREADABLE))


def _to_message(row: Row) -> Message:
    values = dict(zip(_FIELDS, row, strict=True))
    values["matched"] = bool(values["matched"])
    values["warnings"] = msgspec.json.decode(values["warnings"], type=tuple[str, ...])
    return Message(**values)


def _to_copy(row: Row) -> MessageCopy:
    delivery_id, at, road, differs = row
    codes = msgspec.json.decode(differs, type=tuple[str, ...])
    return MessageCopy(delivery_id=delivery_id, at=at, road=road, differs=codes)
