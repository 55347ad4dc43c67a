"""Options several commands share: --tenant, --who, --why, secrets; audit entries from them."""

import getpass
import os
import platform
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, TypeVar

import click
import msgspec

from oncebox.cli.context import CommandContext
from oncebox.cli.output.printer import escape
from oncebox.core import ids
from oncebox.errors import NotFound
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.model.deliveries.effects import LARGEST_RESULT

if TYPE_CHECKING:  # read-only commands do not load these
    from oncebox.components import Components
    from oncebox.model.webhooks.source import SourceEntry
    from oncebox.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])


def parse_result(text: str) -> bytes:
    """Return the JSON of ``--result`` as it is stored."""
    try:
        stored = msgspec.json.encode(msgspec.json.decode(text))
    except (msgspec.DecodeError, UnicodeError) as error:
        raise click.BadParameter(
            "write JSON, such as '{\"account\": 7}'", param_hint="--result"
        ) from error
    if len(stored) > LARGEST_RESULT:
        raise click.BadParameter("a result has at most 1 MiB of JSON", param_hint="--result")
    return stored


def tenant_option(command: F) -> F:
    """Add the tenant."""
    return click.option("--tenant", metavar="NAME", help="Tenant (ONCEBOX_TENANT).")(command)


def page_options(command: F) -> F:
    """Add the length of a list that begins with the newest, and where it continues."""
    limit = click.option(
        "--limit",
        type=click.IntRange(1, 1000),
        default=50,
        show_default=True,
        help="Maximum number of rows.",
    )
    before = click.option(
        "--before", metavar="ID", default="~", help="Continue the list below this id."
    )
    return limit(before(command))


def header_option(command: F) -> F:
    """Add headers, as pairs of name and value."""
    return click.option(
        "--header",
        "headers",
        multiple=True,
        metavar="'NAME: VALUE'",
        help="Header. Repeatable.",
        callback=lambda _context, _param, texts: [_parse_header(text) for text in texts],
    )(command)


def _parse_header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        raise click.BadParameter("a header looks like 'Name: value'", param_hint="--header")
    return name.strip(), value.strip()


def check_one_body(*bodies: object, required: bool) -> None:
    """Refuse a body that is given more than once, or not at all."""
    given = sum(each is not None for each in bodies)
    if given > 1 or (required and not given):
        raise click.UsageError(
            "give the body once: --body TEXT, --body-file FILE, or - for standard input"
        )


def audit_options(command: F) -> F:
    """Add the operator and an optional reason for the audit log."""
    why = click.option("--why", metavar="TEXT", default="", help="Reason, kept in the audit log.")
    return _who_option(why(command))


def audit_options_with_reason(command: F) -> F:
    """Add the operator and a reason for the audit log; see ``require_reason``."""
    why = click.option("--why", metavar="TEXT", help="Reason, kept in the audit log.")
    return _who_option(why(command))


def _who_option(command: F) -> F:
    return click.option(
        "--who",
        metavar="NAME",
        default=current_user,
        help="Operator named in the audit log.  [your login]",
    )(command)


class _HasSettings(Protocol):
    """``Components`` or a ``Reader``."""

    settings: "Settings"


def tenant_of(opened: _HasSettings, tenant: str | None) -> str:
    """Return the tenant of the option, or of the settings."""
    return tenant or opened.settings.tenant


class AuditOptions(TypedDict):
    """The values of ``tenant_option`` and ``audit_options``."""

    tenant: str | None
    who: str
    why: str


def audit_entry(components: "Components", tenant: str | None, *, who: str, why: str) -> AuditEntry:
    """Return the audit entry of a change made now."""
    return AuditEntry(
        id=ids.new("aud"),
        tenant=tenant_of(components, tenant),
        at=components.database.clock(),
        who=who,
        why=why,
    )


async def source_entry(components: "Components", tenant: str | None, name: str) -> "SourceEntry":
    """Return a source as it is now.

    Raises: NotFound.
    """
    await components.sources.refresh()
    return require_source(components.sources.find(tenant_of(components, tenant), name))


def require_source(entry: "SourceEntry | None") -> "SourceEntry":
    """Return a source that was looked up.

    Raises: NotFound.
    """
    if entry is None:
        raise NotFound("there is no such source; list them with: oncebox source list")
    return entry


def print_removed(call: CommandContext, name: str) -> None:
    """Print that something was removed."""
    call.out.result({"name": name, "action": "removed"}, name, "removed")


def current_user() -> str:
    """Return the login name and host of the operator."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # an account without a name, as in some containers
        name = f"uid-{os.getuid()}"
    return f"{name}@{platform.node()}"


def require_reason(why: str | None) -> str:
    """Refuse a change without a reason."""
    if not (why or "").strip():
        raise click.UsageError("give a reason: --why TEXT; it is kept in the audit log")
    return str(why)


_FILE_PREFIX = "file:"
_VARIABLE_PREFIX = "env:"


def read_secret(typed: str) -> str:
    """Return the value of ``--secret``: a reference, or a secret read from input with ``-``.

    A secret itself is refused on the command line, where every user of the machine can see it.
    """
    from oncebox.ledger.admin.sources import is_reference  # noqa: PLC0415 - few commands need it

    if typed == "-":
        return _read_secret_input()
    if not is_reference(typed):
        raise click.UsageError(
            "every user of this machine could read a secret on the command line; use env:NAME or "
            "file:PATH, or - to enter it or read it from standard input"
        )
    if typed.startswith(_FILE_PREFIX):
        return f"{_FILE_PREFIX}{Path(typed.removeprefix(_FILE_PREFIX)).absolute()}"
    return typed


def explain_variables(texts: Iterable[str]) -> None:
    """Print whose environment each variable is read in, since it is not that of the command."""
    for text in texts:
        name = text.removeprefix(_VARIABLE_PREFIX)
        if text.startswith(_VARIABLE_PREFIX):
            click.echo(
                f"note: the service reads {escape(name)} in its own environment: set it before "
                "oncebox serve, or give the secret with --secret -",
                err=True,
            )


def _read_secret_input() -> str:
    if sys.stdin.isatty():
        return str(click.prompt("secret", hide_input=True, err=True)).strip()
    try:
        return sys.stdin.buffer.read().decode().strip()
    except UnicodeDecodeError:
        raise click.UsageError("standard input is not UTF-8; send the secret as text") from None


def limit_option(command: F) -> F:
    """Add the maximum length of a list."""
    return click.option(
        "--limit",
        type=click.IntRange(1, 1000),
        default=50,
        show_default=True,
        help="Maximum number of rows.",
    )(command)


def before_option(command: F) -> F:
    """Add the id below which a list continues; by default one that sorts after every id."""
    return click.option(
        "--before", metavar="ID", default="~", help="Continue the list below this id."
    )(command)
