"""`oncebox inbox new|list|show|close|rotate`: addresses for attempts."""

from collections.abc import Callable, Iterator
from typing import Any

import click
import msgspec

from oncebox.cli.context import CommandContext, examples, with_context
from oncebox.cli.options import tenant_of, tenant_option
from oncebox.cli.output.printer import to_json
from oncebox.cli.output.times import duration, iso_time, parse_duration
from oncebox.components import Components
from oncebox.db.database import Transaction
from oncebox.ledger.admin.api_keys import Requester
from oncebox.ledger.inboxes import inboxes
from oncebox.ledger.inboxes.allocation import AllocatedInbox
from oncebox.ledger.lookup import IdKind, find_id
from oncebox.ledger.notifications import EVENTS
from oncebox.model.inboxes.inbox import (
    Inbox,
    InboxOptions,
    InboxPolicy,
    InboxState,
    time_to_first_message,
)
from oncebox.model.inboxes.purpose import Purpose

INBOX_COLUMNS = ("inbox", "state", "address", "attempt", "label", "messages", "matched", "until")
_TIMES = {
    "made": "created_at",
    "active until": "active_until",
    "ended": "ended_at",
    "missed": "missed_at",
    "first message": "first_message_at",
    "last message": "last_message_at",
}


def inbox_record(inbox: Inbox) -> dict[str, Any]:
    """Return an inbox for JSON; the policy with all its fields."""
    found = msgspec.structs.asdict(inbox)
    found["policy"] = msgspec.structs.asdict(inbox.policy)
    found["messages"] = inbox.cursor
    return found


def inbox_row(inbox: Inbox) -> tuple[object, ...]:
    """Return an inbox as the cells of a line."""
    return (
        inbox.id,
        inbox.state,
        inbox.email,
        inbox.attempt_id,
        inbox.label,
        inbox.cursor,
        inbox.matched,
        None if inbox.due_at is None else iso_time(inbox.due_at),
    )


def inbox_lines(inbox: Inbox) -> Iterator[tuple[object, ...]]:
    """Tell an inbox line by line, each beginning with what it is about."""
    yield ("inbox", inbox.id)
    yield ("address", inbox.email)
    yield ("tenant", inbox.tenant)
    yield ("state", inbox.state)
    for name in ("attempt_id", "label", "owner", "rotated_from", "rotated_to"):
        if getattr(inbox, name):
            yield (name.removesuffix("_id").replace("_", " "), getattr(inbox, name))
    for name, field in _TIMES.items():
        at = getattr(inbox, field)
        if at is not None:
            yield (name, iso_time(at))
    yield ("messages", inbox.cursor, f"{inbox.matched} matched, {inbox.duplicates} copies")
    first = time_to_first_message(inbox)
    if first is not None:
        yield ("first after", duration(first))
    yield from _policy_lines(inbox)


def _policy_lines(inbox: Inbox) -> Iterator[tuple[object, ...]]:
    """Tell what its maker wrote of it."""
    for name, value in inbox.metadata.items():
        yield ("metadata", name, value)
    for name, value in msgspec.structs.asdict(inbox.policy).items():
        if value:
            yield (name.replace("_", " "), value if isinstance(value, str) else to_json(value))


#: what comes after every id
_AFTER_ALL_IDS = "~"

InboxChange = Callable[[Transaction, Requester, str, int | None, int], Inbox]


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
@click.option("--authenticated", is_flag=True, help="Senders must pass SPF or DKIM.")
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
def new(  # noqa: PLR0913 - an inbox simply has this many sides
    call: CommandContext,
    /,
    *,
    attempt_id: str | None,
    label: str,
    domain: str | None,
    local: str | None,
    lifetime: float | None,
    senders: tuple[str, ...],
    authenticated: bool,
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
    if call.out.as_json:
        call.out.record({**inbox_record(made.inbox), "created": made.new})
    elif call.out.quiet:
        call.out.line(made.inbox.id)
    else:
        call.out.line(made.inbox.id, made.inbox.email)


@click.command(
    "list", epilog=examples("oncebox inbox list --attempt signup-4821", "oncebox inbox list --json")
)
@click.option("--attempt", "attempt_id", metavar="ID", help="Filter by attempt.")
@click.option("--state", type=click.Choice([str(each) for each in InboxState]), help="Only these.")
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=50,
    show_default=True,
    help="Maximum number of rows.",
)
@click.option(
    "--before", metavar="ID", default=_AFTER_ALL_IDS, help="Continue the list below this id."
)
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
    if call.out.as_json:
        for each in found:
            call.out.record(inbox_record(each))
    elif call.out.quiet:
        for each in found:
            call.out.line(each.id)
    else:
        call.out.table(INBOX_COLUMNS, [inbox_row(each) for each in found])


@click.command("show")
@click.argument("wanted", metavar="ID")
@tenant_option
@with_context
def show(call: CommandContext, *, wanted: str, tenant: str | None) -> None:
    """Show an inbox and what it received."""
    with call.reader() as reader:
        requester = Requester(tenant=tenant_of(reader, tenant))
        id_ = reader.read(find_id, IdKind.INBOX, requester.tenant, wanted)
        found = reader.read(inboxes.get, requester, id_)
    if call.out.as_json:
        call.out.record(inbox_record(found))
    else:
        call.out.outline(inbox_lines(found))


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
    _print_inbox(call, closed, closed.id, closed.state)


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
    _print_inbox(call, made, made.id, made.email)


def _change_inbox(
    call: CommandContext,
    change: Callable[[Components], InboxChange],
    wanted: str,
    drain: float | None,
    tenant: str | None,
) -> Inbox:
    async def work(components: Components) -> Inbox:
        requester, now = (
            Requester(tenant=tenant_of(components, tenant)),
            components.database.clock(),
        )
        id_ = await components.database.read(find_id, IdKind.INBOX, requester.tenant, wanted)
        found = await components.database.write(
            change(components), requester, id_, _milliseconds(drain), now
        )
        components.database.notify(EVENTS)
        return found

    return call.run(work)


def _print_inbox(call: CommandContext, inbox: Inbox, *cells: object) -> None:
    if call.out.as_json:
        call.out.record(inbox_record(inbox))
    elif call.out.quiet:
        call.out.line(inbox.id)
    else:
        call.out.line(*cells)


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
