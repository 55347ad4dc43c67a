"""``oncebox delivery list``: deliveries as lines, and how one is told in a line."""

import click

from oncebox.assembly import Rooms
from oncebox.cli.call import Call, examples, with_call
from oncebox.cli.printout import Printout
from oncebox.cli.words import duration, moment
from oncebox.ledger.deliveries import inspections
from oncebox.model.delivery import State
from oncebox.model.inspection import Facts

COLUMNS = ("delivery", "state", "source", "type", "key", "tries", "age", "note")
#: what comes after every id
_END = "~"


@click.command(
    "list",
    epilog=examples(
        "oncebox delivery list --state held",
        "oncebox delivery list --source stripe --json | jq .key",
    ),
)
@click.option("--state", type=click.Choice([str(state) for state in State]), help="Only these.")
@click.option("--source", metavar="NAME", help="Only of this source.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many at most."
)
@click.option("--before", metavar="ID", default=_END, help="Go on below this one.")
@with_call
def list_(call: Call, *, state: str | None, source: str | None, limit: int, before: str) -> None:
    """Show deliveries, newest first."""
    wanted = State(state) if state else None
    show_list(call, state=wanted, source=source, before=before, most=limit)


def show_list(
    call: Call, *, state: State | None, source: str | None, before: str, most: int
) -> None:
    """Print deliveries, newest first."""

    async def work(rooms: Rooms) -> tuple[list[Facts], int]:
        found = await rooms.database.read(
            inspections.newest,
            rooms.settings.tenant,
            state=state,
            source=source,
            before=before,
            most=most,
        )
        return found, rooms.database.clock()

    found, now = call.run(work)
    if call.out.as_json:
        for facts in found:
            call.out.record(facts)
    elif call.out.quiet:
        for facts in found:
            call.out.line(facts.id)
    else:
        call.out.table(COLUMNS, [told(facts, now, call.out) for facts in found])


def told(facts: Facts, now: int, out: Printout) -> tuple[object, ...]:
    """Return a delivery as the cells of a line."""
    age = max(0, now - facts.received_at)
    received = duration(age) if out.on_terminal else moment(facts.received_at)
    return (
        facts.id, facts.state, facts.source, facts.type, facts.key, facts.tries, received,
        note(facts),
    )  # fmt: skip


def note(facts: Facts) -> str:
    """Return what a line should add: why it is held, or how it ended or last failed."""
    if facts.state is State.HELD:
        return facts.hold_reason or ""
    if facts.state is State.DONE:
        return facts.outcome or ""
    return facts.last_error or ""
