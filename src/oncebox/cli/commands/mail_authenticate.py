"""`oncebox mail authenticate`: SPF, DKIM and DMARC of a raw mail."""

import asyncio
import ipaddress
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from oncebox.cli.commands.mail import RAW_MAIL, read_raw_mail
from oncebox.cli.context import CommandContext, examples, with_context
from oncebox.cli.output import failures
from oncebox.core.metrics import Telemetry
from oncebox.model.inboxes.received_mail import (
    VERDICT_DETAILS,
    Envelope,
    ParsedMail,
    SenderVerdict,
    is_sender_proven,
)
from oncebox.settings import Settings
from oncebox.workers.mail.parser_pool import ParserPool
from oncebox.workers.mail.sender_authentication import make_authenticator


def _parse_ip(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    try:
        return str(ipaddress.ip_address(value))
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is no address, such as 192.0.2.7") from error


@click.command(
    "authenticate",
    epilog=examples(
        "oncebox mail authenticate message.eml --from 192.0.2.7 --mail-from bounce@example.com",
        "oncebox message raw msg_… | oncebox mail authenticate - --from 192.0.2.7 --json",
    ),
)
@click.argument("file", type=RAW_MAIL)
@click.option(
    "--from",
    "client",
    required=True,
    metavar="IP",
    callback=_parse_ip,
    help="IP address of the client.",
)
@click.option("--helo", default="", metavar="NAME", help="HELO name of the client.")
@click.option("--mail-from", default="", metavar="ADDRESS", help="Envelope sender.")
@with_context
def authenticate(
    call: CommandContext, *, file: Path, client: str, helo: str, mail_from: str
) -> int:
    """Check SPF, DKIM and DMARC of a raw mail; - reads standard input.

    Uses DNS. The exit code is 1 unless the sender is authenticated.

    """
    settings = call.settings()
    raw = read_raw_mail(file, settings.limits.body)
    envelope = Envelope(client=client, helo=helo, sender=mail_from, recipients=())
    parsed, verdict = asyncio.run(_authenticate(settings, envelope, raw))
    trusted = is_sender_proven(verdict, parsed.sender.domain)
    if call.out.as_json:
        fields = msgspec.structs.asdict(verdict)
        call.out.record({**fields, "from": parsed.sender.domain, "trusted": trusted})
    elif call.out.quiet:
        call.out.line("trusted" if trusted else "unproven")
    else:
        call.out.outline(_verdict_lines(parsed, verdict, trusted=trusted))
    return failures.OK if trusted else failures.ERROR


async def _authenticate(
    settings: Settings, envelope: Envelope, raw: bytes
) -> tuple[ParsedMail, SenderVerdict]:
    authenticator = make_authenticator(settings.mail)
    async with ParserPool(settings.parser, Telemetry()) as parsers:
        parsed = await parsers.parse(raw)
        return parsed, await authenticator.authenticate(envelope, parsed, raw, parsers.check)


def _verdict_lines(
    parsed: ParsedMail, verdict: SenderVerdict, *, trusted: bool
) -> Iterator[tuple[object, ...]]:
    yield "from", parsed.sender.domain or f"({parsed.sender.standing})"
    yield "sender", "trusted" if trusted else "unproven"
    yield "spf", verdict.spf.value
    yield "dkim", verdict.dkim.value
    yield "dmarc", verdict.dmarc.value
    for code in verdict.details:
        yield "detail", code, VERDICT_DETAILS[code]
