"""``oncebox inbox``: addresses for attempts, and what came of them."""

from collections.abc import Callable

import click

from oncebox.assembly import Rooms
from oncebox.cli.call import Call, examples, with_call
from oncebox.cli.durations import seconds
from oncebox.cli.inbox_shown import COLUMNS, lines, record, told
from oncebox.cli.office import owned, whose
from oncebox.ledger.events.outbox import EVENTS
from oncebox.ledger.inboxes import inboxes
from oncebox.ledger.inboxes.inboxes import Asker
from oncebox.ledger.inboxes.postmaster import Made
from oncebox.model.inbox import Inbox, InboxPolicy, InboxState, InboxWish
from oncebox.model.purpose import Purpose
from oncebox.store.database import Transaction

#: what comes after every id
_END = "~"

Change = Callable[[Transaction, Asker, str, int | None, int], Inbox]


@click.command(
    "new",
    epilog=examples(
        "oncebox inbox new --attempt signup-4821",
        "oncebox inbox new --attempt signup-4821 --label backup --lifetime 2h --json",
        "oncebox inbox new --domain inbox.example.com --local support --lifetime 0",
    ),
)
@click.option("--attempt", "attempt_id", metavar="ID", help="What it is for; a repeat is the same.")
@click.option("--label", default="", metavar="TEXT", help="Tells inboxes of one attempt apart.")
@click.option("--domain", metavar="NAME", help="One of your domains.  [the default one]")
@click.option("--local", metavar="TEXT", help="Before the @.  [one that nobody guesses]")
@click.option("--lifetime", type=seconds, metavar="TIME", help="Such as 2h; 0 is for ever.")
@click.option("--sender", "senders", multiple=True, metavar="RULE", help="Allowed. Repeatable.")
@click.option("--authenticated", is_flag=True, help="Senders must pass SPF or DKIM.")
@click.option("--link-host", "link_hosts", multiple=True, metavar="HOST", help="Repeatable.")
@click.option("--link-origin", "link_origins", multiple=True, metavar="URL", help="For tests.")
@click.option("--token", metavar="TEXT", help="Must stand in the message.")
@click.option(
    "--purpose",
    type=click.Choice([str(each) for each in Purpose]),
    default="any",
    help="What it is for.",
)
@click.option("--resends", type=click.IntRange(0, 100), default=1, help="May be asked for again.")
@click.option("--metadata", multiple=True, metavar="NAME=VALUE", help="Repeatable.")
@owned
@with_call
def new(  # noqa: PLR0913 - an inbox simply has this many sides
    call: Call,
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
    """Make an inbox and print its address.

    An attempt has one inbox of each label: a repeat prints the same.
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
    wish = InboxWish(
        attempt_id=attempt_id,
        label=label,
        domain=domain,
        local=local,
        lifetime=_milliseconds(lifetime),
        metadata=_pairs(metadata),
        policy=policy,
    )

    async def work(rooms: Rooms) -> Made:
        asker = Asker(tenant=whose(rooms, tenant))
        now = rooms.database.clock()
        (made,) = await rooms.database.write(rooms.postmaster.make, asker, [wish], now)
        rooms.database.ring(EVENTS)
        return made

    made = call.run(work, create=True)
    if call.out.as_json:
        call.out.record({**record(made.inbox), "created": made.new})
    elif call.out.quiet:
        call.out.line(made.inbox.id)
    else:
        call.out.line(made.inbox.id, made.inbox.email)


@click.command(
    "list", epilog=examples("oncebox inbox list --attempt signup-4821", "oncebox inbox list --json")
)
@click.option("--attempt", "attempt_id", metavar="ID", help="Only of this attempt.")
@click.option("--state", type=click.Choice([str(each) for each in InboxState]), help="Only these.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many at most."
)
@click.option("--before", metavar="ID", default=_END, help="Go on below this one.")
@owned
@with_call
def list_(
    call: Call,
    *,
    attempt_id: str | None,
    state: str | None,
    limit: int,
    before: str,
    tenant: str | None,
) -> None:
    """Show inboxes, newest first."""

    async def work(rooms: Rooms) -> list[Inbox]:
        return await rooms.database.read(
            inboxes.newest,
            Asker(tenant=whose(rooms, tenant)),
            attempt_id=attempt_id,
            state=InboxState(state) if state else None,
            before=before,
            most=limit,
        )

    found = call.run(work)
    if call.out.as_json:
        for each in found:
            call.out.record(record(each))
    elif call.out.quiet:
        for each in found:
            call.out.line(each.id)
    else:
        call.out.table(COLUMNS, [told(each) for each in found])


@click.command("show")
@click.argument("wanted", metavar="ID")
@owned
@with_call
def show(call: Call, *, wanted: str, tenant: str | None) -> None:
    """Show all about an inbox, and what came of it."""

    async def work(rooms: Rooms) -> Inbox:
        asker = Asker(tenant=whose(rooms, tenant))
        return await rooms.database.read(inboxes.get, asker, wanted)

    found = call.run(work)
    if call.out.as_json:
        call.out.record(record(found))
    else:
        call.out.outline(lines(found))


@click.command("close")
@click.argument("wanted", metavar="ID")
@click.option("--drain", type=seconds, metavar="TIME", help="Take mail for so long; 0 is at once.")
@owned
@with_call
def close(call: Call, *, wanted: str, drain: float | None, tenant: str | None) -> None:
    """Take mail for a while longer, then close an inbox for good."""
    closed = _changed(call, lambda rooms: rooms.postmaster.close, wanted, drain, tenant)
    _print(call, closed, closed.id, closed.state)


@click.command("rotate")
@click.argument("wanted", metavar="ID")
@click.option("--drain", type=seconds, metavar="TIME", help="The old one takes mail for so long.")
@owned
@with_call
def rotate(call: Call, *, wanted: str, drain: float | None, tenant: str | None) -> None:
    """Make a new address for the same attempt and label; the old one drains.

    A repeat for the same inbox prints the same new one.
    """
    made = _changed(call, lambda rooms: rooms.postmaster.rotate, wanted, drain, tenant)
    _print(call, made, made.id, made.email)


def _changed(
    call: Call,
    change: Callable[[Rooms], Change],
    wanted: str,
    drain: float | None,
    tenant: str | None,
) -> Inbox:
    async def work(rooms: Rooms) -> Inbox:
        asker, now = Asker(tenant=whose(rooms, tenant)), rooms.database.clock()
        found = await rooms.database.write(change(rooms), asker, wanted, _milliseconds(drain), now)
        rooms.database.ring(EVENTS)
        return found

    return call.run(work)


def _print(call: Call, inbox: Inbox, *cells: object) -> None:
    if call.out.as_json:
        call.out.record(record(inbox))
    elif call.out.quiet:
        call.out.line(inbox.id)
    else:
        call.out.line(*cells)


def _pairs(typed: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in typed:
        name, equals, value = text.partition("=")
        if not (name and equals):
            message = "write NAME=VALUE"
            raise click.BadParameter(message, param_hint="--metadata")
        found[name] = value
    return found


def _milliseconds(typed: float | None) -> int | None:
    return None if typed is None else round(typed * 1000)
