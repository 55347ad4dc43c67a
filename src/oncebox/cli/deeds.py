"""``oncebox delivery replay``, ``hold``, ``release``: what a person does, with who and why."""

import getpass
import os
import platform
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn, TypeVar

import click

from oncebox import ids
from oncebox.assembly import Rooms
from oncebox.cli import failures
from oncebox.cli.call import Call, examples, with_call
from oncebox.cli.progress import steps
from oncebox.errors import NotFound, StateConflict
from oncebox.ledger.deliveries import inspections, interventions
from oncebox.ledger.deliveries.interventions import Words
from oncebox.ledger.office.audit import Deed
from oncebox.model.effect import EffectState
from oncebox.model.inspection import Inspection
from oncebox.store.database import Transaction

F = TypeVar("F", bound=Callable[..., Any])

#: a change of one delivery, without its transaction: ``(tx, id, deed)``
Change = Callable[[Transaction, str, Deed], None]

_WORDS = {"done": EffectState.DONE, "not-done": EffectState.NOT_DONE}


class _Rehearsed(Exception):
    """Carries what a change would have led to out of the transaction it undoes."""

    def __init__(self, outcome: Inspection) -> None:
        super().__init__()
        self.outcome = outcome


def default_who() -> str:
    """Return the login name and host of whoever types."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as in some containers
        name = f"uid-{os.getuid()}"
    return f"{name}@{platform.node()}"


def signed(command: F) -> F:
    """Add who and why."""
    who = click.option(
        "--who", metavar="NAME", default=default_who, help="Who does it.  [your login]"
    )
    why = click.option("--why", metavar="TEXT", help="The reason; it is kept in the audit.")
    return who(why(command))


dry_run = click.option("--dry-run", is_flag=True, help="Say what would happen; change nothing.")
effect_words = click.option(
    "--effect",
    "effects",
    multiple=True,
    metavar="NAME=done|not-done",
    help="Your word on an effect in doubt. Repeatable.",
)


@click.command(
    "replay",
    epilog=examples(
        "oncebox delivery replay dlv_… --dry-run",
        "oncebox delivery replay dlv_… --why 'the shop was down' --effect open-issue=done",
    ),
)
@click.argument("wanted", metavar="ID")
@effect_words
@dry_run
@signed
@with_call
def replay(
    call: Call, *, wanted: str, effects: tuple[str, ...], dry_run: bool, who: str, why: str | None
) -> int:
    """Run a done or dead delivery again.

    Effects that are done stay done: their stored results are used. While an effect is in
    doubt the replay is refused, until --effect says what became of it.

    """
    change = partial(interventions.replay, words=_words(effects))
    if dry_run:
        return rehearse(call, wanted, change, who=who)
    return perform(call, [wanted], change, "replayed", who=who, why=why)


@click.command("hold")
@click.argument("wanted", metavar="ID")
@signed
@with_call
def hold(call: Call, *, wanted: str, who: str, why: str | None) -> int:
    """Keep a waiting delivery from running, until it is released."""
    return perform(call, [wanted], interventions.hold, "held", who=who, why=why)


@click.command(
    "release",
    epilog=examples(
        "oncebox delivery release dlv_… --why 'seen in the tracker' --effect open-issue=done",
    ),
)
@click.argument("wanted", metavar="ID")
@effect_words
@dry_run
@signed
@with_call
def release(
    call: Call, *, wanted: str, effects: tuple[str, ...], dry_run: bool, who: str, why: str | None
) -> int:
    """Let a held delivery run.

    While an effect is in doubt this is refused, until --effect says what became of it.

    """
    change = partial(interventions.release, words=_words(effects))
    if dry_run:
        return rehearse(call, wanted, change, who=who)
    return perform(call, [wanted], change, "released", who=who, why=why)


def perform(
    call: Call, wanted: list[str], change: Change, done: str, *, who: str, why: str | None
) -> int:
    """Change deliveries, each in a commit of its own with its audit; return the exit code.

    Raises: NotFound, StateConflict, when there is only one and it is refused.
    """
    reason = require_why(why)

    async def work(rooms: Rooms) -> int:
        worst = failures.OK
        for each in steps(call.out, done, wanted):
            try:
                id_ = await _write(rooms, each, change, who=who, why=reason)
            except (NotFound, StateConflict) as error:
                if len(wanted) == 1:
                    raise
                worst = max(worst, failures.tell(error, as_json=call.out.as_json))
            else:
                _print_done(call, id_, done)
        return worst

    return call.run(work)


def rehearse(call: Call, wanted: str, change: Change, *, who: str) -> int:
    """Try a change out and undo it; print what it would do, and return the exit code."""

    async def work(rooms: Rooms) -> int:
        rehearsal = partial(_rehearse, change=change)
        try:
            await _write(rooms, wanted, rehearsal, who=who, why="")
        except _Rehearsed as would:
            _print_plan(call, would.outcome)
        except StateConflict as error:
            _print_refusal(call, str(error))
            return failures.CONFLICT
        return failures.OK

    return call.run(work)


def require_why(why: str | None) -> str:
    """Refuse a deed without a reason."""
    if not (why or "").strip():
        message = "say why: --why TEXT; it is kept in the audit"
        raise click.UsageError(message)
    return str(why)


async def _write(rooms: Rooms, wanted: str, change: Change, *, who: str, why: str) -> str:
    tenant = rooms.settings.tenant
    id_ = await rooms.database.read(_only, tenant, wanted)
    deed = Deed(id=ids.new("aud"), tenant=tenant, at=rooms.database.clock(), who=who, why=why)
    await rooms.database.write(change, id_, deed)
    rooms.desk.ring()
    return id_


def _rehearse(tx: Transaction, id_: str, deed: Deed, *, change: Change) -> NoReturn:
    """Make the change, look at it, and leave by an exception so that nothing is committed."""
    change(tx, id_, deed)
    raise _Rehearsed(inspections.inspect(tx, deed.tenant, id_, deed.at))


def _only(tx: Transaction, tenant: str, wanted: str) -> str:
    """Return the one delivery that is meant by an id or key."""
    found = inspections.find(tx, tenant, wanted)
    if len(found) > 1:
        message = f"that key means {len(found)} deliveries; give the id: {', '.join(found)}"
        raise click.UsageError(message)
    return found[0]


def _words(effects: tuple[str, ...]) -> Words:
    words: dict[str, EffectState] = {}
    for text in effects:
        name, _, word = text.rpartition("=")
        if not name or word not in _WORDS:
            message = f"{text!r} is not NAME=done or NAME=not-done"
            raise click.BadParameter(message, param_hint="--effect")
        words[name] = _WORDS[word]
    return words


def _print_done(call: Call, id_: str, done: str) -> None:
    if call.out.as_json:
        call.out.record({"id": id_, "action": done})
    elif not call.out.quiet:
        call.out.line(id_, done)


def _print_refusal(call: Call, reason: str) -> None:
    if call.out.as_json:
        call.out.record({"would_run": False, "refused": reason})
    else:
        call.out.outline([("would be refused", reason)])


def _print_plan(call: Call, outcome: Inspection) -> None:
    """Say which effects would be left alone and which could run."""
    done = [each.name for each in outcome.effects if each.state is EffectState.DONE]
    again = [each.name for each in outcome.effects if each.state is not EffectState.DONE]
    if call.out.as_json:
        call.out.record({
            "id": outcome.delivery.id, "would_run": True, "done": done, "may_run": again,
        })  # fmt: skip
        return
    lines = [("would run", outcome.delivery.id, "nothing was changed")]
    lines += [("done", name, "will not run again; its stored result is used") for name in done]
    lines += [("may run", name, "not known to have happened") for name in again]
    if not outcome.effects:
        lines.append(("effects", "none journalled", "the whole handler runs"))
    call.out.outline(lines)
