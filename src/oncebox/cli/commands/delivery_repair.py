"""`oncebox delivery replay|hold|release|drop` and `oncebox dead`: operator actions with audit."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import click

from oncebox.cli.commands.delivery import print_deliveries
from oncebox.cli.context import CommandContext, examples, with_context
from oncebox.cli.options import (
    audit_entry,
    audit_options_with_reason,
    page_options,
    parse_result,
    require_reason,
)
from oncebox.cli.output import failures
from oncebox.cli.output.progress import with_progress
from oncebox.components import Components
from oncebox.db.database import Transaction
from oncebox.errors import NotFound, StateConflict
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.deliveries import inspections, operations
from oncebox.ledger.deliveries.operations import EffectResolution, EffectResolutions
from oncebox.ledger.notifications import DUE
from oncebox.model.deliveries.delivery import DeliveryState
from oncebox.model.deliveries.effects import EffectState
from oncebox.model.deliveries.inspection import DeliveryInspection

F = TypeVar("F", bound=Callable[..., Any])
#: a change of one delivery: ``(tx, id, audit entry)``
DeliveryChange = Callable[[Transaction, str, AuditEntry], None]

_EFFECT_STATES = {"done": EffectState.DONE, "not-done": EffectState.NOT_DONE}


dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Print what would happen; change nothing."
)
effect_option = click.option(
    "--effect",
    "effects",
    multiple=True,
    metavar="NAME=done|not-done",
    help="Outcome of an effect that is unknown. Repeatable.",
)
result_option = click.option(
    "--result",
    "results",
    multiple=True,
    metavar="[NAME=]JSON",
    help="What a done effect returned; without it, the handler gets NO_RESULT. Repeatable.",
)


@click.command(
    "replay",
    epilog=examples(
        "oncebox delivery replay dlv_… --dry-run",
        "oncebox delivery replay dlv_… --why 'the shop was down' --effect open-issue=done",
    ),
)
@click.argument("wanted", metavar="ID")
@effect_option
@result_option
@dry_run_option
@audit_options_with_reason
@with_context
def replay(  # noqa: PLR0913 - options
    call: CommandContext,
    *,
    wanted: str,
    effects: tuple[str, ...],
    results: tuple[str, ...],
    dry_run: bool,
    who: str,
    why: str | None,
) -> int:
    """Run a done or dead delivery again.

    Effects that are done do not run again: their stored results are used. A replay is refused
    while the outcome of an effect is unknown; record it with --effect.

    """
    change = partial(operations.replay, resolutions=_effect_resolutions(effects, results))
    if dry_run:
        return _print_dry_run(call, wanted, change, who=who)
    return _apply_to_all(call, [wanted], change, "replayed", who=who, why=why)


@click.command("hold")
@click.argument("wanted", metavar="ID")
@audit_options_with_reason
@with_context
def hold(call: CommandContext, *, wanted: str, who: str, why: str | None) -> int:
    """Keep a waiting delivery from running until it is released."""
    return _apply_to_all(call, [wanted], operations.hold, "held", who=who, why=why)


@click.command(
    "release",
    epilog=examples(
        "oncebox delivery release dlv_… --why 'seen in the tracker' --effect open-issue=done \\",
        "    --result '{\"number\": 7}'",
    ),
)
@click.argument("wanted", metavar="ID")
@effect_option
@result_option
@dry_run_option
@audit_options_with_reason
@with_context
def release(  # noqa: PLR0913 - options
    call: CommandContext,
    *,
    wanted: str,
    effects: tuple[str, ...],
    results: tuple[str, ...],
    dry_run: bool,
    who: str,
    why: str | None,
) -> int:
    """Let a held delivery run.

    Refused while the outcome of an effect is unknown; record it with --effect.

    """
    change = partial(operations.release, resolutions=_effect_resolutions(effects, results))
    if dry_run:
        return _print_dry_run(call, wanted, change, who=who)
    return _apply_to_all(call, [wanted], change, "released", who=who, why=why)


def _selection_options(state: DeliveryState) -> Callable[[F], F]:
    """Return what adds which deliveries of a state are meant."""

    def add(command: F) -> F:
        ids = click.argument("wanted", metavar="[ID]…", nargs=-1)
        everything = click.option(
            "--all", "everything", is_flag=True, help=f"All {state} deliveries."
        )
        source = click.option("--source", metavar="NAME", help="With --all: filter by source.")
        return ids(everything(source(audit_options_with_reason(command))))

    return add


@click.command(
    "drop",
    epilog=examples(
        "oncebox delivery drop dlv_… dlv_… --why 'tests of ours'",
        "oncebox delivery drop --all --source stripe --dry-run",
        "oncebox delivery drop dlv_… --why 'refunded by hand' --effect charge=done",
    ),
)
@_selection_options(DeliveryState.HELD)
@effect_option
@result_option
@dry_run_option
@with_context
def drop(
    call: CommandContext,
    /,
    *,
    effects: tuple[str, ...],
    results: tuple[str, ...],
    dry_run: bool,
    who: str,
    why: str | None,
    **selected: Any,
) -> int:
    """End held deliveries without running them; their outcome is `dropped`.

    A lane goes on, and a repeat of the same event is a duplicate. `delivery replay` runs a dropped
    delivery after all.

    A delivery with an effect of unknown outcome is refused, and does not stop the others; the exit
    code is then 4. Drop it by itself, with --effect.

    """
    if not dry_run:
        require_reason(why)
    chosen = _selected_ids(call, DeliveryState.HELD, **selected)
    if effects and (selected["everything"] or len(chosen) > 1):
        raise click.UsageError("--effect is about one delivery; name only that one")
    change = partial(operations.drop, resolutions=_effect_resolutions(effects, results))
    done = "would be dropped" if dry_run else "dropped"
    return _apply_to_all(call, chosen, change, done, who=who, why=why, dry_run=dry_run)


def _apply_to_all(  # noqa: PLR0913 - options
    call: CommandContext,
    wanted: list[str],
    change: DeliveryChange,
    done: str,
    *,
    who: str,
    why: str | None,
    dry_run: bool = False,
) -> int:
    """Change deliveries, each in its own commit with its audit entry; return the exit code."""
    reason = "" if dry_run else require_reason(why)
    if not wanted:
        return failures.OK

    async def work(components: Components) -> int:
        worst = failures.OK
        for each in with_progress(call.out, done, wanted):
            try:
                entry = audit_entry(components, None, who=who, why=reason)
                id_ = await components.database.read(_single_delivery, entry.tenant, each)
                if dry_run:
                    await components.ledger.dry_run(change, id_, entry)
                else:
                    await components.database.write(change, id_, entry)
                    components.ledger.notify(DUE)
            except (NotFound, StateConflict) as error:
                if len(wanted) == 1:
                    raise
                worst = max(worst, failures.print_error(error, as_json=call.out.as_json))
            else:
                call.out.result({"id": id_, "action": done}, id_, done)
        return worst

    return call.run(work)


def _print_dry_run(call: CommandContext, wanted: str, change: DeliveryChange, *, who: str) -> int:
    """Make a change and roll it back; print what it would do, and return the exit code."""

    async def work(components: Components) -> int:
        entry = audit_entry(components, None, who=who, why="")
        id_ = await components.database.read(_single_delivery, entry.tenant, wanted)
        try:
            outcome = await components.ledger.dry_run(
                operations.change_and_inspect, change, id_, entry
            )
        except StateConflict as error:
            if call.out.as_json:
                call.out.record({"would_run": False, "refused": str(error)})
            else:
                call.out.outline([("would be refused", str(error))])
            return failures.CONFLICT
        _print_dry_run_outcome(call, outcome)
        return failures.OK

    return call.run(work)


def _single_delivery(tx: Transaction, tenant: str, wanted: str) -> str:
    """Return the one delivery that is meant by an id or key."""
    found = inspections.find(tx, tenant, wanted)
    if len(found) > 1:
        raise click.UsageError(
            f"that key means {len(found)} deliveries; give the id: {', '.join(found)}"
        )
    return found[0]


def _effect_resolutions(effects: tuple[str, ...], results: tuple[str, ...]) -> EffectResolutions:
    """Return the decisions on effects, with the results of those that are done."""
    outcomes = _effect_outcomes(effects)
    found: dict[str, bytes] = {}
    for text in results:
        name, json = _split_result(text, [n for n in outcomes if outcomes[n] is EffectState.DONE])
        if name in found:
            raise click.BadParameter(f"effect {name!r} has two results", param_hint="--result")
        found[name] = parse_result(json)
    return {name: EffectResolution(state, found.get(name)) for name, state in outcomes.items()}


def _split_result(text: str, done: list[str]) -> tuple[str, str]:
    """Return the effect that a result belongs to, and its JSON."""
    if not done:
        raise click.UsageError(
            "only a done effect has a result; add --effect NAME=done, or omit --result"
        )
    name = next((each for each in done if text.startswith(f"{each}=")), None)
    if name is not None:
        return name, text.removeprefix(f"{name}=")
    if len(done) > 1:
        raise click.BadParameter(
            f"say whose result it is: NAME=JSON, with one of: {', '.join(done)}",
            param_hint="--result",
        )
    return done[0], text


def _effect_outcomes(effects: tuple[str, ...]) -> dict[str, EffectState]:
    outcomes: dict[str, EffectState] = {}
    for text in effects:
        name, _, word = text.rpartition("=")
        if not name or word not in _EFFECT_STATES:
            raise click.BadParameter(
                f"{text!r} is not NAME=done or NAME=not-done", param_hint="--effect"
            )
        outcomes[name] = _EFFECT_STATES[word]
    return outcomes


def _print_dry_run_outcome(call: CommandContext, outcome: DeliveryInspection) -> None:
    """Print which effects would not run again and which could."""
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


_PAGE = 500
_AFTER_ALL_IDS = "~"


@click.command("list")
@click.option("--source", metavar="NAME", help="Filter by source.")
@page_options
@with_context
def list_dead(call: CommandContext, *, source: str | None, limit: int, before: str) -> None:
    """List dead deliveries, newest first."""
    print_deliveries(call, state=DeliveryState.DEAD, source=source, before=before, most=limit)


@click.command(
    "replay",
    epilog=examples(
        "oncebox dead replay dlv_… dlv_… --why 'the token was renewed'",
        "oncebox dead replay --all --source stripe --why 'the shop is back'",
    ),
)
@_selection_options(DeliveryState.DEAD)
@with_context
def replay_dead(call: CommandContext, /, *, who: str, why: str | None, **selected: Any) -> int:
    """Run dead deliveries again, oldest first.

    A delivery with an effect of unknown outcome is refused and does not stop the others; the exit
    code is then 4.

    """
    require_reason(why)
    chosen = _selected_ids(call, DeliveryState.DEAD, **selected)
    change = partial(operations.replay, resolutions={})
    return _apply_to_all(call, chosen, change, "replayed", who=who, why=why)


@click.command("seen", epilog=examples("oncebox dead seen --all --why 'known, the shop was down'"))
@_selection_options(DeliveryState.DEAD)
@with_context
def mark_seen(call: CommandContext, /, *, who: str, why: str | None, **selected: Any) -> int:
    """Acknowledge dead deliveries, so that retention may delete their bodies.

    A body is deleted when the retention of its source has passed; until then it can be replayed.

    """
    require_reason(why)
    chosen = _selected_ids(call, DeliveryState.DEAD, **selected)
    return _apply_to_all(call, chosen, operations.mark_seen, "seen", who=who, why=why)


def _selected_ids(
    call: CommandContext,
    state: DeliveryState,
    *,
    wanted: tuple[str, ...],
    everything: bool,
    source: str | None,
) -> list[str]:
    if bool(wanted) == everything:
        raise click.UsageError("name the deliveries, or say --all")
    return _all_in_state(call, state, source) if everything else list(wanted)


def _all_in_state(call: CommandContext, state: DeliveryState, source: str | None) -> list[str]:
    """Return every delivery of a state, oldest first."""
    found: list[str] = []
    with call.reader() as reader:
        while True:
            page = reader.read(
                inspections.newest,
                reader.settings.tenant,
                state=state,
                source=source,
                before=found[-1] if found else _AFTER_ALL_IDS,
                most=_PAGE,
            )
            found += [facts.id for facts in page]
            if len(page) < _PAGE:
                return found[::-1]
