"""Pages of IMAP mail: cursor, folder positions, what is known of a mail, which mails are taken."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from oncebox.mailboxes.imap_responses import AnswerInvalid, Value, parse_date, to_number, to_text
from oncebox.mailboxes.reader import FetchedMail, PageLimits, ResyncReason, SkippedMail

#: INTERNALDATE has whole seconds
_LAST_OF_SECOND_MS = 999


class FolderPosition(msgspec.Struct, frozen=True, array_like=True):
    """How far a folder was read."""

    uidvalidity: int
    #: the last uid that was read
    uid: int = 0
    #: HIGHESTMODSEQ of the folder when it was read to its end; 0: unknown
    modseq: int = 0
    #: milliseconds: the newest mail that was read
    newest: int = 0
    #: up to this uid, mails from before `ImapCursor.since` are passed over
    until: int = 0


class ImapCursor(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a mailbox was read."""

    folders: dict[str, FolderPosition]
    #: milliseconds: mails from before are not read; 0: all are
    since: int = 0


CURSOR_DECODER = msgspec.json.Decoder(ImapCursor)


class FolderStatus(msgspec.Struct, frozen=True):
    """What EXAMINE says; 0 where it does not."""

    uidvalidity: int
    uidnext: int
    exists: int
    modseq: int

    @property
    def arrivals(self) -> tuple[int, int]:
        """A value that is another one when a mail has arrived."""
        return self.uidvalidity, self.uidnext or self.exists


class MailFacts(msgspec.Struct, frozen=True):
    """What is known of a mail before its body."""

    size: int
    received_at: int | None
    #: the same in all folders; empty where the server has none
    object_id: str


@dataclass(slots=True)
class UidsAhead:
    """Uids that a search found and no page has covered yet."""

    folder: str
    position: FolderPosition
    status: FolderStatus
    uids: list[int]
    #: there are no others
    is_all: bool


@dataclass(slots=True)
class PageDraft:
    """A page in the making."""

    limits: PageLimits
    since: int
    mails: dict[str, FetchedMail] = field(default_factory=dict)
    skipped: list[SkippedMail] = field(default_factory=list)
    size: int = 0
    #: mails and uids without one
    looked_at: int = 0
    has_more: bool = False
    remaining: int | None = 0
    resync: ResyncReason | None = None

    @property
    def is_full(self) -> bool:
        """Whether nothing more is added."""
        return self.looked_at >= self.limits.mails or self.size >= self.limits.page_bytes


#: items that name a mail in all folders, by the capability that offers them
OBJECT_ID_ITEMS = {"OBJECTID": "EMAILID", "X-GM-EXT-1": "X-GM-MSGID"}


def uid_of(items: Mapping[str, Value]) -> int:
    """Return the uid of a FETCH response; 0 for one that nobody asked for."""
    return to_number(items["UID"]) if "UID" in items else 0


def facts_of(items: Mapping[str, Value], object_item: str) -> MailFacts:
    """Return what a FETCH response says of a mail.

    Raises: AnswerInvalid.
    """
    named = items.get(object_item)
    if isinstance(named, list):  # EMAILID (M6d99ac3275bb4e)
        named = named[0] if named else None
    object_id = f"{object_item}:{to_text(named)}" if named else ""
    if len(object_id) > 255 or not object_id.isprintable():  # noqa: PLR2004
        raise AnswerInvalid
    size = to_number(items["RFC822.SIZE"], most=2**63 - 1)
    return MailFacts(size, parse_date(items.get("INTERNALDATE")), object_id)


def _provider_id(folder: str, uidvalidity: int, uid: int, fact: MailFacts | None) -> str:
    """Return the id of a mail; an object id survives a move to another folder."""
    if fact is not None and fact.object_id:
        return f"imap:{fact.object_id}"
    return f"imap:{folder}:{uidvalidity}:{uid}"


def is_wanted(uid: int, fact: MailFacts | None, ahead: UidsAhead, page: PageDraft) -> bool:
    """Tell whether the body of a mail is fetched."""
    fits = fact is not None and fact.size <= page.limits.mail_bytes
    return fact is not None and fits and not _is_before(uid, fact, ahead, page)


def add_mail(
    page: PageDraft, ahead: UidsAhead, uid: int, fact: MailFacts | None, body: bytes | str | None
) -> None:
    """Add one mail to a page, or why it is not there: a text, or None for its size or absence."""
    mail_id = _provider_id(ahead.folder, ahead.status.uidvalidity, uid, fact)
    if isinstance(body, bytes):
        received_at = fact.received_at if fact else None
        if received_at is not None:
            # An inbox that was made in the same second is not younger than the mail.
            received_at += _LAST_OF_SECOND_MS
        page.mails.setdefault(
            mail_id, FetchedMail(provider_id=mail_id, raw=body, received_at=received_at)
        )
        page.size += len(body)
    elif fact is None or not _is_before(uid, fact, ahead, page):
        code = "gone" if fact is None else body or "too_large"
        page.skipped.append(SkippedMail(provider_id=mail_id, code=code))


def _is_before(uid: int, fact: MailFacts, ahead: UidsAhead, page: PageDraft) -> bool:
    """Tell whether a mail was there before the mailbox was added."""
    received_at = fact.received_at
    return uid <= ahead.position.until and received_at is not None and received_at < page.since


def within_bytes(uids: Iterable[int], facts: Mapping[int, MailFacts], room: int) -> list[int]:
    """Return the first uids whose mails fit into so many bytes, at least one."""
    chosen: list[int] = []
    for uid in uids:
        room -= facts[uid].size
        if chosen and room < 0:
            break
        chosen.append(uid)
    return chosen
