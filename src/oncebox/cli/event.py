"""``oncebox event``: what happened, as a list or as it happens."""

from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, TypeVar

import click
import msgspec

from oncebox import clock
from oncebox.assembly import Rooms
from oncebox.cli.call import Call, examples, with_call
from oncebox.cli.office import owned, whose
from oncebox.cli.words import moment
from oncebox.ledger.events import stream
from oncebox.model.event import Event, Selection

F = TypeVar("F", bound=Callable[..., Any])

_COLUMNS = ("number", "at", "type", "subject", "inbox", "attempt", "data")
#: seconds between two looks at most
_LONGEST_REST = 1.0
_PAGE = 500


def _filtered(command: F) -> F:
    """Add which events are wanted."""
    for option in (
        click.option("--type", "types", metavar="NAME", multiple=True, help="Only of this type."),
        click.option("--inbox", metavar="ID", help="Only of this inbox."),
        click.option("--attempt", metavar="ID", help="Only of this attempt."),
    ):
        command = option(command)
    return owned(command)


@click.command(
    "list",
    epilog=examples(
        "oncebox event list --type delivery.dead",
        "oncebox event list --after 1200 --json | jq .subject_id",
    ),
)
@_filtered
@click.option("--after", type=click.IntRange(0), metavar="NUMBER", help="Only after this one.")
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=50,
    show_default=True,
    help="How many at most.",
)
@with_call
def list_(call: Call, /, *, after: int | None, limit: int, **filters: Any) -> None:
    """Show events, oldest first."""

    async def work(rooms: Rooms) -> list[Event]:
        found: list[Event] = []
        place, more = after, True
        while more and len(found) < limit:
            part = await rooms.database.read(
                stream.read, _wanted(rooms, **filters), place, limit - len(found)
            )
            found += part.events
            place, more = part.upto, part.has_more
        return found

    found = call.run(work)
    if call.out.as_json or call.out.quiet:
        for event in found:
            _print(call, event)
    else:
        call.out.table(_COLUMNS, [_cells(event) for event in found])


@click.command("follow", epilog=examples("oncebox event follow --type message.received --json"))
@_filtered
@click.option("--after", type=click.IntRange(0), metavar="NUMBER",
              help="Begin after this one, not with what is new.")  # fmt: skip
@click.option("--for", "seconds", type=click.FloatRange(min=0), metavar="SECONDS",
              help="End after that time.")  # fmt: skip
@with_call
def follow(call: Call, /, *, after: int | None, seconds: float | None, **filters: Any) -> None:
    """Follow events as they happen, until ^C.

    Events get their numbers from a service; without one nothing new is shown.
    """

    async def work(rooms: Rooms) -> None:
        wanted = _wanted(rooms, **filters)
        place = after
        if place is None:
            place = (await rooms.database.read(stream.ends, wanted.tenant)).last
        async for event in _happening(rooms, wanted, place, seconds):
            _print(call, event)

    with suppress(KeyboardInterrupt):
        call.run(work)


async def _happening(
    rooms: Rooms, wanted: Selection, after: int, seconds: float | None
) -> AsyncIterator[Event]:
    """Yield events after a number as they happen, until the time has passed."""
    end = None if seconds is None else clock.steady() + seconds
    follower = await rooms.broadcast.follow(wanted, after)
    try:
        while end is None or clock.steady() < end:
            events = await follower.next(_PAGE)
            for event in events:
                yield event
            if not events:
                left = _LONGEST_REST if end is None else end - clock.steady()
                await follower.wait(max(0.0, min(_LONGEST_REST, left)))
    finally:
        follower.leave()


def _wanted(
    rooms: Rooms,
    *,
    tenant: str | None,
    types: tuple[str, ...],
    inbox: str | None,
    attempt: str | None,
) -> Selection:
    return Selection(
        tenant=whose(rooms, tenant), types=frozenset(types), inbox_id=inbox, attempt_id=attempt
    )


def _print(call: Call, event: Event) -> None:
    if call.out.as_json:
        call.out.record(event)
    elif call.out.quiet:
        call.out.line(event.id)
    else:
        call.out.line(*_cells(event))


def _cells(event: Event) -> tuple[object, ...]:
    return (
        event.number, moment(event.at), event.type, event.subject_id, event.inbox_id or "",
        event.attempt_id or "", msgspec.json.encode(event.data).decode(),
    )  # fmt: skip
