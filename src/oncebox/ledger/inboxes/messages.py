"""Messages: mail is filed into its inbox once, however often it came, and numbered there."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import msgspec

from oncebox import faults
from oncebox.errors import DatabaseBusy, RowRefused
from oncebox.ledger import vault as vaults
from oncebox.ledger.events import outbox
from oncebox.ledger.inboxes import artifacts
from oncebox.ledger.inboxes.artifacts import Brought
from oncebox.ledger.vault import Vault
from oncebox.mail_errors import MailNotOpened
from oncebox.model.candidate import Kind
from oncebox.model.event import NewEvent
from oncebox.model.filing import (
    DIFFERS,
    REUSED,
    Document,
    Filed,
    Filing,
    differences,
    sender_verdict,
    storable,
    told,
)
from oncebox.model.inbox import InboxPolicy
from oncebox.model.message import Parsed
from oncebox.store.database import Row, Transaction
from oncebox.store.queries import load

_sql = load(__package__, "messages.sql")

#: rings when messages were filed
MESSAGES = "messages"
#: the event of a new message
RECEIVED = "message.received"

#: what makes a message: its inbox and its identity
Key = tuple[str, bytes]


class _Original(NamedTuple):
    """A message that copies are compared with."""

    message_id: str
    warnings: tuple[str, ...]
    #: what was read of it; none once its time is over, or where it cannot be opened
    parsed: Parsed | None
    #: it is in this very batch
    new: bool


class _Copy(NamedTuple):
    """A further delivery of a message."""

    filing: Filing
    original: _Original
    differs: tuple[str, ...]


def file(tx: Transaction, filings: Sequence[Filing], now: int, *, vault: Vault) -> list[Filed]:
    """File mail into its inboxes; answer each in order.

    The vault opens what copies are compared with. Whoever files locks the inboxes first, so
    nobody else numbers meanwhile. If that were not so, the unique indexes would refuse the
    second, and all is undone and tried again.

    Raises: RowRefused, when an inbox is missing; DatabaseBusy.
    """
    ordered = sorted(filings, key=_in_turn)
    inboxes = sorted({each.inbox_id for each in ordered})
    if len(tx.many(_sql.lock, [(id_,) for id_ in inboxes])) < len(inboxes):
        message = "there is no such inbox"
        raise RowRefused(message)
    brought = _brought(tx, ordered)
    fresh = [each for each in ordered if each.delivery.id not in brought]
    first, copies = _sorted_out(tx, vault, fresh)
    reused = _reused(tx, first)
    counters = _advance(tx, first, copies)
    numbers = _numbers(first, counters)
    _write(tx, first, copies, numbers, reused, now)
    ends = artifacts.file(tx, (Brought(each, *numbers[each.message_id]) for each in first), now)
    faults.point("mail.filed")
    answers = {id_: Filed(message_id=message) for id_, message in brought.items()}
    answers |= {
        each.delivery.id: _new(each, numbers, reused, ends.get(each.message_id, ()))
        for each in first
    }
    answers |= {each.filing.delivery.id: _counted(each) for each in copies}
    return [answers[each.delivery.id] for each in filings]


def policies(tx: Transaction, inboxes: Sequence[tuple[str, str]]) -> dict[str, InboxPolicy]:
    """Return what inboxes expect, by id; each is named with its tenant."""
    rows = tx.many(_sql.policies, sorted(set(inboxes)))
    return {str(id_): msgspec.json.decode(policy, type=InboxPolicy) for id_, policy in rows}


def waiting(tx: Transaction, now: int) -> list[str]:
    """Return the tenants that have mail to be read."""
    return [str(tenant) for (tenant,) in tx.all(_sql.waiting, now=now)]


def _in_turn(filing: Filing) -> tuple[str, int, str]:
    return (filing.inbox_id, filing.delivery.received_at, filing.delivery.id)


def _key(filing: Filing) -> Key:
    return (filing.inbox_id, filing.identity)


# what is known already


def _brought(tx: Transaction, filings: Iterable[Filing]) -> dict[str, str]:
    """Return the messages that these very deliveries have brought before.

    A first try cannot have: its delivery and its message would be done together.
    """
    again = [(each.delivery.id,) for each in filings if each.delivery.fence > 1]
    return {str(id_): str(message) for id_, message in tx.many(_sql.brought, again)}


def _sorted_out(
    tx: Transaction, vault: Vault, fresh: Sequence[Filing]
) -> tuple[list[Filing], list[_Copy]]:
    """Tell new messages from copies of those that their inbox has, or that came just before."""
    asked = {(each.inbox_id, identity) for each in fresh for identity in each.identities}
    rows = tx.many(_sql.known, sorted(asked))
    originals = {(str(row[0]), bytes(row[1])): _stored(vault, row) for row in rows}
    first, copies = [], []
    for each in fresh:
        known = (originals.get((each.inbox_id, identity)) for identity in each.identities)
        original = next(filter(None, known), None)
        if original is None:
            originals[_key(each)] = _Original(each.message_id, (), each.parsed, new=True)
            first.append(each)
        else:
            unknown = original.parsed is None
            differs = () if unknown else differences(original.parsed, each.parsed)  # type: ignore[arg-type]
            copies.append(_Copy(each, original, differs))
    return first, copies


def _stored(vault: Vault, row: Row) -> _Original:
    _inbox, _identity, id_, tenant, warnings, document = row
    known = msgspec.json.decode(warnings, type=tuple[str, ...])
    return _Original(str(id_), known, _parsed(vault, tenant, id_, document), new=False)


def _parsed(vault: Vault, tenant: str, id_: str, document: bytes) -> Parsed | None:
    """Return what was read of a message; a copy is a copy also where that cannot be opened."""
    if not document:
        return None
    try:
        encoded = vault.open(document, vaults.document(tenant, id_))
        return msgspec.json.decode(encoded, type=Document).parsed
    except (MailNotOpened, msgspec.MsgspecError):  # damaged, or of a later version
        return None


def _reused(tx: Transaction, first: Sequence[Filing]) -> set[str]:
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


class _Counter(NamedTuple):
    """What is known of an inbox where mail was counted."""

    last: int
    attempt_id: str | None
    created_at: int


def _advance(
    tx: Transaction, first: Sequence[Filing], copies: Sequence[_Copy]
) -> dict[str, _Counter]:
    """Count what came to each inbox; return its last number, its attempt and its age."""
    copied = Counter(each.filing.inbox_id for each in copies)
    new: defaultdict[str, list[Filing]] = defaultdict(list)
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
        message = "the inbox is not this tenant's"
        raise RowRefused(message)
    return {str(inbox): _Counter(int(cursor), *rest) for inbox, cursor, *rest in found}


class _Place(NamedTuple):
    """Where a new message stands."""

    sequence: int
    attempt_id: str | None
    #: when its inbox was made
    inbox_since: int


def _numbers(first: Sequence[Filing], counters: Mapping[str, _Counter]) -> dict[str, _Place]:
    """Give the numbers out, in turn; the counter already stands at the last."""
    places = {}
    for inbox, group in groupby(first, key=lambda each: each.inbox_id):
        filings = list(group)
        last, attempt, since = counters[inbox]
        for number, each in enumerate(filings, last - len(filings) + 1):
            places[each.message_id] = _Place(number, attempt, since)
    return places


# writing


def _write(
    tx: Transaction,
    first: Sequence[Filing],
    copies: Sequence[_Copy],
    places: Mapping[str, _Place],
    reused: set[str],
    now: int,
) -> None:
    count, differing = Counter[str](), set()
    for copy in copies:
        count[copy.original.message_id] += 1
        if copy.differs:
            differing.add(copy.original.message_id)
    warned = {each.message_id: _warnings(each, differing, reused) for each in first}
    rows = [
        _row(each, places[each.message_id].sequence, count[each.message_id], warned)
        for each in first
    ]
    links = [_link(each, each.message_id, ()) for each in first]
    links += [_link(each.filing, each.original.message_id, each.differs) for each in copies]
    if tx.run_many(_sql.insert, rows) < len(rows) or (
        tx.run_many(_sql.copy, sorted(links), now=now) < len(links)
    ):
        message = "somebody else filed the same mail; try again"
        raise DatabaseBusy(message)
    tx.run_many(_sql.count_copies, _counts(copies, count, differing))
    outbox.record(tx, [_event(each, places[each.message_id], warned, now) for each in first])


def _warnings(filing: Filing, differing: set[str], reused: set[str]) -> tuple[str, ...]:
    own = ((REUSED, reused), (DIFFERS, differing))
    return (*filing.parsed.warnings, *(code for code, ids in own if filing.message_id in ids))


def _row(
    filing: Filing, sequence: int, duplicates: int, warned: Mapping[str, tuple[str, ...]]
) -> Row:
    parsed, delivery = filing.parsed, filing.delivery
    return (
        filing.message_id, delivery.tenant, filing.inbox_id, sequence, filing.identity,
        parsed.message_mark, delivery.id, str(parsed.status), delivery.received_at,
        len(delivery.body), storable(filing.recipient), storable(parsed.sender.address),
        storable(parsed.sender.domain), sender_verdict(parsed, filing.document.verdict),
        int(filing.matched), duplicates, msgspec.json.encode(warned[filing.message_id]),
        filing.encoded,
    )  # fmt: skip


def _link(filing: Filing, message_id: str, differs: tuple[str, ...]) -> Row:
    delivery = filing.delivery
    return (delivery.id, delivery.tenant, message_id, msgspec.json.encode(differs))


def _counts(copies: Sequence[_Copy], count: Counter[str], differing: set[str]) -> list[Row]:
    """Return what changes about messages that were there before."""
    rows = {}
    for _filing, original, _differs in copies:
        if original.new:
            continue
        more = {DIFFERS} if original.message_id in differing else set()
        warnings = (*original.warnings, *(more - set(original.warnings)))
        encoded = msgspec.json.encode(warnings)
        rows[original.message_id] = (original.message_id, count[original.message_id], encoded)
    return sorted(rows.values())


def _event(
    filing: Filing, place: _Place, warned: Mapping[str, tuple[str, ...]], now: int
) -> NewEvent:
    return NewEvent(
        id=filing.event_id,
        tenant=filing.delivery.tenant,
        type=RECEIVED,
        inbox_id=filing.inbox_id,
        attempt_id=place.attempt_id,
        subject_id=filing.message_id,
        at=now,
        data=told(filing, place.sequence, warned[filing.message_id]),
    )


# answers


def _new(
    filing: Filing,
    places: Mapping[str, _Place],
    reused: set[str],
    ends: Sequence[tuple[Kind, str]],
) -> Filed:
    return Filed(
        message_id=filing.message_id,
        status=str(filing.parsed.status),
        sequence=places[filing.message_id].sequence,
        reused=filing.message_id in reused,
        artifacts=tuple(ends),
    )


def _counted(copy: _Copy) -> Filed:
    return Filed(message_id=copy.original.message_id, duplicate=True, differs=copy.differs)
