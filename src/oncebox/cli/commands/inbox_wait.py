"""`oncebox inbox wait`: wait for a code, link or message through the HTTP API, and claim it."""

from typing import Any

import click

from oncebox.cli.context import CommandContext, examples, with_context
from oncebox.cli.output.times import parse_duration
from oncebox.core import credentials
from oncebox.model.inboxes.purpose import Purpose


@click.command(
    "wait",
    epilog=examples(
        "oncebox inbox wait inb_… --code --sender github.com --within 2m",
        "oncebox inbox wait inb_… --link --host app.example.com --json",
        "oncebox inbox wait inb_… inb_… --code",
        "oncebox inbox wait inb_… --message --subject '*unlocked*' --json",
    ),
)
@click.argument("inboxes", metavar="ID…", nargs=-1, required=True)
@click.option("--code", "kind", flag_value="code", help="Wait for a code.")
@click.option("--link", "kind", flag_value="link", help="Wait for a link.")
@click.option("--message", "kind", flag_value="message", help="Wait for a message itself.")
@click.option(
    "--sender",
    multiple=True,
    metavar="RULE",
    help="Sender: an address, a domain with its subdomains, or *.domain. Repeatable.",
)
@click.option("--host", metavar="NAME", help="Host of the link.")
@click.option(
    "--has-attachment/--no-attachment",
    default=None,
    help="Whether the message has attachments, inline ones not counted.",
)
@click.option(
    "--purpose",
    type=click.Choice([str(each) for each in Purpose]),
    help="Purpose of the mail.",
)
@click.option("--token", metavar="TEXT", help="Text the message must contain.")
@click.option("--subject", metavar="PATTERN", help="Glob pattern (`*`, `?`).")
@click.option("--recipient", metavar="ADDRESS", help="Recipient address.")
@click.option(
    "--claim-key", metavar="TEXT", help="Claim key; the same key gets the same value again."
)
@click.option(
    "--after",
    type=click.IntRange(0),
    default=0,
    metavar="NUMBER",
    help="Only messages after this number.",
)
@click.option(
    "--within",
    type=parse_duration,
    default="60s",
    show_default=True,
    metavar="TIME",
    help="How long to wait.",
)
@with_context
def wait(
    call: CommandContext,
    /,
    *,
    inboxes: tuple[str, ...],
    kind: str | None,
    host: str | None,
    has_attachment: bool | None,
    **filters: Any,
) -> None:
    """Wait for a code, link or message in one or several inboxes; claim and print it.

    Of a message its id is printed, and with --json its text, HTML and attachments. A repeat
    returns the same value. Without a match, the output says what arrived and why it did
    not match.
    """
    if kind is None:
        raise click.UsageError("choose what to wait for: --code, --link or --message")
    if kind != "link" and host is not None:
        raise click.UsageError("--host is for links")
    if kind != "message" and has_attachment is not None:
        raise click.UsageError("--has-attachment and --no-attachment are for --message")
    from oncebox.client.sync import Client  # noqa: PLC0415 - most commands need no HTTP

    with Client(*_service_credentials(call)) as client:
        if kind == "link":
            grant = client.inboxes.wait_for_link(inboxes, host=host, **filters)
        elif kind == "message":
            grant = client.inboxes.wait_for_message(
                inboxes, has_attachment=has_attachment, **filters
            )
        else:
            grant = client.inboxes.wait_for_code(inboxes, **filters)
    if call.out.as_json:
        call.out.record(grant)
    else:
        call.out.line(grant.id if call.out.quiet else grant.value)


def _service_credentials(call: CommandContext) -> tuple[str | None, str | None]:
    """Return where the service is that the options name; else the client finds it."""
    if call.data_dir is None:
        return None, None
    found = credentials.read(call.settings().folder)
    return (None, None) if found is None else (found.url, found.key)
