"""``oncebox inbox wait``: wait for a code or a link, through a service, and claim it."""

from typing import Any

import click

from oncebox import credentials
from oncebox.cli.call import Call, examples, with_call
from oncebox.cli.durations import seconds
from oncebox.model.purpose import Purpose


@click.command(
    "wait",
    epilog=examples(
        "oncebox inbox wait inb_… --code --sender github.com --within 2m",
        "oncebox inbox wait inb_… --link --host app.example.com --json",
        "oncebox inbox wait inb_… inb_… --code",
    ),
)
@click.argument("inboxes", metavar="ID…", nargs=-1, required=True)
@click.option("--code", "kind", flag_value="code", help="Wait for a code.")
@click.option("--link", "kind", flag_value="link", help="Wait for a link.")
@click.option("--sender", metavar="RULE", help="An address, a domain, or *. and a domain.")
@click.option("--host", metavar="NAME", help="Where the link must lead.")
@click.option(
    "--purpose", type=click.Choice([str(each) for each in Purpose]), help="What it is for."
)
@click.option("--token", metavar="TEXT", help="Must stand in the message.")
@click.option("--subject", metavar="PATTERN", help="With * and ? for what may be anything.")
@click.option("--recipient", metavar="ADDRESS", help="The address it was sent to.")
@click.option("--claim-key", metavar="TEXT", help="For whom; the same one gets it again.")
@click.option("--after", type=click.IntRange(0), default=0, metavar="NUMBER", help="Only later.")
@click.option(
    "--within", type=seconds, default="60s", show_default=True, metavar="TIME", help="How long."
)
@with_call
def wait(
    call: Call, /, *, inboxes: tuple[str, ...], kind: str | None, host: str | None, **wishes: Any
) -> None:
    """Wait for a code or a link in an inbox, or in any of several; claim and print it.

    A repeat gets the same again. If nothing comes, it says what was seen and why it did not fit.
    """
    if kind is None:
        message = "say what to wait for: --code or --link"
        raise click.UsageError(message)
    if kind == "code" and host is not None:
        message = "--host is for links"
        raise click.UsageError(message)
    from oncebox.client import Client  # noqa: PLC0415 - most commands need no HTTP

    with Client(*_access(call)) as client:
        if kind == "link":
            grant = client.inboxes.wait_for_link(inboxes, host=host, **wishes)
        else:
            grant = client.inboxes.wait_for_code(inboxes, **wishes)
    if call.out.as_json:
        call.out.record(grant)
    else:
        call.out.line(grant.id if call.out.quiet else grant.value)


def _access(call: Call) -> tuple[str | None, str | None]:
    """Return where the service is that the options name; else the client finds it."""
    if call.data_dir is None:
        return None, None
    found = credentials.read(call.settings().folder)
    return (None, None) if found is None else (found.url, found.key)
