"""``oncebox mail authenticate``: who sent a mail, as the service would judge it."""

import asyncio
import ipaddress
from collections.abc import Iterator
from pathlib import Path

import click

from oncebox.cli import failures
from oncebox.cli.call import Call, examples, with_call
from oncebox.cli.mail import raw_mail
from oncebox.config import Settings
from oncebox.model.envelope import Envelope
from oncebox.model.message import Parsed
from oncebox.model.verdict import DETAILS, Verdict, trusted
from oncebox.telemetry import Telemetry
from oncebox.worker.authenticator import authenticator
from oncebox.worker.parsers import Parsers

_FILE = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)


def _address(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    try:
        return str(ipaddress.ip_address(value))
    except ValueError as error:
        message = f"{value!r} is no address, such as 192.0.2.7"
        raise click.BadParameter(message) from error


@click.command(
    "authenticate",
    epilog=examples(
        "oncebox mail authenticate message.eml --from 192.0.2.7 --mail-from bounce@example.com",
        "oncebox message raw msg_… | oncebox mail authenticate - --from 192.0.2.7 --json",
    ),
)
@click.argument("file", type=_FILE)
@click.option(
    "--from", "client", required=True, metavar="IP", callback=_address, help="The client."
)
@click.option("--helo", default="", metavar="NAME", help="What the client called itself.")
@click.option("--mail-from", default="", metavar="ADDRESS", help="The envelope's sender.")
@with_call
def authenticate(call: Call, *, file: Path, client: str, helo: str, mail_from: str) -> int:
    """Check SPF, DKIM and DMARC of a raw mail; - is standard input.

    Name servers are asked. The exit code is 1 unless the sender is proven.

    """
    settings = call.settings()
    raw = raw_mail(file, settings.limits.body)
    envelope = Envelope(client=client, helo=helo, sender=mail_from, recipients=())
    parsed, verdict = asyncio.run(_judge(settings, envelope, raw))
    believed = trusted(verdict, parsed.sender.domain)
    if call.out.as_json:
        call.out.record({**_facts(verdict), "from": parsed.sender.domain, "trusted": believed})
    elif call.out.quiet:
        call.out.line("trusted" if believed else "unproven")
    else:
        call.out.outline(_rows(parsed, verdict, believed=believed))
    return failures.OK if believed else failures.ERROR


async def _judge(settings: Settings, envelope: Envelope, raw: bytes) -> tuple[Parsed, Verdict]:
    judge = authenticator(settings.mail)
    async with Parsers(settings.parser, Telemetry()) as parsers:
        parsed = await parsers.parse(raw)
        return parsed, await judge.judge(envelope, parsed, raw, parsers.check)


def _facts(verdict: Verdict) -> dict[str, object]:
    return {name: getattr(verdict, name) for name in verdict.__struct_fields__}


def _rows(parsed: Parsed, verdict: Verdict, *, believed: bool) -> Iterator[tuple[object, ...]]:
    """Yield what a person wants to know, line by line."""
    yield "from", parsed.sender.domain or f"({parsed.sender.standing})"
    yield "sender", "trusted" if believed else "unproven"
    yield "spf", verdict.spf.value
    yield "dkim", verdict.dkim.value
    yield "dmarc", verdict.dmarc.value
    for code in verdict.details:
        yield "detail", code, DETAILS[code]
