"""`oncebox event list|follow`: the event log."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import click
import msgspec

from oncebox.cli.context import CommandContext, examples, with_context
from oncebox.cli.options import tenant_of, tenant_option
from oncebox.cli.output.times import iso_time
from oncebox.core import clock
from oncebox.ledger.events import event_log
from oncebox.model.events import Event, EventFilter

if TYPE_CHECKING:
    from oncebox.cli.reader import Reader

F = TypeVar("F", bound=Callable[..., Any])

#: seconds between two queries for new events
_POLL_INTERVAL = 0.1
_PAGE = 500


def _filter_options(command: F) -> F:
    """Add which events are wanted."""
    for option in (
        click.option(
            "--type", "types", metavar="NAME", multiple=True, help="Filter by type. Repeatable."
        ),
        click.option("--inbox", metavar="ID", help="Filter by inbox."),
        click.option("--attempt", metavar="ID", help="Filter by attempt."),
    ):
        command = option(command)
    return tenant_option(command)


@click.command(
    "list",
    epilog=examples(
        "oncebox event list --type delivery.dead",
        "oncebox event list --after 1200 --json | jq .subject_id",
    ),
)
@_filter_options
@click.option(
    "--after", type=click.IntRange(0), metavar="NUMBER", help="Continue the list after this number."
)
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=50,
    show_default=True,
    help="Maximum number of rows.",
)
@with_context
def list_(call: CommandContext, /, *, after: int | None, limit: int, **filters: Any) -> None:
    """List events, oldest first."""
    found: list[Event] = []
    with call.reader() as reader:
        wanted = _event_filter(reader, **filters)
        position, more = after, True
        while more and len(found) < limit:
            page = reader.read(event_log.read, wanted, position, limit - len(found))
            found += page.events
            position, more = page.up_to, page.has_more
    columns = ("number", "at", "type", "subject", "inbox", "attempt", "data")
    call.out.listing(found, columns, _event_row)


@click.command("follow", epilog=examples("oncebox event follow --type message.received --json"))
@_filter_options
@click.option("--after", type=click.IntRange(0), metavar="NUMBER",
              help="Start after this number instead of at the end.")  # fmt: skip
@click.option("--for", "seconds", type=click.FloatRange(min=0), metavar="SECONDS",
              help="Stop after so many seconds.")  # fmt: skip
@with_context
def follow(
    call: CommandContext, /, *, after: int | None, seconds: float | None, **filters: Any
) -> None:
    """Follow events as they happen until ^C.

    A running service numbers the events; without one, no new events are shown.
    """
    with suppress(KeyboardInterrupt), call.reader() as reader:
        wanted = _event_filter(reader, **filters)
        if after is None:
            after = reader.read(event_log.bounds, wanted.tenant).last
        for event in _follow_events(reader, wanted, after, seconds):
            call.out.result(event, *_event_row(event), name=event.id)


def _follow_events(
    reader: "Reader", wanted: EventFilter, after: int, seconds: float | None
) -> Iterator[Event]:
    """Yield events after a number as they happen, until the time has passed."""
    end = None if seconds is None else clock.steady() + seconds
    while end is None or clock.steady() < end:
        page = reader.read(event_log.read, wanted, after, _PAGE)
        yield from page.events
        after = page.up_to
        if not page.has_more:
            time.sleep(_POLL_INTERVAL)


def _event_filter(
    reader: "Reader",
    *,
    tenant: str | None,
    types: tuple[str, ...],
    inbox: str | None,
    attempt: str | None,
) -> EventFilter:
    return EventFilter(
        tenant=tenant_of(reader, tenant), types=frozenset(types), inbox_id=inbox, attempt_id=attempt
    )


def _event_row(event: Event) -> tuple[object, ...]:
    return (
        event.number, iso_time(event.at), event.type, event.subject_id, event.inbox_id or "",
        event.attempt_id or "", msgspec.json.encode(event.data).decode(),
    )  # fmt: skip
