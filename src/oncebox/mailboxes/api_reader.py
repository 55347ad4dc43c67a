"""Base of the HTTP readers: cursors, pages of listed mails, and mails that fail by themselves.

A cursor holds the provider's own position, the mails that were listed and not fetched yet, and
those whose download failed while the server answered otherwise. The latter are tried again for a
day, one at each poll, so that one bad mail holds nothing up and a bad hour loses nothing.
"""

import asyncio
import hashlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Generic, Literal, TypeVar

import msgspec

from oncebox.core import clock
from oncebox.core.clock import Clock
from oncebox.mailboxes.api_client import AnswerTooLarge, ApiClient
from oncebox.mailboxes.reader import (
    FetchedMail,
    MailboxFailure,
    MailboxPage,
    MailboxProbe,
    PageLimits,
    ResyncReason,
    SkippedMail,
)

At = TypeVar("At")

#: where reading begins: with mail from now on, of so many days, or with all
Since = Literal["now", "all"] | Annotated[int, msgspec.Meta(ge=0, le=36_500)]

DAY_MS = 86_400_000
#: milliseconds that the clocks of server and service may differ
CLOCK_SKEW_MS = 300_000
#: the last second of the year 9999, after which there are no dates
LAST_MS = 253_402_300_799_000
#: mails of one listing, so that a cursor stays small
MAX_LISTED = 200
#: a resync begins so long before the newest mail that was read
_RESYNC_OVERLAP_MS = DAY_MS
#: how long a mail that cannot be downloaded is tried
_LATE_FOR_MS = DAY_MS
_MAX_LATE = 20
_MAX_ID_LENGTH = 1000
_LONG_ID = 200
#: listings of the same mails in a row after which a server is not believed
_MAX_REPEATED = 3
_MAX_REMEMBERED = 1000
#: listings without mail that one page passes over
_MAX_EMPTY_LISTINGS = 50
#: failures that may concern only the mail that was asked for
_MAIL_FAILURES = frozenset(
    {"answer_invalid", "request_refused", "server_closed", "server_error", "timed_out"}
)


class CursorExpired(Exception):
    """The server no longer knows a position."""


class MailGone(Exception):
    """A listed mail no longer exists."""


class ListedMail(msgspec.Struct, frozen=True, array_like=True):
    """A mail in a listing."""

    id: str
    #: milliseconds since 1970
    received_at: int | None = None
    #: bytes, where the server says so
    size: int | None = None
    #: what the provider needs to download it
    reference: str = ""


class LateMail(msgspec.Struct, frozen=True, array_like=True):
    """A mail whose download failed, and until when it is tried."""

    mail: ListedMail
    until: int


class Position(msgspec.Struct, Generic[At], frozen=True, kw_only=True, omit_defaults=True):
    """How far a mailbox was read: the content of a cursor."""

    at: At
    #: listed and not fetched yet
    pending: tuple[ListedMail, ...] = ()
    #: the listing after these continues at once
    has_more: bool = False
    late: tuple[LateMail, ...] = ()
    #: milliseconds: mail from before is not read; 0: all is
    since: int = 0
    #: milliseconds: the newest mail that was read
    newest: int = 0

    @property
    def resync_from(self) -> int:
        """The time from which mail is listed again when the server has forgotten the rest."""
        return max(self.since, self.newest - _RESYNC_OVERLAP_MS, 0)


class Listing(msgspec.Struct, Generic[At], frozen=True, kw_only=True):
    """Some mails after a position."""

    mails: tuple[ListedMail, ...] = ()
    #: the position after them
    at: At
    has_more: bool = False
    #: mails on the server from here on, where it is known
    remaining: int | None = None


@dataclass(slots=True)
class _Draft:
    """A page in the making."""

    limits: PageLimits
    mails: list[FetchedMail] = field(default_factory=list)
    skipped: list[SkippedMail] = field(default_factory=list)
    size: int = 0

    def add(self, mail: FetchedMail) -> None:
        """Add a mail, unless JSON made more of it than is allowed."""
        if len(mail.raw) > self.limits.mail_bytes:
            self.skipped.append(_skipped(mail.provider_id, "too_large"))
        else:
            self.mails.append(mail)
            self.size += len(mail.raw)

    def has_room(self, mail: ListedMail) -> bool:
        """Tell whether a mail is fetched with this page; a large one comes alone."""
        if not self.mails:
            return len(self.skipped) < self.limits.mails
        count = len(self.mails) + len(self.skipped)
        return count < self.limits.mails and self.size + (mail.size or 1) <= self.limits.page_bytes


