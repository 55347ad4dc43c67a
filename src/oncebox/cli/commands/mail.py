"""`oncebox mail parse|extract|try`: parse a raw mail, and extract its code and link."""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import msgspec

from oncebox.cli.context import CommandContext, examples, with_context
from oncebox.cli.output import failures, times
from oncebox.cli.output.printer import Block
from oncebox.cli.output.progress import Advance, count_progress
from oncebox.core.metrics import Telemetry
from oncebox.errors import BodyTooLarge
from oncebox.model.inboxes.received_mail import (
    Candidate,
    Extraction,
    HeaderAddress,
    ParsedMail,
    ParseStatus,
    SenderStatus,
)
from oncebox.settings import Settings
from oncebox.workers.mail.parser_pool import ParserPool

RAW_MAIL = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
_STDIN = Path("-")


@click.command(
    "parse",
    epilog=examples(
        "oncebox mail parse message.eml",
        "oncebox mail parse --json *.eml | jq -r .subject",
        "oncebox message raw msg_… | oncebox mail parse -",
    ),
)
@click.argument("files", nargs=-1, required=True, type=RAW_MAIL, metavar="FILE...")
@with_context
def parse(call: CommandContext, *, files: tuple[Path, ...]) -> int:
    """Parse raw mails; - reads standard input.

    Mail is parsed as the service does it, in a process with limits. The exit code is 1 if one of
    them could not be parsed completely.

    """
    every = _parse_files(call, files)
    for path, parsed in zip(files, every, strict=True):
        if call.out.as_json:
            call.out.record({"file": str(path), **_mail_record(parsed)})
        elif call.out.quiet:
            call.out.line(parsed.status.value)
        else:
            call.out.outline(_mail_lines(path, parsed))
    return _exit_code(every)


def _parse_files(call: CommandContext, files: Sequence[Path]) -> list[ParsedMail]:
    """Parse mails in processes with limits, and show the progress."""
    settings = call.settings()
    mails = [read_raw_mail(path, settings.limits.body) for path in files]
    with count_progress(call.out, "read", len(mails)) as advance:
        return asyncio.run(_parse_all(settings, mails, advance))


async def _parse_all(settings: Settings, mails: list[bytes], advance: Advance) -> list[ParsedMail]:
    async with ParserPool(settings.parser, Telemetry()) as parsers:

        async def parse(mail: bytes) -> ParsedMail:
            parsed = await parsers.parse(mail)
            advance(1)
            return parsed

        return await asyncio.gather(*map(parse, mails))


def _exit_code(every: Sequence[ParsedMail]) -> int:
    complete = all(parsed.status is ParseStatus.PARSED for parsed in every)
    return failures.OK if complete else failures.ERROR


def read_raw_mail(path: Path, limit: int) -> bytes:
    """Return the bytes of a mail.

    Raises: BodyTooLarge.
    """
    if path == _STDIN:
        raw = sys.stdin.buffer.read(limit + 1)
    else:
        with path.open("rb") as opened:
            raw = opened.read(limit + 1)
    if len(raw) > limit:
        raise BodyTooLarge(f"{path} is over the limit of {limit} bytes (ONCEBOX_LIMITS__BODY)")
    return raw


def _mail_record(parsed: ParsedMail) -> dict[str, object]:
    """Return all fields; hashes in hexadecimal, repeated headers as arrays."""
    fields: dict[str, object] = msgspec.to_builtins(parsed)
    del fields["found"]  # ``mail extract`` has it
    mark = parsed.message_mark
    return {
        **fields,
        "headers": {name: list(values) for name, values in parsed.headers},
        "identity": parsed.identity.hex() or None,
        "message_mark": mark.hex() if mark else None,
        "outline": parsed.outline.hex() or None,
    }


def _mail_lines(path: Path, parsed: ParsedMail) -> Iterator[tuple[object, ...]]:
    yield "file", path
    yield "status", parsed.status.value
    sender = parsed.sender
    single = sender.standing is SenderStatus.SINGLE
    author = HeaderAddress(name=sender.name, address=sender.address)
    yield "from", _address_text(author) if single else f"({sender.standing.value})"
    for name, people in (("to", parsed.to), ("cc", parsed.cc), ("reply-to", parsed.reply_to)):
        if people:
            yield name, ", ".join(map(_address_text, people))
    yield "subject", parsed.subject
    if parsed.date is not None:
        yield "date", times.iso_time(parsed.date)
    yield "message-id", parsed.message_id
    for each in parsed.attachments:
        size = f"{each.size} bytes"
        yield "attachment", each.number, each.media_type, size, each.sha256[:12], each.name
    if parsed.warnings:
        yield "warnings", ", ".join(parsed.warnings)
    yield "text from", parsed.text_from
    yield "text", Block(parsed.text)
    yield "hidden", Block(parsed.hidden)


def _address_text(person: HeaderAddress) -> str:
    return f"{person.name} <{person.address}>" if person.name else person.address


#: number of other candidates that are shown
_MAX_RUNNERS_UP = 3


@click.command(
    "extract",
    epilog=examples(
        "oncebox mail extract message.eml",
        "oncebox mail extract --json *.eml | jq -r .best.code",
    ),
)
@click.argument("files", nargs=-1, required=True, type=RAW_MAIL, metavar="FILE...")
@with_context
def extract(call: CommandContext, *, files: tuple[Path, ...]) -> int:
    """Extract the one-time code and the link of each raw mail; - reads standard input.

    The exit code is 1 if one of the mails could not be parsed completely.

    """
    every = _parse_files(call, files)
    for path, parsed in zip(files, every, strict=True):
        found = parsed.found
        if call.out.as_json:
            call.out.record({"file": str(path), **_extraction_record(found)})
        else:
            call.out.line(path, _candidate_value(found.code), _candidate_value(found.link))
    return _exit_code(every)


