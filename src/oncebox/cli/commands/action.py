"""`oncebox action list|resolve`: an agent's once-only actions; record an unknown outcome."""

from typing import Any

import click
import msgspec

from oncebox.cli.context import CommandContext, examples, with_context
from oncebox.cli.options import (
    audit_entry,
    audit_options_with_reason,
    limit_option,
    parse_result,
    require_reason,
    tenant_of,
    tenant_option,
)
from oncebox.cli.output.times import ago, iso_time
from oncebox.components import Components
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.attempts import actions
from oncebox.ledger.attempts.actions import ActionRef
from oncebox.model.attempts import Action, ActionState

_COLUMNS = ("attempt", "action", "state", "safe", "begun", "lease", "key")
_OPEN_STATES = {ActionState.STARTED, ActionState.VERIFYING}


@click.command(
    "list",
    epilog=examples("oncebox action list", "oncebox action list --all --attempt signup-42 --json"),
)
@click.option("--all", "everything", is_flag=True, help="List all actions.")
@click.option("--attempt", "attempt_id", metavar="ID", help="Filter by attempt.")
@click.option(
    "--state",
    type=click.Choice([str(each) for each in ActionState]),
    help="Filter by state; implies --all.",
)
@limit_option
@tenant_option
@with_context
def list_(
    call: CommandContext,
    *,
    everything: bool,
    attempt_id: str | None,
    state: str | None,
    limit: int,
    tenant: str | None,
) -> None:
    """List actions whose outcome is unknown, oldest first.

    With --all or --state, list all actions, newest first.
    """
    with call.reader() as reader:
        owner, now = tenant_of(reader, tenant), reader.clock()
        if everything or state:
            wanted = ActionState(state) if state else None
            found = reader.read(
                actions.newest, owner, attempt_id=attempt_id, state=wanted, most=limit
            )
        else:
            found = reader.read(actions.list_unknown, owner, now, attempt_id=attempt_id, most=limit)
    if call.out.quiet and not call.out.as_json:
        for each in found:
            call.out.line(each.attempt_id, each.name)
    else:
        call.out.listing(
            found, _COLUMNS, lambda each: _action_row(call, each, now), record=_action_record
        )


@click.command(
    "resolve",
    epilog=examples(
        "oncebox action resolve signup-42 verify --done --why 'the account is there'",
        "oncebox action resolve signup-42 verify --not-done --why 'no account was made'",
    ),
)
@click.argument("attempt_id", metavar="ATTEMPT")
@click.argument("name", metavar="ACTION")
@click.option("--done/--not-done", "done", default=None, help="Actual outcome.")
@click.option("--result", metavar="JSON", help="Result for repeats, with --done.")
@tenant_option
@audit_options_with_reason
@with_context
def resolve(  # noqa: PLR0913 - its options
    call: CommandContext,
    *,
    attempt_id: str,
    name: str,
    done: bool | None,
    result: str | None,
    tenant: str | None,
    who: str,
    why: str | None,
) -> None:
    """Record the outcome of an action.

    Check the target system first. An action that is done returns its result from then on; one
    that is not done may run again.
    """
    if done is None:
        raise click.UsageError("give the outcome: --done or --not-done")
    reason, stored = require_reason(why), _encode_result(result, done=done)

    async def work(components: Components) -> Action:
        entry = audit_entry(components, tenant, who=who, why=reason)
        ref = ActionRef(Requester(tenant=entry.tenant), attempt_id, name)
        encrypted = None if stored is None else components.attempts.encrypt_result(ref, stored)
        state = ActionState.DONE if done else ActionState.NOT_DONE
        return await components.database.write(
            actions.resolve, (attempt_id, name), state, entry, encrypted
        )

    resolved = call.run(work)
    call.out.result(_action_record(resolved), resolved.attempt_id, resolved.name, resolved.state)


def _encode_result(text: str | None, *, done: bool) -> bytes | None:
    if text is None:
        return None
    if not done:
        raise click.UsageError("only a done action has a result; omit --result")
    return parse_result(text)


def _action_row(call: CommandContext, action: Action, now: int) -> tuple[object, ...]:
    begun = ago(action.started_at, now) if call.out.on_terminal else iso_time(action.started_at)
    return (
        action.attempt_id, action.name, action.state, action.safe, begun,
        _lease_text(action, now), action.holder,
    )  # fmt: skip


def _lease_text(action: Action, now: int) -> str:
    if action.state not in _OPEN_STATES:
        return ""
    word = "expired" if action.lease_until <= now else "ends"
    return f"{word} {ago(action.lease_until, now)}"


def _action_record(action: Action) -> dict[str, Any]:
    """Return an action for JSON, without its result, which only the agent may read."""
    record: dict[str, Any] = msgspec.to_builtins(action)
    del record["result"]
    return record | {"has_result": action.result is not None}
