"""Messages: file mail once per inbox, number it, read it back decrypted.

See docs/decisions/0007-use-commit-order-for-message-and-event-numbers.md.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import msgspec

from oncebox.core import faults
from oncebox.db.database import Row, SentStatement, Transaction
from oncebox.db.queries import load
from oncebox.errors import DatabaseBusy, NotFound, RowRefused
from oncebox.errors.mail import MailDecryptionFailed
from oncebox.ledger.artifacts import artifacts
from oncebox.ledger.artifacts.artifacts import FiledMessage
from oncebox.ledger.ciphers import MailCipher, document_aad, mail_aad
from oncebox.ledger.events import event_log
from oncebox.ledger.inboxes import quotas
from oncebox.model.admin.access import DEFAULT_TENANT
from oncebox.model.events import EventType, NewEvent
from oncebox.model.inboxes.addresses import organisational_domain
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
    storable_text,
)
from oncebox.model.inboxes.replay import REPLAY_SIGNS

_sql = load(__package__, "messages.sql")


class _OriginalMessage(NamedTuple):
    """A message that copies are compared with."""

    message_id: str
    warnings: tuple[str, ...]
    #: none after its retention time, or where it cannot be decrypted
    document: MessageDocument | None
    #: it is filed in the same call
    new: bool


class _DuplicateMail(NamedTuple):
    """A further delivery of a message."""

    filing: NewMessage
    original: _OriginalMessage
    differs: tuple[str, ...]


def file(
    tx: Transaction, filings: Sequence[NewMessage], now: int, *, cipher: MailCipher
) -> list[NewMessageResult]:
    """File mail into its inboxes; return the results in order.

    The inboxes are locked first, so that nobody else numbers their messages meanwhile. If the
    lock failed, the unique indexes would refuse the second writer, and its call is repeated.

    Raises: RowRefused, when an inbox is missing; DatabaseBusy.
    """
    ordered = sorted(
        filings, key=lambda each: (each.inbox_id, each.delivery.received_at, each.delivery.id)
    )
    known, stored, marked = _lock_and_look(tx, ordered)
    fresh = [each for each in ordered if each.delivery.id not in known]
    first, copies = _split_duplicates(cipher, fresh, stored)
    reused = _reused_message_ids(first, marked)
    filed = _number_messages(tx, first, copies)
    warnings = _warnings_of(filed, copies, reused)
    inserts = _insert_messages(tx, filed, copies, warnings, now)
    outcomes, events = artifacts.file(tx, filed, now)
    if any(sent.count() < expected for sent, expected in inserts):
        raise DatabaseBusy("the same mail was filed at the same time; try again")
    received = [_received_event(each, warnings, now) for each in filed]
    numbered = event_log.record_numbered(tx, [*received, *events])
    faults.point("mail.filed")
    results = {id_: NewMessageResult(message_id=message) for id_, message in known.items()}
    for filing, sequence, _attempt_id, created_at in filed:
        since_inbox = max(0, filing.delivery.received_at - created_at)
        results[filing.delivery.id] = NewMessageResult(
            message_id=filing.message_id,
            status=str(filing.document.parsed.status),
            sequence=sequence,
            reused=filing.message_id in reused,
            artifacts=tuple(outcomes.get(filing.message_id, ())),
            numbered=numbered,
            since_inbox=since_inbox if sequence == 1 else None,
        )
    for filing, original, differs in copies:
        results[filing.delivery.id] = NewMessageResult(
            message_id=original.message_id, duplicate=True, differs=differs
        )
    return [results[each.delivery.id] for each in filings]


class InboxRules(NamedTuple):
    """What decides whether a mail matches an inbox."""

    policy: InboxPolicy
    created_at: int


def inbox_rules(tx: Transaction, inboxes: Sequence[tuple[str, str]]) -> list[InboxRules | None]:
    """Return the rules of inboxes in order; each is given by its id and its tenant."""
    found = {
        str(id_): InboxRules(msgspec.json.decode(policy, type=InboxPolicy), int(created_at))
        for id_, policy, created_at in tx.many(_sql.rules, sorted(set(inboxes)))
    }
    return [found.get(id_) for id_, _tenant in inboxes]


def tenants_with_mail(tx: Transaction, now: int, heavy: int = 0) -> list[str]:
    """Return the tenants that have unprocessed mail, heavy or not."""
    return [str(tenant) for (tenant,) in tx.all(_sql.waiting, heavy=heavy, now=now)]


def _lock_and_look(
    tx: Transaction, filings: Sequence[NewMessage]
) -> tuple[dict[str, str], list[Row], list[Row]]:
    """Lock the inboxes, then look in one round trip for what was stored before.

    Return the messages that deliveries stored, by delivery, the messages with the same identity,
    and the Message-IDs that the inboxes received.

    Raises: RowRefused.
    """
    inboxes = sorted({each.inbox_id for each in filings})
    locked = tx.send_many(_sql.lock, [(id_,) for id_ in inboxes])
    # A first try has not been filed before: a delivery and its message are committed together.
    again = [(each.delivery.id,) for each in filings if each.delivery.fence > 1]
    brought = tx.send_many(_sql.brought, again)
    stored = tx.send_many(_sql.known, sorted(_identities(filings)))
    marked = tx.send_many(_sql.marked, sorted({mark for _, mark in _message_marks(filings)}))
    if len(locked.rows()) < len(inboxes):
        raise RowRefused("there is no such inbox")
    known = {str(id_): str(message) for id_, message in brought.rows()}
    return known, stored.rows(), marked.rows()


def _identities(filings: Iterable[NewMessage]) -> set[tuple[str, bytes]]:
    """Return by what the messages are recognised in their inboxes."""
    return {(each.inbox_id, identity) for each in filings for identity in each.identities}


def _split_duplicates(
    cipher: MailCipher, fresh: Sequence[NewMessage], stored: Iterable[Row]
) -> tuple[list[NewMessage], list[_DuplicateMail]]:
    """Separate new messages from copies of stored messages or of earlier ones in this call."""
    originals: dict[tuple[str, bytes], _OriginalMessage] = {}
    for inbox, identity, id_, tenant, warnings, encrypted in stored:
        known = msgspec.json.decode(warnings, type=tuple[str, ...])
        document = _decrypt_document(cipher, tenant, id_, encrypted) if encrypted else None
        original = _OriginalMessage(str(id_), known, document, new=False)
        originals[str(inbox), bytes(identity)] = original
    first, copies = [], []
    for each in fresh:
        candidates = (originals.get((each.inbox_id, identity)) for identity in each.identities)
        found = next(filter(None, candidates), None)
        if found is None:
            original = _OriginalMessage(each.message_id, (), each.document, new=True)
            originals[each.inbox_id, each.identities[-1]] = original
            first.append(each)
        else:
            parsed, document = each.document.parsed, found.document
            differs = differing_parts(document.parsed, parsed) if document else ()
            copies.append(_DuplicateMail(each, found, differs))
    return first, copies


def _message_marks(filings: Iterable[NewMessage]) -> list[tuple[str, tuple[str, bytes]]]:
    """Return messages with the marks of their Message-IDs in their inboxes."""
    return [
        (each.message_id, (each.inbox_id, each.document.parsed.message_mark))
        for each in filings
        if each.document.parsed.message_mark is not None
    ]


def _reused_message_ids(first: Sequence[NewMessage], stored: Iterable[Row]) -> set[str]:
    """Return the new messages under whose Message-ID another text arrived before."""
    taken = {(str(inbox), bytes(mark)) for inbox, mark in stored}
    reused = set()
    for message_id, mark in _message_marks(first):
        if mark in taken:
            reused.add(message_id)
        taken.add(mark)
    return reused


def _number_messages(
    tx: Transaction, first: Sequence[NewMessage], copies: Sequence[_DuplicateMail]
) -> list[FiledMessage]:
    """Count the mail of each inbox, and number the new messages in the order of arrival."""
    new: defaultdict[str, list[NewMessage]] = defaultdict(list)
    for filing in first:
        new[filing.inbox_id].append(filing)
    every = (*first, *(copy.filing for copy in copies))
    tenants = {each.inbox_id: each.delivery.tenant for each in every}
    copied = Counter(copy.filing.inbox_id for copy in copies)
    stored: Counter[str] = Counter()
    for each in every:
        stored[each.inbox_id] += len(each.delivery.body)
    rows = []
    for inbox, tenant in sorted(tenants.items()):
        times = [each.delivery.received_at for each in new[inbox]]
        matched = sum(not each.document.mismatch for each in new[inbox])
        rows.append((
            inbox, tenant, len(times), copied[inbox], matched,
            min(times, default=None), max(times, default=None), stored[inbox],
        ))  # fmt: skip
    counters = {str(inbox): rest for inbox, *rest in tx.many(_sql.advance, rows)}
    if len(counters) < len(rows):
        raise RowRefused("the inbox is not this tenant's")
    quotas.add_stored(tx, ((tenants[inbox], count) for inbox, count in stored.items()))
    filed = []
    for inbox, filings in new.items():
        last, attempt_id, created_at = counters[inbox]
        for number, filing in enumerate(filings, int(last) - len(filings) + 1):
            filed.append(FiledMessage(filing, number, attempt_id, created_at))
    return filed


# writing


def _warnings_of(
    filed: Sequence[FiledMessage], copies: Sequence[_DuplicateMail], reused: set[str]
) -> dict[str, tuple[str, ...]]:
    """Return the warnings of new messages, by id."""
    differing = {copy.original.message_id for copy in copies if copy.differs}
    return {each.filing.message_id: _warnings(each, differing, reused) for each in filed}


def _insert_messages(
    tx: Transaction,
    filed: Sequence[FiledMessage],
    copies: Sequence[_DuplicateMail],
    warnings: Mapping[str, tuple[str, ...]],
    now: int,
) -> list[tuple[SentStatement, int]]:
    """Send the inserts; return each with the number of rows it must insert."""
    count = Counter(copy.original.message_id for copy in copies)
    rows = [_message_row(each, count, warnings) for each in filed]
    links = [_copy_row(each.filing, each.filing.message_id, ()) for each in filed]
    links += [_copy_row(each.filing, each.original.message_id, each.differs) for each in copies]
    inserts = [
        (tx.send_many(_sql.insert, rows), len(rows)),
        (tx.send_many(_sql.copy, sorted(links), now=now), len(links)),
    ]
    tx.send_many(_sql.count_copies, _copy_count_rows(copies, count))
    return inserts


def _warnings(filed: FiledMessage, differing: set[str], reused: set[str]) -> tuple[str, ...]:
    own = ((MESSAGE_ID_REUSED, reused), (COPIES_DIFFER, differing))
    found = (code for code, ids in own if filed.filing.message_id in ids)
    document = filed.filing.document
    replay = (sign for sign in REPLAY_SIGNS if sign in document.verdict.details)
    return (*document.parsed.warnings, *replay, *found)


def _message_row(
    filed: FiledMessage, count: Counter[str], warnings: Mapping[str, tuple[str, ...]]
) -> Row:
    filing = filed.filing
    parsed, delivery = filing.document.parsed, filing.delivery
    return (
        filing.message_id, delivery.tenant, filing.inbox_id, filed.sequence, filing.identities[-1],
        parsed.message_mark, delivery.id, str(parsed.status), delivery.received_at,
        len(delivery.body), filing.recipient, storable_text(parsed.sender.address),
        storable_text(parsed.sender.domain), organisational_domain(filing.sender_domain),
        filing.sender_verdict, int(not filing.document.mismatch), count[filing.message_id],
        msgspec.json.encode(warnings[filing.message_id]), filing.encoded,
    )  # fmt: skip


def _copy_row(filing: NewMessage, message_id: str, differs: tuple[str, ...]) -> Row:
    delivery = filing.delivery
    return (delivery.id, delivery.tenant, message_id, msgspec.json.encode(differs))


def _copy_count_rows(copies: Sequence[_DuplicateMail], count: Counter[str]) -> list[Row]:
    """Return the changes to messages that were stored before."""
    differing = {copy.original.message_id for copy in copies if copy.differs}
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
    filed: FiledMessage, warnings: Mapping[str, tuple[str, ...]], now: int
) -> NewEvent:
    """Return the event of a new message; nothing in it is a sender's text."""
    filing = filed.filing
    parsed = filing.document.parsed
    return NewEvent(
        id=filing.event_id,
        tenant=filing.delivery.tenant,
        type=EventType.MESSAGE_RECEIVED,
        inbox_id=filing.inbox_id,
        attempt_id=filed.attempt_id,
        subject_id=filing.message_id,
        at=now,
        data={
            "sequence": filed.sequence,
            "status": str(parsed.status),
            "size": len(filing.delivery.body),
            "sender_domain": filing.sender_domain,
            "sender_verdict": filing.sender_verdict,
            "matched": not filing.document.mismatch,
            "attachments": len(parsed.attachments),
            "warnings": list(warnings[filing.message_id]),
        },
    )