class ApiReader(ABC, Generic[At]):
    """Reads a mailbox by requests; see `MailboxReader`."""

    #: the first word of all ids
    kind: str

    def __init__(self, client: ApiClient, since: Since, *, now: Clock = clock.system) -> None:
        self._client = client
        self._since = since
        self._now = now
        self._decoder = msgspec.json.Decoder(Position[self._at_type()])  # type: ignore[misc]
        #: how often the same mails were listed in a row, and the position after them
        self._listings: Counter[int] = Counter()
        self._listed_until: At | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    # what a provider defines

    @abstractmethod
    def _at_type(self) -> type[At]:
        """Return the type of the provider's own position."""

    @abstractmethod
    async def begin(self, since: int | None) -> At:
        """Return the position before all mail since a time, or None: before the next mail."""

    @abstractmethod
    async def list_mails(self, at: At, most: int) -> Listing[At]:
        """Return mails after a position.

        Raises: CursorExpired, MailboxFailure.
        """

    @abstractmethod
    async def download(self, mail: ListedMail, most: int) -> FetchedMail:
        """Return a mail, of so many bytes at most.

        Raises: MailGone, AnswerTooLarge, MailboxFailure.
        """

    @abstractmethod
    async def probe(self) -> MailboxProbe:
        """Connect and log in; see `MailboxReader.probe`."""

    # MailboxReader

    async def fetch(self, cursor: str | None, limits: PageLimits) -> MailboxPage:
        """Return the mails after a cursor; see `MailboxReader.fetch`."""
        self._client.within = limits.within
        position, reason = await self._decode(cursor)
        remaining: int | None = None
        if not position.pending:
            position, reason, remaining = await self._list(position, reason, limits)
        draft = _Draft(limits)
        position = await self._take_pending(position, draft)
        if not position.pending and not position.has_more:
            position = await self._take_late(position, draft)
        has_more = bool(position.pending) or position.has_more
        if remaining is not None:
            remaining = max(0, remaining - len(draft.mails) - len(draft.skipped))
        return MailboxPage(
            mails=tuple(draft.mails),
            skipped=tuple(draft.skipped),
            cursor=msgspec.json.encode(position).decode(),
            has_more=has_more,
            resync=reason,
            remaining=remaining if has_more else 0,
        )

    async def wait(self, seconds: float) -> bool:
        """Wait: the server does not push; see `MailboxReader.wait`."""
        await asyncio.sleep(max(0.0, seconds))
        return False

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    # positions

    async def _decode(self, cursor: str | None) -> tuple[Position[At], ResyncReason | None]:
        if cursor is not None:
            try:
                return self._decoder.decode(cursor), None
            except (msgspec.MsgspecError, UnicodeError):
                pass
        reason = ResyncReason.FIRST if cursor is None else ResyncReason.EXPIRED
        now = self._now()
        if self._since == "now":
            return Position(at=await self.begin(None), since=max(0, now - CLOCK_SKEW_MS)), reason
        start = 0 if self._since == "all" else max(0, now - self._since * DAY_MS)
        return Position(at=await self.begin(start), since=start), reason

    async def _list(
        self, position: Position[At], reason: ResyncReason | None, limits: PageLimits
    ) -> tuple[Position[At], ResyncReason | None, int | None]:
        most = max(1, min(limits.mails, MAX_LISTED))
        try:
            listing = await self._list_some(position.at, most)
        except CursorExpired:
            at = await self.begin(position.resync_from)
            reason = ResyncReason.EXPIRED
            self._listings.clear()
            try:
                listing = await self._list_some(at, most)
            except CursorExpired:
                # It would be the same resync for ever.
                raise MailboxFailure("cursor_unstable") from None
        known = {each.mail.id for each in position.late}
        mails = {each.id: each for each in listing.mails if each.id not in known}
        self._check_ids(mails)
        self._check_progress(position.at, listing, list(mails))
        position = msgspec.structs.replace(
            position, at=listing.at, pending=tuple(mails.values()), has_more=listing.has_more
        )
        return position, reason, listing.remaining

    async def _list_some(self, at: At, most: int) -> Listing[At]:
        """Pass over listings without mail: some servers report other changes, page by page."""
        for _ in range(_MAX_EMPTY_LISTINGS):
            listing = await self.list_mails(at, most)
            if listing.mails or not listing.has_more or listing.at == at:
                break
            at = listing.at
        return listing

    def _check_ids(self, mails: dict[str, ListedMail]) -> None:
        if any(not 0 < len(id_) <= _MAX_ID_LENGTH or not id_.isprintable() for id_ in mails):
            raise MailboxFailure("answer_invalid")

    def _check_progress(self, at: At, listing: Listing[At], ids: Sequence[str]) -> None:
        """Refuse a server that promises more and lists the same mails for ever."""
        if at != self._listed_until or not listing.has_more:
            self._listings.clear()  # the end, or a cursor that is read again
        self._listed_until = listing.at
        if ids:
            page = hash(tuple(ids))
            self._listings[page] += 1
            if self._listings[page] > _MAX_REPEATED:
                raise MailboxFailure("no_progress")
        if len(self._listings) > _MAX_REMEMBERED:
            self._listings.clear()

    # downloads

    async def _take_pending(self, position: Position[At], draft: _Draft) -> Position[At]:
        """Download pending mails until the page is full."""
        pending, late, newest = list(position.pending), list(position.late), position.newest
        while pending and draft.has_room(pending[0]):
            mail = pending[0]
            try:
                failed = await self._take(mail, draft)
                if failed is not None and len(late) >= _MAX_LATE:
                    raise failed
            except MailboxFailure:
                if not draft.mails and not draft.skipped:
                    raise
                break  # what was fetched counts; the next call fails
            if failed is not None:
                late.append(LateMail(mail, self._now() + _LATE_FOR_MS))
            del pending[0]
            newest = max(newest, min(mail.received_at or 0, self._now()))
        if draft.mails:
            received = max((each.received_at or 0) for each in draft.mails)
            newest = max(newest, min(received, self._now()))
        return msgspec.structs.replace(
            position, pending=tuple(pending), late=tuple(late), newest=newest
        )

    async def _take_late(self, position: Position[At], draft: _Draft) -> Position[At]:
        """Try the mail again that waits longest."""
        if not position.late or not draft.has_room(position.late[0].mail):
            return position
        first, *others = position.late
        try:
            failed = await self._take(first.mail, draft)
        except MailboxFailure as failure:
            if not draft.mails and not draft.skipped:
                raise
            failed = failure
        if failed is None:
            late = tuple(others)
        elif self._now() >= first.until:
            late = tuple(others)
            draft.skipped.append(_skipped(self._provider_id(first.mail), "unreadable"))
        else:
            late = (*others, first)
        return msgspec.structs.replace(position, late=late)

    async def _take(self, mail: ListedMail, draft: _Draft) -> MailboxFailure | None:
        """Add a mail to the page, or why it is not there; return a failure of this mail only.

        Raises: MailboxFailure: of the server.
        """
        id_, most = self._provider_id(mail), draft.limits.mail_bytes
        if mail.size is not None and mail.size > most:
            draft.skipped.append(_skipped(id_, "too_large"))
            return None
        try:
            fetched = await self.download(mail, most)
        except AnswerTooLarge:
            draft.skipped.append(_skipped(id_, "too_large"))
        except MailGone:
            draft.skipped.append(_skipped(id_, "gone"))
        except MailboxFailure as failure:
            if failure.code not in _MAIL_FAILURES:
                raise
            return failure
        else:
            draft.add(msgspec.structs.replace(fetched, provider_id=id_))
        return None

    def _provider_id(self, mail: ListedMail) -> str:
        """Return the id of a mail in the ledger; a long one is hashed."""
        if len(mail.id) <= _LONG_ID:
            return f"{self.kind}:{mail.id}"
        return f"{self.kind}:sha256:{hashlib.sha256(mail.id.encode()).hexdigest()}"


def _skipped(provider_id: str, code: str) -> SkippedMail:
    return SkippedMail(provider_id=provider_id, code=code)


def parse_time(text: str) -> int | None:
    """Return an ISO 8601 time in milliseconds, the last one at most; None if it is none."""
    try:
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        at = round(moment.timestamp() * 1000)
    except (TypeError, ValueError, OverflowError):
        return None
    return min(at, LAST_MS) if at >= 0 else None


def format_time(at: int) -> str:
    """Return milliseconds as an ISO 8601 time in UTC, in whole seconds, rounded down."""
    return datetime.fromtimestamp(at // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
