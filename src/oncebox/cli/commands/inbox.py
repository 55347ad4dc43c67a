"""`oncebox inbox new|list|show|stats|close|rotate|change-policy`: addresses for attempts."""

from collections.abc import Callable, Iterator
from typing import Any

import click
import msgspec

from oncebox.cli.context import CommandContext, examples, with_context
from oncebox.cli.options import (
    audit_entry,
    audit_options,
    before_option,
    limit_option,
    tenant_of,
    tenant_option,
)
from oncebox.cli.output.printer import to_json
from oncebox.cli.output.times import duration, iso_time, parse_duration
from oncebox.components import Components
from oncebox.db.database import Transaction
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.attempts import attempts
from oncebox.ledger.inboxes import inbox_counts, inboxes
from oncebox.ledger.inboxes.allocation import AllocatedInbox
from oncebox.ledger.lookup import IdKind, find_id
from oncebox.ledger.notifications import EVENTS
from oncebox.model.inboxes.inbox import (
    Inbox,
    InboxOptions,
    InboxPolicy,
    InboxState,
    policy_warnings,
    time_to_first_message,
)
from oncebox.model.inboxes.purpose import Purpose

_COLUMNS = ("inbox", "state", "address", "attempt", "label", "messages", "matched", "until")
_TIMES = {
    "made": "created_at",
    "active until": "active_until",
    "ended": "ended_at",
    "missed": "missed_at",
    "first message": "first_message_at",
    "last message": "last_message_at",
}


def _inbox_record(inbox: Inbox) -> dict[str, Any]:
    """Return an inbox for JSON; the policy with all its fields."""
    return msgspec.structs.asdict(inbox) | {
        "policy": msgspec.structs.asdict(inbox.policy),
        "warnings": policy_warnings(inbox.policy),
        "messages": inbox.cursor,
    }


def _inbox_row(inbox: Inbox) -> tuple[object, ...]:
    until = None if inbox.due_at is None else iso_time(inbox.due_at)
    return (
        inbox.id, inbox.state, inbox.email, inbox.attempt_id, inbox.label, inbox.cursor,
        inbox.matched, until,
    )  # fmt: skip


def _inbox_lines(inbox: Inbox) -> Iterator[tuple[object, ...]]:
    yield ("inbox", inbox.id)
    yield ("address", inbox.email)
    yield ("tenant", inbox.tenant)
    yield ("state", inbox.state)
    for name in ("attempt_id", "label", "owner", "rotated_from", "rotated_to"):
        if getattr(inbox, name):
            yield (name.removesuffix("_id").replace("_", " "), getattr(inbox, name))
    times = {name: getattr(inbox, field) for name, field in _TIMES.items()}
    yield from ((name, iso_time(at)) for name, at in times.items() if at is not None)
    yield ("messages", inbox.cursor, f"{inbox.matched} matched, {inbox.duplicates} copies")
    first = time_to_first_message(inbox)
    if first is not None:
        yield ("first after", duration(first))
    for name, value in inbox.metadata.items():
        yield ("metadata", name, value)
    for name, value in msgspec.structs.asdict(inbox.policy).items():
        if value or (name == "authenticated" and value is not None):
            yield (name.replace("_", " "), value if isinstance(value, str) else to_json(value))
    for warning in policy_warnings(inbox.policy):
        yield ("warning", warning)


_authenticated_option = click.option(
    "--authenticated/--no-authenticated",
    default=None,
    help="Senders must pass SPF or DKIM.  [if senders are named]",
)
_forwards_option = click.option(
    "--forwards/--no-forwards",
    default=None,
    help="Accept signed mail addressed to others: forwarded, or a Bcc.",
)

_InboxChange = Callable[[Transaction, Requester, str, int | None, int], Inbox]