# reading

#: bytes of documents that one page may load into memory
_MOST_PAGE_BYTES = 8 * 1024 * 1024
#: bytes of a document that is read together with its message; a larger one is read separately
_READ_ALONG = 64 * 1024
#: messages of an inbox that a wait may grant, of proven and of unproven senders each
_MOST_CANDIDATES = 50
#: copies that are returned with a message
_MOST_COPIES = 100
_FIELDS = Message.__struct_fields__


class MessagePage(NamedTuple):
    """Some messages of an inbox, and whether there are more."""

    messages: list[Message]
    has_more: bool
    #: by id, where requested, still stored and readable
    documents: dict[str, MessageDocument]


class CandidateMessage(NamedTuple):
    """A message that a wait for messages may grant."""

    message: Message
    #: what makes it the same message in its inbox
    identity: bytes


class FullMessage(NamedTuple):
    """One message with its document and its copies."""

    message: Message
    #: none after its retention time, or where it cannot be decrypted
    document: MessageDocument | None
    copies: list[MessageCopy]


def page(  # noqa: PLR0913 - which messages, for whom, and how much of them
    tx: Transaction,
    tenant: str,
    inbox_id: str,
    *,
    owner: str | None = None,
    after: int = 0,
    most: int = 50,
    documents: MailCipher | None = None,
) -> MessagePage:
    """Return the messages of an inbox after a number, for the agent ``owner``.

    With a cipher, their documents are returned too. One that cannot be decrypted is left out,
    and its message has a warning.

    Raises: NotFound, when the agent has no such inbox.
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
    known = {
        str(row[0]): _decrypt_document(documents, tenant, str(row[0]), row[-1])
        for row in rows[: len(wanted)]
        if row[-1]
    }
    known |= _read_documents(
        tx, documents, tenant, [each for each in wanted if each.id not in known]
    )
    readable = {id_: document for id_, document in known.items() if document is not None}
    return MessagePage(
        [_with_warning(each, known) for each in wanted], len(found) > len(wanted), readable
    )


def recent(
    tx: Transaction, tenant: str, *, before: str, most: int, documents: MailCipher
) -> MessagePage:
    """Return the messages of all inboxes of a tenant, newest first, below an id."""
    query = _sql.recent if tenant == DEFAULT_TENANT else _sql.recent_of_tenant
    ids = sorted(tx.all(query, tenant=tenant, before=before, most=most + 1))
    rows = tx.many(_sql.several, ids, tenant=tenant)
    found = sorted(map(_to_message, rows), key=lambda each: each.id, reverse=True)
    wanted = _within_memory(found[:most]) if found else []
    known = _read_documents(tx, documents, tenant, wanted)
    readable = {id_: document for id_, document in known.items() if document is not None}
    return MessagePage(
        [_with_warning(each, known) for each in wanted], len(found) > len(wanted), readable
    )


#: an inbox, and the organisational domain of a sender; empty: any sender
InboxSender = tuple[str, str]


def send_newest(tx: Transaction, wanted: Iterable[InboxSender]) -> SentStatement:
    """Send the query for the messages that a wait may grant; ``by_sender`` reads its result."""
    rows = sorted((*each, proven) for each in set(wanted) for proven in (0, 1))
    return tx.send_many(_sql.newest, rows, most=_MOST_CANDIDATES)


def by_sender(newest: SentStatement) -> dict[InboxSender, list[CandidateMessage]]:
    """Return the messages that a query found, by what was asked for."""
    found: defaultdict[InboxSender, list[CandidateMessage]] = defaultdict(list)
    for sender, *fields, identity in newest.rows():
        message = _to_message(tuple(fields))
        found[message.inbox_id, sender].append(CandidateMessage(message, bytes(identity)))
    return found


def documents_of(
    tx: Transaction, cipher: MailCipher, tenant: str, messages: list[Message]
) -> dict[str, MessageDocument | None]:
    """Return the documents of messages, as many as fit into memory; None cannot be decrypted."""
    return _read_documents(tx, cipher, tenant, _within_memory(messages))


def get(
    tx: Transaction, cipher: MailCipher, tenant: str, id_: str, *, owner: str | None = None
) -> FullMessage:
    """Return one message with its document and its copies.

    Raises: NotFound.
    """
    message = _find_message(tx, tenant, id_, owner)
    rows = tx.all(_sql.copies, message_id=id_, tenant=tenant, most=_MOST_COPIES)
    copies = [
        MessageCopy(
            delivery_id=delivery_id,
            at=at,
            road=road,
            differs=msgspec.json.decode(differs, type=tuple[str, ...]),
        )
        for delivery_id, at, road, differs in rows
    ]
    known = _read_documents(tx, cipher, tenant, [message])
    return FullMessage(_with_warning(message, known), known.get(id_), copies)


def raw(tx: Transaction, cipher: MailCipher, tenant: str, id_: str) -> bytes:
    """Return a message exactly as it was received.

    Raises: NotFound; MailDecryptionFailed.
    """
    row = tx.one(_sql.raw, id=id_, tenant=tenant)
    if row is None:
        _find_message(tx, tenant, id_, None)
        raise NotFound("this message's raw bytes are no longer kept")
    payload_id, stored, start, size = row
    whole = cipher.decrypt(stored, mail_aad(tenant, payload_id))
    return whole if (start, size) == (0, len(whole)) else whole[start : start + size]


def _find_message(tx: Transaction, tenant: str, id_: str, owner: str | None) -> Message:
    row = tx.one(_sql.one, id=id_, tenant=tenant, owner=owner)
    if row is None:
        raise NotFound("there is no such message")
    return _to_message(row)


def _within_memory(messages: list[Message]) -> list[Message]:
    """Return messages up to the memory limit for their documents, but always the first."""
    totals = accumulate(each.document_size for each in messages)
    fits = [each for each, total in zip(messages, totals, strict=True) if total <= _MOST_PAGE_BYTES]
    return fits or messages[:1]


def _read_documents(
    tx: Transaction, cipher: MailCipher, tenant: str, messages: Sequence[Message]
) -> dict[str, MessageDocument | None]:
    ids = [(each.id,) for each in messages if each.document_size]
    rows = tx.many(_sql.documents, ids, tenant=tenant)
    return {
        str(id_): _decrypt_document(cipher, tenant, str(id_), stored)
        for id_, stored in rows
        if stored
    }


def _decrypt_document(
    cipher: MailCipher, tenant: str, id_: str, stored: bytes
) -> MessageDocument | None:
    try:
        encoded = cipher.decrypt(stored, document_aad(tenant, id_))
        return msgspec.json.decode(encoded, type=MessageDocument)
    except (MailDecryptionFailed, msgspec.MsgspecError):  # damaged, or of a later version
        return None


def _with_warning(message: Message, known: dict[str, MessageDocument | None]) -> Message:
    """Return a message with a warning if its document cannot be decrypted."""
    if message.id not in known or known[message.id] is not None:
        return message
    return msgspec.structs.replace(message, warnings=(*message.warnings, DOCUMENT_UNREADABLE))


def _to_message(row: Row) -> Message:
    values = dict(zip(_FIELDS, row, strict=True))
    values["matched"] = bool(values["matched"])
    values["warnings"] = msgspec.json.decode(values["warnings"], type=tuple[str, ...])
    return Message(**values)
