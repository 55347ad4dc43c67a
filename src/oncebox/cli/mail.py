"""``oncebox mail``: what is read from a mail, shown to a person or as JSON."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from oncebox.cli import failures, words
from oncebox.cli.call import Call, examples, with_call
from oncebox.cli.progress import Advance, count
from oncebox.config import Settings
from oncebox.errors import BodyTooLarge
from oncebox.model.message import Address, Parsed, SenderStanding, Status
from oncebox.telemetry import Telemetry
from oncebox.worker.parsers import Parsers

_FILE = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
_STDIN = Path("-")


@click.command(
    "parse",
    epilog=examples(
        "oncebox mail parse message.eml",
        "oncebox mail parse --json *.eml | jq -r .subject",
        "oncebox message raw msg_… | oncebox mail parse -",
    ),
)
@click.argument("files", nargs=-1, required=True, type=_FILE, metavar="FILE...")
@with_call
def parse(call: Call, *, files: tuple[Path, ...]) -> int:
    """Show what is read from raw mails; - is standard input.

    It is read as the service reads it, by a process under limits. The exit code is 1 if one of
    them could not be read in full.

    """
    settings = call.settings()
    mails = [raw_mail(path, settings.limits.body) for path in files]
    every = read(call, settings, mails)
    for path, parsed in zip(files, every, strict=True):
        if call.out.as_json:
            call.out.record({"file": str(path), **_facts(parsed)})
        elif call.out.quiet:
            call.out.line(parsed.status.value)
        else:
            call.out.outline(_rows(path, parsed))
    whole = all(parsed.status is Status.PARSED for parsed in every)
    return failures.OK if whole else failures.ERROR


def read(call: Call, settings: Settings, mails: list[bytes]) -> list[Parsed]:
    """Return what is read from mails, by processes under limits; say how far it is."""
    with count(call.out, "read", len(mails)) as advance:
        return asyncio.run(_parse(settings, mails, advance))


async def _parse(settings: Settings, mails: list[bytes], advance: Advance) -> list[Parsed]:
    async with Parsers(settings.parser, Telemetry()) as parsers:

        async def parse(mail: bytes) -> Parsed:
            parsed = await parsers.parse(mail)
            advance(1)
            return parsed

        return await asyncio.gather(*map(parse, mails))


def raw_mail(path: Path, limit: int) -> bytes:
    """Return the bytes of a mail.

    Raises: BodyTooLarge.
    """
    if path == _STDIN:
        raw = sys.stdin.buffer.read(limit + 1)
    else:
        with path.open("rb") as opened:
            raw = opened.read(limit + 1)
    if len(raw) > limit:
        message = f"{path} is over the limit of {limit} bytes (ONCEBOX_LIMITS__BODY)"
        raise BodyTooLarge(message)
    return raw


def _facts(parsed: Parsed) -> dict[str, object]:
    """Return everything as JSON has it; hashes in hexadecimal, repeated headers as arrays."""
    facts: dict[str, object] = msgspec.to_builtins(parsed)
    del facts["found"]  # ``mail extract`` tells it
    mark = parsed.message_mark
    return {
        **facts,
        "headers": {name: list(values) for name, values in parsed.headers},
        "identity": parsed.identity.hex() or None,
        "message_mark": mark.hex() if mark else None,
        "outline": parsed.outline.hex() or None,
    }


def _rows(path: Path, parsed: Parsed) -> Iterator[tuple[object, ...]]:
    """Yield what a person wants to know, line by line."""
    yield "file", path
    yield "status", parsed.status.value
    yield "from", _sender(parsed)
    for name, people in (("to", parsed.to), ("cc", parsed.cc), ("reply-to", parsed.reply_to)):
        if people:
            yield name, ", ".join(map(_person, people))
    yield "subject", parsed.subject
    if parsed.date is not None:
        yield "date", words.moment(parsed.date)
    yield "message-id", parsed.message_id
    for each in parsed.attachments:
        size = f"{each.size} bytes"
        yield "attachment", each.number, each.media_type, size, each.sha256[:12], each.name
    if parsed.warnings:
        yield "warnings", ", ".join(parsed.warnings)
    yield "text from", parsed.text_from
    for line in parsed.text.splitlines():
        yield "text", line
    for line in parsed.hidden.splitlines():
        yield "hidden", line


def _sender(parsed: Parsed) -> str:
    sender = parsed.sender
    if sender.standing is not SenderStanding.SINGLE:
        return f"({sender.standing.value})"
    return _person(Address(name=sender.name, address=sender.address))


def _person(person: Address) -> str:
    return f"{person.name} <{person.address}>" if person.name else person.address
