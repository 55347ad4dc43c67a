"""Mailboxes on other servers; secrets are written and never returned; durations in seconds."""

from typing import Annotated, Literal

import msgspec

from oncebox.model.mailboxes import mailbox as model
from oncebox.model.mailboxes.mailbox import MailboxFigures
from oncebox.model.mailboxes.mailbox_fields import MailboxFields
from oncebox.schemas.fields import ListPage, Timestamp

MailboxName = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]


class NewMailbox(MailboxFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A mailbox to read."""

    name: MailboxName


class ChangedMailbox(MailboxFields, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole configuration of a mailbox; fields left out get their defaults."""


class Mailbox(msgspec.Struct, frozen=True, kw_only=True):
    """A mailbox without its secrets: configuration, state and figures."""

    id: str
    name: str
    kind: Literal["imap", "jmap", "gmail", "graph", "rest", "program"]
    #: the server and the account
    account: str
    #: ``failing``: tried again at ``due_at``; ``waiting``: no process reads it now
    state: Literal["reading", "waiting", "failing", "paused"]
    #: ``file``: written in the settings, and changed only there
    origin: Literal["file", "database"]
    inbox: str | None
    address: str
    trust_results: str
    poll_every: float
    push: str | None
    poll_after: float
    #: ``operator``, or the code of the failure that paused it
    paused: str | None
    #: consecutive failures, and the code of the last
    failures: int
    failure: str | None
    failed_at: Timestamp | None
    #: when a failing mailbox is tried again
    due_at: Timestamp | None
    polled_at: Timestamp | None
    #: when a page was last stored
    succeeded_at: Timestamp | None
    #: when the first message arrived
    first_message_at: Timestamp | None
    #: mails that are still to be read, where the server says so
    remaining: int | None
    #: rises with every page
    cursor_version: int
    figures: MailboxFigures
    created_at: Timestamp
    changed_at: Timestamp


class MailboxPage(ListPage, frozen=True, kw_only=True):
    """A page of mailboxes, by name."""

    data: list[Mailbox]


class MailboxTest(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a mailbox can be read: connected and logged in, no mail read."""

    name: str
    works: bool
    #: the failure, if it does not work
    code: str | None = None
    #: such as ``IDLE`` and ``CONDSTORE``
    capabilities: list[str] = []
    folders: list[str] = []
    #: mails in the folders that are read, where it is known
    mails: int | None = None


def mailbox_schema(found: model.Mailbox, now: int) -> Mailbox:
    """Return a mailbox as the API and the command line show it."""
    return Mailbox(
        id=found.id,
        name=found.name,
        kind=found.kind.value,
        account=found.account,
        state=found.state(now),
        origin=found.origin.value,
        inbox=found.inbox_id,
        address=found.address,
        trust_results=found.authserv,
        poll_every=found.poll_every / 1000,
        push=found.push_source,
        poll_after=found.poll_after / 1000,
        paused=found.paused,
        failures=found.failures,
        failure=found.failure,
        failed_at=found.failed_at,
        due_at=found.due_at if found.failures else None,
        polled_at=found.polled_at,
        succeeded_at=found.succeeded_at,
        first_message_at=found.first_message_at,
        remaining=found.remaining,
        cursor_version=found.cursor_version,
        figures=found.figures,
        created_at=found.created_at,
        changed_at=found.changed_at,
    )
