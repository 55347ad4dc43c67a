"""``oncebox send mail``: one mail, written at the terminal, sent once."""

import sys
from pathlib import Path

import click

from oncebox.assembly import Rooms
from oncebox.cli import failures
from oncebox.cli.call import Call, examples, with_call
from oncebox.cli.durations import seconds
from oncebox.cli.office import owned, whose
from oncebox.mail import media
from oncebox.model.email import Attachment, Email
from oncebox.model.intent import Intent, Origin
from oncebox.model.send import Answer, OnUnknown
from oncebox.wire.sends import SendAnswer, answer_of

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_BAD = {Answer.FAILED, Answer.UNKNOWN, Answer.SUPPRESSED, Answer.EXPIRED, Answer.CANCELLED}


@click.command(
    "mail",
    epilog=examples(
        "oncebox send mail --to ann@example.com --subject Hello --text 'Hello, Ann.' \\",
        "    --event-type greeting --entity-id ann",
        "oncebox send mail --to ann@example.com --subject Report --text - --attach report.pdf \\",
        "    --key report-2026-11 < report.txt",
    ),
)
@click.option("--to", multiple=True, metavar="ADDRESS", help="Repeatable; one mail for all.")
@click.option("--cc", multiple=True, metavar="ADDRESS", help="Repeatable.")
@click.option("--bcc", multiple=True, metavar="ADDRESS", help="Repeatable.")
@click.option(
    "--from", "sender", default="", metavar="ADDRESS", help="Who it is from.  [the default sender]"
)
@click.option("--subject", default="", metavar="TEXT", help="What it is about.")
@click.option("--text", default="", metavar="TEXT", help="What it says; - is standard input.")
@click.option("--html", default="", metavar="TEXT", help="The same as HTML; - as above.")
@click.option("--attach", multiple=True, type=_FILE, metavar="FILE", help="Repeatable.")
@click.option("--event-type", default="", metavar="TEXT", help="Such as order.confirmation.")
@click.option("--entity-id", default="", metavar="TEXT", help="Such as order_4821.")
@click.option("--version", type=click.IntRange(0), default=1, help="Another one is another mail.")
@click.option("--key", metavar="TEXT", help="A key of your own, instead of the three above.")
@click.option("--transport", default="", metavar="NAME", help="By which way.  [the first]")
@click.option(
    "--on-unknown",
    type=click.Choice([str(each) for each in OnUnknown]),
    default="hold",
    help="In doubt.  [hold]",
)
@click.option("--wait", type=seconds, default="0", metavar="TIME", help="For what becomes of it.")
@owned
@with_call
def mail(  # noqa: PLR0913 - a mail simply has this many sides
    call: Call,
    /,
    *,
    to: tuple[str, ...],
    cc: tuple[str, ...],
    bcc: tuple[str, ...],
    sender: str,
    subject: str,
    text: str,
    html: str,
    attach: tuple[Path, ...],
    event_type: str,
    entity_id: str,
    version: int,
    key: str | None,
    transport: str,
    on_unknown: str,
    wait: float,
    tenant: str | None,
) -> int:
    """Send one mail, once, however often this is typed.

    The same event type, entity and recipients are the same mail. A service or worker hands it
    over; --wait says how it ended. The exit code is 1 if it ended without being sent.
    """
    if text == html == "-":
        message = "standard input is one text; give --text or --html in words"
        raise click.UsageError(message)
    email = Email(
        sender=sender,
        to=to,
        cc=cc,
        bcc=bcc,
        subject=subject,
        text=_read() if text == "-" else text,
        html=_read() if html == "-" else html,
        attachments=[_attached(each) for each in attach],
    )
    intent = Intent(
        email=email,
        event_type=event_type,
        entity_id=entity_id,
        version=version,
        key=key,
        transport=transport,
        on_unknown=OnUnknown(on_unknown),
    )

    async def work(rooms: Rooms) -> SendAnswer:
        intended = await rooms.outbox.send(Origin(tenant=whose(rooms, tenant)), intent)
        ended = await rooms.outbox.outcome(intended.send, wait) if wait else None
        return answer_of(intended, rooms.database.clock(), later=ended)

    answer = call.run(work, create=True)
    if call.out.as_json:
        call.out.record(answer)
    elif call.out.quiet:
        call.out.line(answer.id)
    else:
        drift = "its text was changed; the first one stays" if answer.drift else ""
        call.out.line(answer.id, answer.status, answer.message_id, drift)
    return failures.ERROR if answer.status in _BAD else failures.OK


def _read() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        message = "standard input is not UTF-8; write the text in it"
        raise click.UsageError(message) from None


def _attached(path: Path) -> Attachment:
    kind = media.of_name(path.name)
    return Attachment(name=path.name, content=path.read_bytes(), media_type=kind)
