"""`oncebox mail parse|extract|try`: parse a raw mail, and extract its code and link."""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import msgspec

from oncebox.cli.context import CommandContext, examples, with_context
from oncebox.cli.output import failures, times
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
@with_context
def parse(call: CommandContext, *, files: tuple[Path, ...]) -> int:
    """Parse raw mails; - reads standard input.

    Mail is parsed as the service does it, in a process with limits. The exit code is 1 if one of
    them could not be parsed completely.

    """
    settings = call.settings()
    mails = [read_raw_mail(path, settings.limits.body) for path in files]
    every = parse_mails(call, settings, mails)
    for path, parsed in zip(files, every, strict=True):
        if call.out.as_json:
            call.out.record({"file": str(path), **_mail_record(parsed)})
        elif call.out.quiet:
            call.out.line(parsed.status.value)
        else:
            call.out.outline(_mail_lines(path, parsed))
    whole = all(parsed.status is ParseStatus.PARSED for parsed in every)
    return failures.OK if whole else failures.ERROR


def parse_mails(call: CommandContext, settings: Settings, mails: list[bytes]) -> list[ParsedMail]:
    """Return what is read from mails, by processes under limits; say how far it is."""
    with count_progress(call.out, "read", len(mails)) as advance:
        return asyncio.run(_parse_all(settings, mails, advance))


async def _parse_all(settings: Settings, mails: list[bytes], advance: Advance) -> list[ParsedMail]:
    async with ParserPool(settings.parser, Telemetry()) as parsers:

        async def parse(mail: bytes) -> ParsedMail:
            parsed = await parsers.parse(mail)
            advance(1)
            return parsed

        return await asyncio.gather(*map(parse, mails))


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


def _mail_lines(path: Path, parsed: ParsedMail) -> Iterator[tuple[object, ...]]:
    """Yield what a person wants to know, line by line."""
    yield "file", path
    yield "status", parsed.status.value
    yield "from", _sender_text(parsed)
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
    for line in parsed.text.splitlines():
        yield "text", line
    for line in parsed.hidden.splitlines():
        yield "hidden", line


def _sender_text(parsed: ParsedMail) -> str:
    sender = parsed.sender
    if sender.standing is not SenderStatus.SINGLE:
        return f"({sender.standing.value})"
    return _address_text(HeaderAddress(name=sender.name, address=sender.address))


def _address_text(person: HeaderAddress) -> str:
    return f"{person.name} <{person.address}>" if person.name else person.address


#: so many that were not chosen are shown to a person
_MAX_RUNNERS_UP = 3


@click.command(
    "extract",
    epilog=examples(
        "oncebox mail extract message.eml",
        "oncebox mail extract --json *.eml | jq -r .best.code",
    ),
)
@click.argument("files", nargs=-1, required=True, type=_FILE, metavar="FILE...")
@with_context
def extract(call: CommandContext, *, files: tuple[Path, ...]) -> int:
    """Extract the one-time code and the link of each raw mail; - reads standard input.

    The exit code is 1 if one of the mails could not be parsed completely.

    """
    settings = call.settings()
    every = parse_mails(
        call, settings, [read_raw_mail(path, settings.limits.body) for path in files]
    )
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
    settings = call.settings()
    every = parse_mails(call, settings, [read_raw_mail(_STDIN, settings.limits.body)])
    found = every[0].found
    if call.out.as_json:
        call.out.record({"file": "-", **_extraction_record(found)})
    else:
        call.out.outline(_candidate_lines("code", found.code, found.codes, tied=found.codes_tied))
        call.out.outline(_candidate_lines("link", found.link, found.links, tied=found.links_tied))
    return _exit_code(every)


def _exit_code(every: Sequence[ParsedMail]) -> int:
    whole = all(parsed.status is ParseStatus.PARSED for parsed in every)
    return failures.OK if whole else failures.ERROR


