"""``oncebox action``: what attempts do once, and what a person says of those in doubt."""

from typing import Any

import click
import msgspec

from oncebox.assembly import Rooms
from oncebox.cli.call import Call, examples, with_call
from oncebox.cli.deeds import require_why, signed
from oncebox.cli.office import deed_of, owned, whose
from oncebox.cli.words import ago, moment
from oncebox.ledger.attempts import actions
from oncebox.ledger.attempts.desk import Task
from oncebox.ledger.inboxes.inboxes import Asker
from oncebox.model.action import Action, ActionState

_COLUMNS = ("attempt", "action", "state", "safe", "begun", "lease", "key")
_OPEN = {ActionState.STARTED, ActionState.VERIFYING}


@click.command(
    "list",
    epilog=examples(
        "oncebox action list",
        "oncebox action list --all --attempt signup-42 --json",
    ),
)
@click.option("--all", "everything", is_flag=True, help="Also those that are not in doubt.")
@click.option("--attempt", "attempt_id", metavar="ID", help="Only of this attempt.")
@click.option("--state", type=click.Choice([str(each) for each in ActionState]), help="Of all.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many at most."
)
@owned
@with_call
def list_(
    call: Call,
    *,
    everything: bool,
    attempt_id: str | None,
    state: str | None,
    limit: int,
    tenant: str | None,
) -> None:
    """Show actions in doubt, the oldest first: begun, and nobody was heard of again.

    With --all or --state, all of them, those begun last first.
    """

    async def work(rooms: Rooms) -> tuple[list[Action], int]:
        owner, now = whose(rooms, tenant), rooms.database.clock()
        if not (everything or state):
            found = await rooms.database.read(
                actions.doubtful, owner, now, attempt_id=attempt_id, most=limit
            )
            return found, now
        wanted = ActionState(state) if state else None
        found = await rooms.database.read(
            actions.newest, owner, attempt_id=attempt_id, state=wanted, most=limit
        )
        return found, now

    found, now = call.run(work)
    if call.out.as_json:
        for each in found:
            call.out.record(_record(each))
    elif call.out.quiet:
        for each in found:
            call.out.line(each.attempt_id, each.name)
    else:
        call.out.table(_COLUMNS, [_told(call, each, now) for each in found])


@click.command(
    "resolve",
    epilog=examples(
        "oncebox action resolve signup-42 verify --done --why 'the account is there'",
        "oncebox action resolve signup-42 verify --not-done --why 'no account was made'",
    ),
)
@click.argument("attempt_id", metavar="ATTEMPT")
@click.argument("name", metavar="ACTION")
@click.option("--done/--not-done", "done", default=None, help="What you found when you looked.")
@click.option("--result", metavar="JSON", help="What to give to repeats, where it is done.")
@owned
@signed
@with_call
def resolve(  # noqa: PLR0913 - a deed simply has this many sides
    call: Call,
    *,
    attempt_id: str,
    name: str,
    done: bool | None,
    result: str | None,
    tenant: str | None,
    who: str,
    why: str | None,
) -> None:
    """Say what became of an action that is in doubt.

    Look at the other side first. What is done is answered with its result from then on; what
    is not done begins again.
    """
    if done is None:
        message = "say what you found: --done or --not-done"
        raise click.UsageError(message)
    reason, stored = require_why(why), _stored(result, done=done)

    async def work(rooms: Rooms) -> Action:
        deed = deed_of(rooms, tenant, who=who, why=reason)
        task = Task(Asker(tenant=deed.tenant), attempt_id, name)
        sealed = None if stored is None else rooms.attempts.sealed(task, stored)
        state = ActionState.DONE if done else ActionState.NOT_DONE
        return await rooms.database.write(actions.resolve, (attempt_id, name), state, deed, sealed)

    resolved = call.run(work)
    if call.out.as_json:
        call.out.record(_record(resolved))
    elif not call.out.quiet:
        call.out.line(resolved.attempt_id, resolved.name, resolved.state)


def _stored(text: str | None, *, done: bool) -> bytes | None:
    if text is None:
        return None
    if not done:
        message = "what is not done has no result; leave --result away"
        raise click.UsageError(message)
    try:
        return msgspec.json.encode(msgspec.json.decode(text))
    except msgspec.DecodeError as error:
        message = "write JSON, such as '{\"account\": 7}'"
        raise click.BadParameter(message, param_hint="--result") from error


def _told(call: Call, action: Action, now: int) -> tuple[object, ...]:
    begun = ago(action.started_at, now) if call.out.on_terminal else moment(action.started_at)
    return (
        action.attempt_id,
        action.name,
        action.state,
        action.safe,
        begun,
        _lease(action, now),
        action.holder,
    )


def _lease(action: Action, now: int) -> str:
    if action.state not in _OPEN:
        return ""
    word = "expired" if action.lease_until <= now else "ends"
    return f"{word} {ago(action.lease_until, now)}"


def _record(action: Action) -> dict[str, Any]:
    """Return an action for JSON, without its result, which is the agent's."""
    told: dict[str, Any] = msgspec.to_builtins(action)
    del told["result"]
    return told | {"has_result": action.result is not None}
