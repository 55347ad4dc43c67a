"""`oncebox send mail|list|inspect|explain|resolve|cancel|resend`: outgoing mail."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from oncebox.cli.context import CommandContext, examples, with_context
from oncebox.cli.options import (
    audit_entry,
    audit_options_with_reason,
    require_reason,
    tenant_of,
    tenant_option,
)
from oncebox.cli.output import failures
from oncebox.cli.output.send_report import (
    SEND_COLUMNS,
    explain_send,
    send_lines,
    send_row,
)
from oncebox.cli.output.times import parse_duration
from oncebox.components import Components
from oncebox.db.database import Transaction
from oncebox.ledger.admin import audit
from oncebox.ledger.admin.audit import AuditEntry
from oncebox.ledger.notifications import EVENTS, SENDS
from oncebox.ledger.sends import lifecycle, sends, transports
from oncebox.ledger.sends.sends import SendFilter
from oncebox.mail.compose import media_types
from oncebox.model.deliveries.inspection import AuditRecord
from oncebox.model.sends.email import Attachment, Email
from oncebox.model.sends.intent import Intent, SendOrigin
from oncebox.model.sends.send import (
    DEFAULT_ON_UNKNOWN,
    AnswerStatus,
    OnUnknown,
    Send,
    SendState,
    SendTry,
    next_step,
)
from oncebox.model.sends.transports import ConfiguredTransport
from oncebox.schemas.sends import SendAnswer, to_answer, to_inspection


@click.command(
    "list",
    epilog=examples(
        "oncebox send list --state unknown",
        "oncebox send list --transport relay --json | jq -r .message_id",
    ),
)
@click.option(
    "--state", type=click.Choice([str(each) for each in SendState]), help="Filter by state."
)
@click.option("--transport", metavar="NAME", help="Filter by transport.")
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=50,
    show_default=True,
    help="Maximum number of rows.",
)
@click.option("--before", metavar="ID", default="~", help="Continue the list below this id.")
@tenant_option
@with_context
def list_(
    call: CommandContext,
    *,
    state: str | None,
    transport: str | None,
    limit: int,
    before: str,
    tenant: str | None,
) -> None:
    """List sends, newest first, without recipients and content."""
    with call.reader() as reader:
        wanted = SendFilter(
            tenant_of(reader, tenant),
            state=SendState(state) if state else None,
            transport=transport,
        )
        found = reader.read(sends.newest, wanted, before=before, most=limit)
        now = reader.clock()
    call.out.listing(
        found,
        SEND_COLUMNS,
        lambda each: send_row(each, now, call.out),
        record=lambda each: to_answer(each, now),
    )


@click.command(
    "inspect",
    epilog=examples(
        "oncebox send inspect snd_…",
        "oncebox send inspect '<4e1c…@example.com>' --json | jq -r .next_action",
    ),
)
@click.argument("wanted", metavar="ID")
@tenant_option
@with_context
def inspect(call: CommandContext, *, wanted: str, tenant: str | None) -> None:
    """Show everything known about a send, by its id, Message-ID or provider's id.

    A unique beginning of the id is enough.
    """
    with call.reader() as reader:
        found = reader.read(_find_details, tenant_of(reader, tenant), wanted)
        now = reader.clock()
    for number, (send, tries, audited, _) in enumerate(found):
        if call.out.as_json:
            call.out.record(to_inspection(send, tries, now))
            continue
        if number:
            call.out.line()
        call.out.outline(send_lines(send, tries, audited, now))


@click.command("explain", epilog=examples("oncebox send explain snd_…"))
@click.argument("wanted", metavar="ID")
@tenant_option
@with_context
def explain(call: CommandContext, *, wanted: str, tenant: str | None) -> None:
    """Explain in plain English the state of a send and what happens next."""
    with call.reader() as reader:
        found = reader.read(_find_details, tenant_of(reader, tenant), wanted)
        now = reader.clock()
    for send, tries, _, transport in found:
        sentences = list(explain_send(send, tries, transport, now))
        if call.out.as_json:
            call.out.record({"id": send.id, "state": send.state, "sentences": sentences})
            continue
        call.out.line(f"{send.id}:")
        for each in sentences:
            call.out.line(each)


#: a send, its tries, its audit records and its transport
_SendDetails = tuple[Send, list[SendTry], list[AuditRecord], ConfiguredTransport | None]


def _find_details(tx: Transaction, tenant: str, wanted: str) -> list[_SendDetails]:
    found = [sends.get(tx, tenant, each) for each in sends.find(tx, tenant, wanted)]
    if not found:
        raise sends.not_found()
    configured = {each.name: each for each in transports.of_tenant(tx, tenant)}
    return [
        (
            each,
            sends.tries(tx, tenant, each.id),
            audit.for_target(tx, tenant, f"send:{each.id}"),
            configured.get(each.transport),
        )
        for each in found
    ]


#: a change of one send: ``(tx, id, audit entry)``
SendChange = Callable[[Transaction, str, AuditEntry], Send]


@click.command(
    "resolve",
    epilog=examples(
        "oncebox send resolve snd_… --sent --why 'the relay has logged it'",
        "oncebox send resolve snd_… --not-sent --why 'the relay has never seen it'",
    ),
)
@click.argument("wanted", metavar="ID")
@click.option("--sent/--not-sent", "sent", default=None, help="Actual outcome.")
@click.option("--provider-id", default="", metavar="TEXT", help="Id of the mail at the provider.")
@tenant_option
@audit_options_with_reason
@with_context
def resolve(  # noqa: PLR0913 - options
    call: CommandContext,
    *,
    wanted: str,
    sent: bool | None,
    provider_id: str,
    tenant: str | None,
    who: str,
    why: str | None,
) -> None:
    """Record the actual outcome of a send whose outcome is unknown.

    Check the provider first. Further requests for a sent mail are duplicates; a mail that was not
    sent is sent by the next request for it, or by: oncebox send resend.
    """
    if sent is None:
        raise click.UsageError("give the outcome: --sent or --not-sent")
    if provider_id and not sent:
        raise click.UsageError("a mail that was not sent has no id; omit --provider-id")
    change = partial(lifecycle.resolve, sent=sent, provider_id=provider_id)
    _apply(call, wanted, change, tenant, who=who, why=why)


@click.command("cancel", epilog=examples("oncebox send cancel snd_… --why 'the wrong list'"))
@click.argument("wanted", metavar="ID")
@tenant_option
@audit_options_with_reason
@with_context
def cancel(
    call: CommandContext, *, wanted: str, tenant: str | None, who: str, why: str | None
) -> None:
    """Cancel a send that has not started."""
    _apply(call, wanted, lifecycle.cancel, tenant, who=who, why=why)


@click.command("resend", epilog=examples("oncebox send resend snd_… --why 'the relay is fixed'"))
@click.argument("wanted", metavar="ID")
@tenant_option
@audit_options_with_reason
@with_context
def resend(
    call: CommandContext, *, wanted: str, tenant: str | None, who: str, why: str | None
) -> None:
    """Retry a send that was not sent, or repeat one of unknown outcome.

    The repeat of an unknown send may be a second mail. Message-ID, Date and bytes stay the same.
    """
    _apply(call, wanted, lifecycle.resend, tenant, who=who, why=why)


def _apply(
    call: CommandContext,
    wanted: str,
    change: SendChange,
    tenant: str | None,
    *,
    who: str,
    why: str | None,
) -> None:
    reason = require_reason(why)

    async def work(components: Components) -> tuple[Send, int]:
        entry = audit_entry(components, tenant, who=who, why=reason)
        id_ = await components.database.read(_single_send, entry.tenant, wanted)
        send = await components.database.write(change, id_, entry)
        components.database.notify(SENDS)
        components.database.notify(EVENTS)
        return send, entry.at

    send, now = call.run(work)
    call.out.result(to_answer(send, now), send.id, send.state, next_step(send, now))


def _single_send(tx: Transaction, tenant: str, wanted: str) -> str:
    """Return the id of the only send with this id, Message-ID or provider's id."""
    found = sends.find(tx, tenant, wanted)
    if not found:
        raise sends.not_found()
    if len(found) > 1:
        raise click.UsageError(f"this matches {len(found)} sends; give one id: {', '.join(found)}")
    return found[0]


