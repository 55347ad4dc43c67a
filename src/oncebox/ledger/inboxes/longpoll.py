"""Long-poll hub: waiters for mail share one database read per notification.

A waiter joins the hub before it looks at the ledger, so that no message between the look and the
wait is missed. See docs/decisions/0021-use-one-long-poll-hub-per-process-for-waits.md.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple, Self

import msgspec

from oncebox.core import clock, ids
from oncebox.core.metrics import Telemetry
from oncebox.db.database import Transaction
from oncebox.db.group_commit import SharedRead
from oncebox.db.notify import Poller
from oncebox.db.queries import load
from oncebox.errors import NotFound
from oncebox.errors.http import KeyLimitReached, TooManyRequests, Unauthenticated
from oncebox.ledger.admin import api_keys
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.artifacts import artifacts
from oncebox.ledger.ciphers import MailCipher
from oncebox.ledger.inboxes import inboxes, messages
from oncebox.ledger.inboxes.messages import CandidateMessage, FullMessage
from oncebox.ledger.notifications import MESSAGES
from oncebox.ledger.transactions import Ledger
from oncebox.model.admin.access import ApiKey
from oncebox.model.inboxes.artifact import (
    Artifact,
    ArtifactFilter,
    ArtifactState,
    AwaitedMessage,
    CandidateKey,
)
from oncebox.model.inboxes.inbox import Inbox, InboxState
from oncebox.model.inboxes.message import Message, awaited_artifact, safe_domain
from oncebox.model.inboxes.purpose import Purpose
from oncebox.model.inboxes.received_mail import ArtifactKind
from oncebox.model.inboxes.wait_filter import SENDER_REASONS, WaitFilter, mismatch_reason
from oncebox.settings import WaitSettings

_sql = load(__package__, "longpoll.sql")

#: an inbox and its tenant
InboxRef = tuple[str, str]

#: the order of states; 2 is a closed inbox with mail that is not parsed yet
_STAGES = {
    InboxState.ACTIVE: 0,
    InboxState.DRAINING: 1,
    InboxState.CLOSED: 3,
    InboxState.EXPIRED: 3,
}
_STAGE_UNREAD = 2


class InboxPosition(NamedTuple):
    """The position of an inbox: every change that matters to a waiter advances it."""

    #: the number of its last message
    cursor: int
    #: how often one of its artifacts was released
    releases: int
    #: see ``_STAGES``
    stage: int

    def is_after(self, other: "InboxPosition | None") -> bool:
        """Return whether anything has happened since another position."""
        return other is None or any(mine > its for mine, its in zip(self, other, strict=True))

    def merged(self, other: "InboxPosition | None") -> "InboxPosition":
        """Return the later of each; a read may be older than a message filed meanwhile."""
        return self if other is None else InboxPosition(*map(max, self, other))


def read_positions(tx: Transaction, inboxes: Iterable[InboxRef]) -> dict[InboxRef, InboxPosition]:
    """Return the positions of inboxes; missing inboxes are left out."""
    found = {}
    for id_, tenant, cursor, releases, state, unread in tx.many(_sql.read, sorted(inboxes)):
        stage = _STAGE_UNREAD if unread else _STAGES[InboxState(state)]
        found[str(id_), str(tenant)] = InboxPosition(int(cursor), int(releases), stage)
    return found


_ENDED = frozenset({InboxState.CLOSED, InboxState.EXPIRED})
#: messages in a report, the last ones
_MOST_REPORTED = 20
#: artifacts of an inbox that are read for a report
_MOST_ARTIFACTS = 200
#: bytes of documents that one read caches for other queries
_MOST_DOCUMENT_BYTES = 8 * 1024 * 1024


class WaitQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What a waiter waits for, and in which inboxes."""

    requester: Requester
    #: the API key of the request; it may be revoked during the wait
    key: ApiKey
    inboxes: tuple[str, ...]
    awaited: WaitFilter


class InboxMatches(msgspec.Struct, frozen=True, kw_only=True):
    """The matches of one inbox for a waiter."""

    inbox: Inbox
    #: which of its artifacts match
    artifact_filter: ArtifactFilter
    #: the matching artifacts
    found: tuple[Artifact, ...] = ()
    #: the inbox is closed and all its mail is parsed
    is_over: bool = False


class UnmatchedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that does not match."""

    message_id: str
    sequence: int
    why: str
    #: of the sender, safe to show
    sender_domain: str = ""
    #: the rules about senders that it does not match, of the inbox or of the filter
    sender_rules: tuple[str, ...] = ()


class InboxReport(msgspec.Struct, frozen=True, kw_only=True):
    """Why nothing matched in an inbox."""

    inbox: Inbox
    inspected: int
    #: the last of them, oldest first
    seen: tuple[UnmatchedMessage, ...]
    #: whether any mail arrived for it, and how many mails are not parsed yet
    smtp_saw: bool
    unread: int


#: the matches of each inbox in the order of the query, or the error
WaitResult = tuple[InboxMatches, ...] | NotFound | Unauthenticated
#: the messages that match, if the filter has rules for messages, and those that do not
_SortedMessages = tuple[frozenset[str] | None, frozenset[str]]
_ANY: _SortedMessages = (None, frozenset())


def find_matches(
    tx: Transaction, cipher: MailCipher, queries: Sequence[WaitQuery], now: int
) -> list[WaitResult]:
    """Return the matches of each query; what several queries need is read once."""
    known = _SharedReads(tx, cipher, queries, now)
    found = [known.inboxes(each) for each in queries]
    return [
        tuple(known.matches(query, inbox) for inbox in each) if isinstance(each, tuple) else each
        for query, each in zip(queries, found, strict=True)
    ]


def explain_no_match(
    tx: Transaction, cipher: MailCipher, requester: Requester, inbox_id: str, awaited: WaitFilter
) -> InboxReport:
    """Return why nothing in an inbox matches.

    Raises: NotFound.
    """
    inbox = inboxes.get(tx, requester, inbox_id)
    after = max(awaited.after, inbox.cursor - _MOST_REPORTED)
    page = messages.page(
        tx, requester.tenant, inbox_id, after=after, most=_MOST_REPORTED, documents=cipher
    )
    of_kind = artifacts.page(tx, requester, inbox_id, kind=awaited.kind, most=_MOST_ARTIFACTS)
    seen = []
    for message in page.messages:
        why = mismatch_reason(awaited, message, page.documents.get(message.id), inbox)
        own = [each for each in of_kind if each.message_id == message.id]
        why = why or _artifact_reason(awaited.kind, own)
        seen.append(_unmatched(awaited, inbox, message, why))
    return InboxReport(
        inbox=inbox,
        inspected=max(0, inbox.cursor - awaited.after),
        seen=tuple(seen),
        smtp_saw=tx.one(_sql.taken, **_delivery_key_range(inbox)) is not None,
        unread=_count_unread(tx, inbox),
    )


class _SharedReads:
    """Rows shared by all queries of one read."""

    def __init__(
        self, tx: Transaction, cipher: MailCipher, queries: Sequence[WaitQuery], now: int
    ) -> None:
        """Read keys, inboxes and their newest artifacts, in one round trip."""
        self._tx = tx
        self._cipher = cipher
        self._over: dict[str, bool] = {}
        self._sorted: dict[tuple[WaitFilter, str], _SortedMessages] = {}
        self._read: dict[str, FullMessage] = {}
        self._bytes = 0
        all_keys = {_candidates(each.awaited, id_) for each in queries for id_ in each.inboxes}
        for_messages = {each for each in all_keys if each.kind is ArtifactKind.MESSAGE}
        wanted = {(each.requester, id_) for each in queries for id_ in each.inboxes}
        keys = {each.key.id: api_keys.send_get(tx, each.key) for each in queries}
        found = {each: inboxes.send_get(tx, *each) for each in wanted}
        newest = artifacts.send_candidates(tx, all_keys - for_messages)
        arrived = messages.send_newest(
            tx, {(each.inbox_id, name) for each in for_messages for name in ("", *each.senders)}
        )
        self._keys = {id_: api_keys.found_active(sent, now) for id_, sent in keys.items()}
        self._inboxes = {each: inboxes.found(sent) for each, sent in found.items()}
        #: also of inboxes that the requester may not see; ``inboxes`` leaves these out
        self._newest = newest.read()
        self._arrived = messages.by_sender(arrived)
        #: the artifacts that messages have become, by message
        self._claimed = artifacts.of_messages(
            tx, (each.message.id for found in self._arrived.values() for each in found)
        )
        self._awaited: dict[str, AwaitedMessage] = {}

    def inboxes(self, query: WaitQuery) -> tuple[Inbox, ...] | NotFound | Unauthenticated:
        """Return the inboxes of a query, or the error."""
        if not self._keys[query.key.id]:
            return Unauthenticated()
        found = []
        for id_ in query.inboxes:
            inbox = self._inboxes[query.requester, id_]
            if isinstance(inbox, NotFound):
                return inbox
            found.append(inbox)
        return tuple(found)

    def matches(self, query: WaitQuery, inbox: Inbox) -> InboxMatches:
        """Return the matches of a query in an inbox."""
        awaited = query.awaited
        if awaited.kind is ArtifactKind.MESSAGE:
            return self._message_matches(awaited, inbox)
        messages, passed_over = self._messages(awaited, inbox)
        is_over = self._is_over(inbox)
        artifact_filter = ArtifactFilter(
            inbox_id=inbox.id,
            kind=awaited.kind,
            messages=messages,
            excluded_messages=passed_over,
            after=awaited.after,
            host=awaited.host or "",
            senders=awaited.sender_organisations,
            by_domain=awaited.names_domains,
            purpose=_purpose_name(awaited),
        )
        found = tuple(
            each
            for each in self._newest[_candidates(awaited, inbox.id)]
            if each.purged_at is None and artifact_filter.matches(each)
        )
        return InboxMatches(
            inbox=inbox, artifact_filter=artifact_filter, found=found, is_over=is_over
        )

    def _message_matches(self, awaited: WaitFilter, inbox: Inbox) -> InboxMatches:
        """Return the messages of an inbox that match, as artifacts; unclaimed ones are new."""
        rules = msgspec.structs.replace(awaited, claim_key=None, after=0)
        arrived = self._candidate_messages(awaited, inbox)
        if (rules, inbox.id) not in self._sorted:
            self._read_documents(inbox, [each.message for each in arrived])
            fitting = (
                each.message.id
                for each in arrived
                if not self._mismatch(rules, inbox, each.message.id)
            )
            self._sorted[rules, inbox.id] = (frozenset(fitting), frozenset())
        fitting_ids = self._sorted[rules, inbox.id][0] or frozenset()
        wanted = [
            each
            for each in arrived
            if each.message.id in fitting_ids and each.message.sequence > awaited.after
        ]
        claimed = [self._claimed[e.message.id] for e in wanted if e.message.id in self._claimed]
        unclaimed = tuple(
            self._as_awaited(inbox, each) for each in wanted if each.message.id not in self._claimed
        )
        artifact_filter = ArtifactFilter(
            inbox_id=inbox.id,
            kind=awaited.kind,
            messages=frozenset(each.message.id for each in wanted),
            after=awaited.after,
            purpose=_purpose_name(awaited),
            unclaimed=unclaimed,
        )
        found = (
            *(each for each in claimed if each.purged_at is None),
            *(each.artifact for each in unclaimed),
        )
        return InboxMatches(
            inbox=inbox, artifact_filter=artifact_filter, found=found, is_over=self._is_over(inbox)
        )

    def _candidate_messages(self, awaited: WaitFilter, inbox: Inbox) -> list[CandidateMessage]:
        """Return the messages of an inbox that a wait may grant, each once."""
        found = (
            each
            for sender in ("", *awaited.sender_organisations)
            for each in self._arrived.get((inbox.id, sender), ())
        )
        return list({each.message.id: each for each in found}.values())

    def _read_documents(self, inbox: Inbox, arrived: Sequence[Message]) -> None:
        """Read the documents of messages in one query, if there is room for them."""
        unread = [each for each in arrived if each.id not in self._read]
        room = _MOST_DOCUMENT_BYTES - self._bytes
        if unread and sum(each.document_size for each in unread) <= room:
            found = messages.documents_of(self._tx, self._cipher, inbox.tenant, unread)
            for each in unread:
                self._read[each.id] = FullMessage(each, found.get(each.id), [])
                self._bytes += each.document_size

    def _as_awaited(self, inbox: Inbox, found: CandidateMessage) -> AwaitedMessage:
        """Return a message that matches, with an id of its own, the same for all queries."""
        message_id = found.message.id
        if message_id not in self._awaited:
            document = self._whole(inbox, message_id).document
            assert document is not None  # noqa: S101 - else it does not match
            artifact = awaited_artifact(ids.new("art"), inbox, found.message, document)
            self._awaited[message_id] = AwaitedMessage(artifact=artifact, identity=found.identity)
        return self._awaited[message_id]

    def _messages(self, awaited: WaitFilter, inbox: Inbox) -> _SortedMessages:
        """Return the matching messages among those with artifacts, and the others."""
        # Filters that differ only in these fields share the result.
        rules = msgspec.structs.replace(awaited, claim_key=None, after=0, host=None)
        if rules == WaitFilter(kind=awaited.kind):
            return _ANY
        if (rules, inbox.id) not in self._sorted:
            newest = self._newest[_candidates(awaited, inbox.id)]
            with_artifacts = {each.message_id for each in newest}
            found = {id_: self._mismatch(rules, inbox, id_) for id_ in with_artifacts}
            fitting = frozenset(id_ for id_, why in found.items() if not why)
            # A purged message can no longer be compared.
            unfit = frozenset(id_ for id_, why in found.items() if why not in {"", "purged"})
            self._sorted[rules, inbox.id] = (fitting, unfit)
        return self._sorted[rules, inbox.id]

    def _mismatch(self, rules: WaitFilter, inbox: Inbox, message_id: str) -> str:
        whole = self._whole(inbox, message_id)
        return mismatch_reason(rules, whole.message, whole.document, inbox)

    def _whole(self, inbox: Inbox, message_id: str) -> FullMessage:
        whole = self._read.get(message_id)
        if whole is None:
            whole = messages.get(self._tx, self._cipher, inbox.tenant, message_id)
            if self._bytes + whole.message.document_size <= _MOST_DOCUMENT_BYTES:
                self._bytes += whole.message.document_size
                self._read[message_id] = whole
        return whole

    def _is_over(self, inbox: Inbox) -> bool:
        if inbox.state not in _ENDED:
            return False
        if inbox.id not in self._over:
            self._over[inbox.id] = not _count_unread(self._tx, inbox)
        return self._over[inbox.id]


def _candidates(awaited: WaitFilter, inbox_id: str) -> CandidateKey:
    return CandidateKey(inbox_id, awaited.kind, awaited.sender_organisations)


def _purpose_name(awaited: WaitFilter) -> str:
    return "" if awaited.purpose is Purpose.ANY else awaited.purpose.value


def _unmatched(awaited: WaitFilter, inbox: Inbox, message: Message, why: str) -> UnmatchedMessage:
    rules = awaited.senders if message.matched else inbox.policy.senders
    return UnmatchedMessage(
        message_id=message.id,
        sequence=message.sequence,
        why=why,
        sender_domain=safe_domain(message.sender_domain),
        sender_rules=rules if why in SENDER_REASONS else (),
    )


def _artifact_reason(kind: ArtifactKind, own: Sequence[Artifact]) -> str:
    """Return why no artifact of a matching message was granted."""
    if not own:
        return "fits" if kind is ArtifactKind.MESSAGE else f"no_{kind.value}"
    if all(each.purged_at is not None for each in own):
        return "purged"
    states = {each.state for each in own}
    if ArtifactState.AVAILABLE in states:
        return "fits"
    return "claimed" if ArtifactState.CLAIMED in states else "superseded"


def _count_unread(tx: Transaction, inbox: Inbox) -> int:
    """Return how many mails of an inbox are not parsed yet."""
    row = tx.one(_sql.unread, **_delivery_key_range(inbox))
    return 0 if row is None else int(row[0])


def _delivery_key_range(inbox: Inbox) -> dict[str, str]:
    """Return the range of keys of an inbox's deliveries."""
    return {"tenant": inbox.tenant, "lowest": f"{inbox.id}:", "highest": f"{inbox.id};"}


