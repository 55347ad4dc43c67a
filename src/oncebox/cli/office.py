"""What the commands of the office share: a tenant, a deed, and the book kept up to date."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from oncebox import ids
from oncebox.assembly import Rooms
from oncebox.cli.call import Call
from oncebox.cli.deeds import default_who
from oncebox.errors import NotFound
from oncebox.ledger.office.audit import Deed
from oncebox.model.source import Entry

F = TypeVar("F", bound=Callable[..., Any])


def owned(command: F) -> F:
    """Add whose thing it is."""
    return click.option("--tenant", metavar="NAME", help="Whose it is (ONCEBOX_TENANT).")(command)


def signed(command: F) -> F:
    """Add who and, if they like to say, why."""
    who = click.option(
        "--who", metavar="NAME", default=default_who, help="Who does it.  [your login]"
    )
    why = click.option("--why", metavar="TEXT", default="", help="The reason, for the audit.")
    return who(why(command))


def whose(rooms: Rooms, tenant: str | None) -> str:
    """Return the tenant that was typed, or the one the settings name."""
    return tenant or rooms.settings.tenant


def deed_of(rooms: Rooms, tenant: str | None, *, who: str, why: str) -> Deed:
    """Return who does something now, and why."""
    return Deed(
        id=ids.new("aud"),
        tenant=whose(rooms, tenant),
        at=rooms.database.clock(),
        who=who,
        why=why,
    )


async def entry_of(rooms: Rooms, tenant: str | None, name: str) -> Entry:
    """Return a source as it is now.

    Raises: NotFound.
    """
    await rooms.book.refresh()
    entry = rooms.book.find(whose(rooms, tenant), name)
    if entry is None:
        message = "there is no such source; list them with: oncebox source list"
        raise NotFound(message)
    return entry


def tell_removed(call: Call, name: str) -> None:
    """Say that something is no longer there."""
    if call.out.as_json:
        call.out.record({"name": name, "action": "removed"})
    elif not call.out.quiet:
        call.out.line(name, "removed")