@click.command(
    "new",
    epilog=examples(
        "oncebox inbox new --attempt signup-4821",
        "oncebox inbox new --attempt signup-4821 --label backup --lifetime 2h --json",
        "oncebox inbox new --domain inbox.example.com --local support --lifetime 0",
    ),
)
@click.option("--attempt", "attempt_id", metavar="ID", help="Attempt the inbox belongs to.")
@click.option("--label", default="", metavar="TEXT", help="Distinguishes inboxes of one attempt.")
@click.option("--domain", metavar="NAME", help="Domain of the address.  [inboxes.domain]")
@click.option("--local", metavar="TEXT", help="Local part of the address.  [random]")
@click.option(
    "--lifetime", type=parse_duration, metavar="TIME", help="Lifetime, such as 2h; 0 is unlimited."
)
@click.option(
    "--sender", "senders", multiple=True, metavar="RULE", help="Allowed sender. Repeatable."
)
@_authenticated_option
@_forwards_option
@click.option("--link-host", "link_hosts", multiple=True, metavar="HOST", help="Repeatable.")
@click.option(
    "--link-origin", "link_origins", multiple=True, metavar="URL", help="Allowed origin, for tests."
)
@click.option("--token", metavar="TEXT", help="Text the message must contain.")
@click.option(
    "--purpose",
    type=click.Choice([str(each) for each in Purpose]),
    default="any",
    help="Purpose of the code or link.",
)
@click.option("--resends", type=click.IntRange(0, 100), default=1, help="Allowed resends.")
@click.option("--metadata", multiple=True, metavar="NAME=VALUE", help="Repeatable.")
@tenant_option
@with_context
def new(  # noqa: PLR0913 - the options of an inbox
    call: CommandContext,
    /,
    *,
    attempt_id: str | None,
    label: str,
    domain: str | None,
    local: str | None,
    lifetime: float | None,
    senders: tuple[str, ...],
    authenticated: bool | None,
    forwards: bool | None,
    link_hosts: tuple[str, ...],
    link_origins: tuple[str, ...],
    token: str | None,
    purpose: str,
    resends: int,
    metadata: tuple[str, ...],
    tenant: str | None,
) -> None:
    """Create an inbox and print its address.

    An attempt has one inbox per label: a repeat prints the same inbox.
    """
    policy = InboxPolicy(
        senders=senders,
        authenticated=authenticated,
        forwards=bool(forwards),
        link_hosts=link_hosts,
        link_origins=link_origins,
        token=token,
        purpose=Purpose(purpose),
        resends=resends,
    )
    options = InboxOptions(
        attempt_id=attempt_id,
        label=label,
        domain=domain,
        local=local,
        lifetime=_milliseconds(lifetime),
        metadata=_parse_metadata(metadata),
        policy=policy,
    )

    async def work(components: Components) -> AllocatedInbox:
        requester = Requester(tenant=tenant_of(components, tenant))
        now = components.database.clock()
        (made,) = await components.database.write(
            components.inboxes.allocate, requester, [options], now
        )
        components.database.notify(EVENTS)
        return made

    made = call.run(work, create=True)
    inbox = made.inbox
    record = _inbox_record(inbox) | {"created": made.new}
    call.out.result(record, inbox.id, inbox.email, name=inbox.id)


@click.command(
    "list", epilog=examples("oncebox inbox list --attempt signup-4821", "oncebox inbox list --json")
)
@click.option("--attempt", "attempt_id", metavar="ID", help="Filter by attempt.")
@click.option("--state", type=click.Choice([str(each) for each in InboxState]), help="Only these.")
@limit_option
@before_option
@tenant_option
@with_context
def list_(
    call: CommandContext,
    *,
    attempt_id: str | None,
    state: str | None,
    limit: int,
    before: str,
    tenant: str | None,
) -> None:
    """List inboxes, newest first."""
    with call.reader() as reader:
        found = reader.read(
            inboxes.newest,
            Requester(tenant=tenant_of(reader, tenant)),
            attempt_id=attempt_id,
            state=InboxState(state) if state else None,
            before=before,
            most=limit,
        )
    call.out.listing(found, _COLUMNS, _inbox_row, record=_inbox_record)


@click.command("show")
@click.argument("wanted", metavar="ID")
@tenant_option
@with_context
def show(call: CommandContext, *, wanted: str, tenant: str | None) -> None:
    """Show an inbox and what it received."""
    with call.reader() as reader:
        requester = Requester(tenant=tenant_of(reader, tenant))
        id_ = reader.read(find_id, IdKind.INBOX, requester.tenant, wanted)
        found, counts = reader.read(inbox_counts.inbox_stats, requester, id_)
    counted = msgspec.structs.asdict(counts)
    if call.out.as_json:
        call.out.record(_inbox_record(found) | counted)
    else:
        call.out.outline(_inbox_lines(found))
        call.out.outline((name.replace("_", " "), n) for name, n in counted.items() if n)


@click.command(
    "stats", epilog=examples("oncebox inbox stats run-7/", "oncebox inbox stats signup-4821 --json")
)
@click.argument("prefix")
@tenant_option
@with_context
def stats(call: CommandContext, *, prefix: str, tenant: str | None) -> None:
    """Show figures of all attempts whose ids begin with PREFIX, such as a batch run."""
    with call.reader() as reader:
        requester = Requester(tenant=tenant_of(reader, tenant))
        found, counts = reader.read(attempts.batch_stats, requester, prefix)
    counted = {
        "attempts": counts.attempts,
        "inboxes": sum(found.states.values()),
        "messages": found.messages,
        "duplicates": found.duplicates,
        "matched": found.matched,
        "reached": found.reached,
        "missed": found.missed,
        "resends": counts.resends,
        **msgspec.structs.asdict(found.counts),
    }
    times = {
        "first_message_average": found.average_wait,
        "first_message_longest": found.longest_wait,
    }
    if call.out.as_json:
        states = {"states": found.states, "actions": counts.actions}
        call.out.record({"prefix": prefix, **counted, **times, **states})
        return
    call.out.outline((name.replace("_", " "), n) for name, n in counted.items())
    call.out.outline(
        (name.replace("_", " "), duration(at)) for name, at in times.items() if at is not None
    )
    call.out.outline((f"actions {state}", n) for state, n in counts.actions.items())