@dataclass(slots=True)
class _WatchedInbox:
    """An inbox, its position at the last poll, and its waiters."""

    position: InboxPosition | None = None
    waiters: "set[Waiter]" = field(default_factory=set)


class LongPollHub:
    """Polls the inboxes that are waited for, and wakes the waiters of those that advanced."""

    def __init__(
        self, ledger: Ledger, cipher: MailCipher, telemetry: Telemetry, settings: WaitSettings
    ) -> None:
        """Read nothing while there is no waiter."""
        self._ledger = ledger
        self._settings = settings
        self._watched: dict[InboxRef, _WatchedInbox] = {}
        self._waits_by_key: Counter[str] = Counter()
        self._poller = Poller(ledger, telemetry, MESSAGES, self._poll, self._watched)
        #: matches for all waiters that look at the same time
        self.matches: SharedRead[WaitQuery, WaitResult] = ledger.shared(
            lambda tx, queries: find_matches(tx, cipher, queries, ledger.clock())
        )
        telemetry.waits_open.set_function(lambda: self.waiters)

    @property
    def waiters(self) -> int:
        """How many waits are open."""
        return self._waits_by_key.total()

    def join(
        self,
        tenant: str,
        inboxes: Iterable[str],
        key: str,
        seconds: float = inf,
        *,
        ends: Sequence[Callable[[], Awaitable[object]]] = (),
    ) -> "Waiter":
        """Return a waiter for some inboxes, to be entered with ``async with``.

        The wait counts towards the limit of ``key``. It ends after so many seconds, or when one
        of ``ends`` returns: the client has gone, or the service stops.

        Raises: TooManyRequests.
        """
        if self._waits_by_key[key] >= self._settings.per_key:
            raise KeyLimitReached(
                f"this key has {self._settings.per_key} open waits; end some, wait for several "
                "inboxes in one call, or raise the setting waits.per_key",
                retry_after=5.0,
            )
        if self.waiters >= self._settings.most:
            raise TooManyRequests(
                "too many waits are open; end some, or try again in a while", retry_after=5.0
            )
        waiter = Waiter(self, key, {(id_, tenant) for id_ in inboxes}, seconds, ends)
        self._waits_by_key[key] += 1
        for each in waiter.inboxes:
            self._watched.setdefault(each, _WatchedInbox()).waiters.add(waiter)
        self._poller.start()
        return waiter

    def leave(self, waiter: "Waiter") -> None:
        """Remove a waiter, and the inboxes that have no other."""
        for each in waiter.inboxes:
            watched = self._watched[each]
            watched.waiters.discard(waiter)
            if not watched.waiters:
                del self._watched[each]
        self._waits_by_key[waiter.key] -= 1
        if not self._waits_by_key[waiter.key]:
            del self._waits_by_key[waiter.key]

    def position(self, inbox: InboxRef) -> InboxPosition | None:
        """Return the position of an inbox at the last poll; None before the first."""
        return self._watched[inbox].position

    async def close(self) -> None:
        """Stop polling; pending reads fail."""
        await self.matches.close()
        await self._poller.close()

    def message_filed(self, inbox: InboxRef, sequence: int) -> None:
        """Wake the waiters of an inbox, here at once, and in other processes.

        This process has filed a message and knows its number, so nothing needs to be read.
        """
        self._advance(inbox, InboxPosition(sequence, 0, 0))
        self._ledger.notify_others(MESSAGES)

    async def _poll(self) -> None:
        found = await self._ledger.read(read_positions, list(self._watched))
        for inbox, position in found.items():
            self._advance(inbox, position)

    def _advance(self, inbox: InboxRef, position: InboxPosition) -> None:
        watched = self._watched.get(inbox)
        if watched is None or not position.is_after(watched.position):
            return
        watched.position = position.merged(watched.position)
        for each in watched.waiters:
            each.wake()


