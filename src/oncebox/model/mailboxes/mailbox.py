"""A mailbox on another server: configuration, lease, cursor, failures and figures."""

from collections.abc import Callable
from enum import StrEnum
from typing import Literal

import msgspec

#: the pause of an operator; other pauses are codes of failures
PAUSED_BY_OPERATOR = "operator"
#: how often a failure that needs an operator is tried before the mailbox is paused
TRIES_BEFORE_PAUSE = 3
_MAX_DOUBLINGS = 20
#: seconds that a server may ask to be left alone
_MAX_RETRY_AFTER = 86_400.0


class MailboxKind(StrEnum):
    """How a mailbox is read."""

    IMAP = "imap"
    JMAP = "jmap"
    GMAIL = "gmail"
    GRAPH = "graph"
    #: an API that lists messages, described by a table
    REST = "rest"
    #: a program of the user's, by ``Poller``
    PROGRAM = "program"


class MailboxOrigin(StrEnum):
    """Where a mailbox is written."""

    #: in the settings; only processes whose settings have it read it, and it is changed there only
    FILE = "file"
    #: in the database, by command or API
    DATABASE = "database"


class NewMailbox(msgspec.Struct, frozen=True, kw_only=True):
    """Configuration of a mailbox; times in milliseconds."""

    name: str
    kind: MailboxKind
    #: the server and the account, without secrets
    account: str
    #: encrypted
    config: bytes
    #: its own mail address; empty if it is unknown
    address: str = ""
    #: the server whose ``Authentication-Results`` count, by its authserv-id; empty: none
    authserv: str = ""
    origin: MailboxOrigin = MailboxOrigin.DATABASE
    #: the inbox of all its mail; none: by recipient
    inbox_id: str | None = None
    #: between two polls where the server does not push
    poll_every: int = 60_000
    #: the webhook source that reports its mail first, and the silence after which it is polled
    push_source: str | None = None
    poll_after: int = 30_000


class MailboxFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What was counted since the mailbox was added."""

    #: requests for a page, with or without mail
    polls: int = 0
    #: mails that were stored
    messages: int = 0
    #: mails that were stored before, by this mailbox or by another channel
    duplicates: int = 0
    #: mails that a cursor or a resync gave again
    replays: int = 0
    #: mails that could not be fetched
    skipped: int = 0
    #: mails for no inbox of ours
    unrouted: int = 0
    #: times at which the server did not know the cursor
    resyncs: int = 0
    #: leases that another process had taken
    lease_conflicts: int = 0
    #: deadlines of programs that passed without a message
    timeouts: int = 0


class Mailbox(msgspec.Struct, frozen=True, kw_only=True):
    """A stored mailbox."""

    id: str
    tenant: str
    name: str
    kind: MailboxKind
    account: str
    config: bytes
    address: str
    authserv: str
    origin: MailboxOrigin
    inbox_id: str | None
    poll_every: int
    push_source: str | None
    poll_after: int
    #: what the reader continues after; none before the first page
    cursor: str | None
    #: rises with every page
    cursor_version: int
    #: ``operator``, or the code of the failure that paused it
    paused: str | None
    #: when it may be claimed; while it is leased, the end of the lease
    due_at: int | None
    fence: int
    worker: str | None
    #: consecutive failures, and the last
    failures: int
    failure: str | None
    failed_at: int | None
    polled_at: int | None
    succeeded_at: int | None
    #: mails that are still to be read, where the server says so
    remaining: int | None
    first_message_at: int | None
    created_at: int
    changed_at: int
    figures: MailboxFigures

    def state(self, now: int) -> Literal["reading", "failing", "paused", "waiting"]:
        """Return in one word whether its mail is read."""
        if self.paused is not None:
            return "paused"
        if self.failures:
            return "failing"
        leased = self.worker is not None and self.due_at is not None and self.due_at > now
        return "reading" if leased else "waiting"


class MailboxProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far the reading of a mailbox is."""

    tenant: str
    name: str
    kind: MailboxKind
    origin: MailboxOrigin
    paused: str | None
    succeeded_at: int | None
    remaining: int | None
    poll_every: int
    poll_after: int
    #: when a webhook last brought mail of it
    pushed_at: int | None
    changed_at: int

    def lag(self, now: int) -> int:
        """Return for how many milliseconds its next read is overdue.

        One that is paused has no schedule, and the schedule of a program is its own.
        """
        if self.paused is not None or self.kind is MailboxKind.PROGRAM:
            return 0
        due_at = max(self.succeeded_at or 0, self.changed_at) + self.poll_every
        if self.pushed_at is not None:
            due_at = max(due_at, self.pushed_at + self.poll_after)
        return max(0, now - due_at)


class MailboxLease(msgspec.Struct, frozen=True, kw_only=True):
    """The right of one worker to read a mailbox; every write carries its fence."""

    id: str
    tenant: str
    fence: int


class PageCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What one page held, beside its mails."""

    skipped: int = 0
    unrouted: int = 0
    resync: bool = False
    remaining: int | None = None
    #: 0 for a part of a page that is stored in parts
    polls: int = 1
    #: mails that were recognised before they were stored
    repeated: int = 0


def backoff(failures: int, retry_after: float | None, random: Callable[[], float]) -> int:
    """Return the milliseconds until the next try: doubling from 1 s to 15 min, half of it random.

    ``random`` returns a number between 0 and 1; ``retry_after`` is what the server asks, in
    seconds; it counts up to a day.
    """
    bound = min(900_000, 1_000 << min(max(failures - 1, 0), _MAX_DOUBLINGS))
    waits = bound // 2 + int(bound / 2 * random())
    return max(waits, 0 if retry_after is None else int(min(retry_after, _MAX_RETRY_AFTER) * 1000))