def _extraction_record(found: Extraction) -> dict[str, object]:
    """Return what was found as JSON has it."""
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
    """Yield what was chosen, why, and what was not."""
    if best is not None:
        yield kind, best.value, f"confidence {best.confidence:.2f}, {best.score} points"
    elif tied:
        yield kind, "(tied)", "two candidates are equally good, so none is used"
    else:
        yield kind, "(none)", "nothing reaches the bar" if ranked else "nothing looks like one"
    if best is not None:
        yield from _evidence_lines(best)
    others = [each for each in ranked if best is None or each.value != best.value]
    for other in others[:_MAX_RUNNERS_UP]:
        yield "not taken" if not tied else "perhaps", other.value, f"{other.score} points"
        yield from _evidence_lines(other)


def _evidence_lines(candidate: Candidate) -> Iterator[tuple[object, ...]]:
    yield "", "stands in", f"{candidate.where}, from {candidate.start} to {candidate.end}"
    if candidate.wrapped:
        yield "", "wrapped by", candidate.wrapped, candidate.target
    for reason in candidate.evidence:
        yield "", f"{reason.points:+d}", _reason_text(reason.name)


def _reason_text(name: str) -> str:
    """Return the name of a reason as words."""
    return _REASON_TEXTS.get(name, name.replace("_", " "))


#: reasons whose names do not speak for themselves
_REASON_TEXTS = {
    "own_line": "has a line to itself",
    "own_cell": "has a cell to itself",
    "stands_out": "is bold, a heading or a button",
    "large_or_spaced": "is large or spaced out",
    "ends_line": "ends its line behind a colon",
    "only_one": "nothing else is written like it",
    "repeated": "stands there more than once",
    "in_subject": "stands in the subject too",
    "quoted": "stands in a quotation",
    "like_a_word": "can be spoken, as words can",
    "no_word": "cannot be spoken, as codes cannot",
    "word": "is a word of the mail in capitals",
    "next_to_word": "the word for a code is right beside it",
    "next_to_ask": "the reader is asked to enter or use it",
    "next_to_purpose": "what it is for stands right before it",
    "before_code": "a word for a code stands before it",
    "before_code_for": "a word for a code stands before it, and what the code is for",
    "before_other": "the name of some other number stands before it",
    "before_gift": "a word for vouchers stands before it",
    "before_standing": "a word for passwords that stay stands before it",
    "before_password": "a word for passwords stands before a few digits of a short mail",
    "before_event": "a gathering or a journey is named before it",
    "behind_code": "a word for a code stands behind it",
    "behind_password": "a word for passwords stands behind a few digits of a short mail",
    "above_code": "the lines above it speak of a code",
    "above_code_for": "the lines above it speak of a code, and what the code is for",
    "above_other": "the line above it is the name of some other number",
    "below_code": "the line below it speaks of a code",
    "subject_code": "the subject speaks of a code",
    "word_purpose": "signing in, confirming or the like is spoken of",
    "word_ask": "the reader is asked for something",
    "word_limit": "it expires, or must not be shared",
    "short_mail": "the mail is short and says what it is for",
    "nothing_else": "there is nothing else in the mail",
    "no_word_for_code": "the language is known, and no word for a code is in the mail",
    "amounts": "there are amounts of money, and no word for a code",
    "like_a_year": "it is like a year or a date, and nothing says what it is for",
    "receipt": "the mail is a receipt",
    "business": "the mail is about orders, bills or the like",
    "event": "the mail is about a gathering or a journey",
    "event_near": "a gathering or a journey is named shortly before it",
    "offer": "the mail is about an offer",
    "gift": "the subject is about a gift or an offer, and there are amounts of money",
    "below_worth": "the line below it says what it is worth",
    "clicked": "is the text of a link",
    "unnamed": "nothing in its sentence calls it a code or asks for it",
    "asked_for": "the reader is told what to use it for",
    "begins_subject": "the subject begins with it, and the mail speaks of a code",
    "discussion": "the mail is an answer, an issue or a patch",
    "captioned": "a word or two and a colon stand before it",
    "circular": "the mail goes to many, and its subject asks for nothing",
}
