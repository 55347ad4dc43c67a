"""``oncebox dead``: what was given up, and bringing it back."""

from functools import partial

import click

from oncebox.assembly import Rooms
from oncebox.cli import failures
from oncebox.cli.call import Call, examples, with_call
from oncebox.cli.deeds import perform, require_why, signed
from oncebox.cli.listing import show_list
from oncebox.ledger.deliveries import inspections, interventions
from oncebox.model.delivery import State

_PAGE = 500
_END = "~"


@click.command("list")
@click.option("--source", metavar="NAME", help="Only of this source.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many at most."
)
@click.option("--before", metavar="ID", default=_END, help="Go on below this one.")
@with_call
def list_(call: Call, *, source: str | None, limit: int, before: str) -> None:
    """Show deliveries that were given up, newest first."""
    show_list(call, state=State.DEAD, source=source, before=before, most=limit)


@click.command(
    "replay",
    epilog=examples(
        "oncebox dead replay dlv_… dlv_… --why 'the token was renewed'",
        "oncebox dead replay --all --source stripe --why 'the shop is back'",
    ),
)
@click.argument("wanted", metavar="[ID]…", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All that are dead.")
@click.option("--source", metavar="NAME", help="With --all: only of this source.")
@signed
@with_call
def replay(
    call: Call,
    *,
    wanted: tuple[str, ...],
    everything: bool,
    source: str | None,
    who: str,
    why: str | None,
) -> int:
    """Run dead deliveries again, oldest first.

    One that is refused, because an effect is in doubt, does not stop the others; the exit
    code is then 4.

    """
    chosen = _chosen(call, wanted, source, why, everything=everything)
    change = partial(interventions.replay, words={})
    return perform(call, chosen, change, "replayed", who=who, why=why) if chosen else failures.OK


@click.command("seen", epilog=examples("oncebox dead seen --all --why 'known, the shop was down'"))
@click.argument("wanted", metavar="[ID]…", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All that are dead.")
@click.option("--source", metavar="NAME", help="With --all: only of this source.")
@signed
@with_call
def seen(
    call: Call,
    *,
    wanted: tuple[str, ...],
    everything: bool,
    source: str | None,
    who: str,
    why: str | None,
) -> int:
    """Say that you have seen dead deliveries; only then may their bodies go.

    A body goes when its source's retention has passed. Until then the delivery can be replayed.

    """
    chosen = _chosen(call, wanted, source, why, everything=everything)
    return perform(call, chosen, interventions.see, "seen", who=who, why=why) if chosen else 0


def _chosen(
    call: Call, wanted: tuple[str, ...], source: str | None, why: str | None, *, everything: bool
) -> list[str]:
    """Return the deliveries that are meant: some, or all that are dead."""
    require_why(why)
    if bool(wanted) == everything:
        message = "name the deliveries, or say --all"
        raise click.UsageError(message)
    return _all_dead(call, source) if everything else list(wanted)


def _all_dead(call: Call, source: str | None) -> list[str]:
    """Return every dead delivery, oldest first."""

    async def work(rooms: Rooms) -> list[str]:
        found: list[str] = []
        while True:
            page = await rooms.database.read(
                inspections.newest,
                rooms.settings.tenant,
                state=State.DEAD,
                source=source,
                before=found[-1] if found else _END,
                most=_PAGE,
            )
            found += [facts.id for facts in page]
            if len(page) < _PAGE:
                return found[::-1]

    return call.run(work)