@click.command("try", epilog=examples("oncebox mail try < message.eml"))
@with_context
def try_(call: CommandContext) -> int:
    """Read one raw mail from standard input and explain what is extracted.

    Every reason is shown with its points; candidates below the threshold are not used.

    """
    every = _parse_files(call, [_STDIN])
    found = every[0].found
    if call.out.as_json:
        call.out.record({"file": "-", **_extraction_record(found)})
    else:
        call.out.outline(_candidate_lines("code", found.code, found.codes, tied=found.codes_tied))
        call.out.outline(_candidate_lines("link", found.link, found.links, tied=found.links_tied))
    return _exit_code(every)


def _extraction_record(found: Extraction) -> dict[str, object]:
    return {
        "best": {"code": _candidate_value(found.code), "link": _candidate_value(found.link)},
        "tied": {"code": found.codes_tied, "link": found.links_tied},
        "codes": msgspec.to_builtins(found.codes),
        "links": msgspec.to_builtins(found.links),
    }


def _candidate_value(candidate: Candidate | None) -> str | None:
    return None if candidate is None else candidate.value


def _candidate_lines(
    kind: str, best: Candidate | None, ranked: Sequence[Candidate], *, tied: bool
) -> Iterator[tuple[object, ...]]:
    """Yield the chosen candidate, the reasons, and the other candidates."""
    if best is not None:
        yield kind, best.value, f"confidence {best.confidence:.2f}, {best.score} points"
        yield from _evidence_lines(best)
    elif tied:
        yield kind, "(tied)", "two candidates are equally good, so none is used"
    else:
        why = "no candidate reaches the threshold" if ranked else "there is no candidate"
        yield kind, "(none)", why
    others = [each for each in ranked if best is None or each.value != best.value]
    for other in others[:_MAX_RUNNERS_UP]:
        yield "not used" if not tied else "possible", other.value, f"{other.score} points"
        yield from _evidence_lines(other)


def _evidence_lines(candidate: Candidate) -> Iterator[tuple[object, ...]]:
    yield "", "found in", f"{candidate.where}, from {candidate.start} to {candidate.end}"
    if candidate.wrapped:
        yield "", "wrapped by", candidate.wrapped, candidate.target
    for reason in candidate.evidence:
        yield (
            "",
            f"{reason.points:+d}",
            _REASON_TEXTS.get(reason.name, reason.name.replace("_", " ")),
        )


#: texts of reasons whose names are not clear
_REASON_TEXTS = {
    "own_line": "is alone in its line",
    "own_cell": "is alone in its table cell",
    "stands_out": "is bold, a heading or a button",
    "large_or_spaced": "is large or letter-spaced",
    "ends_line": "ends its line after a colon",
    "only_one": "nothing else has its shape",
    "repeated": "occurs more than once",
    "in_subject": "is in the subject too",
    "quoted": "is in a quotation",
    "like_a_word": "is pronounceable, as words are",
    "no_word": "has no vowels, so it is no word",
    "word": "is a word of the mail in capitals",
    "next_to_word": "a word for a code is right before it",
    "next_to_ask": "the reader is asked to enter or use it",
    "next_to_purpose": "its purpose is right before it",
    "before_code": "a word for a code is before it",
    "before_code_for": "a word for a code is before it, and the purpose of the code",
    "before_other": "the name of another number is before it",
    "before_gift": "a word for vouchers is before it",
    "before_standing": "a word for lasting passwords is before it",
    "before_password": "a word for passwords is before a few digits of a short mail",
    "before_event": "a meeting or a journey is named before it",
    "behind_code": "a word for a code is after it",
    "behind_password": "a word for passwords is after a few digits of a short mail",
    "above_code": "the lines above it mention a code",
    "above_code_for": "the lines above it mention a code and its purpose",
    "above_other": "the line above it is the name of another number",
    "below_code": "the line below it mentions a code",
    "subject_code": "the subject mentions a code",
    "word_purpose": "signing in, confirming or the like is mentioned",
    "word_ask": "the reader is asked for something",
    "word_limit": "it expires, or must not be shared",
    "short_mail": "the mail is short and mentions a purpose",
    "nothing_else": "the mail contains nothing else",
    "no_word_for_code": "the language is known, and the mail has no word for a code",
    "amounts": "there are amounts of money, and no word for a code",
    "like_a_year": "it is like a year or a date, and no purpose is mentioned",
    "receipt": "the mail is a receipt",
    "business": "the mail is about orders, bills or the like",
    "event": "the mail is about a meeting or a journey",
    "event_near": "a meeting or a journey is named shortly before it",
    "offer": "the mail is about an offer",
    "gift": "the subject is about a gift or an offer, and there are amounts of money",
    "below_worth": "the line below it says what it is worth",
    "clicked": "is the text of a link",
    "unnamed": "nothing in its sentence calls it a code or asks for it",
    "asked_for": "its use is explained to the reader",
    "begins_subject": "the subject begins with it, and the mail mentions a code",
    "discussion": "the mail is a reply, an issue or a patch",
    "captioned": "one or two words and a colon are before it",
    "circular": "the mail is a newsletter, and its subject asks for nothing",
}