class Waiter:
    """One wait: look, wait until an inbox has advanced since, look again."""

    def __init__(
        self,
        hub: LongPollHub,
        key: str,
        inboxes: set[InboxRef],
        seconds: float,
        ends: Sequence[Callable[[], Awaitable[object]]],
    ) -> None:
        self.key = key
        self.inboxes = inboxes
        self._hub = hub
        self._until = clock.steady() + seconds
        self._ends = ends
        self._tasks: list[asyncio.Future[object]] = []
        self._positions: dict[InboxRef, InboxPosition | None] = {}
        self._woken = asyncio.Event()
        self._cancelled = False

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.ensure_future(end()) for end in self._ends]
        for task in self._tasks:
            task.add_done_callback(lambda _: self.cancel())
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.leave()
        for task in self._tasks:
            task.cancel()

    async def look(self, query: WaitQuery) -> tuple[InboxMatches, ...]:
        """Return the matches of a query; waiters that look at the same time share a read.

        Raises: NotFound, Unauthenticated, StoreError.
        """
        self.snapshot()
        found = await self._hub.matches.read(query)
        if isinstance(found, tuple):
            return found
        raise type(found)(*found.args)  # a new one: several waiters may have received the same

    def snapshot(self) -> None:
        """Remember the positions of the inboxes; a read that begins now is as new or newer."""
        self._positions = {each: self._hub.position(each) for each in self.inboxes}

    def wake(self) -> None:
        """Check whether an inbox has advanced."""
        self._woken.set()

    def cancel(self) -> None:
        """End the wait."""
        self._cancelled = True
        self._woken.set()

    async def wait(self, within: float = inf) -> bool:
        """Wait until an inbox has advanced since the last look; False if none has in time."""
        within = min(within, self._until - clock.steady())
        if within <= 0:
            return False
        try:
            async with asyncio.timeout(within):
                while not self._cancelled and not self._has_news():
                    self._woken.clear()
                    await self._woken.wait()
        except TimeoutError:
            return False
        return not self._cancelled

    @property
    def is_over(self) -> bool:
        """Whether the time is over, the client has gone, or the service stops."""
        return self._cancelled or clock.steady() >= self._until

    def leave(self) -> None:
        """Leave the hub."""
        self._hub.leave(self)

    def _has_news(self) -> bool:
        for inbox, seen in self._positions.items():
            position = self._hub.position(inbox)
            if position is not None and position.is_after(seen):
                return True
        return False
