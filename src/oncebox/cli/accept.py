"""``oncebox delivery accept``: hand the ledger a delivery from the command line."""

import sys
from pathlib import Path

import click

from oncebox.assembly import Rooms
from oncebox.cli import failures
from oncebox.cli.call import Call, examples, with_call
from oncebox.config import Settings
from oncebox.model.delivery import Accepted, Arrival

#: the road that deliveries typed by a person come by
ROAD = "cli"

_MEANING = {
    Arrival.NEW: "new",
    Arrival.DUPLICATE: "duplicate: already {state}, nothing runs twice",
    Arrival.SUSPICIOUS_REPLAY: "suspicious replay: this body is known; stored and {state}",
    Arrival.CONFLICT: "conflict: this key is known with another body; stored and {state}",
}


@click.command(
    "accept",
    epilog=examples(
        'oncebox delivery accept stripe --key evt_1 --type invoice.paid --body \'{"id": "in_1"}\'',
        "oncebox delivery accept github --key 4711 --header 'X-GitHub-Event: push' - < push.json",
    ),
)
@click.argument("source")
@click.argument("stdin", required=False, type=click.Choice(["-"]), metavar="[-]")
@click.option("--key", metavar="KEY", help="What makes it the same delivery.  [the body's hash]")
@click.option("--type", "type_", default="", metavar="TYPE", help="Such as invoice.paid.")
@click.option("--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="Repeatable.")
@click.option("--order-key", metavar="KEY", help="Same order key: one at a time, in order.")
@click.option("--body", metavar="TEXT", help="The body itself.")
@click.option(
    "--body-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A file that holds the body; - alone reads standard input.",
)
@with_call
def accept(  # noqa: PLR0913 - a delivery simply has this many sides
    call: Call,
    *,
    source: str,
    stdin: str | None,
    key: str | None,
    type_: str,
    headers: tuple[str, ...],
    order_key: str | None,
    body: str | None,
    body_file: Path | None,
) -> int:
    """Store a delivery, once, and say whether it was new.

    When the id is printed, the delivery is on disk. Exit code 4 means that the key is known
    with another body.

    """
    pairs = [_header(text) for text in headers]
    content = _body(call.settings(), stdin=stdin, text=body, file=body_file)

    async def work(rooms: Rooms) -> Accepted:
        return await rooms.intake.accept(
            source,
            key=key,
            body=content,
            headers=pairs,
            type_=type_,
            order_key=order_key,
            road=ROAD,
        )

    accepted = call.run(work, create=True)
    _print(call, accepted)
    return failures.CONFLICT if accepted.arrival is Arrival.CONFLICT else failures.OK


def _body(settings: Settings, *, stdin: str | None, text: str | None, file: Path | None) -> bytes:
    """Return the body, reading no more than it takes to see that it is too large."""
    if sum(each is not None for each in (stdin, text, file)) != 1:
        message = "give the body once: --body TEXT, --body-file FILE, or - for standard input"
        raise click.UsageError(message)
    if text is not None:
        return text.encode("utf-8", "surrogateescape")
    most = settings.limits.body + 1
    if file is None:
        return sys.stdin.buffer.read(most)
    with file.open("rb") as opened:
        return opened.read(most)


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        message = "a header looks like 'Name: value'"
        raise click.BadParameter(message, param_hint="--header")
    return name.strip(), value.strip()


def _print(call: Call, accepted: Accepted) -> None:
    if call.out.as_json:
        call.out.record(accepted)
    elif call.out.quiet:
        call.out.line(accepted.id)
    elif call.out.on_terminal:
        call.out.line(accepted.id, _MEANING[accepted.arrival].format(state=accepted.state))
    else:
        call.out.line(accepted.id, accepted.arrival, accepted.state, accepted.sighting)
