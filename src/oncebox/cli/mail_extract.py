"""``oncebox mail extract`` and ``try``: what a mail is about, as JSON and explained."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import msgspec

from oncebox.cli import failures
from oncebox.cli.call import Call, examples, with_call
from oncebox.cli.mail import raw_mail, read
from oncebox.model.candidate import Candidate, Found
from oncebox.model.message import Parsed, Status

_FILE = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
_STDIN = Path("-")
#: so many that were not chosen are shown to a person
_RUNNERS_UP = 3


@click.command(
    "extract",
    epilog=examples(
        "oncebox mail extract message.eml",
        "oncebox mail extract --json *.eml | jq -r .best.code",
    ),
)
@click.argument("files", nargs=-1, required=True, type=_FILE, metavar="FILE...")
@with_call
def extract(call: Call, *, files: tuple[Path, ...]) -> int:
    """Find the one-time code and the link that each raw mail is about; - is standard input.

    The exit code is 1 if one of the mails could not be read in full.

    """
    settings = call.settings()
    every = read(call, settings, [raw_mail(path, settings.limits.body) for path in files])
    for path, parsed in zip(files, every, strict=True):
        found = parsed.found
        if call.out.as_json:
            call.out.record({"file": str(path), **_facts(found)})
        else:
            call.out.line(path, _value(found.code), _value(found.link))
    return _exit_code(every)


@click.command("try", epilog=examples("oncebox mail try < message.eml"))
@with_call
def try_(call: Call) -> int:
    """Read one raw mail from standard input and explain what is found in it.

    Every reason is shown with the points that it counts; what is below the bar is not taken.

    """
    settings = call.settings()
    every = read(call, settings, [raw_mail(_STDIN, settings.limits.body)])
    found = every[0].found
    if call.out.as_json:
        call.out.record({"file": "-", **_facts(found)})
    else:
        call.out.outline(_story("code", found.code, found.codes, tied=found.codes_tied))
        call.out.outline(_story("link", found.link, found.links, tied=found.links_tied))
    return _exit_code(every)


def _exit_code(every: Sequence[Parsed]) -> int:
    whole = all(parsed.status is Status.PARSED for parsed in every)
    return failures.OK if whole else failures.ERROR


def _facts(found: Found) -> dict[str, object]:
    """Return what was found as JSON has it."""
    return {
        "best": {"code": _value(found.code), "link": _value(found.link)},
        "tied": {"code": found.codes_tied, "link": found.links_tied},
        "codes": msgspec.to_builtins(found.codes),
        "links": msgspec.to_builtins(found.links),
    }


def _value(candidate: Candidate | None) -> str | None:
    return None if candidate is None else candidate.value


def _story(
    kind: str, best: Candidate | None, ranked: Sequence[Candidate], *, tied: bool
) -> Iterator[tuple[object, ...]]:
    """Yield what was chosen, why, and what was not."""
    if best is not None:
        yield kind, best.value, f"confidence {best.confidence:.2f}, {best.score} points"
    elif tied:
        yield kind, "(tied)", "two are as good as each other, and nobody can tell which is meant"
    else:
        yield kind, "(none)", "nothing reaches the bar" if ranked else "nothing looks like one"
    if best is not None:
        yield from _reasons(best)
    others = [each for each in ranked if best is None or each.value != best.value]
    for other in others[:_RUNNERS_UP]:
        yield "not taken" if not tied else "perhaps", other.value, f"{other.score} points"
        yield from _reasons(other)


def _reasons(candidate: Candidate) -> Iterator[tuple[object, ...]]:
    yield "", "stands in", f"{candidate.where}, from {candidate.start} to {candidate.end}"
    if candidate.wrapped:
        yield "", "wrapped by", candidate.wrapped, candidate.target
    for reason in candidate.evidence:
        yield "", f"{reason.points:+d}", _said(reason.name)


def _said(name: str) -> str:
    """Return the name of a reason as words."""
    return _WORDS.get(name, name.replace("_", " "))


#: reasons whose names do not speak for themselves
_WORDS = {
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
