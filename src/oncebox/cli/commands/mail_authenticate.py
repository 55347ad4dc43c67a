"""`oncebox mail authenticate`: SPF, DKIM and DMARC of a raw mail."""

import asyncio
import ipaddress
from collections.abc import Iterator
from pathlib import Path

import click

from oncebox.cli.commands.mail import read_raw_mail
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

_FILE = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)


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
@click.argument("file", type=_FILE)
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
    believed = is_sender_proven(verdict, parsed.sender.domain)
    if call.out.as_json:
        call.out.record(
            {**_verdict_record(verdict), "from": parsed.sender.domain, "trusted": believed}
        )
    elif call.out.quiet:
        call.out.line("trusted" if believed else "unproven")
    else:
        call.out.outline(_verdict_lines(parsed, verdict, believed=believed))
    return failures.OK if believed else failures.ERROR


async def _authenticate(
    settings: Settings, envelope: Envelope, raw: bytes
) -> tuple[ParsedMail, SenderVerdict]:
    judge = make_authenticator(settings.mail)
    async with ParserPool(settings.parser, Telemetry()) as parsers:
        parsed = await parsers.parse(raw)
        return parsed, await judge.authenticate(envelope, parsed, raw, parsers.check)


def _verdict_record(verdict: SenderVerdict) -> dict[str, object]:
    return {name: getattr(verdict, name) for name in verdict.__struct_fields__}


def _verdict_lines(
    parsed: ParsedMail, verdict: SenderVerdict, *, believed: bool
) -> Iterator[tuple[object, ...]]:
    """Yield what a person wants to know, line by line."""
    yield "from", parsed.sender.domain or f"({parsed.sender.standing})"
    yield "sender", "trusted" if believed else "unproven"
    yield "spf", verdict.spf.value
    yield "dkim", verdict.dkim.value
    yield "dmarc", verdict.dmarc.value
    for code in verdict.details:
        yield "detail", code, VERDICT_DETAILS[code]
