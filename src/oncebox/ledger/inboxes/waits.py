"""Waits: whether an inbox has what somebody waits for, and if not, why not."""

from collections.abc import Mapping, Sequence

import msgspec

from oncebox.errors import NotFound
from oncebox.ledger.inboxes import artifacts, inboxes, reading
from oncebox.ledger.inboxes.inboxes import Asker
from oncebox.ledger.inboxes.reading import Whole
from oncebox.ledger.office import keys
from oncebox.ledger.vault import Vault
from oncebox.model.artifact import Artifact, ArtifactState
from oncebox.model.candidate import Kind
from oncebox.model.grant import Wish
from oncebox.model.inbox import Inbox, InboxState
from oncebox.model.key import ApiKey
from oncebox.model.waiting import Awaited, trouble
from oncebox.refusals import Unauthenticated
from oncebox.store.database import Transaction
from oncebox.store.queries import load

_sql = load(__package__, "waits.sql")

_ENDED = frozenset({InboxState.CLOSED, InboxState.EXPIRED})
#: messages of an inbox that a report tells of, the last ones
_MOST_SEEN = 20
#: artifacts of an inbox among which those of these messages are looked for
_MOST_ARTIFACTS = 200
#: bytes of documents that one look keeps, for the others who are interested in them
_MOST_BYTES = 8 * 1024 * 1024


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody waits for, and in which inboxes."""

    asker: Asker
    #: the key that asks; it may end while somebody waits
    key: ApiKey
    inboxes: tuple[str, ...]
    awaited: Awaited


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """One of the inboxes, as somebody who waits sees it."""

    inbox: Inbox
    #: which of its artifacts would do
    wish: Wish
    #: those that there are
    found: tuple[Artifact, ...] = ()
    #: no more mail is taken, and none is on its way to be read
    over: bool = False


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A message that is not what is waited for."""

    message_id: str
    sequence: int
    why: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Why nothing was found in an inbox."""

    inbox: Inbox
    inspected: int
    #: the last of them, oldest first
    seen: tuple[Seen, ...]
    #: whether any mail was taken for it, and how many mails are not read yet
    smtp_saw: bool
    unread: int


#: what one who waits sees: the places in the order asked for, or why there is nothing to see
Look = tuple[Place, ...] | NotFound | Unauthenticated
#: what a message must be like, and where
_Pair = tuple[Awaited, str]
#: the messages that fit, where that matters, and those that do not
_Sorted = tuple[frozenset[str] | None, frozenset[str]]
_ANY: _Sorted = (None, frozenset())


def look(tx: Transaction, vault: Vault, questions: Sequence[Question], now: int) -> list[Look]:
    """Return what there is for each who waits; what several need is read once."""
    known = _Known(tx, vault, now)
    found = [known.inboxes(each) for each in questions]
    known.candidates = artifacts.candidates(
        tx,
        {
            (inbox.id, question.awaited.kind)
            for question, each in zip(questions, found, strict=True)
            if isinstance(each, tuple)
            for inbox in each
        },
    )
    return [
        tuple(known.place(question, inbox) for inbox in each) if isinstance(each, tuple) else each
        for question, each in zip(questions, found, strict=True)
    ]


def report(tx: Transaction, vault: Vault, asker: Asker, inbox_id: str, awaited: Awaited) -> Report:
    """Return why nothing in an inbox is what is awaited.

    Raises: NotFound.
    """
    inbox = inboxes.get(tx, asker, inbox_id)
    after = max(awaited.after, inbox.cursor - _MOST_SEEN)
    page = reading.page(tx, asker.tenant, inbox_id, after=after, most=_MOST_SEEN, documents=vault)
    of_kind = artifacts.page(tx, asker, inbox_id, kind=awaited.kind, most=_MOST_ARTIFACTS)
    seen = []
    for message in page.messages:
        why = trouble(awaited, message, page.documents.get(message.id), inbox.created_at)
        own = [each for each in of_kind if each.message_id == message.id]
        why = why or _artifact_trouble(awaited.kind, own)
        seen.append(Seen(message_id=message.id, sequence=message.sequence, why=why))
    return Report(
        inbox=inbox,
        inspected=max(0, inbox.cursor - awaited.after),
        seen=tuple(seen),
        smtp_saw=tx.one(_sql.taken, **_span(inbox)) is not None,
        unread=_unread(tx, inbox),
    )


class _Known:
    """What was read for all who wait, in one look."""

    def __init__(self, tx: Transaction, vault: Vault, now: int) -> None:
        self.candidates: Mapping[artifacts.Field, Sequence[Artifact]] = {}
        self._tx = tx
        self._vault = vault
        self._now = now
        self._keys: dict[str, bool] = {}
        self._inboxes: dict[tuple[Asker, str], Inbox | NotFound] = {}
        self._over: dict[str, bool] = {}
        self._sorted: dict[_Pair, _Sorted] = {}
        self._read: dict[str, Whole] = {}
        self._bytes = 0

    def inboxes(self, question: Question) -> tuple[Inbox, ...] | NotFound | Unauthenticated:
        """Return the inboxes that a question is about, or why they are not to be seen."""
        if not self._is_active(question.key):
            return Unauthenticated()
        found = []
        for id_ in question.inboxes:
            inbox = self._inbox(question.asker, id_)
            if isinstance(inbox, NotFound):
                return inbox
            found.append(inbox)
        return tuple(found)

    def place(self, question: Question, inbox: Inbox) -> Place:
        """Return what a question finds in an inbox."""
        awaited = question.awaited
        messages, passed_over = self._messages(awaited, inbox)
        wish = Wish(
            inbox_id=inbox.id,
            kind=awaited.kind,
            messages=messages,
            passed_over=passed_over,
            after=awaited.after,
            host=awaited.host or "",
            by_domain=awaited.sender is not None and "@" not in awaited.sender,
        )
        found = tuple(
            each
            for each in self.candidates[inbox.id, awaited.kind]
            if each.purged_at is None and wish.fits(each)
        )
        return Place(inbox=inbox, wish=wish, found=found, over=self._is_over(inbox))

    def _messages(self, awaited: Awaited, inbox: Inbox) -> _Sorted:
        """Return the messages that fit, of those that brought something, and those that do not."""
        if not awaited.is_choosy:
            return _ANY
        pair = (awaited.rules, inbox.id)
        if pair not in self._sorted:
            brought = {each.message_id for each in self.candidates[inbox.id, awaited.kind]}
            found = {id_: self._trouble(pair, inbox, id_) for id_ in brought}
            fitting = frozenset(id_ for id_, why in found.items() if not why)
            # Of what cannot be read any more nobody knows whether it would have fitted.
            unfit = frozenset(id_ for id_, why in found.items() if why not in {"", "purged"})
            self._sorted[pair] = (fitting, unfit)
        return self._sorted[pair]

    def _trouble(self, pair: _Pair, inbox: Inbox, message_id: str) -> str:
        message, document, _copies = self._whole(inbox.tenant, message_id)
        return trouble(pair[0], message, document, inbox.created_at)

    def _whole(self, tenant: str, message_id: str) -> Whole:
        """Return a message; what others will ask for too is kept, as long as there is room."""
        known = self._read.get(message_id)
        if known is not None:
            return known
        whole = reading.get(self._tx, self._vault, tenant, message_id)
        if self._bytes + whole.message.document_size <= _MOST_BYTES:
            self._bytes += whole.message.document_size
            self._read[message_id] = whole
        return whole

    def _is_active(self, key: ApiKey) -> bool:
        if key.id not in self._keys:
            self._keys[key.id] = keys.is_active(self._tx, key, self._now)
        return self._keys[key.id]

    def _is_over(self, inbox: Inbox) -> bool:
        if inbox.state not in _ENDED:
            return False
        if inbox.id not in self._over:
            self._over[inbox.id] = not _unread(self._tx, inbox)
        return self._over[inbox.id]

    def _inbox(self, asker: Asker, id_: str) -> Inbox | NotFound:
        if (asker, id_) not in self._inboxes:
            try:
                self._inboxes[asker, id_] = inboxes.get(self._tx, asker, id_)
            except NotFound as error:
                self._inboxes[asker, id_] = error
        return self._inboxes[asker, id_]


def _artifact_trouble(kind: Kind, own: Sequence[Artifact]) -> str:
    """Say why what a message brought was not granted, though the message fits."""
    if not own:
        return f"no_{kind.value}"
    states = {each.state for each in own}
    if ArtifactState.AVAILABLE in states:
        return "fits"
    return "claimed" if ArtifactState.CLAIMED in states else "superseded"


def _unread(tx: Transaction, inbox: Inbox) -> int:
    """Return how many mails were taken for an inbox and are not read yet."""
    row = tx.one(_sql.unread, **_span(inbox))
    return 0 if row is None else int(row[0])


def _span(inbox: Inbox) -> dict[str, str]:
    """Return between which keys the deliveries of an inbox lie."""
    return {"tenant": inbox.tenant, "lowest": f"{inbox.id}:", "highest": f"{inbox.id};"}
