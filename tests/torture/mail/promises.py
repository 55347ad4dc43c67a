"""What is promised about mail, checked against the books and what the senders were told."""

from collections import Counter
from collections.abc import Iterator, Sequence

from tests.torture.checks import Violation, stuck
from tests.torture.history import Event, Kind
from tests.torture.mail.letters import Letter
from tests.torture.mail.post_books import PostBooks


def judge(drawn: Sequence[Letter], events: Sequence[Event], books: PostBooks) -> list[Violation]:
    """Check every promise, after everything was sent, read and numbered."""
    return [
        *_refused(events),
        *_messages(drawn, events, books),
        *judge_sequences(books),
        *judge_events(books),
        *_deliveries(drawn, books),
    ]


def _refused(events: Sequence[Event]) -> Iterator[Violation]:
    """Find answers after which a mail server would send the mail back."""
    for event in events:
        if event.kind is Kind.FAIL:
            yield Violation("refused", event.key, event.note or "")


def _messages(
    drawn: Sequence[Letter], events: Sequence[Event], books: PostBooks
) -> Iterator[Violation]:
    """Find letters that an inbox has not once: what was acknowledged is there, nothing twice."""
    told = {event.key for event in events if event.kind is Kind.OK}
    found = Counter((message.sender, message.inbox) for message in books.messages)
    for letter in drawn:
        for inbox in letter.recipients:
            count = found.pop((letter.sender, inbox), 0)
            if count > 1:
                yield Violation("doubled", letter.key, f"{count} messages in {inbox}")
            elif not count and letter.key in told:
                yield Violation("lost", letter.key, f"none in {inbox}")
    for sender, inbox in found:
        yield Violation("foreign", sender, inbox)
    for message in books.messages:
        if message.status != "parsed":
            yield Violation("unread", message.id, message.status)


def judge_sequences(books: PostBooks) -> Iterator[Violation]:
    """Find inboxes whose messages are not numbered 1, 2, 3 up to their cursor."""
    for inbox, cursor in books.cursors.items():
        numbers = [one.sequence for one in books.messages if one.inbox == inbox]
        if numbers != list(range(1, cursor + 1)):
            yield Violation("gap", inbox, f"messages {numbers}, cursor {cursor}")


def judge_events(books: PostBooks) -> Iterator[Violation]:
    """Find messages that were not told of once, and streams that are not 1, 2, 3."""
    told = Counter(message for message, _ in books.told)
    for message in books.messages:
        if (count := told.pop(message.id, 0)) != 1:
            yield Violation("missing" if not count else "doubled", message.id, f"{count} events")
    for message_id in told:
        yield Violation("foreign", message_id, "an event without its message")
    for tenant, numbers in books.numbers.items():
        if numbers != list(range(1, len(numbers) + 1)) or books.lasts.get(tenant) != len(numbers):
            yield Violation("gap", tenant, f"events {numbers}, last {books.lasts.get(tenant)}")


def _deliveries(drawn: Sequence[Letter], books: PostBooks) -> Iterator[Violation]:
    """Find deliveries that are not done, not once for the same bytes, or brought no message."""
    yield from stuck(books.deliveries, {"done"})
    most = sum(letter.relays * len(letter.recipients) for letter in drawn)
    if len(books.deliveries) > most:
        yield Violation("doubled", "deliveries", f"{len(books.deliveries)} of at most {most}")
    brought = Counter(delivery for _, delivery in books.copies)
    for delivery in books.deliveries:
        if brought[delivery] != 1:
            yield Violation("missing", delivery, f"it brought {brought[delivery]} messages")
    for message in books.messages:
        copies = sum(message_id == message.id for message_id, _ in books.copies)
        if copies != message.duplicates + 1:
            detail = f"{copies} copies, {message.duplicates} counted besides the first"
            yield Violation("miscounted", message.id, detail)