_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_NOT_SENT_STATES = {
    AnswerStatus.FAILED,
    AnswerStatus.UNKNOWN,
    AnswerStatus.SUPPRESSED,
    AnswerStatus.EXPIRED,
    AnswerStatus.CANCELLED,
}


@click.command(
    "mail",
    epilog=examples(
        "oncebox send mail --to ann@example.com --subject Hello --text 'Hello, Ann.' \\",
        "    --event-type greeting --entity-id ann",
        "oncebox send mail --to ann@example.com --subject Report --text - --attach report.pdf \\",
        "    --key report-2026-11 < report.txt",
    ),
)
@click.option(
    "--to", multiple=True, metavar="ADDRESS", help="Recipient. Repeatable; one mail for all."
)
@click.option("--cc", multiple=True, metavar="ADDRESS", help="Copy. Repeatable.")
@click.option("--bcc", multiple=True, metavar="ADDRESS", help="Blind copy. Repeatable.")
@click.option("--from", "sender", default="", metavar="ADDRESS", help="Sender.  [sends.sender]")
@click.option("--subject", default="", metavar="TEXT", help="Subject.")
@click.option("--text", default="", metavar="TEXT", help="Text body; - reads standard input.")
@click.option("--html", default="", metavar="TEXT", help="HTML body; - reads standard input.")
@click.option("--attach", multiple=True, type=_FILE, metavar="FILE", help="Attachment. Repeatable.")
@click.option(
    "--event-type", default="", metavar="TEXT", help="Event type, such as order.confirmation."
)
@click.option("--entity-id", default="", metavar="TEXT", help="Entity, such as order_4821.")
@click.option(
    "--version", type=click.IntRange(0), default=1, help="Version; another version is another mail."
)
@click.option("--key", metavar="TEXT", help="Idempotency key instead of type, entity and version.")
@click.option(
    "--transport", default="", metavar="NAME", help="Transport; no other is used.  [the first]"
)
@click.option(
    "--failover-group", default="", metavar="NAME", help="The first transport of this group."
)
@click.option(
    "--on-unknown",
    type=click.Choice([str(each) for each in OnUnknown]),
    default=str(DEFAULT_ON_UNKNOWN),
    help="What to do if the outcome is unknown.  [replay where keys are honoured, else hold]",
)
@click.option(
    "--wait",
    type=parse_duration,
    default="0",
    metavar="TIME",
    help="How long to wait for the outcome.",
)
@tenant_option
@with_context
def mail(  # noqa: PLR0913 - options
    call: CommandContext,
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
    failover_group: str,
    on_unknown: str,
    wait: float,
    tenant: str | None,
) -> int:
    """Send one mail, once, however often the command is repeated.

    The same event type, entity and recipients are the same mail. A service or worker sends it;
    --wait prints the outcome. The exit code is 1 if the mail was not sent.
    """
    if text == html == "-":
        raise click.UsageError("standard input is one body; give --text or --html directly")
    email = Email(
        sender=sender,
        to=to,
        cc=cc,
        bcc=bcc,
        subject=subject,
        text=_read_text_input() if text == "-" else text,
        html=_read_text_input() if html == "-" else html,
        attachments=[_read_attachment(each) for each in attach],
    )
    intent = Intent(
        email=email,
        event_type=event_type,
        entity_id=entity_id,
        version=version,
        key=key,
        transport=transport,
        failover_group=failover_group,
        on_unknown=OnUnknown(on_unknown),
    )

    async def work(components: Components) -> SendAnswer:
        intended = await components.outbox.send(
            SendOrigin(tenant=tenant_of(components, tenant)), intent
        )
        ended = await components.outbox.outcomes.wait(intended.send, wait) if wait else None
        return to_answer(intended, components.database.clock(), later=ended)

    answer = call.run(work, create=True)
    if call.out.as_json:
        call.out.record(answer)
    elif call.out.quiet:
        call.out.line(answer.id)
    else:
        drift = "the content differs; the first one stays" if answer.drift else ""
        call.out.line(answer.id, answer.status, answer.message_id, drift)
    return failures.ERROR if answer.status in _NOT_SENT_STATES else failures.OK


def _read_text_input() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise click.UsageError("standard input is not UTF-8; encode the text as UTF-8") from None


def _read_attachment(path: Path) -> Attachment:
    kind = media_types.media_type_of(path.name)
    return Attachment(name=path.name, content=path.read_bytes(), media_type=kind)
