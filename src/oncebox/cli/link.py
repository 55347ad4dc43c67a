"""``oncebox link``: may a link be handed out, and if not, why."""

import json
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from oncebox.cli import failures
from oncebox.cli.call import Call, examples, with_call
from oncebox.errors import ConfigInvalid
from oncebox.mail import linkpolicy
from oncebox.mail.linkpolicy import LinkVerdict, Resolve

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_SAID = {True: "allow", False: "block"}


class _Case(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded link, and what is needed to judge it."""

    id: str
    url: str
    allowlist: list[str] = []
    local: list[str] = []
    #: what a resolver answers; without, none is asked
    dns: dict[str, list[str] | None] | None = None


@click.command(
    "check",
    epilog=examples(
        "oncebox link check 'https://app.example.com/verify?token=…' --allow app.example.com",
        "oncebox link check http://localhost:3000/verify --local http://localhost:3000",
        "oncebox link check --batch cases.jsonl --json",
    ),
)
@click.argument("url", required=False, metavar="URL")
@click.option(
    "--allow",
    "allow",
    multiple=True,
    metavar="HOST",
    help="A host, *.host, https://host/path/, or * for any public name; repeatable.",
)
@click.option(
    "--local",
    "local",
    multiple=True,
    metavar="ORIGIN",
    help="An exact origin for tests, such as http://localhost:3000; repeatable.",
)
@click.option("--batch", type=_FILE, metavar="FILE", help="Judge recorded links instead.")
@with_call
def check(
    call: Call,
    *,
    url: str | None,
    allow: tuple[str, ...],
    local: tuple[str, ...],
    batch: Path | None,
) -> int:
    """Say whether a link may be handed out, as the service would.

    Nothing is fetched or looked up. The exit code is 1 if the link is refused. With --batch, one
    line is printed for each recorded link.

    """
    if batch is not None:
        for case in _cases(batch):
            _print_case(call, case)
        return failures.OK
    if url is None:
        message = "give a link, or recorded ones with --batch"
        raise click.UsageError(message)
    entries = [linkpolicy.check_entry(text) for text in allow]
    origins = [linkpolicy.check_origin(text) for text in local]
    found = linkpolicy.judge(url, entries, local=origins)
    _print(call, found)
    return failures.OK if found.allowed else failures.ERROR


def _print_case(call: Call, case: _Case) -> None:
    found = linkpolicy.judge(
        case.url, case.allowlist, local=case.local, resolve=_resolver(case.dns)
    )
    if call.out.as_json:
        said = {"id": case.id, "verdict": _SAID[found.allowed], "reason": found.reason}
        call.out.record(said)
    else:
        call.out.line(f"{case.id}  {_SAID[found.allowed]}  {found.reason}")


def _print(call: Call, found: LinkVerdict) -> None:
    if call.out.as_json:
        call.out.record({
            "verdict": _SAID[found.allowed], "reason": found.reason, "url": found.canonical,
            "host": found.host, "token": found.token, "parameters": found.parameters,
        })  # fmt: skip
    elif call.out.quiet:
        call.out.line(_SAID[found.allowed])
    else:
        call.out.outline(list(_rows(found)))


def _rows(found: LinkVerdict) -> Iterator[tuple[str, str]]:
    yield "verdict", f"{_SAID[found.allowed]} ({found.reason})"
    if found.host:
        yield "host", found.host
    if found.allowed:
        yield "link", found.canonical
        if found.token:
            yield "token", found.token
        for name, value in found.parameters:
            yield f"parameter {name}", value


def _cases(path: Path) -> list[_Case]:
    """Return the cases of a file, an object a line.

    Raises: ConfigInvalid.
    """
    lines = [line for line in path.read_bytes().split(b"\n") if line.strip()]
    try:
        # Python's own reader takes halves of characters too, and they are to be judged.
        return [msgspec.convert(json.loads(line), _Case) for line in lines]
    except (ValueError, msgspec.ValidationError) as error:
        message = f"{path} is not a list of links, an object a line"
        raise ConfigInvalid(message) from error


def _resolver(answers: dict[str, list[str] | None] | None) -> Resolve | None:
    if answers is None:
        return None
    known = {name.lower(): addresses for name, addresses in answers.items()}
    return known.get
