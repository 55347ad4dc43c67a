"""What is promised about mailboxes, checked against the books and what senders were told."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tests.torture.checks import Violation, stuck
from tests.torture.history import Event, Kind
from tests.torture.mail.post_books import PostBooks
from tests.torture.mail.promises import judge_events, judge_sequences
from tests.torture.mailboxes.books import Row, delivery_key
from tests.torture.mailboxes.mails import MAILBOXES, Mail, key_in

#: an inbox and a code
Code = tuple[str, str]


def judge(
    mails: Sequence[Mail],
    events: Iterable[Event],
    books: PostBooks,
    grants: Iterable[Code],
    inbox_ids: Mapping[str, str],
) -> list[Violation]:
    """Check every promise, after everything was sent, read, parsed and claimed."""
    return [
        *(Violation("refused", each.key, each.note or "") for each in events
          if each.kind is Kind.FAIL),
        *judge_messages(mails, ((each.sender, each.inbox) for each in books.messages)),
        *(Violation("unread", each.id, each.status) for each in books.messages
          if each.status != "parsed"),
        *judge_grants(mails, grants, inbox_ids),
        *judge_sequences(books),
        *judge_events(books),
        *stuck(books.deliveries, {"done"}),
    ]  # fmt: skip


def judge_messages(
    mails: Sequence[Mail], messages: Iterable[tuple[str, str]]
) -> Iterator[Violation]:
    """Find mails that are not one message in each of their inboxes."""
    found = Counter(messages)
    for mail in mails:
        for inbox in mail.recipients:
            count = found.pop((mail.sender, inbox), 0)
            if count != 1:
                rule = "doubled" if count else "lost"
                how = f"{count} messages in {inbox}, by {'+'.join(mail.channels)} {mail.mailbox}"
                yield Violation(rule, mail.key, how)
    for sender, inbox in found:
        yield Violation("foreign", sender, inbox)


def judge_grants(
    mails: Sequence[Mail], grants: Iterable[Code], inbox_ids: Mapping[str, str]
) -> Iterator[Violation]:
    """Find codes that were not granted once in each inbox of their mail."""
    found = Counter(grants)
    for mail in mails:
        for inbox in mail.recipients:
            count = found.pop((inbox_ids[inbox], mail.code), 0)
            if count != 1:
                rule = "doubled" if count else "lost"
                yield Violation(f"{rule} grant", mail.key, f"{count} grants of its code")
    for inbox_id, _code in found:
        yield Violation("foreign", inbox_id, "a grant of a code that nobody sent")


def missing(
    mailbox: str,
    raws: Iterable[bytes],
    mails: Mapping[str, Mail],
    keys: set[str],
    inbox_ids: Mapping[str, str],
) -> list[str]:
    """Return the keys of mails of a mailbox that are not stored in all of their inboxes."""
    found: list[str] = []
    for raw in raws:
        mail = mails[key_in(raw)]
        bound = MAILBOXES[mailbox]
        inboxes = mail.recipients if bound is None else mail.recipients[:1]
        if any(delivery_key(inbox_ids[each], raw) not in keys for each in inboxes):
            found.append(mail.key)
    return found


def judge_cursor(row: Row, absent: Sequence[str]) -> Iterator[Violation]:
    """Find a cursor that is beyond mails which are not stored."""
    if absent:
        how = f"version {row.cursor_version}: {len(absent)} mails are missing, such as {absent[0]}"
        yield Violation("ahead", row.name, how)