@click.command("close")
@click.argument("wanted", metavar="ID")
@click.option(
    "--drain",
    type=parse_duration,
    metavar="TIME",
    help="Accept mail for so long; 0 closes at once.",
)
@tenant_option
@with_context
def close(call: CommandContext, *, wanted: str, drain: float | None, tenant: str | None) -> None:
    """Close an inbox; it accepts mail for the drain time."""
    closed = _change_inbox(call, lambda components: components.inboxes.close, wanted, drain, tenant)
    call.out.result(_inbox_record(closed), closed.id, closed.state, name=closed.id)


@click.command("rotate")
@click.argument("wanted", metavar="ID")
@click.option(
    "--drain", type=parse_duration, metavar="TIME", help="The old address accepts mail for so long."
)
@tenant_option
@with_context
def rotate(call: CommandContext, *, wanted: str, drain: float | None, tenant: str | None) -> None:
    """Create a new address for the same attempt and label; the old one drains.

    A repeat for the same inbox prints the same new address.
    """
    made = _change_inbox(call, lambda components: components.inboxes.rotate, wanted, drain, tenant)
    call.out.result(_inbox_record(made), made.id, made.email, name=made.id)


@click.command(
    "change-policy",
    epilog=examples(
        "oncebox inbox change-policy inb_… --sender acme.com --sender acme-mail.com",
        "oncebox inbox change-policy inb_… --no-authenticated --why 'unsigned test mail'",
    ),
)
@click.argument("wanted", metavar="ID")
@click.option(
    "--sender", "senders", multiple=True, metavar="RULE", help="Allowed sender. Repeatable."
)
@_authenticated_option
@_forwards_option
@click.option("--link-host", "link_hosts", multiple=True, metavar="HOST", help="Repeatable.")
@click.option(
    "--link-origin", "link_origins", multiple=True, metavar="URL", help="Allowed origin, for tests."
)
@click.option("--token", metavar="TEXT", help="Text the message must contain.")
@click.option(
    "--purpose",
    type=click.Choice([str(each) for each in Purpose]),
    help="Purpose of the code or link.",
)
@click.option("--resends", type=click.IntRange(0, 100), help="Allowed resends.")
@tenant_option
@audit_options
@with_context
def change_policy(
    call: CommandContext,
    /,
    *,
    wanted: str,
    tenant: str | None,
    who: str,
    why: str,
    **typed: Any,
) -> None:
    """Change the policy of an inbox, for mail that arrives from now on.

    What is not given stays as it is; a repeatable option replaces all its values.
    """
    changes = {name: value for name, value in typed.items() if value not in {None, ()}}
    if not changes:
        raise click.UsageError("say what to change, such as --sender acme.com")

    async def work(components: Components) -> Inbox:
        requester = Requester(tenant=tenant_of(components, tenant))
        id_ = await components.database.read(find_id, IdKind.INBOX, requester.tenant, wanted)
        entry = audit_entry(components, tenant, who=who, why=why)
        return await components.database.write(
            components.inboxes.change_policy, requester, id_, changes, entry
        )

    changed = call.run(work)
    call.out.result(_inbox_record(changed), changed.id, "changed", name=changed.id)


def _change_inbox(
    call: CommandContext,
    change: Callable[[Components], _InboxChange],
    wanted: str,
    drain: float | None,
    tenant: str | None,
) -> Inbox:
    async def work(components: Components) -> Inbox:
        requester = Requester(tenant=tenant_of(components, tenant))
        now = components.database.clock()
        id_ = await components.database.read(find_id, IdKind.INBOX, requester.tenant, wanted)
        found = await components.database.write(
            change(components), requester, id_, _milliseconds(drain), now
        )
        components.database.notify(EVENTS)
        return found

    return call.run(work)


def _parse_metadata(typed: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in typed:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise click.BadParameter("write NAME=VALUE", param_hint="--metadata")
        found[name] = value
    return found


def _milliseconds(typed: float | None) -> int | None:
    return None if typed is None else round(typed * 1000)
