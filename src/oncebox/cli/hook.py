"""``oncebox hook``: is a webhook's signature good, and if not, what went wrong."""

import os
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from oncebox import clock
from oncebox.cli import failures, vectors
from oncebox.cli.call import Call, examples, with_call
from oncebox.cli.progress import steps
from oncebox.errors import ConfigInvalid, KeyWanted, OnceboxError, SchemeInvalid, SignatureInvalid
from oncebox.signature import schemes
from oncebox.signature.explanation import explain
from oncebox.signature.handshakes import handshake
from oncebox.signature.request import Request
from oncebox.signature.scheme import Options, Scheme
from oncebox.signature.tuning import check
from oncebox.signature.verification import REASONS, Verdict, verify_strictly

_COLUMNS = ("scheme", "signature in", "signed", "algorithm", "window", "id", "type", "note")
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


class _Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one request."""

    verdict: str
    reason: str | None = None
    #: the place of the secret that fits, counted from one
    secret: int | None = None
    freshness: str | None = None
    signed_at: int | None = None
    explanation: list[str] | None = None


@click.command(
    "verify",
    epilog=examples(
        "oncebox hook verify --scheme github --secret env:GITHUB_SECRET "
        "--header 'X-Hub-Signature-256: sha256=…' --body-file push.json --explain",
        "oncebox hook verify --batch vectors.json --json",
    ),
)
@click.argument("stdin", required=False, type=click.Choice(["-"]), metavar="[-]")
@click.option("--scheme", "name", metavar="NAME", help="As `oncebox hook schemes` lists them.")
@click.option(
    "--secret",
    "secrets",
    multiple=True,
    metavar="SECRET",
    help="env:NAME, file:PATH or the secret itself; repeatable.",
)
@click.option("--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="Repeatable.")
@click.option("--body", metavar="TEXT", help="The body itself.")
@click.option(
    "--body-file",
    type=_FILE,
    metavar="FILE",
    help="A file that holds the raw body; - alone reads standard input.",
)
@click.option(
    "--method", default="POST", show_default=True, metavar="METHOD", help="Of the request."
)
@click.option("--url", default="", metavar="URL", help="The address as the sender knows it.")
@click.option("--now", metavar="TIME", help="When it came: seconds since 1970, or a date.  [now]")
@click.option(
    "--option",
    "tuning",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the scheme, such as window=600 or header=X-Sig; repeatable.",
)
@click.option("--explain", "wordy", is_flag=True, help="Say what went wrong.")
@click.option("--batch", type=_FILE, metavar="FILE", help="Judge recorded requests instead.")
@with_call
def verify(  # noqa: PLR0913 - a request simply has this many sides
    call: Call,
    *,
    stdin: str | None,
    name: str | None,
    secrets: tuple[str, ...],
    headers: tuple[str, ...],
    body: str | None,
    body_file: Path | None,
    method: str,
    url: str,
    now: str | None,
    tuning: tuple[str, ...],
    wordy: bool,
    batch: Path | None,
) -> int:
    """Say whether a request is what its sender signed, and fresh.

    The exit code is 1 if it is not. With --batch, one line is printed for each recorded request,
    and the exit code is 1 only if one of them names a scheme that does not exist.

    """
    if batch is not None:
        return _judge_all(call, batch)
    if name is None:
        message = "name the scheme with --scheme, or recorded requests with --batch"
        raise click.UsageError(message)
    scheme, options = schemes.find(name), _options(tuning)
    keys = [_secret(text) for text in secrets]
    check(scheme, keys, options)
    request = Request(
        method=method,
        url=url,
        headers=tuple(_header(text) for text in headers),
        body=_body(stdin=stdin, text=body, file=body_file),
    )
    found = _judge(scheme, request, keys, options, _moment(now), wordy=wordy)
    _print(call, found)
    return failures.ERROR if found.verdict == "invalid" else failures.OK


@click.command("schemes", epilog=examples("oncebox hook schemes --json | jq -r .name"))
@with_call
def list_(call: Call) -> int:
    """List the schemes, and what their signatures cover.

    A * marks an id or a type that is not signed: anybody on the way could have written it.

    """
    broken: list[OnceboxError] = []
    found: list[Scheme] = []
    for name in schemes.names():
        try:
            found.append(schemes.find(name))
        except SchemeInvalid as error:
            broken.append(error)
    if call.out.as_json:
        for scheme in found:
            call.out.record(_facts(scheme))
    elif call.out.quiet:
        for scheme in found:
            call.out.line(scheme.name)
    else:
        call.out.table(_COLUMNS, [_row(scheme) for scheme in found])
    for each in broken:
        failures.tell(each, as_json=call.out.as_json)
    return failures.ERROR if broken else failures.OK


def _judge_all(call: Call, path: Path) -> int:
    failed = False
    for vector in steps(call.out, "judged", vectors.load(path)):
        try:
            found = vectors.judge(vector)
        except OnceboxError as error:
            # One that cannot be judged is an error; it does not hide the verdicts on the others.
            failures.tell(error, as_json=call.out.as_json)
            failed = True
            continue
        if call.out.as_json:
            call.out.record(found)
        else:
            call.out.line(found.id, found.verdict, found.reason)
    return failures.ERROR if failed else failures.OK


def _judge(
    scheme: Scheme,
    request: Request,
    secrets: list[str],
    options: Options,
    now: int,
    *,
    wordy: bool,
) -> _Finding:
    words = explain(scheme, request, secrets, now=now, options=options) if wordy else None
    try:
        if handshake(scheme, request, secrets, now=now, options=options) is not None:
            return _Finding(verdict="challenge", explanation=words and [_HANDSHAKE])
        verdict = verify_strictly(scheme, request, secrets, now=now, options=options)
    except SignatureInvalid as error:
        return _Finding(verdict="invalid", reason=error.reason, explanation=words)
    except KeyWanted as error:
        return _Finding(verdict="invalid", reason=error.code, explanation=words)
    return _valid(verdict, words)


_HANDSHAKE = "It is a handshake, which Oncebox answers."


def _valid(verdict: Verdict, words: list[str] | None) -> _Finding:
    return _Finding(
        verdict="valid",
        secret=verdict.secret + 1 or None,
        freshness=verdict.freshness,
        signed_at=verdict.signed_at,
        explanation=words,
    )


def _print(call: Call, found: _Finding) -> None:
    if call.out.as_json:
        call.out.record(found)
        return
    if call.out.quiet:
        return
    call.out.line(*_told(found))
    for sentence in found.explanation or ():
        call.out.line(sentence)


def _told(found: _Finding) -> list[str]:
    """Return the verdict as the cells of a line; a full explanation says the reason itself."""
    if found.reason is None:
        which = f"secret {found.secret}" if found.secret else ""
        return [each for each in (found.verdict, found.freshness, which) if each]
    if found.explanation:
        return [found.verdict, found.reason]
    return [found.verdict, found.reason, REASONS.get(found.reason, "")]


def _secret(text: str) -> str:
    kind, _, rest = text.partition(":")
    if kind == "env":
        value = os.environ.get(rest)
        if value is None:
            message = f"the environment has no {rest}"
            raise ConfigInvalid(message)
        return value
    if kind == "file":
        try:
            return Path(rest).read_text().removesuffix("\n").removesuffix("\r")
        except (OSError, UnicodeDecodeError) as error:
            message = f"the secret in {rest} cannot be read"
            raise ConfigInvalid(message) from error
    return text


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        message = "a header looks like 'Name: value'"
        raise click.BadParameter(message, param_hint="--header")
    return name.strip(), value.strip()


def _body(*, stdin: str | None, text: str | None, file: Path | None) -> bytes:
    if sum(each is not None for each in (stdin, text, file)) > 1:
        message = "give the body once: --body TEXT, --body-file FILE, or - for standard input"
        raise click.UsageError(message)
    if file is not None:
        return file.read_bytes()
    if stdin is not None:
        return sys.stdin.buffer.read()
    return (text or "").encode("utf-8", "surrogateescape")


def _moment(text: str | None) -> int:
    if text is None:
        return clock.system()
    try:
        if text.replace(".", "", 1).isdecimal():
            return int(float(text) * 1000)
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        message = "a time looks like 1700000000 or 2026-01-31T12:00:00Z"
        raise click.BadParameter(message, param_hint="--now") from error


def _options(texts: tuple[str, ...]) -> Options:
    values: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            message = "an option looks like name=value"
            raise click.BadParameter(message, param_hint="--option")
        if name in {"topics", "volatile"}:
            values.setdefault(name, []).append(value)
        else:
            values[name] = value
    try:
        return msgspec.convert(values, Options, strict=False)
    except msgspec.ValidationError as error:
        raise click.BadParameter(str(error), param_hint="--option") from error


def _facts(scheme: Scheme) -> dict[str, object]:
    return {
        "name": scheme.name,
        "title": scheme.title,
        "header": scheme.header or None,
        "content": scheme.content or None,
        "algorithm": scheme.hashes,
        "encoding": scheme.encoding,
        "window": scheme.window,
        "late": scheme.late,
        "covers": list(scheme.covers),
        "id": [{"place": place.path, "signed": place.signed} for place in scheme.id],
        "id_signed": scheme.id_signed,
        "type": [{"place": place.path, "signed": place.signed} for place in scheme.type],
        "type_signed": scheme.type_signed,
        "batch": scheme.batch or None,
        "volatile": list(scheme.volatile),
        "takes": list(scheme.takes),
        "note": scheme.note or None,
    }


def _row(scheme: Scheme) -> tuple[object, ...]:
    return (
        scheme.name,
        scheme.header or "the body",
        ", ".join(scheme.covers) or "nothing",
        scheme.hashes,
        "" if scheme.window is None else f"{scheme.window} s",
        _places(scheme.id),
        _places(scheme.type),
        scheme.note,
    )


def _places(places: tuple[Any, ...]) -> str:
    return ", ".join(f"{place.path}{'' if place.signed else '*'}" for place in places)
