"""`MailboxReader` protocol: pages of mail after a cursor, and the failures all readers share."""

from enum import StrEnum
from typing import Protocol

import msgspec


class MailboxFailure(Exception):
    """A server could not be read now; nothing of the page counts.

    ``code`` is one of our own words, never a text of the server.
    """

    def __init__(
        self,
        code: str,
        *,
        retry_after: float | None = None,
        needs_operator: bool = False,
        reply: int = 0,
    ) -> None:
        """``retry_after`` is in seconds; ``needs_operator``: a repeat cannot succeed."""
        super().__init__(code)
        self.code = code
        self.retry_after = retry_after
        self.needs_operator = needs_operator
        #: the status of an HTTP answer; 0 without one
        self.reply = reply


class ResyncReason(StrEnum):
    """Why a page does not continue at its cursor."""

    #: there was no cursor
    FIRST = "first"
    #: the folder was made anew (IMAP)
    UIDVALIDITY = "uidvalidity_changed"
    #: the server has forgotten the cursor (JMAP, Gmail, Graph, inbox APIs)
    EXPIRED = "cursor_expired"


class FetchedMail(msgspec.Struct, frozen=True, kw_only=True):
    """One mail as the server stores it."""

    #: the same for the same mail of a mailbox, whenever it is read
    provider_id: str
    #: MIME, as the server received it where it can tell
    raw: bytes
    #: when the server received it, in milliseconds since 1970
    received_at: int | None = None
    #: the addresses it was delivered to, where the server says so
    recipients: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"FetchedMail(provider_id={self.provider_id!r}, size={len(self.raw)})"


class SkippedMail(msgspec.Struct, frozen=True, kw_only=True):
    """One mail that cannot be fetched, and why; the cursor is beyond it."""

    provider_id: str
    #: ``too_large``, ``gone`` or ``unreadable``
    code: str


class MailboxPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some mails after a cursor."""

    mails: tuple[FetchedMail, ...] = ()
    skipped: tuple[SkippedMail, ...] = ()
    #: continues after these mails; committed together with them
    cursor: str
    #: the next page can be fetched at once
    has_more: bool = False
    #: why it does not continue at the cursor that was given
    resync: ResyncReason | None = None
    #: mails on the server from the cursor on, where it is known: the progress of a first sync
    remaining: int | None = None


class PageLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much one page may hold."""

    mails: int = 100
    #: bytes of all mails of a page; a larger one comes alone
    page_bytes: int = 16 * 1024 * 1024
    #: bytes of one mail; a larger one is skipped
    mail_bytes: int = 26_214_400
    #: seconds of one request
    within: float = 30.0


class MailboxProbe(msgspec.Struct, frozen=True, kw_only=True):
    """What a server offers: the answer of ``oncebox mailbox test``."""

    #: such as ``IDLE`` and ``CONDSTORE``
    capabilities: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    #: mails in the folders that are read, where it is known
    mails: int | None = None


class MailboxReader(Protocol):
    """Reads one mailbox over one kept connection; calls never overlap.

    Every method may raise ``MailboxFailure``; the next call connects again.
    """

    async def fetch(self, cursor: str | None, limits: PageLimits) -> MailboxPage:
        """Return the mails after a cursor; without one, from where the configuration begins.

        A cursor is a value: the same one gives the same mails again, unless they are gone. One
        that the server no longer knows gives a bounded resync, not an error.
        """
        ...

    async def wait(self, seconds: float) -> bool:
        """Return when new mail may be there; False after ``seconds`` without a sign.

        Raises: NotImplementedError never: a server without push is waited out.
        """
        ...

    async def probe(self) -> MailboxProbe:
        """Connect and log in; read no mail."""
        ...

    async def close(self) -> None:
        """Close the connection."""
        ...
